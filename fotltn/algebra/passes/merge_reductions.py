"""Nested reductions of one kind become one; a power undoes its root.

(root4(a))^4                     ->  a
mean[x](mean[y](a))              ->  mean[x y](a)
"""

from __future__ import annotations

from fotltn.algebra.expr import Expr, Power, Reduce, Root
from fotltn.tree import Node, transform


def merge_reductions(expr: Expr) -> Expr:
    """Merge what the arithmetic of sums and powers allows."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Power(Root(x, q), p) if p == q:
            return x
        case Reduce(kind, over, time, Reduce(inner, more, more_time, x, None), None) if (
            kind is inner and not (time and more_time)
        ):
            return Reduce(kind, (*over, *more), time or more_time, x)
        case Reduce(_, (), False, x, None):
            return x
    return node
