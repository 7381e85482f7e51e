"""The complete explanation of one cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.changes import Change, overlay, with_changes
from fotltn.analysis.explain.gradients import Influence, influence
from fotltn.analysis.explain.repairs import Repair, repair
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.analysis.explain.tree import ValueNode, explain
from fotltn.analysis.record import Record
from fotltn.format import NONE, cell_words, degree, signed
from fotltn.syntax.notebook import strip, table, text


@dataclass(frozen=True, slots=True)
class Timeline(Record):
    """The degrees of an atom at all points of a trace.

    Args:
        text: the atom.
        predicate: its predicate.
        values: its degrees, one per time point; a single one if it is static.
        static: whether it does not change over time.
        read: the times at which the explanation reads it.
    """

    text: str
    predicate: str
    values: tuple[float, ...]
    static: bool
    read: tuple[int, ...]

    KEYS = ("atom=text", "predicate", "values", "static", "read")


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """Why a rule has its value at a cell.

    Args:
        cells: the cells of the rule.
        cell: one of these cells.
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
    tree: ValueNode
    timelines: tuple[Timeline, ...]
    influence: tuple[Influence, ...]
    repair: Repair

    KEYS = (
        "rule=cells.name", "formula=cells.text", "binding", "trace", "time=cell.time",
        "value=tree.value", "truth=tree.truth", "tree", "timelines", "influence", "repair",
    )  # fmt: skip

    @property
    def place(self) -> str:
        """Return the cell in words."""
        return cell_words(self.binding, self.cell.time)

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


def why(
    cells: Cells,
    cell: Cell,
    *,
    top: int = 10,
    fixed: Collection[str] = (),
    changes: Sequence[Change] = (),
) -> Explanation:
    """Explain why a rule has its value at a cell, and what would change it.

    Args:
        cells: the cells of the rule.
        cell: one of these cells.
        top: the number of influential facts to return.
        fixed: predicates whose facts must not change; they are neither listed nor flipped.
        changes: facts with other degrees than in the tables; repairs do not flip them.

    Raises:
        DataError: there is no such cell or predicate, or a table is missing.
    """
    changed = overlay(cells.tables, changes, cell.trace)
    held = [FactPlace(name, place) for name, places in changed.items() for place in places]
    if changes and cells.tables.decisions is not None and cells.tables.decisions.definitions:
        cells, changed = cells.viewed(tables=with_changes(cells.tables, changes)), {}
    site = Site(cells, cell, changed)
    tree = explain(site)
    return Explanation(
        cells,
        cell,
        cells.binding(cell),
        cells.tables.names.trace(cell.trace),
        tree,
        timelines(site, tree),
        influence(site, top=top, fixed=fixed),
        repair(site, fixed=fixed, held=held),
    )


@torch.no_grad()
def timelines(site: Site, tree: ValueNode, *, limit: int = 12) -> tuple[Timeline, ...]:
    """Return the atoms of a tree over the whole trace, in reading order.

    Args:
        site: the cell.
        tree: its explanation.
        limit: the maximum number of atoms; those nearest to the root come first.
    """
    read: dict[str, set[int]] = {}
    facts: dict[str, FactPlace] = {}
    depth: dict[str, int] = {}
    for node, level in tree.levels():
        if node.fact is not None and node.ground is not None:
            facts.setdefault(node.ground, node.fact)
            depth[node.ground] = min(level, depth.get(node.ground, level))
            times = read.setdefault(node.ground, set())
            if node.time is not None:
                times.add(node.time)
    nearest = set(sorted(facts, key=lambda atom: depth[atom])[:limit])
    lines = []
    for atom, fact in facts.items():
        if atom in nearest:
            values = tuple(site.over_time(fact).tolist())
            static = site.name(fact)[1] is None
            points = () if static else tuple(sorted(read[atom]))
            lines.append(Timeline(atom, fact.predicate, values, static, points))
    return tuple(lines)
