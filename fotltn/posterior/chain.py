"""Tracks drawn exactly: backwards over time what can follow, forwards a draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.posterior.product import TrackAutomaton

#: Numbers that one pass may hold.
_NUMBERS_AT_ONCE = 1 << 25


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
        moves: logarithms by prior condition, state and way, of the prior.
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
        self.letter = torch.from_numpy(product.letter).to(device)
        self.next = torch.from_numpy(product.next).to(device)
        self.accepts = torch.from_numpy(product.accepts).to(device)
        self.starts = torch.from_numpy(product.starts).to(device)
        self.statics = torch.from_numpy(product.statics).to(device)
        self.before = [torch.from_numpy(b).to(device) for b in product.before]
        self.device = device

    def patterns(self, gain: Gain, digits: Tensor) -> Tensor:
        """The pattern of each state and way: what was, and the letter's own digit."""
        before = self.before[gain.window].unsqueeze(-1) % gain.base ** (gain.length - 1)
        pattern = before * gain.base + digits[self.letter]
        patterns: Tensor = pattern + self.statics.unsqueeze(-1) * gain.base**gain.length
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
            (world, track); the logarithm of what all draws of a track weigh together, likewise.
        """
        tracks, times = weights.evidence.shape[:2]
        per_track = worlds * (times + 1) * (self.states + 1)
        step = max(1, min(_NUMBERS_AT_ONCE // per_track, tracks)) if tracks else 1
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
        patterns = [
            self.patterns(gain, which).reshape(-1)
            for gain, which in zip(weights.gains, digits, strict=True)
        ]
        letter, nexts = self.letter.reshape(-1), self.next.reshape(self.next.shape[0], -1)
        top = weights.evidence.amax(-1, keepdim=True)
        evidence = (weights.evidence - top).exp()
        moves = weights.moves.reshape(weights.moves.shape[0], -1).exp()
        varied = nexts.shape[0] > 1
        many = moves.shape[0] > 1

        def factors(t: int, edges: Tensor | None) -> tuple[Tensor, Tensor]:
            """What ways weigh at a point, and where they lead; of all, or of some by track."""
            conditions = weights.conditions[..., t].expand(worlds, tracks).reshape(-1)
            now = evidence[:, t]
            if edges is None:
                value = now[:, letter]
                value = value * (moves[weights.prior[:, t]] if many else moves)
                value = value.expand(worlds, *value.shape).reshape(count, -1)
                following = nexts[conditions] if varied else nexts.expand(count, -1)
                for gain, pattern in zip(gains, patterns, strict=True):
                    value = value * gain[:, t][:, pattern]
                return value, following
            which = letter[edges]
            value = now.expand(worlds, *now.shape).reshape(count, -1).gather(1, which)
            prior = weights.prior[:, t].expand(worlds, tracks).reshape(-1)
            value = value * moves[(prior if many else torch.zeros_like(prior)).unsqueeze(-1), edges]
            following = nexts[(conditions if varied else conditions * 0).unsqueeze(-1), edges]
            for gain, pattern in zip(gains, patterns, strict=True):
                value = value * gain[:, t].gather(1, pattern[edges])
            return value, following

        lengths = weights.lengths.expand(worlds, tracks).reshape(-1)
        end = self._ends(weights, gains, lengths, count)
        later = torch.zeros(
            times + 1, count, self.states + 1, dtype=evidence.dtype, device=self.device
        )
        later[times] = end
        scale = torch.zeros(count, dtype=evidence.dtype, device=self.device)
        least = int(lengths.min()) if count else 0
        for t in range(times - 1, -1, -1):
            value, following = factors(t, None)
            reached = value * later[t + 1].gather(1, following)
            total = reached.view(count, self.states, self.ways).sum(-1)
            best = total.amax(-1, keepdim=True).clamp_min(1e-300)
            total = total / best
            if t < least:
                later[t, :, :-1] = total
                scale += best.squeeze(-1).log()
            else:
                inside = (t < lengths).unsqueeze(-1)
                later[t, :, :-1] = torch.where(inside, total, end[:, :-1])
                scale += torch.where(inside, best, 1.0).squeeze(-1).log()
        return self._forwards(weights, later, scale, factors, lengths, worlds, generator)

    def _forwards(
        self, weights: Weights, later: Tensor, scale: Tensor, factors: object, lengths: Tensor,
        worlds: int, generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        tracks, times = weights.evidence.shape[:2]
        count = worlds * tracks
        starts = torch.where(self.starts < 0, self.states, self.starts)
        static = weights.static.expand(worlds, *weights.static.shape).reshape(count, -1)
        top = static.amax(-1, keepdim=True)
        first = (static - top).exp() * later[0][:, starts]
        total = first.sum(-1).clamp_min(1e-300).log() + top.squeeze(-1) + scale
        chosen = _drawn(first, generator)
        state = starts[chosen]
        letters = torch.zeros(times, count, dtype=torch.int64, device=self.device)
        ways = torch.arange(self.ways, device=self.device)
        for t in range(times):
            edges = state.clamp_max(self.states - 1).unsqueeze(-1) * self.ways + ways
            value, following = factors(t, edges)  # type: ignore[operator]
            value = value * later[t + 1].gather(1, following)
            pick = _drawn(value, generator).unsqueeze(-1)
            inside = t < lengths
            drawn = self.letter.reshape(-1)[edges.gather(1, pick).squeeze(-1)]
            letters[t] = torch.where(inside, drawn, letters[t])
            state = torch.where(inside, following.gather(1, pick).squeeze(-1), state)
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


def _drawn(value: Tensor, generator: torch.Generator) -> Tensor:
    """A column of each row, as likely as its value is large."""
    summed = value.cumsum(-1)
    draw = torch.rand(
        value.shape[0], 1, dtype=value.dtype, generator=generator, device=value.device
    )
    return (summed <= draw * summed[:, -1:]).sum(-1).clamp_max(value.shape[-1] - 1)
