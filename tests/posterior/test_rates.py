"""Rates of wrong labels that are learned: by predicate, with little to go by, those of all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.posterior.evidence import LabelEvidence, NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampling
from reproduction.posterior.cases import case
from reproduction.posterior.methods import definitions


def evidence(**labels: tuple[list[int], list[float]]) -> tuple[LabelEvidence, dict[str, Tensor]]:
    """Labels of facts, by predicate: which facts are true, and what labels say of them."""
    index, truth, worlds = {}, {}, {}
    for name, (true, says) in labels.items():
        number = torch.arange(len(true))
        index[name] = torch.stack([0 * number, number, 0 * number])
        truth[name] = torch.tensor(says, dtype=torch.float64)
        worlds[name] = torch.tensor(true).bool().reshape(1, 1, -1, 1).expand(4, -1, -1, -1)
    rates = dict.fromkeys(labels, NoiseRates(0.1, 0.1))
    return LabelEvidence(Labels(index, truth), rates, frozenset(labels)), worlds


def test_rates_are_those_of_labels():
    said, worlds = evidence(P=([1] * 400 + [0] * 400, [0.0] * 100 + [1.0] * 300 + [0.0] * 400))
    said.learn(worlds, 1.0)
    assert said.rates["P"].missed == pytest.approx(0.25, abs=0.01)
    assert said.rates["P"].invented == pytest.approx(0.0, abs=0.01)


def test_few_labels_are_trusted_as_all_are():
    many = ([1] * 400 + [0] * 400, [0.0] * 100 + [1.0] * 300 + [0.0] * 400)
    said, worlds = evidence(P=many, Q=([1, 0], [1.0, 0.0]), R=([], []))
    said.learn(worlds, 1.0)
    assert said.rates["Q"].missed == pytest.approx(0.25, abs=0.03)
    assert said.rates["Q"].invented < 0.01
    assert said.rates["R"] == NoiseRates(0.1, 0.1)  # of which nothing is said


def test_many_labels_outweigh_those_of_others():
    right = ([1] * 4000 + [0] * 4000, [1.0] * 4000 + [0.0] * 4000)
    wrong = ([1] * 4000 + [0] * 4000, [0.0] * 1200 + [1.0] * 2800 + [0.0] * 4000)
    said, worlds = evidence(P=right, Q=wrong)
    said.learn(worlds, 1.0)
    assert said.rates["P"].missed < 0.005
    assert said.rates["Q"].missed == pytest.approx(0.3, abs=0.005)


def test_rates_move_by_a_share_and_stay_above_0_and_below_a_half():
    said, worlds = evidence(P=([1] * 4000, [0.0] * 1200 + [1.0] * 2800))
    said.learn(worlds, 0.5)
    assert said.rates["P"].missed == pytest.approx((0.1 + 0.3) / 2, abs=0.002)
    said, worlds = evidence(P=([1] * 100, [0.0] * 100))
    said.learn(worlds, 1.0)
    assert said.rates["P"].missed == 0.49
    said, worlds = evidence(P=([1] * 4000, [1.0] * 4000))
    said.learn(worlds, 1.6)  # further than worlds say
    assert 0 < said.rates["P"].missed < 0.001


def test_rates_are_learned_when_ties_count_in_full():
    how = Sampling(burn_in=20)
    learns = [sweep for sweep in range(how.burn_in + how.sweeps) if how.trust(sweep)]
    assert learns == [sweep for sweep in range(how.burn_in) if how.heat(sweep) == 1]
    assert len(learns) == 8


@pytest.mark.slow
def test_learned_rates_are_near_those_of_labels():
    # Learned while ties count little, the rate of invented labels of Run was 0.4.
    work = case("CarPed35K", 0.1, 0)
    problem = Problem(
        work.theory, work.tables, work.train, work.learned, rates=dict.fromkeys(work.learned),
        define=definitions(work), sampling=Sampling(worlds=8, burn_in=40, sweeps=1, seed=1),
    )  # fmt: skip
    run = SamplingRun(problem)
    while not run.finished:
        run.sweep()
    for rates in run.result().rates.values():
        assert all(abs(rate - 0.1) < 0.06 for rate in rates)
