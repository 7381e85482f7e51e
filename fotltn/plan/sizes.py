"""The sizes that a plan is built for, without any data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fotltn.algebra.expr import Expr
from fotltn.errors import DataError
from fotltn.logic import core as c


@dataclass(frozen=True, slots=True)
class Sparse:
    """A predicate given as facts."""

    facts: int
    default: float = 0.0
    temporal: bool = True
    crisp: bool = False  # whether all degrees are 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of entities, tuples, time points and traces, and which predicates are facts."""

    sorts: Mapping[str, int]
    horizon: int
    traces: int = 1
    relations: Mapping[str, int] = field(default_factory=dict)
    sparse: Mapping[str, Sparse] = field(default_factory=dict)
    ragged: bool = False
    width: int = 4  # bytes per number
    cuts: Mapping[c.Axis, int] = field(default_factory=dict)  # axes with only a part visible

    def axis(self, axis: c.Axis) -> int:
        """Return the number of places on an axis."""
        if axis in self.cuts:
            return self.cuts[axis]
        known, name = (self.relations, axis.relation) if axis.relation else (self.sorts, axis.sort)
        if name not in known:
            kind = "tuples in the relation" if axis.relation else "entities of the sort"
            raise DataError(f"the number of {kind} '{name}' is not known")
        return known[str(name)]

    def temporal(self, predicate: str) -> bool:
        """Whether the facts of a predicate have a time."""
        return self.sparse[predicate].temporal

    def cut(self, axis: c.Axis, size: int) -> Sizes:
        """Return the sizes with one axis shortened, and with facts as dense tables of that part."""
        return replace(self, cuts={**self.cuts, axis: size}, sparse={})

    def cells(self, axes: Iterable[c.Axis], timed: bool) -> int:
        """Return the number of cells over axes, time and traces."""
        count = math.prod(self.axis(a) for a in axes)
        return count * (self.horizon if timed else 1) * self.traces

    def of(self, node: Expr) -> int:
        """Return the number of cells of an expression."""
        return self.cells(node.axes, node.timed)

    def bytes(self, node: Expr) -> int:
        """Return the memory of an expression's values, in bytes."""
        return self.of(node) * self.width
