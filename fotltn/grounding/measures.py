"""Compute degrees from a column of measurements or words: thresholds, ramps and choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fotltn.arguments import public
from fotltn.errors import DataError
from fotltn.grounding.cells import Bools, Floats, by_word, numbers

_DIGITS = 12  # digits kept, to make halfway between 0.1 and 0.4 exactly one half


@public
@dataclass(frozen=True, slots=True)
class Entity:
    r"""A fixed entity as an argument, given by name.

    Use it in a wide table whose rows are all about the same place, sensor or other entity that has
    no column.

    >>> import fotltn as fot
    >>> theory = fot.parse("sort car, place\npredicate At(car, place)")
    >>> rows = {"who": ["bus", "bus"], "t": [0, 1], "there": [0, 1]}
    >>> table = fot.Wide(
    ...     rows, sort="car", entity="who", time="t", predicates={"there": "At"},
    ...     arguments={"there": ["who", fot.Entity("depot")]},
    ... )
    >>> fot.read(theory, wide=table).names.entities
    {'car': ('bus',), 'place': ('depot',)}
    """

    name: str


@public
@dataclass(frozen=True, slots=True)
class Measure:
    r"""Compute the degrees of a predicate from a column, in exactly one of several ways.

    Use it to turn measurements into a predicate, such as speeds into `Fast`, without a new column.

    Args:
        column: the column. Without a column, every row makes the predicate true.
        at_least: numbers of at least this are true, all others false.
        at_most: numbers of at most this are true, all others false.
        zero: the number at which the degree is 0; goes with `one`.
        one: the number at which the degree is 1. The degree changes linearly between `zero` and
            `one`, and is constant beyond them. `one` may be the smaller number.
        among: these words are true, all others false.
        arguments: the columns of the arguments, or fixed entities. By default, the entity of the
            row is the only argument.
        only_true: ignore rows that would make the predicate false. Use it for events, where one row
            is enough: other rows about the same fact then do not contradict it.

    Raises:
        DataError: no way or several ways are given.

    >>> import fotltn as fot
    >>> theory = fot.parse("sort car\npredicate Fast(car)")
    >>> rows = {"who": ["bus", "bus", "bus"], "t": [0, 1, 2], "speed": [20, 40, 60]}
    >>> fast = fot.Measure("speed", zero=30, one=50)
    >>> table = fot.Wide(rows, sort="car", entity="who", time="t", measures={"Fast": fast})
    >>> fot.evaluate("Fast(x)", fot.read(theory, wide=table), at="all")
    tensor([[0.0000, 0.5000, 1.0000]], dtype=torch.float64)
    """

    column: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    zero: float | None = None
    one: float | None = None
    among: Sequence[str] | None = None
    arguments: Sequence[str | Entity] | None = None
    only_true: bool = False

    def __post_init__(self) -> None:
        """Raise an error unless exactly one way is given."""
        ramp = self.zero is not None and self.one is not None
        ways = [self.at_least is not None, self.at_most is not None, ramp, self.among is not None]
        if self.column is None:
            if any([*ways, self.zero is not None, self.one is not None]):
                raise DataError(
                    "a measure without a column takes no limits or words; name a column"
                )
            return
        if sum(ways) != 1 or (not ramp and (self.zero is not None or self.one is not None)):
            raise DataError(
                f"the column '{self.column}' must be measured in exactly one way: at_least, "
                "at_most, zero and one, or among"
            )
        limits = [self.at_least, self.at_most, self.zero, self.one]
        if not all(np.isfinite(limit) for limit in limits if limit is not None):
            raise DataError(f"the limits of the column '{self.column}' must be finite numbers")
        if ramp and self.zero == self.one:
            raise DataError(
                f"the column '{self.column}' has 'zero' and 'one' both at {self.zero:g}; choose "
                f"two different numbers, or at_least = {self.zero:g} for a threshold"
            )

    def degrees(self, cells: pa.ChunkedArray) -> tuple[Floats, Bools]:
        """Return the degrees of non-empty cells, and a mask of cells that are not numbers."""
        if self.column is None:
            return np.ones(len(cells)), np.zeros(len(cells), dtype=bool)
        if self.among is not None:
            words = set(self.among)

            def is_among(text: pa.ChunkedArray) -> Floats:
                return np.array([cell in words for cell in text.to_pylist()], dtype=np.float64)

            among = by_word(cells, is_among, 0.0)
            return among, np.zeros(len(among), dtype=bool)
        values = numbers(cells)
        wrong = ~np.isfinite(values)
        if self.at_least is not None:
            degrees = (values >= self.at_least).astype(np.float64)
        elif self.at_most is not None:
            degrees = (values <= self.at_most).astype(np.float64)
        else:
            assert self.zero is not None
            assert self.one is not None
            safe = np.where(wrong, self.zero, values)
            rising = np.clip((safe - self.zero) / (self.one - self.zero), 0.0, 1.0)
            degrees = np.round(rising, _DIGITS).astype(np.float64)
        return degrees, wrong
