"""Obligations, demands on the future: monotone functions of promises, in a canonical form.

A promise is a temporal operator at the next time point, with the window that remains. Promises of
one operator are ordered: `a` within two steps implies `a` within five. A function is a set of
terms, each a set of promises; it is true if all promises of some term come true. Terms that imply
another term are left out, and so are promises that follow from another promise of their term. So
equal functions are equal sets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fotltn.errors import LimitError

#: The upper end of a window without an upper bound.
ENDLESS = 1 << 62

_MOST_TERMS = 200


class Promise(NamedTuple):
    """The operator with a number at the next time point, with the window that remains.

    The sign is 1 if a larger window makes the promise easier to keep, -1 if it makes it harder,
    and 0 if windows of different sizes are not comparable.
    """

    number: int
    low: int
    high: int
    sign: int


Function = frozenset[frozenset[Promise]]

TRUE: Function = frozenset({frozenset()})
FALSE: Function = frozenset()


def only(promise: Promise) -> Function:
    """Return the function of one promise."""
    return frozenset({frozenset({promise})})


def join(a: Function, b: Function) -> Function:
    """Return `a | b`."""
    if a == TRUE or b == TRUE:
        return TRUE
    if a == b or not b:
        return a
    return _reduced(a | b) if a else b


def meet(a: Function, b: Function) -> Function:
    """Return `a & b`."""
    if not a or not b:
        return FALSE
    if a == b or b == TRUE:
        return a
    if a == TRUE:
        return b
    return _reduced({_term(s | t) for s in a for t in b})


def replaced(function: Function, by: Callable[[Promise], Function]) -> Function:
    """Return a function with every promise replaced by another function."""
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
    """Leave out the promises that follow from another one."""
    if len(promises) < 2:
        return promises
    return frozenset(p for p in promises if not any(q != p and _implies(q, p) for q in promises))


def _reduced(terms: Iterable[frozenset[Promise]]) -> Function:
    """Leave out the terms that imply another one."""
    weakest: list[frozenset[Promise]] = []
    for term in sorted(terms, key=len):
        if not any(_follows(other, term) for other in weakest):
            weakest = [other for other in weakest if not _follows(term, other)]
            weakest.append(term)
        if len(weakest) > _MOST_TERMS:
            raise LimitError(f"there are more than {_MOST_TERMS:,} ways to make it true")
    return frozenset(weakest)


def _follows(weak: frozenset[Promise], strong: frozenset[Promise]) -> bool:
    return all(any(_implies(q, p) for q in strong) for p in weak)
