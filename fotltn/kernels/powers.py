"""Compute powers and their roots with finite derivatives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fotltn.kernels.function import Differentiated
from fotltn.kernels.tracing import is_tracing
from fotltn.semantics import aggregate


def power(u: Tensor, p: float) -> Tensor:
    """Compute `u^p`; small powers of 2 by squaring, far cheaper both forward and backward."""
    if p == 2:
        return u.square()
    if p == 4:
        return u.square().square()
    if p == 8:
        return u.square().square().square()
    return aggregate.power(u, p)


class _Slope(Differentiated):
    """`grad · root / (p u)`, which is 0 at 0, with derivatives of every order.

    The quotients are formed so that none exceeds the derivative itself: `1 / u²` alone overflows
    long before `u` is too small.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, root: Tensor, u: Tensor, p: float) -> Tensor:
        return (grad * (root / (p * u))).masked_fill(u == 0, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        *tensors, ctx.p = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, root, u = ctx.saved_tensors
        by_grad: Tensor = _Slope.apply(grads[0], root, u, ctx.p)  # type: ignore[no-untyped-call]
        zero = u == 0
        safe = torch.where(zero, 1, u)
        by_root = torch.where(zero, 0, grads[0] / (ctx.p * safe) * grad)
        by_u = torch.where(zero, 0, -(by_grad / safe) * grad)
        return by_grad, by_root, by_u, None


class _SafeRoot(Differentiated):
    """`u^(1/p)`, whose derivative is 0 at 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, p: float) -> Tensor:
        if p == 2:
            return u.sqrt()
        return u.sqrt().sqrt() if p == 4 else u ** (1 / p)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        u, ctx.p = inputs
        ctx.save_for_backward(u, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        u, output = ctx.saved_tensors
        slope: Tensor
        if torch.is_grad_enabled():  # second derivatives are wanted
            slope = _Slope.apply(grads[0], output, u, ctx.p)  # type: ignore[no-untyped-call]
        else:
            slope = _Slope.forward(grads[0], output, u, ctx.p)
        return slope, None


def root(u: Tensor, p: float) -> Tensor:
    """Compute `u^(1/p)` with derivative 0 at 0."""
    if is_tracing():
        zero = u == 0
        high = torch.where(zero, torch.ones_like(u), u)
        high = high.sqrt().sqrt() if p == 4 else high ** (1 / p)
        return torch.where(zero, torch.zeros_like(u), high)
    return _SafeRoot.apply(u, p)  # type: ignore[no-untyped-call,no-any-return]
