"""Make equal parts of several expressions one object, which is then computed once.

Unlike the other passes, this one works on all expressions of a theory at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from fotltn.algebra.expr import Expr
from fotltn.tree import fold, rebuilt


def share(expressions: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return equal expressions in which equal parts are identical objects."""
    known: dict[Expr, Expr] = {}

    def shared(node: Expr, below: list[Expr]) -> Expr:
        new = rebuilt(node, below)
        return known.setdefault(new, new)

    return {name: fold(expr, shared) for name, expr in expressions.items()}
