"""Exponents of what networks say are those that make the labels most likely."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.blind import BlindWorlds
from fotltn.posterior.carried import learned_by, take_over
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.exponents import USUAL_EXPONENT, Exponents
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

THEORY = check(
    parse_theory("""
sort a
predicate P(a), Lit(a)
hard axiom Same: forall x. G(P(x) <-> WX P(x))
hard axiom Dark: forall x. G(Lit(x) -> !P(x) | P(x))
""")
)
ENTITIES = 200


def sampler(steps: int, logits: dict[str, Tensor], labels: Labels, *, learn: bool) -> Sampler:
    lit = torch.zeros(1, ENTITIES, steps, dtype=torch.float64)
    tables = Tables(
        {"a": ENTITIES}, torch.tensor([steps]), steps, {"Lit": lit}, signature=THEORY.signature
    )
    how = Sampling(worlds=16, burn_in=60, sweeps=1, learn=learn)
    rates = {"P": NoiseRates(1e-9, 1e-9)}
    return sampler_of(Problem(THEORY, tables, labels, ["P"], rates, how, logits=logits))


def best(total: Tensor, truth: Tensor) -> float:
    """Where labels of entities are most likely that are true by odds `exp(κ total)`, and the prior.

    The worlds of an entity are two: P is true at all steps, or at none.
    """
    low, high = 0.0, 1.5
    for _ in range(60):
        middle = (low + high) / 2
        slope = float((total * (truth - torch.sigmoid(middle * total))).sum())
        slope += 4.0 * (USUAL_EXPONENT - middle)
        low, high = (middle, high) if slope > 0 else (low, middle)
    return low


@pytest.mark.parametrize(("steps", "scale"), [(1, 1.5), (4, 3.0)])
def test_the_exponent_makes_labels_most_likely(steps, scale):
    """What is said at each step is the same again, and counts `steps` times."""
    draw = torch.Generator().manual_seed(steps)
    truth = (torch.rand(ENTITIES, generator=draw) < 0.5).double()
    each = (2 * truth - 1) + torch.randn(ENTITIES, generator=draw, dtype=torch.float64) * 1.2
    score = (scale * each)[None, :, None].expand(1, ENTITIES, steps).contiguous()
    wanted = best(steps * scale * each, truth)
    assert 0.05 < wanted < 1.4
    count = torch.arange(ENTITIES)
    where = torch.stack([0 * count, count, 0 * count])
    labels = Labels({"P": where}, {"P": truth})
    worlds = sampler(steps, {"P": USUAL_EXPONENT * score}, labels, learn=False)
    exponents, blind = Exponents({"P": USUAL_EXPONENT}), BlindWorlds(worlds)
    for sweep in range(60):
        worlds.sweep(sweep)
        blind.sweep(worlds, sweep)
        exponents.learn(worlds, blind.sampler, {"P": score}, worlds.sampling.share(sweep))
        worlds.evidence.logits = {"P": exponents.values["P"] * score}
    assert exponents.values["P"] == pytest.approx(wanted, abs=0.03 + 0.05 * wanted)


def test_what_was_learned_is_taken_over():
    """A sampler of other data has the prior of the first, and learns nothing of it."""
    count = torch.arange(ENTITIES)
    labels = Labels(
        {"P": torch.stack([0 * count, count, 0 * count])}, {"P": (count % 5 == 0).double()}
    )
    first = sampler(3, {}, labels, learn=True)
    for sweep in range(60):
        first.sweep(sweep)
    carried = learned_by(first)
    second = sampler(2, {}, labels.take({}), learn=True)
    before = {names: table.clone() for names, table in second.prior.initial.items()}
    assert take_over(second, carried) == ()
    for sweep in range(60):
        second.sweep(sweep)
    for names, table in second.prior.initial.items():
        assert table.equal(first.prior.initial[names])
        assert not table.equal(before[names])
    share = float(second.tables["P"].double().mean())
    assert share == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / (16 * ENTITIES)) + 0.03)
