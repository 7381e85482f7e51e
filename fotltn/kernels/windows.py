"""Reduce over a window of time at every point, in O(T) whatever the window.

Tensors have the shape (…, time). Sums are only added to, never subtracted from: suffixes by a
reverse cumulative sum, bounded windows by blocks as wide as the window, so each window meets two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fotltn.algebra.expr import Reduction
from fotltn.kernels.function import Differentiated
from fotltn.kernels.tracing import is_tracing
from fotltn.logic.core import Window

#: The value of a reduction over no points.
NEUTRAL = {
    Reduction.MEAN: 0.0,
    Reduction.SUM: 0.0,
    Reduction.PRODUCT: 1.0,
    Reduction.MINIMUM: 1.0,
    Reduction.MAXIMUM: 0.0,
}


def scan(kind: Reduction, u: Tensor, window: Window, past: bool, inside: Tensor | None) -> Tensor:
    """Reduce over the window of each time point.

    Args:
        kind: how to combine the values.
        u: values, shape (…, time).
        window: the steps away from each point.
        past: look back instead of ahead.
        inside: which points lie inside each trace, broadcastable to `u`; None if all do.
    """
    if inside is not None and not past:
        u = torch.where(inside, u, torch.full((), NEUTRAL[kind], dtype=u.dtype, device=u.device))
    if past:
        u = u.flip(-1)
    reduced = _ahead(Reduction.SUM if kind is Reduction.MEAN else kind, u, window)
    if kind is Reduction.MEAN:
        ones = torch.ones(u.shape[-1], dtype=u.dtype, device=u.device)
        if inside is not None and not past:
            ones = inside.to(u.dtype)
        reduced = reduced / _ahead(Reduction.SUM, ones, window).clamp(min=1)
    return reduced.flip(-1) if past else reduced


def _ahead(kind: Reduction, u: Tensor, window: Window) -> Tensor:
    """Reduce over windows that look ahead, where all points count."""
    horizon = u.shape[-1]
    low, high = window.low, window.high
    if low >= horizon or (high is not None and high < low):
        return torch.full_like(u, NEUTRAL[kind]) + 0 * u
    if high is None or high >= horizon - 1:
        reduced = _suffix(kind, u)
    else:
        reduced = _blocks(kind, u, high - low + 1)
    return reduced if low == 0 else _moved(reduced, low, NEUTRAL[kind])


def _moved(u: Tensor, steps: int, fill: float) -> Tensor:
    tail = torch.full((*u.shape[:-1], steps), fill, dtype=u.dtype, device=u.device)
    return torch.cat([u[..., steps:], tail], dim=-1)


class _SuffixSum(Differentiated):
    """Sums from each point to the end; the backward pass sums from the beginning to each point."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor) -> Tensor:
        return u.flip(-1).cumsum(-1).flip(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Save nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return grads[0].cumsum(-1)


class _SuffixProduct(Differentiated):
    """Products from each point to the end; the backward pass divides a product by each factor.

    Division by zero is avoided: a CPU checks for zeros and then takes a slower way. A GPU always
    uses `slope_without_asking`, because checking would make it wait.
    """

    @staticmethod
    def forward(u: Tensor) -> Tensor:
        return u.flip(-1).cumprod(-1).flip(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,), (u, out) = grads, ctx.saved_tensors
        if torch.is_grad_enabled() or (not u.is_cuda and _has_zero(u)):
            with torch.enable_grad():
                inner = u if u.requires_grad else u.detach().requires_grad_()
                value = running_product(inner.flip(-1)).flip(-1)
            again = torch.is_grad_enabled()
            slope: Tensor = torch.autograd.grad(value, inner, grad, create_graph=again)[0]
        elif u.is_cuda:
            slope = slope_without_asking(u, grad)
        else:
            slope = (grad * out).cumsum(-1) / u
        return slope


def _has_zero(u: Tensor) -> bool:
    return u.numel() > 0 and bool(u.abs().amin() == 0)


def slope_without_asking(u: Tensor, grad: Tensor) -> Tensor:
    """Differentiate the products from each point to the end, without checking for zeros.

    A product without zeros is divided by each of its factors. A product with a single zero has a
    gradient only for that factor: the product of the others.
    """
    zero = u == 0
    others = torch.where(zero, 1, u)
    shared = grad * others.flip(-1).cumprod(-1).flip(-1)
    zeros = zero.to(u.dtype).flip(-1).cumsum(-1).flip(-1)
    alone = torch.where(zeros == 1, shared, 0).cumsum(-1)
    return torch.where(zero, alone, torch.where(zeros == 0, shared, 0).cumsum(-1) / others)


def _suffix(kind: Reduction, u: Tensor) -> Tensor:
    """Reduce from each point to the end."""
    if kind in (Reduction.MEAN, Reduction.SUM) and not is_tracing():
        return _SuffixSum.apply(u)  # type: ignore[no-untyped-call,no-any-return]
    plain = is_tracing() or torch._C._functorch.peek_interpreter_stack() is not None
    if kind is Reduction.PRODUCT and not plain:
        return _SuffixProduct.apply(u)  # type: ignore[no-untyped-call,no-any-return]
    return _prefix(kind, u.flip(-1)).flip(-1)


def running_product(u: Tensor) -> Tensor:
    """Return the product up to each point; by doubling on a GPU, where PyTorch's gradient waits."""
    if not u.is_cuda:
        return u.cumprod(-1)
    points = 1
    while points < u.shape[-1]:
        u = u * torch.nn.functional.pad(u[..., :-points], (points, 0), value=1.0)
        points *= 2
    return u


def _prefix(kind: Reduction, u: Tensor) -> Tensor:
    match kind:
        case Reduction.PRODUCT:
            return running_product(u)
        case Reduction.MINIMUM:
            return u.cummin(-1).values
        case Reduction.MAXIMUM:
            return u.cummax(-1).values
        case _:
            return u.cumsum(-1)


def _blocks(kind: Reduction, u: Tensor, width: int) -> Tensor:
    """Reduce `width` points from each point: the rest of its block and the start of the next."""
    horizon = u.shape[-1]
    count = -(-horizon // width) + 1
    pad = torch.full(
        (*u.shape[:-1], count * width - horizon), NEUTRAL[kind], dtype=u.dtype, device=u.device
    )
    blocks = torch.cat([u, pad], dim=-1).unflatten(-1, (count, width))
    rest = _suffix(kind, blocks).flatten(-2)[..., :horizon]
    if width == 1:
        return rest
    # The window of the point at offset i of a block ends at offset i - 1 of the next block.
    begin = _prefix(kind, blocks).flatten(-2)
    ends = begin[..., width - 1 : width - 1 + horizon]
    crosses = torch.arange(horizon, device=u.device) % width != 0
    match kind:
        case Reduction.PRODUCT:
            both = rest * ends
        case Reduction.MINIMUM:
            both = torch.minimum(rest, ends)
        case Reduction.MAXIMUM:
            both = torch.maximum(rest, ends)
        case _:
            both = rest + ends
    return torch.where(crosses, both, rest)
