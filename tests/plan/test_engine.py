"""The engine against the reference: values and gradients, on random theories and data."""

import contextlib
import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.engine import as_given, compile_formulas
from fotltn.errors import FotError, LimitError, SemanticsError
from fotltn.evaluation import present
from fotltn.plan.plan import Route
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, LOG_PRODUCT, STABLE_PRODUCT
from fotltn.semantics.tables import Value
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


def gradients(value, case):
    inputs = [i for i in case.inputs if i.requires_grad]
    weights = torch.linspace(0.5, 1.5, value.numel()).reshape(value.shape)
    total = (torch.where(value.isnan(), 0.0, value) * weights).sum()
    if not total.requires_grad:
        return [torch.zeros_like(i) for i in inputs]
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(found, inputs, strict=True)]


def compare(seed, **options):
    """The routes that were taken, or None if the reference refuses the case."""
    case = random_case(seed)
    try:
        expected = reference_value(case)
    except FotError:
        return None
    found, plan = engine_value(case, **options)
    told = f"seed {seed}: {case.text} under {case.semantics.name} at {case.at}"
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m: f"{told}\n{m}"
    )
    for mine, theirs in zip(gradients(found, case), gradients(expected, case), strict=True):
        assert mine.isfinite().all(), told
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9, msg=lambda m: f"{told}\n{m}")
    return {step.route for step in plan.steps}


def test_values_and_gradients_are_those_of_the_reference():
    found = [compare(seed) for seed in range(COUNT)]
    compared = [routes for routes in found if routes is not None]
    assert len(compared) > 0.95 * COUNT
    large = {Route.CHUNKED, Route.EXPANDED}  # with tests of their own
    assert set().union(*compared) >= set(Route) - large


@pytest.mark.slow
@pytest.mark.parametrize("start", range(20_000, 31_000, 1000))
def test_many_more_cases(start):
    found = [compare(seed) for seed in range(start, start + 1000)]
    assert sum(routes is not None for routes in found) > 960


def test_chunks_under_a_small_budget_give_the_same():
    chunked = 0
    for seed in range(250):
        with contextlib.suppress(LimitError):
            chunked += Route.CHUNKED in (compare(seed, budget=6000) or set())
    assert chunked > 3


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
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert Route.GIVEN in {step.route for step in plan.steps}
        for mine, theirs in zip(gradients(found, case), gradients(expected, case), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    with pytest.raises(LimitError, match=r"needs [\d,]+ bytes at once, more than the budget of 10"):
        engine_value(case, budget=10)
