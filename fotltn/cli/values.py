"""The values of formulas by binding, trace and time, as `ask` and `eval` print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fotltn.cli.tables import add, grid, show
from fotltn.format import degree

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer


@dataclass(frozen=True, slots=True)
class ValueRow:
    """The values of a formula over time, at one binding of its free variables in one trace."""

    formula: str
    trace: str
    binding: dict[str, str]
    times: Sequence[int]
    values: Sequence[float | bool | None]
    intervals: Sequence[tuple[float, float]] | None = None

    def place(self, *, several: bool) -> dict[str, object]:
        """Return the binding and, if there are several, the trace, as data."""
        trace = {"trace": self.trace} if several else {}
        return {**trace, **({"binding": self.binding} if self.binding else {})}

    def at(self, place: int) -> ValueRow:
        """Return the row at one of its times."""
        intervals = None if self.intervals is None else [self.intervals[place]]
        return replace(
            self, times=[self.times[place]], values=[self.values[place]], intervals=intervals
        )

    def ends(self, place: int | None) -> dict[str, object]:
        """Return the ends of intervals, at one place or at all; empty if there are none."""
        if self.intervals is None:
            return {}
        low, high = zip(*self.intervals, strict=True)
        if place is None:
            return {"low": low, "high": high}
        return {"low": low[place], "high": high[place]}


def value_rows(formula: str, answer: Answer) -> list[ValueRow]:
    """Return a row for each binding in each trace."""
    return [
        ValueRow(formula, b.trace, b.binding, answer.times, b.values, b.intervals)
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
        times: the time of each column; None if each row has its own time.
        several: whether there are several traces.
        digits: the number of digits of degrees.
    """
    variables = list(dict.fromkeys(v for row in rows for v in row.binding))
    words = ["formula", *(["trace"] if several else []), *variables]
    heads = ["time", "value"] if times is None else [f"t={t}" for t in times]
    # With several times, there is no room for intervals.
    ends = (times is None or len(heads) == 1) and any(row.intervals for row in rows)
    table = grid(*words, *heads, *(["95 %"] if ends else []), left=words, fold=words)
    for row in rows:
        where = [row.trace] if several else []
        bound = [row.binding.get(v, "") for v in variables]
        cells = [degree(v, digits) for v in row.values]
        if times is None:
            cells = [str(row.times[0]), *cells]
        gaps = [""] * (len(heads) - len(cells))
        if row.intervals is not None and ends:
            gaps.append(" to ".join(degree(end, digits) for end in row.intervals[0]))
        add(table, row.formula, *where, *bound, *cells, *gaps)
    show(table)
