"""What is done to a shifted value is done before the shift, where other axioms need it too.

1 - shift[+1, 1](a)        ->  shift[+1, 0](1 - a)
(shift[+1, 0](a))^4        ->  shift[+1, 0](a^4)
"""

from __future__ import annotations

from fotltn.algebra.expr import Affine, Expr, Power, Root, TimeShift
from fotltn.tree import Node, transform


def enter_shifts(expr: Expr) -> Expr:
    """Move operations on one value inside shifts."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Affine(TimeShift(x, steps, past, outside), scale, offset):
            return TimeShift(Affine(x, scale, offset), steps, past, scale * outside + offset)
        case Power(TimeShift(x, steps, past, outside), p) if outside >= 0:
            return TimeShift(Power(x, p), steps, past, outside**p)
        case Root(TimeShift(x, steps, past, outside), p) if outside >= 0:
            return TimeShift(Root(x, p), steps, past, outside ** (1 / p))
    return node
