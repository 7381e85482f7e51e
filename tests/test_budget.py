"""The budget holds on every route to a value, and powers that would underflow are never formed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

import fotltn as fot
from fotltn.analysis.evaluate_cells import sweep
from fotltn.analysis.view import View
from fotltn.decisions import two_valued
from fotltn.engine import compile_formulas
from fotltn.errors import LimitError
from fotltn.evaluation import Evaluator, evaluate_all
from fotltn.logic.check import check
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, STABLE_PRODUCT

pytestmark = pytest.mark.reliability

THEORY = check(
    fot.parse(
        "sort agent\npredicate P(agent)\npredicate Near(agent, agent)\n"
        "axiom Cheap: forall x: agent. G P(x)\n"
        "axiom Dear: forall x: agent, y: agent, z: agent. "
        "G(Near(x, y) & Near(y, z) -> F Near(x, z))\n"
    )
)
SIZE, HORIZON = 24, 30


def data(dtype: torch.dtype = torch.float64) -> fot.Tables:
    generator = torch.Generator().manual_seed(0)
    near = torch.rand(SIZE, SIZE, HORIZON, dtype=dtype, generator=generator)
    return fot.tables(
        THEORY, P=torch.rand(SIZE, HORIZON, dtype=dtype, generator=generator), Near=near
    )


FORMULAS = {axiom.name: axiom.formula for axiom in THEORY.axioms}
NEEDED = SIZE**3 * HORIZON  # cells of the dear axiom

ROUTES: dict[str, dict[str, Any]] = {
    "crisp": {"semantics": CRISP, "threshold": 0.5},
    "by the equations": {"semantics": STABLE_PRODUCT, "engine": False},
    "a p whose powers underflow": {"semantics": STABLE_PRODUCT.with_p(200)},
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("at", [0, None])
def test_what_does_not_fit_is_refused_by_name(route, at):
    planned = route == "a p whose powers underflow"  # a plan has room for gradients
    budget = 2_000_000 if planned else 200_000
    with pytest.raises(LimitError, match=rf"'Dear'.* bytes.* budget of {budget:,}"):
        evaluate_all(FORMULAS, data(), at=at, budget=budget, **ROUTES[route])
    alone = {"Cheap": FORMULAS["Cheap"]}
    assert evaluate_all(alone, data(), at=at, budget=budget, **ROUTES[route])["Cheap"] is not None


def test_a_plan_that_does_not_fit_is_refused_by_name():
    with pytest.raises(LimitError, match=r"'Dear': .* budget of 1,000"):
        fot.compile(THEORY, data(), budget=1000)


def test_the_public_function_refuses():
    with pytest.raises(LimitError, match="the formula needs"):
        fot.evaluate(
            "forall x: agent, y: agent, z: agent. G(Near(x, y) -> F Near(y, z))", data(),
            semantics="crisp", threshold=0.5, budget=100_000,
        )  # fmt: skip


@pytest.mark.parametrize("semantics", [CRISP, STABLE_PRODUCT])
def test_cells_are_evaluated_in_parts_that_fit(semantics):
    tables = two_valued(data(), 0.5) if semantics.boolean else data()
    cells = View(data(), STABLE_PRODUCT).cells(THEORY.axiom("Dear"))
    whole = list(sweep({"u": cells.body}, cells.axes, tables, semantics))
    parts = list(sweep({"u": cells.body}, cells.axes, tables, semantics, budget=700_000))
    assert len(whole) == 1 < len(parts)
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    joined = torch.cat([part.values["u"] for part in parts], 1)
    assert torch.equal(joined, whole[0].values["u"])


def test_violations_under_a_small_budget_are_those_under_a_large_one():
    axiom, tables = THEORY.axiom("Dear"), data()
    large = View(tables, STABLE_PRODUCT).cells(axiom).worst(5)
    little = View(tables, STABLE_PRODUCT, budget=3_000_000)  # which takes four parts
    small = little.cells(axiom).worst(5)
    assert (small.count, small.violated, small.weak) == (large.count, large.violated, large.weak)
    assert [one.binding for one in small] == [one.binding for one in large]
    assert [one.share for one in small] == pytest.approx([one.share for one in large])


def test_the_value_of_cells_keeps_to_their_budget():
    cells = View(data(), STABLE_PRODUCT, budget=1_000_000, theory=THEORY).cells("Dear")
    for refused in (cells.value, cells.worst):
        with pytest.raises(LimitError, match=r"'Dear': .*budget of 1,000,000"):
            refused()


def test_rules_are_refused_by_name():
    with pytest.raises(LimitError, match=r"'Dear': .*budget of 5,000"):
        list(View(data(), budget=5000, theory=THEORY).rules())


def test_facts_are_counted_without_being_laid_out():
    """A table of all pairs at all times would take 65 MB."""
    rows = {"predicate": ["Near"] * 3, "arg1": ["a", "b", "c"], "arg2": ["b", "c", "d"]}
    many = {"predicate": ["P"] * 400, "arg1": [f"e{i}" for i in range(400)], "time": [*range(400)]}
    tables = fot.read(THEORY, {**rows, "time": [0, 1, 2]}, many)
    view = View(tables, theory=replace(THEORY, axioms=THEORY.axioms[1:]))
    assert list(view.rules(budget=1_000_000)) == list(view.rules())


MEASURED = """
import os, re, sys
from pathlib import Path
import torch
import fotltn as fot
from fotltn.logic.check import check
for formula in sys.argv[1:]:
    child = os.fork()  # each has a process of its own
    if child == 0:
        break
    assert os.waitpid(child, 0)[1] == 0
else:
    sys.exit()
theory = check(fot.parse("sort s\\npredicate P(s, s)\\naxiom A: " + formula))
data = fot.tables(theory, P=torch.rand(160, 160, 100) > 0.5)
fot.evaluate(theory.axioms[0].source, fot.tables(theory, P=torch.ones(2, 2, 3)), semantics="crisp")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
fot.evaluate(theory.axioms[0].source, data, semantics="crisp")
taken = peak() - before
low, high = 1, 10**10
while high - low > low / 5:  # the least budget that is not refused
    said = (low + high) // 2 if high < 4 * low else int((low * high) ** .5)
    try:
        fot.evaluate(theory.axioms[0].source, data, semantics="crisp", budget=said)
        high = said
    except fot.LimitError:
        low = said
print(taken, high, flush=True)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
def test_the_estimate_is_near_what_is_taken():
    formulas = [
        "forall x: s, y: s. G(P(x, y) -> F P(y, x))",
        "forall x: s, y: s. G(P(x, y) -> F[<=5] (P(y, x) & X P(x, y)))",
    ]
    run = [sys.executable, "-c", MEASURED, *formulas]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    measured = []
    for _ in range(3):  # what the system does besides only adds to what is taken
        done = subprocess.run(run, capture_output=True, text=True, check=True, env=alone)
        measured.append([tuple(map(int, line.split())) for line in done.stdout.splitlines()])
    for formula, pairs in zip(formulas, zip(*measured, strict=True), strict=True):
        taken, said = min(pairs)
        assert taken / 3 < said < 3 * taken, formula


# --- rounding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 5, 8, 20, 100])
@pytest.mark.parametrize("text", ["forall x: agent. G P(x)", "exists x: agent. F P(x)"])
def test_prepared_plans_in_single_precision_are_right_at_every_p(p, text):
    """Powers of small degrees underflow: 0.01^20 is no number of single precision."""
    theory = check(fot.parse(f"sort agent\npredicate P(agent)\naxiom A: {text}"))
    table = 10 ** (-4 * torch.rand(7, 9, generator=torch.Generator().manual_seed(p)))
    tables = fot.tables(theory, P=table if "exists" in text else 1 - table)
    semantics, formula = STABLE_PRODUCT.with_p(p), theory.axioms[0].formula
    exact = reference.evaluate(
        formula, fot.tables(theory, P=(table if "exists" in text else 1 - table).double()),
        semantics, dtype=torch.float64,
    ).tensor[0, 0]  # fmt: skip
    program = compile_formulas({"A": formula}, theory.signature, semantics)
    prepared = program.prepare(tables, dtype=torch.float32)(tables)["A"].tensor[..., 0].squeeze()
    kept = Evaluator({"A": formula}, semantics, 0)(tables)["A"].tensor[..., 0].squeeze()
    public = fot.evaluate(text, tables, semantics=semantics)
    asked = fot.compile(theory, tables, semantics=semantics)(tables)["A"]
    for value in (prepared, kept, public, asked):
        assert float(value) == pytest.approx(float(exact), abs=2e-6)


@pytest.mark.parametrize("semantics", ["product", "log-product", "crisp"])
@pytest.mark.parametrize("engine", [True, False])
def test_more_variables_at_once_than_a_tensor_has_dimensions(semantics, engine):
    theory = fot.parse("sort s\nstatic predicate P(s)")
    tables = fot.tables(theory, P=torch.tensor([1.0]))
    bound = ", ".join(f"x{i}" for i in range(70))
    conjunction = f"forall {bound}. " + " | ".join(f"P(x{i})" for i in range(70))
    with pytest.raises(fot.LimitError, match="70 variables at once; at most 50"):
        fot.evaluate(conjunction, tables, semantics=semantics, engine=engine)


@pytest.mark.parametrize("semantics", ["product", "log-product", "godel", "crisp"])
def test_variables_that_are_gone_make_room_for_others(semantics):
    theory = fot.parse("sort s\nstatic predicate P(s)")
    tables = fot.tables(theory, P=torch.tensor([1.0, 1.0]))
    nested = "".join(f"forall x{i}. (P(x{i}) & " for i in range(70)) + "true" + ")" * 70
    assert float(fot.evaluate(nested, tables, semantics=semantics)) == pytest.approx(1)


def test_twenty_variables_in_a_count_of_truth():
    """The letters of a sum of products once met the one that stood for time."""
    theory = fot.parse("sort s\npredicate P(s)")
    tables = fot.tables(theory, P=torch.ones(1, 3))
    bound = ", ".join(f"x{i}" for i in range(20))
    formula = f"forall {bound}. " + " & ".join(f"P(x{i})" for i in range(20))
    assert bool(fot.evaluate(formula, tables, semantics="crisp"))
