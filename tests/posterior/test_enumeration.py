"""Sampled probabilities equal those of enumeration, within the error of the sample."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from fotltn.logic.defined import definitions_in
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure
from tests.posterior.oracle import Case, Exact, case

WORLDS, BURN_IN, SWEEPS = 32, 12, 60

#: With more atoms, enumeration takes too long.
MOST_ATOMS = 14


def deviations(one: Case, seed: int) -> list[float] | None:
    """By how many standard errors probabilities of atoms differ; None if there is no world."""
    labelled = [n for n in one.learned if one.labels.truth[n].numel()]
    certain = replace(one.theory, axioms=tuple(a for a in one.theory.axioms if a.hard))
    defined = definitions_in(certain, one.learned).by_name
    free = [n for n in one.learned if n not in defined]
    exact = Exact(one, free, {n: d.formula for n, d in defined.items()})
    if not 0 < exact.atoms <= MOST_ATOMS:
        return []
    try:
        plan = structure(one.theory, one.tables, one.learned, labelled, end=one.end)
    except NoWorldError:
        assert exact.marginals is None, one.text
        return None
    if plan.tied:  # it says that it may be wrong
        return []
    evidence = LabelEvidence(one.labels, dict(one.rates))
    sampling = Sampling(WORLDS, BURN_IN, SWEEPS, seed=seed, learn=False)
    sampler = Sampler(plan, one.tables, evidence, sampling)
    sums = {n: torch.zeros_like(sampler.tables[n], dtype=torch.float64) for n in one.learned}
    for number in range(BURN_IN + SWEEPS):
        sampler.sweep(number)
        if number >= BURN_IN:
            for name, total in sums.items():
                total += sampler.tables[name] / SWEEPS
    broken = any(bool(count.any()) for count in sampler.broken().values())
    assert broken == (exact.marginals is None), one.text
    if exact.marginals is None:
        return None
    result: list[float] = []
    for name, shares in sums.items():
        p = exact.marginals[name]
        spread = p * (1 - p)
        error = torch.maximum(shares.std(0) / WORLDS**0.5, (spread / (WORLDS * SWEEPS)).sqrt())
        inside = one.tables.inside.reshape(p.shape[0], *[1] * (p.dim() - 2), -1)
        counts = inside[..., : p.shape[-1]] & (spread > 1e-6)
        difference = shares.mean(0) - p
        assert float(difference[(spread <= 1e-6) & inside[..., : p.shape[-1]]].abs().sum()) < 0.05
        result += (difference / error)[counts].tolist()
    return result


def check(seeds: range) -> None:
    """Deviations are like draws of a normal distribution."""
    cases, values = 0, []
    for seed in seeds:
        one = case(seed)
        differences = deviations(one, seed)
        if differences:
            cases += 1
            # Of many thousands of normal draws hardly one is beyond 5.5.
            assert max(map(abs, differences)) < 5.5, one.text
            values += differences
    assert cases > 0.3 * len(seeds)
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum(v * v for v in values) / len(values))
    # Atoms of a case depend on each other, so that the mean varies more than that of as many draws.
    assert abs(mean) < 6 / math.sqrt(cases)
    assert 0.8 < deviation < 1.25


def test_probabilities_equal_those_of_enumeration():
    check(range(40))


@pytest.mark.slow
def test_probabilities_equal_those_of_enumeration_on_two_thousand_theories():
    check(range(40, 2040))
