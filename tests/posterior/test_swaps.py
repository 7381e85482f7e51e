"""Entities that compete change places: probabilities are right, and chains come to agree."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior import structure
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sampler_of
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import STAYS, Case, Exact

ONE = """
hard axiom Some: G(exists x. Lead(x))
hard axiom Only: forall x, y. G(Lead(x) & Lead(y) -> x = y)
"""
MORE = {
    "one leads": ("Lead", ""),
    "who leads rests first": ("Lead", "axiom Rest weight 1: forall x. G(Lead(x) -> WX Lead(x))"),
    "who leads talks": ("Lead Talk", "hard axiom Talks: forall x. G(Talk(x) -> Lead(x))"),
    "one pair": ("Pair", "hard axiom Two: forall x, y, z. G(Pair(x, y) & Pair(x, z) -> y = z)\n"
                         "hard axiom Has: G(exists x, y. Pair(x, y))"),
}  # fmt: skip


def compete(name: str, seed: int) -> Case:
    """A tiny case in which few of all worlds are allowed, with random labels."""
    learned, more = MORE[name]
    one = "" if learned == "Pair" else ONE
    text = f"sort p\npredicate Lead(p), Talk(p), Pair(p, p)\n{one}{more}"
    theory, choose = check(parse_theory(text)), random.Random(seed)
    number, times = (2, 2) if learned == "Pair" else (3, 3) if learned == "Lead" else (2, 3)
    tables = Tables({"p": number}, torch.tensor([times]), times, {}, signature=theory.signature)
    index, truth, sorts = {}, {}, {}
    for predicate in learned.split():
        sorts[predicate] = theory.signature.predicates[predicate].sorts
        arguments = [choose.randrange(number) for _ in sorts[predicate]]
        index[predicate] = torch.tensor([[0, *arguments, choose.randrange(times)]]).T
        truth[predicate] = torch.ones(1, dtype=torch.float64)
    rates = dict.fromkeys(index, NoiseRates(0.2, 0.3))
    return Case(theory, tables, Labels(index, truth, sorts), tuple(index), rates, text, "undecided")


def problem(one: Case, sampling: Sampling) -> Problem:
    return Problem(
        one.theory, one.tables, one.labels, one.learned, one.rates, sampling, end=one.end
    )


@pytest.mark.parametrize(
    ("name", "seed"),
    [("one leads", 0)]
    + [pytest.param(name, seed, marks=pytest.mark.slow) for name in MORE for seed in (1, 2)],
)
def test_probabilities_equal_those_of_enumeration(name, seed, monkeypatch):
    monkeypatch.setattr(structure, "_MOST_JOINED", 1)  # so that tracks move one at a time
    one = compete(name, seed)
    marginals = Exact(one, one.learned, {}).marginals
    assert marginals is not None
    how = Sampling(64, 12, 24, enough=0, stored=24, seed=seed, learn=False)
    posterior = sample(problem(one, how))
    assert posterior.structure is not None
    assert posterior.structure.tied
    for predicate, p in marginals.items():
        chains = posterior.worlds[predicate].double().unflatten(0, (24, 64)).mean(0)
        spread = p * (1 - p)
        error = torch.maximum(chains.std(0) / 8, (spread / (24 * 64)).sqrt()).clamp_min(1e-3)
        z = (posterior.marginals[predicate] - p) / error
        assert float(z.abs().max()) < 5, (posterior.marginals, marginals)
        assert float(z.square().mean()) < 3


def twenty(times: int = 4) -> Case:
    one = compete("one leads", 0)
    tables = replace(one.tables, sizes={"p": 20}, lengths=torch.tensor([times]), horizon=times)
    index = {"Lead": torch.tensor([[0, 7, 1], [0, 11, 3]]).T}
    truth = {"Lead": torch.ones(2, dtype=torch.float64)}
    return replace(one, tables=tables, labels=replace(one.labels, index=index, truth=truth))


def exact(number: int, times: int) -> torch.Tensor:
    """Who leads when, with labels of 7 at 1 and of 11 at 3: a chain over who it is."""
    moves = torch.full((number, number), (STAYS / (1 - STAYS)) ** -2, dtype=torch.float64)
    moves.fill_diagonal_(1.0)
    said = torch.ones(times, number, dtype=torch.float64)
    said[1, 7] = said[3, 11] = 0.8 / 0.3
    so_far = [said[0]]
    for time in range(1, times):
        so_far.append((so_far[-1] @ moves) * said[time])
    later, shares = torch.ones(number, dtype=torch.float64), []
    for time in range(times - 1, -1, -1):
        shares.append(so_far[time] * later / (so_far[time] * later).sum())
        later = moves @ (said[time] * later)
    return torch.stack(shares[::-1], 1)


@pytest.mark.slow
def test_one_of_twenty_is_as_likely_as_it_should_be():
    posterior = sample(problem(twenty(), Sampling(64, 20, 100, enough=0, seed=1, learn=False)))
    assert posterior.structure is not None
    assert {*posterior.structure.tied} == {"Some", "Only"}
    chains = posterior.worlds["Lead"].double().unflatten(0, (-1, 64)).mean(0)[:, 0]
    p = exact(20, 4)
    error = torch.maximum(chains.std(0) / 8, (p * (1 - p) / 6400).sqrt())
    z = (posterior.marginals["Lead"][0] - p) / error
    assert float(z.abs().max()) < 5
    assert float(z.square().mean()) < 2
    assert posterior.mixing.worst < 1.1
    assert posterior.warnings == ()


def test_what_follows_from_numbers_alone_is_followed():
    """Of twenty, some lead if nothing ties them; not if at most one may."""
    sampler = sampler_of(problem(twenty(), Sampling(4, learn=False)))
    assert sampler.structure.watched == ()
    assert sampler.swaps.places == {"p": [("Lead", 0)]}


def test_who_is_not_there_takes_no_place():
    one = twenty()
    there = torch.ones(1, 20, 4, dtype=torch.bool)
    there[0, 3:7] = False
    one = replace(one, tables=replace(one.tables, present={"p": there}))
    sampler = sampler_of(problem(one, Sampling(8, 4, 4, learn=False)))
    for number in range(2):
        sampler.sweep(number)
        assert not bool((sampler.tables["Lead"] & ~there).any())


def test_nothing_competes_where_all_moves_together():
    sampler = sampler_of(problem(compete("one leads", 0), Sampling(4, learn=False)))
    assert sampler.structure.tied == ()
    assert sampler.swaps.places == {}
