"""Apply operations on a shifted value before the shift, where other axioms can share them.

1 - shift[+1, 1](a)        ->  shift[+1, 0](1 - a)
(shift[+1, 0](a))^4        ->  shift[+1, 0](a^4)
"""

from __future__ import annotations

from typing import assert_never

from fotltn.algebra.expr import (
    Affine,
    Expr,
    Pointwise,
    PointwiseExpr,
    Power,
    Product,
    Root,
    TimeShift,
)
from fotltn.tree import Node, transform


def enter_shifts(expr: Expr) -> Expr:
    """Move operations on a single value inside shifts."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if not isinstance(node, PointwiseExpr):
        return node
    match node:
        case Affine(TimeShift(x, steps, past, outside), scale, offset):
            return TimeShift(Affine(x, scale, offset), steps, past, scale * outside + offset)
        case Power(TimeShift(x, steps, past, outside), p) if outside >= 0:
            return TimeShift(Power(x, p), steps, past, outside**p)
        case Root(TimeShift(x, steps, past, outside), p) if outside >= 0:
            return TimeShift(Root(x, p), steps, past, outside ** (1 / p))
        case Affine() | Power() | Root() | Product() | Pointwise():
            return node
        case never:
            assert_never(never)
