"""Exact draws of tracks: a backward pass over time weighs what can follow, a forward pass draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fotltn.posterior.automata import Flags, Numbers
from fotltn.posterior.product import TrackAutomaton
from fotltn.posterior.shared_worlds import Randomness, all_of, uniform
from fotltn.posterior.small_steps import BackSteps, followed
from fotltn.posterior.track_weights import Gain, TrackDraws, Weights, alike, some_tracks
from fotltn.semantics.tables import within

#: The most numbers of one pass on a CPU.
_NUMBERS_AT_ONCE = 1 << 25

#: The most numbers of one pass on a GPU, as a share of the numbers that fit into its memory.
_SHARE = 1 / 16

#: With so few numbers at a time point, all ways are weighed, for so many numbers at once.
_FEW_AT_A_POINT, _FEW_NUMBERS = 1 << 15, 1 << 16

#: Products are scaled to about 1 every so many time points.
_SCALED = 4


class _Ways(NamedTuple):
    """The result of a backward pass, for the forward pass.

    Args:
        first: the weights of everything that may follow states at the first time point, with axes
            (state, track, world); the axis of worlds may have size one.
        scale: logarithms to add to these weights, with axes (track, world).
        forwards: computes the edges of a draw, with axes (time, draw), from the first states and
            the lengths.
    """

    first: Tensor
    scale: Tensor
    forwards: Callable[[Tensor, Tensor], Tensor]


class EdgeSymbols(NamedTuple):
    """Symbols: edges with the same symbol have the same evidence and gains.

    Args:
        symbols: the letter and the pattern of each gain, with axes (letter or gain, symbol).
        which: the symbol of each edge.
        pairs: the pairs of a symbol and a state that edges with the symbol lead to.
        pair: the pair of each edge.
    """

    symbols: Tensor
    which: Tensor
    pairs: Tensor
    pair: Tensor


class Chain:
    """Draws tracks of one product of automata.

    An edge leads from a state by a letter to a state, under some conditions. The states with the
    most edges have the lowest numbers. The first edges of all states have the lowest numbers, then
    the second edges, and so on: a sum over the edges of states is a sum of blocks.

    Attributes:
        source: the state that each edge leads from.
        letter: its letter.
        target: the state that it leads to.
        code: its code under each condition, with axes (edge, condition); see `Choices`.
        open: whether the edge exists under each condition, with axes (edge, condition).
        last: the remembered bits of each state, as in the product.
        statics: the value of the static bits of each state.
    """

    def __init__(self, product: TrackAutomaton, codes: Numbers, device: torch.device) -> None:
        """Put a product on a device.

        Args:
            product: the product.
            codes: the codes of ways, with axes (condition, state, way); see `Choices`.
            device: the device.
        """
        self.product, self.device = product, device
        self.states = product.states
        self.letters = torch.from_numpy(product.letters).to(device)
        places = np.nonzero(product.next < self.states)
        condition, state, way = places
        steps = np.stack([state, product.letter[state, way], product.next[places]])
        edges, which = np.unique(steps, axis=1, return_inverse=True)
        degree = np.bincount(edges[0], minlength=self.states)
        states = np.argsort(-degree, kind="stable")
        number = np.argsort(states)
        first = np.cumsum(degree) - degree
        turn = np.arange(edges.shape[1]) - first[edges[0]]
        order = np.lexsort((number[edges[0]], turn))
        edges, which = edges[:, order], np.argsort(order)[which.reshape(-1)]
        self.source, self.letter, self.target = (
            torch.from_numpy(part).to(device)
            for part in (number[edges[0]], edges[1], number[edges[2]])
        )
        allowed = np.zeros((edges.shape[1], len(product.next)), dtype=bool)
        allowed[which, condition] = True
        code = np.zeros(allowed.shape, dtype=np.int64)
        code[which, condition] = codes[places]
        self.code = torch.from_numpy(code).to(device)
        shape = (len(product.next), self.states + 1, len(product.letters) + 1)
        by_letter = np.full(shape, edges.shape[1], dtype=np.int64)
        by_letter[condition, number[state], product.letter[state, way]] = which
        self._by_letter = torch.from_numpy(by_letter.reshape(-1)).to(device)
        self.open = torch.from_numpy(allowed).to(device)
        #: The number of states that have a first edge, a second one, and so on.
        self.blocks = [int((degree > n).sum()) for n in range(max(1, int(degree.max(initial=0))))]
        # The edges of each state; the number of edges stands for none.
        edge = np.full((len(self.blocks), self.states), edges.shape[1])
        edge[turn[order], number[edges[0]]] = np.arange(edges.shape[1])
        self.edge = torch.from_numpy(edge).to(device)
        starts = np.where(product.starts < 0, -1, number[product.starts])
        self.starts = torch.from_numpy(starts).to(device)

        self._order = states
        self.accepts, self.last = self.in_order(product.accepts), self.in_order(product.last)
        self.statics = self.in_order(product.statics)
        self.before = [self.in_order(b) for b in product.before]
        self._told_apart: dict[tuple[tuple[int, int], ...], EdgeSymbols] = {}
        self.at_once = _NUMBERS_AT_ONCE
        if device.type == "cuda":
            memory = torch.cuda.get_device_properties(device).total_memory
            self.at_once = int(memory / torch.float64.itemsize * _SHARE)

    def in_order(self, values: Numbers | Flags) -> Tensor:
        """Values of the states of the product, in the order of the states of the chain."""
        return torch.from_numpy(values[self._order]).to(self.device)

    def walk(self, bits: Tensor, statics: Tensor, conditions: Tensor) -> Tensor:
        """The edges of tracks, with axes (time, track, world).

        Where no edge leads on, the number of edges stands for none.

        Args:
            bits: the values of tracks, with axes (world, track, time, bit).
            statics: the values of static bits, as numbers, with axes (world, track).
            conditions: the numbers of conditions, as in `Weights`.
        """
        width = len(self.letters) + 1
        starts = self._letters_of(bits).permute(2, 1, 0).contiguous()
        starts += conditions.permute(2, 1, 0) * ((self.states + 1) * width)
        target = torch.nn.functional.pad(self.target, (0, 1), value=self.states) * width
        state = self.starts[statics.T]
        row = torch.where(state < 0, self.states, state).reshape(-1) * width
        edges = torch.empty_like(starts)
        for place, edge in zip(starts.flatten(1), edges.flatten(1), strict=True):
            torch.index_select(self._by_letter, 0, place.add_(row), out=edge)
            torch.index_select(target, 0, edge, out=row)
        return edges

    def accepts_tracks(
        self, bits: Tensor, statics: Tensor, conditions: Tensor, lengths: Tensor
    ) -> Tensor:
        """Whether the automaton accepts tracks, with axes (world, track).

        Args:
            bits: the values of tracks as for `walk`, with static bits false.
            statics: the values of static bits, as for `walk`.
            conditions: the numbers of conditions, as for `walk`.
            lengths: the number of points of each track.
        """
        edges = self.walk(bits, statics, conditions)
        last = edges[lengths - 1, torch.arange(len(lengths), device=self.device)]
        accepted = torch.nn.functional.pad(self.accepts[self.target], (0, 1))[last].T
        # A walk does not read the bits that no letter has, such as those that must be false.
        unread = bits & ~self.letters.any(0)
        inside = within(lengths, torch.arange(bits.shape[2], device=self.device))
        return accepted & ~(unread & inside.unsqueeze(-1)).flatten(2).any(-1)

    def _letters_of(self, bits: Tensor) -> Tensor:
        """The letters of values; the number of letters stands for none."""
        words = torch.zeros(bits.shape[:-1], dtype=torch.int64, device=self.device)
        known = torch.zeros(len(self.letters), dtype=torch.int64, device=self.device)
        for place, bit in enumerate(self.letters.any(0).nonzero().squeeze(-1).tolist()):
            words.add_(bits[..., bit], alpha=1 << place)
            known.add_(self.letters[:, bit], alpha=1 << place)
        known, places = known.sort()
        at = torch.searchsorted(known, words).clamp_max(len(known) - 1)
        return torch.where(known[at] == words, places[at], len(known))

    def moves(self, prior: Tensor) -> Tensor:
        """The weights of edges, from logarithms; one more edge, the last, is never open."""
        return torch.nn.functional.pad(prior.exp() * self.open, (0, 0, 0, 1))

    def patterns(self, gain: Gain, digits: Tensor) -> Tensor:
        """The pattern of each edge: the digits before it, and the digit of its letter."""
        before = self.before[gain.window] % gain.base ** (gain.length - 1)
        pattern = before[self.source] * gain.base + digits[self.letter]
        patterns: Tensor = pattern + self.statics[self.source] * gain.base**gain.length
        return patterns

    def draw(
        self, weights: Weights, digits: Sequence[Tensor], generator: Randomness, worlds: int
    ) -> TrackDraws:
        """Draw every track in every world.

        Args:
            weights: the weights of tracks.
            digits: for each gain, the digit of each letter.
            generator: the source of random numbers.
            worlds: the number of worlds.
        """

        def drawn(some: Weights, told: EdgeSymbols) -> TrackDraws:
            by_symbol = self.worth_of_symbols(some, told.symbols).exp_()
            return self._draw(some, by_symbol, told, generator, worlds)

        return self.by_parts(weights, digits, all_of(generator, worlds), drawn)

    def by_parts(
        self, weights: Weights, digits: Sequence[Tensor], worlds: int,
        one_part: Callable[[Weights, EdgeSymbols], TrackDraws],
    ) -> TrackDraws:  # fmt: skip
        """Put together the tracks of parts that fit into memory."""
        tracks, times = weights.evidence.shape[:2]
        told = self.symbols(weights, digits)
        per_track = worlds * (
            (times + 1) * (self.states + told.symbols.shape[1]) + 3 * len(told.which)
        )
        step = max(1, min(self.at_once // per_track, tracks)) if tracks else 1
        order = torch.arange(tracks, device=self.device)
        if weights.first is not None:  # tracks of similar length are drawn together
            order = weights.lengths.argsort(descending=True, stable=True)
        parts = []
        for part in alike(weights.lengths[order], step, weights.first is not None):
            letters, static, total = one_part(some_tracks(weights, order[part]), told)
            rest = times - letters.shape[2]
            parts.append((torch.nn.functional.pad(letters, (0, rest)), static, total))
        letters, static, total = (torch.cat(each, 1) for each in zip(*parts, strict=True))
        back = order.argsort()
        return TrackDraws(letters[:, back], static[:, back], total[:, back])

    def symbols(self, weights: Weights, digits: Sequence[Tensor]) -> EdgeSymbols:
        """The symbols, which depend only on the windows."""
        windows = tuple((gain.window, gain.length) for gain in weights.gains)
        if windows not in self._told_apart:
            told = [self.letter]
            told += [self.patterns(g, d) for g, d in zip(weights.gains, digits, strict=True)]
            symbols, which = _unique_columns(torch.stack(told))
            pairs, pair = _unique_columns(torch.stack([which, self.target]))
            self._told_apart[windows] = EdgeSymbols(symbols, which, pairs, pair)
        return self._told_apart[windows]

    def worth_of_symbols(self, weights: Weights, symbols: Tensor) -> Tensor:
        """The worth of symbols, at most 0, with axes (time, symbol, track, world); or one world."""
        times = weights.evidence.shape[1]
        total = weights.evidence.permute(1, 2, 0)[:, symbols[0]].unsqueeze(-1)
        for gain, pattern in zip(weights.gains, symbols[1:], strict=True):
            values = gain.values[:, :, :times].permute(2, 3, 1, 0).contiguous()
            total = total + values.index_select(1, pattern)
        return total - total.amax(1, keepdim=True)

    def _draw(
        self, weights: Weights, by_symbol: Tensor, told: EdgeSymbols, generator: Randomness,
        worlds: int,
    ) -> TrackDraws:  # fmt: skip
        """Draw tracks with given weights of symbols."""
        end, conditions = self.ends(weights), weights.conditions.permute(2, 1, 0).contiguous()
        # If all weights are the same in all worlds, so is the backward pass.
        apart = max(end.shape[-1], by_symbol.shape[-1], conditions.shape[-1])
        end = end.expand(-1, len(weights.lengths), apart)
        times, (tracks, _) = weights.evidence.shape[1], end.shape[1:]
        draws = uniform(
            (times + 1, tracks, worlds), generator, world=2, dtype=end.dtype, device=self.device
        )
        several = all_of(generator, worlds) if apart > 1 else 1
        few = self.edge.numel() * tracks * several <= _FEW_AT_A_POINT
        weigh = self._ways_of_all if few else self._ways_by_point
        ways = weigh(weights, by_symbol, told, conditions, end, draws[:times])
        return self._forwards(weights, ways, draws[times])

    def _ways_of_all(
        self, weights: Weights, by_symbol: Tensor, told: EdgeSymbols, conditions: Tensor,
        end: Tensor, draws: Tensor,
    ) -> _Ways:  # fmt: skip
        """Find the way that a draw would take from every state, for some time points at once."""
        size, every, times = self.edge.shape, self.edge.flatten(), len(draws)
        target, symbol = with_none(self.target)[every], with_none(told.which)[every]
        moves = weights.moves[every].T.contiguous()
        step = max(1, _FEW_NUMBERS // (len(every) * max(1, end[0].numel())))
        numbers = torch.arange(len(every), dtype=torch.int32, device=self.device)
        places = numbers[: size[1], None, None].repeat(times, 1, *draws.shape[1:])
        later = self._later(end, times)
        steps = BackSteps(later, target, size[0])
        by_way = end

        def weigh(t: int) -> None:
            nonlocal by_way
            start = t - t % step
            if t in (start + step - 1, times - 1):
                by_way = by_symbol[start : t + 1].index_select(1, symbol)
                here = moves[conditions[start : t + 1]] if len(moves) > 1 else moves[:, None, None]
                by_way = by_way * here.permute(0, 3, 1, 2)
                by_way = by_way.expand(*by_way.shape[:3], end.shape[-1]).contiguous()
                steps.begin(by_way)
            steps.step(t - start, t)
            if t == start:
                so_far = by_way.view(-1, *size, *end.shape[1:]).cumsum(1)
                some = slice(start, start + len(so_far))
                wanted = so_far[:, -1] * draws[some].unsqueeze(1)
                for part in so_far[:, :-1].unbind(1):
                    places[some].add_(part <= wanted, alpha=size[1])

        scale = self._backwards(weights, later, weigh)

        def forwards(state: Tensor, lengths: Tensor) -> Tensor:
            return every[followed(places.flatten(2), target, state, lengths)]

        return _Ways(later[0], scale, forwards)

    def _ways_by_point(
        self, weights: Weights, by_symbol: Tensor, told: EdgeSymbols, conditions: Tensor,
        end: Tensor, draws: Tensor,
    ) -> _Ways:  # fmt: skip
        """Find the way that a draw takes, time point by time point, only from states it reaches."""
        moves, several = weights.moves[:-1], weights.moves.shape[1] > 1
        which, pairs, pair = told.which, told.pairs, told.pair
        by_edge = end.new_empty(len(which), *end.shape[1:])
        later = self._later(end, len(draws))

        def behind(t: int, later: Tensor) -> Tensor:
            """The weights of symbols, times the weights of everything that may follow."""
            return by_symbol[t].index_select(0, pairs[0]) * later.index_select(0, pairs[1])

        def weigh(t: int) -> None:
            torch.index_select(behind(t, later[t + 1]), 0, pair, out=by_edge)
            if several:
                at = conditions[t].reshape(1, -1).expand(len(which), -1)
                by_edge.mul_(moves.gather(1, at).view(-1, *conditions.shape[1:]))
            else:
                by_edge.mul_(moves.unsqueeze(-1))
            self._by_state(by_edge, later[t])

        scale = self._backwards(weights, later, weigh)

        def forwards(state: Tensor, lengths: Tensor) -> Tensor:
            every, worlds = torch.arange(len(state), device=self.device), draws.shape[-1]
            at, place, where = (
                every if part.shape[-1] == worlds else every // worlds
                for part in (scale, by_symbol, conditions)
            )
            target, symbol = with_none(self.target), with_none(which)
            taken = torch.empty(len(draws), len(state), dtype=torch.int64, device=self.device)
            least = int(lengths.min()) if len(lengths) else 0
            for t, draw in enumerate(draws.flatten(1).unbind(0)):
                edges = self.edge[:, state]
                value = weights.moves[edges, conditions[t].flatten()[where] if several else 0]
                value = value * by_symbol[t].flatten(1)[symbol[edges], place]
                value = value * later[t + 1].flatten(1)[target[edges], at]
                taken[t] = edges.gather(0, _picked(value, draw).unsqueeze(0))[0]
                after = target[taken[t]]
                state = after if t < least else torch.where(t < lengths, after, state)
            return taken

        return _Ways(later[0], scale, forwards)

    def _later(self, end: Tensor, times: int) -> Tensor:
        """Memory for the backward pass, with axes (time, state, track, world)."""
        later = end.new_empty(times + 1, *end.shape)
        later[times] = end
        return later

    def _backwards(self, weights: Weights, later: Tensor, weigh: Callable[[int], None]) -> Tensor:
        """Run the backward pass, and return logarithms to add to its weights.

        Args:
            weights: the weights of tracks.
            later: the weights of everything that may follow states. Those of the last time point
                are known: the worth of ending there.
            weigh: computes `later` at a time point from `later` at the next one.
        """
        lengths = weights.lengths.unsqueeze(-1)
        least = int(lengths.min()) if len(lengths) else 0
        scale = torch.zeros_like(later[0, 0])
        for t in range(len(later) - 2, -1, -1):
            weigh(t)
            if t % _SCALED == 0 or t >= least:
                total = later[t]
                best = total.amax(0).clamp_min(1e-300)
                if t >= least:
                    inside = t < lengths
                    best = torch.where(inside, best, 1.0)
                    total.copy_(torch.where(inside, total / best, later[-1]))
                else:
                    total.div_(best)
                scale += best.log()
        return scale

    def _by_state(self, by_edge: Tensor, total: Tensor) -> None:
        """Sum over the edges of each state."""
        start = self.blocks[0]
        total[:start] = by_edge[:start]
        total[start:] = 0.0
        for number in self.blocks[1:]:
            total[:number] += by_edge[start : start + number]
            start += number

    def _forwards(self, weights: Weights, ways: _Ways, draw: Tensor) -> TrackDraws:
        (tracks, worlds), first = draw.shape, ways.first
        static, starts = weights.static.T.unsqueeze(-1), self.starts
        if weights.first is not None:  # any state may be the first, and it has static bits
            static, starts = static[self.statics], torch.arange(self.states, device=self.device)
            first = first * weights.first.T.unsqueeze(-1)
        top = static.amax(0)
        begins = (static - top).exp() * first[starts]
        begins = torch.where((starts >= 0)[:, None, None], begins, 0.0)
        total = (begins.sum(0).log() + top + ways.scale).expand(tracks, worlds)
        chosen = _picked(begins.expand(-1, tracks, worlds), draw)
        return self.along(weights, chosen, total, ways.forwards)

    def along(
        self, weights: Weights, chosen: Tensor, total: Tensor,
        forwards: Callable[[Tensor, Tensor], Tensor],
    ) -> TrackDraws:  # fmt: skip
        """Follow tracks from where they begin.

        Args:
            weights: the weights of tracks.
            chosen: the number of the beginning of each track, with axes (track, world): the value
                of its static bits, or if tracks come and go, its first state.
            total: the logarithm of the total weight, with the same axes.
            forwards: computes edges; see `_Ways`.
        """
        times, (tracks, worlds) = weights.evidence.shape[1], chosen.shape
        state = chosen if weights.first is not None else self.starts[chosen].clamp_min(0)
        lengths = weights.lengths.repeat_interleave(worlds)
        taken = forwards(state.flatten(), lengths)
        if weights.first is not None:
            chosen = self.statics[chosen]
        letters = with_none(self.letter)[taken]
        if len(lengths) and int(lengths.min()) < times:
            letters *= torch.arange(times, device=self.device).unsqueeze(-1) < lengths
        shaped = letters.reshape(times, tracks, worlds).permute(2, 1, 0)
        return TrackDraws(shaped, chosen.T, total.T)

    def ends(self, weights: Weights) -> Tensor:
        """The worth of ending in a state, with windows that reach beyond the end."""
        tracks, times = weights.evidence.shape[:2]
        end = self.accepts.to(weights.evidence.dtype)[:, None, None]
        if weights.last is not None:
            end = weights.last.T.unsqueeze(-1)
        every = torch.arange(tracks, device=self.device)
        for gain in weights.gains:
            base, length = gain.base, gain.length
            for ahead in range(gain.values.shape[2] - times):
                # `ahead + 1` digits of the window are zero.
                before = self.before[gain.window] % base ** (length - 1)
                pattern = (before * base ** (ahead + 1)) % base**length
                pattern = pattern + self.statics * base**length
                at = (weights.lengths + ahead).clamp_max(gain.values.shape[2] - 1)
                row = gain.values[:, every, at]
                row = (row - row.amax(-1, keepdim=True)).exp()
                end = end * row[:, :, pattern].permute(2, 1, 0)
        return end


def _unique_columns(values: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct columns, sorted, and the number of each column among them."""
    columns, which = torch.unique(values, dim=1, return_inverse=True)
    return columns, which


def with_none(values: Tensor) -> Tensor:
    """Values of edges, and 0 for the number that stands for none."""
    return torch.nn.functional.pad(values, (0, 1))


def _picked(value: Tensor, draw: Tensor) -> Tensor:
    """Draw a place of the first axis, with a probability proportional to its value.

    Args:
        value: the weights of places.
        draw: random numbers from 0 to 1, without the first axis.
    """
    so_far = value.cumsum(0)
    return (so_far[:-1] <= so_far[-1] * draw).sum(0)
