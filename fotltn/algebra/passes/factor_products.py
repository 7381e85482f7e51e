"""Move factors that do not depend on a reduced axis out of the reduction.

mean[y](g(x) · b(x, y))    ->  g(x) · mean[y](b(x, y))
"""

from __future__ import annotations

from dataclasses import replace

from fotltn.algebra.expr import Affine, Expr, Product, Reduce, Reduction
from fotltn.algebra.passes.fold_constants import affine, product
from fotltn.tree import Node, transform


def factor_products(expr: Expr) -> Expr:
    """Move factors out of means."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if not isinstance(node, Reduce) or node.kind is not Reduction.MEAN:
        return node
    x, bound = node.x, set(node.over)
    if isinstance(x, Affine) and x.offset == 0:
        return affine(replace(node, x=x.x), x.scale, 0.0)
    if isinstance(x, Product):
        outer = [f for f in x.factors if not (f.axes & bound) and not (node.time and f.timed)]
        inner = [f for f in x.factors if f not in outer]
        if outer and inner:
            return product([*outer, replace(node, x=product(inner))])
    return node
