"""Where an entity is absent, it has no time points: formulas against loops in three values."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

import fotltn as fot
from fotltn.evaluation import defined as where_defined
from fotltn.evaluation import evaluate_core, present
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula
from fotltn.logic.parts import predicates_in
from fotltn.logic.text import text_of
from fotltn.semantics.config import CRISP, SEMANTICS, Semantics
from fotltn.semantics.tables import Tables, align, within
from fotltn.tree import postorder
from tests.semantics.absent import THEORY, by_loops, grown, random_tables


def checked(text: str) -> CheckedFormula:
    return fot.check_formula(text, THEORY, sorts={"x": "a", "y": "b"})


def by_evaluation(
    one: CheckedFormula, tables: Tables, semantics: Semantics = CRISP, *, engine: bool = True
) -> list[Any]:
    """The same values as `by_loops`, from the evaluator and from where it says to be defined."""
    value = evaluate_core(one.formula, tables, semantics, engine=engine)
    where = where_defined(one.formula, tables)
    shown = present(value, one.free, tables, at="all", batched=True)
    counts = torch.ones_like(shown, dtype=torch.bool)
    if where is not None:
        counts = present(where, one.free, tables, at="all", batched=True)
    rows = torch.stack([shown.double(), counts.double()], -1).reshape(
        tables.batch, -1, tables.horizon, 2
    )
    ends = zip(tables.lengths.tolist(), rows.tolist(), strict=True)
    return [v if d else None for n, trace in ends for row in trace for v, d in row[:n]]


@pytest.mark.parametrize("local", [False, True])
def test_truth_is_that_of_loops(local):
    """Nearly half of the formulas are neither always true nor always false where defined."""
    r = random.Random(35 + local)
    kinds: Counter[str] = Counter()
    for _ in range(400):
        text, tables = grown(r, r.randint(1, 4)), random_tables(r, local=local)
        one = checked(text)
        expected = by_loops(one.formula, one.free, tables)
        assert by_evaluation(one, tables) == expected, text
        kinds["mixed" if {True, False} <= {*expected} else "same"] += 1
        kinds["undefined"] += None in expected
    assert kinds["mixed"] >= 120
    assert kinds["undefined"] >= 120


GRADED = {"Sick", "Busy", "Near"}
DEGREES = [
    SEMANTICS["stable-product"].with_p(4), SEMANTICS["stable-product"].with_p(1),
    SEMANTICS["witness"], SEMANTICS["product"], SEMANTICS["godel"], SEMANTICS["godel-residual"],
    SEMANTICS["lukasiewicz"], SEMANTICS["log-product"],
]  # fmt: skip


def graded_formula(r: random.Random) -> CheckedFormula:
    """A random formula whose guards read only what is crisp."""
    while True:
        one = checked(grown(r, r.randint(1, 4)))
        quantifiers = [n for n in postorder(one.formula) if isinstance(n, c.Quantifier)]
        guards = [n.guard for n in quantifiers if n.guard is not None]
        if not predicates_in(*guards) & GRADED:
            return one


@pytest.mark.parametrize("semantics", DEGREES, ids=lambda s: f"{s.name}-{s.always}")
def test_degrees_are_those_of_loops(semantics):
    """Means run over the points at which their body is defined."""
    r, between = random.Random(semantics.name), 0
    plain = replace(semantics, log_space=False)
    for number in range(80):
        one, tables = graded_formula(r), random_tables(r, degrees=True, local=number % 2 == 1)
        expected = by_loops(one.formula, one.free, tables, plain)
        for engine in (True, False):
            found = by_evaluation(one, tables, semantics, engine=engine)
            assert [v is None for v in found] == [v is None for v in expected], one.formula
            pairs = [(u, v) for u, v in zip(found, expected, strict=True) if u is not None]
            for u, v in pairs:
                assert float(u) == pytest.approx(float(v), abs=1e-9), (text_of(one.formula), engine)
        between += any(v is not None and 0 < v < 1 for v in expected)
    assert between >= 15


SMOOTH = [s for s in DEGREES if not s.name.startswith("godel")]  # where values tie, slopes differ


@pytest.mark.parametrize("semantics", SMOOTH, ids=lambda s: f"{s.name}-{s.always}")
def test_gradients_are_those_of_the_equations(semantics):
    r, moved = random.Random(semantics.name), 0
    for number in range(60):
        one, tables = graded_formula(r), random_tables(r, degrees=True, local=number % 2 == 1)
        slopes: list[torch.Tensor] = []
        for engine in (True, False):
            sick = _between(tables.predicate("Sick")).requires_grad_()
            given = replace(tables, predicates={**tables.predicates, "Sick": sick})
            found = evaluate_core(one.formula, given, semantics, engine=engine)
            where = where_defined(one.formula, given)
            value = found.tensor
            if where is not None:
                value, counts = align([found, where])[1]
                value = torch.where(counts, value, 0.0)
            points = torch.arange(value.shape[-1])
            inside = within(given.lengths, points, value.dim())  # nobody asks for others
            value = torch.where(value.isfinite() & inside, value, 0.0)
            total = value.sum() + 0 * sick.sum()
            slopes += torch.autograd.grad(total, sick)
        one_way, other_way = slopes
        assert torch.allclose(one_way, other_way, atol=1e-7), text_of(one.formula)
        moved += bool(one_way.any())
    assert moved >= 5


def _between(table: torch.Tensor) -> torch.Tensor:
    """Other degrees of the same shape, all different."""
    generator = torch.Generator().manual_seed(table.numel())
    return 0.05 + 0.9 * torch.rand(table.shape, generator=generator, dtype=torch.float64)
