"""The Bayes limit of wards against sums over all that may have happened."""

from typing import Any

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.analysis.metrics import mean, pr_auc
from fotltn.grounding.labels import Labels
from reproduction.deliveries.world import Rates
from reproduction.ward.chains import NURSE_STATES, nurse_chain, patient_chain, phases
from reproduction.ward.limit import posterior, posteriors
from reproduction.ward.world import LEARNED, RATES, generate
from tests.reproduction.wards import all_labels, by_trying_all, no_labels, observed

SHORT: dict[str, Any] = {"sweeps": 10, "burn_in": 4, "chains": 2}
LOOSE = {name: Rates(0.3, 0.2) for name in LEARNED}


@pytest.mark.parametrize(
    ("size", "share", "rates", "seed", "at_truth"),
    [
        ((1, 1, 8), 0.3, RATES, 3, False),
        ((1, 2, 7), 0.2, RATES, 4, True),
        ((1, 2, 7), 0.6, LOOSE, 5, False),
        pytest.param((2, 2, 5), 0.3, RATES, 2, True, marks=pytest.mark.slow),
        pytest.param((2, 2, 5), 0.4, LOOSE, 6, False, marks=pytest.mark.slow),
        pytest.param((2, 2, 5), 0.0, RATES, 7, False, marks=pytest.mark.slow),
    ],
)
def test_means_are_those_over_all_that_may_have_happened(size, share, rates, seed, at_truth):
    nurses, patients, steps = size
    ward = generate(nurses, patients, steps, 1, seed=seed)
    stated, _ = observed(ward, share, seed=seed, rates=rates) if share else (no_labels(), None)
    expected = by_trying_all(ward.rota[0], stated, rates)
    sampled = posterior(
        ward.rota, stated, rates=rates, seed=seed, sweeps=60, burn_in=10, chains=200,
        start=ward if at_truth else None,
    )  # fmt: skip
    assert tuple(sampled) == LEARNED
    for name in LEARNED:
        means = sampled[name].numpy().reshape(expected[name].shape)
        assert means == pytest.approx(expected[name], abs=0.02), name


def test_overwhelming_evidence_decides():
    """Also where the likelihoods are far outside the range of floating point numbers."""
    ward = generate(2, 5, 30, 2, seed=1)
    exact = {n: Rates(0.0, 0.0) for n in LEARNED}
    sampled = posterior(ward.rota, all_labels(ward), seed=0, rates=exact, **SHORT)
    for name, table in ward.tables().items():
        if name in LEARNED:
            truth = torch.from_numpy(table.copy()).double()
            assert torch.equal(sampled[name].reshape(truth.shape), truth), name


@pytest.mark.slow
def test_where_chains_begin_is_forgotten():
    ward = generate(3, 6, 25, 2, seed=0)
    stated, test = observed(ward, 0.2)
    both = [
        posterior(ward.rota, stated, seed=1, sweeps=60, burn_in=40, chains=8, start=start)
        for start in (None, ward)
    ]
    scores = [
        mean({n: pr_auc(t, one[n][tuple(test.index[n])]) for n, t in test.truth.items()}).value
        for one in both
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    for name in LEARNED:
        assert (both[0][name] - both[1][name]).abs().mean() < 0.03, name


def test_runs_computed_together_are_those_computed_alone():
    ward = generate(2, 4, 20, 2, seed=1)
    stated = [observed(ward, share, seed=i)[0] for i, share in enumerate((0.1, 0.7))]
    together = posteriors(ward.rota, [*stated, no_labels()], seeds=[5, 6, 7], **SHORT)
    for i, sampled in enumerate(together):
        alone = posterior(ward.rota, (*stated, no_labels())[i], seed=5 + i, **SHORT)
        for name in LEARNED:
            assert torch.equal(sampled[name], alone[name])
    assert posteriors(ward.rota, [], seeds=[]) == []


def test_chains_end_where_a_point_is_sure_to_lead():
    chain = patient_chain(2)
    alone = chain.where("falls", "waits", "left")
    assert chain.transition[~alone].sum(1) == pytest.approx(1)
    assert chain.initial.sum() == pytest.approx(1)
    _, table = nurse_chain()
    assert table[1:-1].sum(1) == pytest.approx(1)
    rests = np.array([[[0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1]]], dtype=bool)
    assert phases(rests)[0, 0].tolist() == [0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 0, 1]
    assert NURSE_STATES == 13


def one_label(name, cell, degree):
    return Labels({name: torch.tensor(cell)[:, None]}, {name: torch.tensor([degree])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "a seed must be a whole number from 0"),
        ({"sweeps": 0}, "'sweeps' must be at least 1, not 0"),
        ({"rates": {"Busy": Rates(0.0, 0.0)}}, "there are no rates of wrong labels for"),
        ({"labels": one_label("Tend", [0, 0, 0, 1], 1.0)}, "did you mean 'Tends'"),
        ({"labels": one_label("Tends", [0, 2, 0, 1], 1.0)}, "time) is (1, 2, 3, 8)"),
        ({"labels": one_label("Ill", [0, 1, 1], 0.5)}, "'Ill' must be 0 or 1"),
    ],
)
def test_what_does_not_fit_is_an_error(change, message):
    ward = generate(2, 3, 8, 1, seed=0)
    with pytest.raises(DataError) as error:
        posterior(**{"rota": ward.rota, "labels": no_labels(), "seed": 0, **change})
    assert message in str(error.value)
