"""What formulas mean where entities come and go, by loops: true, false, a degree, or undefined.

It shares nothing with the rewriting in `fotltn/logic/presence.py`: a part of a formula has a value
at a point, or None.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from typing import Any

import torch

import fotltn as fot
from fotltn.logic import core as c
from fotltn.semantics.config import Semantics
from fotltn.semantics.tables import Names, Tables
from fotltn.tree import children
from tests.semantics import scalar

Here = Mapping[str, str]
ANYONE = -1  # an entity that is always there; what it is like does not matter


class Loops:
    """Values of formulas at the points of a trace, or None where undefined.

    Beyond the trace is the time None, at which nobody is there who comes and goes.

    Args:
        tables: the tables.
        trace: the number of the trace.
        here: the predicate of presence, for each sort whose entities come and go.
        semantics: the semantics of degrees; without it, truth.
        several: how many entities of a sort the trace has, if that is not all.
    """

    def __init__(
        self, tables: Tables, trace: int, here: Here, semantics: Semantics | None = None,
        several: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.tables, self.here, self.length = tables, here, tables.length(trace)
        self.semantics, self.several = semantics, several or {}
        symbols: dict[str, Any] = {**tables.predicates, **tables.functions}
        self.rows = {name: table[trace % len(table)].tolist() for name, table in symbols.items()}
        self.known: dict[Any, Any] = {}

    def value(self, node: Any, t: int | None, env: dict[Any, Any]) -> Any:
        """The value of a formula, or of a term, at a time; `env` has the entity of each axis."""
        key = (node, t, frozenset(env.items()))
        if key not in self.known:
            self.known[key] = self.find(node, t, env)
        return self.known[key]

    def find(self, node: Any, t: int | None, env: dict[Any, Any]) -> Any:
        match node:
            case c.Variable(axis, _, column):
                who = env[axis]
                return who if column is None or who == ANYONE else who[column]
            case c.Constant(name, sort):
                return self.tables.constants[sort][name]
            case c.Number(value) | c.Truth(value):
                return value
            case c.Edge(past):
                return t == (0 if past else self.length - 1)
            case c.Atom(name, args) | c.Apply(name, args):
                return self.look_up(name, [self.value(arg, t, env) for arg in args], t)
            case c.Quantifier(universal):
                values = self.over_entities(node, t, env)
                return None if values is None else self.all(values, universal, "for")
            case c.Shift(arg, steps, past, weak):
                seen = self.over_time(arg, t, c.Window(steps, steps), past, env)
                return None if seen is None else next(iter(seen.values()), weak)
            case c.Aggregate(universal, arg, window, past):
                seen = self.over_time(arg, t, window, past, env)
                return None if seen is None else self.all([*seen.values()], universal, "time")
            case c.Until():
                return self.until(node, t, env)
        parts = [self.value(part, t, env) for part in children(node)]
        if None in parts:
            return None
        if isinstance(node, c.Equal):
            return ANYONE not in parts and parts[0] == parts[1]
        if isinstance(node, c.Compare):
            return ANYONE not in parts and parts[0] > parts[1]
        return self.joined(node, [*map(float, parts)])

    def joined(self, node: Any, parts: list[float]) -> Any:
        s = self.semantics
        if s is None:
            ways: dict[Any, Any] = {
                c.Not: lambda a: not a, c.And: min, c.Or: max, c.Implies: lambda a, b: a <= b,
            }  # fmt: skip
            return bool(ways[type(node)](*parts))
        degrees: dict[Any, Any] = {
            c.Not: scalar.negate, c.And: scalar.conjoin, c.Or: scalar.disjoin,
            c.Implies: scalar.imply,
        }  # fmt: skip
        return degrees[type(node)](*parts, s)

    def all(self, seen: list[Any], universal: bool, over: str) -> Any:
        """All of some values, or any if not `universal`."""
        if (s := self.semantics) is None:
            return (all if universal else any)(seen)
        how = {
            ("for", True): s.forall, ("for", False): s.exists,
            ("time", True): s.always, ("time", False): s.eventually,
        }[over, universal]  # fmt: skip
        return scalar.aggregate([*map(float, seen)], how, universal, s)

    def until(self, node: c.Until, t: int | None, env: dict[Any, Any]) -> Any:
        dual, left, right, window, past = (
            node.dual, node.left, node.right, node.window, node.past
        )  # fmt: skip
        if self.over_time(right, t, window, past, env) is None:
            return None
        s = self.semantics
        found: list[Any] = []
        for k in self.points(t, window, past):
            assert t is not None
            before = range(k + 1, t + 1) if past else range(t, k)
            here = [self.value(right, k, env), *(self.value(left, r, env) for r in before)]
            if s is None:
                reached = here[0] is (not dual) and dual not in here[1:]
                found.append(not dual if reached else dual)
                continue
            # Where a side is undefined, its point is passed over.
            witness, *held = [
                float(u if u is not None else dual is (place == 0)) for place, u in enumerate(here)
            ]
            if dual:
                witness, held = scalar.negate(witness, s), [scalar.negate(u, s) for u in held]
            found.append(scalar.conjoin(witness, self.all(held, True, "time"), s))
        if s is None:
            return (all if dual else any)(found)
        reached = self.all(found, False, "time")
        return scalar.negate(reached, s) if dual else reached

    def points(self, t: int | None, window: c.Window, past: bool) -> list[int]:
        if t is None:
            return []
        high = min(self.length, self.length if window.high is None else window.high)
        steps = [-k if past else k for k in range(window.low, high + 1)]
        return [t + k for k in steps if 0 <= t + k < self.length]

    def over_time(
        self, part: c.Formula, t: int | None, window: c.Window, past: bool, env: dict[Any, Any]
    ) -> dict[int, Any] | None:
        """The values at the points of a window, the nearest first, where they are defined.

        Without such points, None; but nothing is lost if the window lies beyond the trace, and the
        part is about nobody who comes and goes.
        """
        points = self.points(t, window, past)
        values = {s: self.value(part, s, env) for s in points}
        seen = {s: value for s, value in values.items() if value is not None}
        return None if not seen and (points or self.value(part, None, env) is None) else seen

    def over_entities(
        self, node: c.Quantifier, t: int | None, env: dict[Any, Any]
    ) -> list[Any] | None:
        """The values for the entities for which the guard is true and the body is defined.

        Without such entities, None if even one that is always there would not make it defined.
        """
        sizes: dict[Any, int] = {**self.tables.sizes, **self.several}
        tuples = self.tables.relations
        places = [[*map(tuple, tuples[a.relation].tolist())] if a.relation else range(sizes[a.sort])
                  for a in node.axes]  # fmt: skip
        guard, seen = node.guard or c.Truth(True), []
        for who in itertools.product(*places):
            one = env | dict(zip(node.axes, who, strict=True))
            seen += [self.value(node.body, t, one)] if self.crisp(guard, t, one) else []
        seen = [value for value in seen if value is not None]
        someone = env | dict.fromkeys(node.axes, ANYONE)
        if seen:
            return seen
        needed = [self.crisp(guard, t, someone), self.value(node.body, t, someone)]
        return None if None in needed else []

    def crisp(self, guard: c.Formula, t: int | None, env: dict[Any, Any]) -> Any:
        """The truth of a guard."""
        if self.semantics is None:
            return self.value(guard, t, env)
        meaning, known = self.semantics, self.known
        self.semantics, self.known = None, {}
        found = self.value(guard, t, env)
        self.semantics, self.known = meaning, known
        return found

    def look_up(self, name: str, who: list[Any], t: int | None) -> Any:
        signature, row = self.tables.signature, self.rows[name]
        declared = signature.predicates.get(name) or signature.functions[name]
        asks = not declared.static and name not in self.here.values()
        for entity, sort in zip(who, declared.sorts, strict=True):
            if entity is None:
                return None
            comes = asks and entity != ANYONE and sort in self.here
            if comes and (t is None or not self.rows[self.here[sort]][entity][t]):
                return None
        if ANYONE in who:
            return ANYONE if name in signature.functions else False
        for entity in who:
            row = row[entity]
        found = row[0 if declared.static else t or 0]
        return bool(found) if self.semantics is None and name in signature.predicates else found


# --- random formulas and tables ------------------------------------------------------------------

THEORY = fot.check(
    fot.parse("""
    sort a, b
    constant c: a
    predicate Sick(a), Busy(b), Near(a, b), rain, HereA(a), HereB(b)
    static predicate Tall(a)
    function f(a): b
    temporal function g(b): a
    temporal function h(a): real
    relation pairs(a, b)
    """)
)
BOTH, FREE = {"a": "HereA", "b": "HereB"}, {"a": ["x"], "b": ["y"]}
LEAVES = re.split(" +", (
    "Sick({a}) Sick({a}) Busy({b}) Busy({b}) Near({a},{b}) Near({a},{b}) Tall({a}) rain "
    "HereA({a}) HereB({b}) {a}={a} {b}={b} h({a})>0.5 true first last"
))  # fmt: skip
UNARY = re.split(
    " ", "! X{k} WX{k} Y{k} WY{k} F{w} G{w} O{w} H{w} F+{s} G+{s} O+{s} H+{s} F{w} G{w}"
)
BINARY = re.split(" ", "& | -> <-> & | -> U{w} R{w} W{w} M{w} S{w} T{w} U+{s} R+{s} S+{s}")
BOUNDS = {
    "{k}": ["", "[2]", "[3]"],
    "{w}": ["", "[<=2]", "[1,3]", "[2]", "[>=1]"],
    "{s}": ["", "[<=2]", "[2,3]"],
}


def grown(r: random.Random, depth: int, scope: Mapping[str, list[str]] = FREE) -> str:
    """A random formula, as text; the scope has the variables of each sort."""

    def term(sort: str, deep: int = 2) -> str:
        if deep == 0 or (scope[sort] and r.random() < 0.85):
            return r.choice(scope[sort] or ["c" if sort == "a" else "f(c)"])
        if sort == "b":
            return f"f({term('a', deep - 1)})"
        return r.choice(["c", f"g({term('b', deep - 1)})"])

    def below(**more: str) -> str:
        return grown(r, depth - 1, {s: [*scope[s], *more.get(s, "").split()] for s in scope})

    kind, name, q = r.random(), f"v{depth}", r.choice(["forall", "exists"])
    if depth == 0 or kind < 0.1:
        return f"({re.sub('{(.)}', lambda m: term(m[1]), r.choice(LEAVES))})"
    if kind < 0.3:
        new = {r.choice("ab"): name}
        guard = f" where {below(**new)}" if r.random() < 0.4 else ""
        return f"({q} {name}: {min(new)}{guard}. {below(**new)})"
    if kind < 0.35:
        return f"({q} (l{name}, {name}) in pairs. {below(a='l' + name, b=name)})"
    op = r.choice(UNARY if kind < 0.7 else BINARY)
    op = re.sub("{.}", lambda m: r.choice(BOUNDS[m[0]]), op)
    return f"({op} {below()})" if kind < 0.7 else f"({below()} {op} {below()})"


def random_tables(r: random.Random, *, degrees: bool = False, local: bool = False) -> Tables:
    """Three traces; facts of absent entities are random, too, because they must not matter.

    With `degrees`, only what guards may read is crisp: static facts, presence and `rain`. If sorts
    are `local`, some traces have fewer entities.
    """
    sizes, horizon = {sort: r.randint(1, 4) for sort in "ab"}, r.randint(1, 7)
    signature = THEORY.signature

    def numbers(below: int, decl: Any) -> torch.Tensor:
        shape = (3, *(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
        every = range(torch.Size(shape).numel())
        return torch.tensor([r.randrange(below) for _ in every]).reshape(shape)

    facts = {name: numbers(2, decl).double() for name, decl in signature.predicates.items()}
    if degrees:
        for name in ("Sick", "Busy", "Near"):
            every = [
                r.choice([0.0, 1.0, r.random(), r.random()]) for _ in range(facts[name].numel())
            ]
            facts[name] = torch.tensor(every, dtype=torch.float64).reshape(facts[name].shape)
    for row in (row for name in BOTH.values() for trace in facts[name] for row in trace):
        start, stop, kind = r.randrange(horizon), r.randint(1, horizon), r.random()
        if kind < 0.6:
            row[:] = 1  # no gaps
        row[: start if kind > 0.2 else 0] = 0
        row[stop if kind > 0.4 else horizon :] = 0
    functions = {n: numbers(sizes.get(d.result, 2), d) for n, d in signature.functions.items()}
    functions["h"] = functions["h"].double()
    pairs = [[r.randrange(sizes[sort]) for sort in "ab"] for _ in range(r.randint(1, 4))]
    lengths = torch.tensor([r.randint(1, horizon) for _ in range(3)])
    here = r.choice([BOTH, BOTH, BOTH, {"a": "HereA"}, {"b": "HereB"}, {}])
    inside = torch.arange(horizon) < lengths.reshape(3, 1, 1)
    names = Names()
    if local:
        b = [r.randint(1, sizes["b"]) for _ in range(3)]
        names = Names(local={"b": tuple(tuple(f"b{i}" for i in range(n)) for n in b)})
        functions["f"] = torch.zeros_like(functions["f"])  # a function leads to those that exist
    return Tables(
        sizes, lengths, horizon, facts, functions, {"a": {"c": 0}}, {"pairs": torch.tensor(pairs)},
        signature=signature, names=names,
        present={sort: (facts[name] > 0) & inside for sort, name in here.items()},
        stated={sort: (name,) for sort, name in here.items()},
    )  # fmt: skip


def here_of(tables: Tables) -> Here:
    """The predicates of presence that random tables have."""
    return {sort: names[0] for sort, names in tables.stated.items()}


def by_loops(
    formula: c.Formula, axes: tuple[c.Axis, ...], tables: Tables, semantics: Semantics | None = None
) -> list[Any]:
    """The values at all points of all bindings and traces."""
    every = itertools.product(*(range(tables.size(axis)) for axis in axes))
    envs = [dict(zip(axes, who, strict=True)) for who in every]
    here, local = here_of(tables), tables.names.local
    traces = [
        Loops(tables, trace, here, semantics, {s: len(n[trace]) for s, n in local.items()})
        for trace in range(tables.batch)
    ]
    return [x.value(formula, t, env) for x in traces for env in envs for t in range(x.length)]
