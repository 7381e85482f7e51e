"""The values of a theory's axioms on tables, planned once for each part of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor

from fotltn.bindings import BlockedFormulas
from fotltn.engine import compile_for, sizes_of
from fotltn.errors import DataError, LimitError, SemanticsError, name_hint
from fotltn.evaluation import Evaluator, over_traces
from fotltn.learn.objective import Objective, axiom_loss, fixed_row
from fotltn.learn.schedule import Schedule
from fotltn.logic.check import CheckedTheory
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import Semantics
from fotltn.semantics.tables import Tables


@dataclass(slots=True, eq=False)
class Axioms:
    """A theory's axioms under a semantics, ready to be evaluated again and again.

    Args:
        theory: the axioms.
        semantics: their semantics.
        p: exponents by axiom that follow the epochs; others have that of the semantics. While one
            changes, its axioms are planned again in every epoch.
        budget: the memory that intermediate results may take.
        fused: compile plans with PyTorch's compiler.

    Raises:
        SemanticsError: the semantics has no degrees, or no p where one is given.
        DataError: a p is given for an unknown axiom.
    """

    theory: CheckedTheory
    semantics: Semantics
    p: Mapping[str, Schedule] = field(default_factory=dict)
    budget: int = BUDGET
    fused: bool = False
    _evaluators: dict[tuple[str, ...], tuple[float | None, Evaluator]] = field(default_factory=dict)
    _blocked: tuple[Tables | None, dict[tuple[object, ...], BlockedFormulas]] = (None, {})

    def __post_init__(self) -> None:
        """Refuse wrong settings before the first evaluation."""
        if self.semantics.boolean:
            raise SemanticsError("two-valued truth has no slope to learn from")
        for name in self.p:
            if name not in self.names:
                hint = name_hint(name, self.names)
                raise DataError(f"a p is given for the unknown axiom '{name}'; {hint}")
        for schedule in self.p.values():
            self.semantics.with_p(schedule.at(0))
        self._made((), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The axioms in order."""
        return tuple(a.name for a in self.theory.axioms)

    @property
    def settled(self) -> float:
        """The epoch from which exponents stay the same."""
        return max((schedule.end for schedule in self.p.values()), default=-math.inf)

    def weights(self, others: Mapping[str, Schedule], epoch: float) -> tuple[float, ...]:
        """The weight of each axiom: as given for the epoch, or as the theory says."""
        axioms = self.theory.axioms
        return tuple(others[a.name].at(epoch) if a.name in others else a.weight for a in axioms)

    def values(
        self,
        tables: Tables,
        *,
        epoch: float = 0.0,
        key: int | None = 0,
        log: bool = False,
    ) -> Tensor:
        """The degrees with axes (axiom, trace).

        Args:
            tables: the tables.
            epoch: the epoch of the schedules.
            key: a number for the part of the data, under which plans are kept; None keeps none.
            log: give logarithms; under a semantics in log space these do not underflow.
        """
        groups = self._groups(epoch) or {None: []}
        parts = [
            self._made(tuple(names), p).by_trace(tables, key, log=log)
            for p, names in groups.items()
        ]
        if len(parts) == 1:
            return parts[0]
        rows = dict(zip(chain(*groups.values()), chain(*parts), strict=True))
        return torch.stack([rows[name] for name in self.names])

    def largest(self, tables: Tables) -> int:
        """Return the most numbers that a step of their plan reads and writes."""
        formulas = {axiom.name: axiom.formula for axiom in self.theory.axioms}
        program = compile_for(formulas, tables, self.semantics, 0)
        try:
            return program.plan(sizes_of(tables, tables.dtype), budget=self.budget).largest
        except LimitError:  # which a step reports, with its reason
            return 0

    def blocked(self, blocks: int, fixed: Tables, epoch: float) -> list[BlockedFormulas]:
        """Return the axioms in blocks of bindings; axioms with one exponent go together.

        Args:
            blocks: the number of blocks.
            fixed: the tables that stay the same.
            epoch: the epoch of the schedules.
        """
        groups = self._groups(epoch)
        before = self._blocked[1] if self._blocked[0] is fixed else {}
        made: dict[tuple[object, ...], BlockedFormulas] = {
            (blocks, p, *names): before.get((blocks, p, *names))
            or BlockedFormulas(
                {a.name: a.formula for a in self.theory.axioms if a.name in names},
                self.semantics if p is None else self.semantics.with_p(p),
                blocks, fixed, self.budget, "inductor" if self.fused else None,
            )
            for p, names in groups.items()
        }  # fmt: skip
        self._blocked = (fixed, made)
        return [*made.values()]

    def _groups(self, epoch: float) -> dict[float | None, list[str]]:
        """The axioms by exponent."""
        groups: dict[float | None, list[str]] = {}
        for name in self.names:
            p = self.p[name].at(epoch) if name in self.p else None
            groups.setdefault(p, []).append(name)
        return groups

    def loss(
        self, objective: Objective, tables: Tables, *, epoch: float = 0.0, key: int | None = 0
    ) -> tuple[Tensor, Tensor]:
        """How far the axioms are from being satisfied, and their degrees as `values` has them."""
        logs = self.by_logs(objective)
        values = self.values(tables, epoch=epoch, key=key, log=logs)
        return self.together(objective, values, epoch), values.exp() if logs else values

    def by_logs(self, objective: Objective) -> bool:
        """Whether the loss is one of logarithms, which this semantics has."""
        return objective.axioms == "log" and self.semantics.log_space

    def together(self, objective: Objective, values: Tensor, epoch: float) -> Tensor:
        """The loss of values with axes (axiom, trace), which are logarithms where `by_logs`."""
        weights = fixed_row(
            self.weights(objective.axiom_weights, epoch), values.dtype, values.device
        )
        return axiom_loss(objective, values, weights, epoch, logs=self.by_logs(objective))

    def over_steps(self, seen: Sequence[Tensor], *, apart: bool) -> dict[str, float]:
        """The values of axioms in steps, over all traces; `apart` if each step has its own."""
        if not seen:
            return {}
        if apart:
            by_trace = torch.cat([*seen], dim=1)
        else:
            by_trace = torch.stack([*seen]).mean(0) if len(seen) > 1 else seen[0]
        together = by_trace[:, 0]
        if by_trace.shape[1] > 1:
            together = over_traces(by_trace, self.semantics)
        return dict(zip(self.names, together.tolist(), strict=True))

    def _made(self, names: tuple[str, ...], p: float | None) -> Evaluator:
        """Some axioms under one p; those under another p are forgotten."""
        if names not in self._evaluators or self._evaluators[names][0] != p:
            formulas = {a.name: a.formula for a in self.theory.axioms if a.name in names}
            semantics = self.semantics if p is None else self.semantics.with_p(p)
            backend = "inductor" if self.fused else None
            made = Evaluator(formulas, semantics, 0, self.budget, backend)
            self._evaluators[names] = (p, made)
        return self._evaluators[names][1]
