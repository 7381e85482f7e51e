"""Until by diagonals: values and gradients of the matrix of pairs, and its second derivatives."""

from dataclasses import replace

import pytest
import torch

from fotltn.kernels.until import _by_rows, until
from fotltn.logic.core import Window
from fotltn.semantics.config import GODEL, LTN, STABLE_PRODUCT, PMean

SEMANTICS = {
    "stable-product": STABLE_PRODUCT,
    "ltn": LTN,
    "p = 1": STABLE_PRODUCT.with_p(1),
    "p = 2": STABLE_PRODUCT.with_p(2),
    "p = 8": STABLE_PRODUCT.with_p(8),
    "mixed": replace(LTN, always=PMean(3), eventually=PMean(2.5)),
}
WINDOWS = [Window(), Window(2, None), Window(0, 3), Window(2, 5), Window(1, 1), Window(30, 40)]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def sides(device: str, *, corners: bool, shape: tuple[int, ...] = (3, 2, 20)) -> list[torch.Tensor]:
    """Degrees for the left and the right side; at corners half of them are exactly 0 or 1."""
    found = []
    for share in (0.8, 0.5):
        u = torch.rand(shape)
        certain = (torch.rand(shape) < share).to(u.dtype)
        u = torch.where(torch.rand(shape) < 0.5, certain, u) if corners else u
        found.append(u.to(device).requires_grad_())
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("lengths", [None, (20, 7, 1)])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", SEMANTICS)
def test_values_and_gradients_are_those_of_pairs(name, window, lengths, corners, device):
    left, right = sides(device, corners=corners)
    inside = None
    if lengths is not None:
        ends = torch.tensor(lengths, device=device)
        inside = (torch.arange(20, device=device) < ends[:, None])[:, None, :]
    s = SEMANTICS[name]
    walked = until(left, right, window, False, inside, s, block=1)
    paired = _by_rows(left, right, inside, window, s, 10**6)
    seen = torch.ones_like(walked) if inside is None else inside.to(walked.dtype).expand_as(walked)
    torch.testing.assert_close(walked * seen, paired * seen, rtol=0, atol=1e-12)
    grad = torch.randn(walked.shape).to(device) * seen
    for one, other in zip(
        torch.autograd.grad(walked, (left, right), grad),
        torch.autograd.grad(paired, (left, right), grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", SEMANTICS)
def test_second_derivatives(name):
    left, right = sides("cpu", corners=False, shape=(2, 6))

    def value(a, b):
        return until(
            a * 0.8 + 0.1, b * 0.8 + 0.1, Window(0, 4), False, None, SEMANTICS[name], block=1
        )

    assert torch.autograd.gradgradcheck(value, (left, right), fast_mode=True)


@pytest.mark.parametrize("learned", [0, 1])
def test_one_side_alone_may_be_learned(learned):
    left, right = sides("cpu", corners=False)
    side = (left, right)[learned]
    (left, right)[1 - learned].requires_grad_(False)
    for again in (False, True):
        value = until(left, right, Window(), False, None, STABLE_PRODUCT, block=1).sum()
        (grad,) = torch.autograd.grad(value, side, create_graph=again)
        expected = _by_rows(left, right, None, Window(), STABLE_PRODUCT, 10**6).sum()
        torch.testing.assert_close(grad, torch.autograd.grad(expected, side)[0])


def test_single_precision_loses_nothing_far_from_the_start():
    """A running sum from the start of the trace would: the long past drowns what is near."""
    left = torch.cat([torch.zeros(3000), torch.full((1096,), 0.999)]).float()
    right = torch.rand(4096).float()
    walked = until(left, right, Window(), False, None, STABLE_PRODUCT)
    exact = until(left.double(), right.double(), Window(), False, None, STABLE_PRODUCT)
    torch.testing.assert_close(walked, exact.float(), rtol=0, atol=2e-6)


def test_other_semantics_are_not_walked():
    left, right = sides("cpu", corners=True)
    crisp_like = until(left, right, Window(1, 3), False, None, GODEL, block=1)
    torch.testing.assert_close(crisp_like, _by_rows(left, right, None, Window(1, 3), GODEL, 10**6))


@pytest.mark.parametrize("lengths", [None, (300, 50)])
def test_traces_in_several_threads_have_the_values_of_one(lengths):
    ends = torch.tensor(lengths or (300, 300)).repeat(150)
    inside = None if lengths is None else torch.arange(300) < ends[:, None]
    left, right = (torch.rand(300, 300, requires_grad=True) for _ in range(2))
    threads, outcomes = torch.get_num_threads(), []
    for number in (1, 3):
        torch.set_num_threads(number)
        try:
            value = until(left, right, Window(), False, inside, STABLE_PRODUCT)
            outcomes.append((value, *torch.autograd.grad(value.sum(), (left, right))))
            assert torch.get_num_threads() == number
        finally:
            torch.set_num_threads(threads)
    for one, other in zip(*outcomes, strict=True):
        assert torch.equal(one, other)
