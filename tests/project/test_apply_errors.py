"""New data that do not fit a model: one clear message each, and never a silent wrong answer."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fotltn
from tests.project.test_apply import HEADS, TOML, days, rows, trained, write

assert trained  # a fixture

FITTING = days(rows(), "d1", "d2")


def text(name: str, before: str, after: str, count: int = -1) -> Callable[[Path], object]:
    """Change the text of a table."""

    def change(folder: Path) -> None:
        file = folder / name
        content = file.read_text()
        assert before in content
        file.write_text(content.replace(before, after, count))

    return change


def column(name: str, head: str) -> Callable[[Path], object]:
    """Leave a column out."""

    def change(folder: Path) -> None:
        lines = [line.split(",") for line in (folder / name).read_text().splitlines()]
        place = lines[0].index(head)
        kept = [",".join(line[:place] + line[place + 1 :]) for line in lines]
        (folder / name).write_text("\n".join(kept) + "\n")

    return change


def cell(name: str, head: str, value: str) -> Callable[[Path], object]:
    """Replace the first cell of a column."""

    def change(folder: Path) -> None:
        lines = [line.split(",") for line in (folder / name).read_text().splitlines()]
        lines[1][lines[0].index(head)] = value
        (folder / name).write_text("\n".join(map(",".join, lines)) + "\n")

    return change


def line(name: str, added: str) -> Callable[[Path], object]:
    """Add a row."""

    def change(folder: Path) -> None:
        file = folder / name
        file.write_text(file.read_text() + added + "\n")

    return change


def content(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def in_place_of_a_table(folder: Path) -> None:
    (folder / "sites.csv").unlink()
    (folder / "sites.csv").mkdir()


P, S, A = "pumps.csv", "sites.csv", "at.csv"
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    # what is missing
    "no feature": (column(P, "bar"), r"pumps\.csv: no column 'bar'"),
    "no column of categories": (column(P, "make"), r"pumps\.csv: no column 'make'"),
    "no entities": (column(P, "pump"), r"pumps\.csv: no column 'pump'"),
    "no times": (column(P, "hour"), r"pumps\.csv: no column 'hour'"),
    "no traces": (column(P, "day"), r"pumps\.csv: no column 'day'"),
    "no static feature": (column(S, "depth"), r"sites\.csv: no column 'depth'"),
    "no predicates": (column(A, "predicate"), r"at\.csv.*predicate"),
    "no argument": (column(A, "arg2"), r"at\.csv.*(arg2|argument)"),
    "no table": (lambda f: (f / S).unlink(), "has no table 'sites.csv', which the model needs"),
    "no rows": (
        lambda f: [content(n, b",".join(map(str.encode, HEADS[n])) + b"\n")(f) for n in (P, A)],
        "networks need entities of sort 'pump'",
    ),
    "nothing in a table": (content(P, b""), r"pumps\.csv.*empty"),
    "a column by another name": (
        text(P, "degrees", "celsius", 1), r"no column 'degrees'",
    ),
    # names and categories
    "a new category": (cell(P, "make", "C"), r"pumps\.csv:2.*'C'; expected one of 'A', 'B'"),
    "a category in small letters": (cell(P, "make", "a"), "expected one of 'A', 'B'"),
    "no category": (cell(P, "make", ""), "empty; expected one of 'A', 'B'"),
    "no name of an entity": (cell(P, "pump", ""), "empty; expected an entity of sort 'pump'"),
    "a site without features": (
        line(A, "At,p0,s77,d1,0,1"), "the feature 'depth' has no value for 's77'",
    ),
    "arguments the wrong way round": (
        line(A, "At,s1,p0,d1,0,1"), "the feature '(depth|bar)' has no value for '(p0|s1)'",
    ),
    "an unknown predicate": (line(A, "Att,p0,s1,d1,0,1"), "unknown predicate 'Att'\n.*'At'"),
    "a function of another theory": (line(A, "speed,p0,s1,d1,0,1"), "'speed'"),
    # features
    "no value of a feature": (cell(P, "bar", ""), r"pumps\.csv:2.*empty; expected a finite number"),
    "a word for a feature": (cell(P, "bar", "high"), "the feature is 'high'; expected a finite"),
    "an infinite feature": (cell(P, "bar", "inf"), "expected a finite number"),
    "no number": (cell(P, "bar", "nan"), "expected a finite number"),
    "a unit in the cell": (cell(P, "bar", "5.2 bar"), "the feature is '5.2 bar'"),
    "a decimal comma": (cell(P, "bar", '"5,2"'), r"."),
    "two values of one feature": (line(S, "s1,99,"), "the feature 'depth' is 99 here, but 3.5 at"),
    # times
    "a time before the first": (cell(P, "hour", "-1"), "'-1' is not a time"),
    "a time between two": (cell(P, "hour", "1.5"), "'1.5' is not a time"),
    "a date": (cell(P, "hour", "2013-01-05"), "'2013-01-05' is not a time"),
    "an enormous time": (cell(P, "hour", "999999999999"), "(too large|cells|limit|time)"),
    "no time": (cell(P, "hour", ""), "empty; expected"),
    # labels and facts
    "a label that is no degree": (cell(P, "failed", "maybe"), "'maybe'"),
    "a label above 1": (cell(P, "failed", "1.5"), "1.5"),
    "facts that contradict": (
        lambda f: [line(A, "At,p0,s1,d1,3,1")(f), line(A, "At,p0,s1,d1,3,0")(f)],
        "At.*|contradict",
    ),
    # files
    "no text": (content(P, bytes(range(256)) * 4), r"pumps\.csv"),
    "another encoding": (
        lambda f: (f / P).write_bytes((f / P).read_bytes().replace(b"p0", "pü".encode("latin-1"))),
        r"pumps\.csv.*UTF8",
    ),
    "semicolons": (
        lambda f: (f / P).write_text((f / P).read_text().replace(",", ";")), "by semicolons",
    ),
    "a column twice": (text(P, "degrees", "bar", 1), "'bar' occurs twice|no column 'degrees'"),
    "a row with too many cells": (line(P, "d1,p0,9,1,2,A,1,1,7,7"), r"pumps\.csv"),
    "a folder in place of a table": (in_place_of_a_table, r"sites\.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_tables_that_do_not_fit(trained, tmp_path, case):
    change, expected = WRONG[case]
    folder = write(tmp_path / "new", FITTING)
    change(folder)
    with pytest.raises(fotltn.FotError, match=expected):
        fotltn.load_model(trained / "model").apply(folder)


def test_there_are_forty_of_them_and_they_fit_before(trained, tmp_path):
    assert len(WRONG) >= 40
    fotltn.load_model(trained / "model").apply(write(tmp_path / "new", FITTING))


def test_a_damaged_archive(trained, tmp_path):
    folder = write(tmp_path / "new", FITTING)
    packed = gzip.compress((folder / P).read_bytes())
    (folder / P).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(fotltn.DataError, match=r"pumps\.csv"):
        fotltn.load_model(trained / "model").apply(folder)


OTHERWISE: dict[str, tuple[Any, str]] = {
    "no such folder": ("nowhere", "the model does not read a table 'nowhere'; it reads 'at.csv', "
    "'pumps"),
    "another file": (["june.csv"], "does not read a table 'june.csv'; it reads 'at.csv', "
    "'pumps.csv'"),
    "a near name": (["pump.csv"], "does not read a table 'pump.csv'; did you mean 'pumps.csv'"),
    "one table of three": ([{"a": [1]}], "the model reads 3 tables .* not 1"),
    "no tables": ([], "the model reads 3 tables .* not 0"),
    "a number": (3, "expected tables of facts, not 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERWISE)
def test_data_that_are_none(trained, case):
    data, expected = OTHERWISE[case]
    with pytest.raises(fotltn.DataError, match=expected):
        fotltn.load_model(trained / "model").apply(data)


def test_a_horizon_before_the_last_time(trained, tmp_path):
    folder = write(tmp_path / "new", FITTING)
    with pytest.raises(fotltn.DataError, match="horizon"):
        fotltn.load_model(trained / "model").apply(folder, horizon=2)


def test_other_units_are_noticed(trained, tmp_path):
    model = fotltn.load_model(trained / "model")
    assert model.apply(write(tmp_path / "same", FITTING)).facts.warnings == ()
    seconds = {n: [list(r) for r in lines] for n, lines in FITTING.items()}
    for row in seconds[P]:
        row[2] = int(str(row[2])) * 60
    for row in seconds[A]:
        row[4] = int(str(row[4])) * 60
    (warning,) = model.apply(write(tmp_path / "seconds", seconds)).facts.warnings
    assert "all times of the new data are multiples of 60, those in training of 1" in str(warning)
    pascal = {n: [list(r) for r in lines] for n, lines in FITTING.items()}
    for row in pascal[P]:
        row[3] = float(str(row[3])) * 100_000
    (warning,) = model.apply(write(tmp_path / "pascal", pascal)).facts.warnings
    assert "the feature 'bar' of 'pump' is on average" in str(warning)


def test_the_settings_of_the_test_name_all_tables():
    assert all(name in TOML for name in (P, S, A))
