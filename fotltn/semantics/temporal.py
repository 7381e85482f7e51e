"""Temporal operators as the equations say them: one window at a time. Time is the last dimension.

`lengths` has one entry a trace, along the first dimension; points beyond a trace's length are no
points. Values there mean nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.logic.core import Window
from fotltn.semantics.operators import Operators
from fotltn.semantics.tables import within


def shift(u: Tensor, steps: int, past: bool, outside: float, lengths: Tensor) -> Tensor:
    """The value `steps` away, and `outside` beyond the ends of the trace."""
    times = torch.arange(u.shape[-1], device=u.device)
    there = times - steps if past else times + steps
    inside = within(lengths, there, u.dim())
    moved = u[..., there.clamp(0, u.shape[-1] - 1)]
    return torch.where(inside, moved, torch.full_like(moved, outside))


def aggregate(
    u: Tensor, universal: bool, window: Window, past: bool, lengths: Tensor, ops: Operators
) -> Tensor:
    """⊗ or ⊕ over the window of each point."""
    horizon = u.shape[-1]
    results = []
    for t in range(horizon):
        points = _points(t, window, past, horizon, u.device)
        mask = within(lengths, points, u.dim())
        results.append(ops.over_time(u[..., points], universal, mask))
    return torch.stack(results, dim=-1)


def until(
    left: Tensor, right: Tensor, window: Window, past: bool, lengths: Tensor, ops: Operators
) -> Tensor:
    """⊕ over the window of `right ∧ ⊗ left`, the latter over all points before the witness."""
    left, right = torch.broadcast_tensors(left, right)
    horizon = left.shape[-1]
    results = []
    for t in range(horizon):
        points = _points(t, window, past, horizon, left.device)
        candidates = []
        for k in points.tolist():
            before = left[..., k + 1 : t + 1] if past else left[..., t:k]
            candidates.append(ops.conjoin(right[..., k], ops.over_time(before, universal=True)))
        stacked = torch.stack(candidates, dim=-1) if candidates else right[..., :0]
        results.append(ops.over_time(stacked, False, within(lengths, points, left.dim())))
    return torch.stack(results, dim=-1)


def _points(t: int, window: Window, past: bool, horizon: int, device: torch.device) -> Tensor:
    """The times of the window of `t`, clipped to the horizon."""
    if past:
        low = 0 if window.high is None else max(0, t - window.high)
        return torch.arange(low, max(low, t - window.low + 1), device=device)
    low = min(t + window.low, horizon)
    high = horizon - 1 if window.high is None else min(horizon - 1, t + window.high)
    return torch.arange(low, max(low, high + 1), device=device)
