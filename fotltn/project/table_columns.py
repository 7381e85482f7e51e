"""The columns of a table that nobody has described: their cells, and ways to read them."""

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
from fotltn.grounding.cells import TRUTHS, Bools, Floats, Ints, encode, numbers
from fotltn.grounding.clock import A_STAMP
from fotltn.grounding.frames import read_sources
from fotltn.grounding.read import TablePlace, as_text, repeated
from fotltn.grounding.stamps import NO_TIME, holds_stamps, instants, stamp_text, with_zone

#: Names of columns of whole numbers that are times: without a length, then from short to long.
_COUNTS = ("t", "time", "timestamp", "time[_ ]?step", "when", "step", "tick", "frame")
_LENGTHS = ("second", "minute", "hour", "period", "round", "day", "week", "month", "year")
_TIMES = re.compile(
    rf"(?:{'|'.join(_COUNTS)}|(?P<length>{'|'.join(_LENGTHS)}))s?"
    r"([_ ]?(no|nr|id|number|index))?",
    re.IGNORECASE,
)
#: Units of steps in microseconds, longest first.
_UNITS = {"d": 86_400 * 10**6, "h": 3_600 * 10**6, "min": 60 * 10**6, "s": 10**6}
#: Common steps, for times that have no step of their own.
_STEPS = ("1d", "1h", "30min", "15min", "10min", "5min", "1min", "30s", "15s", "10s", "5s", "1s")
_SPARSE = 4  # time points per distinct time, above which times have no common step
#: Shares of cells from which the other cells are mistakes: in columns of numbers, and of times.
_NUMBERS, _MOMENTS = 0.8, 0.5


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
        name: the name in the header.
        words: the distinct contents of its cells.
        codes: the position of each cell's word in `words`; -1 for an empty cell.
        values: the cells as numbers; NaN if they are not numbers.
        role: what the column is taken for.
        why: the reason, in a few words.
        symbol: the name of the predicate, if the column is one.
        asked: what the user takes the column for; None to guess.
    """

    name: str
    words: tuple[str, ...]
    codes: Ints
    values: Floats
    role: Role = Role.UNUSED
    why: str = ""
    symbol: str = ""
    asked: Role | None = None

    def cell(self, row: int) -> str | None:
        """Return the content of a cell; None if it is empty."""
        code = int(self.codes[row])
        return None if code < 0 else self.words[code]

    @property
    def gaps(self) -> int:
        """The number of empty cells."""
        return int((self.codes < 0).sum())

    @property
    def is_number(self) -> bool:
        """Whether all non-empty cells are numbers."""
        return bool(self.words) and bool(np.isfinite(self.values[self.codes >= 0]).all())

    @property
    def is_truth(self) -> bool:
        """Whether all non-empty cells are true or false."""
        return bool(self.words) and all(_truth(word) is not None for word in self.words)

    @property
    def strange_words(self) -> list[str]:
        """The words that are neither true nor false, in a column that has both true and false."""
        truths = {_truth(word) for word in self.words}
        both = truths >= {0.0, 1.0}
        return [word for word in self.words if _truth(word) is None] if both else []

    @property
    def is_worded(self) -> bool:
        """Whether cells are true or false by words such as yes and no, not by numbers."""
        return self.is_truth and not self.is_number

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are whole and at least 0."""
        values = self.values[np.isfinite(self.values)]
        return bool(((values >= 0) & (values % 1 == 0)).all())

    @property
    def is_constant(self) -> bool:
        """Whether several rows all hold the same value."""
        return len(self.words) == 1 and not self.gaps and len(self.codes) > 1

    @property
    def stamps(self) -> Ints | None:
        """The time of each word in microseconds; None unless all are time stamps of one kind."""
        if not self.words:
            return None
        text = pa.chunked_array([pa.array(self.words)])
        at, zoned = instants(text), with_zone(text)
        one_kind = bool((at != NO_TIME).all()) and bool((zoned == zoned[0]).all())
        return at if one_kind else None

    def moment(self, at: int) -> str:
        """Format a time in microseconds like the column's time stamps."""
        zoned = with_zone(pa.chunked_array([pa.array(self.words[:1])]))[0]
        when = datetime(1970, 1, 1) + timedelta(microseconds=at)
        text = when.isoformat(timespec="seconds" if when.second else "minutes")
        return f"{text}Z" if zoned else text

    @property
    def clocks(self) -> Iterator[Clocked]:
        """Yield ways to read the cells as times, those with the fewest time points first."""
        named = self.asked is Role.TIME
        if self.gaps or len(self.words) < (1 if named else 2):
            return
        if (at := self.stamps) is not None:
            yield from self._stamped(at)
        elif self.is_number and self.is_whole and (named or self._is_called_time):
            yield self._counted()

    @property
    def _is_called_time(self) -> bool:
        return _TIMES.fullmatch(self.name) is not None

    @property
    def coarseness(self) -> int:
        """The rank of the times in the column by their length: 0 for steps and times of day."""
        match, at = _TIMES.fullmatch(self.name), self.stamps
        if at is not None:
            return 0 if (at % _UNITS["d"]).any() else 1 + _LENGTHS.index("day")
        length = None if match is None else match["length"]
        return 0 if length is None else 1 + _LENGTHS.index(length.lower())

    def mistakes(self) -> Mistakes | None:
        """Return the cells that do not fit a column that is otherwise times or numbers, or None.

        In a column that the user takes for the time, all cells must be times.
        """
        there = self.codes >= 0
        if not there.any():
            return None
        text = pa.chunked_array([pa.array(self.words)])
        moment = there & (instants(text) != NO_TIME)[self.codes]
        number = np.isfinite(self.values)
        is_whole = number & (self.values >= 0) & (self.values == np.floor(self.values))
        enough = _MOMENTS * there.sum()
        named = self.asked is Role.TIME
        if moment.sum() > enough:
            zoned = moment & with_zone(text)[self.codes]
            usual = bool(2 * zoned.sum() > moment.sum())
            right = moment & (zoned == usual)
            what, kind = "a date or time stamp", "a time"
            if (moment & ~right).any():
                what += " with a time zone" if usual else " without a time zone"
                kind = "a time like the others"
            example = self.words[self.codes[np.flatnonzero(right)[0]]]
            return _mistakes(~right, kind, f"{what}, like '{example}'")
        if named or (self._is_called_time and is_whole.sum() > enough):
            expected = "a whole number of at least 0"
            expected += "" if is_whole.any() else f", or {A_STAMP}"
            return _mistakes(~is_whole, "a time", expected)
        if not self.is_number and number.sum() >= _NUMBERS * there.sum():
            return _mistakes(there & ~number, "a number", "a number such as 1234.5")
        return None

    def _stamped(self, at: Ints) -> Iterator[Clocked]:
        """Yield a clock whose step divides all times or, if that is too short, common steps."""
        since = at - at.min()
        apart = int(np.gcd.reduce(since)) or _UNITS["d"]
        unit = next((u for u, size in _UNITS.items() if apart % size == 0), None)
        if unit is not None and since.max() // apart < _SPARSE * len(self.words):
            yield Clocked(self, f"{apart // _UNITS[unit]}{unit}", (since // apart)[self.codes])
            return
        for step in _STEPS:  # they begin with the day, hour, half hour, …
            size, unit_size = step_sizes(step)
            origin = at.min() // size * size
            steps = ((at - origin) // size)[self.codes]
            usual = at.min() // unit_size * unit_size == origin
            yield Clocked(self, step, steps, None if usual else int(origin))

    def _counted(self) -> Clocked:
        """Count whole numbers as they are or, if they start far from 0, from the earliest."""
        values = self.values.astype(np.int64)
        since = values - values.min()
        if values.min() <= since.max():
            return Clocked(self, None, values)
        apart = int(np.gcd.reduce(since)) or 1
        return Clocked(self, str(apart), since // apart)

    def counted_by(self, step: str | None, origin: int) -> Ints | None:
        """Return the time of each row by another table's clock; None if the cells do not fit it.

        Args:
            step: the length of a step; None for step numbers.
            origin: the time at which the first step begins, in microseconds or as a number.
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
        """The earliest time, in the form that `counted_by` takes."""
        at = self.stamps
        return int(np.nanmin(self.values)) if at is None else int(at.min())

    @property
    def true_words(self) -> list[str]:
        """The words that mean true."""
        return [word for word in self.words if _truth(word) == 1]

    @property
    def truth(self) -> Floats:
        """The cells as 1 and 0; NaN for empty cells."""
        true = np.array([_truth(word) == 1 for word in self.words] or [False])
        return np.where(self.codes < 0, np.nan, true[self.codes].astype(np.float64))


class Mistakes(NamedTuple):
    """Cells that do not fit the rest of their column.

    Args:
        rows: their rows.
        kind: what they are not, such as "a number".
        expected: what would be right.
    """

    rows: Ints
    kind: str
    expected: str


def _mistakes(wrong: Bools, kind: str, expected: str) -> Mistakes | None:
    return Mistakes(np.flatnonzero(wrong), kind, expected) if wrong.any() else None


class Clocked(NamedTuple):
    """A column that is read as times.

    Args:
        column: the column.
        step: the length of a step; None if cells are step numbers.
        steps: the time of each row.
        origin: the time at which the first step begins, in microseconds; None for the earliest
            time, rounded down to the unit of the step.
    """

    column: TableColumn
    step: str | None
    steps: Ints
    origin: int | None = None


def step_sizes(step: str) -> tuple[int, int]:
    """Return the length of a step of time stamps and of its unit, in microseconds."""
    many, unit = re.fullmatch(r"(\d+)(\D+)", step).groups()  # type: ignore[union-attr]
    return int(many) * _UNITS[unit], _UNITS[unit]


def read_columns(path: Path) -> tuple[TablePlace, list[TableColumn]]:
    """Read the columns of a table; also return the place of its rows.

    Raises:
        DataError: the file cannot be read, has no rows, or has a column twice.
    """
    ((place, table),) = read_sources([path])
    if not table.num_rows:
        raise DataError(f"{path}: there are no rows")
    if twice := repeated(table.column_names):
        raise DataError(f"{path}: the column '{twice[0]}' occurs twice")
    return place, [_column(place, table.select([name])) for name in table.column_names]


def _column(place: TablePlace, table: pa.Table) -> TableColumn:
    """Return the only column of a table."""
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
    """Return the truth value of a word, or None."""
    return {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, **TRUTHS}.get(word.lower())


def unique(*keys: Ints) -> bool:
    """Return whether no two rows have the same cells."""
    rows = np.stack(keys)
    return bool(np.unique(rows, axis=1).shape[1] == rows.shape[1])
