"""A semantics as functions on degrees or their logarithms, for the evaluators to call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from fotltn.semantics import aggregate, connectives, logspace
from fotltn.semantics.config import Aggregation, Fold, PMean, Semantics


@dataclass(frozen=True, slots=True)
class Operators:
    """The connectives and aggregations of a semantics, on degrees; a subclass uses logarithms."""

    semantics: Semantics

    def enter(self, degree: Tensor) -> Tensor:
        """Convert a degree to the representation of this class."""
        return degree

    def leave(self, value: Tensor) -> Tensor:
        """Convert a value back to a degree."""
        return value

    def negate(self, u: Tensor) -> Tensor:
        """Compute ¬u."""
        return connectives.negate(u, self.semantics.negation)

    def conjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """Compute u ∧ v."""
        return connectives.conjoin(u, v, self.semantics.conjunction, self.semantics.epsilon)

    def disjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """Compute u ∨ v."""
        return connectives.disjoin(u, v, self.semantics.disjunction, self.semantics.epsilon)

    def imply(self, u: Tensor, v: Tensor) -> Tensor:
        """Compute u → v."""
        return connectives.imply(u, v, self.semantics.implication, self.semantics.epsilon)

    def quantify(
        self, u: Tensor, universal: bool, dims: Sequence[int], mask: Tensor | None = None
    ) -> Tensor:
        """Compute ∀ or ∃ over dimensions, counting only the points that the mask keeps."""
        how = self.semantics.forall if universal else self.semantics.exists
        return self._aggregate(u, how, universal, dims, mask)

    def over_time(self, u: Tensor, universal: bool, mask: Tensor | None = None) -> Tensor:
        """Compute ⊗ or ⊕ over the last dimension."""
        how = self.semantics.always if universal else self.semantics.eventually
        return self._aggregate(u, how, universal, (-1,), mask)

    def _aggregate(
        self, u: Tensor, how: Aggregation, universal: bool, dims: Sequence[int], mask: Tensor | None
    ) -> Tensor:
        s = self.semantics
        match how:
            case Fold() if universal:
                return aggregate.fold_conjunction(u, s.conjunction, dims, mask)
            case Fold():
                return aggregate.fold_disjunction(u, s.disjunction, dims, mask)
            case PMean(p) if universal:
                u = connectives.away_from_one(u, s.epsilon if p < torch.inf else 0.0)
                return aggregate.p_mean_error(u, p, dims, mask)
            case PMean(p):
                u = connectives.away_from_zero(u, s.epsilon if p < torch.inf else 0.0)
                return aggregate.p_mean(u, p, dims, mask)
            case _:
                assert_never(how)


class _LogOperators(Operators):
    __slots__ = ()

    def enter(self, degree: Tensor) -> Tensor:
        return logspace.to_log(degree)

    def leave(self, value: Tensor) -> Tensor:
        return value.exp()

    def negate(self, u: Tensor) -> Tensor:
        return logspace.log_not(u)

    def conjoin(self, u: Tensor, v: Tensor) -> Tensor:
        return logspace.log_and(u, v)

    def disjoin(self, u: Tensor, v: Tensor) -> Tensor:
        return logspace.log_or(u, v)

    def imply(self, u: Tensor, v: Tensor) -> Tensor:
        return logspace.log_imply(u, v)

    def _aggregate(
        self, u: Tensor, how: Aggregation, universal: bool, dims: Sequence[int], mask: Tensor | None
    ) -> Tensor:
        match how:
            case Fold():
                fold = logspace.log_fold_conjunction if universal else logspace.log_fold_disjunction
                return fold(u, dims, mask)
            case PMean(p):
                mean = logspace.log_p_mean_error if universal else logspace.log_p_mean
                return mean(u, p, dims, mask)
            case _:
                assert_never(how)


def operators(semantics: Semantics) -> Operators:
    """Return the functions of a semantics that is not Boolean."""
    return _LogOperators(semantics) if semantics.log_space else Operators(semantics)
