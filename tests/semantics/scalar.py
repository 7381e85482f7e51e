"""Degrees of truth straight from the paper's equations: floats and lists, one point at a time."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from fotltn.semantics.config import (
    Aggregation,
    Implication,
    Negation,
    PMean,
    Semantics,
    TConorm,
    TNorm,
)
from fotltn.syntax import formula as f
from fotltn.syntax.operators import Temporal as Op
from tests.semantics.textbook import World, bindings, holds, lookup, offsets, term

SORTS = {"c": "a", "d": "b", "f": "b", "g": "a", "v": "real", "w": "real"}


def negate(u: float, s: Semantics) -> float:
    return 1 - u if s.negation is Negation.STANDARD else float(u == 0)


def conjoin(u: float, v: float, s: Semantics) -> float:
    match s.conjunction:
        case TNorm.PRODUCT:
            return _up(u, s) * _up(v, s)
        case TNorm.MINIMUM:
            return min(u, v)
        case TNorm.LUKASIEWICZ:
            return max(0.0, u + v - 1)


def disjoin(u: float, v: float, s: Semantics) -> float:
    match s.disjunction:
        case TConorm.PROBABILISTIC_SUM:
            return _down(u, s) + _down(v, s) - _down(u, s) * _down(v, s)
        case TConorm.MAXIMUM:
            return max(u, v)
        case TConorm.LUKASIEWICZ:
            return min(1.0, u + v)


def imply(u: float, v: float, s: Semantics) -> float:
    match s.implication:
        case Implication.REICHENBACH:
            return 1 - _up(u, s) + _up(u, s) * _down(v, s)
        case Implication.KLEENE_DIENES:
            return max(1 - u, v)
        case Implication.LUKASIEWICZ:
            return min(1.0, 1 - u + v)
        case Implication.GODEL:
            return 1.0 if u <= v else v
        case Implication.GOGUEN:
            return 1.0 if _up(u, s) <= v else v / _up(u, s)


def _up(u: float, s: Semantics) -> float:
    return (1 - s.epsilon) * u + s.epsilon


def _down(u: float, s: Semantics) -> float:
    return (1 - s.epsilon) * u


def aggregate(values: Sequence[float], how: Aggregation, universal: bool, s: Semantics) -> float:
    """⊗ or ∀ (`universal`), ⊕ or ∃; over nothing 1 and 0."""
    if not values:
        return float(universal)
    if not isinstance(how, PMean):
        join = conjoin if universal else disjoin
        return functools.reduce(lambda u, v: join(u, v, s), values)
    if math.isinf(how.p):
        return min(values) if universal else max(values)
    p, m = how.p, len(values)
    if universal:
        return 1 - math.pow(sum(math.pow(1 - _down(u, s), p) for u in values) / m, 1 / p)
    return math.pow(sum(math.pow(_up(u, s), p) for u in values) / m, 1 / p)


def sort_of(node: f.Term, env: Mapping[str, str]) -> str:
    match node:
        case f.Var(name):
            return env[name]
        case f.Const(name) | f.Apply(name):
            return SORTS[name]
    return "real"


def degree(
    node: f.Formula,
    world: World,
    t: int,
    s: Semantics,
    env: Mapping[str, int] | None = None,
    sorts: Mapping[str, str] | None = None,
) -> float:
    """The degree of a formula at time `t` under an assignment of entities (and their sorts)."""
    env, sorts = env or {}, sorts or {}

    def at(part: f.Formula, time: int = t) -> float:
        return degree(part, world, time, s, env, sorts)

    def over_time(values: Sequence[float], universal: bool) -> float:
        return aggregate(values, s.always if universal else s.eventually, universal, s)

    def until(left: Sequence[float], right: Sequence[float], steps: Sequence[int]) -> float:
        """Both by distance from the present; `left` begins where it has to hold."""
        skipped = len(right) - len(left)
        return over_time(
            [conjoin(right[k], over_time(left[: k - skipped], True), s) for k in steps], False
        )

    match node:
        case f.Truth() | f.Edge() | f.Compare():
            return float(holds(node, world, t, env))
        case f.Atom(name, args):
            found = tuple(term(a, world, t, env) for a in args)
            return lookup(world.predicates[name], found, t)
        case f.Equal(left, right):
            a, b = term(left, world, t, env), term(right, world, t, env)
            kind = sort_of(left, sorts)
            if kind == "real":
                return math.exp(-s.equality_scale * abs(a - b))
            if kind in world.features:
                vectors = world.features[kind]
                return math.exp(-s.equality_scale * math.dist(vectors[int(a)], vectors[int(b)]))
            return float(a == b)
        case f.Not(arg):
            return negate(at(arg), s)
        case f.And(left, right):
            return conjoin(at(left), at(right), s)
        case f.Or(left, right):
            return disjoin(at(left), at(right), s)
        case f.Implies(left, right):
            return imply(at(left), at(right), s)
        case f.Iff(left, right):
            u, v = at(left), at(right)
            return conjoin(imply(u, v, s), imply(v, u, s), s)
        case f.Forall(binders, guard, body) | f.Exists(binders, guard, body):
            universal = isinstance(node, f.Forall)
            inner = {**sorts, **_bound_sorts(binders)}
            values = [
                degree(body, world, t, s, e, inner)
                for e in bindings(binders, world, env)
                if guard is None or holds(guard, world, t, e)
            ]
            return aggregate(values, s.forall if universal else s.exists, universal, s)
        case f.Unary(op, arg, bound):
            past = op.value.past
            if op.steps:
                there = t + (bound.low if bound else 1) * (-1 if past else 1)
                return at(arg, there) if 0 <= there < world.length else float(op in _WEAK)
            steps = offsets(bound, node.strict, past, t, world.length)
            values = [at(arg, t - k if past else t + k) for k in steps]
            return over_time(values, op in (Op.G, Op.H))
        case f.Binary(op, left, right, bound):
            past = op.value.past
            times = range(t, -1, -1) if past else range(t, world.length)
            steps = offsets(bound, node.strict, past, t, world.length)
            whole = f.Bound(0, bound.high) if bound else None
            near = offsets(whole, node.strict, past, t, world.length)
            us, vs = [at(left, i) for i in times], [at(right, i) for i in times]
            start = int(node.strict)
            if op in (Op.U, Op.S, Op.W):
                value = until(us[start:], vs, steps)
            else:
                opposite = [negate(u, s) for u in us], [negate(v, s) for v in vs]
                value = negate(until(opposite[0][start:], opposite[1], steps), s)
            if op is Op.W:
                return disjoin(value, over_time([us[k] for k in near], True), s)
            if op is Op.M:
                return conjoin(value, over_time([us[k] for k in near], False), s)
            return value
    raise AssertionError(node)


_WEAK = (Op.WX, Op.WY)


def _bound_sorts(binders: Sequence[f.Binder | f.Paired]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in binders:
        if isinstance(item, f.Paired):
            found |= {b.name: sort for b, sort in zip(item.binders, ("a", "b"), strict=True)}
        else:
            found[item.name] = str(item.sort)
    return found
