"""Projects that are proposed for tables: what columns are, what holds, and that they train."""

import csv
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import fotltn
from fotltn.errors import DataError
from fotltn.format import share
from fotltn.project.propose import propose
from fotltn.project.proposed_files import project_text, theory_text
from fotltn.project.table_columns import Role


def write(path: Path, heads: list[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([heads, *rows])
    return path


def machines(folder: Path, *, days: int = 1, gaps: float = 0.5) -> Path:
    """Machines by the hour: hot ones fail, failures stay, those that fail are worn."""
    draw = random.Random(1)
    rows: list[list[object]] = []
    for day in range(days):
        for number in range(12):
            failed = False
            for hour in range(draw.randrange(8), 24):
                heat = draw.gauss(60, 15)
                failed = failed or heat > 85
                label: object = "" if draw.random() < gaps else int(failed)
                colour = draw.choice(["red", "green"])
                rows.append([f"day {day}", f"m{number}", hour, round(heat, 2), colour, label,
                             "true" if failed else "false", f"note {draw.random()}"])  # fmt: skip
    heads = ["day", "machine id", "hour", "heat", "colour", "failed", "is worn", "note"]
    return write(folder / "machines.csv", heads, rows)


def roles(path: Path, *learn: str) -> dict[str, str]:
    return {c.name: c.role.value for c in propose(path, learn).main.columns}


def test_columns_are_taken_for_what_they_look_like(tmp_path):
    proposal = propose(machines(tmp_path, days=3))
    assert {c.name: c.role for c in proposal.main.columns} == {
        "day": Role.TRACE, "machine id": Role.ENTITY, "hour": Role.TIME, "heat": Role.FEATURE,
        "colour": Role.CATEGORY, "failed": Role.LEARNED, "is worn": Role.GIVEN,
        "note": Role.UNUSED,
    }  # fmt: skip
    assert (proposal.main.sort, proposal.main.presence) == ("machine", True)
    names = [name for name, _, _ in proposal.rules]
    assert "FailedStays" in names
    assert "FailedMeansIsWorn" in names


def test_rules_are_counted_as_a_loop_counts_them(tmp_path):
    path = machines(tmp_path, days=3)
    (rule,) = [r for r in propose(path).rules if r[0] == "FailedStays"]
    cells = {
        (r["day"], r["machine id"], int(r["hour"])): r["failed"]
        for r in csv.DictReader(path.read_text().splitlines())
    }
    pairs = [
        (now, cells[day, who, hour + 1])
        for (day, who, hour), now in cells.items()
        if (day, who, hour + 1) in cells and cells[day, who, hour + 1]
    ]
    held = [then == "1" for now, then in pairs if now == "1"]
    base = sum(then == "1" for _, then in pairs) / len(pairs)
    often = share(sum(held) / len(held))
    assert rule[2] == f"holds in {often} of {len(held)} cases; {share(base)} by chance"
    assert rule[1] == "G forall x where Here(x). (Failed(x) -> WX (Here(x) -> Failed(x)))"


def test_proposals_rules_and_audit_count_the_same_cells(tmp_path, call):
    rng = random.Random(4)
    rows: list[tuple[Any, ...]] = []
    for pump, hour in itertools.product(range(6), range(30)):
        failed = rng.random() < 0.4
        alarm = failed if rng.random() < 0.97 else not failed
        rows.append((f"p{pump}", hour, int(alarm), int(failed) if rng.random() < 0.5 else ""))
    path = write(tmp_path / "pumps.csv", ["pump", "hour", "alarm", "failed"], rows)
    known = [(alarm, failed) for _, _, alarm, failed in rows if failed != ""]
    held = [failed for alarm, failed in known if alarm]
    assert call("new", tmp_path / "pumps", "--from", path)[0] == 0
    evidence = f"holds in {share(sum(held) / len(held))} of {len(held)} cases"
    assert evidence in (tmp_path / "pumps" / "theory.fot").read_text()
    counted = json.loads(call("rules", tmp_path / "pumps", "--json")[1])["rules"]
    audited = json.loads(call("audit", tmp_path / "pumps", "--json")[1])["axioms"]
    (rule,) = [one for one in counted if one["rule"] == "AlarmMeansFailed"]
    (axiom,) = [one for one in audited if one["axiom"] == "AlarmMeansFailed"]
    for one in (rule, axiom["on_labels"]):
        assert one["support"] == len(held)
        assert one["unlabelled"] == sum(alarm and failed == "" for _, _, alarm, failed in rows)
    base = sum(failed for _, failed in known) / len(known)
    assert rule["base_rate"]["value"] == axiom["on_labels"]["base_rate"] == pytest.approx(base)
    assert rule["confidence"]["value"] == pytest.approx(sum(held) / len(held))


@pytest.mark.parametrize("days", [1, 3])
@pytest.mark.parametrize("gaps", [0.0, 0.5])
def test_a_proposed_project_trains_and_travels(tmp_path, call, days, gaps):
    path = machines(tmp_path, days=days, gaps=gaps)
    folder = tmp_path / "project"
    status, out, err = call("new", folder, "--from", path, "--learn", "failed")
    assert (status, err) == (0, "")
    assert "learned predicate" in out
    text = (folder / "project.toml").read_text().replace("epochs = 300", "epochs = 2")
    (folder / "project.toml").write_text(text)
    model = fotltn.train(folder)
    assert model.warnings == ()
    assert model.grounding.learned == ("Failed",)
    metrics = model.metrics()
    assert metrics is not None
    assert metrics.predicates["Failed"].facts > 10
    assert model.apply(path).predictions().num_rows == model.predictions().num_rows


def test_a_static_table(tmp_path):
    rows: list[list[object]] = [[f"c{i}", i % 7, i % 2] for i in range(60)]
    path = write(tmp_path / "customers.csv", ["customer", "orders", "left"], rows)
    proposal = propose(path)
    assert roles(path) == {
        "customer": "entity", "orders": "feature", "left": "learned predicate"
    }  # fmt: skip
    assert "static predicate Left(customer)" in theory_text(proposal)
    assert "train = 0.8" in project_text(proposal, None)


@pytest.mark.parametrize(
    ("stamp", "step"), [("2024-02-{:02d}", "1d"), ("2024-02-01T{:02d}:00", "1h"),
                        ("2024-02-01 10:00:{:02d}", "1s")],
)  # fmt: skip
def test_times_that_are_stamps(tmp_path, stamp, step):
    draw = random.Random(5)
    rows: list[list[object]] = []
    for number in range(1, 20):
        for store in ("north", "south"):
            visitors, promo = draw.randrange(200), draw.random() < 0.3
            sold = int(visitors > 150 or promo)
            rows.append([stamp.format(number), store, visitors, int(promo), sold])
    path = write(tmp_path / "shop.csv", ["when", "store", "visitors", "promo", "sold out"], rows)
    proposal = propose(path)
    assert roles(path)["when"] == "time"
    assert (proposal.step, proposal.main.presence) == (step, False)
    assert 'features = ["visitors", "promo"]' in project_text(proposal, None)
    (folder := tmp_path / "p").mkdir()
    (folder / "theory.fot").write_text(theory_text(proposal))
    text = project_text(proposal, str(tmp_path)).replace("epochs = 300", "epochs = 2")
    (folder / "project.toml").write_text(text)
    model = fotltn.train(folder)
    assert model.facts.lengths == (19,)


def rooms(when: Callable[[int], object], *, hours: int = 30, **more: object) -> pa.Table:
    """Six rooms, with an alarm where it is warm; some cells of the heat are empty."""
    draw = random.Random(2)
    rows = []
    for room in ("r1", "r2", "r3", "r4", "r5", "r6"):
        for hour in range(hours):
            heat = draw.gauss(0, 1)
            shown = None if draw.random() < 0.1 else round(heat, 3)
            rows.append({"room": room, "when": when(hour), "heat": shown, **more,
                         "alarm": int(heat > 1)})  # fmt: skip
    return pa.Table.from_pylist(rows)


def trains(folder: Path, path: Path, **asked: str) -> fotltn.Model:
    """The model of a project that is proposed."""
    folder.mkdir()
    proposal = propose(path, **asked)
    (folder / "theory.fot").write_text(theory_text(proposal))
    text = project_text(proposal, str(path.parent)).replace("epochs = 300", "epochs = 2")
    (folder / "project.toml").write_text(text)
    return fotltn.train(folder)


BEGIN = datetime(2024, 3, 30, 22)
ZONED = BEGIN.replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
TIMES: dict[str, tuple[Callable[[int], object], str | None]] = {
    "utc": (lambda i: (ZONED + timedelta(hours=i)).strftime("%Y-%m-%dT%H:%M:%SZ"), "1h"),
    "zone that changes": (
        lambda i: (ZONED + timedelta(hours=i)).astimezone(ZoneInfo("Europe/Berlin")).isoformat(),
        "1h",
    ),
    "typed": (lambda i: BEGIN + timedelta(minutes=15 * i), "15min"),
    "typed with a zone": (lambda i: ZONED + timedelta(hours=i), "1h"),
    "dates": (lambda i: (BEGIN + timedelta(days=7 * i)).date(), "7d"),
}


@pytest.mark.parametrize("case", TIMES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_stamps_of_all_kinds(tmp_path, case, kind):
    when, step = TIMES[case]
    table, path = rooms(when), tmp_path / f"rooms.{kind}"
    writer = pyarrow.csv.write_csv if kind == "csv" else pyarrow.parquet.write_table
    writer(table, path)
    proposal = propose(path)
    assert {c.name: c.role for c in proposal.main.columns} == {
        "room": Role.ENTITY, "when": Role.TIME, "heat": Role.FEATURE, "alarm": Role.LEARNED,
    }  # fmt: skip
    assert (proposal.step, proposal.main.presence) == (step, False)
    assert trains(tmp_path / "p", path).facts.lengths == (30,)


@pytest.mark.parametrize(
    ("name", "begin", "by", "step", "length"),
    [("year", 1990, 1, "1", 30), ("timestamp", 1_700_000_000, 3600, "3600", 30),
     ("hour", 5, 1, None, 35)],
)  # fmt: skip
def test_numbers_that_begin_far_from_0(tmp_path, name, begin, by, step, length):
    table = rooms(lambda i: begin + by * i).rename_columns(["room", name, "heat", "alarm"])
    if step is None:
        table = table.append_column("seen", [["1"] * len(table)])
    pyarrow.csv.write_csv(table, path := tmp_path / "rooms.csv")
    proposal = propose(path)
    assert roles(path)[name] == "time"
    assert proposal.step == step
    assert trains(tmp_path / "p", path).facts.lengths == (length,)


def test_events_at_odd_times_have_the_longest_step_that_tells_them_apart(tmp_path):
    draw = random.Random(7)
    minutes = sorted(draw.sample(range(20 * 24 * 60), 200))
    rows: list[list[object]] = [
        [f"m{draw.randrange(6)}", BEGIN + timedelta(minutes=m, seconds=draw.randrange(60)), m % 2]
        for m in minutes
    ]
    path = write(tmp_path / "events.csv", ["machine", "at", "stop"], rows)
    proposal = propose(path)
    assert roles(path) == {"machine": "entity", "at": "time", "stop": "learned predicate"}
    assert (proposal.step, proposal.main.presence) == ("5min", True)


@pytest.mark.parametrize("plant", [True, False])
def test_a_table_about_one_entity(tmp_path, plant):
    """What all rows are about has a name, or is called by that of the file."""
    draw = random.Random(3)
    rows: list[list[object]] = [
        ["A", f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00", draw.gauss(0, 1),
         draw.choice(["eco", "fast"]), int(draw.random() < 0.3)][not plant :]
        for i in range(120)
    ]  # fmt: skip
    heads = ["plant", "when", "heat", "mode", "fault"][not plant :]
    path = write(tmp_path / "Line 7.csv", heads, rows)
    text = project_text(propose(path), None)
    assert ('entity = "plant"' in text) is plant
    assert ('entity = "=line_7"' in text) is not plant
    assert 'by = "time"' in text
    assert roles(path)["mode"] == "category"
    model = trains(tmp_path / "p", path)
    assert model.facts.sizes() == {"plant" if plant else "line_7": 1}


def test_columns_that_say_nothing_and_cells_that_are_empty(tmp_path):
    """Features may have gaps; what is empty mostly, or the same everywhere, is not used."""
    table = rooms(TIMES["utc"][0], year=2024, ok=1, tags=["a"], note=None)
    pyarrow.parquet.write_table(table, path := tmp_path / "rooms.parquet")
    proposal = propose(path)
    whys = {c.name: c.why for c in proposal.main.of(Role.UNUSED)}
    assert whys == {
        "year": "the same in every row", "ok": "the same in every row",
        "tags": "its type is list<element: string>", "note": "180 of 180 cells are empty",
    }  # fmt: skip
    text = project_text(proposal, None)
    assert 'missing = { "heat" = "last" }' in text
    assert '# not used: "year" (the same in every row)' in text
    with pytest.raises(DataError, match="'tags' cannot be learned"):
        propose(path, ["tags"])
    assert roles(path, "ok")["ok"] == "learned predicate"
    heads = ["id", "size", "late"]
    few: list[list[object]] = [[i, "" if i % 3 else i, i % 2] for i in range(60)]
    assert roles(write(tmp_path / "few.csv", heads, few))["size"] == "not used"
    some: list[list[object]] = [[i, i if i % 3 else "", i % 2] for i in range(60)]
    text = project_text(propose(write(tmp_path / "some.csv", heads, some)), None)
    assert 'missing = { "size" = "mean" }' in text


@pytest.mark.filterwarnings("ignore:.* repeated:fotltn.errors.DataWarning")
def test_rows_that_are_repeated(tmp_path):
    table = rooms(TIMES["utc"][0])
    twice = pa.concat_tables([table, table.slice(40, 9)])
    pyarrow.csv.write_csv(twice, path := tmp_path / "rooms.csv")
    proposal = propose(path)
    assert (proposal.main.rows, proposal.main.presence) == (180, False)
    assert roles(path)["room"] == "entity"
    assert trains(tmp_path / "p", path).facts.lengths == (30,)


def test_names_that_the_language_does_not_take(tmp_path):
    rows: list[list[object]] = [[f"c{i}", i % 2, i % 3 == 0, i % 2, i % 2] for i in range(20)]
    heads = ["sort", 'größe "x" (m²)', "2 late", "G", "S"]
    proposal = propose(write(tmp_path / "odd.csv", heads, rows))
    fotltn.parse(theory_text(proposal))
    symbols = [c.symbol for c in proposal.main.columns if c.symbol]
    assert len(set(symbols)) == 4
    assert proposal.main.sort == "sort_"


def test_machines_are_told_the_same(tmp_path, call):
    status, out, _ = call("new", tmp_path / "p", "--from", machines(tmp_path), "--json")
    told = json.loads(out)
    assert status == 0
    assert told["files"] == ["machines.csv", "project.toml", "theory.fot"]
    assert told["proposal"]["columns"]["heat"] == {"role": "feature", "why": "numbers"}


WRONG: dict[str, tuple[list[str], list[list[object]], str]] = {
    "nothing to learn": (["who", "size"], [["a", 1.5], ["b", 2]], "no column is true or false"),
    "unknown is not empty": (
        ["who", "sick"], [["a", "yes"], ["b", "no"], ["c", "?"]],
        "there is nothing to learn; leave unknown cells empty: in 'sick', '\\?' is neither true",
    ),
    "dates with the day first": (
        ["who", "day", "late"],
        [[w, t, 1] for w in "ab" for t in ("01.04.2024", "02.04.2024")],
        "column 'day' has dates such as '01.04.2024'; write the year first",
    ),
    "nothing that names": (
        ["size", "late"], [[1.5, 1], [2.5, 0]], "time: no column could name entities",
    ),
    "no rows": (["who", "late"], [], "there are no rows"),
    "no entities": (
        ["who", "late"], [["a", 1], ["a", 0]], "rows cannot be told apart",
    ),
    "some times with a zone": (
        ["who", "when", "late"],
        [[w, t, 1] for w in "ab" for t in ("2024-01-01T00:00", "2024-01-01T01:00Z")],
        "t.csv:3, column 'when': '2024-01-01T01:00Z' is not a time like the others; expected a "
        "date or time stamp without a time zone, like '2024-01-01T00:00'",
    ),
    "the same at one time": (
        ["who", "when", "late"], [["a", "2024-01-01", 1], ["a", "2024-01-01", 0],
                                  ["b", "2024-01-02", 0]],
        r"have the same 'who' and 'when': \S+t.csv:2 and \S+t.csv:3 \('a', '2024-01-01'\)"
        "\n.*keep one row for each entity and time",
    ),
    "a column twice": (["who", "who", "late"], [["a", "b", 1]], "'who' occurs twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_no_project_fits(tmp_path, case):
    heads, rows, expected = WRONG[case]
    with pytest.raises(DataError, match=expected):
        propose(write(tmp_path / "t.csv", heads, rows))


def test_what_cannot_be_learned(tmp_path, call):
    path = machines(tmp_path)
    with pytest.raises(DataError, match="no column 'faield'; did you mean 'failed'"):
        propose(path, ["faield"])
    with pytest.raises(DataError, match="'heat' cannot be learned, because it is not true or"):
        propose(path, ["heat"])
    cases: list[tuple[list[object], str]] = [
        (["--learn", "failed"], "--learn names a column of a table: --from TABLE"),
        (["--from", path, "--paper"], "--paper cannot be combined"),
        (["--from", path, "--from", path], "two tables are named 'machines.csv'"),
        (["--from", tmp_path / "none.csv"], "cannot read"),
    ]
    for options, expected in cases:
        status, _, err = call("new", tmp_path / "project", *options)
        assert (status, expected in err) == (1, True)
        assert not (tmp_path / "project").exists()


def test_a_column_of_ticks_is_not_used_and_says_why(tmp_path):
    rows: list[list[object]] = [["a", 1, "x"], ["b", 0, ""], ["c", "", ""], ["d", "", ""]]
    proposal = propose(write(tmp_path / "t.csv", ["who", "late", "seen"], rows))
    (seen,) = [c for c in proposal.main.columns if c.name == "seen"]
    assert seen.role is Role.UNUSED
    assert seen.why == "only 'x', 3 empty; for a predicate, write yes and no"
    assert theory_text(proposal).startswith("# What t.csv states, and rules")


def test_words_that_keep_a_column_from_being_learned(tmp_path):
    rows: list[list[object]] = [["a", 1, "yes"], ["b", 0, "no"], ["c", "", "?"], ["d", "", "open"]]
    rows.append(["e", "", "no"])
    path = write(tmp_path / "t.csv", ["who", "late", "sick"], rows)
    strange = "'?', 'open' are neither true nor false"
    (sick,) = [c for c in propose(path).main.columns if c.name == "sick"]
    assert (sick.role, sick.why) == ("category", f"4 different words; {strange}")
    with pytest.raises(DataError, match=re.escape(f"empty if unknown); {strange}")):
        propose(path, ["sick"])


def test_yes_and_no_are_true_and_false(tmp_path):
    rows = [
        [f"m{n}", t, "yes" if t > 2 else "no" if t % 2 else ""] for n in range(3) for t in range(6)
    ]
    path = write(tmp_path / "m.csv", ["machine", "hour", "failed"], rows)
    (column,) = [c for c in propose(path).main.columns if c.role == Role.LEARNED]
    assert (column.name, column.gaps, column.true_words) == ("failed", 6, ["yes"])
    assert (column.truth[1], column.truth[3]) == (0.0, 1.0)


@pytest.mark.parametrize(("zone", "origin"), [("", "2024-03-01T06:30"), ("Z", "2024-03-01T06:30Z")])
def test_rows_that_come_a_little_late_are_counted_in_half_hours(tmp_path, zone, origin):
    """As a logger writes them: every half hour and some seconds."""
    draw, begin = random.Random(5), datetime(2024, 3, 1, 6, 30)
    rows: list[list[object]] = []
    for unit in ("a", "b"):
        for number in range(20):
            at = begin + timedelta(minutes=30 * number + 1, seconds=draw.randrange(1, 200))
            rows.append([unit, f"{at.isoformat()}{zone}", "" if number % 3 else number % 2])
    path = write(tmp_path / "log.csv", ["unit", "logged at", "warm"], rows)
    proposal = propose(path)
    assert (proposal.step, proposal.origin, proposal.main.presence) == ("30min", origin, False)
    (tmp_path / "theory.fot").write_text(theory_text(proposal))
    (tmp_path / "project.toml").write_text(project_text(proposal, None))
    tables = fotltn.load_project(tmp_path).tables
    assert tables.horizon == 20
