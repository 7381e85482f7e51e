"""Sum a mean of products over one axis after another, where that makes no result larger.

    mean[x y](f(x) · g(y) · c(x, y))    ->  mean[x](f(x) · mean[y](g(y) · c(x, y)))
    mean[x t](f(x) · g(x, t))           ->  mean[x](f(x) · mean[t](g(x, t)))

The inner mean is often the same in several axioms, and is then computed once for all.
"""

from __future__ import annotations

from fotltn.algebra.expr import Expr, Product, Reduce, Reduction
from fotltn.algebra.passes.fold_constants import product
from fotltn.logic.core import Axis
from fotltn.tree import Node, transform


def split_sums(expr: Expr) -> Expr:
    """Move axes out of means of products, last axes first."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if not isinstance(node, Reduce) or not isinstance(node.x, Product):
        return node
    if node.kind is not Reduction.MEAN or node.guard is not None:
        return node
    over, time, factors = node.over, node.time, node.x.factors
    for axis in reversed(over):
        inner = [f for f in factors if axis in f.axes]
        outer = [f for f in factors if axis not in f.axes]
        if len(inner) > 1 and _spans(outer, _axes(inner) - {axis}, _timed(inner)):
            rest = tuple(a for a in over if a != axis)
            part = Reduce(Reduction.MEAN, (axis,), False, product(inner))
            return Reduce(Reduction.MEAN, rest, time, product([*outer, part]))
    inner = [f for f in factors if f.timed]
    outer = [f for f in factors if not f.timed]
    if time and inner and _spans(outer, _axes(inner), False):
        part = Reduce(Reduction.MEAN, (), True, product(inner))
        return Reduce(Reduction.MEAN, over, False, product([*outer, part]))
    return node


def _axes(factors: list[Expr]) -> frozenset[Axis]:
    return frozenset[Axis]().union(*(f.axes for f in factors))


def _timed(factors: list[Expr]) -> bool:
    return any(f.timed for f in factors)


def _spans(factors: list[Expr], axes: frozenset[Axis], timed: bool) -> bool:
    """Whether one factor alone already has the axes, so a part over them is no larger."""
    return any(axes <= f.axes and (f.timed or not timed) for f in factors)
