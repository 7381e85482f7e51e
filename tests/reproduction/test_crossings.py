"""The crossings of one pedestrian against all that there may be."""

import numpy as np
import pytest
import torch

from reproduction.paper.crossings import DRAWS, draw_crossings, prior_of_crossings
from tests.reproduction.crossing_sets import every_set

CPU = torch.device("cpu")


def stretches(points):
    """The start and the length of each stretch of ones."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], points, [0]])))
    return [(int(s), int(e - s)) for s, e in zip(edges[::2], edges[1::2], strict=True)]


def draw(gain, rows, seed):
    """How often each set of points is drawn."""
    draws = torch.rand(
        DRAWS, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    prior = prior_of_crossings(len(gain), CPU)
    drawn = draw_crossings(torch.tensor(gain).expand(rows, -1), prior, draws)
    sets, counts = np.unique(drawn.int().numpy(), axis=0, return_counts=True)
    return {tuple(s): c / rows for s, c in zip(sets.tolist(), counts, strict=True)}


@pytest.mark.parametrize("steps", [1, 2, 9, 12, 15, 20, 27])
def test_the_prior_is_that_of_every_choice_of_the_process(steps):
    prior = prior_of_crossings(steps, CPU)
    alone, part = prior.alone.numpy(), prior.part.numpy()
    width, longest = alone.shape[1], part.shape[1]
    assert part.sum() == pytest.approx(1)
    seen = np.zeros_like(alone)
    for points, probability in zip(*every_set(steps), strict=True):
        match stretches(points):
            case [(start, length)]:
                expected = sum(
                    part[start, a - 1] * part[start + a, length - a - 1]
                    for a in range(1, length)
                    if a <= longest and length - a <= longest
                )
                if length <= width:
                    expected += alone[start, length - 1]
                    seen[start, length - 1] = 1
                assert expected == pytest.approx(probability, rel=1e-12)
            case [(s1, l1), (s2, l2)]:
                expected = part[s1, l1 - 1] * part[s2, l2 - 1]
                assert expected == pytest.approx(probability, rel=1e-12)
    assert (alone[seen == 0] == 0).all()


@pytest.mark.parametrize(("steps", "scale"), [(1, 1.0), (12, 1.0), (15, 1.5), (20, 2.0)])
def test_sets_are_drawn_as_often_as_they_are_probable(steps, scale):
    gain = np.random.default_rng(steps).normal(0, scale, steps)
    rows = 40_000
    sets, prior = every_set(steps)
    weights = prior * np.exp(sets @ gain)
    weights /= weights.sum()
    found = draw(gain, rows, seed=steps)
    expected = {tuple(s): w for s, w in zip(sets.tolist(), weights, strict=True)}
    assert set(found) <= set(expected)
    for points, weight in expected.items():
        error = abs(found.get(points, 0) - weight)
        assert error < 5 * np.sqrt(weight * (1 - weight) / rows) + 2 / rows


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 1)],
        [(3, 6)],
        [(3, 4), (8, 4)],
        [(3, 4), (10, 2)],
        [(0, 8)],
        [(4, 10)],
        [(26, 4)],
        [(12, 1), (29, 1)],
    ],
)
@pytest.mark.parametrize("size", [30.0, 3_000.0])
def test_overwhelming_evidence_decides(runs, size):
    """Also where the likelihoods are far outside the range of floating point numbers."""
    gain = np.full(30, -size)
    for start, length in runs:
        gain[start : start + length] = size
    (points,) = draw(gain, 50, seed=1)
    assert stretches(points) == runs
