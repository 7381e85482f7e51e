"""Several sets of labels, sampled at once: each as if it were alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.posterior.problem import Problem, several
from fotltn.posterior.run import SamplingRun, sample_each, sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.semantics.sparse import sparse_table
from tests.posterior.oracle import Case, Exact, case
from tests.posterior.test_run import HOW, LEARNED, labels, tables, theory

#: Rates of one predicate are learned.
RATES = {"Slow": None}


def problem(**more: Any) -> Problem:
    return replace(
        Problem(theory(), tables(), labels(), LEARNED, rates=RATES, sampling=HOW), **more
    )


def other() -> Labels:
    """The opposite of some labels, and fewer of them."""
    turned = {name: 1 - truth[:2] for name, truth in labels().truth.items()}
    index = {name: where[:, :2] for name, where in labels().index.items()}
    return Labels(index, turned, labels().sorts)


def learn_from(sampler: Sampler, worlds: dict[str, torch.Tensor]) -> None:
    for name, table in worlds.items():
        sampler.tables[name].copy_(table)
    for mover, names in zip(sampler.movers, sampler.teaches, strict=True):
        mover.help(sampler.tables)
        mover.learn(sampler.tables, 0.5, names)
    sampler.evidence.learn(sampler.tables, 0.5)


def test_parts_learn_what_each_would_learn_alone():
    each = [labels(), other()]
    alone = [sampler_of(problem(labels=one)) for one in each]
    both = sampler_of(several(problem(), each))
    for number, one in enumerate(alone):
        for sweep in range(3 + number):  # worlds that differ
            one.sweep(sweep)
    worlds = [one.snapshot() for one in alone]
    fresh = [sampler_of(problem(labels=one)) for one in each]
    for one, some in zip(fresh, worlds, strict=True):
        learn_from(one, some)
    learn_from(both, {n: torch.cat([some[n] for some in worlds], 1) for n in worlds[0]})
    for part in ("initial", "moves", "static"):
        for names, table in getattr(both.prior, part).items():
            apart = [getattr(one.prior, part)[names] for one in fresh]
            torch.testing.assert_close(table, torch.cat(apart))
    moves = [one.prior.moves["Faulty", "Slow"] for one in fresh]
    assert not moves[0].allclose(moves[1])
    for one, learned in zip(fresh, both.evidence.by_part, strict=True):
        assert learned.rates == one.evidence.rates
    assert fresh[0].evidence.rates["Slow"] != fresh[1].evidence.rates["Slow"]
    torch.testing.assert_close(both.density(), torch.cat([one.density() for one in fresh], 1))
    for name, cells in both.soft().items():
        assert cells.equal(torch.cat([one.soft()[name] for one in fresh], 1))


def test_worlds_that_disobey_go_on_from_others_of_their_part():
    sampler = sampler_of(several(problem(), [labels(), other()]))
    for sweep in range(20):
        sampler.sweep(sweep)
    assert sampler.rejoin() == [0, 0]
    before = sampler.snapshot()
    sampler.tables["Faulty"][1, 2:] = False  # of the second part
    sampler.tables["Faulty"][1, 2:, :, 0] = True
    sampler.tables["Slow"][1, 2:] = False
    assert sampler.rejoin() == [0, 1]
    assert not any(bool(cells.any()) for cells in sampler.broken().values())
    assert all(sampler.tables[n][:, :2].equal(before[n][:, :2]) for n in ("Faulty", "Slow"))


def exact(one: Case) -> dict[str, torch.Tensor] | None:
    return Exact(one, one.learned, {}).marginals


def test_probabilities_of_each_set_equal_those_of_enumeration():
    for seed in (4, 6):
        one = case(seed)
        turned = {n: 1 - truth for n, truth in one.labels.truth.items()}
        cases = [one, replace(one, labels=replace(one.labels, truth=turned))]
        how = Sampling(32, 12, 30, enough=0, stored=30, seed=seed, learn=False)
        first = Problem(
            one.theory, one.tables, one.labels, one.learned, one.rates, how, end=one.end
        )
        for posterior, each in zip(
            sample_each(first, [c.labels for c in cases]), cases, strict=True
        ):
            marginals = exact(each)
            assert marginals is not None
            for name, p in marginals.items():
                inside = one.tables.inside.reshape(p.shape[0], *[1] * (p.dim() - 2), -1)
                inside = inside[..., : p.shape[-1]].expand_as(p)
                chains = posterior.worlds[name].double().unflatten(0, (30, 32)).mean(0)
                least = (p * (1 - p) / (30 * 32)).sqrt()
                error = torch.maximum(chains.std(0) / 32**0.5, least).clamp_min(1e-3)
                assert float((((posterior.marginals[name] - p) / error) * inside).abs().max()) < 5


def test_given_facts_are_those_of_each():
    near = tables().predicates["Near"]
    assert isinstance(near, torch.Tensor)
    listed = sparse_table(near.nonzero().T, torch.ones(int(near.sum())), near.shape)
    there = torch.ones(2, 3, 7, dtype=torch.bool)
    there[0, 1, :3] = False
    dense = replace(tables(), present={"robot": there})
    few = replace(HOW, worlds=4, burn_in=2, sweeps=3, enough=0)
    results = [
        sample_each(problem(tables=some, sampling=few), [labels(), other(), labels()])
        for some in (dense, replace(dense, predicates={"Near": listed}))
    ]
    for one, same in zip(*results, strict=True):
        assert one.tables.batch == 2
        assert one.marginals["Faulty"].shape == (2, 3, 7)
        assert one.marginals["Faulty"].equal(same.marginals["Faulty"])
        assert one.density.shape == (12,)
        assert set(one.mixing.effective) <= {*LEARNED}


def test_what_cannot_be_sampled_at_once():
    learned = replace(HOW, weights="learned")
    with pytest.raises(DataError, match="only with given weights"):
        sample_each(problem(sampling=learned), [labels(), other()])
    assert sample_each(problem(), []) == []


def test_one_set_is_as_a_run():
    few = replace(HOW, worlds=4, burn_in=2, sweeps=3)
    (one,) = sample_each(problem(sampling=few), [labels()])
    run = SamplingRun(problem(sampling=few))
    while not run.finished:
        run.sweep()
    assert all(one.marginals[n].equal(t) for n, t in run.result().marginals.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_several_sets_on_a_gpu():
    few = replace(HOW, worlds=64, burn_in=30, sweeps=60, enough=0)
    on_gpu = problem(tables=tables().to(torch.device("cuda")), sampling=few)
    here = sample_each(problem(sampling=few), [labels(), other()])
    for one, same in zip(sample_each(on_gpu, [labels(), other()]), here, strict=True):
        for name, table in one.marginals.items():
            torch.testing.assert_close(table.cpu(), same.marginals[name], atol=0.12, rtol=0)
