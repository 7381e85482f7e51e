"""The loops of `kernels.diagonals` on a GPU. All tensors are contiguous, time first."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

#: The exponents of the left and right side, and the projection of a semantics.
Constants = tuple[float, float, float]

#: Points per kernel program: few where it loops over distances, many otherwise.
_FEW, _MANY = 256, 1024


@triton.jit  # type: ignore[untyped-decorator]
def _raised(u, exponent: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    if exponent == 0:
        return u * 0 + 1
    if exponent == 1:
        return u
    if exponent == 2:
        return u * u
    if exponent == 3:
        return u * u * u
    if exponent == 4:
        return (u * u) * (u * u)
    return tl.where(u > 0, tl.exp2(tl.log2(tl.where(u > 0, u, 1.0)) * exponent), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _rooted(u, p: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    if p == 1:
        return u
    if p == 2:
        return tl.sqrt(u)
    if p == 4:
        return tl.sqrt(tl.sqrt(u))
    return tl.where(u > 0, tl.exp2(tl.log2(tl.where(u > 0, u, 1.0)) / p), 0.0)


@triton.jit(do_not_specialize=["width", "low", "high", "count"])  # type: ignore[untyped-decorator]
def _witnesses(  # type: ignore[no-untyped-def] # noqa: ANN202
    sums, x, r, inside, width, low, high, count,  # noqa: ANN001
    p: tl.constexpr, q: tl.constexpr, epsilon: tl.constexpr, masked: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    running = tl.zeros((block,), dtype=sums.dtype.element_ty)
    total = tl.zeros((block,), dtype=sums.dtype.element_ty)
    witness = place
    for distance in range(high + 1):
        there = witness < count
        if distance >= low:
            right = tl.load(r + witness, mask=there, other=0.0)
            root = _rooted(running / tl.maximum(distance, 1), p)
            reached = right - right * root * (1 - epsilon) + epsilon
            if masked:
                reached *= tl.load(inside + witness, mask=there, other=0.0)
            total += tl.where(there, _raised(reached, q), 0.0)
        running += tl.load(x + witness, mask=there, other=0.0)
        witness += width
    tl.store(sums + place, total, mask=place < count)


@triton.jit(do_not_specialize=["width", "start", "stop", "stride", "count"])  # type: ignore[untyped-decorator]
def _running(  # type: ignore[no-untyped-def] # noqa: ANN202
    sums, x, first, width, start, stop, stride, count,  # noqa: ANN001
    block: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    here = place < count
    total = tl.load(first + place, mask=here)
    tl.store(sums + place, total, mask=here)
    term = place + start.to(tl.int64) * width
    for distance in range(start + 1, stop + 1):
        total += tl.load(x + term, mask=term < count, other=0.0)
        if (distance - start) % stride == 0:
            row = ((distance - start) // stride).to(tl.int64) * count
            tl.store(sums + row + place, total, mask=here)
        term += width


@triton.jit(do_not_specialize=["distance", "count"])  # type: ignore[untyped-decorator]
def _gradients(  # type: ignore[no-untyped-def] # noqa: ANN202
    running, r, grad, carried, by_r, inside, distance, count,  # noqa: ANN001
    p: tl.constexpr, q: tl.constexpr, epsilon: tl.constexpr, tiny: tl.constexpr,
    masked: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    there = place < count
    right = tl.load(r + place, mask=there)
    mean = tl.load(running + place, mask=there, other=0.0) / distance
    root = _rooted(mean, p)
    before = 1 - root * (1 - epsilon)
    slope = _raised(right * before + epsilon, q - 1) * tl.load(grad + place, mask=there)
    if masked:
        slope *= tl.load(inside + place, mask=there)
    by_right = tl.load(by_r + place, mask=there) + slope * before
    tl.store(by_r + place, by_right, mask=there)
    slope *= right * (1 - epsilon) / (p * distance)
    if p != 1:  # the slope of a root is 0 at 0
        slope *= root / (mean + tiny)
    tl.store(carried + place, tl.load(carried + place, mask=there) - slope, mask=there)


def add_witnesses(
    sums: Tensor, x: Tensor, r: Tensor, inside: Tensor | None, low: int, high: int, shape: Constants
) -> None:
    """Add up all witnesses at every point."""
    count = sums.numel()
    _witnesses[_grid(count, _FEW)](
        sums, x, r, sums if inside is None else inside, sums.shape[1], low, high, count,
        *shape, inside is not None, _FEW,
    )  # fmt: skip


def running(sums: Tensor, x: Tensor, first: Tensor, start: int, stop: int, stride: int) -> None:
    """Compute the running sums at every `stride`-th distance."""
    count = x.numel()
    _running[_grid(count, _FEW)](
        sums, x, first, x.shape[1], start, stop, stride, count, _FEW
    )  # fmt: skip


def add_gradients(
    running: Tensor, r: Tensor, grad: Tensor, carried: Tensor, by_r: Tensor,
    inside: Tensor | None, distance: int, shape: Constants,
) -> None:  # fmt: skip
    """Add the gradients from one diagonal."""
    count = running.numel()
    tiny = torch.finfo(running.dtype).tiny
    _gradients[_grid(count, _MANY)](
        running, r, grad, carried, by_r, running if inside is None else inside, distance, count,
        *shape, tiny, inside is not None, _MANY,
    )  # fmt: skip


def _grid(count: int, block: int) -> Any:
    return (triton.cdiv(count, block),)
