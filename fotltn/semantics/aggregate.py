"""Aggregations over some dimensions of a tensor, counting only what a mask keeps.

An aggregation over nothing is 0 for the existential ones and 1 for the universal ones. All have
finite gradients; where a mean is exactly 0 (or a mean of errors exactly 0) its gradient is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fotltn.semantics.config import TConorm, TNorm


def p_mean(u: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """`(1/m Σ u^p)^(1/p)` over the kept points; the maximum for p = ∞.

    The largest degree is taken out before powers are formed, so that large p does not underflow.
    """
    dims = tuple(dims)
    if not dims:
        return u if mask is None else torch.where(mask, u, 0)
    u, mask = _broadcast(u, mask)
    if _empty(u, dims):
        return _constant(u, dims, 0.0)
    kept = u if mask is None else torch.where(mask, u, torch.zeros_like(u))
    if math.isinf(p):
        return kept.amax(dims)
    count = _count(u, mask, dims)
    if p == 1:
        return kept.sum(dims) / count
    top = kept.detach().amax(dims, keepdim=True)
    top = torch.where(top > 0, top, torch.ones_like(top))
    mean = power(kept / top, p).sum(dims) / count
    return _squeeze(top, dims) * _root(mean, p)


def p_mean_error(u: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """`1 - (1/m Σ (1-u)^p)^(1/p)` over the kept points; the minimum for p = ∞."""
    if math.isinf(p):
        return fold_conjunction(u, TNorm.MINIMUM, dims, mask)
    return 1 - p_mean(1 - u, p, dims, mask)


def fold_conjunction(
    u: Tensor, kind: TNorm, dims: Sequence[int], mask: Tensor | None = None
) -> Tensor:
    """The t-norm over all kept points."""
    dims = tuple(dims)
    u, mask = _broadcast(u, mask)
    if not dims:
        return u if mask is None else torch.where(mask, u, torch.ones_like(u))
    if _empty(u, dims):
        return _constant(u, dims, 1.0)
    kept = u if mask is None else torch.where(mask, u, torch.ones_like(u))
    match kind:
        case TNorm.PRODUCT:
            return _product(kept, dims)
        case TNorm.MINIMUM:
            return kept.amin(dims)
        case TNorm.LUKASIEWICZ:
            return (1 - (1 - kept).sum(dims)).clamp(min=0)


def fold_disjunction(
    u: Tensor, kind: TConorm, dims: Sequence[int], mask: Tensor | None = None
) -> Tensor:
    """The t-conorm over all kept points."""
    dims = tuple(dims)
    u, mask = _broadcast(u, mask)
    kept = u if mask is None else torch.where(mask, u, torch.zeros_like(u))
    if not dims:
        return kept
    if _empty(u, dims):
        return _constant(u, dims, 0.0)
    match kind:
        case TConorm.PROBABILISTIC_SUM:
            return _probabilistic_sum(kept, dims)
        case TConorm.MAXIMUM:
            return kept.amax(dims)
        case TConorm.LUKASIEWICZ:
            return kept.sum(dims).clamp(max=1)


def power(u: Tensor, p: float) -> Tensor:
    """`u^p`. For p between 1 and 2 its second derivative is not finite at 0; it counts as 0."""
    if p == 1 or p >= 2:
        return u**p
    zero = u == 0
    return torch.where(zero, torch.zeros_like(u), torch.where(zero, 1, u) ** p)


def _broadcast(u: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    if mask is None:
        return u, None
    shape = torch.broadcast_shapes(u.shape, mask.shape)
    return u.expand(shape), mask.expand(shape)


def _empty(u: Tensor, dims: tuple[int, ...]) -> bool:
    return any(u.shape[d] == 0 for d in dims)


def _constant(u: Tensor, dims: tuple[int, ...], value: float) -> Tensor:
    """The value over nothing, still connected to the graph of `u`."""
    return u.sum(dims) * 0 + value


def _count(u: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """How many points are kept, at least 1 so that nothing is divided by 0."""
    if mask is None:
        number = math.prod(u.shape[d] for d in dims)
        return torch.tensor(float(number), dtype=u.dtype, device=u.device)
    return mask.sum(dims).clamp(min=1).to(u.dtype)


def _squeeze(u: Tensor, dims: tuple[int, ...]) -> Tensor:
    return u.squeeze(dims)


def _root(mean: Tensor, p: float) -> Tensor:
    """`mean^(1/p)`, with gradient 0 where the mean is 0."""
    zero = mean == 0
    safe = torch.where(zero, torch.ones_like(mean), mean)
    return torch.where(zero, torch.zeros_like(mean), safe ** (1 / p))


def _product(u: Tensor, dims: tuple[int, ...]) -> Tensor:
    for dim in sorted((d % u.dim() for d in dims), reverse=True):
        u = u.prod(dim)
    return u


def _probabilistic_sum(u: Tensor, dims: tuple[int, ...]) -> Tensor:
    """`1 - Π (1 - u)` by pairs, `u + v (1 - u)`, which keeps small degrees."""
    for dim in sorted((d % u.dim() for d in dims), reverse=True):
        while u.shape[dim] > 1:
            half = u.shape[dim] // 2
            first, second = u.narrow(dim, 0, half), u.narrow(dim, half, half)
            rest = u.narrow(dim, 2 * half, u.shape[dim] - 2 * half)
            u = torch.cat([first + second * (1 - first), rest], dim)
        u = u.squeeze(dim)
    return u
