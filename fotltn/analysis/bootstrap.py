"""Ratios of counts over traces, with intervals: traces are drawn anew, with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fotltn.analysis.record import Record
from fotltn.errors import DataError

Counts = np.ndarray[Any, np.dtype[np.float64]]

#: The part of the draws that an interval spans.
LEVEL = 0.95

_LACKING = 0.05  # of the draws may have no value, for an interval to be given
_AT_ONCE = 2**22  # numbers drawn at once


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A number with its interval; None where there is nothing to count, or to draw from."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Draws:
    """How often each trace is drawn, the same for all rules.

    A trace is what is drawn, since its steps and entities are alike: many steps of one clip say
    less than the same number of steps of many.
    """

    def __init__(self, traces: int, resamples: int, seed: int) -> None:
        """Fix the draws by a seed; without resamples, or with a single trace, there are none."""
        if not 0 <= resamples <= 10**6:
            raise DataError(f"the resamples are a whole number up to 1,000,000, not {resamples}")
        if not 0 <= seed < 2**63:
            raise DataError(f"a seed is a whole number from 0 to 2**63 - 1, not {seed}")
        self.traces, self.resamples, self.seed = traces, resamples if traces > 1 else 0, seed

    def sums(self, counts: Counts) -> Counts:
        """Sums of counts, with axes (trace, count), over the traces of each draw."""
        if not self.resamples:
            return np.zeros((0, counts.shape[1]))
        return np.concatenate([drawn @ counts for drawn in self._drawn()])

    def _drawn(self) -> Iterator[Counts]:
        generator = np.random.default_rng(self.seed)
        width = max(1, _AT_ONCE // self.traces)
        for start in range(0, self.resamples, width):
            rows = min(width, self.resamples - start)
            picked = generator.integers(self.traces, size=(rows, self.traces))
            picked += np.arange(rows)[:, None] * self.traces
            times = np.bincount(picked.reshape(-1), minlength=rows * self.traces)
            yield times.reshape(rows, self.traces).astype(np.float64)


def estimate(number: Counts | float, drawn: Counts) -> Estimate:
    """A number, NaN where there is none, and the interval of its values over draws."""
    value = None if np.isnan(number) else float(number)
    finite = drawn[np.isfinite(drawn)]
    if value is None or not len(drawn) or len(finite) < (1 - _LACKING) * len(drawn):
        return Estimate(value)
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))


def ratio(above: Counts, below: Counts) -> Counts:
    """A quotient, NaN where it has none."""
    quotient: Counts = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=quotient, where=np.asarray(below) > 0)
    return quotient
