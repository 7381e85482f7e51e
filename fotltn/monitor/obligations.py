"""Obligations: a monotone function of promises about the future, in a canonical form.

A promise is a formula at the next point: its number, and the window that is left of it. Promises
of one number are ordered: `a` within two steps implies `a` within five. A function is a set of
terms, each a set of promises: some term is kept in full. Terms that another one makes superfluous
are left out, and so are promises that follow from others of their term, so that equal functions
are equal sets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fotltn.errors import LimitError

#: The upper end of a window without one.
ENDLESS = 1 << 62

_MOST_TERMS = 200


class Promise(NamedTuple):
    """The operator of that number at the next point, with the window that is left.

    The sign is 1 if a larger window is easier to keep, -1 if it is harder, 0 if windows of
    different sizes have nothing to do with each other.
    """

    number: int
    low: int
    high: int
    sign: int


Function = frozenset[frozenset[Promise]]

TRUE: Function = frozenset({frozenset()})
FALSE: Function = frozenset()


def only(promise: Promise) -> Function:
    """The function that is one promise."""
    return frozenset({frozenset({promise})})


def join(a: Function, b: Function) -> Function:
    """`a | b`."""
    if a == TRUE or b == TRUE:
        return TRUE
    if a == b or not b:
        return a
    return _reduced(a | b) if a else b


def meet(a: Function, b: Function) -> Function:
    """`a & b`."""
    if not a or not b:
        return FALSE
    if a == b or b == TRUE:
        return a
    if a == TRUE:
        return b
    return _reduced({_term(s | t) for s in a for t in b})


def replaced(function: Function, by: Callable[[Promise], Function]) -> Function:
    """The function with every promise replaced."""
    if function == TRUE or not function:
        return function
    known = {promise: by(promise) for term in function for promise in term}
    terms = (functools.reduce(meet, (known[p] for p in term), TRUE) for term in function)
    return functools.reduce(join, terms, FALSE)


def _implies(a: Promise, b: Promise) -> bool:
    if a.number != b.number:
        return False
    small, large = (a, b) if a.sign > 0 else (b, a)
    return a == b or (a.sign != 0 and large.low <= small.low and small.high <= large.high)


def _term(promises: frozenset[Promise]) -> frozenset[Promise]:
    """Without the promises that follow from another one."""
    if len(promises) < 2:
        return promises
    return frozenset(p for p in promises if not any(q != p and _implies(q, p) for q in promises))


def _reduced(terms: Iterable[frozenset[Promise]]) -> Function:
    """Without the terms that imply another one."""
    weakest: list[frozenset[Promise]] = []
    for term in sorted(terms, key=len):
        if not any(_follows(other, term) for other in weakest):
            weakest = [other for other in weakest if not _follows(term, other)]
            weakest.append(term)
        if len(weakest) > _MOST_TERMS:
            raise LimitError(f"there are more than {_MOST_TERMS:,} ways to fulfil it")
    return frozenset(weakest)


def _follows(weak: frozenset[Promise], strong: frozenset[Promise]) -> bool:
    return all(any(_implies(q, p) for q in strong) for p in weak)
