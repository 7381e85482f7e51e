"""The parts of formulas: symbols, free variables, operands, and what changes over time."""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.tree import Node, children, postorder


def predicates_in(*roots: c.Core) -> set[str]:
    """Return the predicates in formulas."""
    return {node.predicate for node in postorder(*roots) if isinstance(node, c.Atom)}


def symbols(formula: c.Formula) -> list[str]:
    """Return the predicates and functions of a formula, which share one namespace."""
    return [
        node.predicate if isinstance(node, c.Atom) else node.function
        for node in postorder(formula)
        if isinstance(node, c.Atom | c.Apply)
    ]


def changes(signature: Signature, *roots: c.Core) -> bool:
    """Return whether formulas or terms may depend on the time point."""
    return any(moves(node, signature) for node in postorder(*roots))


def moves(node: c.Core, signature: Signature) -> bool:
    """Return whether a node itself depends on the time point."""
    assert isinstance(node, c.AnyNode)
    match node:
        case c.Atom(name):
            return not signature.predicates[name].static
        case c.Apply(name):
            return not signature.functions[name].static
        case c.Edge() | c.Shift() | c.Aggregate() | c.Until():
            return True
        case (
            c.Truth() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or() | c.Implies()
            | c.Quantifier() | c.Variable() | c.Constant() | c.Number()
        ):  # fmt: skip
            return False
        case never:
            assert_never(never)


@lru_cache(maxsize=1000)
def free_axes(node: c.Core) -> frozenset[c.Axis]:
    """Return the axes that a formula or term depends on."""
    return free_axes_of_all(node)[node]


def free_axes_of_all(*roots: Node) -> dict[c.Core, frozenset[c.Axis]]:
    """Return the free axes of each part of formulas or expressions, children first."""
    free: dict[c.Core, frozenset[c.Axis]] = {}
    for node in postorder(*roots):
        if not isinstance(node, c.Core):
            continue
        axes = frozenset[c.Axis]().union(*(free[child] for child in children(node)))  # type: ignore[index]
        if isinstance(node, c.Variable):
            axes = axes | {node.axis}
        elif isinstance(node, c.Quantifier):
            axes = axes - set(node.axes)
        free[node] = axes
    return free


def operands(formula: c.Formula, kind: type[c.Connective]) -> list[c.Formula]:
    """Return the operands of nested connectives of one kind, in written order.

    >>> p, q = c.Atom("p", ()), c.Atom("q", ())
    >>> operands(c.And(p, c.And(q, p)), c.And) == [p, q, p]
    True
    """
    parts, waiting = [], [formula]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.right, node.left]
        else:
            parts.append(node)
    return parts


def conjuncts(formula: c.Formula | None) -> list[c.Formula]:
    """Return the formulas that must all be true for a formula to be true; empty for None."""
    return [] if formula is None else operands(formula, c.And)


#: The most variables that a part of a formula may depend on: PyTorch has 64 dimensions for a
#: tensor and 52 letters for a sum of products; traces and time take one each.
MOST_AXES = 50


def check_axes(count: int, what: str) -> None:
    """Refuse a part of a formula that depends on too many variables.

    Raises:
        LimitError: says how many.
    """
    if count > MOST_AXES:
        raise LimitError(
            f"{what} depends on {count} variables at once; at most {MOST_AXES} can be handled",
            hint="quantify over a variable as far inside as possible, or split the formula",
        )
