"""Formulas planned for data that change in their dense tables only, to be run again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.engine import (
    Compiled,
    InBlocks,
    Prepared,
    compiled,
)
from fotltn.errors import SemanticsError
from fotltn.evaluation import compile_for
from fotltn.logic import core as c
from fotltn.plan.build import BUDGET
from fotltn.semantics import reference
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.sparse import SparseTable


@dataclass(slots=True, eq=False)
class Plans:
    """Named formulas under one semantics, compiled once, and planned once for each part of data.

    Args:
        formulas: by name.
        semantics: what they mean. In log space, values are logarithms, and the equations are
            followed step by step.
        at: a time point, or all.
        budget: the memory that intermediate results may take.
        fused: compile plans with PyTorch's compiler.

    Raises:
        SemanticsError: the semantics has no degrees.
    """

    formulas: Mapping[str, c.Formula]
    semantics: Semantics
    at: int | None
    budget: int = BUDGET
    fused: bool = False
    _ready: dict[int, _Ready] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse semantics that have no degrees."""
        if self.semantics.boolean:
            raise SemanticsError("two-valued truth has no slope to learn from")
        if self.semantics.log_space and self.fused:
            raise SemanticsError("formulas are not compiled in log space")

    def __call__(self, tables: Tables, key: int | None = 0) -> dict[str, Value]:
        """The value of each formula.

        Args:
            tables: the tables.
            key: a number for the part of data that they are about, under which its plan is kept;
                None keeps nothing.
        """
        dtype = tables.dtype
        if self.semantics.log_space:
            return {name: self._by_equations(name, tables, dtype) for name in self.formulas}
        ready = None if key is None else self._ready.get(key)
        if ready is None or not ready.fits(tables, dtype):
            ready = _Ready(self._prepare(tables, dtype), _fixed(tables, dtype))
            if key is not None:
                self._ready[key] = ready
        return ready.run(tables)

    def _prepare(self, tables: Tables, dtype: torch.dtype) -> Prepared | InBlocks | Compiled:
        program = compile_for(self.formulas, tables, self.semantics, self.at)
        if self.fused:
            return compiled(program.prepare(tables, dtype=dtype, budget=self.budget), tables)
        return program.ready(tables, dtype=dtype, budget=self.budget)

    def _by_equations(self, name: str, tables: Tables, dtype: torch.dtype) -> Value:
        value = reference.evaluate(self.formulas[name], tables, self.semantics, dtype=dtype)
        if self.at is None:
            return value
        return Value(value.axes, value.tensor[..., self.at : self.at + 1])


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A plan, and what must be as it was when the plan was made."""

    run: Prepared | InBlocks | Compiled
    fixed: _Fixed

    def fits(self, tables: Tables, dtype: torch.dtype) -> bool:
        """Whether only the degrees of dense tables differ."""
        ours, theirs = self.fixed, _fixed(tables, dtype)
        return ours.plain == theirs.plain and all(
            a is b for a, b in zip(ours.objects, theirs.objects, strict=True)
        )


class _Fixed(NamedTuple):
    plain: tuple[object, ...]  # compared by value
    objects: tuple[object, ...]  # compared by identity


def _fixed(tables: Tables, dtype: torch.dtype) -> _Fixed:
    dense = {n: t.shape for n, t in tables.predicates.items() if isinstance(t, Tensor)}
    facts = {n: t for n, t in tables.predicates.items() if isinstance(t, SparseTable)}
    functions = {n: t.shape for n, t in tables.functions.items()}
    return _Fixed(
        (dtype, tables.horizon, dict(tables.sizes), dense, functions, [*facts, *tables.relations]),
        (tables.lengths, *facts.values(), *tables.relations.values()),
    )
