"""What makes tracks likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Gain:
    """What a window of a track is worth because of other tracks.

    Args:
        values: logarithms, with axes (world, track, time, pattern); time goes on by the window's
            length beyond the end of the trace. A pattern has digits: for each point of the window,
            the latest lowest, the window's bits; above these the static bits.
        window: the number of the window of the product.
        length: the number of its points.
        base: the number of values of its bits.
    """

    values: Tensor
    window: int
    length: int
    base: int


@dataclass(frozen=True, slots=True)
class Weights:
    """What makes a track likely.

    Args:
        evidence: logarithms by letter, with axes (track, time, letter).
        static: logarithms by the value of the static bits, with axes (track, value).
        moves: what edges weigh by the prior, where conditions allow them, with axes (edge,
            condition); see `Chain.moves`.
        conditions: the number of what conditions say, with axes (world, track, time), of world
            perhaps one.
        lengths: the number of points of each track.
        gains: those of windows.
        first: what it is worth to begin in a state, with axes (track, state); without it, tracks
            begin where traces do.
        last: what it is worth to end in a state, likewise.
    """

    evidence: Tensor
    static: Tensor
    moves: Tensor
    conditions: Tensor
    lengths: Tensor
    gains: Sequence[Gain] = ()
    first: Tensor | None = None
    last: Tensor | None = None


def some_tracks(weights: Weights, part: Tensor) -> Weights:
    """Those of some tracks; if tracks come and go, as long as the longest of them."""
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
