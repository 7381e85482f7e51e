"""The study of features: what methods see, and that runs go on where they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fotltn.errors import DataError
from reproduction.deliveries import world as deliveries
from reproduction.posterior import features as module
from reproduction.posterior.features import METHODS, SensorJob, labelled, learned, study, watched

SMALL = deliveries.Size(3, 4, 2, 12)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(module, "SIZE", SMALL)
    monkeypatch.setattr(module, "SAMPLING", {"worlds": 2, "burn_in": 3, "sweeps": 3, "stored": 1})
    monkeypatch.setattr(module, "TRAINING", {"epochs": 2})
    monkeypatch.setattr(module, "WATCHED", {"epochs": 2, "validation": 0.25})


def test_sensors_tell_of_what_is_true(monkeypatch):
    monkeypatch.setattr(module, "SIZE", deliveries.Size(10, 20, 4, 60))
    world = watched(3)
    truth = deliveries.generate(*module.SIZE, seed=3).tables()
    seen = world.seen["parcel"]
    speed = seen["speed"].to_numpy().reshape(20, 60)
    moves = truth["Moves"]
    assert 0.7 < speed[moves].mean() - speed[~moves].mean() < 1.3
    shake = world.seen["robot"]["shake"].to_numpy().reshape(10, 60)
    faulty = truth["Faulty"]
    assert shake[faulty].std() > 1.3 * shake[~faulty].std()
    noise = (speed - moves).ravel()
    assert 0.5 < np.corrcoef(noise[:-1], noise[1:])[0, 1] < 0.85


def test_true_labels_are_missed_and_the_rest_is_clean():
    world = watched(0)
    labels, rest = labelled(world.facts, 0.5, 0)
    again, _ = labelled(world.facts, 0.5, 0)
    assert labels.equals(again)
    assert labels.num_rows + rest.num_rows == world.facts.num_rows
    assert sum(labels["truth"].to_pylist()) + sum(rest["truth"].to_pylist()) < sum(
        world.facts["truth"].to_pylist()
    )


def test_an_unknown_method_is_refused():
    world = watched(0)
    with pytest.raises(DataError, match="not by 'magic'"):
        learned("magic", world, world.facts, 0)


def test_runs_are_recorded_once(tmp_path):
    path = tmp_path / "features.jsonl"
    jobs = [SensorJob("watched deliveries", method, 0.5, 0) for method in METHODS]
    assert study(jobs, path) == len(METHODS)
    assert study(jobs, path) == 0
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [r["method"] for r in records] == list(METHODS)
    assert [sorted(r.get("exponents", {})) for r in records] == [
        [], [], [], ["Faulty", "Moves", "Waits"]
    ]  # fmt: skip
    for record in records:
        for place in ("here", "there"):
            assert 0 <= record[place]["pr_auc"] <= 1
            assert set(record[place]["by"]) <= set(deliveries.LEARNED)
