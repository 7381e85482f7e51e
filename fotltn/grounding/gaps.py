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
    if facts.timeline is None:
        return
    traces, steps = _stamped(facts)
    if len(steps) < 2:
        return
    if facts.timeline.common is None:
        yield from _longest(facts, traces, steps)
        return
    begins = np.flatnonzero(np.diff(traces, prepend=-1))
    late = [
        int(traces[at]) for at in begins
        if steps[at] >= max(_FIRST, _SHARE * facts.lengths[int(traces[at])])
    ]  # fmt: skip
    if late and len(late) < len(facts.traces):
        trace = late[0]
        first = int(steps[np.searchsorted(traces, trace)])
        yield warning(
            f"the first fact of trace '{facts.traces[trace]}' is at step "
            f"{count(first)} of {count(facts.lengths[trace])}, because all traces "
            "share one clock; no fact is about the steps before",
            hint="if traces do not happen together, let each begin at its own step 0: "
            'clock = "own"',
        )
        return
    every = np.unique(steps)
    yield from _longest(facts, np.zeros(len(every), np.int64), every)


def _longest(facts: Facts, traces: Ints, steps: Ints) -> Iterator[Diagnostic]:
    """Warn of a long time without facts; steps are sorted by trace and then by time."""
    assert facts.timeline is not None
    gaps = np.where(np.diff(traces) == 0, np.diff(steps), 0)
    if not len(gaps):
        return
    before = int(gaps.argmax())
    trace, start, end = (int(of) for of in (traces[before], steps[before], steps[before + 1]))
    others = int(gaps[traces[1:] == trace].sum()) - (end - start)
    if end - start >= max(_STEPS, _TIMES * others):
        times = [facts.timeline.text(step, facts.traces[trace]) for step in (start, end)]
        yield warning(
            f"no fact is between {times[0]} and {times[1]}, which are {count(end - start)} steps",
            hint="look whether a date is mistyped",
        )


def _stamped(facts: Facts) -> tuple[Ints, Ints]:
    """Return the traces and steps that have facts, sorted, each once."""
    most = max(facts.lengths, default=1)
    of_symbols = []
    for rows in facts.rows.values():
        timed = (rows.time >= 0) & (rows.trace >= 0)
        of_symbols.append(np.unique(rows.trace[timed] * most + rows.time[timed]))
    every = np.unique(np.concatenate([np.zeros(0, np.int64), *of_symbols]))
    return every // most, every % most
