"""Verdicts against the offline evaluator, and against all continuations."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedTheory, check, check_formula
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.verdicts import Verdict
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import Temporal
from fotltn.tree import postorder
from tests.helpers import random_formula
from tests.monitor.cases import (
    random_case,
    random_quantified,
    random_trace,
    seen_by,
    tables_of,
    theory_of,
)


def compare(seed: int, count: int) -> None:
    """Every verdict and every "if it ended now" of random theories on random traces."""
    rng = random.Random(seed)
    early = slow = short = late = 0
    for _ in range(count):
        formulas = [
            random_case(rng, {}, rng.randint(0, 2))
            if rng.random() < 0.3
            else random_quantified(rng, {}, rng.randint(1, 2))
            for _ in range(3)
        ]
        theory = theory_of(*formulas)
        names, steps = random_trace(rng, rng.choice([1, 1, 2, 3, 5, 8]))
        monitor = Monitor(theory, values="none")
        slow += len(monitor.growing)
        short += len(steps) == 1
        late += seen_by(names, steps[:1]) != seen_by(names, steps)
        states = monitor.steps(steps) if rng.random() < 0.5 else map(monitor.step, steps)
        for t, found in enumerate(states):
            model = tables_of(steps[: t + 1], seen_by(names, steps[: t + 1]), theory)
            for axiom in theory.axioms:
                now = bool(crisp.evaluate(axiom.formula, model, threshold=0.5).tensor[0, 0])
                state = found[axiom.name]
                assert found.step == t
                if state.now is not None:
                    assert state.now is now, (str(axiom.source), t, steps)
                early += state.verdict is not Verdict.OPEN and t + 1 < len(steps)
        for axiom, state in zip(theory.axioms, monitor.finish(), strict=True):
            model = tables_of(steps, seen_by(names, steps), theory)
            now = bool(crisp.evaluate(axiom.formula, model, threshold=0.5).tensor[0, 0])
            wanted = Verdict.SATISFIED if now else Verdict.VIOLATED
            assert state.verdict is wanted, (str(axiom.source), steps)
    assert early > count, "verdicts came early"
    assert 0 < slow < 0.1 * 3 * count, "few needed the history"
    assert short > count / 8, "traces of one step were tried"
    assert late > count / 5, "entities came late"


def test_random_theories():
    compare(seed=1, count=80)


@pytest.mark.slow
def test_many_random_theories():
    compare(seed=2, count=4000)


# --- all continuations ------------------------------------------------------------------------


def outcomes(
    formula: c.Formula, prefix: list[tuple[bool, ...]], letters: str, longest: int
) -> set[bool]:
    """The truth of a formula on all continuations up to a length."""
    found: set[bool] = set()
    symbols = list(itertools.product([False, True], repeat=len(letters)))
    for more in range(longest + 1):
        traces = [[*prefix, *tail] for tail in itertools.product(symbols, repeat=more)]
        length = len(prefix) + more
        tables = {
            n: torch.tensor([[row[i] for row in t] for t in traces]).double()
            for i, n in enumerate(letters)
        }
        model = Tables({}, torch.full((len(traces),), length), length, dict(tables))
        found |= set(crisp.evaluate(formula, model).tensor[:, 0].tolist())
    return found


def reach(formula: c.Formula) -> int:
    """All bounds of a formula together."""
    found = 0
    for node in postorder(formula):
        match node:
            case c.Shift(_, steps):
                found += steps
            case c.Aggregate(_, _, window) | c.Until(_, _, _, window):
                found += window.low if window.high is None else window.high
    return found


def exact(seed: int, count: int, letters: str, longest: int) -> None:
    rng = random.Random(seed)
    decided = told = 0
    for _ in range(count):
        atoms = [f.Atom(n, ()) for n in letters]
        text = random_formula(rng, rng.randint(1, 4), atoms)
        theory = theory_of(text, declared=f"predicate {', '.join(letters)}")
        symbols = list(itertools.product([False, True], repeat=len(letters)))
        prefix = [rng.choice(symbols) for _ in range(rng.randint(1, 3))]
        monitor = Monitor(theory, values="none")
        assert not monitor.growing
        for row in prefix:
            states = monitor.step([(n,) for n, true in zip(letters, row, strict=True) if true])
        verdict = states["A0"].verdict
        formula = theory.axioms[0].formula
        found = outcomes(formula, prefix, letters, longest)
        if verdict is not Verdict.OPEN:
            assert found == {verdict is Verdict.SATISFIED}, (str(text), prefix)
            decided += 1
        elif reach(formula) + 2 <= longest:
            assert len(found) == 2, (str(text), prefix)
            told += 1
    assert decided > count / 4
    assert told > count / 20


def test_verdicts_are_exact_with_one_letter():
    exact(seed=3, count=80, letters="u", longest=8)


def test_verdicts_are_exact_with_two_letters():
    exact(seed=4, count=80, letters="uv", longest=4)


@pytest.mark.slow
def test_many_verdicts_are_exact():
    exact(seed=5, count=3000, letters="u", longest=9)
    exact(seed=6, count=1500, letters="uv", longest=5)


@pytest.mark.parametrize(
    ("formula", "steps", "verdicts"),
    [
        ("G u", [1, 1, 0], ["open", "open", "violated"]),
        ("F u", [0, 0, 1], ["open", "open", "satisfied"]),
        ("X u", [0, 1], ["open", "satisfied"]),
        ("X true", [0, 0], ["open", "satisfied"]),
        ("last", [0, 0], ["open", "violated"]),
        ("G(u -> X u)", [0, 1, 1], ["open", "violated", "violated"]),
        ("F(u & H !u)", [0, 1], ["violated", "violated"]),
        ("G(O u -> F u)", [1, 0], ["open", "open"]),
        ("G(u -> O(F !u))", [1, 0], ["open", "satisfied"]),
        ("F[<=2] u", [0, 0, 0], ["open", "open", "violated"]),
        ("G[<=1] u", [1, 1], ["open", "satisfied"]),
        ("first & u", [1, 0], ["satisfied", "satisfied"]),
        ("F(last & u) | F(last & !u)", [0], ["satisfied"]),
        ("G u & F !u", [1], ["violated"]),
    ],
)
def test_verdicts_step_by_step(formula, steps, verdicts):
    monitor = Monitor(theory_of(formula, declared="predicate u"), values="none")
    assert not monitor.growing
    found = [monitor.step([("u",)] if u else [])["A0"].verdict for u in steps]
    assert [str(v) for v in found] == verdicts


def test_a_wide_window_needs_few_states():
    """A promise within few steps implies the same within many, so that only the first counts."""
    monitor = Monitor(theory_of("G(u -> F[<=50] v)", declared="predicate u, v"), values="none")
    rng = random.Random(7)
    for _ in range(3000):
        states = monitor.step([("u",)] * (rng.random() < 0.5) + [("v",)] * (rng.random() < 0.1))
    assert states["A0"].verdict in (Verdict.OPEN, Verdict.VIOLATED)
    assert len(monitor.crisp.table.states) < 60


def test_states_that_are_not_in_use_are_forgotten():
    """A window that begins late has as many states as there are patterns in its delay."""
    theory = theory_of("G(u -> F[8,9] v)", "F(u & G[<=6] (v | u))", declared="predicate u, v")
    monitor = Monitor(theory, values="none")
    table = monitor.crisp.table
    table.tried, table.most = 40, 300
    rng = random.Random(8)
    rows = [(rng.random() < 0.5, rng.random() < 0.95) for _ in range(600)]
    widest = 0
    for t, row in enumerate(rows):
        states = monitor.step([(n,) for n, true in zip("uv", row, strict=True) if true])
        widest = max(widest, table.used)
        if t % 40 == 0:
            tables = {
                n: torch.tensor([[float(r[i]) for r in rows[: t + 1]]]) for i, n in enumerate("uv")
            }
            model = Tables({}, torch.tensor([t + 1]), t + 1, dict(tables))
            for axiom in theory.axioms:
                truth = bool(crisp.evaluate(axiom.formula, model).tensor[0, 0])
                assert states[axiom.name].now is truth
    assert 300 < widest < 600


def test_a_deep_formula():
    """Nested thousands deep, with more atoms than letters are told apart."""
    atoms = [f.Atom(f"u{i}", ()) for i in range(12)]
    node: f.Formula = atoms[0]
    for i in range(2000):
        node = f.Or(f.And(node, atoms[i % 12]), atoms[i * 7 % 12])
    declared = "predicate " + ", ".join(f"u{i}" for i in range(12))
    theory = check(parse_theory(declared))
    formula = check_formula(f.Unary(Temporal.G, node), theory.signature).formula
    deep = CheckedTheory(theory.signature, (CheckedAxiom("A0", formula, 1.0, node),), ())
    monitor = Monitor(deep)
    assert not monitor.growing
    assert not monitor.valueless
    degrees = {"u0": 1.0, "u5": 0.25, "u11": 1.0}
    states = monitor.step(list(degrees.items()))
    tables = {f"u{i}": torch.full((1, 1), degrees.get(f"u{i}", 0.0)) for i in range(12)}
    model = Tables({}, torch.tensor([1]), 1, dict(tables))
    assert states["A0"].now is bool(crisp.evaluate(formula, model, threshold=0.5).tensor[0, 0])
    value = reference.evaluate(formula, model, STABLE_PRODUCT, dtype=torch.float64)
    assert monitor.values()["A0"].now == pytest.approx(float(value.tensor[0, 0]))
