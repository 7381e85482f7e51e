"""The Bayes limit of deliveries against sums over all that may have happened."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.analysis.metrics import chance, mean
from fotltn.grounding.labels import Labels
from reproduction.deliveries.chains import draw_paths
from reproduction.deliveries.limit import posterior, posteriors
from reproduction.deliveries.world import LEARNED, RATES, Rates, generate
from reproduction.paper.bayes import scores
from tests.reproduction.delivery_worlds import (
    all_labels,
    by_trying_all,
    every_fault,
    every_track,
    no_labels,
    observed,
)

SHORT: dict[str, Any] = {"sweeps": 10, "burn_in": 4, "chains": 2}
TWO_SIDED = {name: Rates(0.25, 0.1) for name in LEARNED}


@pytest.mark.parametrize(
    ("steps", "share", "rates", "seed"),
    [
        (7, 0.15, RATES, 1),
        (9, 0.2, RATES, 14),
        (9, 0.2, RATES, 15),
        (9, 0.5, RATES, 5),
        (9, 0.3, TWO_SIDED, 3),
        (10, 0.3, TWO_SIDED, 15),
    ],
)
def test_means_are_those_over_all_that_may_have_happened(steps, share, rates, seed):
    world = generate(2, 2, 2, steps, seed=seed)
    given, _ = observed(world, share, seed=seed, rates=rates)
    expected = by_trying_all(world, given, rates)
    found = posterior(
        world.known, given, rates=rates, seed=seed, sweeps=100, burn_in=20, chains=200
    )
    assert tuple(found) == LEARNED
    for name in LEARNED:
        assert found[name].numpy() == pytest.approx(expected[name], abs=0.02), name


def test_paths_are_drawn_as_often_as_they_are_probable():
    """Three states that change over time, against the sum over all 81 paths."""
    random = torch.Generator().manual_seed(0)
    gain = torch.randn(2, 4, 1, 3, generator=random, dtype=torch.float64)
    table = torch.rand(2, 4, 3, 3, generator=random, dtype=torch.float64)
    table[:, :, 0, 2] = 0
    table /= table.sum(-1, keepdim=True)
    first = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64)
    rows = 40_000
    draws = torch.rand(2, 4, rows, generator=random, dtype=torch.float64)
    found = draw_paths(gain.expand(-1, -1, rows, -1), first, table, draws)
    for unit in range(2):
        weights = {}
        for path in product(range(3), repeat=4):
            likely = gain[unit, range(4), 0, path].sum().exp()
            steps = table[unit, range(1, 4), path[:-1], path[1:]].prod()
            weights[path] = float(first[path[0]] * steps * likely)
        whole = sum(weights.values())
        paths, counts = np.unique(found[unit].T.numpy(), axis=0, return_counts=True)
        often = {tuple(p): c / rows for p, c in zip(paths.tolist(), counts, strict=True)}
        for path, weight in weights.items():
            share = weight / whole
            error = abs(often.get(path, 0.0) - share)
            assert error <= 5 * np.sqrt(share * (1 - share) / rows), path


def test_overwhelming_evidence_decides():
    """Also where the likelihoods are far outside the range of floating point numbers."""
    world = generate(6, 9, 3, 40, seed=1)
    found = posterior(
        world.known, all_labels(world), seed=0, rates={n: Rates(0.0, 0.0) for n in LEARNED}, **SHORT
    )
    for name, table in world.tables().items():
        if name in LEARNED:
            assert torch.equal(found[name].squeeze(-1), torch.from_numpy(table.copy()).double())


def test_without_labels_the_means_are_those_of_the_process():
    world = generate(3, 3, 2, 15, seed=0)
    found = posterior(world.known, Labels({}, {}), seed=0, sweeps=20, burn_in=0, chains=200)
    faults, prior = every_fault(15)
    assert found["Faulty"][1].numpy() == pytest.approx(prior @ faults, abs=0.03)
    assert found["Worn"].numpy() == pytest.approx(0.5, abs=0.03)
    waits, moves, prior = every_track(world.known, 2)
    assert found["Waits"][2].numpy() == pytest.approx(prior @ waits, abs=0.03)
    assert found["Moves"][2].numpy() == pytest.approx(prior @ moves, abs=0.03)


def test_runs_computed_together_are_those_computed_alone():
    world = generate(5, 6, 3, 20, seed=1)
    given = [observed(world, share, seed=i)[0] for i, share in enumerate((0.1, 0.0, 0.7))]
    together = posteriors(world.known, given, seeds=[5, 6, 7], **SHORT)
    for i, found in enumerate(together):
        alone = posterior(world.known, given[i], seed=5 + i, **SHORT)
        for name in LEARNED:
            assert torch.equal(found[name], alone[name])
            assert found[name].shape[1] == (1 if name == "Worn" else 20)
    assert posteriors(world.known, [], seeds=[]) == []
    other = posterior(world.known, given[0], seed=9, **SHORT)
    assert not torch.equal(other["Faulty"], together[0]["Faulty"])


def test_more_labels_and_the_labels_of_what_follows_help():
    world = generate(12, 24, 5, 50, seed=0)
    few, test = observed(world, 0.15)
    sets = [few, few.only(("Worn", "Faulty", "Waits", "Moves")), observed(world, 0.6)[0]]
    found = posteriors(world.known, sets, seeds=[1, 2, 3], sweeps=15, burn_in=5, chains=4)
    every, own, many = (mean(scores(tables, test)).value for tables in found)
    base = mean({name: chance(truth) for name, truth in test.truth.items()}).value
    assert base + 0.2 < own + 0.05 < every < many
    assert every < 0.97


def one_label(name, cell, degree):
    return Labels({name: torch.tensor(cell)[:, None]}, {name: torch.tensor([degree])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "a seed must be a whole number from 0"),
        ({"sweeps": 0}, "'sweeps' must be at least 1, not 0"),
        ({"burn_in": -1}, "'burn_in' must be at least 0, not -1"),
        ({"chains": 0}, "'chains' must be at least 1, not 0"),
        ({"rates": {"Busy": Rates(0.0, 0.0)}}, "there are no rates of wrong labels for"),
        ({"labels": one_label("Alram", [0, 1, 1], 1.0)}, "did you mean 'Alarm'"),
        ({"labels": one_label("Alarm", [0, 2, 1], 1.0)}, "time) is (1, 2, 10)"),
        ({"labels": one_label("Worn", [0, 1, 1], 1.0)}, "time) is (1, 3, 1)"),
        ({"labels": one_label("Busy", [1, 0, 1], 1.0)}, "labels of 'Busy' do not fit its table"),
        ({"labels": one_label("Due", [0, 0, 1], 0.5)}, "'Due' must be 0 or 1"),
    ],
)
def test_what_does_not_fit_is_an_error(change, message):
    world = generate(3, 4, 2, 10, seed=0)
    with pytest.raises(DataError) as error:
        posterior(**{"known": world.known, "labels": no_labels(), "seed": 0, **change})
    assert message in str(error.value)


def test_every_set_of_labels_needs_a_seed():
    world = generate(3, 4, 2, 10, seed=0)
    with pytest.raises(DataError, match="there are 1 sets of labels, but 2 seeds"):
        posteriors(world.known, [no_labels()], seeds=[1, 2])
