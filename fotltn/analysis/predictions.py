"""Predictions as a table of facts, and tables as files that are complete or absent."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import torch
from torch import Tensor

from fotltn.analysis.record import look_up
from fotltn.errors import DataError
from fotltn.files import write_files
from fotltn.logic.core import REAL
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")


def predictions(
    tables: Tables,
    predicates: Collection[str] | None = None,
    *,
    named: bool = False,
    wide: bool = False,
) -> pa.Table:
    """Return the degrees of predicates, one row per fact, with the columns of a file of facts.

    A function has a row for each value, in a column `value`.

    A dense table gives a row for every cell inside its trace. A table of facts gives its facts,
    because other facts are false; if its default is another degree, it is written out. Entities
    have no rows in traces that lack them, or where they are absent.

    Args:
        tables: the tables.
        predicates: the predicates or functions to return; by default, all predicates. If there are
            several traces, rows name theirs. If the clock times of time points are known, they are
            in a column `timestamp`.
        named: name the trace of each row even if there is only one.
        wide: return one row for each binding and time, with a column for each predicate.

    Raises:
        DataError: a name is unknown, or is declared static but changes over time; or, for wide
            rows, predicates have different arguments.
    """
    signature = tables.signature
    chosen = list(signature.predicates) if predicates is None else list(predicates)
    known: dict[str, PredicateDecl | FunctionDecl] = {**signature.predicates}
    known |= {n: signature.functions[n] for n in chosen if n in signature.functions}
    declared = [look_up(known, n, f"unknown predicate '{n}'") for n in chosen]
    if not declared:
        raise DataError("there are no predicates to write")
    width = max(len(decl.sorts) for decl in declared)
    labels = None
    if named or tables.batch > 1:
        labels = pa.array([tables.names.trace(i) for i in range(tables.batch)], pa.string())
    parts = [_rows(decl, tables, labels, width) for decl in declared]
    if wide:
        return _wide(declared, parts)
    return pa.concat_tables(parts, promote_options="permissive")


def stated_facts(tables: Tables) -> pa.Table:
    """Return everything in tables as a file of facts: predicates, functions and relations."""
    signature = tables.signature
    names = [*(n for n in signature.predicates if n in tables.predicates)]
    names += [n for n in signature.functions if n in tables.functions]
    parts = [predictions(tables, names)] if names else []
    for name, tuples in tables.relations.items():
        rows = tuples.cpu().numpy()
        first = np.zeros(len(rows), dtype=np.int64)
        columns = {"predicate": pa.array([name] * len(rows), pa.string())}
        for place, sort in enumerate(signature.relations[name].sorts):
            columns[f"arg{place + 1}"] = _named(sort, first, rows[:, place], tables)
        parts.append(pa.table(columns))
    table = pa.concat_tables(parts, promote_options="permissive")
    if "timestamp" in table.column_names:  # clock times
        table = table.drop_columns(["time"]).rename_columns(
            ["time" if n == "timestamp" else n for n in table.column_names if n != "time"]
        )
    return table


def as_csv(table: pa.Table) -> bytes:
    """Return a table as the text of a CSV file."""
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return bytes(sink.getvalue())


def write_table(table: pa.Table | Iterable[pa.Table], path: str | os.PathLike[str]) -> int:
    """Write a table as CSV, tab-separated text or Parquet, as the name of the file says.

    The old file stays intact until the new one is complete. If there are several tables with the
    same columns, one is in memory at a time.

    Returns:
        The number of rows.

    Raises:
        DataError: the name ends in none of these, or the file cannot be written.
    """
    file, rows = Path(path), 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for one in [table] if isinstance(table, pa.Table) else table:
            rows += one.num_rows
            yield one

    write_files({file: _content(file, counted())})
    return rows


def write_tables(tables: Mapping[Path, pa.Table]) -> None:
    """Write several tables, all of them or none; missing folders are made."""
    write_files({file: _content(file, [table]) for file, table in tables.items()}, parents=True)


def _content(file: Path, tables: Iterable[pa.Table]) -> Callable[[BinaryIO], None]:
    kind = file.suffix.lower() or file.name.lower()  # the whole of `.csv` is its name
    if kind not in (*_DELIMITERS, *_PARQUET):
        kinds = ", ".join((*_DELIMITERS, *_PARQUET))
        raise DataError(f"cannot write {file}: the name must end in one of {kinds}")

    def write(sink: BinaryIO) -> None:
        try:
            writer: Any = None
            for table in tables:
                if writer is None:
                    writer = _writer(kind, sink, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()
        except pa.ArrowException as error:
            raise DataError(f"cannot write {file}: {error}") from None

    return write


def _writer(kind: str, sink: BinaryIO, schema: pa.Schema) -> Any:
    if kind in _PARQUET:
        return parquet.ParquetWriter(sink, schema)
    how = csv.WriteOptions(delimiter=_DELIMITERS[kind])
    return csv.CSVWriter(sink, schema, write_options=how)


def _rows(
    decl: PredicateDecl | FunctionDecl, tables: Tables, traces: pa.Array | None, width: int
) -> pa.Table:
    trace, args, time, value = _cells(decl, tables)
    columns: dict[str, pa.Array] = {
        "predicate": pa.array([decl.name], pa.string()).take(pa.array(np.zeros_like(trace)))
    }
    for place in range(width):
        if place < len(args):
            column = _named(decl.sorts[place], trace, args[place], tables)
        else:
            column = pa.nulls(len(trace), pa.string())
        columns[f"arg{place + 1}"] = column
    columns["time"] = pa.nulls(len(trace), pa.int64()) if time is None else pa.array(time)
    if tables.names.clock is not None and time is None:
        columns["timestamp"] = pa.nulls(len(trace), pa.string())
    elif tables.names.clock is not None and time is not None:
        points, rows = np.unique(trace * tables.horizon + time, return_inverse=True)
        moments = (divmod(int(point), tables.horizon) for point in points)
        stamps = pa.array([tables.names.when(*moment) for moment in moments], pa.string())
        columns["timestamp"] = stamps.take(pa.array(rows))
    if traces is not None:
        columns["trace"] = traces.take(pa.array(trace))
    if isinstance(decl, PredicateDecl):
        columns["truth"] = pa.array(value)
    elif decl.result == REAL:
        columns["value"] = pa.array(value)
    else:
        columns["value"] = _named(decl.result, trace, value, tables)
    rows = pa.table(columns)
    for place in range(len(args)):
        rows = rows.filter(pc.is_valid(rows.column(f"arg{place + 1}")))
    return rows


def _wide(declared: list[PredicateDecl | FunctionDecl], parts: list[pa.Table]) -> pa.Table:
    """Join rows of the same arguments and time; what is static is repeated at all times."""
    first = declared[0]
    for decl in declared:
        if decl.sorts != first.sorts:
            heads = " and ".join(f"{d.name}({', '.join(d.sorts)})" for d in (first, decl))
            raise DataError(
                f"wide rows need predicates of the same arguments, unlike {heads}",
                hint=f"choose predicates: --predicate {first.name}",
            )
    made: pa.Table = None
    for decl, rows in sorted(zip(declared, parts, strict=True), key=lambda pair: pair[0].static):
        rows = rows.rename_columns([*rows.column_names[:-1], decl.name])
        rows = rows.drop_columns(["predicate"])
        if decl.static:
            rows = rows.drop_columns([n for n in ("time", "timestamp") if n in rows.column_names])
        keys = rows.column_names[:-1]
        if made is None:
            made, order = rows, keys
        elif keys:
            made = made.join(rows, keys, join_type="full outer")
        else:  # one value for everything
            value = pa.repeat(rows.column(0)[0], made.num_rows)
            made = made.append_column(decl.name, value)
    made = made.sort_by([(name, "ascending") for name in order]) if order else made
    return made.select([*order, *(decl.name for decl in declared)])


def _cells(
    decl: PredicateDecl | FunctionDecl, tables: Tables
) -> tuple[Numbers, list[Numbers], Numbers | None, np.ndarray[Any, Any]]:
    """Traces, arguments, times (None if static) and degrees, or values, of the rows."""
    function = isinstance(decl, FunctionDecl)
    table = tables.function(decl.name) if function else tables.table(decl.name)
    if isinstance(table, SparseTable) and table.default == 0:
        index, value = table.index.long(), table.value
    else:
        dense = table.dense(table.value.dtype) if isinstance(table, SparseTable) else table
        everywhere = torch.ones(dense.shape, dtype=torch.bool, device=dense.device)
        index, value = everywhere.nonzero().T, dense.reshape(-1)
    if not value.is_floating_point() and not function:
        value = value.to(torch.get_default_dtype())
    value = value.detach()
    steady = table.shape[-1] == 1
    if decl.static and not steady:
        raise DataError(
            f"'{decl.name}' is declared static, but its table has {table.shape[-1]} time points"
        )
    if table.shape[0] == 1 and tables.batch > 1:
        index, value = _repeated(index, value, 0, tables.batch)
    if steady and not decl.static and tables.horizon > 1:
        index, value = _repeated(index, value, -1, tables.horizon)
    if not decl.static:
        inside = index[-1] < tables.lengths.to(index.device)[index[0]]
        index, value = index[:, inside], value[inside]
    there = _present(decl, index, tables)
    index, value = index[:, there], value[there]
    trace, *args, time = index.cpu().numpy()
    return trace, args, None if decl.static else time, value.cpu().numpy()


def _present(decl: PredicateDecl | FunctionDecl, index: Tensor, tables: Tables) -> Tensor:
    """Return which cells have all entities present at their time; static ones, at any time."""
    there = torch.ones(index.shape[1], dtype=torch.bool, device=index.device)
    for place, sort in enumerate(decl.sorts):
        if sort in tables.present:
            mask = tables.present[sort].to(index.device)
            trace, entity, time = index[0], index[1 + place], index[-1]
            there &= mask.any(-1)[trace, entity] if decl.static else mask[trace, entity, time]
    return there


def _repeated(index: Tensor, value: Tensor, row: int, times: int) -> tuple[Tensor, Tensor]:
    """The same cells at every place of one dimension."""
    count = index.shape[1]
    index = index.repeat(1, times)
    index[row] = torch.arange(times, device=index.device).repeat_interleave(count)
    return index, value.repeat(times)


def _named(sort: str, trace: Numbers, numbers: Numbers, tables: Tables) -> pa.Array:
    """Entity numbers as names, each looked up once for each trace."""
    size = tables.sizes[sort]
    known = pa.array(
        [tables.names.entity(sort, t, i) for t in range(tables.batch) for i in range(size)],
        pa.string(),
    )
    return known.take(pa.array(trace * size + numbers))
