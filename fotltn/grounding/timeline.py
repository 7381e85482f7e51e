"""The times of traces as numbers of steps, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fotltn.errors import DataError
from fotltn.grounding.cells import Bools, Ints, encode, numbers
from fotltn.grounding.clock import (
    A_STAMP,
    SAY_STEP,
    Clock,
    Readings,
    plain_times,
)
from fotltn.grounding.collect import Collector
from fotltn.grounding.read import TablePlace, as_text
from fotltn.grounding.stamps import holds_stamps, is_stamp, without_zone

_MOST = 2**31
_LARGE = 2**62
_CLOSE = 10**9  # a rounded time may miss a step by this part of one

#: The name of the trace of tables without traces.
_ONLY = ""


class TimedTable(NamedTuple):
    """A table with times.

    Args:
        place: where the table is.
        table: its rows.
        time: the column of times, if it has one.
        trace: the column of traces, if it has one.
    """

    place: TablePlace
    table: pa.Table
    time: str | None
    trace: str | None


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Where the steps of each trace are in time.

    Args:
        clock: how times map to steps.
        begins: where step 0 of each trace begins, by the name of the trace. The times are on the
            clock's number line.
        common: where step 0 of all traces begins, if they share a clock.
        moments: the time of each step of each trace, if the times of a trace are its steps.
        zoned: whether times state their zone.
        digits: how many digits measured times have after the point.
    """

    clock: Clock
    begins: Mapping[str, int] = field(default_factory=dict)
    common: int | None = None
    moments: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    zoned: bool = False
    digits: int = 0

    @classmethod
    def shared(cls, clock: Clock) -> StepTimes:
        """Return the timeline of a shared clock with an origin."""
        read = clock.read(pa.chunked_array([[clock.origin]]))
        digits = _digits(clock, [read])
        (at,) = _scaled(read, digits).at.tolist()
        return cls(clock, common=at, zoned=bool(read.zoned[0]), digits=digits)

    @property
    def origin(self) -> str | None:
        """The time at which step 0 of all traces begins, as text; None if each has its own."""
        return None if self.common is None else self._shown(self.common)

    def text(self, step: int, trace: str) -> str:
        """Return the time at which a step of a trace begins; empty if it is not known."""
        if self.clock.kind == "events":
            times = self.moments.get(trace, ())
            return self._shown(times[step]) if 0 <= step < len(times) else ""
        begin = self.common if self.common is not None else self.begins.get(trace)
        size = self.clock.size
        if begin is None or size is None:
            return ""
        units = 10**self.digits if self.clock.measured else 1
        return self._shown(begin + int(step * size * units))

    def _shown(self, at: int) -> str:
        return self.clock.shown(at, zoned=self.zoned, digits=self.digits)

    def steps(self, read: Readings, traces: Ints, names: Sequence[str]) -> Ints:
        """Return the step of each time; negative for times before step 0 or beside all steps.

        Args:
            read: the times.
            traces: the trace of each time, by its place in `names`; -1 for none.
            names: the names of traces.
        """
        if self.clock.kind == "events":
            return self._events(_scaled(read, self.digits).at, traces, names)
        none = self.common if self.common is not None else _LARGE
        begins = np.array([*(self.begins.get(name, none) for name in names), none])
        digits = max(self.digits, read.digits)
        if np.abs(begins[begins < _LARGE]).max(initial=0) > _LARGE // 10 ** (digits - self.digits):
            digits = self.digits
        known = begins[traces] < _LARGE
        starts = np.where(known, begins[traces], 0) * 10 ** (digits - self.digits)
        since: Any = np.where(known, _scaled(read, digits).at - starts, -1)
        size = self.clock.size
        assert size is not None
        size = size * (10**digits if self.clock.measured else 1)
        largest = int(np.abs(since).max(initial=0)) * size.denominator
        if max(largest, size.numerator) > _LARGE:
            since = since.astype(object)
        since = since * size.denominator
        steps = since // size.numerator
        if read.rounded.any():
            missing = (steps + 1) * size.numerator - since
            steps = steps + (missing <= size.numerator // _CLOSE)
        numbered: Ints = np.where(known, np.clip(steps, -1, _LARGE), -1).astype(np.int64)
        return numbered

    def _events(self, at: Ints, traces: Ints, names: Sequence[str]) -> Ints:
        places_of_rows = np.full(len(at), -1, dtype=np.int64)
        order = np.argsort(traces, kind="stable")
        ends = np.searchsorted(traces[order], np.arange(-1, len(names)), side="right")
        for number, name in enumerate(names):
            rows = order[ends[number] : ends[number + 1]]
            times = np.array(self.moments.get(name, ()), dtype=np.int64)
            if len(rows) and len(times):
                places = np.minimum(np.searchsorted(times, at[rows]), len(times) - 1)
                places_of_rows[rows] = np.where(times[places] == at[rows], places, -1)
        return places_of_rows

    # --- what a model keeps -----------------------------------------------------------------------

    def as_dict(self, traces: Sequence[str]) -> dict[str, Any]:
        """Return what the settings do not say, for JSON."""
        said: dict[str, Any] = {"zoned": self.zoned, "digits": self.digits, "step": self.clock.step}
        if self.common is not None:
            return {**said, "begin": self.common}
        if self.clock.kind == "events":
            return {**said, "moments": [list(self.moments.get(name, ())) for name in traces]}
        return {**said, "begins": [self.begins.get(name) for name in traces]}

    @classmethod
    def of(cls, clock: Clock, stored: Mapping[str, Any], traces: Sequence[str]) -> StepTimes:
        """Restore a timeline from what `as_dict` returned.

        Raises:
            ValueError, KeyError, TypeError: something is missing or wrong.
        """
        step, zoned, digits = stored["step"], stored["zoned"], stored["digits"]
        if not (type(zoned) is bool and type(digits) is int and 0 <= digits <= 18):
            raise ValueError("the clock is wrong")
        clock = replace(clock, step=str(step))
        made = cls(clock, zoned=zoned, digits=digits)
        if clock.kind == "shared":
            return replace(made, common=_whole(stored["begin"]))
        if clock.kind == "events":
            moments = zip(traces, stored["moments"], strict=True)
            return replace(made, moments={t: tuple(map(_whole, at)) for t, at in moments})
        begins = zip(traces, stored["begins"], strict=True)
        return replace(made, begins={t: _whole(at) for t, at in begins if at is not None})


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) > _LARGE:
        raise ValueError(f"{value!r:.40} is not a time")
    return value


def on_clock(
    collector: Collector, timing: Clock | StepTimes, tables: Sequence[TimedTable]
) -> tuple[StepTimes, list[tuple[TablePlace, pa.Table]]]:
    """Replace the times of tables by step numbers; also return where the steps are in time.

    Args:
        collector: receives the errors.
        timing: how times map to steps, or where the steps already are.
        tables: the tables.

    Raises:
        DataError: lists the file, row and column of each invalid time, each time before the origin
            and each row that names no trace, up to 20.
    """
    timed = {
        number: column
        for number, (_, table, column, _) in enumerate(tables)
        if column is not None and table.column_names.count(column) == 1
    }
    columns = {n: plain_times(tables[n].place, tables[n].table, c) for n, c in timed.items()}
    clock = timing if isinstance(timing, Clock) else timing.clock
    if clock.step is None:
        clock = replace(clock, step=_step_of_events(columns.values()))
    readings: dict[int, Readings] = {}
    for number, column in columns.items():
        collector.begin(tables[number].place)
        readings[number] = clock.read(column)
    complaints = _Complaints(collector, clock, tables)
    complaints.wrong(readings)
    complaints.zones(readings)
    names, rows = [_ONLY], {n: np.zeros(len(read.at), np.int64) for n, read in readings.items()}
    if clock.kind != "shared":  # which asks for no trace
        named, traces = _traces([tables[number] for number in timed])
        if named:
            names, rows = named, dict(zip(timed, traces, strict=True))
            complaints.traces(readings, rows)
    if collector.count:
        raise DataError(*collector.shown())
    timeline = _begun(clock, readings, rows, names) if isinstance(timing, Clock) else timing
    complaints.coarse(readings, timeline)
    done = [(place, table) for place, table, _, _ in tables]
    for number, column in timed.items():
        place, table, _, _ = tables[number]
        read = readings[number]
        steps = timeline.steps(read, rows[number], names)
        complaints.outside(number, timeline, steps, read.valid)
        cells = pa.array(steps, mask=~read.valid)
        done[number] = (place, table.set_column(table.column_names.index(column), column, cells))
    if collector.count:
        raise DataError(*collector.shown())
    return timeline, done


def _step_of_events(columns: Any) -> str:
    """Return a step of the kind of all times: time stamps if the first one is, or else numbers."""
    for column in columns:
        if holds_stamps(column):
            return "1s"
        first = column.drop_null().slice(0, 1).cast(pa.string()).to_pylist()
        if first:
            return "1s" if is_stamp(first[0].strip()) else "1"
    return "1"


def _traces(tables: Sequence[TimedTable]) -> tuple[list[str], list[Ints]]:
    """Return the names of traces, and for each table the number of each row's trace, or -1."""
    numbered: dict[str, int] = {}
    of_tables = []
    for place, table, _, column in tables:
        if column is None or table.column_names.count(column) != 1:
            of_tables.append(np.full(table.num_rows, -1, dtype=np.int64))
            continue
        words, codes = encode(as_text(place, table.select([column])).column(column))
        of_words = [
            -1 if word is None else numbered.setdefault(word, len(numbered))
            for word in words.to_pylist()
        ]
        of_tables.append(np.array([*of_words, -1], dtype=np.int64)[codes])
    return [*numbered], of_tables


def trace_rows(place: TablePlace, table: pa.Table, column: str | None) -> tuple[list[str], Ints]:
    """Return the names of a table's traces and the number of each row's; the only one is 0."""
    names, (rows,) = _traces([TimedTable(place, table, None, column)])
    return (names, rows) if names else ([_ONLY], np.zeros(table.num_rows, dtype=np.int64))


def _digits(clock: Clock, readings: Sequence[Readings]) -> int:
    """Return how many digits after the point hold all measured times and the step."""
    if not clock.measured:
        return 0
    size = clock.size
    assert size is not None
    digits = 0
    while digits < 9 and (size * 10**digits).denominator > 1:
        digits += 1
    return max([digits, *(read.digits for read in readings)])


def _scaled(read: Readings, digits: int) -> Readings:
    """Return measured times with so many digits; those that no longer fit are far away."""
    if digits == read.digits:
        return read
    if digits < read.digits:
        return read._replace(at=read.at // 10 ** (read.digits - digits), digits=digits)
    factor = 10 ** (digits - read.digits)
    large = np.abs(read.at) > _LARGE // factor
    return read._replace(at=np.where(large, _LARGE, read.at * factor), digits=digits)


def _begun(
    clock: Clock, readings: Mapping[int, Readings], rows: Mapping[int, Ints], names: Sequence[str]
) -> StepTimes:
    """Return where the steps of traces are, from their times."""
    if clock.kind == "shared" and clock.origin is not None:
        return StepTimes.shared(clock)
    digits = _digits(clock, [*readings.values()])
    at = [_scaled(read, digits).at[read.good] for read in readings.values()]
    of = [rows[number][read.good] for number, read in readings.items()]
    zoned = any(bool(read.zoned[read.good].any()) for read in readings.values())
    times = np.concatenate([np.zeros(0, np.int64), *at])
    traces = np.concatenate([np.zeros(0, np.int64), *of])
    made = StepTimes(clock, zoned=zoned, digits=digits)
    if clock.kind == "events":
        order = np.lexsort((times, traces))
        times, traces = times[order], traces[order]
        new = np.ones(len(times), dtype=bool)
        new[1:] = (np.diff(times) != 0) | (np.diff(traces) != 0)
        times, traces = times[new], traces[new]
        ends = np.searchsorted(traces, np.arange(len(names) + 1))
        return replace(made, moments={
            name: tuple(times[ends[i] : ends[i + 1]].tolist()) for i, name in enumerate(names)
        })  # fmt: skip
    if clock.kind == "shared":
        first = clock.rounded_down(times.min(keepdims=True)) if len(times) else np.zeros(1, int)
        return replace(made, common=int(first[0]))
    first = np.full(len(names), _LARGE, dtype=np.int64)
    np.minimum.at(first, traces, times)
    known = first < _LARGE
    first[known] = clock.rounded_down(first[known])
    begins = zip(names, first.tolist(), known.tolist(), strict=True)
    return replace(made, begins={name: at for name, at, there in begins if there})


class _Complaints:
    """Reports invalid times, each with its place."""

    def __init__(
        self,
        collector: Collector,
        clock: Clock,
        tables: Sequence[TimedTable],
    ) -> None:
        self.collector, self.clock, self.tables = collector, clock, tables

    def _say(self, i: int, row: int, message: str, hint: str | None = None) -> None:
        place, table, column, _ = self.tables[i]
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
        origin = None if self.clock.origin is None else StepTimes.shared(self.clock).zoned
        usual, others = origin, "other times" if origin is None else "the origin"
        for i, read in readings.items():
            good = np.flatnonzero(read.good)
            if usual is None and len(good):
                usual = bool(read.zoned[good[0]])
            for row in map(int, good[read.zoned[good] != usual][:1]):
                verb = "have" if origin is None else "has"
                said = f"no time zone, but {others} {verb} one"
                said = said if usual else f"a time zone, but {others} {verb} none"
                hint = 'name the zone of times that state none: timezone = "Europe/Berlin"'
                self._say(i, row, f"{{cell}} has {said}", hint)

    def traces(self, readings: Mapping[int, Readings], rows: Mapping[int, Ints]) -> None:
        """Report times without a trace, if each trace has a clock of its own."""
        for i, read in readings.items():
            for row in map(int, np.flatnonzero(read.good & (rows[i] < 0))):
                hint = 'name its trace; or set clock = "shared", if all traces have one clock'
                self._say(i, row, "{cell} names no trace, and each trace has its own clock", hint)

    def coarse(self, readings: Mapping[int, Readings], timeline: StepTimes) -> None:
        """Report times of a type whose numbers are further apart than steps."""
        size = timeline.clock.size
        for i, read in readings.items():
            if timeline.clock.kind == "events" or size is None or read.spacing <= size:
                continue
            place, table, column, _ = self.tables[i]
            kind = table.column(column).type
            self.collector.complain(
                replace(place, column=column),
                None,
                f"times of the type {kind} are up to {read.spacing:g} apart here, so steps of "
                f"{timeline.clock.step} cannot be told",
                "give times as text or whole numbers, or as numbers of a type with more digits",
            )

    def outside(self, i: int, timeline: StepTimes, steps: Ints, valid: Bools) -> None:
        """Report times that are before the origin, or too far after it."""
        begin = "the first time of its trace"
        if timeline.common is not None:
            begin = f"the origin, {timeline.clock.origin or timeline.origin}"
        missing = f"before {begin}"
        if timeline.clock.kind == "events":
            missing = "no time of its trace"
        for row in map(int, np.flatnonzero(valid & (steps < 0))):
            self._say(i, row, f"{{cell}} is {missing}")
        for row in map(int, np.flatnonzero(valid & (steps >= _MOST))):
            far = f"{{cell}} is {steps[row]:,} steps after {begin}"
            self._say(i, row, f"{far}; the distance must be below {_MOST:,}")
