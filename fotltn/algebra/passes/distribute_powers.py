"""Turn a power of a product into a product of powers.

(a · b)^4    ->  a^4 · b^4
"""

from __future__ import annotations

from fotltn.algebra.expr import Expr, Power, Product
from fotltn.tree import Node, transform


def distribute_powers(expr: Expr) -> Expr:
    """Move powers to the factors, which have fewer axes."""
    return transform(expr, _rule)


def _rule(node: Node) -> Node:
    if isinstance(node, Power) and isinstance(node.x, Product):
        return Product(tuple(Power(f, node.p) for f in node.x.factors))
    return node
