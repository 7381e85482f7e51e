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
from fotltn.posterior.clauses import Clause
from fotltn.posterior.movers import Mover
from fotltn.posterior.swaps import Competition, DensityTerm

#: Joint moves of a kind of track in a sweep: as many as tracks, within these limits.
_LEAST, _MOST = 4, 16


class TiedSampler(Competition, Protocol):
    """The part of a sampler that joint moves need."""

    movers: list[Mover]
    teaches: list[frozenset[tuple[str, ...]]]


class _TiedKinds(NamedTuple):
    """Two kinds of tracks.

    Args:
        one: the mover of the tracks that change one at a time.
        others: the mover of the tracks that are drawn anew, all at once.
        terms: the numbers of the terms of log-probability that the first kind changes, and the
            second does not.
        clauses: the hard clauses about either kind.
        defined: the predicates that either kind defines.
    """

    one: Mover
    others: Mover
    terms: tuple[int, ...]
    clauses: tuple[Clause, ...]
    defined: tuple[str, ...]


class JointMoves:
    """Joint moves of tracks of two kinds that hard axioms tie, although tracks move one by one."""

    def __init__(self, sampler: TiedSampler) -> None:
        """Find the pairs of kinds."""
        self.sampler = sampler
        self.pairs = [*self._found()] if sampler.structure.tied else []

    def move(self, heat: float) -> None:
        """Try some moves in every trace of every world.

        Args:
            heat: the strength of ties, from 0 to 1.
        """
        for pair in self.pairs:
            self._moves(pair, heat)

    def _moves(self, pair: _TiedKinds, heat: float) -> None:
        sampler, one, others = self.sampler, pair.one, pair.others
        every = torch.arange(one.tracks, device=one.device)
        terms = sampler.density_terms()
        worth = self._worth(terms, pair)
        broken = sampler.false_by_trace(pair.clauses)
        _, totals = self._drawn(others, heat)
        names = one.kind.moving.names | others.kind.moving.names | {*pair.defined}
        written = [name for name in sampler.tables if name in names]
        for _ in range(min(_MOST, max(_LEAST, one.tracks // sampler.known.batch))):
            before = {name: sampler.tables[name].clone() for name in written}
            bits = one.read(sampler.tables, every)
            one.write(sampler.tables, every, bits ^ self._flips(one, bits.shape))
            sampler.define_anew(pair.defined)
            drawn, totals_now = self._drawn(others, heat)
            others.write(sampler.tables, others.colours[0].tracks, drawn)
            sampler.define_anew(pair.defined)
            worth_now, broken_now = (
                self._worth(terms, pair), sampler.false_by_trace(pair.clauses)
            )  # fmt: skip
            gain = worth_now - worth + totals_now - totals
            draw = torch.rand(
                gain.shape, dtype=torch.float64, generator=sampler.generator, device=gain.device
            )
            # If neither is possible, the difference is not a number, and the move is refused.
            accepted = (draw.log() < gain) & (broken_now <= broken)
            for name, table in before.items():
                keep = accepted.reshape(*accepted.shape, *[1] * (table.dim() - 2))
                sampler.tables[name].copy_(torch.where(keep, sampler.tables[name], table))
            worth, broken, totals = (
                torch.where(accepted, new, old)
                for new, old in ((worth_now, worth), (broken_now, broken), (totals_now, totals))
            )

    def _worth(self, terms: Sequence[DensityTerm], pair: _TiedKinds) -> Tensor:
        """The terms that the first kind changes, with axes (world, trace)."""
        return torch.stack([terms[number].value() for number in pair.terms]).sum(0)

    def _drawn(self, mover: Mover, heat: float) -> tuple[Tensor, Tensor]:
        """New tracks, and the total weight of all draws, with axes (world, trace)."""
        sampler, (colour,) = self.sampler, mover.colours
        conditions = mover.prepared(sampler.tables)
        bits, totals = mover.draw_anew(
            colour, sampler.tables, conditions, {}, sampler.generator, heat
        )
        old = mover.read(sampler.tables, colour.tracks)
        bits = torch.where((totals > -torch.inf)[..., None, None], bits, old)
        by_trace = totals.new_zeros(len(totals), sampler.known.batch)
        return bits, by_trace.index_add_(1, mover.rows.trace[colour.tracks], totals)

    def _flips(self, mover: Mover, shape: torch.Size) -> Tensor:
        """Draw what changes: one free bit of one track in each trace, for some time."""
        generator, device = self.sampler.generator, mover.device
        known, (worlds, tracks, times, bits) = self.sampler.known, shape
        draw = torch.rand(4, worlds, known.batch, generator=generator, device=device)
        free = torch.tensor(_changing(mover), device=device)
        bit = free[(draw[0] * len(free)).long()]
        track = (draw[1] * (tracks // known.batch)).long()
        size = known.lengths.to(draw.dtype) ** draw[2]  # short times as often as long ones
        start = (draw[3] * (known.lengths + size)).unsqueeze(-1) - size.unsqueeze(-1)
        when = (known.times >= start) & (known.times < start + size.unsqueeze(-1))
        trace = mover.rows.trace
        place = torch.arange(tracks, device=device) % (tracks // known.batch)
        chosen = (track[:, trace] == place).unsqueeze(-1) & when[:, trace]
        which = bit[:, trace].unsqueeze(-1) == torch.arange(bits, device=device)
        flips: Tensor = chosen.unsqueeze(-1) & which.unsqueeze(2)
        assert flips.shape == (worlds, tracks, times, bits)
        return flips

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
        prior = len(depends) + self.sampler.movers.index(one)
        hard = (clause for clause in structure.clauses if clause.weight is None)
        clauses = tuple(x for x in hard if self._free(x.body) & (mine | theirs))
        defined = tuple(n for n in structure.definitions if self._free_of(n) & (mine | theirs))
        yield _TiedKinds(one, others, (*changed, prior), clauses, defined)

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

    def _free(self, formula: c.Formula) -> set[str]:
        """The free predicates that a formula depends on."""
        return {free for name in predicates_in(formula) for free in self._free_of(name)}

    def _free_of(self, name: str) -> set[str]:
        structure = self.sampler.structure
        if name in structure.definitions:
            return self._free(structure.definitions[name].formula)
        return {name} & {*structure.free}


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
