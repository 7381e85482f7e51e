"""The sampler: worlds, moved kind by kind, sweep after sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.monitor.nnf import nnf
from fotltn.posterior.clauses import Clause
from fotltn.posterior.evidence import LabelEvidence, PriorTables
from fotltn.posterior.movers import Mover, Worlds
from fotltn.posterior.rows import RowTruth, all_rows
from fotltn.posterior.structure import Structure
from fotltn.semantics.tables import Tables


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is sampled.

    Args:
        worlds: how many worlds are sampled at once, independently of each other.
        burn_in: sweeps before the first that counts; ties between tracks count more and more.
        sweeps: those that count.
        stored: how many of these leave their worlds behind.
        seed: of all draws.
        learn: whether the prior of tracks is learned.
    """

    worlds: int = 32
    burn_in: int = 60
    sweeps: int = 80
    stored: int = 10
    seed: int = 0
    learn: bool = True

    def heat(self, sweep: int) -> float:
        """How much ties count in a sweep."""
        return min(1.0, 0.1 + 0.9 * sweep / max(1.0, 0.6 * self.burn_in))

    def share(self, sweep: int) -> float:
        """How far what is learned moves in a sweep; not at all after the burn-in."""
        if sweep >= self.burn_in:
            return 0.0
        late = sweep - 0.6 * self.burn_in
        return 0.5 if late < 0 else 1.0 / (late + 2.0)


class Sampler:
    """Worlds that are sampled.

    Attributes:
        tables: the worlds: for each predicate truth values with axes (world, trace, arguments …,
            time).
    """

    def __init__(
        self, structure: Structure, tables: Tables, evidence: LabelEvidence, sampling: Sampling
    ) -> None:
        """Worlds in which nothing is true yet."""
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
        helping = [name for kind in structure.kinds for name in kind.helping]
        self.circuit = RowTruth(tables, [*self.tables, *helping])
        self.prior = PriorTables()
        self.movers = [
            Mover(kind, self.circuit, evidence, sampling.worlds, structure.shared, self.prior)
            for kind in structure.kinds
        ]
        self.rows = {
            name: all_rows(tables, definition.axes)
            for name, definition in structure.definitions.items()
        }
        self.formulas = {n: nnf(d.formula) for n, d in structure.definitions.items()}
        self.generator = torch.Generator(device).manual_seed(sampling.seed)
        self._teachers()

    def _teachers(self) -> None:
        """Which movers learn what: each group is learned by one."""
        taken: set[tuple[str, ...]] = set()
        self.learns: list[bool] = []
        for mover in self.movers:
            names = {group.names for group in mover.prior.groups}
            self.learns.append(not names <= taken or not names)
            taken |= names

    def define(self) -> None:
        """Compute what is defined from what is free."""
        for name, formula in self.formulas.items():
            rows = self.rows[name]
            truth = self.circuit.truth(formula, rows, self.tables)
            table = self.tables[name]
            full = truth.expand(table.shape[0], len(rows), self.known.horizon)
            table.copy_(full[..., : table.shape[-1]].reshape(table.shape))

    def sweep(self, number: int) -> None:
        """Move every kind once, and learn."""
        heat, share = self.sampling.heat(number), self.sampling.share(number)
        for mover, learns in zip(self.movers, self.learns, strict=True):
            self.define()
            mover.move(self.tables, self.generator, heat)
            if learns and share and self.sampling.learn:
                mover.learn(self.tables, share)
        self.define()
        if share:
            self.evidence.learn(self.tables, share)

    def snapshot(self) -> dict[str, Tensor]:
        """The worlds of all learned predicates, as they are."""
        names = (*self.structure.free, *self.structure.definitions)
        return {name: self.tables[name].clone() for name in names}

    def broken(self) -> dict[str, Tensor]:
        """For each hard axiom in how many cells each world breaks it."""
        return self._false([one for one in self.structure.clauses if one.weight is None])

    def soft(self) -> dict[str, Tensor]:
        """The same for soft axioms."""
        return self._false([one for one in self.structure.clauses if one.weight is not None])

    def _false(self, clauses: Sequence[Clause]) -> dict[str, Tensor]:
        result: dict[str, Tensor] = {}
        for clause in clauses:
            rows = all_rows(self.known, clause.axes)
            truth = self.circuit.truth(clause.body, rows, self.tables)
            full = truth.expand(self.sampling.worlds, len(rows), self.known.horizon)
            inside = self.known.inside[rows.trace]
            count = (~full & inside).sum((1, 2))
            result[clause.axiom] = result[clause.axiom] + count if clause.axiom in result else count
        return result

    def density(self) -> Tensor:
        """The logarithm of how likely each world is, up to a constant."""
        device = self.circuit.times.device
        total = torch.zeros(self.sampling.worlds, dtype=torch.float64, device=device)
        for name in (*self.structure.free, *self.structure.definitions):
            table = self.tables[name]
            odds = self.evidence.odds(name, table.shape[1:], device)
            total += (table * odds).flatten(1).sum(1)
        weights = {one.axiom: one.weight for one in self.structure.clauses if one.weight}
        for name, count in self.soft().items():
            total -= weights[name] * count
        for mover, learns in zip(self.movers, self.learns, strict=True):
            if learns:
                total += mover.density(self.tables)
        return total
