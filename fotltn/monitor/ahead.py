"""Find what comes true within a batch of steps, on bits.

Bit i of a number is the truth at step i. Anything that needs more than the batch counts as false.
This only saves work: cells that are decided within a batch need not be followed one by one.
"""

from __future__ import annotations

from typing import assert_never

from fotltn.logic import core as c
from fotltn.monitor.automaton import Automaton


def surely(automaton: Automaton, letters: list[int], count: int) -> int:
    """The steps at which a formula over letters is true, whatever comes after the batch."""
    full = (1 << count) - 1
    values: list[int] = []
    for formula, args in automaton.nodes:
        node = c.closed(formula)
        match node:
            case c.Truth(value):
                values.append(full if value else 0)
            case c.Atom():
                values.append(letters[automaton.atoms[node][1]])
            case c.Not():
                values.append(values[args[0]] ^ full)
            case c.And():
                values.append(values[args[0]] & values[args[1]])
            case c.Or():
                values.append(values[args[0]] | values[args[1]])
            case c.Shift(_, steps):
                values.append(values[args[0]] >> steps)
            case c.Until(dual, _, _, window):
                a, b = (values[arg] for arg in args)
                high = count if window.high is None else min(window.high, count)
                if not dual:
                    values.append(_until(a, b, window.low, high))
                    continue
                released = _until(b, a & b, 0, high) if window.low == 0 else 0
                bounded = window.high is not None and window.high < count
                points = window.high - window.low + 1 if window.high is not None else 0
                values.append(released | (_run(b, points) >> window.low if bounded else 0))
            case (
                c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Quantifier() | c.Aggregate()
            ):  # fmt: skip
                raise AssertionError(node)  # letters, or not in normal form
            case never:
                assert_never(never)
    return values[-1]


def _until(a: int, b: int, low: int, high: int) -> int:
    """`b` at one of the points from low to high, and `a` before it."""
    points, runs, wanted = 1, a, high - low + 1
    near = b
    while points < wanted:
        more = min(points, wanted - points)
        near |= _run(a, more) & near >> more if more < points else runs & near >> points
        runs, points = runs & runs >> points, points + more
    return _run(a, low) & near >> low if low else near


def _run(a: int, count: int) -> int:
    """Whether so many points from here on are all true."""
    points = 1
    while points < count:
        more = min(points, count - points)
        a, points = a & a >> more, points + more
    return a
