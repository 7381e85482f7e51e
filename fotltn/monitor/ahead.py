"""Find the steps at which the rest of a batch makes a formula true.

Truth over a batch is a number: bit i is the truth at step i. A formula that needs later batches
counts as false. This only saves work: a watch need not follow cells that become true in the batch.
"""

from __future__ import annotations

from operator import rshift
from typing import assert_never

from fotltn.logic import core as c
from fotltn.monitor.automaton import Automaton
from fotltn.monitor.since import all_of, within


def surely(automaton: Automaton, letters: list[int], count: int) -> int:
    """Return the steps at which a formula over letters is true, whatever comes after the batch."""
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
                values.append(
                    released | (all_of(b, points, rshift) >> window.low if bounded else 0)
                )
            case (
                c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Quantifier() | c.Aggregate()
            ):  # fmt: skip
                raise AssertionError(node)  # a letter stands for it, or it is not in normal form
            case never:
                assert_never(never)
    return values[-1]


def _until(a: int, b: int, low: int, high: int) -> int:
    """Return where `b` is true at a point from low to high ahead, and `a` at all points before."""
    return all_of(a, low, rshift) & within(a, b, high - low + 1, rshift) >> low
