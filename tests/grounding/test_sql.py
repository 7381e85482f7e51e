"""Queries as tables: what they may read, and what is said where they cannot be run."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fotltn import DataError
from fotltn.files import DATABASE
from fotltn.grounding.read import read_batches, read_file
from fotltn.grounding.sql import QueryRoom
from fotltn.project.config import read_config
from fotltn.project.train import train

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
        ("SELECT 1; DROP VIEW pumps", "a query must be a single SELECT"),
        ("COPY pumps TO '{}/x.csv'", "a query must be a single SELECT"),
        ("SELECT 1) ; SET threads = 1; SELECT * FROM (SELECT 1", "Parser Error: syntax error"),
        ("SELECT * FROM Query('SELECT 1')", "a query cannot call query, which could read anything"),
        ("SELECT * FROM sqlite_scan('{}/x.db', 'r')", "sqlite_scan"),
        ("-- nothing", "a query must be a single SELECT"),
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
        (
            "oracle:scott:tiger",
            r"must be postgresql://…, mysql://…, sqlite:FILE or duckdb:FILE, not 'oracle:…'",
        ),
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


# --- memory -----------------------------------------------------------------------------------

SETTINGS = "SELECT " + ", ".join(
    f"current_setting('{name}')::VARCHAR AS {name}"
    for name in ("memory_limit", "temp_directory", "preserve_insertion_order")
)
#: A million rows in a random order, 60 MB of text; what is asked of them is more than a count.
MANY = "SELECT hash(i) AS h, repeat(hash(i)::VARCHAR, 3) AS words, i FROM range(1000000) AS r(i)"


def ask_in(folder: Path, query: str, room: QueryRoom) -> list[pa.Table]:
    path = folder / "query.sql"
    path.write_text(query, "utf-8")
    return [table for _, table in read_batches(path, room)]


@pytest.mark.usefixtures("duckdb")
def test_a_query_keeps_to_the_budget_and_spills_where_it_is_told(folder, tmp_path):
    room = QueryRoom(100 * 2**20, tmp_path)
    (row,) = pa.concat_tables(ask_in(folder, SETTINGS, room)).to_pylist()
    assert row["memory_limit"] == "60.0 MiB"
    assert Path(row["temp_directory"]).parent == tmp_path
    assert row["preserve_insertion_order"] == "false"
    assert not Path(row["temp_directory"]).exists()


@pytest.mark.usefixtures("duckdb")
def test_without_a_budget_a_query_leaves_two_fifths_of_the_machine(duckdb, folder):
    with duckdb.connect() as connection:
        ((usual,),) = connection.sql("SELECT current_setting('memory_limit')").fetchall()
    (limit,) = ask(folder, SETTINGS).column("memory_limit").to_pylist()
    of_limit, of_usual = (float(text.split()[0]) for text in (limit, usual))
    assert limit.split()[1] == usual.split()[1]
    assert of_limit == pytest.approx(of_usual * 3 / 4, abs=0.2)


@pytest.mark.usefixtures("duckdb")
def test_rows_that_do_not_fit_are_sorted_on_disk_and_come_in_batches(folder, tmp_path):
    tables = ask_in(folder, MANY, QueryRoom(100 * 2**20, tmp_path))
    assert max(map(len, tables)) <= 2**17
    numbers = pa.concat_tables(tables).column("h").to_numpy()
    assert len(numbers) == 1_000_000
    assert (numbers[1:] >= numbers[:-1]).all()


@pytest.mark.usefixtures("duckdb")
def test_a_query_that_no_disk_helps(folder, tmp_path):
    with pytest.raises(DataError, match=r"(?s)Out of Memory.*a larger budget"):
        ask_in(folder, f"SELECT list(words) AS w FROM ({MANY})", QueryRoom(30 * 2**20, tmp_path))
