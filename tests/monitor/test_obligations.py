"""Monotone functions of promises: equal meanings have equal forms."""

from __future__ import annotations

import functools
import itertools
import random

import pytest

from fotltn.errors import LimitError
from fotltn.monitor.obligations import FALSE, TRUE, Function, Promise, join, meet, only, replaced

# Two operators that are easier with a larger window, one that is harder, one with no order.
PROMISES = [
    Promise(0, 0, 1, 1), Promise(0, 0, 3, 1), Promise(0, 1, 3, 1), Promise(1, 0, 2, -1),
    Promise(1, 0, 4, -1), Promise(2, 0, 0, 0), Promise(2, 1, 1, 0),
]  # fmt: skip


def implied(p: Promise) -> set[Promise]:
    """What follows from a promise, from the definition of windows."""
    found = {p}
    for q in PROMISES:
        if q.number != p.number or p.sign == 0:
            continue
        mine, other = set(range(p.low, p.high + 1)), set(range(q.low, q.high + 1))
        if (mine <= other) if p.sign > 0 else (other <= mine):
            found.add(q)
    return found


WORLDS = [
    set(world)
    for size in range(len(PROMISES) + 1)
    for world in itertools.combinations(PROMISES, size)
    if all(implied(p) <= set(world) for p in world)
]


def meaning(function: Function) -> tuple[bool, ...]:
    return tuple(any(term <= world for term in function) for world in WORLDS)


def random_function(rng: random.Random, size: int) -> Function:
    if size == 0:
        return rng.choice([TRUE, FALSE, *(only(p) for p in PROMISES * 2)])
    left = rng.randrange(size)
    parts = random_function(rng, left), random_function(rng, size - 1 - left)
    return rng.choice([join, meet])(*parts)


def test_equal_meanings_have_equal_forms():
    rng = random.Random(0)
    forms: dict[tuple[bool, ...], Function] = {}
    met = 0
    for _ in range(1500):
        function = random_function(rng, rng.randint(0, 8))
        met += meaning(function) in forms
        assert forms.setdefault(meaning(function), function) == function
    assert met > 300
    assert len(forms) > 100


def test_and_or_and_replacement_mean_what_they_say():
    rng = random.Random(1)
    for _ in range(300):
        a, b = (random_function(rng, rng.randint(0, 5)) for _ in range(2))
        both = [x and y for x, y in zip(meaning(a), meaning(b), strict=True)]
        either = [x or y for x, y in zip(meaning(a), meaning(b), strict=True)]
        assert list(meaning(meet(a, b))) == both
        assert list(meaning(join(a, b))) == either
        assert replaced(a, only) == a
        assert replaced(a, lambda _: TRUE) == (FALSE if a == FALSE else TRUE)
        assert replaced(a, lambda _: FALSE) == (TRUE if a == TRUE else FALSE)


def test_too_many_terms_are_refused():
    pairs = [
        join(only(Promise(n, 0, 0, 0)), only(Promise(n + 1, 0, 0, 0))) for n in range(0, 40, 2)
    ]
    assert len(functools.reduce(meet, pairs[:7])) == 128
    with pytest.raises(LimitError, match="more than 200 ways"):
        functools.reduce(meet, pairs)
