"""The ten rules of the benchmark, with relations under X, F, U, O and H: the counts of pandas."""

import json

import pytest

from benchmarks.flights import THEORY, made_up
from fotltn.analysis.view import View
from fotltn.semantics.config import CRISP
from tests.flights.make import TEN_FACTS, TEN_HOURS, TEN_RECORD, by_fotltn, evidence_of

COUNTS = json.loads(TEN_RECORD.read_text("utf-8"))["counts"]
NAMES = [f"T{number}" for number in range(1, 11)]
by_presence = pytest.mark.parametrize("word", ["present", "all"])


@by_presence
def test_counts_on_record_are_those_of_pandas(word):
    counted = by_fotltn(TEN_FACTS, TEN_HOURS, presence=word == "present", theory=THEORY)
    assert list(counted) == NAMES
    assert counted == COUNTS[word]


@by_presence
def test_the_counts_are_not_trivial(word):
    counts = COUNTS[word]
    assert all(rule["support"] > 10 for rule in counts.values())
    assert sum(0 < rule["held"] < rule["support"] for rule in counts.values()) > 4
    absent = [rule["absent"] > 0 for rule in counts.values()]
    assert all(absent) if word == "present" else not any(absent)


@by_presence
def test_violations_are_what_does_not_hold(word):
    evidence = evidence_of(TEN_FACTS, TEN_HOURS, presence=word == "present", theory=THEORY)
    for axiom in evidence.theory.axioms:
        worst = View(evidence.tables, CRISP, end="final").cells(axiom).worst(3)
        wanted = COUNTS[word][axiom.name]
        assert (worst.count, worst.absent) == (wanted["cells"], wanted["absent"])
        assert worst.violated == wanted["support"] - wanted["held"]


@by_presence
def test_pandas_counts_the_same_again(word):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    from tests.flights import ten_by_pandas

    table = pd.read_csv(TEN_FACTS)
    assert ten_by_pandas.count(table, TEN_HOURS, presence=word == "present") == COUNTS[word]


def test_flights_are_made_up_the_same_each_time():
    facts = made_up(9, 6, 50, seed=3)
    assert facts == made_up(9, 6, 50, seed=3) != made_up(9, 6, 50, seed=4)
    assert len(facts) == len(set(facts))
    assert {fact.predicate for fact in facts} >= {"Departed", "Landed", "Late", "Active", "served"}
    assert all(fact.time is None or 0 <= fact.time < 50 for fact in facts)
