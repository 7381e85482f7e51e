"""Read long tables, which have one row per fact, and report every bad row.

The columns are `predicate`; its arguments `arg1`, `arg2`, …; `time`, a whole number of at least 0,
empty for static facts; `truth`, a degree, 1 if empty; and `trace`, if there are several. A
function's row has its result in `value`; a relation's row is one of its tuples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import did_you_mean, listing, name_hint
from fotltn.grounding.cells import (
    A_TIME,
    TRUTHS,
    Codes,
    Floats,
    Ints,
    encode,
    numbers,
    times,
    where,
)
from fotltn.grounding.clock import complain_of_stamps, time_hint
from fotltn.grounding.collect import EVERY, Collector, Rows, SourceRows, Symbol, SymbolKind
from fotltn.grounding.read import TablePlace, as_text, repeated
from fotltn.logic.core import REAL

_COLUMNS = ("predicate", "time", "truth", "trace", "value")
_MOST_HINTS = 100  # unknown columns for which a similar name is looked up
_UNREAD = ("timestamp",)  # tables of predictions have this column in addition to the time
_LIKE_TIMES = ("timestamp", "date", "datetime", "day", "hour", "minute", "step", "t", "when")


def collect_long(collector: Collector, place: TablePlace, raw: pa.Table) -> None:
    """Collect the facts of a long table."""
    collector.begin(place)
    before = collector.count
    complain_of_stamps(collector, place, raw, "time")
    if collector.count > before:
        return
    if "time" in raw.column_names:
        raw = raw.drop_columns([n for n in _UNREAD if n in raw.column_names])
    arguments = _argument_columns(collector, place, raw.column_names)
    if arguments is None:
        return
    table = as_text(place, raw)
    names, codes = encode(table.column("predicate"))
    for row in np.flatnonzero(codes < 0):
        if any(table.column(c)[int(row)].is_valid for c in table.column_names):  # not an empty line
            collector.complain(place, int(row), "the predicate is missing")
    known = collector.symbols
    for code, rows in _in_groups(codes):
        name = names[code].as_py()
        if name not in known:
            hint = name_hint(name, known, "declared:")
            more = f"{len(rows) - 1} more row{'s' if len(rows) > 2 else ''}"
            many = f" (and {more})" if len(rows) > 1 else ""
            collector.complain(place, int(rows[0]), f"unknown predicate '{name}'{many}", hint)
            continue
        source = read_symbol(collector, name, place, _taken(table, rows), rows, arguments)
        if source is not None:
            collector.add(name, source)


def _in_groups(codes: Codes) -> list[tuple[int, Ints]]:
    """Return the rows of each code from 0 up, ordered by first appearance."""
    counts = np.bincount(codes + 1)
    kind = np.uint16 if len(counts) < 2**16 else np.uint32  # unsigned, so -1 sorts last
    order = np.argsort(codes.astype(kind), kind="stable")
    ends = counts[1:].cumsum()
    groups = [(code, order[end - counts[1 + code] : end]) for code, end in enumerate(ends)]
    return sorted((g for g in groups if len(g[1])), key=lambda g: int(g[1][0]))


def _taken(table: pa.Table, rows: Ints) -> pa.Table:
    """Return some rows of a table; the row numbers must be ascending."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return table.slice(rows[0], len(rows))
    return table.take(pa.array(rows))


def _argument_columns(
    collector: Collector, place: TablePlace, names: Sequence[str]
) -> list[str] | None:
    """Return the argument columns in order, or None after reporting bad columns."""
    if doubled := repeated(names):
        collector.complain(place, None, f"the column '{doubled[0]}' occurs twice")
        return None
    arguments = [n for n in names if n.startswith("arg") and n[3:].isdecimal()]
    known = {*_COLUMNS, *arguments}
    strange = [n for n in names if n not in known]
    expected = "facts have the columns predicate, arg1, arg2, …, time, truth"
    if "predicate" not in names:
        message = f"no column 'predicate' (found {listing(names)})"
        collector.complain(place, None, message, expected)
        return None
    for number, name in enumerate(strange):
        searched = number < _MOST_HINTS  # among thousands of columns, a search takes seconds
        near = did_you_mean(name, [*_COLUMNS, "arg1", "arg2"]) if searched else None
        if re.sub(r"[ _-]", "", name.lower()) in _LIKE_TIMES:
            what = "there is one already" if "time" in names else f"if '{name}' is one, rename it"
            near = f"the column of times is called 'time'; {what}"
        message = f"unknown column '{name}'"
        collector.complain(place, None, message, near or f"{expected}, trace, value")
    return None if strange else sorted(arguments, key=lambda n: int(n[3:]))


def read_symbol(
    collector: Collector,
    name: str,
    place: TablePlace,
    table: pa.Table,
    rows: Ints,
    arguments: Sequence[str],
) -> SourceRows | None:
    """Read the facts of one symbol, or return None after reporting errors.

    Args:
        collector: numbers names and receives errors.
        name: the symbol.
        place: the table that the rows come from.
        table: the rows, with the columns of a long table.
        rows: the row numbers in that table.
        arguments: the argument columns of the table.
    """
    reader = _SymbolReader(collector, collector.symbols[name], place, table, rows)
    before = collector.count
    args = reader.arguments(arguments)
    time, value = reader.times(), reader.values()
    if collector.count > before:
        return None
    trace = read_traces(collector, table)
    if reader.symbol.kind == SymbolKind.RELATION:
        reader.complain(
            np.flatnonzero(trace != EVERY)[:1], f"'{name}' is a relation and takes no 'trace'"
        )
    stacked = np.empty((len(rows), len(args)), dtype=np.int64)
    for number, column in enumerate(args):
        stacked[:, number] = column
    return SourceRows(Rows(trace, stacked, time, value), place, rows)


def read_traces(collector: Collector, table: pa.Table) -> Ints:
    """Return the trace number of each row; EVERY for rows without a trace."""
    trace = np.full(table.num_rows, EVERY, dtype=np.int64)
    if "trace" in table.column_names:
        named = where(pc.is_valid(table.column("trace")))
        trace[named] = collector.traces.encode(table.column("trace").take(pa.array(named)))
    return trace


@dataclass(slots=True, eq=False)
class _SymbolReader:
    collector: Collector
    symbol: Symbol
    place: TablePlace
    table: pa.Table
    rows: Ints

    def complain(
        self, index: Iterable[int], message: str | Callable[[int], str], hint: str | None = None
    ) -> None:
        """Record an error at each of these rows of the table."""
        for i in map(int, index):
            text = message if isinstance(message, str) else message(i)
            self.collector.complain(self.place, int(self.rows[i]), text, hint)

    def stated(self, column: str) -> Ints:
        """Return the rows in which a column is not empty."""
        if column not in self.table.column_names:
            return np.zeros(0, dtype=np.int64)
        return where(pc.is_valid(self.table.column(column)))

    def arguments(self, columns: Sequence[str]) -> list[Ints]:
        name, sorts = self.symbol.name, self.symbol.sorts
        wanted = [f"arg{i + 1}" for i in range(len(sorts))]
        for column in (c for c in columns if c not in wanted):
            for i in self.stated(column):
                cell = self.table.column(column)[int(i)]
                takes = f"{len(wanted)} argument{'s' * (len(wanted) != 1)}"
                self.complain([i], f"'{name}' takes {takes}, but {column} is '{cell}'")
        args = []
        for column, sort in zip(wanted, sorts, strict=True):
            if column not in self.table.column_names:
                self.complain([0], f"'{name}' needs the column '{column}' ({sort})")
                continue
            missing = where(pc.is_null(self.table.column(column)))
            self.complain(missing, f"'{name}' needs {column} (of sort {sort})")
            if not len(missing):
                args.append(self.collector.entities[sort].encode(self.table.column(column)))
        return args

    def times(self) -> Ints:
        name, nowhere = self.symbol.name, np.full(len(self.rows), -1, dtype=np.int64)
        if "time" not in self.table.column_names:
            if not self.symbol.static:
                self.complain([0], f"'{name}' changes over time and needs a time")
            return nowhere
        column = self.table.column("time")
        if self.symbol.static:
            hint = {
                SymbolKind.FUNCTION: f"leave it empty, or declare '{name}' as 'temporal'",
                SymbolKind.RELATION: "leave it empty: a relation is the same at all times",
            }.get(self.symbol.kind, f"leave it empty, or declare '{name}' without 'static'")
            self.complain(
                self.stated("time"), lambda i: f"'{name}' is static, but has time {column[i]}", hint
            )
            return nowhere
        points, wrong = times(column)

        def message(i: int) -> str:
            cell = column[i].as_py()
            what = "has no time" if cell is None else f"has the time '{cell}'"
            return f"'{name}' {what}; expected {A_TIME}"

        for i in map(int, np.flatnonzero(wrong)):
            self.complain([i], message, time_hint(column[i].as_py()))
        return points

    def values(self) -> Floats:
        name, kind = self.symbol.name, self.symbol.kind
        function = kind == SymbolKind.FUNCTION
        column, other = ("value", "truth") if function else ("truth", "value")
        self.complain(self.stated(other), f"'{name}' is a {kind} and takes no '{other}'")
        if kind == SymbolKind.RELATION:
            self.complain(self.stated(column), f"'{name}' is a relation and takes no 'truth'")
        elif column not in self.table.column_names and function:
            self.complain([0], f"the function '{name}' needs the column 'value'")
        if kind == SymbolKind.RELATION or column not in self.table.column_names:
            return np.ones(len(self.rows), dtype=np.float64)
        cells = self.table.column(column)
        if self.symbol.result != REAL:
            sort = self.symbol.result
            message = f"'{name}' has no value; expected an entity of sort '{sort}'"
            self.complain(where(pc.is_null(cells)), message)
            filled = pc.fill_null(cells, "")
            return self.collector.entities[sort].encode(filled).astype(np.float64)
        values = numbers(cells, {} if function else TRUTHS)
        if function:
            wrong, expected = ~np.isfinite(values), "a finite number"
        else:
            values = np.where(np.isnan(values), 1.0, values)
            wrong, expected = ~((values >= 0) & (values <= 1)), "a degree from 0 to 1"
        self.complain(
            np.flatnonzero(wrong),
            lambda i: f"'{name}' has the {column} '{cells[i].as_py() or ''}'; expected {expected}",
        )
        return values
