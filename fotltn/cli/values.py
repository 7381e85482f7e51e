"""The values of formulas by binding, trace and time, as `ask` and `eval` print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from fotltn.cli.tables import add, grid, show
from fotltn.format import ABSENT, count, degree, share

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer


class TrueCells(NamedTuple):
    """At how many cells a formula is true in two-valued logic, of how many."""

    true: int
    cells: int

    @property
    def share(self) -> float | None:
        """The share of cells at which it is true; None if there are no cells."""
        return self.true / self.cells if self.cells else None


@dataclass(frozen=True, slots=True)
class ValueRow:
    """The values of a formula over time, at one binding of its free variables in one trace.

    Args:
        formula: the name of the formula, or its text.
        trace: the name of the trace.
        binding: the entities of its free variables.
        times: the time points.
        values: its values; None where an entity is not present, NaN where the trace has ended.
        intervals: for probabilities, their 95 % intervals.
        true: at how many cells it is true; None if they were not counted.
    """

    formula: str
    trace: str
    binding: dict[str, str]
    times: Sequence[int]
    values: Sequence[float | bool | None]
    intervals: Sequence[tuple[float, float]] | None = None
    true: TrueCells | None = None

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
        there = [
            (None, None) if value is None else ends
            for value, ends in zip(self.values, self.intervals, strict=True)
        ]
        low, high = zip(*there, strict=True)
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
    overall: Sequence[ValueRow] = (),
) -> None:
    """Print rows as a table.

    Args:
        rows: the rows.
        times: the time of each column; None if each row has its own time.
        several: whether there are several traces.
        digits: the number of digits of degrees.
        overall: rows about all traces, which come last.
    """
    variables = list(dict.fromkeys(v for row in rows for v in row.binding))
    words = ["formula", *(["trace"] if several else []), *variables]
    heads = ["time", "value"] if times is None else [f"t={t}" for t in times]
    # With several times, there is no room for intervals.
    ends = (times is None or len(heads) == 1) and any(row.intervals for row in rows)
    counted = ["true cells", "share"] if any(row.true for row in rows) else []
    more = [*counted, *(["95 %"] if ends else [])]
    table = grid(*words, *heads, *more, left=words, fold=words)
    for number, row in enumerate([*rows, *overall]):
        if number == len(rows):
            table.add_section()
        where = [row.trace] if several else []
        bound = [row.binding.get(v, "") for v in variables]
        cells = [ABSENT if v is None else degree(v, digits) for v in row.values]
        if times is None:
            cells = [str(row.times[0]), *cells]
        gaps = [""] * (len(heads) - len(cells))
        if row.true is not None:
            gaps += [f"{count(row.true.true)} of {count(row.true.cells)}", share(row.true.share)]
        if row.intervals is not None and ends and row.values[0] is not None:
            gaps.append(" to ".join(degree(end, digits) for end in row.intervals[0]))
        style = "bold" if number >= len(rows) else None
        add(table, row.formula, *where, *bound, *cells, *gaps, style=style)
    show(table)
