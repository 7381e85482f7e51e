"""Warnings about time stamps: a long time without facts, and traces that begin after others.

Either may be meant. More often a date is mistyped, or each trace should have steps of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fotltn.errors import Diagnostic, warning
from fotltn.format import count
from fotltn.grounding.cells import Ints
from fotltn.grounding.facts import Facts

#: A gap is long if it has at least so many steps, and so many times as all other steps.
_STEPS, _TIMES = 100, 9

#: A trace begins late if so many of its steps, and this share of them, come before its first fact.
_FIRST, _SHARE = 10, 0.25


def odd_times(facts: Facts) -> Iterator[Diagnostic]:
    """Yield warnings about facts with time stamps."""
    if facts.clock is None:
        return
    steps, first = _steps(facts)
    if len(steps) < 2:
        return
    late = [
        trace for trace, at in enumerate(first.tolist())
        if at >= max(_FIRST, _SHARE * facts.lengths[trace])
    ]  # fmt: skip
    if late and len(late) < len(facts.traces):
        trace = late[0]
        yield warning(
            f"the first fact of trace '{facts.traces[trace]}' is at step "
            f"{count(int(first[trace]))} of {count(facts.lengths[trace])}, because all traces "
            "share one clock; no fact is about the steps before",
            hint="if traces are not meant to begin together, give times as numbers that each trace "
            "counts from 0",
        )
        return
    before = int(np.diff(steps).argmax())
    start, end = int(steps[before]), int(steps[before + 1])
    others = int(steps[-1] - steps[0]) - (end - start)
    if end - start >= max(_STEPS, _TIMES * others):
        times = [facts.clock.text(step) for step in (start, end)]
        yield warning(
            f"no fact is between {times[0]} and {times[1]}, which are {count(end - start)} steps",
            hint="look whether a date is mistyped",
        )


def _steps(facts: Facts) -> tuple[Ints, Ints]:
    """The steps that have facts, sorted, and the first one of each trace."""
    first = np.full(len(facts.traces), np.iinfo(np.int64).max)
    of_symbols: list[Ints] = []
    for rows in facts.rows.values():
        timed = rows.time >= 0
        of_symbols.append(np.unique(rows.time[timed]))
        timed &= rows.trace >= 0
        np.minimum.at(first, rows.trace[timed], rows.time[timed])
    steps = np.unique(np.concatenate([np.zeros(0, np.int64), *of_symbols]))
    return steps, np.where(first == np.iinfo(np.int64).max, 0, first)
