"""Generated facts on disk: a table like any user's."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from fotltn.errors import DataError


def write_facts(table: pa.Table, folder: Path | str, name: str) -> Path:
    """Write facts whole or not at all, and give the path.

    Raises:
        DataError: the name is neither CSV nor Parquet, or the file cannot be written.
    """
    if not name.endswith((".csv", ".parquet")) or Path(name).name != name:
        raise DataError(
            f"a table of facts is named like 'facts.csv' or 'facts.parquet', not '{name}'"
        )
    path = Path(folder) / name
    draft = path.with_name(f".{name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("wb") as file:
                if name.endswith(".csv"):
                    file.write(",".join(table.column_names).encode() + b"\n")
                    plain = csv.WriteOptions(include_header=False, quoting_style="none")
                    csv.write_csv(table, file, plain)
                else:
                    parquet.write_table(table, file)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
    return path
