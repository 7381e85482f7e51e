"""Spans of tracks: a track is drawn from the arrival of its entities until they leave.

Before and after its span, no fact of a track is true. The effect on its automaton is computed once:
the states that a track may be in on arrival, and the worth of each state on leaving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.logic.parts import predicates_in
from fotltn.posterior.chain import Chain
from fotltn.posterior.rows import Bindings, RowTruth
from fotltn.posterior.track_kind import TrackKind
from fotltn.posterior.track_weights import Weights


@dataclass(frozen=True, slots=True, eq=False)
class TrackSpans:
    """The spans in which tracks are drawn.

    Args:
        begins: the first time point of each track.
        lengths: the number of time points of each track; 0 if its entities are never present.
        first: the worth of beginning in a state, with axes (track, state).
        last: the worth of ending in a state, with axes (track, state).
    """

    begins: Tensor
    lengths: Tensor
    first: Tensor
    last: Tensor

    def late(self, times: Tensor) -> Tensor:
        """Where tracks begin, if later than their traces, with axes (track, time)."""
        begins = self.begins.unsqueeze(-1)
        return (times == begins) & (begins > 0)

    def there(self, times: Tensor) -> Tensor:
        """Where tracks are drawn, with axes (track, time)."""
        begins = self.begins.unsqueeze(-1)
        return (times >= begins) & (times < begins + self.lengths.unsqueeze(-1))

    def points(self, tracks: Tensor, size: int) -> Tensor:
        """The times of the points of spans, with axes (track, point); some are beyond the end."""
        here = torch.arange(size, device=self.begins.device)
        return self.begins[tracks].unsqueeze(-1) + here

    def within(self, weights: Weights, tracks: Tensor) -> Weights:
        """Restrict the weights of tracks to their spans."""
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
        """Move draws with axes (world, track, point, …) to their time points; 0 elsewhere."""
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
    """The spans of tracks; None if tracks are always present, or absent ones can have true facts.

    Args:
        kind: the kind of tracks.
        chain: their automaton.
        row_truth: the given facts.
        rows: the tracks.
        points: the worth of letters at time points, with axes (track, time, letter).
        conditions: computes the numbers of conditions, with axes (track, time).
        costs: the costs of bits that are false.
    """
    there = presence(row_truth, kind.moving.sorts, rows.trace, [*rows.places.values()])
    bits = kind.moving.bits
    plain = all(slot.position is not None for bit in bits for slot in bit.slots)
    defined = len(bits) > kind.free + len(kind.helping)
    helps = kind.factors and len(kind.helping) > len(kind.soft)
    static = {bit.predicate for bit in bits if bit.static}
    beyond = any(predicates_in(factor.formula) & static for factor in kind.factors)
    if there is None or defined or helps or not plain or beyond:
        return None  # an absent track may have true facts that are defined or static
    if any(row_truth.varies(f) for f in kind.conditions):
        return None  # the automaton depends on other tracks
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
    alone = walk.forwards(lengths)  # of tracks without true facts
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


def presence(
    row_truth: RowTruth, sorts: Sequence[str], trace: Tensor, args: Sequence[Tensor]
) -> Tensor | None:
    """Where some entities are all present, with axes (row, time); None if always.

    Args:
        row_truth: the given facts.
        sorts: the sorts of the entities.
        trace: the trace of each row.
        args: for each sort, the entity of each row.
    """
    result: Tensor | None = None
    for sort, arg in zip(sorts, args, strict=True):
        if (mask := row_truth.tables.present.get(sort)) is not None:
            some = mask.to(trace.device).expand(-1, -1, row_truth.tables.horizon)[trace, arg]
            result = some if result is None else result & some
    return result


class _Idle:
    """An automaton that reads only letters without true bits."""

    def __init__(self, chain: Chain, conditions: Tensor, worth: Tensor, nothing: Tensor) -> None:
        """Prepare walks.

        Args:
            chain: the automaton.
            conditions: the numbers of conditions, with axes (track, time).
            worth: the worth of letters, as logarithms, with axes (track, time, letter).
            nothing: the letters without true bits.
        """
        self.chain, self.conditions = chain, conditions
        self.worth = (worth - worth.amax(-1, keepdim=True)).exp() * nothing

    def _edges(self, time: int) -> Tensor:
        """The weights of edges at a time point, with axes (track, edge)."""
        allowed = self.chain.open.T[self.conditions[:, time]]
        return self.worth[:, time][:, self.chain.letter] * allowed

    def forwards(self, until: Tensor) -> Tensor:
        """The weights of states at a time point of each track."""
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
        """The worth of states at a time point of each track, up to the end of its trace."""
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
