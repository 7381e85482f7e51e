"""The values of formulas by binding, trace and time: what `ask` and `eval` print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fotltn.cli.tables import add, grid, show
from fotltn.format import degree

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A formula at one binding of its free variables in one trace: its values at times."""

    formula: str
    trace: str
    binding: dict[str, str]
    times: Sequence[int]
    values: Sequence[float | bool | None]

    def place(self, *, several: bool) -> dict[str, object]:
        """The binding and, if there are several, the trace; for machines."""
        trace = {"trace": self.trace} if several else {}
        return {**trace, **({"binding": self.binding} if self.binding else {})}


def value_rows(formula: str, answer: Answer) -> list[ValueRow]:
    """A row for each binding in each trace."""
    variables = [axis.name for axis in answer.axes]
    return [
        ValueRow(
            formula, b.trace, dict(zip(variables, b.names, strict=True)), answer.times, b.values
        )
        for b in answer.bindings()
    ]


def show_values(
    rows: Sequence[ValueRow],
    times: Iterable[int] | None,
    *,
    several: bool,
    digits: int,
) -> None:
    """Print rows as a table.

    Args:
        rows: the rows.
        times: a column each; None for rows that each have a time of their own.
        several: whether there are several traces.
        digits: of degrees.
    """
    variables = list(dict.fromkeys(v for row in rows for v in row.binding))
    words = ["formula", *(["trace"] if several else []), *variables]
    heads = ["time", "value"] if times is None else [f"t={t}" for t in times]
    table = grid(*words, *heads, left=words, fold=words)
    for row in rows:
        where = [row.trace] if several else []
        bound = [row.binding.get(v, "") for v in variables]
        cells = [degree(v, digits) for v in row.values]
        if times is None:
            cells = [str(row.times[0]), *cells]
        gaps = [""] * (len(heads) - len(cells))
        add(table, row.formula, *where, *bound, *cells, *gaps)
    show(table)
