"""One evaluation in progress, and the pointwise operations that every step may need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.plan.facts import LeafFacts, bind
from fotltn.semantics import connectives
from fotltn.semantics.config import Implication, Negation, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value


@dataclass(slots=True, eq=False)
class Run:
    """One evaluation: the data, and what has been computed so far."""

    tables: Tables
    semantics: Semantics
    dtype: torch.dtype
    bound: dict[e.TableLeaf, LeafFacts]
    done: dict[e.Expr, Value] = field(default_factory=dict)
    _inside: Tensor | None = None
    ragged: bool = False

    def inside(self, axes: int) -> Tensor | None:
        """Which points lie inside each trace, with room for entity axes; None if all do."""
        if not self.ragged:
            return None
        if self._inside is None:
            self._inside = self.tables.inside
        return self._inside.reshape(self.tables.batch, *[1] * axes, self.tables.horizon)

    def facts(self, leaf: e.TableLeaf) -> LeafFacts:
        """The facts of a leaf, made ready once, with the degrees of now."""
        table = self.tables.table(leaf.predicate)
        assert isinstance(table, SparseTable)
        if leaf not in self.bound:
            self.bound[leaf] = bind(leaf, table, self.tables)
        self.bound[leaf].table = table
        return self.bound[leaf]


def affine(u: Tensor, scale: float, offset: float) -> Tensor:
    """`scale · u + offset`."""
    if scale == -1:
        return offset - u
    return u * scale + offset if offset else u * scale


def combine(node: e.Product | e.Pointwise, parts: Sequence[Tensor]) -> Tensor:
    """The values of a product or another pointwise operation."""
    if isinstance(node, e.Product):
        found = parts[0]
        for part in parts[1:]:
            found = found * part
        return found
    match node.op:
        case e.Op.MINIMUM:
            return torch.minimum(*torch.broadcast_tensors(*parts))
        case e.Op.MAXIMUM:
            return torch.maximum(*torch.broadcast_tensors(*parts))
        case e.Op.POSITIVE:
            return (parts[0] + parts[1]).clamp(min=0)
        case e.Op.PLUS:
            return sum(parts[1:], parts[0])
        case e.Op.EXCESS:
            return parts[0] - parts[1]
        case e.Op.GODEL_NOT:
            return connectives.negate(parts[0], Negation.GODEL)
        case e.Op.GODEL_IMPLIES:
            return connectives.imply(parts[0], parts[1], Implication.GODEL)
        case e.Op.GOGUEN:
            return connectives.imply(parts[0], parts[1], Implication.GOGUEN)
