"""Verdicts when the number of steps is known, against all continuations of that length."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from fotltn.logic import core as c
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.steps import Header, TraceStep
from fotltn.monitor.verdicts import Verdict
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from tests.helpers import random_formula
from tests.monitor.cases import random_quantified, tables_of, theory_of

pytestmark = pytest.mark.reliability


def truths(formula: c.Formula, start: list[tuple[bool, ...]], letters: str, left: int) -> set[bool]:
    """The truth of a formula on every trace that begins so and has so many steps more."""
    symbols = list(itertools.product([False, True], repeat=len(letters)))
    traces = [[*start, *rest] for rest in itertools.product(symbols, repeat=left)]
    tables = {
        n: torch.tensor([[float(row[i]) for row in t] for t in traces])
        for i, n in enumerate(letters)
    }
    length = len(start) + left
    model = Tables({}, torch.full((len(traces),), length), length, dict(tables))
    return set(crisp.evaluate(formula, model).tensor[:, 0].tolist())


def wanted(found: set[bool]) -> Verdict:
    if len(found) > 1:
        return Verdict.OPEN
    return Verdict.SATISFIED if found == {True} else Verdict.VIOLATED


def exact(seed: int, count: int, letters: str, longest: int) -> int:
    """How many verdicts came that a monitor without a horizon does not give."""
    rng = random.Random(seed)
    earlier = 0
    for _ in range(count):
        atoms: list[f.Formula] = [f.Atom(n, ()) for n in letters]
        text = random_formula(rng, rng.randint(1, 5), atoms)
        theory = theory_of(text, declared=f"predicate {', '.join(letters)}")
        horizon = rng.randint(1, longest)
        symbols = list(itertools.product([False, True], repeat=len(letters)))
        trace = [rng.choice(symbols) for _ in range(horizon)]
        steps = [[(n,) for n, true in zip(letters, row, strict=True) if true] for row in trace]
        monitor, other = Monitor(theory, horizon=horizon, values="none"), Monitor(theory)
        for t, step in enumerate(steps, 1):
            verdict = monitor.step(step)["A0"].verdict
            expected = wanted(truths(theory.axioms[0].formula, trace[:t], letters, horizon - t))
            if monitor.crisp.read:  # much of the past is known as one letter, not by its states
                expected = expected if verdict is not Verdict.OPEN else verdict
            assert verdict is expected, (str(text), trace[:t], horizon)
            without = other.step(step)["A0"].verdict
            earlier += t < horizon and without is Verdict.OPEN is not verdict
    return earlier


def test_verdicts_are_those_of_all_continuations():
    assert exact(seed=1, count=60, letters="u", longest=7) > 10
    assert exact(seed=2, count=60, letters="uv", longest=4) > 10


@pytest.mark.slow
def test_many_verdicts_are_those_of_all_continuations():
    exact(seed=3, count=3000, letters="u", longest=8)
    exact(seed=4, count=1500, letters="uv", longest=5)


@pytest.mark.parametrize(
    ("formula", "steps", "horizon", "verdicts"),
    [
        ("X X u", [0, 0], 2, ["violated", "violated"]),
        ("X X u", [0, 0, 1], 3, ["open", "open", "satisfied"]),
        ("WX WX u", [0, 0], 2, ["satisfied", "satisfied"]),
        ("X[2000] u", [0], 1000, ["violated"]),
        ("F[>=3] u", [1, 1], 3, ["violated", "violated"]),
        ("F X X true", [0], 2, ["violated"]),
        ("G(u -> X u)", [0, 0], 2, ["open", "satisfied"]),
        ("F(last & u) | F(last & !u)", [0], 5, ["satisfied"]),
        # As in (u !u)*: true of traces of even length alone.
        ("u & G(u -> X !u) & G(!u -> WX u) & F(last & !u)", [1, 0], 7, ["violated", "violated"]),
        ("u & G(u -> X !u) & G(!u -> WX u) & F(last & !u)", [1, 0], 8, ["open", "open"]),
    ],
)
def test_verdicts_step_by_step(formula, steps, horizon, verdicts):
    theory = theory_of(formula, declared="predicate u")
    monitor = Monitor(theory, horizon=horizon, values="none")
    found = [monitor.step([("u",)] if u else [])["A0"].verdict for u in steps]
    assert [str(v) for v in found] == verdicts


def test_a_verdict_is_as_early_as_the_bounds():
    """A degree that cannot be but 0 or 1 decides, for automata of any size."""
    rng = random.Random(5)
    decided = 0
    for _ in range(150):
        atoms: list[f.Formula] = [f.Atom(n, ()) for n in "uv"]
        text = random_formula(rng, rng.randint(1, 4), atoms)
        theory = theory_of(text, declared="predicate u, v")
        monitor = Monitor(theory, horizon=rng.randint(2, 4), semantics="godel")
        monitor.crisp.table.tried = rng.choice([0, 10, 3000])
        states = monitor.step([(n,) for n in "uv" if rng.random() < 0.5])
        value = monitor.values().get("A0")
        if value is not None and value.low == value.high:
            verdict = Verdict.SATISFIED if value.low == 1 else Verdict.VIOLATED
            assert states["A0"].verdict is verdict, str(text)
            decided += 1
    assert decided > 40


def test_entities_and_late_ones_are_never_judged_wrongly():
    """Whatever the rest of the trace is, the verdict that was given holds at its end."""
    rng = random.Random(6)
    early = 0
    for number in range(60):
        theory = theory_of(random_quantified(rng, {}, 1))
        header = Header(entities={"a": ["c", "a0"], "b": ["b0"]}, closed=number % 2 == 0)
        horizon = rng.randint(2, 4)
        monitor = Monitor(theory, header=header, horizon=horizon, values="none")
        steps = [random_step(rng, late=t > 0 and not header.closed) for t in range(horizon)]
        given = [monitor.step(step)["A0"].verdict for step in steps]
        names = {"a": ["c", "a0"], "b": ["b0"]}
        if any("a1" in fact for step in steps for fact in step):
            names["a"] = ["c", "a0", "a1"]
        model = tables_of([TraceStep(step) for step in steps], names, theory)
        truth = bool(crisp.evaluate(theory.axioms[0].formula, model, threshold=0.5).tensor[0, 0])
        last = Verdict.SATISFIED if truth else Verdict.VIOLATED
        assert given[-1] is last
        assert set(given) <= {Verdict.OPEN, last}, (str(theory.axioms[0].source), steps)
        early += given[-2] is not Verdict.OPEN
    assert early > 15


def test_a_trace_that_ends_before_its_horizon_is_judged_as_it_ended():
    theory = theory_of("G WX WX WX u", "F u", "X X true", declared="predicate u")
    monitor = Monitor(theory, horizon=3, values="none")
    states = monitor.step([("u",)])
    assert [str(s.verdict) for s in states] == ["satisfied", "satisfied", "satisfied"]
    assert [str(s.verdict) for s in monitor.finish()] == ["satisfied", "satisfied", "violated"]


def random_step(rng: random.Random, *, late: bool) -> list[tuple[str, ...]]:
    names = ["c", "a0", *(["a1"] if late else [])]
    facts: list[tuple[str, ...]] = [("p",)] if rng.random() < 0.5 else []
    facts += [(n, a) for n in "qm" for a in names if rng.random() < 0.5]
    facts += [("r", a, "b0") for a in names if rng.random() < 0.5]
    facts += [("e", a, b) for a in names for b in names if rng.random() < 0.3]
    return facts
