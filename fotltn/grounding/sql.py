"""Read a query as a table: DuckDB runs it on the tables beside it, and on the user's database.

A query comes with a project, so it may read its own folder and nothing else. The user names the
database in the environment; a project cannot.
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

from fotltn.errors import DataError
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
_URL = ("postgresql", "postgres", "mysql")  # DuckDB expects their whole URL
_MOST = 1 << 20  # bytes of a query
_BATCH = 2**17  # rows to fetch at once
#: Functions that run a query given as text.
_RUN_TEXT = frozenset({"query", "query_table", "json_execute_serialized_sql"})
_SHARE = 0.6  # the share of memory for DuckDB; the rest is for the consumer of the rows
_USUAL = 0.8  # the share that DuckDB takes by default


@dataclass(frozen=True, slots=True)
class QueryRoom:
    """The resources that a query may use.

    Args:
        budget: bytes of memory for the query and for the consumer of its rows; by default, the
            memory of the machine.
        folder: where DuckDB stores what does not fit into memory; by default, with temporary files.
    """

    budget: int | None = None
    folder: Path | None = None


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return an empty batch with some columns."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def run_query(path: Path, text: bytes, room: QueryRoom) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query in batches, sorted, so that they are always the same.

    A query without rows gives one empty batch, which names the columns. DuckDB moves data to disk,
    if possible, when they exceed the memory.

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
                raise DataError(f"{path}: a query must be a single SELECT")
            if called := sorted(_called(connection, query) & closed):
                refusal = f"{path}: a query cannot call {called[0]}, which could read anything"
                raise DataError(refusal, hint="tables of the database are db.NAME")
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
                hint = f"a query may read only the folder {folder}, and the database of {DATABASE}"
            elif isinstance(error, duckdb.CatalogException):
                hint = f"there are {_tables(connection)}"
            elif isinstance(error, duckdb.OutOfMemoryException):
                hint = "use a larger budget, a query that needs less memory, or more space on disk"
            raise DataError(f"{path}: {_said(error)}", hint=hint) from None


def _limit(connection: Any, budget: int | None) -> str:
    """Return the memory for DuckDB, within the limits of a container."""
    if budget is not None:
        return f"{int(_SHARE * budget)}B"
    ((usual,),) = connection.sql("SELECT current_setting('memory_limit')").fetchall()
    amount, unit = usual.split()
    return f"{float(amount) * _SHARE / _USUAL}{unit}"


def _functions(connection: Any) -> set[str]:
    rows = connection.sql("SELECT DISTINCT lower(function_name) FROM duckdb_functions()")
    return {name for (name,) in rows.fetchall()}


def _called(connection: Any, query: str) -> set[str]:
    """Return the functions that a SELECT calls, at any depth."""
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    names, left = set(), [read_json(tree)]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            names.add(str(node.get("function_name", "")).lower())
        left += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return names


def _attach(connection: Any, path: Path) -> None:
    """Attach the user's database as `db`, read-only."""
    import duckdb

    url = os.environ.get(DATABASE)
    if not url:
        return
    scheme, _, rest = url.partition(":")
    if scheme not in _KINDS:
        known = "postgresql://…, mysql://…, sqlite:FILE or duckdb:FILE"
        raise DataError(f"{DATABASE} in the environment must be {known}, not '{scheme}:…'")
    place, kind = url if scheme in _URL else rest, _KINDS[scheme]
    what = f"{path}: the database that {DATABASE} names cannot be opened"
    if scheme not in _URL and not Path(place).is_file():  # SQLite would report this late
        raise DataError(f"{what}: there is no such file")
    extension = _installed(kind)
    try:
        if extension is not None:
            connection.execute(f"LOAD {_quoted(str(extension))}")
        connection.execute(f"ATTACH {_quoted(place)} AS db (TYPE {kind}, READ_ONLY)")
    except duckdb.Error as error:  # the message may contain the password
        said = _said(error).replace(url, "…").replace(place, "…")
        hint = None
        if kind != "duckdb" and extension is None:
            version = duckdb.__version__
            hint = f"DuckDB downloads its extension (INSTALL {kind}), or takes it from a "
            hint += f"package: pip install {_package(kind)}=={version}"
        raise DataError(f"{what}: {said}", hint=hint) from None


def _package(kind: str) -> str:
    """Return the package with DuckDB's extension for a kind of database."""
    return f"duckdb-extension-{kind}-scanner"


def _installed(kind: str) -> Path | None:
    """Return the extension for a kind of database, if its package is installed."""
    import duckdb

    module = importlib.util.find_spec(_package(kind).replace("-", "_"))
    if module is None or module.origin is None:
        return None
    folder = Path(module.origin).parent / "extensions" / f"v{duckdb.__version__}"
    return next(folder.glob("*.duckdb_extension"), None)


def _views(folder: Path) -> Iterator[str]:
    """Yield statements that name the tables of a folder: files, and folders of Parquet files."""
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
