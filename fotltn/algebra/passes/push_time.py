"""Compute only the time points that are asked for.

(a · b)@0             ->  a@0 · b@0
(mean-scan(a))@0      ->  mean[t](a)
(mean[x](a | b))@0    ->  mean[x](a@0 | b), b without time
(shift[-1, 1](a))@0   ->  1
mean[x t](a), a without time  ->  mean[x](a)
"""

from __future__ import annotations

from fotltn.algebra.expr import (
    Affine,
    At,
    Expr,
    Pointwise,
    Power,
    Product,
    Reduce,
    Reduction,
    Root,
    Scalar,
    Scan,
    TimeShift,
)
from fotltn.logic.core import Window
from fotltn.tree import Node, transform

_SAME = (Reduction.MEAN, Reduction.MINIMUM, Reduction.MAXIMUM)


def push_time(expr: Expr) -> Expr:
    """Move the choice of a time point towards the leaves."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    match node:
        case At(x, t):
            return _push(x, t)
        case Reduce(kind, over, True, x, None) if kind in _SAME and not x.timed:
            return Reduce(kind, over, False, x)
    return node


def _push(root: Expr, time: int) -> Expr:
    """`root` at a time, with the choice moved as far down as it goes, without recursion."""
    results: dict[tuple[Expr, int], Expr] = {}
    stack: list[tuple[Expr, int]] = [(root, time)]
    while stack:
        x, t = stack[-1]
        if (x, t) in results:
            stack.pop()
            continue
        inner = _inner(x, t)
        missing = [pair for pair in inner if pair not in results]
        if missing:
            stack.extend(missing)
            continue
        results[x, t] = _rebuilt(x, t, [results[pair] for pair in inner])
        stack.pop()
    return results[root, time]


def _inner(x: Expr, t: int) -> list[tuple[Expr, int]]:
    """The parts of `x`, and the times, that its value at `t` is made of."""
    if not x.timed:
        return []
    match x:
        case Affine(y) | Power(y) | Root(y) | Reduce(_, _, False, y, None):
            return [(y, t)]
        case Reduce(_, _, False, y, _, True):
            return [(y, t)]
        case Product(parts) | Pointwise(_, parts):
            return [(p, t) for p in parts]
        case TimeShift(y, steps, True) if steps <= t:
            return [(y, t - steps)]
    return []


def _rebuilt(x: Expr, t: int, parts: list[Expr]) -> Expr:
    if not x.timed:
        return x
    match x:
        case Affine(_, scale, offset):
            return Affine(parts[0], scale, offset)
        case Product():
            return Product(tuple(parts))
        case Power(_, p):
            return Power(parts[0], p)
        case Root(_, p):
            return Root(parts[0], p)
        case Pointwise(op):
            return Pointwise(op, tuple(parts))
        case Reduce(kind, over, False, _, guard, still) if guard is None or still:
            return Reduce(kind, over, False, parts[0], guard, still)
        case Scan(kind, y, Window(0, None), False) if t == 0:
            return _rule(Reduce(kind, (), True, y))  # type: ignore[return-value]
        case TimeShift(_, _, True, outside):
            return parts[0] if parts else Scalar(outside)
    return At(x, t)
