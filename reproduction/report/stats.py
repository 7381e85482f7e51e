"""Means, standard deviations, Welch's t-test and the Benjamini–Hochberg correction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fotltn.errors import DataError

Alternative = Literal["two-sided", "greater", "less"]
_ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of values, their mean, and their standard deviation with the divisor n - 1.

    The deviation of a single value is NaN.
    """

    count: int
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t-test: the statistic, the degrees of freedom, and the p-value.

    All three are NaN if a side has fewer than two values.
    """

    t: float
    df: float
    p: float


def summary(values: Iterable[float]) -> Summary:
    """Return count, mean and standard deviation.

    >>> summary([1, 2, 3])
    Summary(count=3, mean=2.0, std=1.0)
    """
    array = np.array(list(values), dtype=np.float64)
    if not array.size:
        raise DataError("there are no values to average")
    if not np.isfinite(array).all():
        raise DataError("a value to average is not a finite number")
    std = float(array.std(ddof=1)) if array.size > 1 else math.nan
    return Summary(int(array.size), float(array.mean()), std)


def welch(a: Summary, b: Summary, *, alternative: Alternative = "two-sided") -> Welch:
    """Test whether the mean of `a` differs from that of `b`, with possibly unequal variances.

    The paper tests on both sides. If neither side has any spread, they differ for certain unless
    the means are equal.

    Args:
        a: one side.
        b: the other side.
        alternative: what a small p shows: that `a` differs from `b` ("two-sided"), is `greater`, or
            is `less`.
    """
    if alternative not in _ALTERNATIVES:
        raise DataError(f"the alternative must be one of {_ALTERNATIVES}, not '{alternative}'")
    if min(a.count, b.count) < 2:
        return Welch(math.nan, math.nan, math.nan)
    u, v = a.std**2 / a.count, b.std**2 / b.count
    if u + v == 0:
        return _without_spread(a.mean - b.mean, a.count + b.count - 2, alternative)
    from scipy import stats  # type: ignore[import-untyped]

    t, p = stats.ttest_ind_from_stats(
        a.mean, a.std, a.count, b.mean, b.std, b.count, equal_var=False, alternative=alternative
    )
    share = u / (u + v)
    df = 1 / (share**2 / (a.count - 1) + (1 - share) ** 2 / (b.count - 1))
    return Welch(float(t), df, float(p))


def _without_spread(difference: float, df: int, alternative: Alternative) -> Welch:
    if difference == 0:
        return Welch(0.0, df, 1.0 if alternative == "two-sided" else 0.5)
    shown = alternative == "two-sided" or (difference > 0) == (alternative == "greater")
    return Welch(math.copysign(math.inf, difference), df, 0.0 if shown else 1.0)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for multiple tests; NaN stays NaN and does not count as a test.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    (0.03, 0.04, 0.04)
    """
    array = np.array(ps, dtype=np.float64)
    known = ~np.isnan(array)
    if ((array[known] < 0) | (array[known] > 1)).any():
        raise DataError("a p-value must be a number from 0 to 1")
    if known.any():
        from scipy import stats

        array[known] = stats.false_discovery_control(array[known], method="bh")
    return tuple(float(p) for p in array)
