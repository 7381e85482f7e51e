"""Read tables from files, data frames in memory, or plain columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.interchange import from_dataframe

from fotltn.errors import DataError
from fotltn.grounding.read import TablePlace, read_file

#: A table: a file name, a data frame, or a mapping from column names to cells. A data frame passes
#: its columns to Arrow through `__arrow_c_stream__` (pyarrow, pandas, polars, Narwhals and DuckDB)
#: or `__dataframe__` (older frames); a lazy frame does so after `collect()`. A pair
#: (place, table) is a table that has already been read.
Source = Any

_PROTOCOLS = ("__arrow_c_stream__", "__dataframe__")

_INDEX = re.compile(r"__index_level_\d+__")  # the column name of a pandas index


def read_sources(sources: Iterable[Source]) -> Iterator[tuple[TablePlace, pa.Table]]:
    """Yield the tables of files and data frames, with the place of their rows.

    Messages speak of "the data frame" if there is one, and of "data frame 1" and so on if there are
    several.

    Raises:
        DataError: a source cannot be read, or is neither a file nor a data frame.
    """
    listed = list(sources)
    frames = [
        i for i, s in enumerate(listed) if not (isinstance(s, str | os.PathLike) or _is_read(s))
    ]
    names = {i: f"data frame {n}" for n, i in enumerate(frames, 1)}
    if len(frames) == 1:
        names[frames[0]] = "the data frame"
    for i, source in enumerate(listed):
        if _is_read(source):
            place, table = source
            yield place, table
            continue
        yield _read_frame(source, names[i]) if i in names else read_file(Path(source))


def _is_read(source: Source) -> bool:
    return isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], TablePlace)


def is_frame(source: Source) -> bool:
    """Return whether a value is a data frame."""
    return any(hasattr(source, name) for name in _PROTOCOLS) or _is_lazy(source)


def _is_lazy(source: Source) -> bool:
    if any(hasattr(source, name) for name in _PROTOCOLS):
        return False
    return hasattr(source, "collect") and hasattr(source, "collect_schema")


def _read_frame(source: Source, name: str) -> tuple[TablePlace, pa.Table]:
    if isinstance(source, pa.RecordBatch):
        table = pa.Table.from_batches([source])
    elif isinstance(source, pa.Table):
        table = source
    elif isinstance(source, Mapping):
        table = _from_columns(source, name)
    elif is_frame(source):
        try:
            table = _to_arrow(source)
        except Exception as error:  # each library of data frames has its own errors
            raise DataError(f"cannot read {name}: {error}") from None
    else:
        raise DataError(
            f"cannot read facts from a value of type '{type(source).__name__}'; expected the name "
            "of a file, a data frame with '__arrow_c_stream__', or a mapping of columns"
        )
    columns = [i for i, column in enumerate(table.column_names) if not _INDEX.fullmatch(column)]
    return TablePlace(name, "frame"), _without_views(table.select(columns))


def _without_views(table: pa.Table) -> pa.Table:
    """Convert string views, which polars uses, to plain text; Arrow cannot select rows of views."""
    for i, column in enumerate(table.schema):
        if str(column.type) == "string_view":
            table = table.set_column(i, column.name, table.column(i).cast(pa.string()))
    return table


def _to_arrow(frame: Source) -> pa.Table:
    if _is_lazy(frame):
        frame = frame.collect()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    return from_dataframe(frame)


def _from_columns(columns: Mapping[Any, Any], name: str) -> pa.Table:
    arrays = {column: _column(column, cells, name) for column, cells in columns.items()}
    sizes = {column: len(array) for column, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"'{column}' has {size}" for column, size in sizes.items())
        raise DataError(f"cannot read {name}: its columns differ in length ({shown})")
    return pa.table(arrays)


def _column(column: Any, cells: Any, name: str) -> pa.Array:
    if not isinstance(column, str):
        raise DataError(f"cannot read {name}: the name of a column must be text, not {column!r}")
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":  # tolist() may give numbers
        return pa.array(cells)
    if lists := [n for n in ("tolist", "to_list") if hasattr(cells, n)]:
        cells = getattr(cells, lists[0])()
    if not isinstance(cells, Sequence) or isinstance(cells, str | bytes):
        kind = type(cells).__name__
        raise DataError(f"cannot read {name}: column '{column}' must be a list, not a {kind}")
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([_as_word(cell, column, i, name) for i, cell in enumerate(cells)])


def _as_word(cell: Any, column: str, row: int, name: str) -> str | None:
    """Convert a cell of a column of mixed types to text."""
    if cell is None:
        return None
    if isinstance(cell, bool | int | float | str):
        return str(cell)
    at = TablePlace(name, "frame", column=column).at(row)
    raise DataError(f"{at}: expected text or a number, not a value of type '{type(cell).__name__}'")
