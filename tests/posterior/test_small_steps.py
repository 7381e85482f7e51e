"""Steps over time on small arrays equal the same sums and walks, number by number."""

import numpy as np
import torch

from fotltn.posterior.small_steps import BackSteps, followed

TIMES, WAYS, STATES, TRACKS, WORLDS = 6, 3, 4, 2, 5


def test_what_lies_behind_states_is_the_sum_over_their_ways():
    draw = torch.Generator().manual_seed(1)
    later = torch.rand(TIMES + 1, STATES, TRACKS, WORLDS, generator=draw, dtype=torch.float64)
    by_way = torch.rand(TIMES, WAYS * STATES, TRACKS, WORLDS, generator=draw, dtype=torch.float64)
    target = torch.randint(STATES, (WAYS * STATES,), generator=draw)
    weight, expected = by_way.clone(), later.clone()
    steps = BackSteps(later, target, WAYS)
    for start in (3, 0):  # some points at once, the later ones first
        steps.begin(by_way[start : start + 3])
        for t in range(start + 2, start - 1, -1):
            steps.step(t - start, t)
    for t in range(TIMES - 1, -1, -1):
        for state in range(STATES):
            ways = [way * STATES + state for way in range(WAYS)]
            parts = [weight[t, w] * expected[t + 1, target[w]] for w in ways]
            expected[t, state] = sum(parts)
            for way, part in zip(ways, parts, strict=True):
                assert torch.equal(by_way[t, way], part)
    torch.testing.assert_close(later, expected)


def test_draws_follow_the_ways_of_their_states_to_their_ends():
    draw = np.random.default_rng(2)
    places = draw.integers(WAYS, size=(TIMES, STATES, WORLDS)) * STATES
    places = places + np.arange(STATES)[:, None]  # the way of a state is one of its own
    target, first = draw.integers(STATES, size=WAYS * STATES), draw.integers(STATES, size=WORLDS)
    lengths = np.array([TIMES, 2, 4, TIMES, 1])
    taken = followed(
        torch.from_numpy(places).int(), *map(torch.from_numpy, (target, first, lengths))
    )
    for column in range(WORLDS):
        state = first[column]
        for t in range(TIMES):
            assert taken[t, column] == places[t, state, column]
            state = target[taken[t, column]] if t < lengths[column] else state
