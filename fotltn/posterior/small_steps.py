"""Steps over time on small arrays, where a call costs more than the arithmetic.

On a CPU, NumPy computes them on the same memory: a call costs a fifth of a call of PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class BackSteps:
    """Weighs all successors of states, backwards from time point to time point."""

    def __init__(self, later: Tensor, target: Tensor, ways: int) -> None:
        """Prepare steps.

        Args:
            later: the weights of everything that may follow states, with axes (time, state, track,
                world); steps write to it.
            target: the states that ways lead to: of the first way of each state, then of the
                second, and so on.
            ways: the number of ways of each state.
        """
        self._later, self._target, self._ways = later.flatten(2), target, ways
        self._arrays: tuple[NDArray[Any], NDArray[Any]] | None = None
        if later.device.type == "cpu":
            self._arrays = self._later.numpy(), target.numpy()
            self._behind = np.empty((len(target), self._later.shape[2]))

    def begin(self, by_way: Tensor) -> None:
        """Set the weights of ways at the next time points, with axes (point, way, track, world)."""
        self._by_way = by_way.flatten(2)
        if self._arrays is not None:
            self._array: NDArray[Any] = self._by_way.numpy()
            self._sums = self._array.reshape(len(by_way), self._ways, -1, self._array.shape[2])

    def step(self, place: int, time: int) -> None:
        """Multiply weights of ways by the weights of what follows, and sum over each state."""
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
    """Follow the ways of draws; return them with axes (time, draw).

    Args:
        places: the way that a draw would take from every state, with axes (time, state, draw).
        target: the states that ways lead to.
        state: the first state of each draw.
        lengths: the number of time points of each draw, after which the state stays.
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
