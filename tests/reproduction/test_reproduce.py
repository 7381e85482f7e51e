"""What is known of the data sets, and the Bayes limit on record."""

import json

import pytest

from fotltn import DataError
from fotltn.analysis.metrics import kb_sat
from reproduction.paper import reproduce
from reproduction.paper.bayes import limits
from reproduction.paper.protocol import DATA, READING, Run, facts_of, world
from reproduction.paper.reproduce import background, bayes, check_device, truth_values
from reproduction.report.records import read

# --- the data sets themselves ----------------------------------------------------------------


def test_the_satisfaction_of_the_truth_and_of_nothing():
    found = background()
    assert found["truth"]["CarPed35K"] == pytest.approx(0.932, abs=1e-3)
    assert found["truth"]["CarPed180K"] == pytest.approx(0.915, abs=3e-3)  # by scene
    assert found["all_false"] == 1.0
    assert set(found["statistics"]) == set(found["truth"]) == set(DATA)
    assert found["statistics"]["CarPed35K"]["Close"].total == 1_000_000


def test_which_axioms_the_truth_does_not_satisfy():
    """A single witness among 100 agents, and crossings that are cut off at the end."""
    values = truth_values("CarPed35K")
    assert {name for name, value in values.items() if value < 1 - 1e-6} == {"A2", "A3", "A13"}
    assert values["A3"] == pytest.approx(0.58, abs=0.01)
    assert values["A13"] == pytest.approx(0.73, abs=0.02)
    assert set(truth_values("CarPed35K", state="all-false").values()) == {1.0}
    assert kb_sat(list(values.values())).value == pytest.approx(0.932, abs=1e-3)


# --- the Bayes limit -------------------------------------------------------------------------


@pytest.fixture
def sampled(monkeypatch):
    """The limit by few sweeps, and what it was asked for."""
    asked = []

    def fewer(scene, data, labels, fractions, repetitions, **options):
        asked.append((data, list(fractions), list(repetitions)))
        return limits(scene, data, labels, fractions, repetitions, sweeps=2, burn_in=4, **options)

    monkeypatch.setattr(reproduce, "limits", fewer)
    monkeypatch.setattr(reproduce, "BURN_IN", 4)
    return asked


def test_the_limit_is_recorded_and_goes_on(sampled, tmp_path):
    path = tmp_path / "new" / "limit.jsonl"
    told: list[tuple[int, int]] = []
    assert bayes(["CarPed35K"], [0.1], 1, path) == 1
    assert bayes(["CarPed35K"], [0.1, 0.8], 2, path, on_done=lambda *n: told.append(n)) == 3
    assert bayes(["CarPed35K"], [0.1, 0.8], 2, path) == 0
    assert sampled == [
        ("CarPed35K", [0.1], [0]), ("CarPed35K", [0.1], [1]), ("CarPed35K", [0.8], [0, 1]),
    ]  # fmt: skip
    assert told == [(2, 4), (4, 4)]
    found = read(path)
    assert [one.key[1:] for one in found] == [
        ("Bayes limit", 0.1, 0), ("Bayes limit", 0.1, 1),
        ("Bayes limit", 0.8, 0), ("Bayes limit", 0.8, 1),
    ]  # fmt: skip
    assert all(one.pr_auc > 0.8 for one in found)  # far above what is learned, even so
    test = facts_of(Run("CarPed35K", "HTGNN", 0.1, 0), READING)[1]
    assert found[0].chance == pytest.approx(
        sum(float(t.mean()) for t in test.truth.values()) / 6, abs=1e-6
    )


def test_a_limit_that_was_cut_off_or_is_of_something_else(sampled, tmp_path):
    path = tmp_path / "limit.jsonl"
    bayes(["CarPed35K"], [0.1], 1, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert bayes(["CarPed35K"], [0.1], 1, path) == 1
    again, before = json.loads(path.read_text()), json.loads(whole)
    assert {**again, "seconds": 0} == {**before, "seconds": 0}
    path.write_bytes(b"nothing\n" + whole)
    with pytest.raises(DataError, match=r"limit\.jsonl:1: not a record of a run"):
        bayes(["CarPed35K"], [0.1], 1, path)
    changed = {**before, "setting": {**before["setting"], "chains": 1}}
    path.write_text(json.dumps(changed) + "\n")
    with pytest.raises(DataError, match=r"another setting \(chains: 1 there, 4 here\)"):
        bayes(["CarPed35K"], [0.1], 1, path)
    assert len(sampled) == 2


def test_devices():
    check_device("cpu")
    for name in ("gpu", "meta", "cuda:99", "mps"):
        with pytest.raises(DataError, match=f"the device '{name}' cannot be used: "):
            check_device(name)


def test_worlds_are_made_once():
    assert world("CarPed35K") is world("CarPed35K")
