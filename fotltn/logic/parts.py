"""What formulas are made of: symbols, free variables, operands, and what changes over time."""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.tree import Node, children, postorder


def predicates_in(*roots: c.Core) -> set[str]:
    """The predicates of formulas."""
    return {node.predicate for node in postorder(*roots) if isinstance(node, c.Atom)}


def symbols(formula: c.Formula) -> list[str]:
    """The predicates and functions of a formula, which share one space of names."""
    return [
        node.predicate if isinstance(node, c.Atom) else node.function
        for node in postorder(formula)
        if isinstance(node, c.Atom | c.Apply)
    ]


def changes(signature: Signature, *roots: c.Core) -> bool:
    """Whether formulas or terms may depend on the time point."""
    return any(_moves(node, signature) for node in postorder(*roots))


def _moves(node: c.Core, signature: Signature) -> bool:
    """Whether a node depends on the time point by itself."""
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
    """The axes that a formula or term depends on."""
    return free_axes_of_all(node)[node]


def free_axes_of_all(*roots: Node) -> dict[c.Core, frozenset[c.Axis]]:
    """The same for each part of formulas, also of those inside expressions; children first."""
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
    """The operands of nested connectives of a kind, in the order in which they are written.

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
    """What must all be true for a formula to be true; nothing for no formula."""
    return [] if formula is None else operands(formula, c.And)
