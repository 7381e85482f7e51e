"""The most probable world is the best of all worlds, by the sampler's own density of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.logic.defined import definitions_in
from fotltn.posterior import structure as structures
from fotltn.posterior.climb import climb
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sample_each, sampler_of
from fotltn.posterior.sampler import Sampling
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, Exact, case, coming_and_going
from tests.posterior.test_enumeration import every_world, give_habits
from tests.posterior.test_joint import THEORIES, problem, tied

WORLDS, SWEEPS = 8, 16


def compared(one: Case, seed: int) -> str:
    """Let worlds climb under a random prior, and compare the best with all worlds."""
    certain = replace(one.theory, axioms=tuple(a for a in one.theory.axioms if a.hard))
    defined = definitions_in(certain, one.learned).by_name
    free = [n for n in one.learned if n not in defined]
    exact = Exact(one, free, {n: d.formula for n, d in defined.items()})
    if not 0 < exact.atoms <= 10 or exact.marginals is None:
        return "left out"
    how = Sampling(WORLDS, 3 * SWEEPS // 4, SWEEPS // 4, seed=seed, learn=False)
    try:
        sampler = sampler_of(
            Problem(one.theory, one.tables, one.labels, one.learned, one.rates, how, end=one.end)
        )
    except NoWorldError:
        return "left out"
    if one.tables.present and not all(mover.spans for mover in sampler.movers):
        return "left out"
    give_habits(sampler, seed)
    for number in range(SWEEPS):
        sampler.sweep(number)
    if any(bool(cells.any()) for cells in sampler.broken().values()):
        return "left out"  # the burn-in was too short
    before = sampler.density_by_trace()
    worth = climb(sampler)
    assert bool((worth >= before - 1e-9).all())
    assert not any(bool(cells.any()) for cells in sampler.broken().values()), one.text
    torch.testing.assert_close(sampler.density_by_trace(), worth)
    best, (all_worlds, allowed) = float(worth.amax(0).sum()), every_world(sampler, exact)
    for name, table in all_worlds.tables.items():  # who is not there has no true facts
        if name in sampler.structure.free:
            allowed = allowed & ~(table & ~sampler.there(name)).flatten(1).any(-1)
    if not bool(allowed.any()):
        return "left out"
    most = float(all_worlds.density()[allowed, 0].max())
    assert best < most + 1e-6, one.text
    alone = not any(mover.kind.factors for mover in sampler.movers) and len(sampler.movers) == 1
    assert best > most - 1e-6 or not alone, one.text  # a track alone is at its peak at once
    return "the best" if best > most - 1e-6 else "not the best"


def test_the_best_of_all_worlds_is_found():
    told = Counter(compared(case(seed), seed) for seed in range(60))
    assert told["the best"] > 20
    assert not told["not the best"]


def test_entities_that_come_and_go_have_their_best_tracks():
    told = Counter(compared(coming_and_going(case(seed), seed), seed) for seed in range(120))
    assert told["the best"] > 6
    assert not told["not the best"]


@pytest.mark.slow
def test_the_best_of_all_worlds_is_hardly_ever_missed(monkeypatch):
    monkeypatch.setattr(structures, "_MOST_JOINED", 1)  # so that tracks climb one at a time
    told = Counter(
        compared(one, seed)
        for seed in range(60, 1500)
        for one in (case(seed), coming_and_going(case(seed), seed))
    )
    assert told["the best"] > 600
    assert told["not the best"] < 0.02 * told["the best"]


@pytest.mark.parametrize("name", [*THEORIES])
def test_the_best_world_obeys_and_none_is_more_probable(name):
    one = tied(name, 0)
    how = Sampling(WORLDS, 12, 8, enough=0, stored=4, seed=1, learn=False)
    posterior = sample(problem(one, how))
    assert posterior.best_density >= float(posterior.density.max()) - 1e-9
    best = posterior.world("best")
    for predicate, table in posterior.best.items():
        assert torch.equal(best.predicate(predicate).bool(), table)
    for axiom in one.theory.axioms:
        assert not axiom.hard or bool(crisp.evaluate(axiom.formula, best).tensor.all())


def test_axioms_that_draws_ignore_do_not_hold_worlds_back():
    """Someone must do it at any time, labels say that nobody does: the best is the least."""
    people, times = 20, 4
    theory = check(parse_theory("sort a\npredicate P(a)\nhard axiom Some: G(exists x. P(x))\n"))
    tables = Tables(
        {"a": people}, torch.tensor([times]), times, {}, signature=theory.signature
    )  # fmt: skip
    cells = torch.cartesian_prod(torch.arange(1), torch.arange(people), torch.arange(times))
    labels = Labels(
        {"P": cells.T}, {"P": torch.zeros(len(cells), dtype=torch.float64)}, {"P": ("a",)}
    )
    how = Sampling(WORLDS, 12, 8, stored=2, learn=False)
    rates = {"P": NoiseRates(0.45, 0.45)}
    posterior = sample(Problem(theory, tables, labels, ("P",), rates=rates, sampling=how))
    assert posterior.structure is not None
    assert posterior.structure.watched == ("Some",)
    assert int(posterior.best["P"].sum()) == times
    assert posterior.best_density > float(posterior.density.max()) + 1


def test_each_set_of_labels_has_a_best_world():
    one = tied("power", 0)
    how = Sampling(WORLDS, 12, 8, enough=0, stored=4, seed=1, learn=False)
    other = replace(one.labels, truth={n: 1 - t for n, t in one.labels.truth.items()})
    both = sample_each(problem(one, how), [one.labels, other])
    for labels, posterior in zip((one.labels, other), both, strict=True):
        alone = sample(problem(replace(one, labels=labels), how))
        assert posterior.best_density == pytest.approx(alone.best_density)
        assert {*posterior.best} == {*alone.best}
    assert both[0].best_density != pytest.approx(both[1].best_density)
