"""Tracks drawn exactly: backwards over time what can follow, forwards a draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.posterior.product import TrackAutomaton

#: Numbers that one pass may hold, on a CPU.
_NUMBERS_AT_ONCE = 1 << 25

#: And on a GPU, as a share of the numbers that it could hold.
_SHARE = 1 / 16

#: Products are brought back to about 1 every so many points.
_SCALED = 4


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
        moves: logarithms by prior condition, way and state, of the prior.
        prior: the prior condition, with axes (track, time).
        conditions: the conditions as bits, with axes (world, track, time), of world perhaps one.
        lengths: the number of points of each track.
        gains: those of windows.
    """

    evidence: Tensor
    static: Tensor
    moves: Tensor
    prior: Tensor
    conditions: Tensor
    lengths: Tensor
    gains: Sequence[Gain] = ()


class Chain:
    """Draws tracks of one product."""

    def __init__(self, product: TrackAutomaton, device: torch.device) -> None:
        """Put a product on a device."""
        self.product = product
        self.states, self.ways = product.letter.shape
        # Ways come before states, so that sums over ways are of long rows.
        self.letter = torch.from_numpy(product.letter.T.copy()).to(device)
        self.next = torch.from_numpy(product.next.swapaxes(1, 2).copy()).to(device)
        self.accepts = torch.from_numpy(product.accepts).to(device)
        self.starts = torch.from_numpy(product.starts).to(device)
        self.statics = torch.from_numpy(product.statics).to(device)
        self.before = [torch.from_numpy(b).to(device) for b in product.before]
        self.device = device
        self.at_once = _NUMBERS_AT_ONCE
        if device.type == "cuda":
            memory = torch.cuda.get_device_properties(device).total_memory
            self.at_once = int(memory / torch.float64.itemsize * _SHARE)

    def patterns(self, gain: Gain, digits: Tensor) -> Tensor:
        """The pattern of each way and state: what was, and the letter's own digit."""
        before = self.before[gain.window] % gain.base ** (gain.length - 1)
        pattern = before * gain.base + digits[self.letter]
        patterns: Tensor = pattern + self.statics * gain.base**gain.length
        return patterns

    def draw(
        self, weights: Weights, digits: Sequence[Tensor], generator: torch.Generator, worlds: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A draw of every track in every world.

        Args:
            weights: what makes tracks likely.
            digits: for each gain the digit of each letter.
            generator: of random numbers.
            worlds: how many.

        Returns:
            The letters, with axes (world, track, time); the static bits' values, with axes
            (world, track); the logarithm of what all draws of a track weigh together, likewise, or
            minus infinity where none is possible.
        """
        tracks, times = weights.evidence.shape[:2]
        edges = self.states * self.ways
        per_track = worlds * (times + 1) * (2 * edges + self.states + 1)
        step = max(1, min(self.at_once // per_track, tracks)) if tracks else 1
        parts = []
        for start in range(0, tracks, step):
            part = slice(start, min(start + step, tracks))
            parts.append(self._draw(_some(weights, part), digits, generator, worlds))
        letters, statics, totals = zip(*parts, strict=True)
        return torch.cat(letters, 1), torch.cat(statics, 1), torch.cat(totals, 1)

    def _draw(
        self, weights: Weights, digits: Sequence[Tensor], generator: torch.Generator, worlds: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        tracks, times = weights.evidence.shape[:2]
        count = worlds * tracks
        gains = [self._normalised(gain) for gain in weights.gains]
        ways = self._ways(weights, gains, digits, worlds)
        following = self._following(weights, worlds)
        lengths = weights.lengths.expand(worlds, tracks).reshape(-1)
        end = self._ends(weights, gains, lengths, count)
        later, scale = end.clone(), torch.zeros_like(end[:, 0])
        total = later[:, :-1]  # what lies behind a state that leads nowhere stays 0
        by_way = ways.view(times, count, self.ways, self.states)
        least = int(lengths.min()) if count else 0
        for t in range(times - 1, -1, -1):
            # From here on, `ways` has what lies behind each way, too.
            ways[t].mul_(later.gather(1, following[t]))
            torch.sum(by_way[t], 1, out=total)
            if t % _SCALED == 0 or t >= least:
                best = total.amax(-1, keepdim=True).clamp_min(1e-300)
                if t >= least:
                    inside = (t < lengths).unsqueeze(-1)
                    best = torch.where(inside, best, 1.0)
                    total.copy_(torch.where(inside, total / best, end[:, :-1]))
                else:
                    total.div_(best)
                scale += best.squeeze(-1).log()
        return self._forwards(weights, ways, following, later, scale, lengths, generator)

    def _ways(
        self, weights: Weights, gains: Sequence[Tensor], digits: Sequence[Tensor], worlds: int
    ) -> Tensor:
        """What ways weigh, with axes (time, world and track, way and state)."""
        tracks, times = weights.evidence.shape[:2]
        count = worlds * tracks
        letter = self.letter.reshape(-1)
        moves = weights.moves.reshape(weights.moves.shape[0], -1).exp()
        by_prior = moves[weights.prior.T] if moves.shape[0] > 1 else moves
        near = [n for n, gain in enumerate(weights.gains) if gain.length == 1]
        if near:
            # What sees one point alone goes by letter, before letters become ways.
            values = weights.evidence.shape[2]
            static = torch.arange(len(self.starts), device=self.device).unsqueeze(-1)
            spread = weights.evidence.unsqueeze(2).expand(worlds, -1, -1, len(static), -1)
            total = spread.reshape(count, times, -1)
            for number in near:
                gain, which = weights.gains[number], digits[number]
                pattern = (which + static * gain.base).reshape(-1)
                seen = gain.values[:, :, :times].reshape(count, times, -1)
                total = total + seen[:, :, pattern]
            total = (total - total.amax(-1, keepdim=True)).exp().transpose(0, 1)
            index = (self.statics * values + self.letter).reshape(-1)
            ways = total[:, :, index]
            if len(moves) == 1:
                ways *= by_prior
            else:
                ways.view(times, worlds, tracks, -1).mul_(by_prior.unsqueeze(1))
        else:
            top = weights.evidence.amax(-1, keepdim=True)
            evidence = (weights.evidence - top).exp().transpose(0, 1)
            value = evidence[:, :, letter] * by_prior
            ways = value.unsqueeze(1).expand(times, worlds, *value.shape[1:])
            ways = ways.reshape(times, count, -1).clone()
        for number, gain in enumerate(weights.gains):
            if number not in near:
                pattern = self.patterns(gain, digits[number]).reshape(-1)
                ways *= gains[number][:, :times].transpose(0, 1)[:, :, pattern]
        return ways

    def _following(self, weights: Weights, worlds: int) -> Tensor:
        """Where ways lead, with the same axes."""
        tracks, times = weights.evidence.shape[:2]
        nexts = self.next.reshape(self.next.shape[0], -1)
        if nexts.shape[0] == 1:
            return nexts.expand(times, worlds * tracks, -1)
        conditions = weights.conditions.expand(worlds, tracks, times).reshape(-1, times)
        return nexts[conditions.T]

    def _forwards(
        self, weights: Weights, ways: Tensor, following: Tensor, first: Tensor, scale: Tensor,
        lengths: Tensor, generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        tracks, times = weights.evidence.shape[:2]
        count = ways.shape[1]
        worlds = count // max(1, tracks)
        starts = torch.where(self.starts < 0, self.states, self.starts)
        static = weights.static.expand(worlds, *weights.static.shape).reshape(count, -1)
        top = static.amax(-1, keepdim=True)
        begins = (static - top).exp() * first[:, starts]
        total = begins.sum(-1).log() + top.squeeze(-1) + scale
        draws = torch.rand(
            times + 1, count, 1, dtype=ways.dtype, generator=generator, device=self.device
        )
        chosen = _picked(begins.unsqueeze(-1), draws[times]).squeeze(-1)
        # Where each state would go is drawn for all states, so that the walk is a look-up.
        by_way = ways.view(times, count, self.ways, self.states)
        picked = _picked(by_way, draws[:times])
        edges = picked * self.states + torch.arange(self.states, device=self.device)
        after = following.gather(2, edges)
        states = torch.empty(times, count, dtype=torch.int64, device=self.device)
        state = starts[chosen].clamp_max(self.states - 1).unsqueeze(-1)
        least = int(lengths.min()) if count else 0
        for t in range(times):
            states[t] = state.squeeze(-1)
            state = after[t].gather(1, state).clamp_max_(self.states - 1)
            if t >= least:
                state = torch.where((t < lengths).unsqueeze(-1), state, states[t].unsqueeze(-1))
        edges = edges.gather(2, states.unsqueeze(-1)).squeeze(-1)
        letters = self.letter.reshape(-1)[edges]
        if least < times:
            inside = torch.arange(times, device=self.device).unsqueeze(-1) < lengths
            letters = torch.where(inside, letters, 0)
        shaped = letters.reshape(times, worlds, tracks).permute(1, 2, 0)
        return shaped, chosen.reshape(worlds, tracks), total.reshape(worlds, tracks)

    def _normalised(self, gain: Gain) -> Tensor:
        values = gain.values - gain.values.amax(-1, keepdim=True)
        return values.exp().reshape(-1, *values.shape[2:])

    def _ends(
        self, weights: Weights, gains: Sequence[Tensor], lengths: Tensor, count: int
    ) -> Tensor:
        """What it is worth to end in a state: windows that reach beyond the end are read there."""
        end = self.accepts.to(weights.evidence.dtype).expand(count, -1).clone()
        for gain, values in zip(weights.gains, gains, strict=True):
            base, length = gain.base, gain.length
            for ahead in range(values.shape[1] - weights.evidence.shape[1]):
                # `ahead + 1` digits of zero have come in.
                before = self.before[gain.window] % base ** (length - 1)
                pattern = (before * base ** (ahead + 1)) % base**length
                pattern = pattern + self.statics * base**length
                at = (lengths + ahead).clamp_max(values.shape[1] - 1)
                row = values[torch.arange(count, device=self.device), at]
                end = end * row[:, pattern]
        return torch.cat([end, torch.zeros_like(end[:, :1])], 1)


def _some(weights: Weights, part: slice) -> Weights:
    return Weights(
        weights.evidence[part], weights.static[part], weights.moves, weights.prior[part],
        weights.conditions[:, part], weights.lengths[part],
        [Gain(g.values[:, part], g.window, g.length, g.base) for g in weights.gains],
    )  # fmt: skip


def _picked(value: Tensor, draw: Tensor) -> Tensor:
    """A place of the last axis but one, as likely as its value is large.

    Args:
        value: what places weigh.
        draw: numbers from 0 to 1, without that axis.
    """
    limit = value.sum(-2) * draw
    place = torch.zeros(limit.shape, dtype=torch.int64, device=value.device)
    so_far = torch.zeros_like(limit)
    for way in range(value.shape[-2] - 1):
        so_far = so_far + value[..., way, :]
        place += so_far <= limit
    return place
