"""Until at every point: all pairs of a point and its witness, in blocks of points.

Work is O(T²), as the p-means demand; memory is O(T) for each trace, forward and backward, since
each block is computed anew when gradients are asked for.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fotltn.kernels.powers import power, root
from fotltn.kernels.recompute import recompute
from fotltn.logic.core import Window
from fotltn.semantics import aggregate, connectives
from fotltn.semantics.config import Fold, PMean, Semantics, TNorm
from fotltn.semantics.laws import Law, laws

#: Pairs that one block may have; small enough to stay in a processor's cache.
BLOCK = 2**18


def until(
    left: Tensor,
    right: Tensor,
    window: Window,
    past: bool,
    inside: Tensor | None,
    semantics: Semantics,
    *,
    at: int | None = None,
    block: int = BLOCK,
) -> Tensor:
    """`left` until `right`, at every point or (`at`) at one, which drops the time dimension."""
    left, right = torch.broadcast_tensors(left, right)
    if past:
        left, right, inside = left.flip(-1), right.flip(-1), None
        at = None if at is None else left.shape[-1] - 1 - at
    horizon = left.shape[-1]
    if inside is not None:
        inside = inside.expand(*inside.shape[:-1], horizon)
    if at is not None:
        found = _rows(left[..., at:], right[..., at:], _part(inside, at), 1, window, semantics)
        return found[..., 0]
    if window.low == 0 and window.high is None and Law.EXPAND_UNTIL in laws(semantics):
        found = _extreme(left, right, inside)
        return found.flip(-1) if past else found
    if window.high is not None and window.high < window.low:
        return torch.zeros_like(left)
    lead = max(1, math.prod(left.shape[:-1]))
    reach = horizon if window.high is None else min(horizon, window.high + 1)
    size = max(1, min(horizon, block // (lead * reach)))
    pieces = []
    for start in range(0, horizon, size):
        rows = min(size, horizon - start)
        stop = horizon if window.high is None else min(horizon, start + rows + window.high)
        part = (left[..., start:stop], right[..., start:stop], _part(inside, start, stop))
        if size < horizon:
            pieces.append(recompute(_rows, *part, rows, window, semantics))
        else:
            pieces.append(_rows(*part, rows, window, semantics))
    found = torch.cat(pieces, dim=-1)
    return found.flip(-1) if past else found


def _part(inside: Tensor | None, start: int, stop: int | None = None) -> Tensor | None:
    return None if inside is None else inside[..., start:stop]


def _rows(
    left: Tensor, right: Tensor, inside: Tensor | None, rows: int, window: Window, s: Semantics
) -> Tensor:
    """Until at the first `rows` points: a matrix of points and witnesses."""
    horizon = left.shape[-1]
    device = left.device
    points = torch.arange(rows, device=device).unsqueeze(-1)
    witness = torch.arange(horizon, device=device)
    steps = witness - points
    allowed = steps >= window.low
    if window.high is not None:
        allowed = allowed & (steps <= window.high)
    if inside is not None:
        allowed = allowed & inside.unsqueeze(-2)
    before = _before(left, steps, s)
    reached = connectives.conjoin(right.unsqueeze(-2), before, s.conjunction, s.epsilon)
    return _witness(reached, allowed, s)


def _before(left: Tensor, steps: Tensor, s: Semantics) -> Tensor:
    """⊗ over the points from each row's point to just before the witness; 1 over none."""
    horizon = left.shape[-1]
    counted = (steps >= 0).to(left.dtype)
    match s.always:
        case PMean(p) if not math.isinf(p):
            lost = 1 - connectives.away_from_one(left, s.epsilon)
            powers = (power(lost, p).unsqueeze(-2) * counted).cumsum(-1)
            mean = _exclusive(powers, 0.0) / steps.clamp(min=1)
            return 1 - (mean if p == 1 else root(mean, p))
        case Fold() if s.conjunction is TNorm.PRODUCT:
            kept = torch.where(steps >= 0, left.unsqueeze(-2), torch.ones_like(counted))
            return _exclusive(kept.cumprod(-1), 1.0)
        case Fold() if s.conjunction is TNorm.LUKASIEWICZ:
            lost = ((1 - left).unsqueeze(-2) * counted).cumsum(-1)
            return (1 - _exclusive(lost, 0.0)).clamp(min=0)
    kept = torch.where(steps >= 0, left.unsqueeze(-2), torch.ones_like(counted))
    assert kept.shape[-1] == horizon
    return _exclusive(kept.cummin(-1).values, 1.0)


def _exclusive(u: Tensor, first: float) -> Tensor:
    """Each running value without the last point: one step later, beginning with `first`."""
    start = torch.full((*u.shape[:-1], 1), first, dtype=u.dtype, device=u.device)
    return torch.cat([start, u[..., :-1]], dim=-1)


def _witness(reached: Tensor, allowed: Tensor, s: Semantics) -> Tensor:
    match s.eventually:
        case PMean(p) if math.isinf(p):
            return aggregate.p_mean(reached, p, (-1,), allowed)
        case PMean(p):
            u = connectives.away_from_zero(reached, s.epsilon)
            count = allowed.sum(-1).clamp(min=1)
            mean = (power(u, p) * allowed).sum(-1) / count
            return mean if p == 1 else root(mean, p)
    return aggregate.fold_disjunction(reached, s.disjunction, (-1,), allowed)


def _extreme(left: Tensor, right: Tensor, inside: Tensor | None) -> Tensor:
    """`u_t = max(right_t, min(left_t, u_{t+1}))`, where that law holds."""
    if inside is not None:
        right = torch.where(inside, right, torch.zeros_like(right))
    found: list[Tensor] = [right[..., -1]]
    for t in range(left.shape[-1] - 2, -1, -1):
        found.append(torch.maximum(right[..., t], torch.minimum(left[..., t], found[-1])))
    return torch.stack(found[::-1], dim=-1)
