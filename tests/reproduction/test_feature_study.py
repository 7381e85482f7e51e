"""The study of features: what methods see, and that runs go on where they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fotltn.errors import DataError
from reproduction.deliveries import world as deliveries
from reproduction.posterior import features as module
from reproduction.posterior.features import (
    METHODS,
    SensorJob,
    SensorSetting,
    chosen,
    labelled,
    learned,
    study,
    watched,
)

SMALL = deliveries.Size(3, 4, 2, 12)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(module, "SIZE", SMALL)
    monkeypatch.setattr(module, "SAMPLING", {"worlds": 2, "burn_in": 3, "sweeps": 3, "stored": 1})
    monkeypatch.setattr(module, "TRAINING", {"epochs": 2})
    monkeypatch.setattr(module, "STOPPED", {"epochs": 2, "validation": 0.25})
    monkeypatch.setattr(module, "NOISES", (0.5,))
    monkeypatch.setattr(module, "TRIED", range(100, 101))


def test_sensors_tell_of_what_is_true(monkeypatch):
    monkeypatch.setattr(module, "SIZE", deliveries.Size(10, 20, 4, 60))
    world = watched(3, 0.5)
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
    world = watched(0, 0.5)
    labels, rest = labelled(world.facts, 0.5, 0)
    again, _ = labelled(world.facts, 0.5, 0)
    assert labels.equals(again)
    assert labels.num_rows + rest.num_rows == world.facts.num_rows
    assert sum(labels["truth"].to_pylist()) + sum(rest["truth"].to_pylist()) < sum(
        world.facts["truth"].to_pylist()
    )


def test_an_unknown_method_is_refused():
    world = watched(0, 0.5)
    with pytest.raises(DataError, match="unknown method 'magic'"):
        learned("magic", world, world.facts, 0, "gru")


def trial(data, method, *scores):
    return [{"data": data, "method": method, "pr_auc": score} for score in scores]


def test_a_setting_is_chosen_on_worlds_that_are_not_reported(monkeypatch):
    monkeypatch.setattr(module, "NOISES", (0.3, 0.6))
    monkeypatch.setattr(module, "TRIED", range(100, 102))
    monkeypatch.setattr(module, "NETWORKS", {"one point": (False, False), "gru": (True, False)})
    records = [
        *trial("no features", METHODS[0], 0.7, 0.8),
        *trial("noise 0.3", "one point", 0.7, 0.8),
        *trial("noise 0.3", "gru", 0.9, 0.95),  # the best of this noise, and too far away
        *trial("noise 0.6", "one point", 0.7, 0.72),
        *trial("noise 0.6", "gru", 0.9, 0.5),
    ]
    assert chosen(records) == SensorSetting(0.6, "one point")
    with pytest.raises(DataError, match="trials are missing"):
        chosen(records[:-1])
    assert not {*range(100)} & {*module.TRIED}


def test_runs_are_recorded_once(tmp_path):
    path = tmp_path / "features.jsonl"
    jobs = [SensorJob("watched deliveries", method, 0.5, 0) for method in METHODS]
    number = 1 + len(module.NETWORKS)  # of trials
    assert study(jobs, tmp_path) == len(METHODS) + number
    assert study(jobs, tmp_path) == 0
    tried = (tmp_path / "feature_trials.jsonl").read_text("utf-8").splitlines()
    assert len(tried) == number
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [r["method"] for r in records] == list(METHODS)
    assert [sorted(r.get("exponents", {})) for r in records] == [
        [], [], [], ["Faulty", "Moves", "Waits"]
    ]  # fmt: skip
    how = chosen([json.loads(line) for line in tried])
    for record in records:
        assert (record["setting"]["noise"], record["setting"]["network"]) == (0.5, how.network)
        for place in ("here", "there"):
            assert 0 <= record[place]["pr_auc"] <= 1
            assert set(record[place]["by"]) <= set(deliveries.LEARNED)
