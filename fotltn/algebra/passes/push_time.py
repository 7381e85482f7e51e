"""Compute only the time points that are needed.

(a · b)@0             ->  a@0 · b@0
(mean-scan(a))@0      ->  mean[t](a)
(mean[x](a | b))@0    ->  mean[x](a@0 | b), b without time
(shift[-1, 1](a))@0   ->  1
mean[x t](a), a without time  ->  mean[x](a)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from fotltn.algebra.expr import (
    Affine,
    At,
    Data,
    Expr,
    Pairs,
    Pointwise,
    Power,
    Product,
    Reduce,
    Reduction,
    Root,
    Scalar,
    Scan,
    TableLeaf,
    TimeShift,
    closed,
)
from fotltn.logic.core import Window
from fotltn.tree import Node, transform

_SAME = (Reduction.MEAN, Reduction.MINIMUM, Reduction.MAXIMUM)


def push_time(expr: Expr) -> Expr:
    """Move the selection of a time point towards the leaves."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if isinstance(node, At):
        return _push(node.x, node.time)
    if not isinstance(node, Reduce) or not node.time or node.guard is not None:
        return node
    same = node.kind in _SAME and not node.x.timed
    return Reduce(node.kind, node.over, False, node.x) if same else node


def _push(root: Expr, time: int) -> Expr:
    """Return `root` at a time, with the selection moved down as far as possible, iteratively."""
    results: dict[tuple[Expr, int], Expr] = {}
    stack: list[tuple[Expr, int]] = [(root, time)]
    while stack:
        x, t = stack[-1]
        if (x, t) in results:
            stack.pop()
            continue
        needed, rebuild = _pushed(x, t)
        missing = [pair for pair in needed if pair not in results]
        if missing:
            stack.extend(missing)
            continue
        results[x, t] = rebuild([results[pair] for pair in needed])
        stack.pop()
    return results[root, time]


def _pushed(x: Expr, t: int) -> tuple[list[tuple[Expr, int]], Callable[[list[Expr]], Expr]]:
    """Return the parts and times that the value of `x` at `t` needs, and how to combine them."""
    if not x.timed:
        return [], lambda _: x
    match closed(x):
        case Affine(y, scale, offset):
            return [(y, t)], lambda parts: Affine(parts[0], scale, offset)
        case Power(y, p):
            return [(y, t)], lambda parts: Power(parts[0], p)
        case Root(y, p):
            return [(y, t)], lambda parts: Root(parts[0], p)
        case Product(factors):
            return [(y, t) for y in factors], lambda parts: Product(tuple(parts))
        case Pointwise(op, args):
            return [(y, t) for y in args], lambda parts: Pointwise(op, tuple(parts))
        case Reduce(kind, over, False, y, guard, still) if guard is None or still:
            return [(y, t)], lambda parts: Reduce(kind, over, False, parts[0], guard, still)
        case Scan(kind, y, Window(0, None), False) if t == 0:
            return [], lambda _: _rule(Reduce(kind, (), True, y))  # type: ignore[return-value]
        case TimeShift(y, steps, True) if steps <= t:
            return [(y, t - steps)], lambda parts: parts[0]
        case TimeShift(_, _, True, outside):
            return [], lambda _: Scalar(outside)
        case TableLeaf() | Data() | Scalar() | Reduce() | At() | TimeShift() | Scan() | Pairs():
            return [], lambda _: At(x, t)
        case never:
            assert_never(never)
