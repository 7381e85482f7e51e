"""Second derivatives of formulas: right at ordinary degrees, finite and agreed on at the edges."""

import itertools

import pytest
import torch
from torch.autograd import grad, gradgradcheck

import fotltn
from fotltn.kernels.until import until
from fotltn.logic.core import Window
from fotltn.semantics.config import STABLE_PRODUCT
from tests.helpers import planned

pytestmark = pytest.mark.reliability

FORMULAS = [
    "a U b", "a R b", "a W b", "a M b", "a S b", "a T b", "a U[1,2] b", "a S[0,1] b", "F a", "H a",
]  # fmt: skip
EDGES = {
    "zeros": [0.0, 0.0, 0.0],
    "ones": [1.0, 1.0, 1.0],
    "both": [0.0, 1.0, 0.5],
    "tiny": [1e-60, 1e-60, 1e-60],
    "ordinary": [0.3, 0.8, 0.6],
}


THEORY = fotltn.parse("predicate a, b")


def value(formula, a, b, **options):
    lengths = [3] * len(a) if a.dim() > 1 else None
    data = fotltn.tables(THEORY, a=a, b=b, lengths=lengths)
    found = fotltn.evaluate(formula, data, at="all", **options)
    return found * torch.arange(1.0, 4.0, dtype=found.dtype)


def second(formula, a, b, **options):
    """The second derivatives, trace by trace, along a direction of no two equal components."""
    inputs = [torch.tensor(u, dtype=torch.float64).requires_grad_() for u in (a, b)]
    first = grad(
        value(formula, *inputs, **options).sum(), inputs, create_graph=True, allow_unused=True
    )
    slopes = [u for u in first if u is not None]
    way = [torch.tensor([0.7, -1.1, 0.4], dtype=torch.float64) * i for i in (1, 2)]
    along = torch.stack([(u * v).sum() for u, v in zip(slopes, way, strict=False)]).sum()
    if not along.requires_grad:  # as of `F a` with p = 1, which is linear
        return [torch.zeros_like(u) for u in inputs]
    found = grad(along, inputs, allow_unused=True)
    return [torch.zeros_like(i) if u is None else u for u, i in zip(found, inputs, strict=True)]


@pytest.mark.parametrize("engine", [True, False])
@pytest.mark.parametrize("semantics", ["stable-product", "ltn", "witness"])
def test_second_derivatives_are_right_at_ordinary_degrees(semantics, engine):
    a = torch.tensor([0.3, 0.8, 0.6], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.7, 0.2, 0.4], dtype=torch.float64, requires_grad=True)
    for p in (1.5, 4):
        values = planned(FORMULAS, a, b, semantics=semantics, p=p, engine=engine)
        assert gradgradcheck(values, (a, b), rtol=1e-6, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 4])
@pytest.mark.parametrize("formula", FORMULAS)
def test_second_derivatives_at_the_edges_are_finite_and_those_of_the_equations(formula, p):
    pairs = list(itertools.product(EDGES, repeat=2))
    a, b = ([EDGES[pair[side]] for pair in pairs] for side in (0, 1))
    found = second(formula, a, b, p=p)
    expected = second(formula, a, b, p=p, engine=False)
    exact = torch.tensor(["tiny" not in pair for pair in pairs])  # there, rounding is as large
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.isfinite().all()
        assert theirs.isfinite().all()
        torch.testing.assert_close(mine[exact], theirs[exact], rtol=1e-6, atol=1e-9)


def test_small_degrees_have_second_derivatives_in_single_precision():
    """The second derivative of a root alone would overflow here; that of the mean does not."""

    def slopes(kind):
        u = torch.tensor([1e-8, 2e-8, 3e-8], dtype=kind, requires_grad=True)
        (first,) = grad(fotltn.evaluate("F a", {"a": u}), u, create_graph=True)
        return torch.stack([grad(v, u, retain_graph=True)[0] for v in first])

    exact = slopes(torch.float64)
    error = (slopes(torch.float32) - exact).abs().max()
    assert error < 1e-3 * exact.abs().max()


def test_blocks_that_are_computed_anew_have_second_derivatives():
    a, b = (torch.rand(2, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradgradcheck(
        lambda u, v: until(u, v, Window(0, None), False, None, STABLE_PRODUCT, block=30), (a, b)
    )
