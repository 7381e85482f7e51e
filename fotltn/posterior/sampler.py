"""The sampler: it moves worlds, kind by kind, sweep after sweep."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import predicates_in
from fotltn.posterior.clauses import Clause
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.joint import JointMoves
from fotltn.posterior.movers import Mover, Worlds
from fotltn.posterior.prior import PriorTables
from fotltn.posterior.rows import Bindings, RowTruth, all_rows
from fotltn.posterior.shared_worlds import WorldDraws, WorldShare
from fotltn.posterior.structure import Structure
from fotltn.posterior.swaps import DensityTerm, Swaps
from fotltn.semantics.tables import Tables

#: The number of sweeps that test which axioms follow from others.
_PROBES = 8

#: Learned rates of wrong labels move so many times as far as worlds say.
_FURTHER = 1.6

#: Chains are not compared after fewer sweeps than this.
LEAST_LOOK = 8


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is sampled.

    Args:
        worlds: the number of worlds, which are sampled independently of each other.
        burn_in: the sweeps that do not count; in these, ties between tracks gain strength.
        sweeps: the sweeps that count; with `enough`, at most.
        enough: sampling ends early if chains agree and worlds are worth so many independent draws
            of a fact, in the median of each predicate; 0 to do all sweeps.
        stored: the number of sweeps whose worlds are stored.
        seed: the seed of all draws.
        learn: whether the prior of tracks is learned.
        weights: the soft axioms whose weights are learned: none ("given"), all ("learned"), or
            the named ones.
    """

    worlds: int = 32
    burn_in: int = 60
    sweeps: int = 80
    enough: int = 400
    stored: int = 10
    seed: int = 0
    learn: bool = True
    weights: Literal["given", "learned"] | tuple[str, ...] = "given"

    @property
    def looks(self) -> tuple[int, ...]:
        """After how many counted sweeps chains are compared; the last number is that of all."""
        early = (self.sweeps // 4, self.sweeps // 2) if self.enough else ()
        return (*(look for look in early if look >= LEAST_LOOK), self.sweeps)

    def stores(self, counted: int, look: int) -> bool:
        """Whether the worlds of a sweep are stored: at equal distances, up to a look."""
        number = min(self.stored, look)
        return counted * number // look > (counted - 1) * number // look

    @property
    def settled(self) -> int:
        """The sweep of the burn-in after which worlds should obey the hard axioms."""
        return int(0.8 * self.burn_in)

    @property
    def full(self) -> int:
        """The first sweep in which ties count in full."""
        return next(sweep for sweep in itertools.count() if self.heat(sweep) >= 1)

    def heat(self, sweep: int) -> float:
        """The strength of ties in a sweep, from 0.1 to 1."""
        return min(1.0, 0.1 + 0.9 * sweep / max(1.0, 0.6 * self.burn_in))

    def share(self, sweep: int) -> float:
        """How far learned numbers move in a sweep; after the burn-in, 0."""
        if sweep >= self.burn_in:
            return 0.0
        late = sweep - self.settled
        return 0.5 if late < 0 else 1.0 / (late + 2.0)

    def trust(self, sweep: int) -> float:
        """How far rates of wrong labels move in a sweep.

        While ties do not count in full, labels seem worse than they are, and rates do not move.
        After that, rates move further than worlds say, because one sweep shows only part of the
        error of a rate.
        """
        if self.heat(sweep) < 1:
            return 0.0
        return _FURTHER * min(1.0, 2 * self.share(sweep))


class Sampler:
    """Sampled worlds, and the moves that change them.

    Attributes:
        tables: the worlds: truth values of each predicate, with axes (world, trace, arguments …,
            time).
        firm: whether hard axioms that tie tracks outweigh all other evidence about a track.
        scales: the learned weights of soft axioms, as multiples of the written weights.
    """

    def __init__(
        self, structure: Structure, tables: Tables, evidence: LabelEvidence, sampling: Sampling,
        scales: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Make worlds that differ and do not obey axioms yet; blind worlds are given `scales`."""
        self.structure, self.known, self.evidence = structure, tables, evidence
        self.sampling = sampling
        device = tables.lengths.device
        signature = tables.signature
        self.tables: Worlds = {}
        for name in (*structure.free, *structure.definitions):
            decl = signature.predicates[name]
            shape = (tables.batch, *(tables.sizes[s] for s in decl.sorts))
            times = 1 if decl.static else tables.horizon
            self.tables[name] = torch.zeros(
                sampling.worlds, *shape, times, dtype=torch.bool, device=device
            )
        self.generator = torch.Generator(device).manual_seed(sampling.seed)
        self._scatter()
        helping = [name for kind in structure.kinds for name in kind.helping]
        self.row_truth = RowTruth(tables, [*self.tables, *helping])
        self.prior = PriorTables()
        self.scales = self._scales() if scales is None else scales
        self.movers = [
            Mover(
                kind, self.row_truth, evidence, sampling.worlds, structure.shared, self.prior,
                self.scales,
            )
            for kind in structure.kinds
        ]  # fmt: skip
        for mover in self.movers:
            mover.movers = self.movers
        self.rows = {
            name: all_rows(tables, definition.axes)
            for name, definition in structure.definitions.items()
        }
        self.formulas = {n: nnf(d.formula) for n, d in structure.definitions.items()}
        self._defined = self.firm = False
        self.share: WorldShare | None = None  # if several processes move these worlds
        self._obeying: Tensor | None = None  # after the last sweep, if it checked
        self._open: dict[Clause, Bindings] = {}
        self.teaches: list[frozenset[tuple[str, ...]]] = []
        taken: set[tuple[str, ...]] = set()
        for mover in self.movers:  # the first mover learns the prior that several share
            names = frozenset(mover.prior.names) - taken
            self.teaches.append(names)
            taken |= names
        self.joint = JointMoves(self)
        self.swaps = Swaps(self, self.joint.anew)

    def _scatter(self) -> None:
        """Begin each world elsewhere, so that a comparison of chains reveals bad mixing.

        Of each four worlds, the first has no true facts, the second has only true facts, the third
        has all or none of each predicate, and the fourth has each fact always or never. Absent
        entities have no true facts.
        """
        device = self.generator.device
        kind = torch.arange(self.sampling.worlds, device=device) % 4
        for name in self.structure.free:
            table = self.tables[name]
            ones = [1] * (table.dim() - 1)
            coins = [
                torch.rand(shape, generator=self.generator, device=device) < 0.5
                for shape in ((len(table), *ones), (*table.shape[:-1], 1))
            ]
            start = kind.reshape(-1, *ones)
            true = (start == 1) | ((start == 2) & coins[0]) | ((start == 3) & coins[1])
            inside = self.known.inside.reshape(self.known.batch, *ones[2:], -1)
            there = self.there(name) & (inside if table.shape[-1] > 1 else inside[..., :1])
            table.copy_(true.expand_as(table) & there)

    def _scales(self) -> dict[str, float]:
        soft = [one.axiom for one in self.structure.clauses if one.weight is not None]
        chosen = self.sampling.weights
        names = () if chosen == "given" else soft if chosen == "learned" else chosen
        return {name: 1.0 for name in soft if name in names}

    @property
    def weights(self) -> dict[str, float]:
        """The present weights of soft axioms."""
        return {
            one.axiom: one.weight * self.scales.get(one.axiom, 1.0)
            for one in self.structure.clauses
            if one.weight is not None
        }

    @property
    def learned_weights(self) -> dict[str, float]:
        """The present weights of soft axioms whose weight is learned."""
        weights = self.weights
        return {name: weights[name] for name in self.scales}

    def there(self, name: str) -> Tensor:
        """Where all arguments of a predicate are present, with axes (trace, arguments …, time)."""
        decl, known = self.known.signature.predicates[name], self.known
        there = torch.ones((), dtype=torch.bool, device=self.generator.device)
        for place, sort in enumerate(decl.sorts):
            if (mask := known.present.get(sort)) is not None:
                mask = mask.to(torch.bool)
                mask = mask.any(-1, keepdim=True) if decl.static else mask
                shape = [1] * (len(decl.sorts) + 2)
                shape[0], shape[place + 1], shape[-1] = mask.shape
                there = there & mask.reshape(shape)
        return there

    def rejoin(self) -> list[int]:
        """Replace worlds that break hard axioms by copies of worlds that obey, if there are any.

        Returns:
            The number of replaced worlds in each part.
        """
        copied, parts = [0] * self.evidence.parts, self.evidence.parts
        wrong = (self.broken_by_trace() > 0).unflatten(1, (parts, -1)).any(-1)
        for part in wrong.any(0).nonzero().squeeze(-1).tolist():
            good, bad = (is_so.nonzero().squeeze(-1) for is_so in (~wrong[:, part], wrong[:, part]))
            if not len(good):
                continue
            draw = torch.rand(len(bad), generator=self.generator, device=self.generator.device)
            source = good[(draw * len(good)).long()]
            for table in self.tables.values():
                apart = table.unflatten(1, (parts, -1))
                apart[bad, part] = apart[source, part]
            copied[part] = len(bad)
            self.moved()
        return copied

    def define(self) -> None:
        """Compute defined predicates from free ones, unless they are up to date."""
        if self._defined:
            return
        self._defined = True
        for name, formula in self.formulas.items():
            self._define(name, formula)

    def _define(self, name: str, formula: c.Formula) -> None:
        rows, table = self.rows[name], self.tables[name]
        truth = self.row_truth.truth(formula, rows, self.tables)
        full = truth.expand(table.shape[0], len(rows), self.known.horizon)
        table.copy_(full[..., : table.shape[-1]].reshape(table.shape))

    def define_anew(self, names: Collection[str]) -> None:
        """Compute some defined predicates from free ones, which have changed."""
        for name, formula in self.formulas.items():
            if name in names:
                self._define(name, formula)

    def moved(self) -> None:
        """Note that worlds were replaced, so that watched axioms are checked again."""
        self._obeying = None

    def sweep(self, number: int) -> None:
        """Move every kind of track once, and learn.

        Worlds almost never break a watched axiom. Once worlds should obey, a trace that begins to
        break one goes back to its state before the sweep.
        """
        watched = [one for one in self.structure.clauses if one.axiom in self.structure.watched]
        if not watched or number < self.sampling.settled:
            self._sweep(number)
            return
        if self._obeying is None:
            self._obeying = self._obeyed(watched)
        before, obeyed = self.snapshot(), self._obeying
        self._sweep(number)
        now = self._obeyed(watched)
        worse = obeyed & ~now
        if bool(worse.any()):
            for name, table in before.items():
                self.tables[name][worse] = table[worse]
        self._obeying = obeyed | now

    def _obeyed(self, clauses: Sequence[Clause]) -> Tensor:
        """Whether traces obey some clauses, with axes (world, trace)."""
        return self.false_by_trace(clauses, any_point=True) == 0

    def false_by_trace(self, clauses: Sequence[Clause], *, any_point: bool = False) -> Tensor:
        """Count the cells in which clauses are false, with axes (world, trace).

        With `any_point`, count the bindings that have such a cell, which is faster.
        """
        worlds, traces = self.sampling.worlds, self.known.batch
        total = torch.zeros(worlds, traces, dtype=torch.int64, device=self.row_truth.times.device)
        for clause in clauses:
            rows, false = self._false(clause)
            total.index_add_(1, rows.trace, (false.any(-1) if any_point else false.sum(-1)).long())
        return total

    def _sweep(self, number: int) -> None:
        heat, share = self.sampling.heat(number), self.sampling.share(number)
        for mover, names in zip(self.movers, self.teaches, strict=True):
            self.define()
            # Other movers may have changed the prior that this one shares.
            mover.stale |= bool(share) or mover.firm != self.firm
            mover.firm, mover.lazy = self.firm, self.firm and bool(share)
            self._move(mover, heat)
            self._defined = False
            if names and share and self.sampling.learn:
                mover.learn(self.tables, share, names)
        self.define()
        self.joint.move(heat)
        self.swaps.move()
        if trust := self.sampling.trust(number):
            self.evidence.learn(self.tables, trust)
        if share:
            for mover in self.movers:
                mover.stale = True

    def _move(self, mover: Mover, heat: float) -> None:
        """Move all worlds; if processes share worlds, move some and receive the others."""
        if self.share is None:
            mover.move(self.tables, self.generator, heat)
            return
        worlds = self.sampling.worlds
        mine = self.share.moved(worlds)
        some = {n: t[mine.start : mine.stop] for n, t in self.tables.items() if len(t) == worlds}
        mover.worlds = len(mine)
        try:
            mover.move(some, WorldDraws(self.generator, worlds, mine), heat)
        finally:
            mover.worlds = worlds
        moved = {bit.predicate: some[bit.predicate] for bit in mover.kind.moving.bits}
        for name, table in self.share.all_worlds(moved, worlds).items():
            if name in self.tables:
                self.tables[name].copy_(table)
            else:
                self.tables[name] = table

    def snapshot(self) -> dict[str, Tensor]:
        """Copy the worlds of all learned predicates."""
        names = (*self.structure.free, *self.structure.definitions)
        return {name: self.tables[name].clone() for name in names}

    def broken(self) -> dict[str, Tensor]:
        """Count the cells of each world that break each hard axiom."""
        return self.false_cells([one for one in self.structure.clauses if one.weight is None])

    def broken_by_trace(self) -> Tensor:
        """Count the cells that break hard axioms, with axes (world, trace)."""
        return self.false_by_trace([one for one in self.structure.clauses if one.weight is None])

    def soft(self) -> dict[str, Tensor]:
        """Count the cells that break each soft axiom, with axes (world, part)."""
        return self._by_part([one for one in self.structure.clauses if one.weight is not None])

    def false_cells(self, clauses: Sequence[Clause]) -> dict[str, Tensor]:
        """Count the cells of each world that break some clauses, by axiom."""
        return {axiom: cells.sum(1) for axiom, cells in self._by_part(clauses).items()}

    def _by_part(self, clauses: Sequence[Clause]) -> dict[str, Tensor]:
        result: dict[str, Tensor] = {}
        for clause in clauses:
            count = self.false_by_trace([clause]) * clause.cells
            count = count.unflatten(1, (self.evidence.parts, -1)).sum(2)
            result[clause.axiom] = result[clause.axiom] + count if clause.axiom in result else count
        return result

    def _false(self, clause: Clause) -> tuple[Bindings, Tensor]:
        """The bindings of a clause, and whether it is false, with axes (world, binding, time)."""
        if clause not in self._open:
            self._open[clause] = self.row_truth.instances(clause.axes, clause.body)
        rows = self._open[clause]
        truth = self.row_truth.truth(clause.body, rows, self.tables)
        full = truth.expand(self.sampling.worlds, len(rows), self.known.horizon)
        return rows, ~full & self.known.inside[rows.trace]

    def density(self) -> Tensor:
        """The log-probability of each world, up to a constant, with axes (world, part)."""
        parts: Tensor = self.density_by_trace().unflatten(1, (self.evidence.parts, -1)).sum(2)
        return parts

    def density_by_trace(self) -> Tensor:
        """The log-probability of each world, up to a constant, with axes (world, trace)."""
        total = torch.zeros(
            self.sampling.worlds, self.known.batch, dtype=torch.float64,
            device=self.row_truth.times.device,
        )  # fmt: skip
        for term in self.density_terms():
            total += term.value()
        return total

    def density_terms(self) -> list[DensityTerm]:
        """The terms of the log-probability of worlds, valid until something is learned."""
        structure = self.structure
        soft = [clause for clause in structure.clauses if clause.weight is not None]
        return [
            *(
                DensityTerm(frozenset([name]), partial(self._weighed, name, self._odds(name)))
                for name in (*structure.free, *structure.definitions)
            ),
            *(DensityTerm(frozenset(predicates_in(x.body)), partial(self._cost, x)) for x in soft),
            *(
                DensityTerm(mover.reads, partial(mover.density, self.tables, names))
                for mover, names in zip(self.movers, self.teaches, strict=True)
            ),
        ]

    def _odds(self, name: str) -> Tensor:
        """The log-odds of all cells of a predicate."""
        return self.evidence.odds(name, self.tables[name].shape[1:], self.row_truth.times.device)

    def _weighed(self, name: str, odds: Tensor) -> Tensor:
        return (self.tables[name] * odds).flatten(2).sum(2)

    def _cost(self, clause: Clause) -> Tensor:
        weight = self.weights[clause.axiom] * clause.cells
        return -(weight * self.false_by_trace([clause]))


def unbroken(structure: Structure, tables: Tables, evidence: LabelEvidence) -> list[str]:
    """The hard axioms between tracks that no world breaks if each track obeys its own axioms.

    These axioms follow from definitions, from other axioms or from labels. To find them, some
    worlds are drawn: first from the prior alone, then with labels.
    """
    names = {factor.axiom for kind in structure.kinds for factor in kind.factors if factor.hard}
    # An axiom that the automaton of some track obeys would only seem to follow.
    names -= {name for kind in structure.kinds for name, _ in kind.parts}
    if not names:
        return []
    kinds = tuple(replace(kind, factors=(), windows=()) for kind in structure.kinds)
    alone = replace(structure, kinds=kinds, tied=())
    nothing = LabelEvidence(evidence.labels.take({}), {})
    known = LabelEvidence(evidence.labels, dict(evidence.rates), logits=evidence.logits)
    suspects = [one for one in structure.clauses if one.axiom in names]
    for said in (nothing, known):
        if not suspects:
            break
        sampler = Sampler(alone, tables, said, Sampling(worlds=16, learn=False))
        for number in range(_PROBES):
            sampler.sweep(number)
            broken = {n for n, count in sampler.false_cells(suspects).items() if bool(count.any())}
            suspects = [one for one in suspects if one.axiom not in broken]
    return list(dict.fromkeys(one.axiom for one in suspects))


def obeyed_among_ties(structure: Structure, tables: Tables, evidence: LabelEvidence) -> list[str]:
    """The watched axioms that worlds still obey if ties between tracks count.

    An example of one that they do not: "someone leads" seems to follow if there are many entities,
    but not if another axiom says that at most one leads.
    """
    names = structure.watched
    factors = [factor for kind in structure.kinds for factor in kind.factors]
    if not any(factor.hard for factor in factors):
        return [*names]
    free = replace(structure, watched=(), tied=())
    known = LabelEvidence(evidence.labels, dict(evidence.rates), logits=evidence.logits)
    sampler = Sampler(free, tables, known, Sampling(worlds=16, burn_in=0, learn=False))
    suspects = [one for one in structure.clauses if one.axiom in names]
    for number in range(_PROBES):
        sampler.sweep(number)
        broken = {n for n, count in sampler.false_cells(suspects).items() if bool(count.any())}
        suspects = [one for one in suspects if one.axiom not in broken]
    return [name for name in names if any(one.axiom == name for one in suspects)]
