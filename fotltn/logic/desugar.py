"""Write temporal operators as core nodes; each equation holds in every semantics.

    F+ a = F[>=1] a            a U+ b = X(a U b)              a W b = (a U b) | G a
    G+ a = G[>=1] a            a R+ b = WX(a R b)             a M b = (a R b) & F a

and their past mirrors. With bounds, the steps of a strict form are counted from the present, and
the second part of W and M runs from the present to the upper bound.
"""

from __future__ import annotations

from fotltn.logic import core as c
from fotltn.syntax.formula import Bound
from fotltn.syntax.operators import Temporal

_WEAK_STEPS = {Temporal.X: False, Temporal.WX: True, Temporal.Y: False, Temporal.WY: True}
_UNIVERSAL = {Temporal.F: False, Temporal.G: True, Temporal.O: False, Temporal.H: True}
_DUAL = {Temporal.U: False, Temporal.R: True, Temporal.S: False, Temporal.T: True}


def iff(left: c.Formula, right: c.Formula) -> c.Formula:
    """Build `a <-> b` as both implications."""
    return c.And(c.Implies(left, right), c.Implies(right, left))


def unary(op: Temporal, arg: c.Formula, bound: Bound | None, strict: bool) -> c.Formula:
    """Build X, WX, F, G and their mirrors."""
    past = op.value.past
    if op in _WEAK_STEPS:
        return c.Shift(arg, bound.low if bound else 1, past, _WEAK_STEPS[op])
    return c.Aggregate(_UNIVERSAL[op], arg, _window(bound, strict), past)


def binary(
    op: Temporal, left: c.Formula, right: c.Formula, bound: Bound | None, strict: bool
) -> c.Formula:
    """Build U, R, W, M and S, T."""
    past = op.value.past
    if op in _DUAL:
        return _until(_DUAL[op], left, right, bound, strict, past)
    throughout = _window(Bound(0, bound.high if bound else None), strict)
    if op is Temporal.W:
        until = _until(False, left, right, bound, strict, past)
        return c.Or(until, c.Aggregate(True, left, throughout, past))
    release = _until(True, left, right, bound, strict, past)
    return c.And(release, c.Aggregate(False, left, throughout, past))


def _until(
    dual: bool, left: c.Formula, right: c.Formula, bound: Bound | None, strict: bool, past: bool
) -> c.Formula:
    window = _window(bound, strict)
    if not strict:
        return c.Until(dual, left, right, window, past)
    inner = c.Window(window.low - 1, None if window.high is None else window.high - 1)
    return c.Shift(c.Until(dual, left, right, inner, past), 1, past, weak=dual)


def _window(bound: Bound | None, strict: bool) -> c.Window:
    low, high = (bound.low, bound.high) if bound else (0, None)
    return c.Window(max(low, 1) if strict else low, high)
