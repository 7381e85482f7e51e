"""A query as a table: DuckDB runs it, on the tables beside it and on a database of the user's.

The query comes with a project, so that it may read the folder that it lies in, and nothing else.
Which database there is, the user says in the environment, not the project.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fotltn.errors import DataError, Diagnostic
from fotltn.files import DATABASE
from fotltn.strict_json import read_json

QUERY = ".sql"
_READERS = {
    ".csv": "read_csv", ".csv.gz": "read_csv", ".tsv": "read_csv", ".tsv.gz": "read_csv",
    ".parquet": "read_parquet", ".pq": "read_parquet",
}  # fmt: skip
_KINDS = {
    "postgresql": "postgres", "postgres": "postgres", "mysql": "mysql", "sqlite": "sqlite",
    "duckdb": "duckdb",
}  # fmt: skip
_URL = ("postgresql", "postgres", "mysql")  # which DuckDB takes with their scheme
_MOST = 1 << 20  # bytes of a query
_BATCH = 2**17  # rows that are taken at once
#: Functions that run a query which is given as text.
_RUN_TEXT = frozenset({"query", "query_table", "json_execute_serialized_sql"})
_SHARE = 0.6  # of the memory there is, which DuckDB may have; the rest is for what takes the rows
_USUAL = 0.8  # the share that it takes by itself


@dataclass(frozen=True, slots=True)
class QueryRoom:
    """What a query may take.

    Args:
        budget: bytes of memory for the query and for what takes its rows; without it, those that
            the machine has.
        folder: where DuckDB puts what memory does not hold; without it, where temporary files are.
    """

    budget: int | None = None
    folder: Path | None = None


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of some columns without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def run_query(path: Path, text: bytes, room: QueryRoom) -> Iterator[pa.RecordBatch]:
    """The rows of a query, sorted, so that they are the same each time, batch by batch.

    If there are none, there is one empty batch, which says what the columns are. What does not fit
    into the room for it, DuckDB puts on disk, as far as it can.

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
    with tempfile.TemporaryDirectory(dir=room.folder) as beside, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = {_quoted(beside)}")
        connection.execute("SET preserve_insertion_order = false")  # rows are sorted in the end
        connection.execute(f"SET memory_limit = {_quoted(_limit(connection, room.budget))}")
        before = _functions(connection)
        _attach(connection, path)
        closed = _RUN_TEXT | (_functions(connection) - before)
        try:
            statements = connection.extract_statements(query)
            if [str(one.type).rpartition(".")[2] for one in statements] != ["SELECT"]:
                raise DataError(f"{path}: a query is one SELECT, and nothing else")
            if called := sorted(_called(connection, query) & closed):
                refusal = f"{path}: a query cannot call {called[0]}, which could read anything"
                raise DataError(Diagnostic(refusal, hint="tables of the database are db.NAME"))
            for statement in _views(folder):
                connection.execute(statement)
            connection.execute(f"SET allowed_directories = [{_quoted(str(folder))}]")
            connection.execute("SET autoinstall_known_extensions = false")
            connection.execute("SET autoload_known_extensions = false")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            rows = connection.sql(query)
            ordered = rows.query("fotltn_rows", "SELECT * FROM fotltn_rows ORDER BY ALL")
            assert ordered is not None  # as it is a SELECT
            reader = ordered.to_arrow_reader(_BATCH)
            yield no_rows(reader.schema)
            yield from reader
        except (duckdb.Error, pa.ArrowException) as error:
            hint = None
            if isinstance(error, duckdb.PermissionException):
                hint = f"a query reads what lies in {folder}, or in the database of {DATABASE}"
            elif isinstance(error, duckdb.CatalogException):
                hint = f"there are {_tables(connection)}"
            elif isinstance(error, duckdb.OutOfMemoryException):
                hint = "a larger budget, a query that holds less at once, or more room on disk"
            raise DataError(Diagnostic(f"{path}: {_said(error)}", hint=hint)) from None


def _limit(connection: Any, budget: int | None) -> str:
    """The memory that DuckDB may have, which counts what a container has."""
    if budget is not None:
        return f"{int(_SHARE * budget)}B"
    ((usual,),) = connection.sql("SELECT current_setting('memory_limit')").fetchall()
    amount, unit = usual.split()
    return f"{float(amount) * _SHARE / _USUAL}{unit}"


def _functions(connection: Any) -> set[str]:
    rows = connection.sql("SELECT DISTINCT lower(function_name) FROM duckdb_functions()")
    return {name for (name,) in rows.fetchall()}


def _called(connection: Any, query: str) -> set[str]:
    """The functions that a SELECT calls, wherever it does."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    names, left = set(), [read_json(tree)]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            names.add(str(node.get("function_name", "")).lower())
        left += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return names


def _attach(connection: Any, path: Path) -> None:
    """Make the database of the user known as `db`, to read only."""
    import duckdb

    url = os.environ.get(DATABASE)
    if not url:
        return
    scheme, _, rest = url.partition(":")
    if scheme not in _KINDS:
        known = "postgresql://…, mysql://…, sqlite:FILE or duckdb:FILE"
        raise DataError(f"{DATABASE} in the environment is {known}, not '{scheme}:…'")
    place, kind = url if scheme in _URL else rest, _KINDS[scheme]
    what = f"{path}: the database that {DATABASE} names cannot be opened"
    if scheme not in _URL and not Path(place).is_file():  # which SQLite would find out late
        raise DataError(f"{what}: there is no such file")
    extension = _installed(kind)
    try:
        if extension is not None:
            connection.execute(f"LOAD {_quoted(str(extension))}")
        connection.execute(f"ATTACH {_quoted(place)} AS db (TYPE {kind}, READ_ONLY)")
    except duckdb.Error as error:  # which may show the password
        said = _said(error).replace(url, "…").replace(place, "…")
        hint = None
        if kind != "duckdb" and extension is None:
            version = duckdb.__version__
            hint = f"DuckDB gets its extension for it from the net (INSTALL {kind}), or from a "
            hint += f"package: pip install {_package(kind)}=={version}"
        raise DataError(Diagnostic(f"{what}: {said}", hint=hint)) from None


def _package(kind: str) -> str:
    """The package that has DuckDB's extension for a kind of database."""
    return f"duckdb-extension-{kind}-scanner"


def _installed(kind: str) -> Path | None:
    """The extension for a kind of database, if its package is installed for this DuckDB."""
    import duckdb

    module = importlib.util.find_spec(_package(kind).replace("-", "_"))
    if module is None or module.origin is None:
        return None
    folder = Path(module.origin).parent / "extensions" / f"v{duckdb.__version__}"
    return next(folder.glob("*.duckdb_extension"), None)


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
