"""Explanations of violations for people: a tree of values, influential facts, a repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Reasons:
    """Explains the first of some violations.

    Args:
        model: whose they are.
        count: how many to explain.
        flip_given: whether given facts may be influential and flipped.
        threshold: the degree from which on a fact is true in two-valued logic.
    """

    model: Model
    count: int
    flip_given: bool
    threshold: float

    def show(self, found: Sequence[tuple[str, Violation]]) -> None:
        """Print them."""
        from fotltn.cli.terminal import wide_console

        for one in self._explained(found):
            several = len(self.model.facts.traces) > 1
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

    def added(
        self, shown: list[dict[str, object]], found: Sequence[tuple[str, Violation]]
    ) -> list[dict[str, object]]:
        """Violations for machines, the first of them with their explanation as `why`."""
        for row, one in zip(shown, self._explained(found), strict=False):
            row["why"] = one.as_dict()
        return shown

    def _explained(self, found: Sequence[tuple[str, Violation]]) -> list[Explanation]:
        from fotltn.analysis.error_shares import shared_cells
        from fotltn.analysis.explain.explanation import why

        fixed = () if self.flip_given else self.model.given
        explained = []
        for axiom, one in found[: self.count]:
            cells, _ = shared_cells(self.model.cells(axiom, threshold=self.threshold))
            cell = cells.find(one.binding, one.time or 0, one.trace)
            explained.append(why(cells, cell, top=5, fixed=fixed))
        return explained


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
