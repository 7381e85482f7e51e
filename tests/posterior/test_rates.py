"""Rates of wrong labels that are learned: by predicate, with little to go by, those of all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.posterior.evidence import LabelEvidence, NoiseRates


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


def test_rates_move_by_a_share_and_stay_below_a_half():
    said, worlds = evidence(P=([1] * 100, [0.0] * 100))
    said.learn(worlds, 0.5)
    assert said.rates["P"].missed == pytest.approx((0.1 + 0.49) / 2)
