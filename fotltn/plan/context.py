"""The state of one evaluation, and the pointwise operations that every step may need."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.powers import power, root
from fotltn.logic import core as c
from fotltn.plan.facts import LeafFacts, bind
from fotltn.semantics import connectives
from fotltn.semantics.config import Implication, Negation, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value


@dataclass(slots=True, eq=False)
class Run:
    """One evaluation: its data, and the results so far."""

    tables: Tables
    semantics: Semantics
    dtype: torch.dtype
    bound: dict[e.TableLeaf, LeafFacts]
    done: dict[e.Expr, Value] = field(default_factory=dict)
    _inside: Tensor | None = None
    ragged: bool = False

    def inside(self, axes: int) -> Tensor | None:
        """Return which points lie inside each trace, with `axes` entity axes; None if all do."""
        if not self.ragged:
            return None
        if self._inside is None:
            self._inside = self.tables.inside
        return self._inside.reshape(self.tables.batch, *[1] * axes, self.tables.horizon)

    def facts(self, leaf: e.TableLeaf) -> LeafFacts:
        """Return the facts of a leaf, prepared once, with their current degrees."""
        table = self.tables.table(leaf.predicate)
        assert isinstance(table, SparseTable)
        if leaf not in self.bound:
            # The prepared facts stay; the current degrees, and their graph, must not stay with
            # them.
            self.bound[leaf] = bind(leaf, table, replace(self.tables, predicates={}))
        self.bound[leaf].table = table
        return self.bound[leaf]


def count_points(
    node: e.Reduce, present: Collection[c.Axis], timed: bool, rank: int, run: Run
) -> Tensor | float:
    """Count the points of each mean over the axes that are present; the others cancel."""
    sizes = [run.tables.size(a) for a in node.over]
    if 0 in sizes:
        return math.inf
    size = float(math.prod(n for n, a in zip(sizes, node.over, strict=True) if a in present))
    if not (node.time and timed):
        return size
    if not run.ragged:
        return size * run.tables.horizon
    return (run.tables.lengths.to(run.dtype) * size).reshape(-1, *[1] * (rank - 1))


def pointwise(node: e.PointwiseExpr, parts: Sequence[Tensor]) -> Tensor:
    """Compute a pointwise operation."""
    match node:
        case e.Affine(_, -1, offset):
            return offset - parts[0]
        case e.Affine(_, scale, offset):
            return parts[0] * scale + offset if offset else parts[0] * scale
        case e.Power(_, p):
            return power(parts[0], p)
        case e.Root(_, p):
            return root(parts[0], p)
        case e.Product():
            return functools.reduce(operator.mul, parts)
        case e.Pointwise(op):
            return _combined(op, parts)
        case _:
            assert_never(node)


def _combined(op: e.Op, parts: Sequence[Tensor]) -> Tensor:
    match op:
        case e.Op.MINIMUM:
            return torch.minimum(*torch.broadcast_tensors(*parts))
        case e.Op.MAXIMUM:
            return torch.maximum(*torch.broadcast_tensors(*parts))
        case e.Op.POSITIVE:
            return (parts[0] + parts[1]).clamp(min=0)
        case e.Op.PLUS:
            return functools.reduce(operator.add, parts)
        case e.Op.EXCESS:
            return parts[0] - parts[1]
        case e.Op.GODEL_NOT:
            return connectives.negate(parts[0], Negation.GODEL)
        case e.Op.GODEL_IMPLIES:
            return connectives.imply(parts[0], parts[1], Implication.GODEL)
        case e.Op.GOGUEN:
            return connectives.imply(parts[0], parts[1], Implication.GOGUEN)
        case e.Op.RATIO:
            return parts[0] / parts[1].clamp(min=1)
        case _:
            assert_never(op)
