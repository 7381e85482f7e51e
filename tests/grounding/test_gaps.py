"""Time stamps that are probably not meant are told; those that may be meant are not."""

from __future__ import annotations

import pytest

from fotltn.grounding.clock import Clock
from fotltn.grounding.facts import read_facts
from fotltn.grounding.gaps import odd_times
from fotltn.logic.check import check
from fotltn.syntax.load import parse_theory

SIGNATURE = check(parse_theory("sort a\npredicate P(a), Q(a)\n")).signature


def told(*rows: tuple[str, str], step: str | None = "1h") -> list[str]:
    traces, times = zip(*rows, strict=True)
    table = {
        "trace": [*traces], "predicate": ["P"] * len(rows), "arg1": ["x"] * len(rows),
        "time": [*times], "truth": [1] * len(rows),
    }  # fmt: skip
    clock = None if step is None else Clock(step)
    facts = read_facts([table], SIGNATURE, clock=clock)
    return [one.message for one in odd_times(facts)]


def hours(trace: str, *at: int, day: int = 1) -> list[tuple[str, str]]:
    return [(trace, f"2026-03-{day:02d}T{hour:02d}:00") for hour in at]


@pytest.mark.parametrize(
    "rows",
    [
        hours("one", 0, 1, 5, 9),
        [*hours("one", 0, 3, 20), *hours("two", 1, 4, 20)],
        [*hours("one", 0, 3), *hours("one", 0, 3, day=3)],  # nothing for two days, of three
    ],
)
def test_usual_times_are_not_told(rows):
    assert told(*rows) == []


def test_a_trace_that_begins_after_another_is_told():
    rows = [*hours("one", 6, 7, 12), *hours("two", 6, 9, 12, day=2)]
    (message,) = told(*rows)
    assert message.startswith("the first fact of trace 'two' is at step 24 of 31, because all")


def test_a_date_far_from_all_others_is_told():
    (message,) = told(*hours("one", 0, 1, 2, 3, 7), *hours("one", 4, day=20))
    assert (
        message == "no fact is between 2026-03-01T07:00 and 2026-03-20T04:00, which are 453 steps"
    )


def test_numbers_of_steps_are_not_told():
    assert told(("one", "0"), ("one", "5000"), ("two", "4000"), step=None) == []
