"""Queries as tables: what they may read, and what is said where they cannot be run."""

import importlib.util
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fotltn import DataError
from fotltn.files import DATABASE
from fotltn.grounding.read import read_file
from fotltn.project.config import read_config
from fotltn.project.train import train

POSTGRES = Path(next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), Path("/none")))
ROWS = {"who": ["a", "b"], "t": [0, 1]}


@pytest.fixture
def duckdb():
    return pytest.importorskip("duckdb")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tables, one of which is a folder of Parquet files."""
    monkeypatch.delenv(DATABASE, raising=False)
    data = tmp_path / "data"
    (data / "readings").mkdir(parents=True)
    (data / "pumps.csv").write_text("pump,hall\nnorth,1\nsouth,2\n", "utf-8")
    for part, (pump, pressure) in enumerate([("south", [1.0, 2.5]), ("north", [5.0, 4.0])]):
        table = pa.table({"pump": [pump] * 2, "hour": [1, 0], "pressure": pressure})
        pq.write_table(table, data / "readings" / f"part-{part}.parquet")
    (tmp_path / "secret.csv").write_text("word\nhush\n", "utf-8")
    return data


def ask(folder: Path, query: str) -> pa.Table:
    path = folder / "query.sql"
    path.write_text(query, "utf-8")
    return read_file(path)[1]


def test_without_duckdb_a_message_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        DataError, match=r"queries need the package duckdb: pip install 'fotltn\[sql\]'"
    ):
        ask(folder, "SELECT 1")


@pytest.mark.usefixtures("duckdb")
def test_a_query_joins_files_and_folders_of_files(folder):
    table = ask(
        folder, "SELECT pump, hour, hall, pressure FROM readings JOIN pumps USING (pump) -- all;\n"
    )
    assert table.to_pydict() == {
        "pump": ["north", "north", "south", "south"], "hour": [0, 1, 0, 1], "hall": [1, 1, 2, 2],
        "pressure": [4.0, 5.0, 2.5, 1.0],
    }  # fmt: skip


@pytest.mark.usefixtures("duckdb")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM '{}/secret.csv'", "Permission Error: Cannot access file"),
        (
            "SELECT * FROM 'https://example.org/x.csv'",
            "Permission Error|Missing Extension|disabled",
        ),
        ("SELECT * FROM reading", r"reading does not exist!\n *= there are pumps, readings"),
        ("SELEC 1", "Parser Error: syntax error"),
        ("SELECT 1; DROP VIEW pumps", "a query is one SELECT, and nothing else"),
        ("COPY pumps TO '{}/x.csv'", "a query is one SELECT, and nothing else"),
        ("SELECT 1) ; SET threads = 1; SELECT * FROM (SELECT 1", "Parser Error: syntax error"),
        ("-- nothing", "a query is one SELECT, and nothing else"),
    ],
)
def test_queries_that_are_refused(folder, query, message):
    with pytest.raises(DataError, match=message):
        ask(folder, query.format(folder.parent))


@pytest.mark.usefixtures("duckdb")
def test_a_query_that_is_no_text(folder):
    (folder / "query.sql").write_bytes(b"SELECT '\xff'")
    with pytest.raises(DataError, match="it is not UTF-8"):
        read_file(folder / "query.sql")


def test_a_database_of_the_user_is_read_only(duckdb, folder, monkeypatch):
    place = folder.parent / "it's.duckdb"
    with duckdb.connect(str(place)) as database:
        database.execute("CREATE TABLE r AS SELECT * FROM (VALUES ('b', 1), ('a', 0)) AS v(who, t)")
    monkeypatch.setenv(DATABASE, f"duckdb:{place}")
    assert ask(folder, "SELECT who, t FROM db.r").to_pydict() == ROWS
    assert ask(folder, "SELECT count(*) AS n FROM db.r, pumps").to_pydict() == {"n": [4]}


@pytest.mark.usefixtures("duckdb")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle:scott:tiger", r"is postgresql://…, sqlite:FILE or duckdb:FILE, not 'oracle:…'"),
        ("duckdb:/nowhere/tiger.db", r"the database that FOTLTN_DATABASE names cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_opened(folder, monkeypatch, url, message):
    monkeypatch.setenv(DATABASE, url)
    with pytest.raises(DataError, match=message) as refused:
        ask(folder, "SELECT 1")
    assert "tiger" not in str(refused.value)


@pytest.mark.usefixtures("duckdb")
def test_a_project_names_a_query(folder):
    (folder / "theory.fot").write_text("sort pump\npredicate Low(pump), Failed(pump)\n", "utf-8")
    (folder / "all.sql").write_text(
        "SELECT *, pressure < 3 AS low, hour = 1 AS failed FROM readings", "utf-8"
    )
    (folder / "project.toml").write_text(
        '[theory]\nfile = "theory.fot"\n[[data.wide]]\nfile = "all.sql"\nsort = "pump"\n'
        'entity = "pump"\ntime = "hour"\nfeatures = ["pressure"]\n'
        'predicates = {low = "Low", failed = "Failed"}\n[predicates]\nFailed = "network"\n'
        "[training]\nepochs = 1\n",
        "utf-8",
    )
    model = train(read_config(folder))
    assert model.facts.entities["pump"] == ("north", "south")
    assert model.world.labels.truth["Failed"].tolist() == [0, 1, 0, 1]


# --- other databases --------------------------------------------------------------------------


@pytest.fixture
def with_extension(duckdb, tmp_path, monkeypatch):
    """Put an extension where DuckDB looks for it; such come as packages, too."""

    def install(name: str) -> None:
        module = importlib.util.find_spec(f"duckdb_extension_{name}")
        files = [] if module is None or module.origin is None else [
            *Path(module.origin).parent.rglob(f"v{duckdb.__version__}/*.duckdb_extension")
        ]  # fmt: skip
        if not files:
            pytest.skip(f"there is no extension {name} for DuckDB {duckdb.__version__}")
        with duckdb.connect() as connection:
            platform = connection.sql("PRAGMA platform").fetchall()[0][0]
        place = tmp_path / "home/.duckdb/extensions" / f"v{duckdb.__version__}" / platform
        place.mkdir(parents=True)
        shutil.copy(files[0], place)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))

    return install


def test_sqlite(folder, with_extension, monkeypatch):
    with_extension("sqlite_scanner")
    place = folder.parent / "r.db"
    with sqlite3.connect(place) as database:
        database.execute("CREATE TABLE r (who TEXT, t INT)")
        database.executemany("INSERT INTO r VALUES (?, ?)", [("b", 1), ("a", 0)])
    database.close()
    monkeypatch.setenv(DATABASE, f"sqlite:{place}")
    assert ask(folder, "SELECT * FROM db.r").to_pydict() == ROWS


@pytest.fixture
def server() -> Iterator[Path]:
    """A Postgres of its own, without a network; the folder of its socket."""
    if not (POSTGRES / "initdb").exists():
        pytest.skip("there is no Postgres")
    user = "postgres" if os.getuid() == 0 else None  # it does not run as root
    place = Path(subprocess.check_output(["mktemp", "-d"], text=True, user=user).strip())

    def run(name: str, *arguments: str) -> None:
        command = [str(POSTGRES / name), "-D", str(place / "data"), *arguments]
        subprocess.run(command, user=user, check=True, capture_output=True, cwd=place)

    try:
        run("initdb", "-A", "trust", "-N")
        options = f"-k {place} -c listen_addresses='' -F"
        run("pg_ctl", "-w", "-o", options, "-l", str(place / "log"), "start")
        try:
            yield place
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.slow
def test_postgres(folder, with_extension, server, monkeypatch):
    with_extension("postgres_scanner")
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    fill = "CREATE TABLE r (who text, t int); INSERT INTO r VALUES ('b', 1), ('a', 0)"
    subprocess.run(
        ["psql", "-h", str(server), "-U", user, "-d", "postgres", "-c", fill], check=True,
        capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv(DATABASE, f"postgresql:///postgres?host={server}&user={user}")
    assert ask(folder, "SELECT * FROM db.r").to_pydict() == ROWS
    assert ask(folder, "SELECT count(*) AS n FROM db.r, pumps").to_pydict() == {"n": [4]}
    with pytest.raises(DataError, match=r"(?i)read.only|permission|cannot"):
        ask(folder, "SELECT * FROM postgres_execute('db', 'DROP TABLE r')")
    assert ask(folder, "SELECT * FROM db.r").num_rows == 2
    monkeypatch.setenv(DATABASE, "postgresql://me:tiger@localhost:1/nowhere")
    with pytest.raises(DataError, match="cannot be opened") as refused:
        ask(folder, "SELECT 1")
    assert "tiger" not in str(refused.value)
