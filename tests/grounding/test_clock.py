"""Times that are time stamps, dates or measured numbers, as numbers of steps."""

import math
import random
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import fotltn
from fotltn import DataError, Wide
from fotltn.grounding.clock import SAY_STEP, Clock, clock_of
from fotltn.grounding.facts import read_facts
from fotltn.grounding.timeline import StepTimes
from fotltn.grounding.wide import read_wide
from tests.grounding.common import SIGNATURE, rows, write

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
NEW_YORK = "America/New_York"


def steps(cells: Any, **clock: Any) -> tuple[list[int], StepTimes]:
    """The numbers of times of a wide table, and where they are in time."""
    table = pa.table({"who": [f"e{i}" for i in range(len(cells))], "t": cells})
    wide = Wide(table, "agent", "who", time="t", presence="Stop")
    facts, _ = read_wide(
        [wide], SIGNATURE, clock=clock_of(**({"origin": None, "timezone": None} | clock))
    )
    assert facts.timeline is not None
    return [t for _, _, t, _ in rows(facts, "Stop")], facts.timeline


def slow(moment: datetime, origin: datetime, count: int, unit: str, zone: str | None) -> int:
    """The step of a time, by the calendar of Python."""
    if zone is not None:
        moment, origin = (
            t.replace(tzinfo=ZoneInfo(zone)) if t.tzinfo is None else t.astimezone(ZoneInfo(zone))
            for t in (moment, origin)
        )
    elif moment.tzinfo is not None:
        moment, origin = moment.astimezone(UTC), origin.astimezone(UTC)
    if unit in "dw":
        moment, origin = (t.replace(tzinfo=None) for t in (moment, origin))
    elif moment.tzinfo is not None:
        moment, origin = moment.astimezone(UTC), origin.astimezone(UTC)
    return (moment - origin) // timedelta(seconds=count * UNITS[unit])


def exists(moment: datetime, zone: str) -> bool:
    local = moment.replace(tzinfo=ZoneInfo(zone))
    return local.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment


def form(moment: datetime, rng: random.Random) -> str:
    """One of the ways to write a time."""
    text = moment.isoformat(timespec=rng.choice(["auto", "microseconds"]), sep=rng.choice("T "))
    text = text.replace("+00:00", "Z") if rng.random() < 0.5 else text
    return f" {text} " if rng.random() < 0.2 else text


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("zone", [None, NEW_YORK, "Australia/Lord_Howe"])
@pytest.mark.parametrize("kind", ["naive", "zoned"])
def test_steps_are_those_of_the_calendar(seed, zone, kind, tmp_path):
    rng = random.Random(seed)
    unit, count = rng.choice([*UNITS]), rng.choice([1, 1, 2, 7, 15])
    begin = datetime(2013, rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23))
    span = 400 * 86400 if unit in "hdw" else 10**6
    moments = [
        begin + timedelta(seconds=rng.randrange(span), microseconds=rng.randrange(10**6))
        for _ in range(60)
    ]
    if zone is not None and kind == "naive":
        moments = [m for m in moments if exists(m, zone)]
        assert exists(begin, zone)
    if kind == "zoned":
        shift = timezone(timedelta(minutes=rng.choice([-570, 0, 60, 345])))
        moments, begin = [m.replace(tzinfo=shift) for m in moments], begin.replace(tzinfo=UTC)
        begin -= timedelta(days=1)
    wanted = [slow(m, begin, count, unit, zone) for m in moments]
    clock = {"step": f"{count}{unit}", "origin": begin.isoformat(), "timezone": zone}
    for cells in (
        [form(m, rng) for m in moments],
        pa.array(moments, pa.timestamp("us", None if kind == "naive" else "Asia/Tokyo")),
        pa.array(moments, pa.timestamp("ns", None if kind == "naive" else "UTC")),
        pa.array([form(m, rng) for m in moments]).dictionary_encode(),
    ):
        assert steps(cells, **clock)[0] == wanted
    parquet.write_table(
        pa.table({"predicate": ["Rain"] * len(moments), "time": moments}), tmp_path / "t.parquet"
    )
    facts = read_facts([tmp_path / "t.parquet"], SIGNATURE, clock=clock_of(**clock))
    assert sorted({t for _, _, t, _ in rows(facts, "Rain")}) == sorted(set(wanted))


@pytest.mark.parametrize("unit", ["s", "min", "h", "d", "w"])
@pytest.mark.parametrize("zone", [None, NEW_YORK, "Asia/Kolkata"])
def test_the_earliest_time_is_the_origin(unit, zone):
    """Cut off to the unit, and shown so that it is read back as the same."""
    rng = random.Random(unit)
    for _ in range(10):
        cells = [datetime(2013, 5, rng.randint(1, 28), rng.randint(0, 23), 41, 7) for _ in range(9)]
        numbers, line = steps(cells, step=f"3{unit}", timezone=zone, kind="shared")
        first = min(cells)
        cut = {"s": 6, "min": 5, "h": 4}.get(unit, 3)
        begin = datetime(*first.timetuple()[:cut])  # type: ignore[arg-type]
        assert numbers == [slow(m, begin, 3, unit, zone) for m in cells]
        assert line.origin is not None
        assert datetime.fromisoformat(line.origin).replace(tzinfo=None) == begin
        again, given = steps(cells, step=f"3{unit}", timezone=zone, origin=line.origin)
        assert (again, given.common) == (numbers, line.common)
        alone, own = steps(cells, step=f"3{unit}", timezone=zone)
        assert (alone, own.text(1, "")) == (numbers, line.text(1, ""))
        for number, cell in zip(numbers, cells, strict=True):
            shown, after = (datetime.fromisoformat(line.text(n, "")) for n in (number, number + 1))
            at = cell.replace(tzinfo=ZoneInfo(zone)) if shown.tzinfo else cell
            assert shown <= at < after


def test_days_are_days_where_the_clock_is_put_forward():
    days = [date(2013, 3, 9) + timedelta(days=i) for i in range(4)]
    assert steps(days, step="1d", timezone=NEW_YORK)[0] == [0, 1, 2, 3]
    assert steps([str(d) for d in days], step="1d")[0] == [0, 1, 2, 3]
    hours = ["2013-03-10T01:59", "2013-03-10T03:00", "2013-03-10T23:00"]
    assert steps(hours, step="1h", origin="2013-03-10", timezone=NEW_YORK)[0] == [1, 2, 22]
    twice = [
        "2013-11-03T00:30",
        "2013-11-03T01:30-04:00",
        "2013-11-03T01:30-05:00",
        "2013-11-03T01:30",
    ]
    assert steps(twice, step="1h", timezone=NEW_YORK)[0] == [0, 1, 2, 1]  # the earlier of the two


def test_times_are_shown_as_they_are_counted():
    def shown(step: str, origin: str, zone: str | None = None) -> list[str]:
        return [StepTimes.shared(Clock(step, origin, zone)).text(n, "") for n in (0, 1, 2)]

    assert shown("1d", "2013-01-31") == ["2013-01-31", "2013-02-01", "2013-02-02"]
    assert shown("1d", "2013-01-31T06:00")[1] == "2013-02-01T06:00"
    assert shown("1h", "2013-01-31 23:00") == [
        "2013-01-31T23:00",
        "2013-02-01T00:00",
        "2013-02-01T01:00",
    ]
    assert shown("1h", "2013-01-31T23:00Z")[1] == "2013-02-01T00:00+00:00"
    assert shown("1h", "2013-03-10T01:00", NEW_YORK)[1] == "2013-03-10T03:00-04:00"
    assert shown("0.5s", "2013-01-31")[1] == "2013-01-31T00:00:00.500000"
    assert shown("0.1", "1.5") == ["1.5", "1.6", "1.7"]
    assert StepTimes.shared(Clock("1w", "9999-12-01")).text(9, "") == ""


@pytest.mark.parametrize("step", [0.1, 0.3, 2, 1e-3, 7.5])
def test_measured_times(step):
    """A time that is a step but for rounding is at that step."""
    rng = random.Random(1)
    counts = [rng.randrange(3000) for _ in range(50)]
    times = [5.5 + n * step for n in counts] + [
        5.5 + (n + rng.uniform(0.01, 0.99)) * step for n in counts
    ]
    for cells in (times, [repr(t) for t in times]):
        assert steps(cells, step=step, origin=5.5)[0] == counts + counts
    numbers, line = steps(times, step=step)
    assert line.text(0, "") == f"{min(times):g}"
    assert numbers == [math.floor((t - min(times)) / step + 1e-9) for t in times]


def test_empty_cells_and_other_columns_stay(tmp_path):
    text = "predicate,arg1,time\nCar,a,\nStop,a,2013-01-01T05:10\nStop,b,2013-01-01 07:00\n"
    facts = read_facts([write(tmp_path, text)], SIGNATURE, clock=Clock("1h"))
    assert rows(facts, "Car") == [("", ("a",), -1, 1.0)]
    assert rows(facts, "Stop") == [("", ("a",), 0, 1.0), ("", ("b",), 2, 1.0)]
    assert facts.timeline is not None
    assert facts.timeline.origin == "2013-01-01T05:00"


def test_all_tables_have_one_origin(tmp_path):
    long = write(tmp_path, "predicate,arg1,time\nStop,a,2013-01-02\n")
    wide = Wide({"who": ["a"], "t": [date(2013, 1, 1)]}, "agent", "who", time="t")
    facts, _ = read_wide([wide], SIGNATURE, facts=[long], clock=Clock("1d"))
    assert (rows(facts, "Stop"), facts.lengths) == ([("", ("a",), 1, 1.0)], (2,))


def test_arrays_of_numpy_and_python():
    days = np.array(["2013-01-01", "2013-01-03"], dtype="datetime64[ns]")
    frame = {"predicate": ["Rain"] * 2, "time": days}
    theory = fotltn.parse("predicate Rain\naxiom A: F Rain")
    data = fotltn.read(theory, frame, step="1d", origin=date(2012, 12, 31))
    assert data.predicate("Rain").tolist() == [[0.0, 1.0, 0.0, 1.0]]


STAMP = "expected a time stamp or date such as 2013-01-31T17:05 or 2013-01-31"
SAY = f"\n      = {SAY_STEP}"
ZONE = '\n      = name the zone of times that state none: timezone = "Europe/Berlin"'
NUMBERS = "\n      = if times are numbers, the step must be a number such as step = 3600"
FAR = "220,898,620,800 steps after the origin, 2013-01-01; the distance must be below 2,147,483,648"
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no step": (
        "2013-01-01",
        {},
        f" 'Stop' has the time '2013-01-01'; expected a whole number of at least 0{SAY}",
    ),
    "no time": ("soon", {"step": "1h"}, f"'soon' is not a time; {STAMP}"),
    "no day": ("2013-02-30", {"step": "1h"}, f"'2013-02-30' is not a time; {STAMP}"),
    "no zone": (
        "2013-02-03T00:00+99:00",
        {"step": "1h", "timezone": NEW_YORK},
        f"'2013-02-03T00:00+99:00' is not a time; {STAMP}",
    ),
    "a number": ("17", {"step": "1h"}, f"'17' is not a time; {STAMP}{NUMBERS}"),
    "a stamp": ("2013-01-01", {"step": 2}, f"'2013-01-01' is not a time; expected a number{SAY}"),
    "before the origin": (
        "2012-12-31 23:59",
        {"step": "1h", "origin": "2013-01-01"},
        "'2012-12-31 23:59' is before the origin, 2013-01-01",
    ),
    "before a number": ("0.5", {"step": 1, "origin": 0.75}, "'0.5' is before the origin, 0.75"),
    "far": ("9013-01-01", {"step": "1s", "origin": "2013-01-01"}, f"'9013-01-01' is {FAR}"),
    "no such hour": (
        "2013-03-10T02:30",
        {"step": "1h", "timezone": NEW_YORK},
        f"'2013-03-10T02:30' does not exist in {NEW_YORK}: clocks were set forward",
    ),
    "zone unlike the origin": (
        "2013-03-10T02:30Z",
        {"step": "1h", "origin": "2013-01-01"},
        f"'2013-03-10T02:30Z' has a time zone, but the origin has none{ZONE}",
    ),
    "zone unlike others": (
        "2013-03-10T02:30\nStop,a,2013-03-11\nStop,b,2013-03-11T02:00Z",
        {"step": "1h"},
        f"'2013-03-11T02:00Z' has a time zone, but other times have none{ZONE}",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_times(case, tmp_path):
    cell, settings, wanted = BAD[case]
    clock = clock_of(settings.get("step"), settings.get("origin"), settings.get("timezone"))
    file = write(tmp_path, f"predicate,arg1,time\nStop,a,{cell}\n")
    with pytest.raises(DataError) as raised:
        read_facts([file], SIGNATURE, clock=clock)
    line = 4 if case == "zone unlike others" else 2
    place = f"{file}:{line}:" if clock is None else f"{file}:{line}, column 'time': "
    assert str(raised.value) == f"error: {place}{wanted}"


def test_stamps_by_type_without_a_step():
    for table in (
        Wide({"who": ["a"], "t": [date(2013, 1, 1)]}, "agent", "who", time="t"),
        Wide({"who": ["a"], "t": ["2013-01-01"]}, "agent", "who", time="t"),
    ):
        with pytest.raises(DataError, match='set the length of a step: step = "1h"'):
            read_wide([table], SIGNATURE)
    with pytest.raises(
        DataError, match=r"'time': the times have the type timestamp\[us\]; expected"
    ):
        read_facts([{"predicate": ["Rain"], "time": [datetime(2013, 1, 1)]}], SIGNATURE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": "1 fortnight"}, "'1 fortnight' is not a step; expected a length of time"),
        ({"step": "0h"}, "'0h' is not a step"),
        ({"step": -1}, "'-1' is not a step"),
        ({"step": "0.0000001s"}, "is not a step"),
        ({"step": "1.5d"}, "days and weeks must be whole numbers"),
        (
            {"step": "1h", "timezone": "Mars/North"},
            "unknown time zone 'Mars/North'; expected a name",
        ),
        ({"step": "1h", "origin": "noon"}, "the origin is 'noon'; expected a time stamp or date"),
        ({"step": 1, "origin": "2013-01-01"}, "the origin is '2013-01-01'; expected a number"),
        ({"step": 1, "timezone": NEW_YORK}, "times that are numbers cannot have a time zone"),
        ({"origin": "2013-01-01"}, "'origin' is set, but there is no step"),
    ],
)
def test_what_is_no_clock(settings, message):
    with pytest.raises(DataError) as raised:
        clock_of(settings.get("step"), settings.get("origin"), settings.get("timezone"))
    assert message in str(raised.value)


@pytest.mark.parametrize("step", [None, "1h"])
@pytest.mark.parametrize("typed", [False, True])
def test_a_time_column_that_occurs_twice_is_refused(tmp_path, step, typed):
    times = [datetime(2020, 1, 1)] if typed else ["2020-01-01"]
    table = pa.Table.from_arrays(
        [pa.array(cells) for cells in (["Stop"], ["a"], times, times)],
        names=["predicate", "arg1", "time", "time"],
    )
    parquet.write_table(table, tmp_path / "f.parquet")
    clock = clock_of(step, None, None)
    with pytest.raises(DataError, match=r"f\.parquet: the column 'time' occurs twice"):
        read_facts([tmp_path / "f.parquet"], SIGNATURE, clock=clock)


def test_a_year_that_no_calendar_has_is_no_time(tmp_path):
    path = write(tmp_path, "predicate,arg1,time\nStop,a,0000-01-01\nStop,a,2020-01-01\n")
    with pytest.raises(DataError, match=r"f\.csv:2, column 'time': '0000-01-01' is not a time"):
        read_facts([path], SIGNATURE, clock=clock_of("1h", None, None))
