"""Numbers that change with the epochs: constant, or linear between given points."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fotltn.errors import DataError, shown


@dataclass(frozen=True, slots=True)
class Schedule:
    """Values at epochs, in order: linear in between, constant before and after.

    >>> Schedule(((0, 0.0), (100, 1.0))).at(25)
    0.25
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        """Raise an error for points that are missing or out of order."""
        if not self.points:
            raise DataError("a schedule needs at least one point")
        if any(after[0] <= before[0] for before, after in pairwise(self.points)):
            raise DataError(
                f"the epochs of a schedule must increase: {[e for e, _ in self.points]}"
            )

    @property
    def end(self) -> float:
        """The epoch from which the value no longer changes; -inf if it never does."""
        same = len({value for _, value in self.points}) == 1
        return -math.inf if same else self.points[-1][0]

    def at(self, epoch: float) -> float:
        """Return the value at an epoch."""
        after = bisect_right([e for e, _ in self.points], epoch)
        if after == 0:
            return self.points[0][1]
        if after == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[after - 1], self.points[after]
        return low + (high - low) * (epoch - left) / (right - left)

    def as_json(self) -> Any:
        """Return a number, or pairs of epoch and value."""
        if len(self.points) == 1:
            return self.points[0][1]
        return [list(point) for point in self.points]


def schedule(value: Any, what: str, *, low: float = 0.0, high: float = math.inf) -> Schedule:
    """Build a schedule from a number, or from pairs of epoch and value.

    Raises:
        DataError: the value is something else, or lies outside [low, high].
    """
    if isinstance(value, Schedule):
        points = value.points
    elif _number(value):
        points = ((0.0, float(value)),)
    elif isinstance(value, Sequence) and value and all(_pair(point) for point in value):
        points = tuple((float(e), float(v)) for e, v in value)
    else:
        raise DataError(
            f"{what} must be a number, or a list of pairs [epoch, value], not {shown(value)}"
        )
    epochs = [e for e, _ in points]
    if any(b <= a for a, b in pairwise(epochs)):
        raise DataError(f"the epochs of {what} must increase: {epochs}")
    for _, number in points:
        if not low <= number <= high:
            limit = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
            raise DataError(f"{what} must be {limit}, not {number:g}")
    return Schedule(points)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _pair(point: Any) -> bool:
    return isinstance(point, Sequence) and len(point) == 2 and all(_number(n) for n in point)
