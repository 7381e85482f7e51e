"""Convert time stamps, dates and measured times to numbers of steps, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import DataError, name_hint
from fotltn.grounding.cells import A_TIME, Bools, Ints, by_word
from fotltn.grounding.collect import Collector
from fotltn.grounding.decimals import decimals
from fotltn.grounding.read import TablePlace, as_text, single_column
from fotltn.grounding.stamps import (
    MICROSECONDS,
    NO_TIME,
    holds_stamps,
    instants,
    is_stamp,
    typed_instants,
    with_zone,
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
_MICROSECOND = timedelta(microseconds=1)

#: Whose time it is: each trace begins at its own step 0, all traces have one origin, or the times
#: of a trace are its steps.
ClockKind = Literal["own", "shared", "events"]

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
        at: the times, in microseconds, or in units of ten to the power of minus `digits`.
        valid: the cells that are not empty.
        wrong: the cells that hold something other than a time.
        zoned: the times that state their own zone.
        rounded: the times that arithmetic may have rounded.
        digits: how many digits measured times have after the point.
        spacing: the largest distance between a measured time and its neighbours of the same type.
    """

    at: Ints
    valid: Bools
    wrong: Bools
    zoned: Bools
    rounded: Bools
    digits: int = 0
    spacing: float = 0.0

    @property
    def good(self) -> Bools:
        """The cells that hold times."""
        return self.valid & ~self.wrong


@dataclass(frozen=True, slots=True)
class Clock:
    """How the times of tables map to steps.

    Args:
        step: the length of a step: a number with a unit (s, min, h, d, w) for time stamps, or a
            plain number if times are numbers. Days and weeks follow the calendar. With the clock of
            events, None until it is known whether times are numbers.
        origin: for a shared clock, the time at which the first step begins. By default, the
            earliest time in the data, rounded down to the unit of the step.
        timezone: the zone of times that name none, such as "Europe/Berlin". Days and weeks begin at
            midnight there.
        kind: whose time it is: "own", each trace begins at its own step 0; "shared", all traces
            have one origin; "events", the times of a trace are its steps.

    Raises:
        DataError: the step, the origin or the time zone is not valid, or they do not fit together.
    """

    step: str | None
    origin: str | None = None
    timezone: str | None = None
    kind: str = "shared"

    def __post_init__(self) -> None:
        """Raise an error if a setting is not valid."""
        if self.kind not in get_args(ClockKind):
            hint = name_hint(self.kind, get_args(ClockKind))
            raise DataError(f"'{self.kind}' is not a clock; {hint}")
        if self.kind != "shared" and self.origin is not None:
            raise DataError(
                f'an origin belongs to a shared clock, and the clock is "{self.kind}"',
                hint='leave out the origin, or set clock = "shared"',
            )
        if self.timezone is not None:
            try:
                ZoneInfo(self.timezone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                hint = "a name such as Europe/Berlin or America/New_York"
                raise DataError(f"unknown time zone '{self.timezone}'; expected {hint}") from None
        if self.step is None:
            if self.kind != "events":
                raise DataError(f'the clock is "{self.kind}", but there is no step', hint=SAY_STEP)
            return
        size = self.size
        if size is None or size <= 0 or (not self.measured and size.denominator != 1):
            raise DataError(
                f'\'{self.step}\' is not a step; expected a length of time such as "1h" or "15min" '
                "(units: s, min, h, d, w), or a plain number if the times are numbers"
            )
        if self._unit in ("d", "w") and size % _UNITS[self._unit]:
            raise DataError(f"'{self.step}' is not a step; days and weeks must be whole numbers")
        if self.timezone is not None and self.measured:
            raise DataError("times that are numbers cannot have a time zone; leave out timezone")
        if self.origin is not None:
            read = self.read(pa.chunked_array([[self.origin]]))
            if not read.good[0]:
                expected = "a number" if self.measured else A_STAMP
                raise DataError(f"the origin is '{self.origin}'; expected {expected}")

    @property
    def _unit(self) -> str:
        """The unit of the step; empty if times are numbers."""
        match = _STEP.fullmatch((self.step or "").strip())
        return match[2] if match else ""

    @property
    def measured(self) -> bool:
        """Whether times are plain numbers rather than time stamps."""
        return not self._unit

    @property
    def _by_calendar(self) -> bool:
        """Whether steps follow the local calendar rather than elapsed time."""
        return self._unit in ("d", "w")

    @property
    def size(self) -> Fraction | None:
        """The length of a step, in microseconds or as a number; None if it is not valid."""
        text = (self.step or "").strip()
        match = _STEP.fullmatch(text)
        try:
            return Fraction(text) if match is None else Fraction(match[1]) * _UNITS[match[2]]
        except (ValueError, ZeroDivisionError):
            return None

    # --- reading ----------------------------------------------------------------------------------

    def read(self, column: pa.ChunkedArray) -> Readings:
        """Read the times of a column of text, or of a type for times."""
        if self.measured:
            return _measured(column)
        if holds_stamps(column):
            at, valid, zoned = typed_instants(column)
        else:
            text = _texts(column)
            valid = pc.is_valid(text).to_numpy()
            at = by_word(text, instants, NO_TIME)
            zoned = by_word(text, with_zone, False)
        wrong = valid & ((at < _FIRST) | (at > _LAST))  # NO_TIME is before the first, too
        return self._on_line(Readings(at, valid, wrong, zoned, np.zeros(len(at), dtype=bool)))

    def _on_line(self, read: Readings) -> Readings:
        """Put times on one line: local time for steps of days and weeks, UTC for all others."""
        if self.timezone is None:
            return read
        at, good = read.at.copy(), read.good
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
        return read._replace(at=at, wrong=wrong)

    # --- writing ----------------------------------------------------------------------------------

    def rounded_down(self, at: Ints) -> Ints:
        """Round times on the line down to the unit of the step; measured times stay."""
        if self.measured:
            return at
        unit = _UNITS["d" if self._by_calendar else self._unit]
        if self.timezone is None or self._by_calendar:
            return at - at % unit
        walls = [self._local(_EPOCH + timedelta(microseconds=one)) for one in at.tolist()]
        since = [(wall.replace(tzinfo=None) - _EPOCH) // _MICROSECOND for wall in walls]
        return at - np.array(since, dtype=np.int64) % unit

    def shown(self, at: int, *, zoned: bool = False, digits: int = 0) -> str:
        """Return a time on the line as text; empty if it is outside the calendar."""
        if self.measured:
            exact = Decimal(at).scaleb(-digits)
            return f"{exact.normalize():f}" if exact else "0"
        return self._stamp(at, zoned)

    def _local(self, moment: datetime) -> datetime:
        """Convert UTC to local time if the clock has a time zone."""
        if self.timezone is None:
            return moment
        return moment.replace(tzinfo=UTC).astimezone(ZoneInfo(self.timezone))

    def _stamp(self, at: int, zoned: bool) -> str:
        if not _FIRST <= at <= _LAST:
            return ""
        moment = _EPOCH + timedelta(microseconds=at)
        if not self._by_calendar:
            moment = self._local(moment)
            if self.timezone is None and zoned:
                moment = moment.replace(tzinfo=UTC)
        elif not at % _UNITS["d"]:
            return moment.date().isoformat()
        fine = at % _UNITS["min"] or (self.size or 0) % _UNITS["min"]
        return moment.isoformat(timespec="auto" if fine else "minutes")


def clock_of(
    step: str | float | None,
    origin: str | float | date | None,
    timezone: str | None,
    kind: str | None = None,
) -> Clock | None:
    """Build the clock that the settings describe; None if times already are step numbers.

    Without a kind, each trace has its own clock, unless an origin is given for all of them.

    Raises:
        DataError: the settings do not describe a clock.
    """
    if step is None and kind is None:
        for name, value in (("origin", origin), ("timezone", timezone)):
            if value is not None:
                raise DataError(f"'{name}' is set, but there is no step", hint=SAY_STEP)
        return None
    if kind == "events" and step is not None:
        raise DataError(
            "with the clock of events, the times of a trace are its steps, so there is no length",
            hint='leave out the step, or the clock "events"',
        )
    start = origin.isoformat() if isinstance(origin, date) else origin
    return Clock(
        None if step is None else str(step), None if start is None else str(start), timezone,
        kind or ("own" if start is None else "shared"),
    )  # fmt: skip


def plain_times(place: TablePlace, table: pa.Table, column: str) -> pa.ChunkedArray:
    """Return a column of times: of a type for times or numbers, or else as text."""
    cells = single_column(place, table, column)
    kind = cells.type
    if holds_stamps(cells) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return cells
    return as_text(place, table.select([column])).column(column)


def _measured(column: pa.ChunkedArray) -> Readings:
    """Read times that are plain numbers."""
    read = decimals(column.cast(pa.string()) if holds_stamps(column) else column)
    return Readings(
        read.units, read.valid, read.wrong, np.zeros(len(read.units), dtype=bool), read.rounded,
        read.digits, read.spacing,
    )  # fmt: skip


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.cast(pa.string()) if numeric else column
