"""Log space: the same degrees where those exist, and more where they underflow."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache

import pytest
import torch

from fotltn import Semantics, SemanticsError
from fotltn.semantics import aggregate, connectives, logspace
from fotltn.semantics.config import (
    LOG_PRODUCT,
    PRODUCT,
    STABLE_PRODUCT,
    Implication,
    Negation,
    TConorm,
    TNorm,
)
from fotltn.semantics.tables import Tables
from fotltn.syntax import formula as f
from tests.helpers import value_of as evaluate
from tests.semantics.worlds import random_batch, random_quantified, tables_of

GRID = torch.tensor([0.0, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9, 1.0], dtype=torch.float64)
P = [1.0, 2.0, 4.0, 100.0, math.inf]
ATOMS = 10_000


def close(found: torch.Tensor, expected: torch.Tensor, what: str | None = None) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12, msg=what)


# --- the same as on degrees ------------------------------------------------------------------


@lru_cache(maxsize=1)
def random_cases() -> list[tuple[f.Formula, Tables]]:
    rng, cases = random.Random(1), []
    for _ in range(150):
        worlds = random_batch(rng, rng.random)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        cases.append((formula, tables_of(formula, worlds)))
    return cases


@pytest.mark.parametrize(
    ("log", "linear"),
    [(LOG_PRODUCT, PRODUCT), (replace(STABLE_PRODUCT, log_space=True), STABLE_PRODUCT)],
    ids=["folds", "means"],
)
def test_equal_where_nothing_underflows(log, linear):
    for formula, tables in random_cases():
        expected = evaluate(formula, tables, semantics=linear, at="all").nan_to_num()
        found = evaluate(formula, tables, semantics=log, at="all").nan_to_num()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9, msg=str(formula))
        logs = evaluate(formula, tables, semantics=log, at="all", log=True)
        assert logs[~logs.isnan()].isfinite().all()
        torch.testing.assert_close(logs.exp().nan_to_num(), found)


def test_connectives():
    u, v = torch.cartesian_prod(GRID, GRID).T
    a, b = logspace.to_log(u), logspace.to_log(v)
    close(a.exp(), u)
    close(logspace.log_not(a).exp(), 1 - u)
    close(logspace.log_and(a, b).exp(), connectives.conjoin(u, v, TNorm.PRODUCT))
    close(logspace.log_or(a, b).exp(), connectives.disjoin(u, v, TConorm.PROBABILISTIC_SUM))
    close(logspace.log_imply(a, b).exp(), connectives.imply(u, v, Implication.REICHENBACH))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dims", [(0,), (0, 1), ()])
def test_folds(dims, masked):
    u = torch.rand(4, 5)
    mask = torch.rand(4, 5) > 0.5 if masked else None
    a = u.log()
    every = aggregate.fold_conjunction(u, TNorm.PRODUCT, dims, mask)
    close(logspace.log_fold_conjunction(a, dims, mask).exp(), every)
    some = aggregate.fold_disjunction(u, TConorm.PROBABILISTIC_SUM, dims, mask)
    close(logspace.log_fold_disjunction(a, dims, mask).exp(), some)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), ()])
@pytest.mark.parametrize("p", P)
def test_means(p, dims, masked):
    u = torch.rand(4, 5)
    u[0, 0], u[1, 1] = 0.0, 1.0
    mask = torch.rand(4, 5) > 0.5 if masked else None
    a = logspace.to_log(u)
    close(logspace.log_p_mean(a, p, dims, mask).exp(), aggregate.p_mean(u, p, dims, mask))
    error = aggregate.p_mean_error(u, p, dims, mask)
    close(logspace.log_p_mean_error(a, p, dims, mask).exp(), error)


@pytest.mark.parametrize("p", P)
def test_means_over_nothing(p):
    nothing, unseen = torch.zeros(0, 2), torch.zeros(3, 2, dtype=torch.bool)
    for a, mask in ((nothing, None), (torch.zeros(3, 2), unseen)):
        close(logspace.log_p_mean(a, p, (0,), mask).exp(), torch.zeros(2))
        close(logspace.log_p_mean_error(a, p, (0,), mask).exp(), torch.ones(2))
        close(logspace.log_fold_conjunction(a, (0,), mask).exp(), torch.ones(2))
        close(logspace.log_fold_disjunction(a, (0,), mask).exp(), torch.zeros(2))


# --- where degrees underflow -----------------------------------------------------------------


def right_log(log: torch.Tensor, table: torch.Tensor) -> None:
    """Many degrees of 0.9: the product of 10,000 is about 1e-458, its logarithm -1053.6."""
    assert log.dtype == torch.float32
    assert log.item() == pytest.approx(table.numel() * math.log(0.9), rel=1e-4)
    log.backward()
    assert table.grad is not None
    torch.testing.assert_close(table.grad, torch.full_like(table, 1 / 0.9))


def test_a_product_of_many_entities():
    table = torch.full((ATOMS,), 0.9, dtype=torch.float32, requires_grad=True)
    text = "forall x. q(x)"
    right_log(evaluate(text, {"q": table}, semantics="log-product", log=True), table)
    assert evaluate(text, {"q": table}, semantics="product").item() == 0, "so this is no idle test"


def test_a_conjunction_of_many_atoms():
    """Of 2,500, which is 1e-115: no number of single precision."""
    table = torch.full((2_500, 1), 0.9, dtype=torch.float32, requires_grad=True)
    names = [f"e{i}" for i in range(len(table))]
    formula: f.Formula = f.Atom("q", (f.Const(names[0]),))
    for name in names[1:]:
        formula = f.And(formula, f.Atom("q", (f.Const(name),)))
    constants = {name: number for number, name in enumerate(names)}
    log = evaluate(formula, {"q": table}, constants=constants, semantics="log-product", log=True)
    right_log(log, table)


def test_a_long_trace():
    """G within forall: 40 x 250 points, at the first of them."""
    table = torch.full((40, 250), 0.9, dtype=torch.float32, requires_grad=True)
    right_log(evaluate("forall x. G q(x)", {"q": table}, semantics="log-product", log=True), table)


def test_zero_has_a_finite_logarithm():
    """A single false fact makes the product as small as it gets, and training can go on."""
    table = torch.tensor([0.0, 0.9, 1.0], requires_grad=True)
    value = evaluate("forall x. q(x)", {"q": table}, semantics="log-product", log=True)
    assert value.isfinite()
    assert value < -100
    value.backward()
    assert table.grad is not None
    assert table.grad.isfinite().all()
    assert table.grad[1].item() == pytest.approx(1 / 0.9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_false_is_the_floor(dtype):
    """However falsehood comes about, its logarithm is one number, with a finite gradient."""
    low = math.log(logspace.floor(dtype))
    true = torch.zeros(3, dtype=dtype, requires_grad=True)
    for false in (
        logspace.to_log(0 * true),
        logspace.log_not(true),
        logspace.log_fold_disjunction(logspace.log_not(true[:1]), (0,)),
        logspace.log_p_mean(logspace.log_not(true), 2, (0,)),
        logspace.log_p_mean_error(logspace.log_not(true), 2, (0,)),
    ):
        torch.testing.assert_close(false, torch.full_like(false, low))
        (grad,) = torch.autograd.grad(false.sum(), true)
        assert grad.isfinite().all()


def test_logarithms_of_other_semantics():
    table = {"p": [0.2, 0.8]}
    value = evaluate("F p", table, semantics="godel", log=True)
    assert value.item() == pytest.approx(math.log(0.8))


@pytest.mark.parametrize(
    "choice",
    [
        {"conjunction": TNorm.MINIMUM}, {"disjunction": TConorm.MAXIMUM}, {"epsilon": 1e-4},
        {"implication": Implication.GOGUEN}, {"negation": Negation.GODEL},
    ],
)  # fmt: skip
def test_only_the_product_has_a_log_form(choice):
    with pytest.raises(SemanticsError, match="log space needs the product"):
        Semantics("wrong", log_space=True, **choice)
