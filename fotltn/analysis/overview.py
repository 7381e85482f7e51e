"""A formula at a glance: its heat map, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass

from fotltn.analysis.cells import Cells
from fotltn.analysis.over_time import TruthOverTime, truth_over_time
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.tally import Standing
from fotltn.analysis.worst import worst_by_rows
from fotltn.semantics.config import CRISP

#: The cells from which on only bindings with violations are shown, and as many of them.
MANY, SHOWN = 2**26, 256


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The heat map of a formula, and how the formula stands.

    Args:
        heat: all bindings, or some of those with violations.
        standing: how it stands, by all bindings; its worst cell is one of the heat map.
        every: where there are too many bindings, the cells of all.
    """

    heat: TruthOverTime
    standing: Standing
    every: Cells | None = None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(
            t.nbytes for t in (self.heat.values, self.heat.truth, self.heat.order, self.heat.errors)
        )


def overview(cells: Cells, value: float | None) -> Overview:
    """All bindings of a formula at a glance, or, where these are too many, some with violations.

    Args:
        cells: of the formula.
        value: its degree; None if it has free variables.

    Raises:
        DataError: there are too many cells, or a table is missing.
    """
    if cells.rows * cells.columns > MANY:
        best = worst_by_rows(cells.viewed(semantics=CRISP), 4 * SHOWN)
        if best is not None:
            violated = dict.fromkeys(one.cell.numbers for one in best.worst if one.violated)
            heat = truth_over_time(some_cells(cells, list(violated)[:SHOWN]))
            first = heat.first if best.violated else None
            return Overview(heat, Standing(*best.tally.numbers, value, first), cells)
    heat = truth_over_time(cells)
    return Overview(heat, Standing(*heat.tally.numbers, value, heat.first))
