"""The study of axioms that hold for most cells alone: its runs and its records."""

from __future__ import annotations

import json

import pytest

from fotltn.posterior.sampler import Sampling
from fotltn.project import scene
from reproduction.posterior import soft
from reproduction.posterior.soft import BROKEN, METHODS, SoftJob, study


@pytest.mark.slow
def test_runs_are_recorded_once(monkeypatch, tmp_path):
    monkeypatch.setattr(soft, "SIZE", scene.Size(2, 2, 6))
    few, path = Sampling(worlds=4, burn_in=5, sweeps=3, enough=0), tmp_path / "soft.jsonl"
    jobs = [SoftJob("car scenes", method, 0.5, 0) for method in METHODS]
    assert study(jobs, path, sampling=few) == len(METHODS)
    assert study(jobs, path, sampling=few) == 0
    records = {r["method"]: r for r in map(json.loads, path.read_text("utf-8").splitlines())}
    assert [*records] == list(METHODS)
    assert [sorted(r["weights"]) for r in records.values()] == [[], [], sorted(BROKEN), []]
    assert [sorted(r["violations"]) for r in records.values()] == [
        [], sorted(BROKEN), sorted(BROKEN), []
    ]  # fmt: skip
    assert all(0 <= r["pr_auc"] <= 1 for r in records.values())
