"""The columns of a table that nobody has described: their cells, and how they may be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fotltn.errors import DataError
from fotltn.grounding.cells import TRUTHS, Floats, Ints, encode, numbers
from fotltn.grounding.frames import read_sources
from fotltn.grounding.read import TablePlace, as_text
from fotltn.grounding.stamps import NO_TIME, holds_stamps, instants, stamp_text, with_zone

_TIMES = re.compile(
    r"(t|time|timestamp|when|step|tick|frame|round|period|second|minute|hour|day|week|month|year)s?"
    r"(_?(no|nr|id))?",
    re.IGNORECASE,
)
#: Units of steps in microseconds, the longest first.
_UNITS = {"d": 86_400 * 10**6, "h": 3_600 * 10**6, "min": 60 * 10**6, "s": 10**6}
#: Steps that people count in, where times have none of their own.
_STEPS = ("1d", "1h", "30min", "15min", "10min", "5min", "1min", "30s", "15s", "10s", "5s", "1s")
_SPARSE = 4  # points for each time that there is, beyond which times have no common step


class Role(StrEnum):
    """What a column is taken for."""

    ENTITY = "entity"
    TIME = "time"
    TRACE = "trace"
    GIVEN = "given predicate"
    LEARNED = "learned predicate"
    FEATURE = "feature"
    CATEGORY = "category"
    LINK = "relation"
    EVENTS = "events"
    SPLIT = "split"
    UNUSED = "not used"


@dataclass(slots=True, eq=False)
class TableColumn:
    """A column: its cells, and what it is taken for.

    Args:
        name: its head.
        words: what is in its cells, each once.
        codes: of each cell the number of its word; -1 where it is empty.
        values: the cells as numbers; NaN where they are none.
        role: what it is taken for.
        why: in a few words.
        symbol: the name of the predicate, if it is one.
    """

    name: str
    words: tuple[str, ...]
    codes: Ints
    values: Floats
    role: Role = Role.UNUSED
    why: str = ""
    symbol: str = ""

    @property
    def gaps(self) -> int:
        """How many cells are empty."""
        return int((self.codes < 0).sum())

    @property
    def is_number(self) -> bool:
        """Whether all cells that are not empty are numbers."""
        return bool(self.words) and bool(np.isfinite(self.values[self.codes >= 0]).all())

    @property
    def is_truth(self) -> bool:
        """Whether all cells that are not empty are true or false."""
        return bool(self.words) and all(_truth(word) is not None for word in self.words)

    @property
    def is_worded(self) -> bool:
        """Whether cells are true or false by words that are no numbers: yes and no."""
        return self.is_truth and not self.is_number

    @property
    def is_whole(self) -> bool:
        """Whether cells that are numbers are whole ones from 0."""
        values = self.values[np.isfinite(self.values)]
        return bool(((values >= 0) & (values % 1 == 0)).all())

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every row, and there are several."""
        return len(self.words) == 1 and not self.gaps and len(self.codes) > 1

    @property
    def stamps(self) -> Ints | None:
        """When each word is, in microseconds; None if they are no time stamps of one kind."""
        if not self.words:
            return None
        text = pa.chunked_array([pa.array(self.words)])
        at, zoned = instants(text), with_zone(text)
        one_kind = bool((at != NO_TIME).all()) and bool((zoned == zoned[0]).all())
        return at if one_kind else None

    def moment(self, at: int) -> str:
        """A time in microseconds as a time stamp of the kind that the column has."""
        zoned = with_zone(pa.chunked_array([pa.array(self.words[:1])]))[0]
        when = datetime(1970, 1, 1) + timedelta(microseconds=at)
        text = when.isoformat(timespec="seconds" if when.second else "minutes")
        return f"{text}Z" if zoned else text

    @property
    def clocks(self) -> Iterator[Clocked]:
        """Ways to read the cells as times, those that leave the fewest points first."""
        if self.gaps or len(self.words) < 2:
            return
        if (at := self.stamps) is not None:
            yield from self._stamped(at)
        elif self.is_number and self.is_whole and _TIMES.fullmatch(self.name):
            yield self._counted()

    def _stamped(self, at: Ints) -> Iterator[Clocked]:
        """By the step that all times are multiples of; if that is far too short, by usual steps."""
        since = at - at.min()
        apart = int(np.gcd.reduce(since))
        unit = next((u for u, size in _UNITS.items() if apart % size == 0), None)
        if unit is not None and since.max() // apart < _SPARSE * len(self.words):
            yield Clocked(self, f"{apart // _UNITS[unit]}{unit}", (since // apart)[self.codes])
            return
        for step in _STEPS:  # which begin when days, hours, half hours, … do
            size, unit_size = step_sizes(step)
            origin = at.min() // size * size
            steps = ((at - origin) // size)[self.codes]
            usual = at.min() // unit_size * unit_size == origin
            yield Clocked(self, step, steps, None if usual else int(origin))

    def _counted(self) -> Clocked:
        """As they are; if they begin far from 0, from the earliest on."""
        values = self.values.astype(np.int64)
        since = values - values.min()
        if values.min() <= since.max():
            return Clocked(self, None, values)
        apart = int(np.gcd.reduce(since))
        return Clocked(self, str(apart), since // apart)

    def counted_by(self, step: str | None, origin: int) -> Ints | None:
        """The time of each row by the clock of another table; None if it is no time of that kind.

        Args:
            step: how long a step is, None for numbers of steps.
            origin: when the first step begins: in microseconds, or as a number.
        """
        if self.gaps or not self.words:
            return None
        if step is None or step.isdecimal():
            if not self.is_number or not self.is_whole:
                return None
            return ((self.values - origin) // int(step or 1)).astype(np.int64)
        if (at := self.stamps) is None:
            return None
        size, unit_size = step_sizes(step)
        return ((at - origin // unit_size * unit_size) // size)[self.codes]

    @property
    def earliest(self) -> int:
        """The first time, as `counted_by` takes it."""
        at = self.stamps
        return int(np.nanmin(self.values)) if at is None else int(at.min())

    @property
    def true_words(self) -> list[str]:
        """The words that say that something is true."""
        return [word for word in self.words if _truth(word) == 1]

    @property
    def truth(self) -> Floats:
        """1 and 0; NaN where a cell is empty."""
        true = np.array([_truth(word) == 1 for word in self.words] or [False])
        return np.where(self.codes < 0, np.nan, true[self.codes].astype(np.float64))


class Clocked(NamedTuple):
    """A column, read as times.

    Args:
        column: the column.
        step: how long a step is; None if cells are numbers of steps.
        steps: the time of each row.
        origin: when the first step begins, in microseconds, if not at the earliest time, cut off
            to the unit of the step.
    """

    column: TableColumn
    step: str | None
    steps: Ints
    origin: int | None = None


def step_sizes(step: str) -> tuple[int, int]:
    """How long a step of time stamps is, and how long its unit, in microseconds."""
    many, unit = re.fullmatch(r"(\d+)(\D+)", step).groups()  # type: ignore[union-attr]
    return int(many) * _UNITS[unit], _UNITS[unit]


def read_columns(path: Path) -> list[TableColumn]:
    """The columns of a table.

    Raises:
        DataError: it cannot be read, has no rows, or a column twice.
    """
    ((place, table),) = read_sources([path])
    if not table.num_rows:
        raise DataError(f"{path}: there are no rows")
    if twice := [n for n in table.column_names if table.column_names.count(n) > 1]:
        raise DataError(f"{path}: the column '{twice[0]}' occurs twice")
    return [_column(place, table.select([name])) for name in table.column_names]


def _column(place: TablePlace, table: pa.Table) -> TableColumn:
    """The only column of a table."""
    (name,), (raw,) = table.column_names, table.columns
    if holds_stamps(raw):
        cells = stamp_text(raw)
    else:
        try:
            cells = as_text(place, table).column(0)
        except DataError:
            nothing = np.full(len(raw), -1), np.full(len(raw), np.nan)
            return TableColumn(name, (), *nothing, why=f"its type is {raw.type}")
    words, codes = encode(cells)
    used = np.unique(codes[codes >= 0])
    order = np.full(len(words) + 1, -1)
    order[used] = np.arange(len(used))
    return TableColumn(
        name, tuple(words.take(pa.array(used)).to_pylist()), order[codes].astype(np.int64),
        numbers(cells),
    )  # fmt: skip


def _truth(word: str) -> float | None:
    """The truth value that a word is, if it is one."""
    return {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, **TRUTHS}.get(word.lower())


def unique(*keys: Ints) -> bool:
    """Whether no two rows have the same cells."""
    rows = np.stack(keys)
    return bool(np.unique(rows, axis=1).shape[1] == rows.shape[1])
