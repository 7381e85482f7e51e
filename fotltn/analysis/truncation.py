"""Find the violations that are due to the ends of traces.

A trace that ends is read as if nothing came after it: `F a` is false if `a` has not come by then.
If more points followed, it might be true. Each formula has two bounds over all ways to go on, `low`
and `high`, and they are formulas again.

A cell that fails only because its trace ends is undecided, unless the end is chosen to be final.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, assert_never, get_args

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.tree import children, postorder

#: How to treat a formula that fails only because the trace ends.
End = Literal["undecided", "final"]

_FALSE = c.Truth(False)
_TRUE = c.Truth(True)


class FutureBounds(NamedTuple):
    """Formulas: true however the trace goes on, and true if it goes on well."""

    low: c.Formula
    high: c.Formula


def end_of(name: str) -> End:
    """Return the choice with a name.

    Raises:
        DataError: there is no such choice.
    """
    for end in get_args(End):
        if name == end:
            return end  # type: ignore[no-any-return]
    hint = did_you_mean(name, get_args(End)) or f"it is {listing(get_args(End))}"
    raise DataError(f"the end of a trace is not '{name}'; {hint}")


def undecided(formula: c.Formula, end: End) -> c.Formula | None:
    """Return a formula that is true where `formula` is false only because its trace ends.

    None if that is nowhere, for example because the end is final.
    """
    later = if_longer(formula)
    if end == "final" or later == formula:
        return None
    if not isinstance(formula, c.Implies):
        return c.And(c.Not(formula), later)
    fails = c.And(formula.left, c.Not(formula.right))  # facts make the antecedent rare
    assert isinstance(later, c.Implies)
    return c.And(fails, later.right if later.left == formula.left else later)


def if_longer(formula: c.Formula) -> c.Formula:
    """Return a formula that is true where `formula` could be true if its trace went on.

    It is `formula` itself if the end of the trace makes nothing false. The atoms `first` and
    `last`, and the guards of quantifiers, are taken as they are.

    >>> if_longer(c.Aggregate(False, c.Atom("p", ()), c.Window(0, 2), past=False))
    <Or of 5 nodes>
    """
    bounds: dict[c.Core, FutureBounds] = {}
    for node in postorder(formula):
        if isinstance(node, c.Formula):
            parts = [bounds[child] for child in children(node) if isinstance(child, c.Formula)]
            bounds[node] = _bounds(node, parts)
    return bounds[formula].high


def never_fails(formula: c.Formula) -> bool:
    """Whether no trace makes a formula false for good, because it may always become true later.

    >>> never_fails(c.Aggregate(False, c.Atom("p", ()), c.Window(), past=False))
    True
    """
    sure: dict[c.Core, bool] = {}
    for node in postorder(nnf(if_longer(formula))):
        if isinstance(node, c.Formula):
            parts = [sure[child] for child in children(node) if isinstance(child, c.Formula)]
            sure[node] = _surely_true(node, parts)
    return sure[node]


def _surely_true(formula: c.Formula, below: list[bool]) -> bool:
    """Whether a formula in normal form is true because of constants; quantifiers have entities."""
    node = c.closed(formula)
    match node:
        case c.Truth(value):
            return value
        case c.And():
            return all(below)
        case c.Or():
            return any(below)
        case c.Quantifier():
            return below[0]
        case c.Shift(weak=weak):
            return weak and below[0]
        case c.Until(dual, _, _, window, _):
            return below[-1] and (dual or window.low == 0)
        case c.Not() | c.Edge() | c.Atom() | c.Equal() | c.Compare():
            return False
        case c.Implies() | c.Aggregate():
            raise AssertionError(node)
        case _:
            assert_never(node)


def _bounds(formula: c.Formula, below: list[FutureBounds]) -> FutureBounds:
    lows, highs = [part.low for part in below], [part.high for part in below]
    node = c.closed(formula)
    match node:
        case c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare():
            return FutureBounds(node, node)
        case c.Not():
            return FutureBounds(c.Not(*highs), c.Not(*lows))
        case c.And() | c.Or():
            return FutureBounds(type(node)(*lows), type(node)(*highs))
        case c.Implies():
            return FutureBounds(c.Implies(highs[0], lows[1]), c.Implies(lows[0], highs[1]))
        case c.Quantifier():
            return FutureBounds(replace(node, body=lows[-1]), replace(node, body=highs[-1]))
        case c.Shift(_, _, past, weak):
            ends = (weak, weak) if past else (False, True)
            return FutureBounds(
                replace(node, arg=lows[0], weak=ends[0]), replace(node, arg=highs[0], weak=ends[1])
            )
        case c.Aggregate(universal, _, window, past):
            lower: c.Formula = replace(node, arg=lows[0])
            upper: c.Formula = replace(node, arg=highs[0])
            if not past and universal:
                lower = _and(lower, _inside(window))
            elif not past:
                upper = _or(upper, _cut(window))
            return FutureBounds(lower, upper)
        case c.Until(dual, _, _, window, past):
            lower = replace(node, left=lows[0], right=lows[1])
            upper = replace(node, left=highs[0], right=highs[1])
            rest = c.Window(0, window.high)
            if not past and dual:  # nothing has released yet, and something may come
                lower = _and(lower, _or(c.Aggregate(False, lows[0], rest, past), _inside(window)))
            elif not past:
                upper = _or(upper, _and(c.Aggregate(True, highs[0], rest, past), _cut(window)))
            return FutureBounds(lower, upper)
        case _:
            assert_never(node)


def _cut(window: c.Window) -> c.Formula:
    """True where a window reaches beyond the end of the trace."""
    return _TRUE if window.high is None else c.Shift(_FALSE, window.high, past=False, weak=True)


def _inside(window: c.Window) -> c.Formula:
    """True where a window lies inside the trace."""
    return _FALSE if window.high is None else c.Shift(_TRUE, window.high, past=False, weak=False)


def _and(a: c.Formula, b: c.Formula) -> c.Formula:
    return b if a == _TRUE else a if b == _TRUE else c.And(a, b)


def _or(a: c.Formula, b: c.Formula) -> c.Formula:
    return _TRUE if _TRUE in (a, b) else c.Or(a, b)
