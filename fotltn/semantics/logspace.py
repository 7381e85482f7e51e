"""The product operators on logarithms of degrees, so long conjunctions do not underflow.

Degrees below `floor` count as `floor`, so logarithms and their gradients stay finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fotltn.semantics.aggregate import count, empty, masked, over_nothing


def floor(dtype: torch.dtype) -> float:
    """Return the smallest degree distinguished from 0: the root of the smallest normal number."""
    return math.sqrt(torch.finfo(dtype).tiny)


def to_log(u: Tensor) -> Tensor:
    """Compute log u, for degrees of at least the floor."""
    return u.clamp(min=floor(u.dtype)).log()


def log_not(a: Tensor) -> Tensor:
    """Compute `log(1 - exp(a))`, exact near both ends, and at least the floor's logarithm."""
    low = math.log(floor(a.dtype))
    eps = torch.finfo(a.dtype).tiny
    a = a.clamp(max=-eps)
    near_one = a > -math.log(2)
    far = torch.where(near_one, torch.full_like(a, -1.0), a)
    near = torch.where(near_one, a, torch.full_like(a, -0.5))
    return torch.where(near_one, (-torch.expm1(near)).log(), torch.log1p(-far.exp())).clamp(min=low)


def log_and(a: Tensor, b: Tensor) -> Tensor:
    """Compute `log(u v)`."""
    return a + b


def log_or(a: Tensor, b: Tensor) -> Tensor:
    """Compute `log(u + v - u v)`."""
    return log_not(log_not(a) + log_not(b))


def log_imply(a: Tensor, b: Tensor) -> Tensor:
    """Compute `log(1 - u + u v)`."""
    return log_not(a + log_not(b))


def log_fold_conjunction(a: Tensor, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Compute the logarithm of the product over the kept points; 0 (true) if there are none."""
    dims = tuple(dims)
    a, _ = masked(a, mask, 0.0)
    return a.sum(dims) if dims else a


def log_fold_disjunction(a: Tensor, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Compute the logarithm of the probabilistic sum over the kept points; the floor for none."""
    return log_not(log_fold_conjunction(log_not(a), dims, mask))


def log_p_mean(a: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Compute the logarithm of the p-mean over the kept points; the floor if there are none."""
    dims = tuple(dims)
    low = math.log(floor(a.dtype))
    if mask is not None:
        a, mask = torch.broadcast_tensors(a, mask)
    if not dims or empty(a, dims) or math.isinf(p):
        a, _ = masked(a, mask, low)
        if not dims:
            return a
        return over_nothing(a, dims, low) if empty(a, dims) else a.amax(dims)
    a, mask = masked(a * p, mask, -math.inf)
    top = a.detach().amax(dims, keepdim=True)
    top = torch.where(top.isfinite(), top, torch.zeros_like(top))
    total = (a - top).exp().sum(dims)
    none = total == 0
    safe = torch.where(none, torch.ones_like(total), total)
    mean = (safe.log() + top.squeeze(dims) - count(a, mask, dims).log()) / p
    return torch.where(none, torch.full_like(mean, low), mean).clamp(min=low)


def log_p_mean_error(
    a: Tensor, p: float, dims: Sequence[int], mask: Tensor | None = None
) -> Tensor:
    """Compute the logarithm of the p-mean error over the kept points."""
    return log_not(log_p_mean(log_not(a), p, dims, mask))
