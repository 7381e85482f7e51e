"""One diagonal of until on a GPU, as one kernel; see `diagonals`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from fotltn.kernels.diagonals import Means

_WIDTH = 1024


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


@triton.jit(do_not_specialize=["distance", "count"])  # type: ignore[untyped-decorator]
def _witness(  # type: ignore[no-untyped-def] # noqa: ANN202
    sums, running, r, inside, distance, count,  # noqa: ANN001
    p: tl.constexpr, q: tl.constexpr, epsilon: tl.constexpr, masked: tl.constexpr,
    width: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * width + tl.arange(0, width)
    there = place < count
    right = tl.load(r + place, mask=there)
    mean = tl.load(running + place, mask=there, other=0.0) / tl.maximum(distance, 1)
    reached = right - right * _rooted(mean, p) * (1 - epsilon) + epsilon
    if masked:
        reached *= tl.load(inside + place, mask=there)
    total = tl.load(sums + place, mask=there) + _raised(reached, q)
    tl.store(sums + place, total, mask=there)


@triton.jit(do_not_specialize=["distance", "count"])  # type: ignore[untyped-decorator]
def _gradients(  # type: ignore[no-untyped-def] # noqa: ANN202
    running, r, grad, carried, by_r, inside, distance, count,  # noqa: ANN001
    p: tl.constexpr, q: tl.constexpr, epsilon: tl.constexpr, tiny: tl.constexpr,
    masked: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * width + tl.arange(0, width)
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


def add_witness(
    sums: Tensor, running: Tensor, r: Tensor, distance: int, m: Means, inside: Tensor | None
) -> None:
    """As `diagonals` has it; all tensors lie in memory without gaps."""
    count = sums.numel()
    _witness[_grid(count)](
        sums, running, r, sums if inside is None else inside, distance, count,
        m.p, m.q, m.epsilon, inside is not None, _WIDTH,
    )  # fmt: skip


def add_gradients(
    running: Tensor, r: Tensor, grad: Tensor, carried: Tensor, by_r: Tensor, distance: int,
    m: Means, inside: Tensor | None,
) -> None:  # fmt: skip
    """As `diagonals` has it; all tensors lie in memory without gaps."""
    count = running.numel()
    tiny = torch.finfo(running.dtype).tiny
    _gradients[_grid(count)](
        running, r, grad, carried, by_r, running if inside is None else inside, distance, count,
        m.p, m.q, m.epsilon, tiny, inside is not None, _WIDTH,
    )  # fmt: skip


def _grid(count: int) -> Any:
    return (triton.cdiv(count, _WIDTH),)
