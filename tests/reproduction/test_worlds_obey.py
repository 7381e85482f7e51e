"""Sampled worlds obey every hard axiom of the three worlds, by the crisp evaluator."""

from __future__ import annotations

import pytest
import torch

from fotltn.analysis.truncation import if_longer
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from fotltn.semantics import crisp
from reproduction.posterior.cases import WORLDS, case
from reproduction.posterior.methods import definitions

QUICK = Sampling(worlds=2, burn_in=4, sweeps=2, stored=2)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "deliveries" else [pytest.mark.slow]) for n in WORLDS],
)
def test_no_sampled_world_breaks_a_hard_axiom(name):
    work = case(name, 0.3, 0)
    problem = Problem(
        work.theory, work.tables, work.train, work.learned,
        rates=dict.fromkeys(work.learned, work.told), sampling=QUICK, define=definitions(work),
    )  # fmt: skip
    posterior = sample(problem)
    hard = [axiom for axiom in work.theory.axioms if axiom.hard]
    assert hard
    for number in range(posterior.count):
        world = posterior.world(number)
        for axiom in hard:
            truth = crisp.evaluate(if_longer(axiom.formula), world).tensor
            assert bool(truth[:, 0].all()), axiom.name
    assert torch.isfinite(posterior.density).all()
