"""Running totals of aggregations: sums of powers with a count, or folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.semantics.config import Aggregation, PMean, Semantics
from fotltn.semantics.connectives import away_from_one, away_from_zero
from fotltn.semantics.operators import Operators

_ENDLESS = 1 << 62  # stands for infinitely many
_TINY = 1e-290  # below this, powers lose digits


@dataclass(frozen=True, slots=True)
class Aggregator:
    """The aggregation of F or ∃ (or, if `universal`, G or ∀) under a semantics."""

    ops: Operators
    semantics: Semantics
    how: Aggregation
    universal: bool
    time: bool

    @property
    def mean(self) -> float | None:
        """The exponent of a mean; None for minimum, maximum and folds."""
        return self.how.p if isinstance(self.how, PMean) and self.how.p < math.inf else None

    def error(self, u: Tensor) -> Tensor:
        """Return the quantities whose powers a mean adds up."""
        epsilon = self.semantics.epsilon
        return 1 - away_from_one(u, epsilon) if self.universal else away_from_zero(u, epsilon)

    def value(self, mean: Tensor) -> Tensor:
        """Return the degree for a mean of these quantities."""
        return 1 - mean if self.universal else mean

    def empty(self, shape: tuple[int, ...]) -> Total:
        """Return the total over no degrees."""
        nothing = torch.full(shape, float(self.universal), dtype=torch.float64)
        if self.mean is None:
            return Total(self, self.ops.enter(nothing), torch.zeros(shape), torch.zeros(shape))
        zero = torch.zeros(shape, dtype=torch.float64)
        return Total(self, zero, zero.clone(), zero.clone())


@dataclass(frozen=True, slots=True)
class Total:
    """The running total of an aggregation.

    Args:
        rule: the aggregation.
        total: for a mean, the sum of powers, relative to the largest quantity; for a fold, its
            value.
        top: for a mean, the largest quantity so far.
        count: the number of degrees so far.
    """

    rule: Aggregator
    total: Tensor
    top: Tensor
    count: Tensor

    def plus(self, u: Tensor, mask: Tensor | None = None) -> Total:
        """Return the total with all degrees along the last dimension that a mask keeps."""
        if not u.shape[-1]:
            return self
        p = self.rule.mean
        if p is not None and mask is None:
            return self._with(self.rule.error(u), self.count + u.shape[-1], p)
        counts = torch.ones_like(u) if mask is None else mask.to(u.dtype).expand(u.shape)
        count = self.count + counts.sum(-1)
        if p is None:
            values = torch.cat([self.total.unsqueeze(-1), u], -1)
            every = torch.cat([torch.ones_like(counts[..., :1]), counts], -1).bool()
            return Total(self.rule, self._fold(values, every), self.top, count)
        return self._with(self.rule.error(u) * counts, count, p)

    def after_each(self, u: Tensor, counts: Sequence[int]) -> Total:
        """Return the totals with the first degrees along the last dimension, for each of `counts`.

        The first dimension, of size 1 here, ranges over the counts in the result.
        """
        p = self.rule.mean
        if len(counts) == 1:
            return self.plus(u[..., : counts[0]])
        if p is not None:
            errors = self.rule.error(u)
            top, unit, old = self._rescaled(errors.amax(-1), p)
            powers = _power(errors / unit.unsqueeze(-1), p)
            # Powers are relative to the largest quantity; none of them may underflow.
            lost = ((powers < _TINY) & (errors > 0)).any() | (
                (old < _TINY) & (self.total > 0)
            ).any()
            if not bool(lost):
                start = old.unsqueeze(-1)
                sums = torch.cat([start, start + powers.cumsum(-1)], -1)
                total = sums.index_select(-1, torch.tensor(counts)).movedim(-1, 0).squeeze(1)
                shape = (-1, *[1] * (total.dim() - 1))
                more = torch.tensor(counts, dtype=u.dtype).reshape(shape)
                return Total(self.rule, total, top, self.count + more)
        totals, done, now = [], 0, self
        for count in counts:
            now, done = now.plus(u[..., done:count]), count
            totals.append(now)
        return joined(totals)

    def rows(self, start: int, stop: int | None) -> Total:
        """Return the totals from one place to another along the first dimension."""
        total, count = self.total[start:stop], self.count[start:stop]
        # All means of `after_each` are relative to the same quantity.
        top = self.top if self.top.shape[0] == 1 else self.top[start:stop]
        return Total(self.rule, total, top, count)

    def _with(self, errors: Tensor, count: Tensor, p: float) -> Total:
        """Return the mean with more quantities."""
        if not errors.shape[-1]:
            return self
        top, unit, old = self._rescaled(errors.amax(-1), p)
        powers = _power(errors / unit.unsqueeze(-1), p)
        return Total(self.rule, old + powers.sum(-1), top, count)

    def _rescaled(self, more: Tensor, p: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the new largest quantity, the new unit of powers, and the sum in that unit."""
        top = torch.maximum(self.top, more)
        unit = torch.where(top > 0, top, 1.0)
        return top, unit, self.total * _power(self.top / unit, p)

    def repeated(self, u: Tensor, times: float) -> Total:
        """Return the total with a degree added `times` more; for `inf`, the limit."""
        if times == 0:
            return self
        one = self.rule.empty(tuple(u.shape)).plus(u.unsqueeze(-1))
        p = self.rule.mean
        if p is not None:
            if math.isinf(times):
                return one
            top, unit, old = self._rescaled(one.top, p)
            more = times * _power(one.top / unit, p)
            return Total(self.rule, old + more, top, self.count + times)
        total, power = torch.broadcast_tensors(self.total, one.total)
        left = int(min(times, _ENDLESS))
        while left:
            if left % 2:
                total = self._fold(torch.stack([total, power], -1), None)
            power = self._fold(torch.stack([power, power], -1), None)
            left //= 2
        return Total(self.rule, total, self.top, self.count + times)

    def read(self) -> Tensor:
        """Return the degree (under a log-space semantics, its logarithm)."""
        p = self.rule.mean
        if p is None:
            return self.total
        mean = self.total / self.count.clamp(min=1)
        return self.rule.value(_root(mean, p).mul_(self.top))

    def between(self, low: Tensor, high: Tensor) -> bool:
        """Return whether all means are between the means of only low and of only high degrees."""
        p = self.rule.mean
        assert p is not None
        unit = torch.where(self.top > 0, self.top, 1.0)
        ends = [_power(self.rule.error(u) / unit, p) for u in (low, high)]
        least, most = reversed(ends) if self.rule.universal else ends
        mean = self.total / self.count.clamp(min=1)
        return bool(((least <= mean) & (mean <= most)).all())

    def _fold(self, u: Tensor, mask: Tensor | None) -> Tensor:
        if self.rule.time:
            return self.rule.ops.over_time(u, self.rule.universal, mask)
        return self.rule.ops.quantify(u, self.rule.universal, (-1,), mask)


def _power(x: Tensor, p: float) -> Tensor:
    """Raise a new tensor to a power in place; the usual exponents are much faster this way."""
    while p in (2, 4, 8):
        x, p = x.square_(), p / 2
    return x if p == 1 else x.pow_(p)


def _root(x: Tensor, p: float) -> Tensor:
    """Take a root of a new tensor in place."""
    while p in (2, 4, 8):
        x, p = x.sqrt_(), p / 2
    return x if p == 1 else x.pow_(1 / p)


def joined(totals: Sequence[Total]) -> Total:
    """Join totals along the first dimension."""
    parts = [torch.cat([getattr(t, name) for t in totals]) for name in ("total", "top", "count")]
    return Total(totals[0].rule, *parts)


def aggregator(ops: Operators, semantics: Semantics, universal: bool, *, time: bool) -> Aggregator:
    """Return the aggregation of G (or F) over time, or of ∀ (or ∃) over entities."""
    if time:
        how = semantics.always if universal else semantics.eventually
    else:
        how = semantics.forall if universal else semantics.exists
    return Aggregator(ops, semantics, how, universal, time)
