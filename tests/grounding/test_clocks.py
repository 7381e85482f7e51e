"""Whose time it is: each trace's own, one that all share, or that of its events; and exactness."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fotltn
from fotltn import DataError

pytestmark = pytest.mark.filterwarnings("ignore:'P'.* repeated fact:fotltn.errors.DataWarning")

THEORY = fotltn.parse("sort a\npredicate P(a)\naxiom A: forall x. G P(x)")


def read(times: Any, traces: list[str] | None = None, **settings: Any) -> fotltn.Tables:
    table: dict[str, Any] = {"predicate": ["P"] * len(times), "arg1": ["x"] * len(times)}
    table["time"] = times
    if traces is not None:
        table["trace"] = traces
    return fotltn.read(THEORY, pa.table(table), **settings)


def true_at(data: fotltn.Tables) -> list[list[int]]:
    """The steps of each trace at which there is a fact."""
    dense = data.predicate("P")
    rows = dense.reshape(data.batch, -1)
    return [row.nonzero().flatten().tolist() for row in rows]


# --- whose time it is ---------------------------------------------------------------------------


def test_each_trace_has_its_own_clock():
    """Two rows on two days are the first steps of two traces, unless these share a clock."""
    days = ["2020-01-01T08:10", "2020-01-02T08:20"]
    own = read(days, ["m", "t"], step="1h")
    assert fotltn.evaluate(THEORY["A"], own).tolist() == [1.0, 1.0]
    assert [own.names.when(trace, 0) for trace in (0, 1)] == [
        "2020-01-01T08:00",
        "2020-01-02T08:00",
    ]
    shared = read(days, ["m", "t"], step="1h", clock="shared")
    assert true_at(shared) == [[0], [24]]
    assert shared.names.when(1, 24) == "2020-01-02T08:00"
    since = read(days, ["m", "t"], step="1h", origin="2020-01-01")  # which all traces have
    assert true_at(since) == [[8], [32]]


def test_the_times_of_a_trace_are_its_steps_with_the_clock_of_events():
    times = ["2020-01-01T08:10", "2020-03-02T08:20", "2020-01-01T08:10:01", "2021-01-01"]
    data = read(times, ["m", "m", "t", "m"], clock="events")
    assert true_at(data) == [[0, 1, 2], [0]]
    assert [data.names.when(0, step) for step in range(4)] == [
        "2020-01-01T08:10:00", "2020-03-02T08:20:00", "2021-01-01T00:00:00", ""
    ]  # fmt: skip
    measured = read([0.25, -3, 7e3], clock="events")
    assert [measured.names.when(0, step) for step in range(3)] == ["-3", "0.25", "7000"]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["own", "shared", "events"])
def test_steps_are_those_of_loops(seed, kind):
    rng = random.Random(seed)
    minutes, traces = rng.choice([1, 5, 15, 60]), rng.choice([1, 2, 5])
    rows = sorted({(rng.randrange(traces), rng.randrange(400)) for _ in range(30)})
    begin = np.datetime64("2024-02-27T22:00")
    stamps = [str(begin + np.timedelta64(at, "m")) for _, at in rows]
    named = [f"t{trace}" for trace, _ in rows]
    settings = {} if kind == "events" else {"step": f"{minutes}min"}
    data = read(stamps, named, clock=kind, **settings)
    by_trace: dict[str, list[int]] = {}
    for trace, at in rows:
        by_trace.setdefault(f"t{trace}", []).append(at)
    first = min(at for _, at in rows)
    for number, name in enumerate(data.names.traces):
        times = sorted(set(by_trace[name]))
        cut = times[0] if kind == "own" else first
        wanted = sorted({(one - cut) // minutes for one in times})
        if kind == "events":
            wanted = [*range(len(times))]
            shown = [data.names.when(number, step) for step in wanted]
            assert [np.datetime64(one) for one in shown] == [
                begin + np.timedelta64(one, "m") for one in times
            ]
        assert true_at(data)[number] == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": "1h", "clock": "mine"}, "not 'mine'"),
        ({"clock": "own"}, 'the clock is "own", but there is no step'),
        ({"clock": "events", "step": "1h"}, "so there is no length"),
        ({"clock": "own", "step": "1h", "origin": "2020-01-01"}, "belongs to a shared clock"),
    ],
)
def test_what_does_not_fit_together(settings, message):
    with pytest.raises(DataError) as raised:
        read(["2020-01-01"], **settings)
    assert message in str(raised.value)


def test_a_time_without_a_trace_needs_a_shared_clock():
    times, traces = ["2020-01-01", "2020-01-02"], pa.array(["m", None])
    table = {"predicate": ["P", "P"], "arg1": ["x", "x"], "time": times, "trace": traces}
    with pytest.raises(DataError, match=r"row 2.*names no trace, and each trace has its own clock"):
        fotltn.read(THEORY, table, step="1d")
    assert true_at(fotltn.read(THEORY, table, step="1d", clock="shared")) == [[0, 1]]


# --- exactness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["floats", "text", "typed"])
def test_tenths_of_seconds_since_1970_lose_no_fact(kind):
    exact = [Fraction(17_000_000_000 + n, 10) for n in range(1000)]
    cells: Any = [float(one) for one in exact]
    if kind == "text":
        cells = [f"{int(one)}.{int(one * 10) % 10}" for one in exact]
    if kind == "typed":
        cells = pa.array(cells, pa.float64())
    assert true_at(read(cells, step=0.1)) == [[*range(1000)]]


@pytest.mark.parametrize("step", ["0.1", "0.3", "1/3", "0.125", "1e-3", "60"])
def test_sums_of_floats_belong_to_their_step(step):
    """As `start + n * step` gives them, which rounds; others are exact and are not moved."""
    counts = [0, *sorted(random.Random(step).sample(range(1, 3000), 60))]
    size = float(Fraction(step))
    for start in (0.0, 5.5, 1000.0):
        times = [start + n * size for n in counts]
        for cells in (times, [repr(t) for t in times]):
            assert true_at(read(cells, step=step)) == [counts]
    just_before = ["0", "999999999.999999999"]
    assert true_at(read(just_before, step="1000000000")) == [[0]]


def test_times_whose_type_is_too_coarse_are_refused():
    coarse = pa.array([1.7e9, 1.7e9 + 256], pa.float32())
    with pytest.raises(DataError, match=r"up to 128 apart here, so steps of 1 cannot be told"):
        read(coarse, step=1)
    assert true_at(read(coarse, step=256)) == [[0, 1]]


@pytest.mark.parametrize("cell", ["1e400", "x", "nan", "inf", "1" * 40, "--1", "1e", "0x10"])
def test_what_is_no_number_is_refused(cell):
    with pytest.raises(DataError, match="is not a time; expected a number"):
        read(["1", cell], step=1)
