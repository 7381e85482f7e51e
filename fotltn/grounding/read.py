"""CSV and Parquet files as tables of text, with the place of every row."""

from __future__ import annotations

import csv as text
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from fotltn.errors import DataError

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and how its rows are counted: lines of text, or rows of a table."""

    name: str
    text: bool
    extra: np.ndarray[Any, np.dtype[np.int64]] | None = None  # line ends in cells before each row

    def at(self, row: int) -> str:
        """Where a row (from 0) is."""
        if not self.text:
            return f"{self.name}, row {row + 1}"
        return f"{self.name}:{row + 2 + (0 if self.extra is None else int(self.extra[row]))}"


def read_table(path: Path) -> tuple[Place, pa.Table]:
    """A file's columns as text; empty cells are missing values."""
    name = path.name.lower()
    try:
        if not path.exists():
            raise DataError(f"cannot read {path}: no such file")
        if path.is_dir():
            raise DataError(f"cannot read {path}: it is a folder, not a file")
        if name.endswith(_CSV):
            table = _read_csv(path)
            return Place(str(path), True, _line_ends(table)), _as_text(table)
        if name.endswith(_PARQUET):
            with parquet.ParquetFile(path) as file:
                return Place(str(path), False), _as_text(file.read())
    except UnicodeDecodeError:
        raise DataError(f"cannot read {path}: the names of its columns are not UTF-8") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"cannot read {path}: {_first_line(error)}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or _first_line(error)}") from None
    kinds = ", ".join((*_CSV, *_PARQUET))
    raise DataError(f"cannot read {path}: the name must end in one of {kinds}")


def _read_csv(path: Path) -> pa.Table:
    name = path.name.lower()
    delimiter = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    packing = "gzip" if name.endswith(".gz") else None
    with pa.input_stream(str(path), compression=packing) as stream:
        head = stream.read(1 << 20)
    header = re.split(b"[\r\n]", head, maxsplit=1)[0].decode("utf-8-sig")
    if not header.strip():
        raise DataError(f"cannot read {path}: it is empty; the first line must name the columns")
    names = [n.strip() for n in next(text.reader([header], delimiter=delimiter))]
    if not re.search(b"[\r\n].", head, re.DOTALL):
        return pa.Table.from_arrays([pa.array([], pa.string()) for _ in names], names=names)
    options = csv.ConvertOptions(
        column_types={n: pa.string() for n in names},
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=True,
    )
    parse = csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False, newlines_in_values=True)

    def read(threads: bool) -> pa.Table:
        how = csv.ReadOptions(use_threads=threads, column_names=names, skip_rows=1)
        with pa.input_stream(str(path), compression=packing) as stream:
            return csv.read_csv(stream, how, parse, options)

    try:
        return read(True)
    except pa.ArrowInvalid:  # once more in one thread, which can tell the row
        return read(False)


def _line_ends(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """For each row, how many line ends the cells of earlier rows hold; None if there are none."""
    counts = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        counts += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
    return counts.cumsum() - counts if counts.any() else None


def _as_text(table: pa.Table) -> pa.Table:
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if _plain(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_floating(column.type):
            text = [None if v is None else f"{v:.17g}" for v in column.to_pylist()]
            column = pa.chunked_array([pa.array(text, pa.string())])
        else:
            raise pa.ArrowTypeError(
                f"column '{name}' has the type {column.type}, not text or numbers"
            )
        trimmed = pc.utf8_trim_whitespace(column)
        columns.append(pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed))
    return pa.Table.from_arrays(columns, names=table.column_names)


def _plain(kind: pa.DataType) -> bool:
    tests = ("is_string", "is_large_string", "is_boolean", "is_integer", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
