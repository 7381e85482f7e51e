"""Merge nested reductions of the same kind, and cancel a power with its root.

(root4(a))^4                     ->  a
mean[x](mean[y](a))              ->  mean[x y](a)
"""

from __future__ import annotations

from fotltn.algebra.expr import Expr, Power, Reduce, Root
from fotltn.tree import Node, transform


def merge_reductions(expr: Expr) -> Expr:
    """Merge reductions as the arithmetic of sums and powers allows."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if isinstance(node, Power) and isinstance(node.x, Root) and node.p == node.x.p:
        return node.x.x
    if not isinstance(node, Reduce) or node.guard is not None:
        return node
    inner = node.x
    if (
        isinstance(inner, Reduce)
        and inner.kind is node.kind
        and inner.guard is None
        and not (node.time and inner.time)
    ):
        return Reduce(node.kind, (*node.over, *inner.over), node.time or inner.time, inner.x)
    return node if node.over or node.time else inner
