"""What does not depend on a reduced axis leaves the reduction.

mean[y](g(x) · b(x, y))    ->  g(x) · mean[y](b(x, y))
"""

from __future__ import annotations

from fotltn.algebra.expr import Affine, Expr, Product, Reduce, Reduction
from fotltn.algebra.passes.fold_constants import affine, product
from fotltn.tree import Node, transform


def factor_products(expr: Expr) -> Expr:
    """Move factors out of means."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Reduce(Reduction.MEAN, over, time, Affine(x, scale, 0.0), guard, still):
            return affine(Reduce(Reduction.MEAN, over, time, x, guard, still), scale, 0.0)
        case Reduce(Reduction.MEAN, over, time, Product(factors), guard, still):
            bound = set(over)
            outer = [f for f in factors if not (f.axes & bound) and not (time and f.timed)]
            inner = [f for f in factors if f not in outer]
            if outer and inner:
                body = product(inner)
                return product([*outer, Reduce(Reduction.MEAN, over, time, body, guard, still)])
    return node
