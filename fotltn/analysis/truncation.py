"""What a formula could still become if its traces went on: which violations are due to their ends.

A trace that ends is read as if nothing came after it: `F a` is false if `a` has not come by then.
If more points followed, it might be true. Each formula has two bounds over all ways to go on, `low`
and `high`, and they are formulas again.
"""

from __future__ import annotations

from typing import NamedTuple

from fotltn.logic import core as c
from fotltn.tree import fold

_FALSE = c.Truth(False)
_TRUE = c.Truth(True)


class Bounds(NamedTuple):
    """True if a formula is true however the trace goes on, and if it goes on well."""

    low: c.Formula
    high: c.Formula


def if_longer(formula: c.Formula) -> c.Formula:
    """A formula that is true where `formula` could be, if its trace went on.

    It is `formula` itself if the end of the trace makes nothing false. The atoms `first` and
    `last`, and the guards of quantifiers, are taken as they are.

    >>> if_longer(c.Aggregate(False, c.Atom("p", ()), c.Window(0, 2), past=False))
    <Or of 5 nodes>
    """

    def visit(node: c.Core, below: list[Bounds | None]) -> Bounds | None:
        return _bounds(node, below) if isinstance(node, c.Formula) else None

    found = fold(formula, visit)
    assert found is not None
    return found.high


def reach(formula: c.Formula) -> int | None:
    """How many points ahead a formula looks at most; None if it looks as far as there are any.

    >>> reach(c.Aggregate(False, c.Shift(c.Truth(True), 1, False, True), c.Window(0, 2), False))
    3
    """

    def visit(node: c.Core, below: list[int | None]) -> int | None:
        ahead = 0
        match node:
            case c.Shift(_, steps, False):
                ahead = steps
            case c.Edge(False):
                return None
            case c.Aggregate(_, _, window, False) | c.Until(_, _, _, window, False):
                if window.high is None:
                    return None
                ahead = window.high
        found = [far for far in below if far is not None]
        return ahead + max(found, default=0) if len(found) == len(below) else None

    return fold(formula, visit)


def _bounds(node: c.Formula, below: list[Bounds | None]) -> Bounds:
    match node, below:
        case c.Not(), [Bounds(low, high)]:
            return Bounds(c.Not(high), c.Not(low))
        case c.And() | c.Or(), [Bounds(low, high), Bounds(other_low, other_high)]:
            return Bounds(type(node)(low, other_low), type(node)(high, other_high))
        case c.Implies(), [Bounds(low, high), Bounds(other_low, other_high)]:
            return Bounds(c.Implies(high, other_low), c.Implies(low, other_high))
        case c.Quantifier(universal, axes, guard, _), [*_, Bounds(low, high)]:
            return Bounds(*(c.Quantifier(universal, axes, guard, a) for a in (low, high)))
        case c.Shift(_, steps, past, weak), [Bounds(low, high)]:
            ends = (weak, weak) if past else (False, True)
            return Bounds(c.Shift(low, steps, past, ends[0]), c.Shift(high, steps, past, ends[1]))
        case c.Aggregate(universal, _, window, past), [Bounds(low, high)]:
            lower: c.Formula = c.Aggregate(universal, low, window, past)
            upper: c.Formula = c.Aggregate(universal, high, window, past)
            if not past and universal:
                lower = _and(lower, _whole(window))
            elif not past:
                upper = _or(upper, _cut(window))
            return Bounds(lower, upper)
        case c.Until(dual, _, _, window, past), [Bounds(a, b), Bounds(x, y)]:
            lower = c.Until(dual, a, x, window, past)
            upper = c.Until(dual, b, y, window, past)
            rest = c.Window(0, window.high)
            if not past and dual:  # nothing has released yet, and something may come
                lower = _and(lower, _or(c.Aggregate(False, a, rest, past), _whole(window)))
            elif not past:
                upper = _or(upper, _and(c.Aggregate(True, b, rest, past), _cut(window)))
            return Bounds(lower, upper)
    return Bounds(node, node)


def _cut(window: c.Window) -> c.Formula:
    """True where a window reaches beyond the end of the trace."""
    return _TRUE if window.high is None else c.Shift(_FALSE, window.high, past=False, weak=True)


def _whole(window: c.Window) -> c.Formula:
    """True where a window lies inside the trace."""
    return _FALSE if window.high is None else c.Shift(_TRUE, window.high, past=False, weak=False)


def _and(a: c.Formula, b: c.Formula) -> c.Formula:
    return b if a == _TRUE else a if b == _TRUE else c.And(a, b)


def _or(a: c.Formula, b: c.Formula) -> c.Formula:
    return _TRUE if _TRUE in (a, b) else c.Or(a, b)
