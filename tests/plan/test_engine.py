"""The engine against the reference: values and derivatives, on random theories and data."""

import contextlib
import gc
import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.engine import as_given, compile_formulas
from fotltn.errors import FotError, LimitError, SemanticsError
from fotltn.evaluation import present
from fotltn.logic.check import check
from fotltn.plan.plan import Route
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, LOG_PRODUCT, SEMANTICS, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables, Value
from fotltn.syntax.load import parse_theory
from tests.random_cases import random_case

COUNT = int(os.environ.get("FOTLTN_CASES", "400"))


def reference_value(case):
    value = reference.evaluate(
        case.checked.formula, case.model, case.semantics, dtype=torch.float64
    )
    at: Any = "all" if case.at is None else case.at
    return present(value, case.checked.free, case.model, at=at, batched=True)


def engine_value(case, **options):
    signature = as_given({"": case.checked.formula}, case.model)
    program = compile_formulas({"f": case.checked.formula}, signature, case.semantics, at=case.at)
    prepared = program.prepare(case.model, dtype=torch.float64, **options)
    axes, tensor = prepared(case.model)["f"]
    if case.at is not None:
        tensor = tensor.expand(*tensor.shape[:-1], case.model.horizon)
    at: Any = "all" if case.at is None else case.at
    found = present(Value(axes, tensor), case.checked.free, case.model, at=at, batched=True)
    return found, prepared.plan


def slopes(total, inputs, *, again):
    if not total.requires_grad:
        return [torch.zeros_like(i) for i in inputs]
    found = torch.autograd.grad(total, inputs, allow_unused=True, create_graph=again)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(found, inputs, strict=True)]


def gradients(value, case):
    """The gradients, and their derivatives along a direction of no two equal components."""
    inputs = [i for i in case.inputs if i.requires_grad]
    weights = torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)
    total = (torch.where(value.isnan(), 0.0, value) * weights).sum()
    first = slopes(total, inputs, again=True)
    ways = [torch.linspace(-1.1, 0.7, g.numel()).reshape(g.shape) for g in first]
    along = [(g * way).sum() for g, way in zip(first, ways, strict=True)]
    second = slopes(torch.stack([*along, torch.zeros(())]).sum(), inputs, again=False)
    return [g.detach() for g in first], second


def compare(seed, *, presence=False, **options):
    """The routes that were taken, or None if the reference refuses the case."""
    case = random_case(seed, presence=presence)
    try:
        expected = reference_value(case)
    except FotError:
        return None
    found, plan = engine_value(case, **options)
    told = f"seed {seed}: {case.text} under {case.semantics.name} at {case.at}"
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m: f"{told}\n{m}"
    )
    derivatives = zip(gradients(found, case), gradients(expected, case), (1e-9, 1e-6), strict=True)
    for ours, wanted, close in derivatives:
        for mine, theirs in zip(ours, wanted, strict=True):
            assert mine.isfinite().all(), told
            torch.testing.assert_close(
                mine, theirs, rtol=close, atol=close, msg=lambda m: f"{told}\n{m}"
            )
    return {step.route for step in plan.steps}


@contextlib.contextmanager
def everything_is_freed():
    """No result may live on in the way back to it: what keeps itself alive is never freed."""

    def results():
        gc.collect()
        return sum(type(o) is torch.Tensor and o.grad_fn is not None for o in gc.get_objects())

    before = results()
    yield
    assert results() == before


def test_values_and_derivatives_are_those_of_the_reference():
    with everything_is_freed():
        found = [compare(seed) for seed in range(COUNT)]
    compared = [routes for routes in found if routes is not None]
    assert len(compared) > 0.95 * COUNT
    large = {Route.CHUNKED, Route.EXPANDED}  # with tests of their own
    assert set().union(*compared) >= set(Route) - large


@pytest.mark.slow
@pytest.mark.parametrize("start", range(20_000, 31_000, 1000))
def test_many_more_cases(start):
    found = [compare(seed, presence=seed % 2 == 1) for seed in range(start, start + 1000)]
    assert sum(routes is not None for routes in found) > 960


def test_entities_that_come_and_go():
    found = [compare(seed, presence=True) for seed in range(COUNT, COUNT + 100)]
    assert sum(routes is not None for routes in found) > 90


def test_chunks_under_a_small_budget_give_the_same():
    chunked = 0
    with everything_is_freed():
        for seed in range(250):
            with contextlib.suppress(LimitError):
                chunked += Route.CHUNKED in (compare(seed, budget=6000) or set())
    assert chunked > 3


NEAR = check(
    parse_theory(
        """
        sort agent
        predicate A(agent), B(agent), Near(agent, agent)
        axiom One: forall x. G(A(x) -> exists y. Near(x, y) & B(y))
        axiom Two: forall x. G(B(x) -> F exists y. Near(x, y) & A(y))
        axiom Three: forall x, y where Near(x, y). G(A(x) -> B(y) U A(y))
        """,
        source="near.fot",
    )
)


@pytest.mark.parametrize("name", [name for name, s in SEMANTICS.items() if not s.boolean])
@pytest.mark.parametrize("back", [True, False])
def test_steps_of_training_leave_nothing_behind(name, back):
    draw = torch.Generator().manual_seed(5)
    learned = [torch.rand(1, 6, 5, generator=draw).requires_grad_() for _ in "AB"]
    near = torch.rand(1, 6, 6, 5, generator=draw) < 0.3
    facts: dict[str, torch.Tensor | SparseTable] = {
        "A": learned[0],
        "B": learned[1],
        "Near": sparse_table(near.nonzero().T, None, near.shape),
    }
    tables = Tables({"agent": 6}, torch.tensor([5]), 5, facts, {}, {})
    axioms = {axiom.name: axiom.formula for axiom in NEAR.axioms}
    program = compile_formulas(axioms, NEAR.signature, SEMANTICS[name])
    prepared = program.prepare(tables, dtype=torch.float32)
    with everything_is_freed():
        for _ in range(3):
            total = torch.stack([v.tensor.sum() for v in prepared(tables).values()]).sum()
            if back:
                total.backward()
            del total


def test_two_valued_truth_is_not_for_the_engine():
    case = random_case(1)
    with pytest.raises(SemanticsError, match="computes degrees, not the truth of 'crisp'"):
        compile_formulas({"f": case.checked.formula}, case.checked.signature, CRISP)


def test_log_space_goes_by_the_equations_under_the_budget():
    logs = replace(STABLE_PRODUCT, name="log-means", log_space=True)
    for seed in range(60):
        case = replace(random_case(seed), semantics=logs if seed % 2 else LOG_PRODUCT)
        try:
            expected = reference_value(case)
        except FotError:
            continue
        found, plan = engine_value(case)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        assert Route.GIVEN in {step.route for step in plan.steps}
        for mine, theirs in zip(gradients(found, case), gradients(expected, case), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)
    with pytest.raises(LimitError, match=r"needs [\d,]+ bytes at once, more than the budget of 10"):
        engine_value(case, budget=10)
