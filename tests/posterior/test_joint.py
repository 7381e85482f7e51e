"""A track moves together with the tracks that are tied to it: probabilities are right."""

from __future__ import annotations

import random

import pytest
import torch

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior import structure
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.joint import JointMoves
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sampler_of
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, Exact

#: Chains, which are independent of each other.
WORLDS = 1000

DARK = """
hard axiom Dark: forall s, r. G(Out(r) -> Slow(s))
hard axiom Cause: forall s. G(Slow(s) -> Worn(s) | exists r. Out(r))
"""
SOFT = """
axiom Lasts weight 1: forall r. G(Out(r) -> WX Out(r))
axiom Ends weight 0.7: forall s. G(Slow(s) -> WX !Slow(s))
"""
#: What is learned, the numbers of racks, servers and time points, and axioms.
THEORIES = {
    "power": ("Out Slow Worn", (1, 2, 2), DARK),
    "two racks": ("Out Slow Worn", (2, 3, 1), DARK),
    "soft axioms": ("Out Slow Worn", (1, 2, 2), DARK + SOFT),
    "later": ("Out Slow", (1, 3, 3), "hard axiom Dark: forall s, r. G(Out(r) <-> WX Slow(s))"),
    "a definition": (
        "Out Slow Worn Was", (1, 2, 2), f"{DARK}hard axiom Was: forall r. G(Was(r) <-> O Out(r))"
    ),
    "a defined cause": (
        "Out Slow Worn Dim", (1, 2, 2),
        f"{DARK}hard axiom Dim: forall s. G(Dim(s) <-> Slow(s) & !Worn(s))",
    ),
}  # fmt: skip


def tied(name: str, seed: int) -> Case:
    """A tiny case in which a rack and its servers can only change together, with random labels."""
    learned, (racks, servers, times), axioms = THEORIES[name]
    text = f"sort r, s\npredicate Out(r), Was(r), Slow(s), Worn(s), Dim(s)\n{axioms}"
    theory, choose = check(parse_theory(text)), random.Random(seed)
    sizes = {"r": racks, "s": servers}
    tables = Tables(sizes, torch.tensor([times]), times, {}, signature=theory.signature)
    index, truth, sorts = {}, {}, {}
    for predicate in learned.split():
        sorts[predicate] = theory.signature.predicates[predicate].sorts
        arguments = [choose.randrange(sizes[sort]) for sort in sorts[predicate]]
        index[predicate] = torch.tensor([[0, *arguments, choose.randrange(times)]]).T
        truth[predicate] = torch.tensor([float(choose.random() < 0.5)], dtype=torch.float64)
    rates = dict.fromkeys(index, NoiseRates(0.2, 0.3))
    return Case(theory, tables, Labels(index, truth, sorts), tuple(index), rates, text, "undecided")


def problem(one: Case, sampling: Sampling) -> Problem:
    return Problem(
        one.theory, one.tables, one.labels, one.learned, one.rates, sampling, end=one.end
    )


def z_scores(one: Case, seed: int) -> torch.Tensor:
    """How far sampled probabilities are from exact ones, in standard errors."""
    how = Sampling(WORLDS, 20, 8, enough=0, stored=8, seed=seed, learn=False)
    posterior = sample(problem(one, how))
    plan = posterior.structure
    assert plan is not None
    assert plan.tied
    formulas = {n: d.formula for n, d in plan.definitions.items()}
    marginals = Exact(one, plan.free, formulas).marginals
    assert marginals is not None
    found = []
    for predicate, p in marginals.items():
        chains = posterior.worlds[predicate].double().unflatten(0, (8, WORLDS)).mean(0)
        error = (chains.std(0) / WORLDS**0.5).clamp_min(1e-3)
        found.append(((chains.mean(0) - p) / error).flatten())
    return torch.cat(found)


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, 0) for name in THEORIES]
    + [pytest.param(name, seed, marks=pytest.mark.slow) for name in THEORIES for seed in (1, 2, 3)],
)
def test_probabilities_equal_those_of_enumeration(name, seed, monkeypatch):
    monkeypatch.setattr(structure, "_MOST_JOINED", 1)  # so that tracks move one at a time
    one = tied(name, seed)
    assert sampler_of(problem(one, Sampling(4, learn=False))).joint.pairs
    z = z_scores(one, seed)
    assert float(z.abs().max()) < 4.5
    assert float(z.square().mean()) < 4


def test_without_joint_moves_chains_are_stuck(monkeypatch):
    monkeypatch.setattr(structure, "_MOST_JOINED", 1)
    monkeypatch.setattr(JointMoves, "move", lambda *_: None)
    assert float(z_scores(tied("two racks", 2), 2).abs().max()) > 6
