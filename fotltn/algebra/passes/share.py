"""Equal parts of several expressions become one object, which is then computed once.

Unlike the other passes this one is over all expressions of a theory at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from fotltn.algebra.expr import Expr
from fotltn.tree import Node, transform


def share(expressions: Mapping[str, Expr]) -> dict[str, Expr]:
    """The same expressions, in which equal parts are identical."""
    known: dict[Node, Node] = {}

    def rule(node: Node) -> Node:
        return known.setdefault(node, node)

    return {name: transform(expr, rule) for name, expr in expressions.items()}
