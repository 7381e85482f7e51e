"""Boolean truth straight from the definitions: plain recursion, `all` and `any`, no tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fotltn.syntax import formula as f
from fotltn.syntax.operators import Temporal as Op

Table = dict[tuple[int, ...], float]

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass
class World:
    """One trace. Tables map entity numbers, followed by the time, to values."""

    length: int
    sizes: dict[str, int] = field(default_factory=dict)
    predicates: Mapping[str, Table] = field(default_factory=dict)
    functions: Mapping[str, Table] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    relations: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    features: dict[str, list[list[float]]] = field(default_factory=dict)


def propositional(rows: Mapping[str, Sequence[float]]) -> World:
    """A trace of propositions."""
    tables: dict[str, Table] = {n: {(t,): u for t, u in enumerate(r)} for n, r in rows.items()}
    return World(len(next(iter(rows.values()))), predicates=tables)


def lookup(table: Table, args: tuple[float, ...], t: int) -> float:
    """A table's entry; one without time holds at all times."""
    numbers = tuple(int(a) for a in args)
    return table[(*numbers, t)] if (*numbers, t) in table else table[numbers]


def term(node: f.Term, world: World, t: int, env: Mapping[str, int]) -> float:
    """The entity number, or the number, that a term stands for."""
    match node:
        case f.Var(name):
            return env[name]
        case f.Const(name):
            return world.constants[name]
        case f.Number(value):
            return value
        case f.Apply(name, args):
            return lookup(world.functions[name], tuple(term(a, world, t, env) for a in args), t)
    raise AssertionError(node)


def bindings(
    binders: tuple[f.Binder | f.Paired, ...], world: World, env: Mapping[str, int]
) -> list[dict[str, int]]:
    """All ways to extend an assignment by what a quantifier binds."""
    found = [dict(env)]
    for item in binders:
        if isinstance(item, f.Paired):
            names = [b.name for b in item.binders]
            values = world.relations[item.relation]
        else:
            assert item.sort is not None
            names, values = [item.name], [(i,) for i in range(world.sizes[item.sort])]
        found = [e | dict(zip(names, v, strict=True)) for e in found for v in values]
    return found


def offsets(bound: f.Bound | None, strict: bool, past: bool, t: int, length: int) -> list[int]:
    """How far from `t` the operator may look without leaving the trace, the nearest first."""
    low, high = (bound.low, bound.high) if bound else (0, None)
    low = max(low, 1) if strict else low
    reach = t if past else length - 1 - t
    return list(range(low, (reach if high is None else min(high, reach)) + 1))


def holds(node: f.Formula, world: World, t: int, env: Mapping[str, int] | None = None) -> bool:
    """Whether a formula is true at time `t`."""
    env = env or {}

    def at(part: f.Formula, time: int) -> bool:
        return holds(part, world, time, env)

    match node:
        case f.Truth(value):
            return value
        case f.Edge(end):
            return t == (0 if end == "first" else world.length - 1)
        case f.Atom(name, args):
            found = tuple(term(a, world, t, env) for a in args)
            return lookup(world.predicates[name], found, t) == 1
        case f.Equal(left, right):
            return term(left, world, t, env) == term(right, world, t, env)
        case f.Compare(op, left, right):
            return COMPARE[op](term(left, world, t, env), term(right, world, t, env))
        case f.Not(arg):
            return not at(arg, t)
        case f.And(left, right):
            return at(left, t) and at(right, t)
        case f.Or(left, right):
            return at(left, t) or at(right, t)
        case f.Implies(left, right):
            return at(right, t) if at(left, t) else True
        case f.Iff(left, right):
            return at(left, t) is at(right, t)
        case f.Forall(binders, guard, body):
            return all(
                holds(body, world, t, e)
                for e in bindings(binders, world, env)
                if guard is None or holds(guard, world, t, e)
            )
        case f.Exists(binders, guard, body):
            return any(
                holds(body, world, t, e)
                for e in bindings(binders, world, env)
                if guard is None or holds(guard, world, t, e)
            )
        case f.Unary(op, arg, bound):
            if op.steps:
                away = bound.low if bound else 1
                there = t - away if op.value.past else t + away
                inside = 0 <= there < world.length
                return at(arg, there) if inside else op in (Op.WX, Op.WY)
            steps = offsets(bound, node.strict, op.value.past, t, world.length)
            sign = -1 if op.value.past else 1
            seen = (at(arg, t + sign * k) for k in steps)
            return all(seen) if op in (Op.G, Op.H) else any(seen)
        case f.Binary(op, left, right, bound):
            sign, first = (-1 if op.value.past else 1), int(node.strict)
            steps = offsets(bound, node.strict, op.value.past, t, world.length)
            within = f.Bound(0, bound.high) if bound else None
            whole = offsets(within, node.strict, op.value.past, t, world.length)
            until = any(
                at(right, t + sign * k) and all(at(left, t + sign * j) for j in range(first, k))
                for k in steps
            )
            release = all(
                at(right, t + sign * k) or any(at(left, t + sign * j) for j in range(first, k))
                for k in steps
            )
            match op:
                case Op.U | Op.S:
                    return until
                case Op.R | Op.T:
                    return release
                case Op.W:
                    return until or all(at(left, t + k) for k in whole)
                case Op.M:
                    return release and any(at(left, t + k) for k in whole)
    raise AssertionError(node)
