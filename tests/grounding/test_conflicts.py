"""What becomes of facts that are stated more than once."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from fotltn import DataError
from fotltn.grounding.facts import read_facts
from tests.grounding.common import SIGNATURE, plain, read, rows

HOW = ["mean", "first", "last", "majority"]


def settled(values: list[float], how: str) -> float:
    """One value out of several, written down anew."""
    if how == "mean":
        return sum(values) / len(values)
    if how in ("first", "last"):
        return values[0 if how == "first" else -1]
    votes = Counter(values)  # counts in order of appearance, so that max finds the earliest
    return max(votes, key=lambda v: votes[v])


@pytest.mark.parametrize("how", HOW)
def test_random_contradictions(how):
    rng = random.Random(3)
    stated: dict[tuple[str, int], list[float]] = {}
    frame: dict[str, list[Any]] = {"predicate": [], "arg1": [], "time": [], "truth": []}
    for _ in range(400):
        agent, time, truth = rng.choice("abcde"), rng.randrange(20), rng.choice([0, 1, 0.25])
        stated.setdefault((agent, time), []).append(truth)
        for name, cell in zip(frame, ["Stop", agent, time, truth], strict=True):
            frame[name].append(cell)
    facts = read_facts([frame], SIGNATURE, on_conflict=how)
    found = {(args[0], time): value for _, args, time, value in rows(facts, "Stop")}
    assert len(found) == len(rows(facts, "Stop"))
    assert list(found) == list(stated)  # in order of first appearance
    assert found == pytest.approx({key: settled(v, how) for key, v in stated.items()})
    clashes = sum(len(set(v)) > 1 for v in stated.values())
    repeats = sum(len(v) - 1 for v in stated.values() if len(set(v)) == 1)
    assert plain(facts)["warnings"] == [
        f"'Stop': {repeats} repeated facts",
        f"'Stop': {clashes} contradictory facts settled by '{how}'",
    ]


def test_ties_go_to_the_earliest(tmp_path):
    text = "Stop,a,,0,0.5\nStop,a,,0,0\nStop,a,,0,0\nStop,a,,0,0.5\nStop,b,,0,0\nStop,b,,0,1\n"
    facts = read(tmp_path, text, on_conflict="majority")
    assert rows(facts, "Stop") == [("", ("a",), 0, 0.5), ("", ("b",), 0, 0.0)]


@pytest.mark.parametrize(("how", "wanted"), [("first", 1.0), ("last", 0.0), ("mean", 0.5)])
def test_the_order_is_that_of_sources(how, wanted):
    frames = [{"predicate": ["Car"], "arg1": ["a"], "truth": [t]} for t in (1, 0)]
    facts = read_facts(frames, SIGNATURE, on_conflict=how)
    assert rows(facts, "Car") == [("", ("a",), -1, wanted)]


def test_a_contradiction_in_every_trace_counts_once(tmp_path):
    text = "predicate,arg1,time,truth,trace\nStop,a,0,,one\nStop,a,0,,two\nCar,a,,1,\nCar,a,,0,\n"
    facts = read(tmp_path, text, on_conflict="last")
    assert plain(facts)["warnings"] == ["'Car': 1 contradictory fact settled by 'last'"]
    assert [row[3] for row in rows(facts, "Car")] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("how", "speed", "place"), [("first", 1, 0), ("last", 4, 1), ("mean", 2.5, 0)]
)
def test_functions(tmp_path, how, speed, place):
    text = "predicate,arg1,time,value\nspeed,a,0,1\nspeed,a,0,4\n"
    facts = read(tmp_path, text, on_conflict=how)
    assert rows(facts, "speed") == [("", ("a",), 0, speed)]
    text = "predicate,arg1,time,value\nat,a,0,home\nat,a,0,work\n"
    if how != "mean":
        assert rows(read(tmp_path, text, on_conflict=how), "at") == [("", ("a",), 0, place)]
        return
    with pytest.raises(DataError) as found:
        read(tmp_path, text, on_conflict=how)
    assert "f.csv:3: 'at' is 'work' here, but 'home' at " in str(found.value)
    assert "only numbers have a mean" in str(found.value)


@pytest.mark.parametrize("how", ["error", *HOW])
def test_exact_duplicates_are_kept_once_and_are_no_conflict(tmp_path, how):
    facts = read(tmp_path, "Stop,a,,0,0.3\nStop,a,,0,0.3\nStop,a,,0,0.3\n", on_conflict=how)
    assert rows(facts, "Stop") == [("", ("a",), 0, 0.3)]
    assert plain(facts)["warnings"] == ["'Stop': 2 repeated facts"]


def test_relations_are_lists(tmp_path):
    facts = read(tmp_path, "pairs,a,b,,\npairs,a,b,,\n", on_conflict="last")
    assert len(rows(facts, "pairs")) == 2
    assert facts.warnings == ()


def test_an_unknown_outcome(tmp_path):
    with pytest.raises(DataError) as found:
        read(tmp_path, "Car,a,,,\n", on_conflict="meen")
    wanted = "on_conflict cannot be 'meen'; did you mean 'mean'?"
    assert str(found.value) == f"error: {wanted}"


def test_numbers_too_large_for_one_key(tmp_path):
    """Facts are told apart by columns where one number for all of them would overflow."""
    count = 3000
    text = "predicate,arg1,arg2,time,truth,trace\n" + "".join(
        f"Close,a{i},b{i},{2**31 - 1 - i},0.5,t{i}\n" for i in range(count)
    )
    whole = "".join(itertools.chain([text], ["Close,a0,b0,2147483647,0.5,t0\n"]))
    facts = read(tmp_path, whole)
    assert len(facts.rows["Close"].time) == count
    assert plain(facts)["warnings"] == ["'Close': 1 repeated fact"]
