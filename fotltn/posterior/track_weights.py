"""Weights of tracks: evidence, prior, and gains from other tracks; and what is drawn from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Gain:
    """The worth of the patterns of a window of a track, because of factors.

    Args:
        values: logarithms, with axes (world, track, time, pattern); time goes beyond the end of
            the trace by the length of the window. A pattern is a number. Its digits are the bits
            of the window at each time point, the latest lowest; above these come static bits.
        window: the number of the window in the product.
        length: the number of its time points.
        base: the number of values of its bits.
    """

    values: Tensor
    window: int
    length: int
    base: int


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of tracks, from which they are drawn.

    Args:
        evidence: logarithms by letter, with axes (track, time, letter).
        static: logarithms by the value of the static bits, with axes (track, value).
        moves: the weights of edges by the prior, 0 where conditions forbid them, with axes (edge,
            condition); see `Chain.moves`.
        conditions: the number of the value of conditions, with axes (world, track, time); the axis
            of worlds may have size one.
        lengths: the number of time points of each track.
        gains: the gains of windows.
        first: the worth of beginning in a state, with axes (track, state); None if tracks begin
            with their traces.
        last: the worth of ending in a state, with axes (track, state); None likewise.
    """

    evidence: Tensor
    static: Tensor
    moves: Tensor
    conditions: Tensor
    lengths: Tensor
    gains: Sequence[Gain] = ()
    first: Tensor | None = None
    last: Tensor | None = None


class TrackDraws(NamedTuple):
    """Every track in every world.

    Args:
        letters: the letters, with axes (world, track, time).
        statics: the values of static bits, with axes (world, track).
        total: the logarithm of the total weight of all draws, with axes (world, track), up to a
            number that depends on gains alone; minus infinity if no draw is possible.
    """

    letters: Tensor
    statics: Tensor
    total: Tensor


def some_tracks(weights: Weights, part: Tensor) -> Weights:
    """Take the weights of some tracks; if tracks come and go, up to the longest of these."""
    times = weights.evidence.shape[1]
    size = int(weights.lengths[part].max()) if weights.first is not None else times
    return replace(
        weights, evidence=weights.evidence[part, :size], static=weights.static[part],
        conditions=weights.conditions[:, part, :size], lengths=weights.lengths[part],
        gains=[
            replace(g, values=g.values[:, part, : g.values.shape[2] - times + size])
            for g in weights.gains
        ],
        first=None if weights.first is None else weights.first[part],
        last=None if weights.last is None else weights.last[part],
    )  # fmt: skip


def alike(lengths: Tensor, most: int, apart: bool) -> Iterator[slice]:
    """Split tracks into parts of at most `most`; with `apart`, of similar length."""
    start, count = 0, len(lengths)
    while start < count:
        end = min(start + most, count)
        if apart:
            end = min(end, max(start + 1, int((lengths >= int(lengths[start]) / 2).sum())))
        yield slice(start, end)
        start = end
