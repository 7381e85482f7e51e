"""Scans and until against the reference, and what float32 must not lose."""

import itertools
import random

import pytest
import torch

from fotltn.algebra.expr import Reduction
from fotltn.kernels.until import until
from fotltn.kernels.windows import scan, slope_without_asking
from fotltn.logic.core import Window
from fotltn.semantics import temporal
from fotltn.semantics.config import GODEL, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.operators import operators
from tests.random_cases import SEMANTICS

WINDOWS = [
    Window(),
    Window(2),
    Window(0, 0),
    Window(0, 3),
    Window(1, 2),
    Window(3, 9),
    Window(20),
    Window(4, 2),
]


def brute(kind, u, window, past, lengths):
    out = torch.zeros_like(u)
    for b, t in itertools.product(range(u.shape[0]), range(u.shape[-1])):
        high = u.shape[-1] if window.high is None else window.high
        steps = range(window.low, min(high, u.shape[-1]) + 1)
        points = [t - k if past else t + k for k in steps]
        kept = [u[b, k] for k in points if 0 <= k < lengths[b]]
        match kind:
            case Reduction.MEAN:
                out[b, t] = sum(kept) / max(1, len(kept))
            case Reduction.SUM:
                out[b, t] = sum(kept)
            case Reduction.PRODUCT:
                out[b, t] = torch.stack(kept).prod() if kept else 1.0
            case Reduction.MINIMUM:
                out[b, t] = min(kept, default=torch.tensor(1.0))
            case Reduction.MAXIMUM:
                out[b, t] = max(kept, default=torch.tensor(0.0))
    return out


@pytest.mark.parametrize("kind", Reduction)
@pytest.mark.parametrize("past", [False, True])
def test_scans(kind, past):
    for window, horizon in itertools.product(WINDOWS, [1, 2, 7]):
        u = torch.rand(3, horizon)
        lengths = [horizon, max(1, horizon - 2), 1]
        inside = torch.arange(horizon) < torch.tensor(lengths).unsqueeze(-1)
        found = scan(kind, u, window, past, inside)
        expected = brute(kind, u, window, past, lengths)
        torch.testing.assert_close(found[inside], expected[inside], msg=f"{window}, {horizon}")


def test_bounded_windows_do_not_cancel_in_float32():
    """A difference of prefix sums would lose the small values behind a large one."""
    u = torch.cat([torch.full((1000,), 1e6), torch.full((1000,), 1e-3)]).float()
    found = scan(Reduction.MEAN, u, Window(0, 9), False, None)
    torch.testing.assert_close(
        found[1000:1990], torch.full((990,), 1e-3).float(), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("semantics", SEMANTICS, ids=lambda s: s.name)
@pytest.mark.parametrize("past", [False, True])
def test_until(semantics, past):
    rng = random.Random(1)
    for window, horizon in itertools.product(WINDOWS, [1, 2, 6]):
        left, right = torch.rand(2, 3, 2, horizon)
        lengths = torch.tensor([horizon, max(1, horizon - 1), 1])
        inside = torch.arange(horizon) < lengths.unsqueeze(-1)
        mask = inside.unsqueeze(1).expand(3, 2, horizon)
        expected = temporal.until(left, right, window, past, lengths, operators(semantics))
        for block in (1, 30, 10**6):
            found = until(left, right, window, past, inside.unsqueeze(1), semantics, block=block)
            torch.testing.assert_close(found[mask], expected[mask])
        at = rng.randrange(horizon)
        one = until(left, right, window, past, inside.unsqueeze(1), semantics, at=at)
        torch.testing.assert_close(one[mask[..., at]], expected[..., at][mask[..., at]])


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, PRODUCT, GODEL], ids=lambda s: s.name)
def test_gradients_of_until_do_not_depend_on_blocks(semantics):
    left, right = (torch.rand(2, 9).requires_grad_() for _ in range(2))
    grads = []
    for block in (1, 40, 10**6):
        found = until(left, right, Window(0, 6), False, None, semantics, block=block)
        grads.append(torch.autograd.grad(found.square().sum(), [left, right]))
    for other in grads[1:]:
        for a, b in zip(grads[0], other, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("zeros", [0.0, 0.15])
def test_products_to_the_end_have_the_gradients_of_pytorch(zeros):
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        u = torch.rand(4, 9, dtype=torch.float64, generator=generator)
        u[torch.rand(4, 9, generator=generator) < zeros] = 0
        weights = torch.randn(4, 9, dtype=torch.float64, generator=generator)
        ours, theirs = u.clone().requires_grad_(), u.clone().requires_grad_()
        scanned = scan(Reduction.PRODUCT, ours, Window(), False, None)
        plain = theirs.flip(-1).cumprod(-1).flip(-1)
        assert torch.equal(scanned, plain)
        (slope,) = torch.autograd.grad((scanned * weights).sum(), ours)
        (wanted,) = torch.autograd.grad((plain * weights).sum(), theirs)
        assert torch.equal(slope, wanted)
        assert torch.equal(slope_without_asking(u, weights), slope) or zeros
        torch.testing.assert_close(slope_without_asking(u, weights), slope)

    def function(v):
        return scan(Reduction.PRODUCT, v, Window(), False, None)

    assert torch.autograd.gradcheck(function, ours)
    assert torch.autograd.gradgradcheck(function, ours)
