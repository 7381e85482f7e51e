"""Convert time stamps, dates and measured times to numbers of steps, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import DataError
from fotltn.grounding.cells import A_TIME, Bools, Floats, Ints, by_word, numbers
from fotltn.grounding.collect import Collector
from fotltn.grounding.read import TablePlace, as_text, single_column
from fotltn.grounding.stamps import (
    MICROSECONDS,
    NO_TIME,
    holds_stamps,
    instants,
    is_stamp,
    typed_instants,
    with_zone,
    without_zone,
)

#: The length of each unit in microseconds.
_UNITS = {
    "s": 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
    "w": 7 * 86400 * 10**6,
}
_STEP = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w)")
_EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = (  # the ends of the calendar, less the largest offset between two zones
    (day - _EPOCH) // timedelta(microseconds=1)
    for day in (datetime(1, 1, 3), datetime(9999, 12, 30))
)
_CLOSE = 1e-9  # relative distance at which a measured time still counts as on a step
_MOST = 2**31

#: How messages describe a time stamp.
A_STAMP = "a time stamp or date such as 2013-01-31T17:05 or 2013-01-31"

#: The hint for a time stamp where a number is expected.
SAY_STEP = (
    'set the length of a step: step = "1h" in [data], --step 1h, fotltn.read(…, step="1h"), or '
    'data={"step": "1h"} for train and Classifier'
)


def time_hint(cell: str | None) -> str | None:
    """Return a hint for a cell that is not a step number, or None."""
    return SAY_STEP if is_stamp(cell) else None


def complain_of_stamps(
    collector: Collector, place: TablePlace, table: pa.Table, column: str | None
) -> None:
    """Report a time column of a time-stamp type; called when there is no clock to convert it."""
    if column is None or column not in table.column_names:
        return
    cells = single_column(place, table, column)
    if holds_stamps(cells):
        kind = cells.type
        message = f"the times have the type {kind}; expected {A_TIME}"
        collector.complain(replace(place, column=column), None, message, SAY_STEP)


class Readings(NamedTuple):
    """The times of a column on a number line; all arrays have shape (row,).

    Args:
        at: the times, in microseconds or as measured numbers.
        there: the cells that are not empty.
        wrong: the cells that hold something other than a time.
        zoned: the times that state their own zone.
    """

    at: Ints | Floats
    there: Bools
    wrong: Bools
    zoned: Bools


@dataclass(frozen=True, slots=True)
class Clock:
    """How the times of tables map to steps.

    Args:
        step: the length of a step: a number with a unit (s, min, h, d, w) for time stamps, or a
            plain number if times are numbers. Days and weeks follow the calendar.
        origin: the time at which the first step begins. By default, the earliest time in the data,
            rounded down to the unit of the step.
        timezone: the zone of times that name none, such as "Europe/Berlin". Days and weeks begin at
            midnight there.

    Raises:
        DataError: the step, the origin or the time zone is not valid.
    """

    step: str
    origin: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Raise an error if a setting is not valid."""
        size = self._size()
        if size is None or size <= 0 or (not self.measured and size.denominator != 1):
            raise DataError(
                f'\'{self.step}\' is not a step; expected a length of time such as "1h" or "15min" '
                "(units: s, min, h, d, w), or a plain number if the times are numbers"
            )
        if self._unit in ("d", "w") and size % _UNITS[self._unit]:
            raise DataError(f"'{self.step}' is not a step; days and weeks must be whole numbers")
        if self.timezone is not None:
            if self.measured:
                raise DataError(
                    "times that are numbers cannot have a time zone; leave out timezone"
                )
            try:
                ZoneInfo(self.timezone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                hint = "a name such as Europe/Berlin or America/New_York"
                raise DataError(f"unknown time zone '{self.timezone}'; expected {hint}") from None
        if self.origin is not None:
            read = self.read(pa.chunked_array([[self.origin]]))
            if read.wrong[0] or not read.there[0]:
                expected = "a number" if self.measured else A_STAMP
                raise DataError(f"the origin is '{self.origin}'; expected {expected}")

    @property
    def _unit(self) -> str:
        """The unit of the step; empty if times are numbers."""
        match = _STEP.fullmatch(self.step.strip())
        return match[2] if match else ""

    @property
    def measured(self) -> bool:
        """Whether times are plain numbers rather than time stamps."""
        return not self._unit

    @property
    def _by_calendar(self) -> bool:
        """Whether steps follow the local calendar rather than elapsed time."""
        return self._unit in ("d", "w")

    def _size(self) -> Fraction | None:
        """Return the length of a step, in microseconds or as a number; None if it is not valid."""
        match = _STEP.fullmatch(self.step.strip())
        try:
            if match is None:
                return Fraction(self.step.strip())
            return Fraction(match[1]) * _UNITS[match[2]]
        except (ValueError, ZeroDivisionError):
            return None

    # --- reading ----------------------------------------------------------------------------------

    def read(self, column: pa.ChunkedArray) -> Readings:
        """Read the times of a column of text, or of a type for times."""
        if self.measured:
            return _measured(column)
        if holds_stamps(column):
            at, there, zoned = typed_instants(column)
        else:
            text = _texts(column)
            there = pc.is_valid(text).to_numpy()
            at = by_word(text, instants, NO_TIME)
            zoned = by_word(text, with_zone, False)
        wrong = there & ((at < _FIRST) | (at > _LAST))  # NO_TIME is before the first, too
        return self._on_line(Readings(at, there, wrong, zoned))

    def _on_line(self, read: Readings) -> Readings:
        """Put times on one line: local time for steps of days and weeks, UTC for all others."""
        if self.timezone is None:
            return read
        at, good = read.at.copy(), read.there & ~read.wrong
        wrong = read.wrong.copy()
        if self._by_calendar:
            moved = np.flatnonzero(good & read.zoned)
            stamps = pa.array(at[moved]).cast(pa.timestamp("us", self.timezone))
            at[moved] = pc.local_timestamp(stamps).cast(pa.int64()).to_numpy()
        else:
            moved = np.flatnonzero(good & ~read.zoned)
            local = pa.array(at[moved]).cast(MICROSECONDS)
            zoned = pc.assume_timezone(
                local, self.timezone, ambiguous="earliest", nonexistent="earliest"
            )
            at[moved] = zoned.cast(pa.int64()).to_numpy()
            wrong[moved] |= ~pc.equal(pc.local_timestamp(zoned), local).to_numpy(
                zero_copy_only=False
            )
        return Readings(at, read.there, wrong, read.zoned)

    def numbered(self, read: Readings) -> Ints:
        """Return the step of each time; times before the origin have negative steps."""
        origin, _ = self.start
        size = self._size()
        assert size is not None
        if not self.measured:
            since: Ints = read.at.astype(np.int64) - int(origin)
            return since // int(size)
        exact = (read.at - origin) / float(size)
        near = np.rint(exact)
        close = np.abs(exact - near) <= _CLOSE * np.maximum(1.0, np.abs(near))
        steps = np.where(close, near, np.floor(exact))
        return np.clip(np.where(np.isfinite(steps), steps, -1), -1, 2**62).astype(np.int64)

    def steps(self, place: TablePlace, table: pa.Table, column: str) -> tuple[Ints, Bools]:
        """Return the steps of a column, and which rows have no valid time."""
        read = self.read(_plain(place, table, column))
        return self.numbered(read), read.wrong | ~read.there

    @property
    def start(self) -> tuple[float, bool]:
        """The position of the origin on the number line, and whether it states its own zone."""
        return _start(self)

    # --- writing ----------------------------------------------------------------------------------

    def begun(self, readings: Iterable[Readings]) -> Clock:
        """Return the clock with its origin: by default, the earliest time rounded down."""
        if self.origin is not None:
            return self
        good = [(r, r.there & ~r.wrong) for r in readings]
        earliest = [r.at[mask].min() for r, mask in good if mask.any()]
        if not earliest:
            return replace(self, origin="0" if self.measured else "1970-01-01")
        first = min(earliest)
        if self.measured:
            return replace(self, origin=repr(float(first)))
        zoned = any(bool(r.zoned[mask].any()) for r, mask in good)
        unit = _UNITS["d" if self._by_calendar else self._unit]
        moment = _EPOCH + timedelta(microseconds=int(first))
        wall = moment if self._by_calendar else self._local(moment)
        since = (wall.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
        start = int(first) - since % unit
        return replace(self, origin=self._shown(start, zoned))

    def text(self, number: int) -> str:
        """Return the time at which a step begins, as text."""
        (origin, zoned), size = self.start, self._size()
        assert size is not None
        if self.measured:
            return f"{float(Fraction(origin) + number * size):.12g}"
        return self._shown(int(origin) + number * int(size), zoned)

    def _local(self, moment: datetime) -> datetime:
        """Convert UTC to local time if the clock has a time zone."""
        if self.timezone is None:
            return moment
        return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(self.timezone))

    def _shown(self, at: int, zoned: bool) -> str:
        if not _FIRST <= at <= _LAST:
            return ""
        moment = _EPOCH + timedelta(microseconds=at)
        if not self._by_calendar:
            moment = self._local(moment)
            if self.timezone is None and zoned:
                moment = moment.replace(tzinfo=UTC)
        elif not at % _UNITS["d"]:
            return moment.date().isoformat()
        fine = at % _UNITS["min"] or (self._size() or 0) % _UNITS["min"]
        return moment.isoformat(timespec="auto" if fine else "minutes")


@lru_cache(maxsize=64)
def _start(clock: Clock) -> tuple[float, bool]:
    assert clock.origin is not None
    read = clock.read(pa.chunked_array([[clock.origin]]))
    return read.at[0].item(), bool(read.zoned[0])


def clock_of(
    step: str | float | None, origin: str | float | date | None, timezone: str | None
) -> Clock | None:
    """Build the clock that the settings describe; None if times already are step numbers.

    Raises:
        DataError: the settings do not describe a clock.
    """
    if step is None:
        for name, value in (("origin", origin), ("timezone", timezone)):
            if value is not None:
                raise DataError(f"'{name}' is set, but there is no step", hint=SAY_STEP)
        return None
    start = origin.isoformat() if isinstance(origin, date) else origin
    return Clock(str(step), None if start is None else str(start), timezone)


def on_clock(
    collector: Collector,
    clock: Clock,
    tables: Sequence[tuple[TablePlace, pa.Table, str | None]],
) -> tuple[Clock, list[tuple[TablePlace, pa.Table]]]:
    """Replace the times of tables by step numbers; also return the clock with its origin.

    Args:
        collector: receives the errors.
        clock: how times map to steps.
        tables: each table with its place and its time column, if it has one.

    Raises:
        DataError: lists the file, row and column of each invalid time and each time before the
            origin, up to 20.
    """
    timed = [
        (i, column) for i, (_, table, column) in enumerate(tables)
        if column is not None and table.column_names.count(column) == 1
    ]  # fmt: skip
    readings: dict[int, Readings] = {}
    for i, column in timed:
        place, table, _ = tables[i]
        collector.begin(place)
        readings[i] = clock.read(_plain(place, table, column))
    told = _Complaints(collector, clock, tables)
    told.wrong(readings)
    told.zones(readings)
    done = [(place, table) for place, table, _ in tables]
    if not collector.count:
        clock = clock.begun(readings.values())
        for i, column in timed:
            place, table, _ = tables[i]
            steps, there = clock.numbered(readings[i]), readings[i].there
            told.outside(i, clock, steps, there)
            cells = pa.array(steps, mask=~there)
            done[i] = (place, table.set_column(table.column_names.index(column), column, cells))
    if collector.count:
        raise DataError(*collector.shown())
    return clock, done


class _Complaints:
    """Reports invalid times, each with its place."""

    def __init__(
        self,
        collector: Collector,
        clock: Clock,
        tables: Sequence[tuple[TablePlace, pa.Table, str | None]],
    ) -> None:
        self.collector, self.clock, self.tables = collector, clock, tables

    def _say(self, i: int, row: int, message: str, hint: str | None = None) -> None:
        place, table, column = self.tables[i]
        cell = table.column(column)[row]
        at = replace(place, column=column)
        self.collector.complain(at, row, message.format(cell=f"'{cell}'"), hint)

    def wrong(self, readings: dict[int, Readings]) -> None:
        """Report cells that are not times."""
        zone, measured = self.clock.timezone, self.clock.measured
        for i, read in readings.items():
            for row in map(int, np.flatnonzero(read.wrong)):
                cell = str(self.tables[i][1].column(self.tables[i][2])[row])
                if not measured and zone is not None and without_zone(cell.strip()):
                    self._say(i, row, f"{{cell}} does not exist in {zone}: clocks were set forward")
                elif measured:
                    hint = SAY_STEP if is_stamp(cell.strip()) else None
                    self._say(i, row, "{cell} is not a time; expected a number", hint)
                else:
                    hint = "if times are numbers, the step must be a number such as step = 3600"
                    number = np.isfinite(numbers(pa.chunked_array([[cell]])))[0]
                    message = f"{{cell}} is not a time; expected {A_STAMP}"
                    self._say(i, row, message, hint if number else None)

    def zones(self, readings: dict[int, Readings]) -> None:
        """Report times without a zone if other times have one, and the reverse."""
        if self.clock.timezone is not None or self.clock.measured:
            return
        origin = None if self.clock.origin is None else self.clock.start[1]
        usual, others = origin, "other times" if origin is None else "the origin"
        for i, read in readings.items():
            good = np.flatnonzero(read.there & ~read.wrong)
            if usual is None and len(good):
                usual = bool(read.zoned[good[0]])
            for row in map(int, good[read.zoned[good] != usual][:1]):
                verb = "have" if origin is None else "has"
                said = f"no time zone, but {others} {verb} one"
                said = said if usual else f"a time zone, but {others} {verb} none"
                hint = 'name the zone of times that state none: timezone = "Europe/Berlin"'
                self._say(i, row, f"{{cell}} has {said}", hint)

    def outside(self, i: int, clock: Clock, steps: Ints, there: Bools) -> None:
        """Report times that are before the origin, or too far after it."""
        for row in map(int, np.flatnonzero(there & (steps < 0))):
            self._say(i, row, f"{{cell}} is before the origin, {clock.origin}")
        for row in map(int, np.flatnonzero(there & (steps >= _MOST))):
            far = f"{{cell}} is {steps[row]:,} steps after the origin, {clock.origin}"
            self._say(i, row, f"{far}; the distance must be below {_MOST:,}")


def _plain(place: TablePlace, table: pa.Table, column: str) -> pa.ChunkedArray:
    cells = single_column(place, table, column)
    kind = cells.type
    if holds_stamps(cells) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return cells
    return as_text(place, table.select([column])).column(column)


def _measured(column: pa.ChunkedArray) -> Readings:
    """Read times that are plain numbers."""
    if holds_stamps(column):
        column = column.cast(pa.string())
    there = pc.is_valid(column).to_numpy()
    at = numbers(column, {})
    wrong = there & ~np.isfinite(at)
    return Readings(np.where(np.isfinite(at), at, 0.0), there, wrong, np.zeros(len(at), dtype=bool))


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.cast(pa.string()) if numeric else column
