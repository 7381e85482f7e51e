"""Worlds that several processes move together: the same worlds for any number; threads stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.shared_worlds import WorldDraws, WorldShare, uniform
from tests import threads
from tests.posterior import test_run, test_swaps, test_weights
from tests.threads import Tell


def together(count: int, work: Callable[[WorldShare], Any]) -> list[Any]:
    """What each of so many threads returns."""

    def one(number: int, tell: Tell) -> Any:
        def checked(data: Tensor, lengths: Sequence[int]) -> list[Tensor]:
            assert (data.dtype, len(data)) == (torch.uint8, lengths[number])
            return tell(data)

        return work(WorldShare(number, count, checked))

    return threads.together(count, one)


HOW = Sampling(worlds=7, burn_in=10, sweeps=6, stored=3, seed=5, enough=0)


def robots() -> Problem:
    """Rates are learned, and labels of a definition tie tracks."""
    return replace(test_run.problem(), sampling=HOW)


def many_tracks() -> Problem:
    """So many at a point that states are weighed one after the other."""
    tables = test_run.tables(robots=300)
    return replace(test_run.problem(), tables=tables, sampling=replace(HOW, burn_in=2, sweeps=2))


def weights() -> Problem:
    """Weights are learned by worlds without labels, too."""
    how = replace(HOW, weights="learned")
    return replace(test_weights.team(1.0, 0, pairs=3), sampling=how)


def places() -> Problem:
    """One of many has a role, so that entities change places; draws are tested."""
    return test_swaps.problem(test_swaps.compete("one leads", 0), HOW)


def ran(problem: Problem, share: WorldShare | None = None) -> dict[str, Any]:
    run = SamplingRun(problem, share)
    while not run.finished:
        run.sweep()
    posterior = run.result()
    tensors = {f"p/{n}": t for n, t in posterior.marginals.items()}
    tensors |= {f"w/{n}": t for n, t in posterior.worlds.items()}
    state, document = run.state()
    return {**tensors, **state, "density": posterior.density, "told": document,
            "mixing": posterior.mixing, "weights": run.sampler.learned_weights}  # fmt: skip


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert not isinstance(other, Exception), other
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, Tensor):
            assert torch.equal(value, other[name]), name
        else:
            assert value == other[name], name


@cache
def ran_alone(problem: Callable[[], Problem]) -> dict[str, Any]:
    return ran(problem())


def cases() -> Iterator[Any]:
    """All problems, by two processes quickly; each further number is tried quickly with one."""
    for problem, count in product([robots, weights, places, many_tracks], [2, 3, 9]):
        quick = count == 2 or problem is (weights if count == 3 else robots)
        yield pytest.param(problem, count, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("problem", "count"), list(cases()))
def test_any_number_of_processes_samples_the_same_worlds(problem, count):
    """With uneven shares, and with more processes than worlds."""
    expected = ran_alone(problem)
    for result in together(count, lambda share: ran(problem(), share)):
        assert_same(expected, result)


def test_each_world_is_moved_by_one_process_and_none_moves_one_alone():
    for worlds, count in ((7, 3), (2, 2), (5, 8), (1, 3), (32, 4)):
        moved = [WorldShare(n, count, lambda *_: []).moved(worlds) for n in range(count)]
        assert {w for some in moved for w in some} == set(range(worlds))
        assert all(len(some) == min(worlds, max(2, len(some))) for some in moved)


def test_numbers_of_some_worlds_are_those_of_all():
    every = torch.rand(3, 6, 2, generator=torch.Generator().manual_seed(1))
    draws = WorldDraws(torch.Generator().manual_seed(1), 6, range(2, 5))
    some = uniform((3, 3, 2), draws, world=1, device=torch.device("cpu"))
    assert torch.equal(some, every[:, 2:5])


def test_a_run_goes_on_with_another_number():
    problem = robots()
    expected = ran(problem)

    def first(share: WorldShare) -> Any:
        run = SamplingRun(problem, share)
        for _ in range(7):
            run.sweep()
        return run.state()

    state = together(3, first)[0]

    def second(share: WorldShare) -> Any:
        run = SamplingRun(problem, share)
        run.restore(*deepcopy(state))
        while not run.finished:
            run.sweep()
        return run.result().marginals

    for marginals in together(2, second):
        for name, table in marginals.items():
            assert torch.equal(table, expected[f"p/{name}"])
