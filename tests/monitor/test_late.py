"""Entities that come late were there all the time, with no facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.monitor.domain import Domain, Stranger
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.steps import Header, TraceStep
from tests.monitor.cases import theory_of


def verdicts(formula: str, steps: Sequence[Sequence[Any]], **options) -> list[str]:
    monitor = Monitor(theory_of(formula), values="none", **options)
    assert not monitor.growing
    return [str(monitor.step(facts)["A0"].verdict) for facts in steps]


def test_somebody_who_comes_late_has_missed_something():
    assert verdicts("forall x: b. G r(c, x)", [[], [("r", "c", "b0")]]) == ["open", "violated"]
    found = verdicts("forall x: b. G(r(c, x) -> p)", [[], [("r", "c", "b0"), ("p",)]])
    assert found == ["open", "open"]


def test_the_binding_is_named():
    monitor = Monitor(theory_of("forall x: a, y: b. G(r(x, y) -> WX q(x))"), values="none")
    monitor.step([("r", "a0", "b0")])
    monitor.step([("q", "a0"), ("r", "a0", "b1")])
    state = monitor.step([("r", "c", "b2")])["A0"]
    assert (state.verdict, state.decided) == ("violated", 2)
    assert state.binding == {"x": "a0", "y": "b1"}


def test_a_quantifier_inside_of_time_notices_who_comes():
    """At the start nobody lacked q; then somebody comes, who did."""
    facts: list[Any] = [[("q", "c")], [("q", "c"), ("q", "a0")]]
    monitor = Monitor(theory_of("F G forall x: a. q(x)", "G exists x: a. q(x)"), values="none")
    found = [[s.now for s in monitor.step(f)] for f in facts]
    assert found == [[True, True], [True, True]]
    monitor = Monitor(theory_of("forall x: a. q(x)", "F(!p & forall x: a. q(x))"), values="none")
    found = [[s.now for s in monitor.step(f)] for f in [facts[0], [("p",), ("q", "a0")]]]
    assert found == [[True, True], [False, False]]


def test_static_facts_of_somebody_new():
    formula = "forall x: a. k(x) -> G q(x)"
    assert verdicts(formula, [[("q", "c")], [("k", "a0"), ("q", "a0")]]) == ["open", "violated"]
    assert verdicts(formula, [[("q", "c")], [("q", "a0")]]) == ["open", "open"]
    # To repeat what is known is no error.
    both = [("k", "a0"), ("q", "a0")]
    steps: list[Any] = [both, both, [("k", "a0", 1.0)]]
    assert verdicts(formula, steps) == ["open", "open", "violated"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([("k", "c")], "'k' of (c) is 1 here, but 0 before"),
        ([("k", "a0", 0.5)], "'k' is static: a fact with a degree about an entity that comes late"),
    ],
)
def test_static_facts_that_come_too_late(facts, message):
    monitor = Monitor(theory_of("forall x: a. k(x) -> G q(x)"))
    monitor.step([])
    with pytest.raises(DataError) as error:
        monitor.step(facts)
    assert message in str(error.value)
    assert [s.now for s in monitor.step([])] == [True], "the monitor is as before"


def test_equality_tells_two_who_come_apart():
    formula = "forall x: a, y: a. x = y | G !e(x, y) | F p"
    first = [("e", "a0", "a1")]
    assert verdicts("forall x: a, y: a. x = y | G !e(x, y)", [first]) == ["violated"]
    assert verdicts("forall x: a, y: a. x = y | G !e(x, y)", [[("e", "c", "c")]]) == ["open"]
    assert verdicts(formula, [[("q", "a0")], [("q", "a1")], first, [("p",)]])[-2:] == [
        "open",
        "satisfied",
    ]


def test_nobody_comes_if_the_header_says_so():
    header = Header(entities={"a": ["a0"], "b": []}, closed=True)
    assert verdicts("forall x: b. G r(c, x)", [[]], header=header) == ["satisfied"]
    assert verdicts("exists x: b. F r(c, x)", [[]], header=header) == ["violated"]
    monitor = Monitor(theory_of("forall x: a. G q(x)"), header=header)
    with pytest.raises(DataError, match="'a9' is no entity of sort 'a': all its entities are"):
        monitor.step([("q", "a9")])


def test_an_error_leaves_the_monitor_as_it_was():
    theory = theory_of("forall x: a. G q(x)", "forall x: b. F r(c, x)")
    monitor, other = Monitor(theory), Monitor(theory)
    steps: list[Any] = [[("q", "c")], [("q", "c"), ("r", "c", "b0")]]
    for facts in steps:
        wrong: list[Any] = [
            [("q", "new", "x")],
            [("q", "new"), ("q", 3)],
            [("q", "n"), ("q", "n", 0.2)],
        ]
        for bad in wrong:
            with pytest.raises(DataError):
                monitor.step(bad)
        assert monitor.step(facts) == other.step(facts)
        assert monitor.values() == other.values()
    assert monitor.domain.names == other.domain.names


def test_steps_before_an_error_are_done():
    monitor = Monitor(theory_of("F p"), values="none")
    states = monitor.steps([TraceStep(), TraceStep([("p",)]), TraceStep([("nobody",)])])
    assert [next(states)["A0"].verdict for _ in range(2)] == ["open", "satisfied"]
    with pytest.raises(DataError, match="unknown predicate 'nobody'"):
        next(states)


def test_an_array_grows_by_somebody_who_was_a_stranger():
    """Of two strangers, one stays; two who are different were two different strangers."""
    domain = Domain({"a": 2}, {"a": ("k",)}, {"a": {}})
    plain, marked = domain.kinds("a")
    assert (domain.stranger(plain), domain.stranger(marked)) == (0, 2)
    domain.add("a", "x")
    axes = (c.Axis("x", "a"), c.Axis("y", "a"))
    size = domain.size("a")
    array = np.arange(size * size).reshape(size, size)
    (grown,) = domain.grown(array[None], axes, Stranger("a", frozenset({"k"})))
    assert grown.shape == (size + 1, size + 1)
    assert (grown[:size, :size] == array).all()
    assert grown[-1, -1] == array[2, 2]
    assert (grown[-1, 3], grown[-1, 2]) == (array[2, 3], array[3, 2])
    assert (grown[-1, 0], grown[4, -1]) == (array[2, 0], array[4, 2])
