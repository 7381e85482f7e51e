"""Explanations of violations for people: a tree of values, influential facts, a repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fotltn.cli.tables import add, grid, say, show
from fotltn.format import NONE, degree, signed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree

    from fotltn.analysis.explain.explanation import Explanation
    from fotltn.analysis.explain.tree import ValueNode
    from fotltn.analysis.violations import Violation
    from fotltn.project.model import Model

_FACTS = (
    "The facts that the value depends on most; 'then' is the value if that fact alone were true, "
    "or, for a negative gradient, false."
)


def explanations(
    model: Model, violations: Sequence[tuple[str, Violation]], *, flip_given: bool, threshold: float
) -> list[Explanation]:
    """Why some violations, each with the name of its axiom, are what they are.

    Args:
        model: whose they are.
        violations: what to explain.
        flip_given: whether given facts may be influential and flipped.
        threshold: the degree from which on a fact is true in two-valued logic.
    """
    from fotltn.analysis.error_shares import shared_cells
    from fotltn.analysis.explain.explanation import why

    fixed = () if flip_given else model.given
    explained = []
    for axiom, one in violations:
        cells, _ = shared_cells(model.cells(axiom, threshold=threshold))
        cell = cells.find(one.binding, one.time or 0, one.trace)
        explained.append(why(cells, cell, top=5, fixed=fixed))
    return explained


def show_explanations(explained: Sequence[Explanation], *, several: bool) -> None:
    """Print them, with the trace if there are several."""
    from fotltn.cli.terminal import wide_console

    for one in explained:
        trace = f", trace {one.trace}" if several else ""
        print()
        say(f"{one.cells.name} at {one.place}{trace}", style="bold")
        wide_console().print(_tree(one.tree))
        if one.influence:
            print()
            say(_FACTS)
            _facts(one)
        print()
        say(f"Smallest repair: {one.repair}.")


def _tree(root: ValueNode) -> Tree:
    from rich.tree import Tree

    made = Tree(_line(root))
    stack = [(root, made)]
    while stack:
        node, branch = stack.pop()
        stack += [(child, branch.add(_line(child))) for child in node.children]
        if node.remark:
            branch.add(_styled(node.remark, "dim"))
    return made


def _line(node: ValueNode) -> RenderableType:
    truth = "true " if node.truth else "false"
    return _styled(f"{degree(node.value)} {truth} {node.label}", "" if node.truth else "red")


def _styled(text: str, style: str) -> RenderableType:
    from rich.styled import Styled

    return Styled(text, style)


def _facts(one: Explanation) -> None:
    """The facts that the value depends on most."""
    table = grid("fact", "time", "value", "gradient", "then", left=["fact"])
    for fact in one.influence:
        when = NONE if fact.time is None else str(fact.time)
        values = (degree(fact.value), signed(fact.gradient), degree(fact.then))
        add(table, fact.text, when, *values)
    show(table)
