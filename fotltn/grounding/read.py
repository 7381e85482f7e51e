"""CSV and Parquet files and queries as tables, with the place of every row; tables as text."""

from __future__ import annotations

import csv as text
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from fotltn.errors import DataError
from fotltn.files import opened
from fotltn.grounding.cells import NUMBERED, by_word, in_one_dictionary, with_words, words_of
from fotltn.grounding.sql import QUERY, run_query

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_HEAD = 1 << 20  # bytes that the names of columns may take
_PARQUET = (".parquet", ".pq")
_SAMPLE = 10_000  # rows that show whether words are repeated


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where a table is from, and how its rows are counted.

    Args:
        name: the file, or what a data frame is called in messages.
        kind: rows are lines of text, rows of a Parquet file or a query, or rows of a data frame.
        extra: line ends in cells before each row, for text.
        column: the column that is meant, if it is one.
    """

    name: str
    kind: Literal["text", "parquet", "frame"]
    extra: np.ndarray[Any, np.dtype[np.int64]] | None = None
    column: str | None = None

    def at(self, row: int | None) -> str:
        """Where a row (from 0) is; without one, where the table is."""
        where = self.name
        if row is not None and self.kind == "text":
            line = row + 2 + (0 if self.extra is None else int(self.extra[row]))
            where = f"{self.name}:{line}"
        elif row is not None and self.kind == "parquet":
            where = f"{self.name}, row {row + 1}"
        elif row is not None:
            where = f"row {row + 1} of {self.name}"
        return where if self.column is None else f"{where}, column '{self.column}'"


def read_file(path: Path) -> tuple[TablePlace, pa.Table]:
    """A file's columns; those of a CSV file are text, with empty cells as missing values.

    Text is read by number, batch by batch, so that a repeated word is there once.
    """
    name = path.name.lower()
    try:
        with opened(path) as file:
            if name.endswith(_CSV):
                table = _read_csv(path)
                return TablePlace(str(path), "text", _line_ends(table)), table
            if name.endswith(_PARQUET):
                return TablePlace(str(path), "parquet"), _read_parquet(file)
            if name.endswith(QUERY):
                return TablePlace(str(path), "parquet"), run_query(path, file.read())
    except FileNotFoundError:
        raise DataError(f"cannot read {path}: no such file") from None
    except UnicodeDecodeError:
        what = "it is" if name.endswith(QUERY) else "the names of its columns are"
        raise DataError(f"cannot read {path}: {what} not UTF-8") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"cannot read {path}: {_first_line(error)}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or _first_line(error)}") from None
    kinds = ", ".join((*_CSV, *_PARQUET, QUERY))
    raise DataError(f"cannot read {path}: the name must end in one of {kinds}")


def _read_parquet(file: BinaryIO) -> pa.Table:
    with parquet.ParquetFile(file) as rows:
        texts = [column.name for column in rows.schema_arrow if pa.types.is_string(column.type)]
        with parquet.ParquetFile(file, metadata=rows.metadata, read_dictionary=texts) as numbered:
            return _in_one_dictionary(numbered.read())


def _in_one_dictionary(table: pa.Table) -> pa.Table:
    columns = [in_one_dictionary(c) if c.type == NUMBERED else c for c in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _read_csv(path: Path) -> pa.Table:
    name = path.name.lower()
    delimiter = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    packing = "gzip" if name.endswith(".gz") else None

    @contextmanager
    def stream() -> Iterator[pa.NativeFile]:
        with opened(path) as file, pa.input_stream(file, compression=packing) as unpacked:
            yield unpacked

    with stream() as start:
        head = start.read(_HEAD)
    first, *rest = re.split(b"[\r\n]", head, maxsplit=1)
    if not rest and len(head) == _HEAD:
        raise DataError(f"cannot read {path}: its first line has more than {_HEAD:,} bytes")
    header = first.decode("utf-8-sig")
    if not header.strip():
        raise DataError(f"cannot read {path}: it is empty; the first line must name the columns")
    try:
        names = [n.strip() for n in next(text.reader([header], delimiter=delimiter))]
    except text.Error as error:
        raise DataError(f"cannot read {path}: the names of its columns: {error}") from None
    if not re.search(b"[\r\n].", head, re.DOTALL):
        return pa.Table.from_arrays([pa.array([], pa.string()) for _ in names], names=names)
    parse = csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False, newlines_in_values=True)

    def read(kind: pa.DataType, *, threads: bool) -> pa.Table:
        how = csv.ReadOptions(use_threads=threads, column_names=names, skip_rows=1)
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(names, kind),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=True,
        )
        with stream() as rows:
            return csv.read_csv(rows, how, parse, options)

    try:
        return _in_one_dictionary(read(NUMBERED, threads=True))
    except pa.ArrowInvalid:  # once more in one thread, which can tell the row
        return read(pa.string(), threads=False)


def _line_ends(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """For each row, how many line ends the cells of earlier rows hold; None if there are none."""
    counts = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        texts = words_of(column) if column.type == NUMBERED else column
        if pc.any(pc.match_substring(texts, "\n")).as_py():
            counts += by_word(column, _count_line_ends, 0)
    return counts.cumsum() - counts if counts.any() else None


def _count_line_ends(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int32]]:
    counts: np.ndarray[Any, np.dtype[np.int32]]
    counts = pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
    return counts


def as_text(place: TablePlace, table: pa.Table) -> pa.Table:
    """Columns as text without white space around it; empty cells are missing values.

    Text is by number where words are repeated, each of them once.

    Raises:
        DataError: a column holds neither text nor numbers.
    """
    columns = []
    try:
        for name, column in zip(table.column_names, table.columns, strict=True):
            text = _text(name, column)
            by_number = text.type == NUMBERED
            columns.append(
                with_words(text, _trimmed(words_of(text))) if by_number else _trimmed(text)
            )
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"cannot read {place.name}: {_first_line(error)}") from None
    return pa.Table.from_arrays(columns, names=table.column_names)


def _trimmed(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text, by number if its first rows repeat words."""
    if column.type == NUMBERED:
        return column.unify_dictionaries()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        shown = [None if v is None else f"{v:.17g}" for v in column.to_pylist()]
        return pa.chunked_array([pa.array(shown, pa.string())])
    if not _plain(column.type):
        raise pa.ArrowTypeError(f"column '{name}' has the type {column.type}, not text or numbers")
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    first = column.slice(0, _SAMPLE)
    if 2 * pc.count_distinct(first).as_py() > len(first):
        return column.cast(pa.string())
    numbered = column.dictionary_encode()
    return with_words(numbered, words_of(numbered).cast(pa.string()))


def _plain(kind: pa.DataType) -> bool:
    tests = ("is_string", "is_large_string", "is_boolean", "is_integer", "is_decimal", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests) or str(kind) == "string_view"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
