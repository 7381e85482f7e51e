"""A semantics as functions: what the evaluators call, on degrees or on their logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fotltn.semantics import aggregate, connectives, logspace
from fotltn.semantics.config import Aggregation, Fold, PMean, Semantics


class Operators(Protocol):
    """The connectives and aggregations of a semantics, on values of its own kind."""

    def enter(self, degree: Tensor) -> Tensor:
        """A value from a degree."""

    def leave(self, value: Tensor) -> Tensor:
        """The degree of a value."""

    def negate(self, u: Tensor) -> Tensor:
        """¬u."""

    def conjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∧ v."""

    def disjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∨ v."""

    def imply(self, u: Tensor, v: Tensor) -> Tensor:
        """U → v."""

    def quantify(
        self, u: Tensor, universal: bool, dims: Sequence[int], mask: Tensor | None = None
    ) -> Tensor:
        """∀ or ∃ over dimensions, counting only what the mask keeps."""

    def over_time(self, u: Tensor, universal: bool, mask: Tensor | None = None) -> Tensor:
        """⊗ or ⊕ over the last dimension."""


def operators(semantics: Semantics) -> Operators:
    """The functions of a (not Boolean) semantics."""
    return Logarithmic(semantics) if semantics.log_space else Linear(semantics)


@dataclass(frozen=True, slots=True)
class Linear:
    """Operators on degrees."""

    semantics: Semantics

    def enter(self, degree: Tensor) -> Tensor:
        """A degree is its own value."""
        return degree

    def leave(self, value: Tensor) -> Tensor:
        """A value is its own degree."""
        return value

    def negate(self, u: Tensor) -> Tensor:
        """¬u."""
        return connectives.negate(u, self.semantics.negation)

    def conjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∧ v."""
        return connectives.conjoin(u, v, self.semantics.conjunction, self.semantics.epsilon)

    def disjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∨ v."""
        return connectives.disjoin(u, v, self.semantics.disjunction, self.semantics.epsilon)

    def imply(self, u: Tensor, v: Tensor) -> Tensor:
        """U → v."""
        return connectives.imply(u, v, self.semantics.implication, self.semantics.epsilon)

    def quantify(
        self, u: Tensor, universal: bool, dims: Sequence[int], mask: Tensor | None = None
    ) -> Tensor:
        """∀ or ∃ over dimensions."""
        how = self.semantics.forall if universal else self.semantics.exists
        return self._aggregate(u, how, universal, dims, mask)

    def over_time(self, u: Tensor, universal: bool, mask: Tensor | None = None) -> Tensor:
        """⊗ or ⊕ over the last dimension."""
        how = self.semantics.always if universal else self.semantics.eventually
        return self._aggregate(u, how, universal, (-1,), mask)

    def _aggregate(
        self, u: Tensor, how: Aggregation, universal: bool, dims: Sequence[int], mask: Tensor | None
    ) -> Tensor:
        s = self.semantics
        match how, universal:
            case Fold(), True:
                return aggregate.fold_conjunction(u, s.conjunction, dims, mask)
            case Fold(), False:
                return aggregate.fold_disjunction(u, s.disjunction, dims, mask)
            case PMean(p), True:
                u = connectives.away_from_one(u, s.epsilon if p < torch.inf else 0.0)
                return aggregate.p_mean_error(u, p, dims, mask)
            case PMean(p), False:
                u = connectives.away_from_zero(u, s.epsilon if p < torch.inf else 0.0)
                return aggregate.p_mean(u, p, dims, mask)
        raise AssertionError(how)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Operators on logarithms of degrees."""

    semantics: Semantics

    def enter(self, degree: Tensor) -> Tensor:
        """The logarithm."""
        return logspace.to_log(degree)

    def leave(self, value: Tensor) -> Tensor:
        """The exponential."""
        return logspace.from_log(value)

    def negate(self, u: Tensor) -> Tensor:
        """¬u."""
        return logspace.log_not(u)

    def conjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∧ v."""
        return logspace.log_and(u, v)

    def disjoin(self, u: Tensor, v: Tensor) -> Tensor:
        """U ∨ v."""
        return logspace.log_or(u, v)

    def imply(self, u: Tensor, v: Tensor) -> Tensor:
        """U → v."""
        return logspace.log_imply(u, v)

    def quantify(
        self, u: Tensor, universal: bool, dims: Sequence[int], mask: Tensor | None = None
    ) -> Tensor:
        """∀ or ∃ over dimensions."""
        how = self.semantics.forall if universal else self.semantics.exists
        return self._aggregate(u, how, universal, dims, mask)

    def over_time(self, u: Tensor, universal: bool, mask: Tensor | None = None) -> Tensor:
        """⊗ or ⊕ over the last dimension."""
        how = self.semantics.always if universal else self.semantics.eventually
        return self._aggregate(u, how, universal, (-1,), mask)

    def _aggregate(
        self, u: Tensor, how: Aggregation, universal: bool, dims: Sequence[int], mask: Tensor | None
    ) -> Tensor:
        match how, universal:
            case Fold(), True:
                return logspace.log_fold_conjunction(u, dims, mask)
            case Fold(), False:
                return logspace.log_fold_disjunction(u, dims, mask)
            case PMean(p), True:
                return logspace.log_p_mean_error(u, p, dims, mask)
            case PMean(p), False:
                return logspace.log_p_mean(u, p, dims, mask)
        raise AssertionError(how)
