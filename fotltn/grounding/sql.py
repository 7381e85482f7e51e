"""A query as a table: DuckDB runs it, on the tables beside it and on a database of the user's.

The query comes with a project, so that it may read the folder that it lies in, and nothing else.
Which database there is, the user says in the environment, not the project.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from fotltn.errors import DataError, Diagnostic
from fotltn.files import DATABASE

QUERY = ".sql"
_READERS = {
    ".csv": "read_csv", ".csv.gz": "read_csv", ".tsv": "read_csv", ".tsv.gz": "read_csv",
    ".parquet": "read_parquet", ".pq": "read_parquet",
}  # fmt: skip
_KINDS = {"postgresql": "postgres", "postgres": "postgres", "sqlite": "sqlite", "duckdb": "duckdb"}
_URL = ("postgresql", "postgres")  # which DuckDB takes with their scheme
_MOST = 1 << 20  # bytes of a query


def run_query(path: Path, text: bytes) -> pa.Table:
    """The rows of a query, sorted, so that they are the same each time.

    Raises:
        DataError: DuckDB is not installed, or the query or the database cannot be used.
    """
    try:
        import duckdb
    except ImportError:
        raise DataError(
            f"cannot read {path}: queries need the package duckdb: pip install 'fotltn[sql]'"
        ) from None
    if len(text) > _MOST:
        raise DataError(f"cannot read {path}: a query has at most {_MOST:,} bytes")
    query = text.decode().rstrip("; \t\r\n")
    folder = path.resolve().parent
    with tempfile.TemporaryDirectory() as beside, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = {_quoted(beside)}")
        _attach(connection, path)
        try:
            statements = connection.extract_statements(query)
            if [str(one.type).rpartition(".")[2] for one in statements] != ["SELECT"]:
                raise DataError(f"{path}: a query is one SELECT, and nothing else")
            for statement in _views(folder):
                connection.execute(statement)
            connection.execute(f"SET allowed_directories = [{_quoted(str(folder))}]")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            rows = connection.sql(query)
            return pa.table(rows.query("fotltn_rows", "SELECT * FROM fotltn_rows ORDER BY ALL"))
        except (duckdb.Error, pa.ArrowException) as error:
            hint = None
            if isinstance(error, duckdb.PermissionException):
                hint = f"a query reads what lies in {folder}, or in the database of {DATABASE}"
            elif isinstance(error, duckdb.CatalogException):
                hint = f"there are {_tables(connection)}"
            raise DataError(Diagnostic(f"{path}: {_said(error)}", hint=hint)) from None


def _attach(connection: Any, path: Path) -> None:
    """Make the database of the user known as `db`, to read only."""
    import duckdb

    url = os.environ.get(DATABASE)
    if not url:
        return
    scheme, _, rest = url.partition(":")
    if scheme not in _KINDS:
        known = "postgresql://…, sqlite:FILE or duckdb:FILE"
        raise DataError(f"{DATABASE} in the environment is {known}, not '{scheme}:…'")
    place = url if scheme in _URL else rest
    try:
        kind = _KINDS[scheme]
        connection.execute(f"ATTACH {_quoted(place)} AS db (TYPE {kind}, READ_ONLY)")
    except duckdb.Error as error:  # which may show the password
        said = _said(error).replace(url, "…").replace(place, "…")
        raise DataError(
            Diagnostic(
                f"{path}: the database that {DATABASE} names cannot be opened: {said}",
                hint="DuckDB needs an extension for it, which it gets from the net: INSTALL "
                f"{_KINDS[scheme]}",
            )
        ) from None


def _views(folder: Path) -> Iterator[str]:
    """Statements that name the tables of a folder: files, and folders of Parquet files."""
    for path in sorted(folder.iterdir()):
        endings = [e for e in _READERS if path.name.lower().endswith(e)]
        if path.is_file() and endings:
            name, reader, files = path.name[: -len(endings[-1])], _READERS[endings[-1]], path
        elif path.is_dir() and any(path.glob("*.parquet")):
            name, reader, files = path.name, "read_parquet", path / "*.parquet"
        else:
            continue
        named = '"' + name.replace('"', '""') + '"'
        yield f"CREATE OR REPLACE VIEW {named} AS SELECT * FROM {reader}({_quoted(str(files))})"


def _tables(connection: Any) -> str:
    rows = connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")
    named = [name for (name,) in rows.fetchall()]
    return ", ".join(named) or "no tables beside the query"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _said(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
