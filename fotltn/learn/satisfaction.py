"""The values of a theory's axioms on tables, planned once for each part of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.engine import Compiled, Prepared, as_given, compile_formulas, compiled
from fotltn.errors import SemanticsError
from fotltn.learn.schedule import Schedule
from fotltn.logic.check import CheckedTheory
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Interpretation


@dataclass(slots=True, eq=False)
class Axioms:
    """A theory's axioms under a semantics, ready to be evaluated again and again.

    Args:
        theory: the axioms.
        semantics: what they mean.
        p: exponents by axiom that follow the epochs; others have that of the semantics.
        budget: the memory that intermediate results may take.
        fused: compile plans with PyTorch's compiler.
    """

    theory: CheckedTheory
    semantics: Semantics
    p: Mapping[str, Schedule] = field(default_factory=dict)
    budget: int = BUDGET
    fused: bool = False
    _ready: dict[tuple[int, float | None, tuple[str, ...]], Prepared | Compiled] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Refuse semantics that have no degrees."""
        if self.semantics.boolean:
            raise SemanticsError("two-valued truth has no slope to learn from")

    @property
    def names(self) -> tuple[str, ...]:
        """The axioms in order."""
        return tuple(a.name for a in self.theory.axioms)

    def weights(self, given: Mapping[str, Schedule], epoch: float) -> Tensor:
        """The weight of each axiom: as given for the epoch, or as the theory says."""
        return torch.tensor(
            [given[a.name].at(epoch) if a.name in given else a.weight for a in self.theory.axioms]
        )

    def values(self, model: Interpretation, *, epoch: float = 0.0, key: int = 0) -> Tensor:
        """The degrees with axes (axiom, trace); `key` names the part of the data."""
        groups: dict[float | None, list[str]] = {}
        for name in self.names:
            p = self.p[name].at(epoch) if name in self.p else None
            groups.setdefault(p, []).append(name)
        found: dict[str, Tensor] = {}
        for p, names in groups.items():
            found |= self._run(model, key, p, tuple(names))
        return torch.stack([found[name] for name in self.names])

    def _run(
        self, model: Interpretation, key: int, p: float | None, names: tuple[str, ...]
    ) -> dict[str, Tensor]:
        which = (key, p, names)
        if which not in self._ready:
            formulas = {a.name: a.formula for a in self.theory.axioms if a.name in names}
            semantics = self.semantics if p is None else self.semantics.with_p(p)
            program = compile_formulas(
                formulas, as_given(self.theory.signature, model), semantics, at=0
            )
            ready = program.prepare(model, dtype=_dtype(model), budget=self.budget)
            self._ready[which] = compiled(ready, model) if self.fused else ready
        values = self._ready[which](model)
        degrees = {n: v.tensor.reshape(-1).expand(model.batch) for n, v in values.items()}
        return {n: v.exp() for n, v in degrees.items()} if self.semantics.log_space else degrees


def _dtype(model: Interpretation) -> torch.dtype:
    for table in model.predicates.values():
        if isinstance(table, Tensor) and table.is_floating_point():
            return table.dtype
    return torch.get_default_dtype()
