"""Databases as sources: real ones, through DuckDB's extensions for them, to read only."""

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fotltn import DataError
from fotltn.files import DATABASE
from fotltn.grounding.read import read_file
from fotltn.grounding.sql import _installed, _package
from fotltn.project.config import read_config
from fotltn.project.train import train
from tests.grounding.databases import mariadb, postgres

__all__ = ["mariadb", "postgres"]

ROWS = {"pump": ["north", "north", "south", "south"], "hour": [0, 1, 0, 1],
        "pressure": [4.0, 5.0, 2.5, 1.0]}  # fmt: skip
KINDS = {"postgresql": "postgres", "mysql": "mysql", "sqlite": "sqlite"}


@pytest.fixture
def sqlite(tmp_path) -> str:
    place = tmp_path / "it's.db"
    sqlite3.connect(place).close()
    return f"sqlite:{place}"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request, monkeypatch) -> str:
    """The URL of a database with a table `readings`, which the environment names."""
    duckdb: Any = pytest.importorskip("duckdb")
    url: str = request.getfixturevalue(request.param)
    kind = KINDS[url.partition(":")[0]]
    if (extension := _installed(kind)) is None:
        pytest.skip(f"pip install {_package(kind)}=={duckdb.__version__}")
    place = url if "://" in url else url.partition(":")[2]
    quoted = place.replace("'", "''")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"ATTACH '{quoted}' AS db (TYPE {kind})")
        connection.execute("DROP TABLE IF EXISTS db.readings")
        connection.execute("CREATE TABLE db.readings (pump TEXT, hour INT, pressure DOUBLE)")
        rows = [*zip(*(ROWS[name] for name in ("pump", "hour", "pressure")), strict=True)]
        connection.executemany("INSERT INTO db.readings VALUES (?, ?, ?)", rows[::-1])
    monkeypatch.setenv(DATABASE, url)
    return url


def ask(folder: Path, query: str) -> pa.Table:
    path = folder / "query.sql"
    path.write_text(query, "utf-8")
    return read_file(path)[1]


@pytest.mark.usefixtures("database")
def test_rows_are_read_and_joined_with_files(tmp_path):
    (tmp_path / "pumps.csv").write_text("pump,hall\nnorth,1\nsouth,2\n", "utf-8")
    assert ask(tmp_path, "SELECT * FROM db.readings").to_pydict() == ROWS
    joined = "SELECT DISTINCT pump, hall FROM db.readings JOIN pumps USING (pump)"
    assert ask(tmp_path, joined).to_pydict() == {"pump": ["north", "south"], "hall": [1, 2]}


def test_nothing_is_written(database, tmp_path, monkeypatch):
    """Not even by functions that pass a statement on, if they could be called."""
    kind = KINDS[database.partition(":")[0]]
    queries = (
        f"SELECT * FROM {kind}_query('db', 'DROP TABLE readings')",
        f"SELECT * FROM {kind}_query('db', 'DELETE FROM readings RETURNING pump')",
        f"SELECT * FROM {kind}_execute('db', 'DROP TABLE readings')",
    )
    monkeypatch.setattr("fotltn.grounding.sql._called", lambda *_: set())
    for query in queries:
        with pytest.raises(DataError):
            ask(tmp_path, query)
    assert ask(tmp_path, "SELECT * FROM db.readings").num_rows == 4


def test_nothing_else_is_read(database, tmp_path):
    url, kind = database.replace("'", "''"), KINDS[database.partition(":")[0]]
    hidden = f"query($$ SELECT * FROM {kind}_scan('x', 'y') $$)"
    for call, name in (
        (f"{kind}_scan('{url}', 'public', 'readings')", f"{kind}_(scan|query)"),
        (f"system.main.{kind.title()}_Query('db', 'SELECT 1')", f"{kind}_query"),
        (hidden, "query"),
    ):
        message = rf"(a query cannot call {name}, which could read anything|does not exist)"
        with pytest.raises(DataError, match=message):
            ask(tmp_path, f"SELECT * FROM (SELECT * FROM {call})")


@pytest.mark.parametrize(
    "url", ["postgresql://me:tiger@127.0.0.1:1/plant", "mysql://me:tiger@127.0.0.1:1/plant",
            "sqlite:/nowhere/tiger.db"],
)  # fmt: skip
def test_a_database_that_is_not_there(tmp_path, monkeypatch, url):
    pytest.importorskip("duckdb")
    monkeypatch.setenv(DATABASE, url)
    with pytest.raises(DataError, match="that FOTLTN_DATABASE names cannot be opened") as refused:
        ask(tmp_path, "SELECT 1")
    assert "tiger" not in str(refused.value)


def test_without_an_extension_a_message_says_where_it_comes_from(tmp_path, monkeypatch):
    duckdb: Any = pytest.importorskip("duckdb")
    monkeypatch.setattr("fotltn.grounding.sql._installed", lambda _: None)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv(DATABASE, "mysql://me:tiger@127.0.0.1:1/plant")
    package = f"pip install duckdb-extension-mysql-scanner=={duckdb.__version__}"
    with pytest.raises(DataError, match=package):
        ask(tmp_path, "SELECT 1")


@pytest.mark.usefixtures("database")
def test_a_project_learns_from_a_database(tmp_path):
    (tmp_path / "theory.fot").write_text("sort pump\npredicate Failed(pump)\n", "utf-8")
    query = "SELECT *, hour = 1 AS failed FROM db.readings"
    (tmp_path / "all.sql").write_text(query, "utf-8")
    (tmp_path / "project.toml").write_text(
        '[theory]\nfile = "theory.fot"\n[[data.wide]]\nfile = "all.sql"\nsort = "pump"\n'
        'entity = "pump"\ntime = "hour"\nfeatures = ["pressure"]\n'
        'predicates = {failed = "Failed"}\n[predicates]\nFailed = "network"\n'
        "[training]\nepochs = 1\n",
        "utf-8",
    )
    model = train(read_config(tmp_path))
    assert model.facts.entities["pump"] == ("north", "south")
    assert model.world.labels.truth["Failed"].tolist() == [0, 1, 0, 1]
