"""Steps over time on small arrays, where a call costs more than its numbers.

On a CPU they are NumPy's, on the same memory: a call costs a fifth of what PyTorch's costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class BackSteps:
    """Weighs all ways on from states, point after point, backwards."""

    def __init__(self, later: Tensor, target: Tensor, ways: int) -> None:
        """Nothing is weighed yet.

        Args:
            later: what lies behind states, with axes (time, state, track, world).
            target: where ways lead to: the first way of each state, then the second, ….
            ways: how many each state has.
        """
        self._later, self._target, self._ways = later.flatten(2), target, ways
        self._arrays: tuple[NDArray[Any], NDArray[Any]] | None = None
        if later.device.type == "cpu":
            self._arrays = self._later.numpy(), target.numpy()
            self._behind = np.empty((len(target), self._later.shape[2]))

    def begin(self, by_way: Tensor) -> None:
        """Go on with what ways weigh at some points, with axes (point, way, track, world)."""
        self._by_way = by_way.flatten(2)
        if self._arrays is not None:
            self._array: NDArray[Any] = self._by_way.numpy()
            self._sums = self._array.reshape(len(by_way), self._ways, -1, self._array.shape[2])

    def step(self, place: int, time: int) -> None:
        """Multiply what ways weigh at a point by what lies behind them, and sum it up by state."""
        if self._arrays is None:
            by_way = self._by_way[place]
            by_way *= self._later[time + 1].index_select(0, self._target)
            torch.sum(by_way.unflatten(0, (self._ways, -1)), 0, out=self._later[time])
            return
        later, target = self._arrays
        later[time + 1].take(target, 0, self._behind, "clip")
        np.multiply(self._array[place], self._behind, self._array[place])
        np.add.reduce(self._sums[place], 0, None, later[time])


def followed(places: Tensor, target: Tensor, state: Tensor, lengths: Tensor) -> Tensor:
    """The ways that are taken, with axes (time, draw).

    Args:
        places: the way that would be taken from every state, with axes (time, state, draw).
        target: where ways lead to.
        state: the first state of each draw.
        lengths: the number of points of each draw, after which the state stays.
    """
    times, _, draws = places.shape
    least = int(lengths.min()) if len(lengths) else 0
    taken = places.new_empty(times, draws)
    if places.device.type != "cpu":
        state = state.unsqueeze(0)
        for t, place in enumerate(places.unbind(0)):
            torch.gather(place, 0, state, out=taken[t : t + 1])
            after = target[taken[t : t + 1]]
            state = after if t < least else torch.where(t < lengths, after, state)
        return taken
    column, ways, last = np.arange(draws), taken.numpy(), lengths.numpy()
    leads, cells = target.numpy() * draws, places.flatten(1).numpy()
    at = state.numpy() * draws + column
    for t in range(times):
        cells[t].take(at, 0, ways[t], "clip")
        there = leads.take(ways[t])
        there += column
        at = there if t < least else np.where(t < last, there, at)
    return taken
