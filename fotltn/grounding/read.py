"""CSV and Parquet files as tables of text, with the place of every row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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

    def at(self, row: int) -> str:
        """Where a row (from 0) is."""
        return f"{self.name}:{row + 2}" if self.text else f"{self.name}, row {row + 1}"


def read_table(path: Path) -> tuple[Place, pa.Table]:
    """A file's columns as text; empty cells are missing values."""
    name = str(path).lower()
    if not path.exists():
        raise DataError(f"cannot read {path}: no such file")
    if path.is_dir():
        raise DataError(f"cannot read {path}: it is a folder, not a file")
    try:
        if name.endswith(_CSV):
            return Place(str(path), True), _read_csv(path, "\t" if ".tsv" in name else ",")
        if name.endswith(_PARQUET):
            return Place(str(path), False), _as_text(parquet.read_table(path))
    except UnicodeDecodeError:
        raise DataError(f"cannot read {path}: the names of its columns are not UTF-8") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"cannot read {path}: {_first_line(error)}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or _first_line(error)}") from None
    kinds = ", ".join((*_CSV, *_PARQUET))
    raise DataError(f"cannot read {path}: the name must end in one of {kinds}")


def _read_csv(path: Path, delimiter: str) -> pa.Table:
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(1 << 20).split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip("\r")
    if not header.strip():
        raise DataError(f"cannot read {path}: it is empty; the first line must name the columns")
    names = [n.strip().strip('"') for n in header.split(delimiter)]
    options = csv.ConvertOptions(
        column_types={n: pa.string() for n in names},
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=True,
    )
    parse = csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False)
    try:
        table = csv.read_csv(path, parse_options=parse, convert_options=options)
    except pa.ArrowInvalid:  # once more in one thread, which can tell the row
        serial = csv.ReadOptions(use_threads=False)
        table = csv.read_csv(path, serial, parse, options)
    table = table.rename_columns([n.strip() for n in table.column_names])
    return _as_text(table)


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
        columns.append(pc.utf8_trim_whitespace(column))
    return pa.table(columns, names=table.column_names)


def _plain(kind: pa.DataType) -> bool:
    tests = ("is_string", "is_large_string", "is_boolean", "is_integer", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
