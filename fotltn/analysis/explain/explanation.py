"""All that explains one cell, computed together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.gradients import Influence, influence_at
from fotltn.analysis.explain.lines import Timeline, timelines_of
from fotltn.analysis.explain.node import Node
from fotltn.analysis.explain.repairs import EFFORT, Repair, repair_at
from fotltn.analysis.explain.tree import tree_of
from fotltn.analysis.explain.values import site, values_at
from fotltn.format import NONE, degree, signed
from fotltn.syntax.notebook import strip, table, text


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule has its value at a cell.

    Args:
        cells: of the rule.
        cell: where.
        binding: the names of its entities by variable.
        trace: the name of its trace.
        tree: the formula with the value of every part.
        timelines: the atoms in it over time.
        influence: the facts that the value depends on most.
        repair: the fewest facts to flip so that it is true.
    """

    cells: Cells
    cell: Cell
    binding: dict[str, str]
    trace: str
    tree: Node
    timelines: tuple[Timeline, ...]
    influence: tuple[Influence, ...]
    repair: Repair

    @property
    def place(self) -> str:
        """The cell in words."""
        names = [f"{variable} = {name}" for variable, name in self.binding.items()]
        return ", ".join([*names, f"time {self.cell.time}"])

    def _repr_html_(self) -> str:
        heads = ["fact", "time", "value", "gradient", "then"]
        rows = [
            (
                one.text,
                NONE if one.time is None else one.time,
                degree(one.value),
                signed(one.gradient),
                degree(one.then),
            )
            for one in self.influence
        ]
        lines = [
            (one.text, strip(one.values, said=f"{one.text} over time"))
            for one in self.timelines
            if not one.static
        ]
        shown = f"<p>{text(self.cells.name)} at {text(self.place)}</p>{self.tree._repr_html_()}"
        if lines:
            shown += table(["atom", "over time"], lines, left=["atom", "over time"])
        if rows:
            shown += table(heads, rows, left=["fact"], caption="The facts that it depends on most")
        return f"{shown}<p>Smallest repair: {text(self.repair)}.</p>"

    def as_dict(self) -> dict[str, object]:
        """The explanation for machines."""
        return {
            "rule": self.cells.name,
            "formula": self.cells.text,
            "binding": dict(self.binding),
            "trace": self.trace,
            "time": self.cell.time,
            "value": self.tree.value,
            "truth": self.tree.truth,
            "tree": self.tree.as_dict(),
            "timelines": [line.as_dict() for line in self.timelines],
            "influence": [fact.as_dict() for fact in self.influence],
            "repair": self.repair.as_dict(),
        }


def why(
    cells: Cells,
    cell: Cell,
    *,
    top: int = 10,
    fixed: Collection[str] = (),
    width: int = 3,
    limit: int = 300,
    effort: int = EFFORT,
) -> Explanation:
    """Why a rule has its value at a cell, and what would change it.

    Args:
        cells: of the rule.
        cell: where.
        top: how many influential facts are given.
        fixed: predicates whose facts do not change: they are neither influential nor flipped.
        width: how many instances of a quantifier, or points in time, the tree shows.
        limit: how many nodes it has at most.
        effort: how long to search for the smallest repair.

    Raises:
        DataError: there is no such cell or predicate, or a table is missing.
    """
    found = site(cells, cell)
    tree = tree_of(values_at(found), width=width, limit=limit)
    return Explanation(
        cells,
        cell,
        cells.binding(cell),
        cells.tables.names.trace(cell.trace),
        tree,
        timelines_of(found, tree),
        influence_at(found, top=top, fixed=fixed),
        repair_at(found, fixed=fixed, effort=effort),
    )
