"""Degrees if the trace ended now against the reference, and bounds against continuations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.errors import DataError
from fotltn.logic.check import CheckedAxiom, CheckedTheory
from fotltn.monitor.graded import Graded
from fotltn.monitor.monitor import Keep, Monitor
from fotltn.monitor.steps import Header, TraceStep
from fotltn.semantics import reference
from fotltn.semantics.config import SEMANTICS, STABLE_PRODUCT, PMean, Semantics
from fotltn.semantics.operators import operators
from tests.helpers import seeds
from tests.monitor.cases import (
    STATIC,
    Names,
    random_case,
    random_quantified,
    random_trace,
    seen_by,
    tables_of,
    theory_of,
)
from tests.random_cases import SEMANTICS as MORE

EVERY = [*(s for s in SEMANTICS.values() if not s.boolean), *MORE]


def soft(rng: random.Random, steps: Sequence[TraceStep]) -> list[TraceStep]:
    """Steps with degrees, but for `m`, which guards may use."""
    found = []
    for step in steps:
        facts = []
        for fact in step.facts:
            if fact[0] in (*STATIC, "m") or isinstance(fact[-1], float):
                facts.append(fact)
            else:
                facts.append((*fact, rng.choice([0.0, 1.0, rng.random(), rng.random()])))
        found.append(TraceStep(facts))
    return found


def offline(
    axiom: CheckedAxiom, steps: list[TraceStep], names: Names, theory: CheckedTheory, how: Semantics
) -> float:
    model = tables_of(steps, names, theory)
    found = reference.evaluate(axiom.formula, model, how, dtype=torch.float64)
    return float(operators(how).leave(found.tensor)[0, 0])


def guarded_by_degrees(theory: CheckedTheory) -> bool:
    return any("where" in str(a.source) for a in theory.axioms)


def compare(seed: int, count: int) -> None:
    rng = random.Random(seed)
    compared = grown = narrow = widths = 0
    for _ in range(count):
        how = rng.choice(EVERY)
        formulas = [
            random_case(rng, {}, 1) if rng.random() < 0.3 else random_quantified(rng, {}, 1)
            for _ in range(3)
        ]
        theory = theory_of(*formulas)
        length = rng.choice([1, 2, 4, 7])
        closed = rng.random() < 0.4
        names, steps = random_trace(rng, length, late=not closed)
        if not guarded_by_degrees(theory):
            steps = soft(rng, steps)
        horizon = length if rng.random() < 0.5 else None
        header = Header(entities=names if closed else {}, closed=closed)
        keep: Keep = "all" if rng.random() < 0.5 else "constant"
        monitor = Monitor(theory, header=header, semantics=how, values=keep, horizon=horizon)
        grown += len(monitor.valueless)
        before: list[dict[str, tuple[float, float]]] = []
        for t in range(length):
            monitor.step(steps[t])
            values = monitor.values()
            before.append({n: (v.low, v.high) for n, v in values.items()})
            here = names if closed else seen_by(names, steps[: t + 1])
            for axiom in theory.axioms:
                value = values[axiom.name]
                wanted = offline(axiom, steps[: t + 1], here, theory, how)
                place = (str(axiom.source), how, t, steps)
                if axiom.name not in monitor.valueless or keep == "all":
                    assert value.now == pytest.approx(wanted, abs=1e-9), place
                    compared += 1
                if horizon is None or t + 1 == length:
                    for bounds in before:
                        low, high = bounds[axiom.name]
                        assert low - 1e-9 <= wanted <= high + 1e-9, (place, bounds)
                if axiom.name not in monitor.valueless:
                    widths += 1
                    narrow += value.high - value.low < 0.99
    assert compared > 2 * count
    assert grown < 3 * count / 2, "most axioms need constant memory"
    assert narrow > widths / 2, "most bounds say something"


def test_values_and_bounds():
    compare(seed=1, count=32)


@pytest.mark.slow
def test_many_values_and_bounds():
    compare(seed=2, count=1500)


@pytest.mark.parametrize("steps", [1, 3, 50])
def test_many_steps_at_once_give_the_same_values(steps):
    formulas = [
        "forall x. G(q(x) -> WX[2] m(x))",
        "forall x. G(O q(x) | F[<=3] m(x))",
        "exists x. q(x) U[>=2] (H[<=4] m(x))",
        "G (p -> X[7] p)",
    ]
    theory = theory_of(*formulas)
    rng = random.Random(3)
    names, trace = random_trace(rng, 60, late=False)
    trace = soft(rng, trace)
    one, many = (Monitor(theory, entities=names) for _ in range(2))
    for step in trace:
        one.step(step)
    for start in range(0, 60, steps):
        for _ in many.steps(trace[start : start + steps]):
            pass
    assert one.valueless == many.valueless == {}
    for name, value in one.values().items():
        assert many.values()[name].now == pytest.approx(value.now, abs=1e-12)
    assert one.graded.recent.length < 20, "only the last points are kept"


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_values_after_each_of_many_steps_are_those_after_single_steps(monkeypatch, seed):
    """Whatever the formula, the semantics, and who comes late; also values every few steps."""
    rng, rows = random.Random(seed), list[int]()
    run = Graded.run

    def counting(self: Graded, added, tables, functions, ends: Sequence[int] = ()) -> Graded:
        rows.append(len(ends))
        return run(self, added, tables, functions, ends)

    monkeypatch.setattr(Graded, "run", counting)
    for number in range(14):
        how = EVERY[number % len(EVERY)]
        theory = theory_of(*(random_quantified(rng, {}, 1) for _ in range(3)))
        closed = rng.random() < 0.4
        length, every = rng.choice([9, 20]), rng.choice([1, 1, 3])
        names, steps = random_trace(rng, length, late=not closed)
        if not guarded_by_degrees(theory):
            steps = soft(rng, steps)
        header = Header(entities=names if closed else {}, closed=closed)
        options: dict[str, Any] = {
            "header": header, "semantics": how, "horizon": rng.choice([None, None, length + 2]),
            "values": "all" if rng.random() < 0.3 else "constant",
        }  # fmt: skip
        one = Monitor(theory, **options)
        many = Monitor(theory, values_every=every, **options)

        for step, states in zip(steps, many.steps(steps), strict=True):
            assert one.step(step).states == states.states
            if (states.step + 1) % every:
                assert states.values is None
                continue
            assert states.values is not None
            place = ([str(a.source) for a in theory.axioms], how, states.step)
            for name, wanted in one.values().items():
                value = states.values[name]
                for a, b in ((value.now, wanted.now), (value.low, wanted.low)):
                    assert a == pytest.approx(b, abs=1e-9), (name, *place)
                assert value.high == pytest.approx(wanted.high, abs=1e-9), (name, *place)
            assert list(states.values) == list(one.values())
    assert sum(rows) > 20, "many steps are taken at once"


@pytest.mark.parametrize("first", [[3e-7, 1e-5], []])
@pytest.mark.parametrize("p", [2.0, 4.0, 60.0])
def test_values_after_each_step_keep_their_digits(p, first):
    """A large error does not hide the small ones before it."""
    theory = theory_of("F p", "G p")
    degrees = [1e-9, *first, 0.0, 0.0, 1.0, 0.5, 1.0 - 1e-9]
    semantics = replace(STABLE_PRODUCT, eventually=PMean(p), always=PMean(p))
    steps = [[("p", degree)] for degree in [*degrees, *degrees]]
    one, many = (
        Monitor(theory, semantics=semantics),
        Monitor(theory, semantics=semantics, values_every=1),
    )
    for step, states in zip(steps, many.steps(steps), strict=True):
        one.step(step)
        assert states.values is not None
        for name, wanted in one.values().items():
            assert states.values[name].now == pytest.approx(wanted.now, rel=1e-9), states.step


def test_values_come_every_step_at_most():
    with pytest.raises(DataError, match="not every 0 steps"):
        Monitor(theory_of("G p"), values_every=0)


# --- bounds that are known exactly --------------------------------------------------------------


def bounds(formula: str, rows: list[float], **options) -> tuple[float, float, float]:
    declared = "predicate u, v"
    monitor = Monitor(theory_of(formula, declared=declared), **options)
    for row in rows:
        monitor.step([("u", row)])
    value = monitor.values()["A0"]
    assert value.now is not None
    return value.now, value.low, value.high


def test_without_a_horizon_a_mean_may_become_anything():
    now, low, high = bounds("G u", [0.5, 0.5])
    assert (now, low, high) == pytest.approx((0.5, 0.0, 1.0))


def test_with_a_horizon_the_rest_counts():
    now, low, high = bounds("G u", [0.5, 0.5], horizon=4, semantics=SEMANTICS["stable-product"])
    assert now == pytest.approx(0.5)
    assert low == pytest.approx(1 - ((2 * 0.5**4 + 2) / 4) ** 0.25)
    assert high == pytest.approx(1 - (2 * 0.5**4 / 4) ** 0.25)


def test_a_minimum_cannot_rise_nor_a_maximum_fall():
    assert bounds("G u", [0.7, 0.4, 0.9], semantics="godel") == pytest.approx((0.4, 0.0, 0.4))
    assert bounds("F u", [0.7, 0.4, 0.9], semantics="godel") == pytest.approx((0.9, 0.9, 1.0))
    assert bounds("G u", [0.5, 0.5], semantics="product") == pytest.approx((0.25, 0.0, 0.25))
    assert bounds("G u", [0.5, 0.5], semantics="product", horizon=2)[1] == pytest.approx(0.25)


def test_what_is_settled_does_not_change():
    assert bounds("u & X u", [0.5, 0.5, 0.1]) == pytest.approx((0.25, 0.25, 0.25))
    # The next point is missing, 0 or 1.
    least, most = 0.5 + 0.5 * (0.5**4 / 2) ** 0.25, 0.5 + 0.5 * ((0.5**4 + 1) / 2) ** 0.25
    assert bounds("u -> F[<=1] u", [0.5]) == pytest.approx((0.75, least, most))


def test_a_step_that_waits_is_bounded_by_its_antecedent():
    assert bounds("u -> WX v", [0.25], semantics="godel") == pytest.approx((1.0, 0.75, 1.0))
    assert bounds("u -> X v", [0.25], semantics="godel") == pytest.approx((0.75, 0.75, 1.0))
    assert bounds("u -> X v", [0.25, 0.0], semantics="godel") == pytest.approx((0.75, 0.75, 0.75))


def test_who_may_still_come_counts():
    theory = theory_of("forall x: a. q(x)", "exists x: a. q(x)", "forall x: a. k(x)")
    open_, closed = (
        Monitor(theory, header=Header(entities={"a": ["a0"]}, closed=closed), semantics="godel")
        for closed in (False, True)
    )
    for monitor in (open_, closed):
        monitor.step([("q", "a0", 0.6), ("q", "c", 0.9)])
    found = {n: (v.low, v.high) for n, v in open_.values().items()}
    # Somebody who comes later had no q at 0, and may have k.
    assert found == {"A0": (0.0, 0.6), "A1": (0.9, 0.9), "A2": (0.0, 0.0)}
    found = {n: (v.low, v.high) for n, v in closed.values().items()}
    assert found == {"A0": (0.6, 0.6), "A1": (0.9, 0.9), "A2": (0.0, 0.0)}


def test_at_the_end_bounds_are_the_value():
    theory = theory_of("forall x: a. G q(x)", "G(p -> F p)")
    monitor = Monitor(theory, values="all")
    monitor.step([("q", "a0", 0.6), ("p", 0.5)])
    assert monitor.values()["A0"].high == 1
    monitor.finish()
    for value in monitor.values().values():
        assert value.low == value.now == value.high
