"""Long tables: one row a fact, read with every bad row reported.

Columns: `predicate`; its arguments `arg1`, `arg2`, …; `time`, a whole number from 0, empty for what
is static; `truth`, a degree, 1 if empty; `trace`, if there are several. A function's row has its
result in `value`; a relation's row is one of its tuples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import did_you_mean, listing
from fotltn.grounding.cells import A_TIME, Floats, Ints, numbers, times, where
from fotltn.grounding.collect import EVERY, Collector, Rows, SourceRows, Symbol, SymbolKind
from fotltn.grounding.read import TablePlace, as_text
from fotltn.logic.core import REAL

_COLUMNS = ("predicate", "time", "truth", "trace", "value")


def collect_long(collector: Collector, place: TablePlace, raw: pa.Table) -> None:
    """Collect the facts of a long table."""
    collector.begin(place)
    table = as_text(place, raw)
    arguments = _columns(collector, place, table)
    if arguments is None:
        return
    names = table.column("predicate")
    for row in where(pc.is_null(names)):
        if all(not table.column(c)[int(row)].is_valid for c in table.column_names):
            continue  # an empty line
        collector.complain(place, int(row), "the predicate is missing")
    known = collector.symbols
    for name in pc.unique(names).drop_null().to_pylist():
        rows = where(pc.equal(names, name))
        if name not in known:
            hint = did_you_mean(name, known) or f"declared: {listing(known)}"
            many = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            collector.complain(place, int(rows[0]), f"unknown predicate '{name}'{many}", hint)
            continue
        part = read_symbol(collector, name, place, table.take(pa.array(rows)), rows, arguments)
        if part is not None:
            collector.add(name, part)


def _columns(collector: Collector, place: TablePlace, table: pa.Table) -> list[str] | None:
    names = table.column_names
    doubled = sorted({n for n in names if names.count(n) > 1})
    if doubled:
        collector.complain(place, None, f"the column '{doubled[0]}' occurs twice")
        return None
    arguments = [n for n in names if n.startswith("arg") and n[3:].isdecimal()]
    strange = [n for n in names if n not in (*_COLUMNS, *arguments)]
    if "predicate" not in names:
        hint = "facts have the columns predicate, arg1, arg2, …, time, truth"
        collector.complain(place, None, f"no column 'predicate' (found {listing(names)})", hint)
        return None
    for name in strange:
        near = did_you_mean(name, [*_COLUMNS, "arg1", "arg2"])
        known = "facts have the columns predicate, arg1, arg2, …, time, truth, trace, value"
        collector.complain(place, None, f"unknown column '{name}'", near or known)
    if strange:
        return None
    return sorted(arguments, key=lambda n: int(n[3:]))


def read_symbol(
    collector: Collector,
    name: str,
    place: TablePlace,
    table: pa.Table,
    rows: Ints,
    arguments: Sequence[str],
) -> SourceRows | None:
    """The facts of one symbol, or None after complaints.

    Args:
        collector: numbers names, and takes complaints.
        name: the symbol.
        place: where the rows are from.
        table: the rows, with columns as in a long table.
        rows: their numbers at that place.
        arguments: the columns of the table that are arguments.
    """
    symbol = collector.symbols[name]
    before = collector.count
    wanted = [f"arg{i + 1}" for i in range(len(symbol.sorts))]
    for column in (c for c in arguments if c not in wanted):
        for i in where(pc.is_valid(table.column(column))):
            collector.complain(
                place,
                int(rows[i]),
                f"'{name}' has no {column} (it takes {len(wanted)}), but there is "
                f"'{table.column(column)[int(i)]}'",
            )
    args = []
    for column, sort in zip(wanted, symbol.sorts, strict=True):
        if column not in table.column_names:
            message = f"'{name}' needs the column '{column}' ({sort})"
            collector.complain(place, int(rows[0]), message)
            continue
        missing = where(pc.is_null(table.column(column)))
        for i in missing:
            collector.complain(place, int(rows[i]), f"'{name}' needs {column} (of sort {sort})")
        if not len(missing):
            args.append(collector.entities[sort].encode(table.column(column)))
    time = _time(collector, symbol, place, table, rows)
    value = _value(collector, symbol, place, table, rows)
    if collector.count > before:
        return None
    trace = read_traces(collector, table)
    named = np.flatnonzero(trace != EVERY)
    if symbol.kind == SymbolKind.RELATION and len(named):
        collector.complain(place, int(rows[named[0]]), f"the relation '{name}' has no traces")
    stacked = np.stack(args, axis=1) if args else np.zeros((len(rows), 0), dtype=np.int64)
    return SourceRows(Rows(trace, stacked, time, value), place, rows)


def read_traces(collector: Collector, table: pa.Table) -> Ints:
    """The traces that rows name, by number."""
    trace = np.full(table.num_rows, EVERY, dtype=np.int64)
    if "trace" in table.column_names:
        named = where(pc.is_valid(table.column("trace")))
        trace[named] = collector.traces.encode(table.column("trace").take(pa.array(named)))
    return trace


def _time(
    collector: Collector, symbol: Symbol, place: TablePlace, table: pa.Table, rows: Ints
) -> Ints:
    nowhere = np.full(len(rows), -1, dtype=np.int64)
    name = symbol.name
    if "time" not in table.column_names:
        if not symbol.static:
            message = f"'{name}' changes over time and needs a time"
            collector.complain(place, int(rows[0]), message)
        return nowhere
    column = table.column("time")
    if symbol.static:
        for i in where(pc.is_valid(column)):
            hint = {
                SymbolKind.PREDICATE: f"leave it empty, or declare '{name}' without 'static'",
                SymbolKind.FUNCTION: f"leave it empty, or declare '{name}' as 'temporal'",
                SymbolKind.RELATION: "leave it empty: a relation is the same at all times",
            }[symbol.kind]
            collector.complain(
                place, int(rows[i]), f"'{name}' is static, but has time {column[int(i)]}", hint
            )
        return nowhere
    found, wrong = times(column)
    for i in np.flatnonzero(wrong):
        cell = column[int(i)].as_py()
        what = "has no time" if cell is None else f"has the time '{cell}'"
        collector.complain(place, int(rows[i]), f"'{name}' {what}; expected {A_TIME}")
    return found


def _value(
    collector: Collector, symbol: Symbol, place: TablePlace, table: pa.Table, rows: Ints
) -> Floats:
    name, kind = symbol.name, symbol.kind
    function = kind == SymbolKind.FUNCTION
    column = "value" if function else "truth"
    other = "truth" if function else "value"
    if other in table.column_names:
        for i in where(pc.is_valid(table.column(other))):
            collector.complain(place, int(rows[i]), f"'{name}' is a {kind} and takes no '{other}'")
    if kind == SymbolKind.RELATION and column in table.column_names:
        for i in where(pc.is_valid(table.column(column))):
            collector.complain(place, int(rows[i]), f"'{name}' is a relation and takes no 'truth'")
        return np.ones(len(rows), dtype=np.float64)
    if column not in table.column_names:
        if function:
            message = f"the function '{name}' needs the column 'value'"
            collector.complain(place, int(rows[0]), message)
        return np.ones(len(rows), dtype=np.float64)
    cells = table.column(column)
    if symbol.result != REAL:
        for i in where(pc.is_null(cells)):
            message = f"'{name}' has no value (of sort {symbol.result})"
            collector.complain(place, int(rows[i]), message)
        filled = pc.fill_null(cells, "")
        return collector.entities[symbol.result].encode(filled).astype(np.float64)
    values = numbers(cells, words=not function)
    if function:
        wrong, expected = ~np.isfinite(values), "a finite number"
    else:
        values = np.where(np.isnan(values), 1.0, values)
        wrong, expected = ~((values >= 0) & (values <= 1)), "a degree from 0 to 1"
    for i in np.flatnonzero(wrong):
        text = cells[int(i)].as_py() or ""
        message = f"'{name}' has the {column} '{text}'; expected {expected}"
        collector.complain(place, int(rows[i]), message)
    return values
