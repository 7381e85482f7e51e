"""Aggregate over some dimensions of a tensor, counting only the points that a mask keeps.

Over no points at all, existential aggregations are 0 and universal ones 1. All gradients are
finite; where a mean, or a mean of errors, is exactly 0, its gradient is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fotltn.semantics.config import TConorm, TNorm


def p_mean(u: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Compute `(1/m Σ u^p)^(1/p)` over the kept points; the maximum for p = ∞.

    The largest degree is factored out before taking powers, so large p does not underflow.
    """
    dims = tuple(dims)
    u, mask = masked(u, mask, 0.0)
    if not dims:
        return u
    if empty(u, dims):
        return over_nothing(u, dims, 0.0)
    if math.isinf(p):
        return u.amax(dims)
    points = count(u, mask, dims)
    if p == 1:
        return u.sum(dims) / points
    top = u.detach().amax(dims, keepdim=True)
    top = torch.where(top > 0, top, torch.ones_like(top))
    mean = power(u / top, p).sum(dims) / points
    return top.squeeze(dims) * _root(mean, p)


def p_mean_error(u: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Compute `1 - (1/m Σ (1-u)^p)^(1/p)` over the kept points; the minimum for p = ∞."""
    if math.isinf(p):
        return fold_conjunction(u, TNorm.MINIMUM, dims, mask)
    return 1 - p_mean(1 - u, p, dims, mask)


def fold_conjunction(
    u: Tensor, kind: TNorm, dims: Sequence[int], mask: Tensor | None = None
) -> Tensor:
    """Fold the t-norm over all kept points."""
    dims = tuple(dims)
    u, _ = masked(u, mask, 1.0)
    if not dims:
        return u
    if empty(u, dims):
        return over_nothing(u, dims, 1.0)
    match kind:
        case TNorm.PRODUCT:
            for dim in _last_first(u, dims):
                u = u.prod(dim)
            return u
        case TNorm.MINIMUM:
            return u.amin(dims)
        case TNorm.LUKASIEWICZ:
            return (1 - (1 - u).sum(dims)).clamp(min=0)


def fold_disjunction(
    u: Tensor, kind: TConorm, dims: Sequence[int], mask: Tensor | None = None
) -> Tensor:
    """Fold the t-conorm over all kept points."""
    dims = tuple(dims)
    u, _ = masked(u, mask, 0.0)
    if not dims:
        return u
    if empty(u, dims):
        return over_nothing(u, dims, 0.0)
    match kind:
        case TConorm.PROBABILISTIC_SUM:
            return _probabilistic_sum(u, dims)
        case TConorm.MAXIMUM:
            return u.amax(dims)
        case TConorm.LUKASIEWICZ:
            return u.sum(dims).clamp(max=1)


def power(u: Tensor, p: float) -> Tensor:
    """Compute `u^p`; its second derivative at 0, infinite for p between 1 and 2, counts as 0."""
    if p == 1 or p >= 2:
        return u**p
    zero = u == 0
    return torch.where(zero, torch.zeros_like(u), torch.where(zero, 1, u) ** p)


def masked(u: Tensor, mask: Tensor | None, neutral: float) -> tuple[Tensor, Tensor | None]:
    """Return the values, neutral where masked out, and the mask expanded to their shape."""
    if mask is None:
        return u, None
    u, mask = torch.broadcast_tensors(u, mask)
    return torch.where(mask, u, neutral), mask


def empty(u: Tensor, dims: tuple[int, ...]) -> bool:
    """Whether there are no points to aggregate."""
    return any(u.shape[d] == 0 for d in dims)


def over_nothing(u: Tensor, dims: tuple[int, ...], value: float) -> Tensor:
    """Return the value of an empty aggregation, still connected to the graph of `u`."""
    return u.sum(dims) * 0 + value


def count(u: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """Count the kept points, at least 1 to avoid division by 0."""
    if mask is None:
        number = math.prod(u.shape[d] for d in dims)
        return torch.tensor(float(number), dtype=u.dtype, device=u.device)
    return mask.sum(dims).clamp(min=1).to(u.dtype)


def _root(mean: Tensor, p: float) -> Tensor:
    """Compute `mean^(1/p)`, with gradient 0 where the mean is 0."""
    zero = mean == 0
    safe = torch.where(zero, torch.ones_like(mean), mean)
    return torch.where(zero, torch.zeros_like(mean), safe ** (1 / p))


def _last_first(u: Tensor, dims: tuple[int, ...]) -> list[int]:
    return sorted((d % u.dim() for d in dims), reverse=True)


def _probabilistic_sum(u: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Compute `1 - Π (1 - u)` by pairs as `u + v (1 - u)`, which is exact for small degrees."""
    for dim in _last_first(u, dims):
        while u.shape[dim] > 1:
            half = u.shape[dim] // 2
            first, second = u.narrow(dim, 0, half), u.narrow(dim, half, half)
            rest = u.narrow(dim, 2 * half, u.shape[dim] - 2 * half)
            u = torch.cat([first + second * (1 - first), rest], dim)
        u = u.squeeze(dim)
    return u
