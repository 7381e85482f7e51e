"""Read CSV and Parquet files and queries as tables, keeping track of the place of every row."""

from __future__ import annotations

import csv as text
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from fotltn.errors import DataError, Diagnostic
from fotltn.files import opened
from fotltn.grounding.cells import NUMBERED, by_word, in_one_dictionary, with_words, words_of
from fotltn.grounding.sql import QUERY, QueryRoom, no_rows, run_query

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_HEAD = 1 << 20  # limit on the bytes of the first line
_OTHER_DELIMITERS = ("\t", ";", ",")
_PARQUET = (".parquet", ".pq")
_BATCH = 2**17  # rows per batch

#: With fewer rows, a Parquet file is read without threads. They would gain nothing, and Arrow may
#: abort a program that ends as soon as they have begun (github.com/apache/arrow/issues/34314).
_MANY = 2**18
_ANY_ROOM = QueryRoom()

#: What a packed file may become: at no point more bytes than these, and so many more for each byte
#: read of it. A cell counts as one byte at least.
UNPACKED, TIMES = 1 << 25, 100
_SAMPLE = 10_000  # rows inspected to see whether words are repeated


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The origin of a table, used to say in messages where a row is.

    Args:
        name: the file, or the name of a data frame in messages.
        kind: what rows are: lines of text, rows of a Parquet file or a query, or rows of a data
            frame.
        extra: for text, the number of line breaks in cells before each row.
        column: the column that a message is about, if it is about one.
        rows: the number of each row in the file, if the table holds only some of its rows. For
            text, this includes the line breaks in cells before it.
    """

    name: str
    kind: Literal["text", "parquet", "frame"]
    extra: np.ndarray[Any, np.dtype[np.int64]] | None = None
    column: str | None = None
    rows: np.ndarray[Any, np.dtype[np.int64]] | None = None

    def at(self, row: int | None) -> str:
        """Describe the place of a row, counted from 0; without a row, the place of the table."""
        where = self.name
        row = row if row is None or self.rows is None else int(self.rows[row])
        if row is not None and self.kind == "text":
            line = row + 2 + (0 if self.extra is None else int(self.extra[row]))
            where = f"{self.name}:{line}"
        elif row is not None and self.kind == "parquet":
            where = f"{self.name}, row {row + 1}"
        elif row is not None:
            where = f"row {row + 1} of {self.name}"
        return where if self.column is None else f"{where}, column '{self.column}'"


def read_file(path: Path) -> tuple[TablePlace, pa.Table]:
    """Read a file as a table; in a CSV file, all columns are text, and empty cells are null.

    Text is dictionary-encoded batch by batch, so memory holds a repeated word once.
    """
    name = path.name.lower()
    with _readable(path), opened(path) as file:
        if name.endswith(_CSV):
            table = _read_csv(path)
            return TablePlace(str(path), "text", _line_ends(table)), table
        if name.endswith(_PARQUET):
            return TablePlace(str(path), "parquet"), _read_parquet(path, file)
        if name.endswith(QUERY):
            rows = pa.Table.from_batches(run_query(path, file.read(), _ANY_ROOM))
            return TablePlace(str(path), "parquet"), rows
    raise _no_kind(path)


def read_batches(path: Path, room: QueryRoom = _ANY_ROOM) -> Iterator[tuple[TablePlace, pa.Table]]:
    """Yield a file in batches that fit into memory, each with the places of its rows.

    There is at least one batch, which may have no rows. A query keeps to its room.
    """
    name = path.name.lower()
    with _readable(path), opened(path) as file:
        if name.endswith(_CSV):
            kind: Literal["text", "parquet"] = "text"
            batches = _csv_batches(path)
        elif name.endswith(_PARQUET):
            kind, batches = "parquet", _parquet_batches(path, file)
        elif name.endswith(QUERY):
            kind, batches = "parquet", run_query(path, file.read(), room)
        else:
            raise _no_kind(path)
        before = 0  # rows so far and, for text, line breaks in their cells
        for batch in batches:
            table = pa.Table.from_batches([batch])
            numbers = np.arange(before, before + len(batch))
            before += len(batch)
            if kind == "text" and (ends := _line_ends(table)) is not None:
                numbers = numbers + ends
                before += int(ends[-1]) + _ends_in(table.slice(len(table) - 1))
            yield TablePlace(str(path), kind, rows=numbers), table


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of reading a file into a DataError that says why."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"cannot read {path}: no such file") from None
    except UnicodeDecodeError:
        what = "it is" if path.name.lower().endswith(QUERY) else "the names of its columns are"
        raise DataError(f"cannot read {path}: {what} not UTF-8") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"cannot read {path}: {_first_line(error)}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or _first_line(error)}") from None


def _no_kind(path: Path) -> DataError:
    kinds = ", ".join((*_CSV, *_PARQUET, QUERY))
    return DataError(f"cannot read {path}: the name must end in one of {kinds}")


def _parquet_batches(path: Path, file: BinaryIO) -> Iterator[pa.RecordBatch]:
    with parquet.ParquetFile(file) as rows:
        _check_pages(path, rows)
        yield no_rows(rows.schema_arrow)
        yield from rows.iter_batches(_BATCH)


def _read_parquet(path: Path, file: BinaryIO) -> pa.Table:
    with parquet.ParquetFile(file) as rows:
        _check_pages(path, rows)
        texts = [column.name for column in rows.schema_arrow if pa.types.is_string(column.type)]
        many = rows.metadata.num_rows >= _MANY
        with parquet.ParquetFile(file, metadata=rows.metadata, read_dictionary=texts) as numbered:
            return _in_one_dictionary(numbered.read(use_threads=many))


def _in_one_dictionary(table: pa.Table) -> pa.Table:
    columns = [in_one_dictionary(c) if c.type == NUMBERED else c for c in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _check_unpacked(path: Path, unpacked: int, packed: int, hint: str) -> None:
    """Refuse a packed file, such as a bomb, that becomes too large.

    Raises:
        DataError: it becomes more than `UNPACKED` bytes and `TIMES` what was read of it.
    """
    if unpacked > UNPACKED + TIMES * packed:
        raise DataError(
            f"cannot read {path}: {packed:,} packed bytes become more than {unpacked:,}; at most "
            f"{UNPACKED >> 20} MiB and {TIMES} times the packed bytes are read",
            hint=f"if the file is right, {hint}",
        )


def _check_pages(path: Path, rows: parquet.ParquetFile) -> None:
    """Refuse a Parquet file whose pages, or whose cells, become too large."""
    about = rows.metadata
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    pages = sum(group.total_byte_size for group in groups)
    cells = about.num_rows * about.num_columns
    size = path.stat().st_size
    _check_unpacked(path, max(pages, cells), size, "write it as CSV, which is not packed")


class _Unpacking(io.RawIOBase):
    """A stream that is unpacked as it is read, and refused as soon as it becomes too large."""

    def __init__(self, path: Path, packed: BinaryIO, stream: pa.NativeFile) -> None:
        """Read a stream made from a packed file."""
        self.path, self.packed, self.stream, self.unpacked = path, packed, stream, 0

    def readable(self) -> bool:
        """Tell Arrow that this can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most so many bytes of what was packed."""
        chunk: bytes = self.stream.read(size if size >= 0 else None)
        self.unpacked += len(chunk)
        packed = self.packed.tell()
        _check_unpacked(self.path, self.unpacked, packed, "unpack it, and read the plain one")
        return chunk


@dataclass(frozen=True, slots=True)
class _CsvFile:
    """A CSV file: how to open it, its columns, and whether it has rows."""

    stream: Callable[[], AbstractContextManager[pa.NativeFile]]
    names: list[str]
    delimiter: str
    filled: bool

    def options(
        self, kind: pa.DataType, *, threads: bool
    ) -> tuple[csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions]:
        """Return Arrow's options for reading all cells as one type."""
        return (
            csv.ReadOptions(use_threads=threads, column_names=self.names, skip_rows=1),
            csv.ParseOptions(
                delimiter=self.delimiter, ignore_empty_lines=False, newlines_in_values=True
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, kind),
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=True,
            ),
        )

    def nothing(self) -> pa.Table:
        """Return a table without rows."""
        return pa.Table.from_arrays([pa.array([], pa.string()) for _ in self.names], self.names)


def _csv_file(path: Path) -> _CsvFile:
    name = path.name.lower()
    delimiter = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    packing = "gzip" if name.endswith(".gz") else None

    @contextmanager
    def stream() -> Iterator[pa.NativeFile]:
        with opened(path) as file, pa.input_stream(file, compression=packing) as stream:
            if packing is None:
                yield stream
            else:
                with pa.PythonFile(_Unpacking(path, file, stream), mode="r") as unpacked:
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
    other = next((d for d in _OTHER_DELIMITERS if d != delimiter and d in header), None)
    if len(names) == 1 and other is not None:
        raise DataError(_other_delimiter(path, other))
    filled = re.search(b"[\r\n].", head, re.DOTALL) is not None
    return _CsvFile(stream, names, delimiter, filled)


def _other_delimiter(path: Path, delimiter: str) -> Diagnostic:
    word = {"\t": "tabs", ",": "commas", ";": "semicolons"}[delimiter]
    hint = "save the file with commas between cells and points in numbers, or with tabs as .tsv"
    named = {"\t": ".tsv", ",": ".csv"}
    if delimiter in named:
        hint = f"rename the file, so that its name ends in {named[delimiter]}"
    return Diagnostic(f"cannot read {path}: its cells seem to be separated by {word}", hint=hint)


def _read_csv(path: Path) -> pa.Table:
    file = _csv_file(path)
    if not file.filled:
        return file.nothing()

    def read(kind: pa.DataType, *, threads: bool) -> pa.Table:
        with file.stream() as rows:
            return csv.read_csv(rows, *file.options(kind, threads=threads))

    try:
        return _in_one_dictionary(read(NUMBERED, threads=True))
    except pa.ArrowInvalid:  # read again in one thread, which can name the bad row
        return read(pa.string(), threads=False)


def _csv_batches(path: Path) -> Iterator[pa.RecordBatch]:
    file = _csv_file(path)
    yield no_rows(file.nothing().schema)
    if file.filled:
        with file.stream() as rows:
            yield from csv.open_csv(rows, *file.options(pa.string(), threads=False))


def _line_ends(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Count the line breaks in the cells before each row, shape (row,); None if there are none."""
    counts = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        texts = words_of(column) if column.type == NUMBERED else column
        if pc.any(pc.match_substring(texts, "\n")).as_py():
            counts += by_word(column, _count_line_ends, 0)
    return counts.cumsum() - counts if counts.any() else None


def _ends_in(row: pa.Table) -> int:
    """Count the line breaks in the cells of a row."""
    return sum((cell.as_py() or "").count("\n") for column in row.columns for cell in column)


def _count_line_ends(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int32]]:
    counts: np.ndarray[Any, np.dtype[np.int32]]
    counts = pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy()
    return counts


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names of columns that occur more than once.

    >>> repeated(["time", "P", "time"])
    ['time']
    """
    return [name for name, count in Counter(names).items() if count > 1]


def single_column(place: TablePlace, table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the column of a name.

    Raises:
        DataError: there are several.
    """
    if name in repeated(table.column_names):
        raise DataError(f"{place.name}: the column '{name}' occurs twice")
    return table.column(name)


def as_text(place: TablePlace, table: pa.Table) -> pa.Table:
    """Convert columns to text without surrounding white space; empty cells become null.

    Text with repeated words is dictionary-encoded.

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
    """Convert a column to text, dictionary-encoded if its first rows repeat words."""
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
