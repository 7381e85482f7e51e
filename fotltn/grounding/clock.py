"""Time stamps, dates and measured times as numbers of steps, and back."""

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

from fotltn.errors import DataError, Diagnostic
from fotltn.grounding.cells import A_TIME, Bools, Floats, Ints, by_word, numbers
from fotltn.grounding.collect import Collector
from fotltn.grounding.read import TablePlace, as_text
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
_FIRST, _LAST = (  # of the calendar, less and more than any zone is from another
    (day - _EPOCH) // timedelta(microseconds=1)
    for day in (datetime(1, 1, 3), datetime(9999, 12, 30))
)
_CLOSE = 1e-9  # by which a measured time may miss a step
_MOST = 2**31

#: What a time stamp is, for messages.
A_STAMP = "a time stamp or date, as 2013-01-31T17:05 or 2013-01-31"

#: What to do about a time stamp where numbers are expected.
SAY_STEP = 'say how long a step is: step = "1h" in [data], --step 1h, or fotltn.read(…, step="1h")'


def time_hint(cell: str | None) -> str | None:
    """What to do about a cell that is no number of a step."""
    return SAY_STEP if is_stamp(cell) else None


def complain_of_stamps(
    collector: Collector, place: TablePlace, table: pa.Table, column: str | None
) -> None:
    """Complain about a column of times that has a type for time stamps, where no clock is."""
    if column is not None and column in table.column_names and holds_stamps(table.column(column)):
        kind = table.column(column).type
        message = f"it holds times of the type {kind}; expected {A_TIME}"
        collector.complain(replace(place, column=column), None, message, SAY_STEP)


class Readings(NamedTuple):
    """Times of a column, on a line of numbers.

    Args:
        at: where they are: microseconds, or measured numbers.
        there: which cells have a time.
        wrong: which cells have something else.
        zoned: which times have a zone of their own.
    """

    at: Ints | Floats
    there: Bools
    wrong: Bools
    zoned: Bools


@dataclass(frozen=True, slots=True)
class Clock:
    """What the times of tables are.

    Args:
        step: how long a step is: a number with a unit (s, min, h, d, w) for time stamps, or a
            number for times that are numbers. Days and weeks are those of the calendar.
        origin: when the first step begins; without it, at the earliest time of the data, cut off
            to the unit of the step.
        timezone: of times that name no zone, by name, as "Europe/Berlin". Days and weeks begin
            when they do there.

    Raises:
        DataError: one of these is another thing.
    """

    step: str
    origin: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no clock."""
        size = self._size()
        if size is None or size <= 0 or (not self.measured and size.denominator != 1):
            raise DataError(
                f'\'{self.step}\' is no step; expected a length of time, as "1h" or "15min" '
                "(units: s, min, h, d, w), or a number for times that are numbers"
            )
        if self._unit in ("d", "w") and size % _UNITS[self._unit]:
            raise DataError(f"'{self.step}' is no step; days and weeks are whole numbers")
        if self.timezone is not None:
            if self.measured:
                raise DataError("times that are numbers have no time zone")
            try:
                ZoneInfo(self.timezone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                hint = "a name as Europe/Berlin or America/New_York"
                raise DataError(f"unknown time zone '{self.timezone}'; expected {hint}") from None
        if self.origin is not None:
            read = self.read(pa.chunked_array([[self.origin]]))
            if read.wrong[0] or not read.there[0]:
                expected = "a number" if self.measured else A_STAMP
                raise DataError(f"the origin is '{self.origin}'; expected {expected}")

    @property
    def _unit(self) -> str:
        """The unit of the step; none, if times are numbers."""
        match = _STEP.fullmatch(self.step.strip())
        return match[2] if match else ""

    @property
    def measured(self) -> bool:
        """Whether times are numbers."""
        return not self._unit

    @property
    def _by_calendar(self) -> bool:
        """Whether steps are counted by the hands of a clock on the wall, not by what has passed."""
        return self._unit in ("d", "w")

    def _size(self) -> Fraction | None:
        """The step: microseconds, or a number."""
        match = _STEP.fullmatch(self.step.strip())
        try:
            if match is None:
                return Fraction(self.step.strip())
            return Fraction(match[1]) * _UNITS[match[2]]
        except (ValueError, ZeroDivisionError):
            return None

    # --- reading ----------------------------------------------------------------------------------

    def read(self, column: pa.ChunkedArray) -> Readings:
        """The times of a column, of text or of a type for times."""
        if self.measured:
            return _measured(column)
        if holds_stamps(column):
            at, there, zoned = typed_instants(column)
            wrong = there & ((at < _FIRST) | (at > _LAST))
        else:
            text = _texts(column)
            there = pc.is_valid(text).to_numpy()
            at = by_word(text, instants, NO_TIME)
            zoned = by_word(text, with_zone, False)
            wrong = there & (at == NO_TIME)
        return self._on_line(Readings(at, there, wrong, zoned))

    def _on_line(self, read: Readings) -> Readings:
        """Times in one zone: as on the wall for days and weeks, else as in UTC."""
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
        """The steps of times; those before the origin are below 0."""
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
        """The steps of a column of a table, and in which rows there is none."""
        read = self.read(_plain(place, table, column))
        return self.numbered(read), read.wrong | ~read.there

    @property
    def start(self) -> tuple[float, bool]:
        """Where the origin is on the line of times, and whether it has a zone of its own."""
        return _start(self)

    # --- writing ----------------------------------------------------------------------------------

    def begun(self, readings: Iterable[Readings]) -> Clock:
        """The same with an origin: its own, or the earliest time, cut off to the unit."""
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
        """When a step begins."""
        (origin, zoned), size = self.start, self._size()
        assert size is not None
        if self.measured:
            return f"{float(Fraction(origin) + number * size):.12g}"
        return self._shown(int(origin) + number * int(size), zoned)

    def _local(self, moment: datetime) -> datetime:
        """What the clock on the wall says, where there is a zone."""
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
    """The clock that settings say; None, if times are numbers of steps already.

    Raises:
        DataError: they say none.
    """
    if step is None:
        for name, value in (("origin", origin), ("timezone", timezone)):
            if value is not None:
                raise DataError(Diagnostic(f"there is a key '{name}', but no step", hint=SAY_STEP))
        return None
    start = origin.isoformat() if isinstance(origin, date) else origin
    return Clock(str(step), None if start is None else str(start), timezone)


def on_clock(
    collector: Collector,
    clock: Clock,
    tables: Sequence[tuple[TablePlace, pa.Table, str | None]],
) -> tuple[Clock, list[tuple[TablePlace, pa.Table]]]:
    """Tables with numbers of steps for times, and the clock with its origin.

    Args:
        collector: takes complaints.
        clock: says what times are.
        tables: each with its place and its column with times, if it has one.

    Raises:
        DataError: with the file, row and column of every time that is none, or that is before the
            origin (20 at most).
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
    """Complaints about times, each with its place."""

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
        """Complain about what is no time."""
        zone, measured = self.clock.timezone, self.clock.measured
        for i, read in readings.items():
            for row in map(int, np.flatnonzero(read.wrong)):
                cell = str(self.tables[i][1].column(self.tables[i][2])[row])
                if not measured and zone is not None and without_zone(cell.strip()):
                    self._say(i, row, f"{{cell}} is no time in {zone}: clocks were put forward")
                elif measured:
                    hint = SAY_STEP if is_stamp(cell.strip()) else None
                    self._say(i, row, "{cell} is no time; expected a number", hint)
                else:
                    hint = "for times that are numbers, the step is a number, as step = 3600"
                    number = np.isfinite(numbers(pa.chunked_array([[cell]])))[0]
                    message = f"{{cell}} is no time; expected {A_STAMP}"
                    self._say(i, row, message, hint if number else None)

    def zones(self, readings: dict[int, Readings]) -> None:
        """Complain if some times have a zone and others have none."""
        if self.clock.timezone is not None or self.clock.measured:
            return
        origin = None if self.clock.origin is None else self.clock.start[1]
        usual, others = origin, "others" if origin is None else "the origin"
        for i, read in readings.items():
            good = np.flatnonzero(read.there & ~read.wrong)
            if usual is None and len(good):
                usual = bool(read.zoned[good[0]])
            for row in map(int, good[read.zoned[good] != usual][:1]):
                verb = "have" if origin is None else "has"
                said = f"no time zone, but {others} {verb} one"
                said = said if usual else f"a time zone, but {others} {verb} none"
                hint = 'say of times without a zone where they are: timezone = "Europe/Berlin"'
                self._say(i, row, f"{{cell}} has {said}", hint)

    def outside(self, i: int, clock: Clock, steps: Ints, there: Bools) -> None:
        """Complain about times before the origin, or too far from it."""
        for row in map(int, np.flatnonzero(there & (steps < 0))):
            self._say(i, row, f"{{cell}} is before the origin, {clock.origin}")
        for row in map(int, np.flatnonzero(there & (steps >= _MOST))):
            far = f"{{cell}} is {steps[row]:,} steps after the origin, {clock.origin}"
            self._say(i, row, f"{far}; there are fewer than {_MOST:,}")


def _plain(place: TablePlace, table: pa.Table, column: str) -> pa.ChunkedArray:
    cells = table.column(column)
    kind = cells.type
    if holds_stamps(cells) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return cells
    return as_text(place, table.select([column])).column(column)


def _measured(column: pa.ChunkedArray) -> Readings:
    """Times that are numbers."""
    if holds_stamps(column):
        column = column.cast(pa.string())
    there = pc.is_valid(column).to_numpy()
    at = numbers(column, {})
    wrong = there & ~np.isfinite(at)
    return Readings(np.where(np.isfinite(at), at, 0.0), there, wrong, np.zeros(len(at), dtype=bool))


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.cast(pa.string()) if numeric else column
