"""When the entities of tracks are there: tracks are drawn from when these come until they leave.

Before and after, nothing of a track is true. What its automaton makes of that is found once: the
states in which a track may be when its entities come, and what each state is worth when they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.posterior.chain import Chain
from fotltn.posterior.kinds import TrackKind
from fotltn.posterior.rows import Bindings, RowTruth
from fotltn.posterior.track_weights import Weights


@dataclass(frozen=True, slots=True, eq=False)
class TrackSpans:
    """From when to when tracks are drawn.

    Args:
        begins: the first point of each track.
        lengths: how many points there are from there; 0 for a track that is never there.
        first: what it is worth to begin in a state, with axes (track, state).
        last: what it is worth to end in one.
    """

    begins: Tensor
    lengths: Tensor
    first: Tensor
    last: Tensor

    def late(self, times: Tensor) -> Tensor:
        """Where tracks begin that begin later than their traces, with axes (track, time)."""
        begins = self.begins.unsqueeze(-1)
        return (times == begins) & (begins > 0)

    def there(self, times: Tensor) -> Tensor:
        """Where tracks are drawn, with axes (track, time)."""
        begins = self.begins.unsqueeze(-1)
        return (times >= begins) & (times < begins + self.lengths.unsqueeze(-1))

    def points(self, tracks: Tensor, size: int) -> Tensor:
        """The time of each point of tracks, with axes (track, point); it may be beyond the end."""
        here = torch.arange(size, device=self.begins.device)
        return self.begins[tracks].unsqueeze(-1) + here

    def within(self, weights: Weights, tracks: Tensor) -> Weights:
        """What makes tracks likely, from when they come until they leave."""
        size, times = int(self.lengths[tracks].max()), weights.evidence.shape[1]
        rows = torch.arange(len(tracks), device=tracks.device).unsqueeze(-1)
        at = self.points(tracks, size).clamp_max(times - 1)
        gains = []
        for gain in weights.gains:
            there = gain.values.shape[2]
            wide = self.points(tracks, size + max(there - times, gain.length - 1))
            inside = (wide < there).unsqueeze(-1)
            values = gain.values[:, rows, wide.clamp_max(there - 1)] * inside
            gains.append(replace(gain, values=values))
        return replace(
            weights, evidence=weights.evidence[rows, at],
            conditions=weights.conditions[:, rows, at], lengths=self.lengths[tracks], gains=gains,
            first=self.first[tracks], last=self.last[tracks],
        )  # fmt: skip

    def spread(self, letters: Tensor, tracks: Tensor, horizon: int) -> Tensor:
        """What was drawn, with axes (world, track, point, …), in its place in time; else 0."""
        at = self.points(tracks, letters.shape[2])
        inside = at < (self.begins + self.lengths)[tracks].unsqueeze(-1)
        row, point = inside.nonzero().unbind(-1)
        shape = (letters.shape[0], letters.shape[1], horizon, *letters.shape[3:])
        result = torch.zeros(shape, dtype=letters.dtype, device=letters.device)
        result[:, row, at[row, point]] = letters[:, row, point]
        return result


def spans_of(
    kind: TrackKind, chain: Chain, row_truth: RowTruth, rows: Bindings, points: Tensor,
    conditions: Callable[[], Tensor], costs: Mapping[int, float],
) -> TrackSpans | None:  # fmt: skip
    """When to draw tracks; None if that is all of the time, or if more is asked of absent ones.

    Args:
        kind: the kind of tracks.
        chain: their automaton.
        row_truth: what is given.
        rows: the tracks.
        points: what letters are worth at a point, with axes (track, time, letter).
        conditions: the numbers of the values of conditions, with axes (track, time).
        costs: what the falsehood of bits costs.
    """
    there, bits = _there(row_truth, kind, rows), kind.moving.bits
    plain = all(slot.position is not None for bit in bits for slot in bit.slots)
    defined = len(bits) > kind.free + len(kind.helping)
    helps = kind.factors and len(kind.helping) > len(kind.soft)
    if there is None or defined or helps or not plain:
        return None  # what follows of a track may be true while it is not there
    if any(row_truth.varies(f) for f in kind.conditions):
        return None  # what others do decides what an automaton makes of a track
    lengths = row_truth.lengths(rows)
    times = torch.arange(there.shape[1], device=there.device)
    there = there & (times < lengths.unsqueeze(-1))
    some = there.any(-1)
    begins = torch.where(some, there.to(torch.int8).argmax(-1), 0)
    ends = torch.where(some, there.shape[1] - there.flip(-1).to(torch.int8).argmax(-1), 0)
    if bool((ends - begins == lengths).all()):
        return None
    free = [n for n in range(kind.free) if not bits[n].static]
    letters = torch.from_numpy(kind.product.letters).to(there.device)
    nothing = ~letters[:, free].any(-1)
    odds = torch.zeros(len(bits), dtype=torch.float64, device=there.device)
    for number, cost in costs.items():
        odds[number] = cost
    walk = _Idle(chain, conditions(), points + letters.to(torch.float64) @ odds, nothing)
    first = walk.forwards(begins)
    last = walk.backwards(ends, lengths)
    alone = walk.forwards(lengths)  # nothing is true at any point
    accepted = (alone * chain.accepts).sum(-1) > 0
    good = torch.where(some, (first.sum(-1) > 0) & (last.sum(-1) > 0), accepted)
    if not bool(good.any()):
        return None
    start, accepts = walk.forwards(torch.zeros_like(begins)), chain.accepts.to(last)
    return TrackSpans(
        torch.where(good, begins, 0),
        torch.where(good, ends - begins, lengths),
        torch.where(good.unsqueeze(-1), first, start),
        torch.where(good.unsqueeze(-1), last, accepts),
    )


def _there(row_truth: RowTruth, kind: TrackKind, rows: Bindings) -> Tensor | None:
    """Where all arguments of tracks are there, with axes (track, time); None if they always are."""
    result: Tensor | None = None
    for axis in kind.axes:
        mask = row_truth.tables.present.get(axis.sort or "")
        if mask is not None:
            mask = mask.to(rows.trace.device).expand(-1, -1, row_truth.tables.horizon)
            some = mask[rows.trace, rows.places[axis]]
            result = some if result is None else result & some
    return result


class _Idle:
    """An automaton that reads nothing but letters in which nothing is true."""

    def __init__(self, chain: Chain, conditions: Tensor, worth: Tensor, nothing: Tensor) -> None:
        """Read what conditions say.

        Args:
            chain: the automaton.
            conditions: the numbers of their values, with axes (track, time).
            worth: the logarithms that letters are worth, with axes (track, time, letter).
            nothing: the letters in which nothing is true.
        """
        self.chain, self.conditions = chain, conditions
        self.worth = (worth - worth.amax(-1, keepdim=True)).exp() * nothing

    def _edges(self, time: int) -> Tensor:
        """What edges weigh at a point, with axes (track, edge)."""
        allowed = self.chain.open.T[self.conditions[:, time]]
        return self.worth[:, time][:, self.chain.letter] * allowed

    def forwards(self, until: Tensor) -> Tensor:
        """What states weigh at a point of each track."""
        chain, tracks = self.chain, len(until)
        value = torch.zeros(tracks, chain.states, dtype=torch.float64, device=until.device)
        value[:, chain.starts[chain.starts >= 0]] = 1.0
        for time in range(int(until.max()) if tracks else 0):
            moved = value[:, chain.source] * self._edges(time)
            after = torch.zeros_like(value).index_add_(1, chain.target, moved)
            after = after / after.amax(-1, keepdim=True).clamp_min(1e-300)
            value = torch.where((time < until).unsqueeze(-1), after, value)
        return value

    def backwards(self, since: Tensor, lengths: Tensor) -> Tensor:
        """What states are worth at a point of each track, to the end of its trace."""
        chain, tracks = self.chain, len(since)
        value = chain.accepts.to(torch.float64).expand(tracks, -1)
        least = int(since.min()) if tracks else 0
        for time in range(int(lengths.max()) - 1 if tracks else -1, least - 1, -1):
            moved = value[:, chain.target] * self._edges(time)
            before = torch.zeros_like(value).index_add_(1, chain.source, moved)
            before = before / before.amax(-1, keepdim=True).clamp_min(1e-300)
            inside = ((time < lengths) & (time >= since)).unsqueeze(-1)
            value = torch.where(inside, before, value)
        return value
