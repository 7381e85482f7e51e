"""A formula at a glance: its heat map, and counts of its cells."""

from __future__ import annotations

from dataclasses import dataclass

from fotltn.analysis.cells import Cells
from fotltn.analysis.over_time import TruthOverTime, truth_over_time
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.tally import Standing
from fotltn.analysis.worst import worst_by_rows
from fotltn.semantics.config import CRISP

#: With more than MANY cells, only SHOWN bindings with violations are in the heat map.
MANY, SHOWN = 2**26, 256


@dataclass(frozen=True, slots=True, eq=False)
class Overview:
    """The heat map of a formula, and counts of its cells.

    Args:
        heat: all bindings, or some bindings with violations.
        standing: the counts over all bindings; the worst cell is one of the heat map.
        every: the cells of all bindings, if the heat map does not have all.
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
    """Return all bindings of a formula at a glance; if they are too many, some with violations.

    Args:
        cells: the cells of the formula.
        value: the degree of the formula; None if it has free variables.

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
