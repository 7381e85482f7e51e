"""Joint moves of a track and the tracks that hard axioms tie to it.

If a rack without power makes all its servers slow, and only that, then neither the rack nor a
server can change alone. A joint move changes the facts of one track for some time, and draws the
tied tracks anew, given that. The move is accepted by the rule of Metropolis, in which the total
weight of all draws stands for the tied tracks: their old and new values do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.posterior.above import free_beneath
from fotltn.posterior.clauses import Clause
from fotltn.posterior.colours import Colour
from fotltn.posterior.movers import Mover
from fotltn.posterior.rows import all_rows, atoms_of
from fotltn.posterior.swaps import Competition, DensityTerm
from fotltn.semantics.tables import within

#: Joint moves of a kind of track in a sweep: eight for each track, within these limits.
_LEAST, _MOST = 8, 48


class TiedSampler(Competition, Protocol):
    """The part of a sampler that joint moves need."""

    movers: list[Mover]
    teaches: list[frozenset[tuple[str, ...]]]


class _TiedKinds(NamedTuple):
    """Two kinds of tracks.

    Args:
        one: the mover of the tracks that change one at a time.
        others: the mover of the tracks that are drawn anew, all at once.
        touched: which tracks of the second kind change with a track of the first kind, with axes
            (track, place among those that are drawn).
        terms: the numbers of the terms of log-probability that the first kind changes, and the
            second does not.
        clauses: the hard clauses about either kind.
        defined: the predicates that either kind defines.
    """

    one: Mover
    others: Mover
    touched: Tensor
    terms: tuple[int, ...]
    clauses: tuple[Clause, ...]
    defined: tuple[str, ...]


class JointMoves:
    """Joint moves of tracks of two kinds that hard axioms tie, although tracks move one by one."""

    def __init__(self, sampler: TiedSampler) -> None:
        """Find the pairs of kinds."""
        self.sampler = sampler
        self.pairs = [*self._found()] if sampler.structure.tied else []

    @property
    def anew(self) -> set[str]:
        """The free predicates of tracks that are drawn anew."""
        return {name for pair in self.pairs for name in _moved(pair.others)}

    def move(self, heat: float) -> None:
        """Try some moves in every trace of every world.

        Args:
            heat: the strength of ties, from 0 to 1.
        """
        for pair in self.pairs:
            self._moves(pair, heat)

    def _moves(self, pair: _TiedKinds, heat: float) -> None:
        sampler, one, others = self.sampler, pair.one, pair.others
        colour = others.colours[0]
        terms = sampler.density_terms()
        worth = self._worth(terms, pair)
        broken = sampler.false_by_trace(pair.clauses)
        totals = self._drawn(others, colour, heat)[1]
        names = one.kind.moving.names | others.kind.moving.names | {*pair.defined}
        written = [name for name in sampler.tables if name in names]
        number = one.tracks // sampler.known.batch
        for _ in range(min(_MOST, max(_LEAST, 8 * number))):
            before = {name: sampler.tables[name].clone() for name in written}
            chosen = self._chosen(one)
            place = pair.touched[chosen].any(0).nonzero().squeeze(-1)
            place = place if len(place) else torch.zeros_like(chosen[:1])  # any may be drawn
            some = Colour(colour.tracks[place], [])
            odds = self._change(one, chosen)
            sampler.define_anew(pair.defined)
            drawn, totals_now = self._drawn(others, some, heat)
            others.write(sampler.tables, some.tracks, drawn)
            sampler.define_anew(pair.defined)
            worth_now, broken_now = (
                self._worth(terms, pair), sampler.false_by_trace(pair.clauses)
            )  # fmt: skip
            trace = others.rows.trace[some.tracks]
            more = torch.zeros_like(worth).index_add_(1, trace, totals_now - totals[:, place])
            gain = worth_now - worth + more + odds
            draw = torch.rand(
                gain.shape, dtype=torch.float64, generator=sampler.generator, device=gain.device
            )
            # If neither is possible, the difference is not a number, and the move is refused.
            accepted = (draw.log() < gain) & (broken_now <= broken)
            for name, table in before.items():
                keep = accepted.reshape(*accepted.shape, *[1] * (table.dim() - 2))
                sampler.tables[name].copy_(torch.where(keep, sampler.tables[name], table))
            worth, broken = (
                torch.where(accepted, new, old)
                for new, old in ((worth_now, worth), (broken_now, broken))
            )
            totals[:, place] = torch.where(accepted[:, trace], totals_now, totals[:, place])

    def _worth(self, terms: Sequence[DensityTerm], pair: _TiedKinds) -> Tensor:
        """The terms that the first kind changes, with axes (world, trace)."""
        return torch.stack([terms[number].value() for number in pair.terms]).sum(0)

    def _drawn(self, mover: Mover, colour: Colour, heat: float) -> tuple[Tensor, Tensor]:
        """New tracks, and the total weight of all draws, with axes (world, track)."""
        sampler = self.sampler
        conditions = mover.prepared(sampler.tables)
        bits, totals = mover.draw_anew(
            colour, sampler.tables, conditions, {}, sampler.generator, heat
        )
        old = mover.read(sampler.tables, colour.tracks)
        return torch.where((totals > -torch.inf)[..., None, None], bits, old), totals

    def _chosen(self, mover: Mover) -> Tensor:
        """Choose a track of each trace, the same in all worlds."""
        known, generator = self.sampler.known, self.sampler.generator
        number = mover.tracks // known.batch
        draw = torch.rand(known.batch, generator=generator, device=mover.device)
        return torch.arange(known.batch, device=mover.device) * number + (draw * number).long()

    def _change(self, mover: Mover, tracks: Tensor) -> Tensor:
        """Change a free bit of some tracks, one of each trace, for some time.

        Returns:
            The logarithm of the odds to propose the change back, with axes (world, trace).
        """
        sampler, device = self.sampler, mover.device
        bits = mover.read(sampler.tables, tracks)
        free = torch.tensor(_changing(mover), device=device)
        draw = torch.rand(bits.shape[:2], generator=sampler.generator, device=device)
        which = free[(draw * len(free)).long()].unsqueeze(-1)
        before = bits.gather(-1, which.unsqueeze(-1).expand(*bits.shape[:3], 1)).squeeze(-1)
        window = random_window(before, sampler.known.lengths, sampler.generator)
        lengths = sampler.known.lengths
        back, forth = (chance(one, window, lengths) for one in (before ^ window, before))
        here = which == torch.arange(bits.shape[-1], device=device)
        mover.write(sampler.tables, tracks, bits ^ (window.unsqueeze(-1) & here.unsqueeze(2)))
        return back.log() - forth.log()

    # --- pairs of kinds ---

    def _found(self) -> Iterator[_TiedKinds]:
        structure, movers = self.sampler.structure, self.sampler.movers
        tied = [self._free(one.body) for one in structure.clauses if one.axiom in structure.tied]
        for one in movers:
            for others in movers:
                mine, theirs = _moved(one), _moved(others)
                meet = any(names & mine and names & theirs for names in tied)
                fewer = one.tracks < others.tracks and not mine & theirs
                if meet and fewer and self._can_change(one) and _at_once(others):
                    yield from self._pair(one, others)

    def _pair(self, one: Mover, others: Mover) -> Iterator[_TiedKinds]:
        """Yield a pair, unless more than hard axioms depends on both kinds."""
        structure, (mine, theirs) = self.sampler.structure, (_moved(one), _moved(others))
        names = [*structure.free, *structure.definitions]
        soft = [clause for clause in structure.clauses if clause.weight is not None]
        depends = [
            *(self._free_of(name) for name in names), *(self._free(one.body) for one in soft)
        ]  # fmt: skip
        if any(free & mine and free & theirs for free in depends):
            return
        changed = [number for number, free in enumerate(depends) if free & mine]
        movers = self.sampler.movers
        priors = [
            len(depends) + number
            for number, mover in enumerate(movers)
            if mover is one or (mover is not others and self._reads_above(mover) & mine)
        ]
        hard = (clause for clause in structure.clauses if clause.weight is None)
        clauses = tuple(x for x in hard if self._free(x.body) & (mine | theirs))
        defined = tuple(n for n in structure.definitions if self._free_of(n) & (mine | theirs))
        touched = self._touched(one, others)
        yield _TiedKinds(one, others, touched, (*changed, *priors), clauses, defined)

    def _touched(self, one: Mover, others: Mover) -> Tensor:
        """The tracks of a kind that change with those of another; see `_TiedKinds`."""
        tracks, kind = others.colours[0].tracks, others.kind
        read = [n for n, f in enumerate(kind.conditions) if self._free(f) & _moved(one)]
        shape = (one.tracks, len(tracks))
        formulas = [kind.conditions[number] for number in read]
        moving, defined = one.kind.moving, {*self.sampler.structure.definitions}
        atoms = [atom for formula in formulas for atom in atoms_of(formula, moving.names)]
        plain = all(moving.bit(atom) is not None for atom in atoms)
        if not plain or not {*read} <= {*kind.above} or predicates_in(*formulas) & defined:
            same = one.rows.trace.unsqueeze(-1) == others.rows.trace[tracks]
            return same.expand(shape)
        rows = all_rows(self.sampler.known, kind.axes)
        result = torch.zeros(one.tracks, others.tracks, dtype=torch.bool, device=one.device)
        for formula in formulas:
            row, track = one.contacts.of_rows(formula, rows)
            result[track, row] = True
        return result[:, tracks]

    def _can_change(self, mover: Mover) -> bool:
        """Whether tracks have facts that can change, and a prior of their own."""
        sampler = self.sampler
        sorts = {sort for bit in mover.kind.moving.bits for sort in bit.sorts}
        taught = sampler.teaches[sampler.movers.index(mover)]
        return (
            bool(_changing(mover))
            and not sorts & {*sampler.known.present}
            and taught == frozenset(mover.prior.names)
        )

    def _reads_above(self, mover: Mover) -> set[str]:
        """The free predicates of tracks above on which the prior of a kind depends."""
        formulas = [mover.kind.conditions[number] for number in mover.kind.above]
        return self._free(*formulas)

    def _free(self, *formulas: c.Formula) -> set[str]:
        """The free predicates that formulas depend on."""
        return self._free_of(*predicates_in(*formulas))

    def _free_of(self, *names: str) -> set[str]:
        structure = self.sampler.structure
        return free_beneath(names, structure.free, structure.definitions)


def _moved(mover: Mover) -> set[str]:
    """The free predicates of a kind."""
    return {bit.predicate for bit in mover.kind.moving.bits[: mover.kind.free]}


def _changing(mover: Mover) -> list[int]:
    """The numbers of the free bits that change over time."""
    kind = mover.kind
    return [n for n, bit in enumerate(kind.moving.bits[: kind.free]) if not bit.static]


def _at_once(mover: Mover) -> bool:
    """Whether all tracks of a kind are drawn at once, and the total weight of draws is known."""
    return len(mover.colours) == 1 and not mover.colours[0].couplings


# --- windows -----------------------------------------------------------------------------------


def random_window(values: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
    """Draw some successive time points, with axes (world, trace, time).

    A third of windows is anywhere. A third is a run, in which the value does not change. A third
    begins after a change of the value, or ends before one; without a change, it is the only run.
    Short windows are more likely than long ones.

    Args:
        values: the values over time, with the same axes.
        lengths: the lengths of traces.
        generator: the source of random numbers.
    """
    shape, times = values.shape[:2], torch.arange(values.shape[-1], device=values.device)
    draw = torch.rand(4, *shape, dtype=torch.float64, generator=generator, device=values.device)
    number, runs = _runs(values, lengths)
    kind = (3 * draw[0]).long()
    chosen = 1 + (draw[1] * runs).long()
    run = number == chosen.unsqueeze(-1)
    sums = _sums(times)
    size = _size(draw[2], lengths.expand(shape), sums)
    start = (draw[3] * (lengths - size + 1)).long()
    # The second run begins at the first change.
    change = (number <= (1 + (draw[1] * (runs - 1)).long()).unsqueeze(-1)) & (number > 0)
    at, later = change.sum(-1), draw[3] < 0.5
    beside = _size(draw[2], torch.where(later, lengths - at, at).clamp_min(1), sums)
    size = torch.where(kind == 0, size, beside).unsqueeze(-1)
    begin = torch.where(kind == 0, start, at).unsqueeze(-1)
    begin = torch.where(((kind == 0) | later).unsqueeze(-1), begin, begin - size)
    window = (times >= begin) & (times < begin + size)
    return torch.where(((kind == 1) | ((kind == 2) & (runs == 1))).unsqueeze(-1), run, window)


def chance(values: Tensor, window: Tensor, lengths: Tensor) -> Tensor:
    """The probability that `random_window` draws a window, with axes (world, trace)."""
    number, runs = _runs(values, lengths)
    times, size = torch.arange(values.shape[-1], device=values.device), window.sum(-1)
    sums, begin = _sums(times), window.to(torch.int8).argmax(-1)
    end = begin + size

    def changes(at: Tensor) -> Tensor:
        """Whether the value changes at a time point."""
        before, after = (
            number.gather(-1, t.clamp(0, len(times) - 1).unsqueeze(-1)).squeeze(-1)
            for t in (at - 1, at)
        )
        return (at > 0) & (at < lengths) & (before != after)

    def of_size(most: Tensor) -> Tensor:
        """The probability of the size of the window, among sizes up to `most`."""
        return 1 / (size * sums[most - 1])

    first = number.masked_fill(~window, len(times) + 1).amin(-1)
    last = number.masked_fill(~window, 0).amax(-1)
    is_run = (first == last) & ((number == first.unsqueeze(-1)).sum(-1) == size)
    anywhere = of_size(lengths.expand(size.shape)) / (lengths - size + 1)
    beside = 0.5 * (changes(begin) * of_size(lengths - begin) + changes(end) * of_size(end))
    beside = torch.where(runs > 1, beside / (runs - 1), is_run.double())
    return (anywhere + is_run / runs + beside) / 3


def _runs(values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the run of each time point, from 1, or 0 beyond the end; and that of runs."""
    inside = within(lengths, torch.arange(values.shape[-1], device=values.device))
    begins = torch.ones_like(values)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    number = (begins & inside).cumsum(-1)
    return number * inside, number[..., -1]


def _sums(times: Tensor) -> Tensor:
    """The sums of 1, 1/2, 1/3 … up to each size."""
    return (times + 1).double().reciprocal().cumsum(0)


def _size(draw: Tensor, most: Tensor, sums: Tensor) -> Tensor:
    """Sizes up to `most`, where the probability of each is proportional to one over it."""
    size: Tensor = 1 + torch.searchsorted(sums, draw * sums[most - 1], right=True)
    return torch.minimum(size, most)
