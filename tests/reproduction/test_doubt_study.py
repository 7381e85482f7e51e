"""The study of wrong labels: what is turned, how doubts are scored, and that it goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from fotltn.errors import DataError
from fotltn.posterior.sampler import Sampling
from reproduction.posterior import doubts as module
from reproduction.posterior.cases import every
from reproduction.posterior.doubts import DoubtJob, doubtful, run, scored, study, turned

QUICK = Sampling(worlds=2, burn_in=2, sweeps=4, stored=2)


@pytest.mark.parametrize("world", ["deliveries", "CarPed35K"])
def test_a_tenth_of_the_labels_is_turned_both_ways(world):
    work, wrong = turned(world, 0.1, 0)
    again, _ = turned(world, 0.1, 0)
    facts = every(world)
    count = turned_ones = 0
    ways = set()
    for name, mask in wrong.items():
        known = dict(
            zip(map(tuple, facts.index[name].T.tolist()), facts.truth[name].tolist(), strict=True)
        )
        truth = [known[cell] for cell in map(tuple, work.train.index[name].T.tolist())]
        assert torch.equal(mask, torch.tensor(truth) != work.train.truth[name])
        assert torch.equal(work.train.truth[name], again.train.truth[name])
        ways |= set(work.train.truth[name][mask].tolist())
        count, turned_ones = count + len(mask), turned_ones + int(mask.sum())
    assert 0.07 < turned_ones / count < 0.13
    assert ways == {0.0, 1.0}
    assert work.told == (0.1, 0.1)


def test_an_unknown_world_has_no_facts():
    with pytest.raises(DataError, match="unknown world 'delivery'; did you mean 'deliveries'"):
        every("delivery")


def test_doubts_are_scored_over_all_predicates():
    doubt = {"P": torch.tensor([0.9, 0.2, 0.8]), "Q": torch.tensor([0.6, 0.1])}
    wrong = {"P": torch.tensor([True, False, True]), "Q": torch.tensor([False, True])}
    scores = scored(doubt, wrong)
    assert (scores["labels"], scores["wrong"], scores["flagged"]) == (5, 3, 3)
    assert scores["precision"] == scores["recall"] == pytest.approx(2 / 3)
    assert scores["precision_at"]["0.5"] == 1.0
    assert scores["precision_at"]["0.95"] == pytest.approx(3 / 5)
    assert scores["expected"] == pytest.approx(2.6)


def test_a_run_ranks_wrong_labels_above_right_ones():
    record = run(DoubtJob("deliveries", "posterior", 0.1, 0), sampling=QUICK, device="cpu")
    assert record["pr_auc"] > 4 * record["wrong"] / record["labels"]
    assert json.loads(json.dumps(record)) == record


def test_what_is_on_record_is_not_run_again(tmp_path, monkeypatch):
    jobs = [DoubtJob("deliveries", "posterior", 0.1, n) for n in range(3)]
    setting = asdict(replace(QUICK, seed=0))
    calls = []

    def fake(job: DoubtJob, **_: object) -> dict[str, object]:
        calls.append(job)
        return {"data": job.data, "method": job.method, "fraction": job.fraction,
                "repetition": job.repetition, "setting": setting}  # fmt: skip

    monkeypatch.setattr(module, "run", fake)
    path = tmp_path / "doubts.jsonl"
    assert study(jobs[:2], path, QUICK, "cpu", 1) == 2
    assert study(jobs, path, QUICK, "cpu", 1) == 1
    assert calls == jobs


def test_another_method_is_refused():
    work, _ = turned("deliveries", 0.1, 0)
    with pytest.raises(DataError) as error:
        doubtful("guess", work, QUICK, "cpu")
    assert str(error.value) == ("error: unknown method 'guess'; there are 'posterior', 'residual'")
