"""Cells in addresses: by the names of their entities, or by the number of their row."""

from __future__ import annotations

from typing import Any

from fotltn.analysis.cells import Cells
from fotltn.analysis.overview import Overview
from fotltn.format import cell_words

#: The parameters of a cell's address, beside the entities of its variables.
CELL = ("model", "row", "time", "t", "trace", "change", "set", "fact", "degree")

#: A formula with a variable of such a name is addressed by rows.
WORDS = (*CELL, "text", "format", "token")


def where(cells: Cells, row: int, time: int | None = None) -> dict[str, Any]:
    """Return the parameters of a cell: `x=c10&y=p4&t=5`, and its trace if there are several."""
    when = {"t": time if cells.columns > 1 else None}
    if set(WORDS) & set(cells.variables):
        return {"row": row, **when}
    return {**cells.binding(cells.cell(row, 0)), "trace": cells.trace_of(row), **when}


def worst_place(seen: Overview) -> dict[str, object] | None:
    """Return the worst cell of a formula: row, time, name, and address parameters."""
    cells, worst = seen.heat.cells, seen.standing.worst
    if worst is None:
        return None
    row, time = cells.row(worst), worst.time if len(seen.heat.times) > 1 else None
    words = cell_words(cells.binding(worst), time, cells.trace_of(row))
    place = where(cells, row, worst.time)
    return {"row": row, "time": worst.time, "where": words, "place": place}
