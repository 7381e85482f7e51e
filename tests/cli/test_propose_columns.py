"""Columns that users name for proposed projects, and mistakes in columns, each with its line."""

import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from fotltn.errors import DataError
from fotltn.project.propose import propose
from tests.cli.test_propose import roles, trains, write
from tests.cli.test_propose_tables import clips

ACTS = ["register", "check", "decide", "pay"]
#: Labels with gaps, in a fixed order.
LABELS = ["1", "0", "", "1", "", "0", "0"]
Rows = list[list[object]]


def log(folder: Path, *, cases: int = 6, at_once: int = 1, who: str = "case") -> Path:
    """An event log: every case has four events, some of them at the same time."""
    rows: Rows = [
        [f"c{case}", step, f"2024-01-0{1 + case % 3}T0{step // at_once}:30", ACTS[step],
         LABELS[(4 * case + step) % 7]]
        for case in range(cases) for step in range(4)
    ]  # fmt: skip
    return write(folder / "log.csv", [who, "step", "timestamp", "activity", "late"], rows)


def games(folder: Path, time: str = "step") -> Path:
    """Agents in numbered episodes."""
    draw = random.Random(1)
    rows: Rows = [
        [episode, step, agent, round(draw.random(), 2), draw.choice(LABELS)]
        for episode in range(3) for step in range(5) for agent in "xyz"
    ]  # fmt: skip
    return write(folder / "games.csv", ["episode", time, "agent", "speed", "done"], rows)


def keys(path: Path, **asked: str) -> dict[str, str]:
    """The columns that tell rows apart, by role."""
    columns = propose(path, **asked).main.columns
    return {c.role.value: c.name for c in columns if c.role.value in ("entity", "trace", "time")}


# --- guesses ------------------------------------------------------------------------------------


NUMBERS = [
    "step",
    "t",
    "tick",
    "frame",
    "minute",
    "hour",
    "day",
    "round",
    "Time step",
    "step_number",
]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_count_steps_are_times(tmp_path, name):
    assert keys(games(tmp_path, name)) == {"trace": "episode", "time": name, "entity": "agent"}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("who", ["patient", "case"])
def test_steps_are_the_time_if_time_stamps_are_too_coarse(tmp_path, name, who):
    path = log(tmp_path, at_once=2, who=who)
    path.write_text(path.read_text().replace("step", name, 1))
    assert keys(path) == {"entity": who, "time": name}
    assert roles(path)["timestamp"] == "not used"


@pytest.mark.parametrize("heads", [["day", "hour"], ["hour", "minute"], ["round", "step"]])
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_times_the_longer_is_the_trace(tmp_path, heads, turned):
    cells: Rows = [[a, b, room, LABELS[a + b]] for a in range(3) for b in range(4) for room in "xy"]
    named = [*heads, "room", "warm"]
    if turned:
        cells, named = [[b, a, *rest] for a, b, *rest in cells], [*heads[::-1], "room", "warm"]
    path = write(tmp_path / "t.csv", named, cells)
    told = {"trace": heads[0], "time": heads[1], "entity": "room"}
    assert keys(path) == keys(path, time=heads[1]) == keys(path, entity="room") == told


def test_cases_of_an_event_log_are_its_entities_or_traces(tmp_path):
    assert keys(log(tmp_path)) == {"entity": "case", "time": "timestamp"}
    path = log(tmp_path, at_once=2)
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    events: Rows = [[case, at, act, late] for case, _, at, act, late in rows]
    path = write(tmp_path / "l.csv", ["Case ID", "timestamp", "activity", "late"], events)
    assert keys(path) == {"trace": "Case ID", "entity": "activity", "time": "timestamp"}


# --- names --------------------------------------------------------------------------------------


def test_columns_that_are_named(tmp_path, call):
    path, folder = games(tmp_path), tmp_path / "p"
    named = ["--entity", "episode", "--trace", "agent", "--time", "step"]
    status, out, _ = call("new", folder, "--from", path, *named, "--json")
    columns = json.loads(out)["proposal"]["columns"]
    assert status == 0
    assert [columns[c]["role"] for c in ("episode", "agent", "step")] == ["entity", "trace", "time"]
    text = (folder / "project.toml").read_text()
    for line in ('entity = "episode"', 'trace = "agent"', 'time = "step"'):
        assert line in text


def test_a_trace_with_one_row_at_a_time_needs_no_entity(tmp_path):
    path = log(tmp_path)
    assert keys(path, trace="case") == {"trace": "case", "time": "timestamp"}
    assert keys(path, trace="case", time="step") == {"trace": "case", "time": "step"}
    told = {"trace": "case", "entity": "activity", "time": "timestamp"}
    assert keys(path, trace="case", entity="activity") == told
    assert trains(tmp_path / "p", path, trace="case", time="step").facts.lengths == (4,) * 6


def test_named_columns_may_look_like_others(tmp_path):
    rows: Rows = [[room, n, LABELS[n]] for n in range(5) for room in (101, 102)]
    path = write(tmp_path / "t.csv", ["room", "nth", "warm"], rows)
    with pytest.raises(DataError, match=r"no column could name entities\n.*--entity, --trace and"):
        propose(path)
    assert keys(path, entity="room", time="nth") == {"entity": "room", "time": "nth"}
    assert trains(tmp_path / "p", path, entity="room", time="nth").facts.lengths == (5,)


def test_a_static_table_may_have_traces(tmp_path):
    rows: Rows = [[f"v{c}", f"n{p}", LABELS[c + p]] for c in range(3) for p in range(4)]
    path = write(tmp_path / "t.csv", ["clip", "person", "tall"], rows)
    assert keys(path, trace="clip") == {"trace": "clip", "entity": "person"}


def test_numbers_of_events_are_not_their_entities(tmp_path):
    rows = [line.split(",") for line in log(tmp_path).read_text().splitlines()]
    path = write(
        tmp_path / "t.csv", ["event id", *rows[0]], [[n, *r] for n, r in enumerate(rows[1:])]
    )
    assert keys(path, trace="case", time="step") == {"trace": "case", "time": "step"}
    assert keys(path, time="step") == {"entity": "case", "time": "step"}


def test_all_rows_may_be_at_one_time(tmp_path):
    for at in ("2024-01-01", "7"):
        rows: Rows = [[f"n{p}", at, LABELS[p]] for p in range(5)]
        path = write(tmp_path / "t.csv", ["person", "at", "tall"], rows)
        assert keys(path, time="at") == {"entity": "person", "time": "at"}


def test_columns_are_named_for_all_tables(tmp_path):
    people, cars, videos = clips(tmp_path)
    proposal = propose([people, cars, videos], entity="person", trace="clip", time="frame")
    told = {t.file: {c.name: c.role.value for c in t.columns} for t in proposal.tables}
    assert told["people.csv"]["person"] == "entity"
    assert [told[file]["clip"] for file in ("people.csv", "cars.csv")] == ["trace", "trace"]
    assert [told[file]["frame"] for file in ("people.csv", "cars.csv")] == ["time", "time"]
    with pytest.raises(DataError, match="no table has a column 'clap'; did you mean 'clip'"):
        propose([people, cars], trace="clap")


def test_names_of_columns_that_do_not_fit(tmp_path, call):
    path = games(tmp_path)
    cases: dict[str, list[object]] = {
        "games.csv: no column 'stpe'; did you mean 'step'?": ["--time", "stpe"],
        "no column 'q'; available: 'episode', 'step', 'agent'": ["--trace", "q"],
        "the column 'step' cannot be both trace and time": ["--trace", "step", "--time", "step"],
        "cannot be both learned predicate and entity": ["--entity", "done", "--learn", "done"],
        "games.csv:2, column 'agent': 'x' is not a time; expected a whole number of at least 0, or "
        "a time stamp or date": ["--time", "agent"],
        "column 'agent': the same is wrong with 44 more cells": ["--time", "agent"],
        "games.csv:4, column 'done': empty; expected the name of the trace": ["--trace", "done"],
        "several rows have the same 'episode' and 'step': ": ["--entity", "episode"],
        "several rows have the same 'speed', 'agent' and 'step': ": [
            "--trace", "speed", "--entity", "agent",
        ],
    }  # fmt: skip
    path.write_text(re.sub(r"0\.\d+", "0.5", path.read_text()))
    lines = path.read_text().splitlines()
    lines[3] = "0,0,z,0.5,"
    path.write_text("\n".join(lines))
    for expected, options in cases.items():
        status, _, err = call("new", tmp_path / "p", "--from", path, *options)
        assert (status, expected in err) == (1, True), err
    for option in ("--entity", "--trace", "--time"):
        status, _, err = call("new", tmp_path / "p", option, "step")
        assert (status, f"{option} names a column of a table: --from TABLE" in err) == (1, True)


# --- mistakes -----------------------------------------------------------------------------------


def test_rows_at_the_same_time_are_named(tmp_path):
    path = log(tmp_path, at_once=2)
    with pytest.raises(DataError) as found:
        propose(path, entity="case", time="timestamp")
    told = str(found.value).replace(f"{tmp_path}/", "")
    assert told.startswith(
        "error: log.csv: several rows have the same 'case' and 'timestamp': "
        "log.csv:2 and log.csv:3 ('c0', '2024-01-01T00:30'); "
        "log.csv:4 and log.csv:5 ('c0', '2024-01-01T01:30'); "
        "log.csv:6 and log.csv:7 ('c1', '2024-01-02T00:30'); 9 more\n"
        "      = keep one row for each entity and time"
    )


def test_lines_are_right_after_repeated_rows_and_in_parquet(tmp_path):
    rows = [["a", 0, 1], ["a", 0, 1], ["b\nc", 0, 0], ["b\nc", 0, 1], ["b\nc", 0, ""]]
    path = write(tmp_path / "t.csv", ["who", "hour", "late"], rows)
    with pytest.raises(DataError, match=r"t.csv:4 and \S+t.csv:6 and 1 more \('b\nc', '0'\)"):
        propose(path, time="hour")
    table = pa.table({"who": ["a", "a"], "at": [1, 1], "late": [0, 1]})
    pyarrow.parquet.write_table(table, path := tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet, row 1 and \S+t.parquet, row 2 \('a', '1'\)"):
        propose(path, time="at")


def test_events_within_one_step(tmp_path):
    rows: Rows = [["a", f"2024-01-01T00:00:00.{n}", LABELS[n]] for n in range(4)]
    path = write(tmp_path / "t.csv", ["who", "at", "late"], rows)
    with pytest.raises(DataError, match="the same 'who' and 'at' in steps of 1s"):
        propose(path, entity="who")


def days(folder: Path, cells: dict[int, str], *, stamps: bool = True) -> Path:
    """Rows by day, some of which are replaced by other text."""
    rows: Rows = [
        [who, f"2024-01-0{1 + day}" if stamps else day, day / 4, LABELS[day]]
        for who in "abc" for day in range(4)
    ]  # fmt: skip
    for row, cell in cells.items():
        rows[row][1] = cell
    return write(folder / "t.csv", ["who", "day", "cost", "late"], rows)


DATE = "a date or time stamp, like '2024-01-01'"
WHOLE = "a whole number of at least 0"
BAD: dict[str, tuple[bool, str, str, str]] = {
    "no such day": (True, "2024-02-30", "'2024-02-30' is not a time", DATE),
    "day first": (True, "4.1.2024", "'4.1.2024' is not a time", DATE),
    "no date": (True, "soon", "'soon' is not a time", DATE),
    "an empty date": (True, "", "empty", DATE),
    "no number": (False, "x", "'x' is not a time", WHOLE),
    "no whole number": (False, "2.5", "'2.5' is not a time", WHOLE),
    "below 0": (False, "-1", "'-1' is not a time", WHOLE),
    "an empty number": (False, "", "empty", WHOLE),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("asked", [{}, {"time": "day"}])
def test_a_bad_time_is_named(tmp_path, case, asked):
    stamps, cell, said, expected = BAD[case]
    with pytest.raises(DataError) as found:
        propose(days(tmp_path, {5: cell}, stamps=stamps), **asked)
    wanted = f"error: t.csv:7, column 'day': {said}; expected {expected}"
    assert str(found.value).replace(f"{tmp_path}/", "") == wanted


def test_several_bad_times(tmp_path):
    with pytest.raises(DataError) as found:
        propose(days(tmp_path, dict.fromkeys(range(2, 7), "?")))
    lines = str(found.value).splitlines()
    assert [f"t.csv:{n}, " in line for n, line in zip((4, 5, 6), lines, strict=False)] == [True] * 3
    assert lines[3].endswith("t.csv, column 'day': the same is wrong with 2 more cells")


def test_a_bad_date_does_not_make_a_column_of_names(tmp_path):
    rows: Rows = [[f"2024-01-{1 + day:02d}", LABELS[day]] for day in range(7)]
    rows[3][0] = "2024-01-32"
    path = write(tmp_path / "t.csv", ["day", "late"], rows)
    with pytest.raises(DataError, match=r"t.csv:5, column 'day': '2024-01-32' is not"):
        propose(path)


@pytest.mark.parametrize(
    ("cells", "more"), [({7: "12,5"}, ""), ({7: "n/a", 9: "?"}, ", and 1 more")]
)
def test_a_bad_number_is_named(tmp_path, cells, more):
    rows: Rows = [[f"c{n}", n / 2, LABELS[n % 7]] for n in range(30)]
    for row, cell in cells.items():
        rows[row][1] = cell
    path = write(tmp_path / "t.csv", ["id", "cost", "late"], rows)
    (cost,) = [c for c in propose(path).main.columns if c.name == "cost"]
    told = f"'{cells[7]}' is not a number ({path}:9{more}); expected a number such as 1234.5"
    assert told in cost.why


def test_the_nearest_column_is_said_if_nothing_can_be_learned(tmp_path):
    path = days(tmp_path, {}, stamps=False)
    path.write_text(path.read_text().replace("a,0,0.0,1", "a,0,0.0,maybe"))
    with pytest.raises(DataError, match="in 'late', 'maybe' is neither true nor false"):
        propose(path)
