"""Negation normal form: negation at atoms only.

This is for two-valued logic only: the laws do not hold for degrees.
"""

from __future__ import annotations

from typing import assert_never

from fotltn.logic import core as c
from fotltn.tree import fold

TRUE, FALSE = c.Truth(True), c.Truth(False)


def both(a: c.Formula, b: c.Formula) -> c.Formula:
    """Build `a & b`, without constants."""
    if FALSE in (a, b):
        return FALSE
    return b if a == TRUE else a if b == TRUE or a == b else c.And(a, b)


def either(a: c.Formula, b: c.Formula) -> c.Formula:
    """Build `a | b`, without constants."""
    if TRUE in (a, b):
        return TRUE
    return b if a == FALSE else a if b == FALSE or a == b else c.Or(a, b)


def nnf(formula: c.Formula) -> c.Formula:
    """Return the negation normal form: ¬ at atoms only, and no guards.

    `F a` is `true U a`, `G a` is `false R a`, and a guard is part of the body.
    """
    return fold(formula, _both_signs)[0]


Signs = tuple[c.Formula, c.Formula]


def _both_signs(node: c.AnyNode, below: list[Signs]) -> Signs:
    """Return a formula in normal form, and its negation."""
    match node:
        case c.Truth(value):
            return c.Truth(value), c.Truth(not value)
        case c.Not():
            return below[0][1], below[0][0]
        case c.And():
            (a, not_a), (b, not_b) = below
            return both(a, b), either(not_a, not_b)
        case c.Or():
            (a, not_a), (b, not_b) = below
            return either(a, b), both(not_a, not_b)
        case c.Implies():
            (a, not_a), (b, not_b) = below
            return either(not_a, b), both(a, not_b)
        case c.Quantifier(universal, axes):
            a, not_a = below[-1]
            if len(below) == 2:
                g, not_g = below[0]
                a = either(not_g, a) if universal else both(g, a)
                not_a = both(g, not_a) if universal else either(not_g, not_a)
            return (
                c.Quantifier(universal, axes, None, a),
                c.Quantifier(not universal, axes, None, not_a),
            )
        case c.Shift(_, steps, past, weak):
            a, not_a = below[0]
            if steps == 0:
                return a, not_a
            return _shifted(a, steps, past, weak), _shifted(not_a, steps, past, not weak)
        case c.Aggregate(universal, _, window, past):
            a, not_a = below[0]
            return (
                until(universal, c.Truth(not universal), a, window, past),
                until(not universal, c.Truth(universal), not_a, window, past),
            )
        case c.Until(dual, _, _, window, past):
            (a, not_a), (b, not_b) = below
            return (
                until(dual, a, b, window, past),
                until(not dual, not_a, not_b, window, past),
            )
        case c.Atom() | c.Equal() | c.Compare() | c.Edge():
            return node, c.Not(node)
        case c.Variable() | c.Constant() | c.Number() | c.Apply():
            return TRUE, FALSE  # nobody asks
        case never:
            assert_never(never)


def _shifted(arg: c.Formula, steps: int, past: bool, weak: bool) -> c.Formula:
    """Build a shift; two shifts of the same kind become one."""
    if isinstance(arg, c.Shift) and (arg.past, arg.weak) == (past, weak):
        return c.Shift(arg.arg, arg.steps + steps, past, weak)
    return c.Shift(arg, steps, past, weak)


def until(dual: bool, left: c.Formula, right: c.Formula, window: c.Window, past: bool) -> c.Formula:
    """Build `left U right`, or its dual, without constants."""
    if right == c.Truth(dual) or (window.high is not None and window.high < window.low):
        return c.Truth(dual)
    return right if window == c.Window(0, 0) else c.Until(dual, left, right, window, past)
