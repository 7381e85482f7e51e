"""Temporal operators straight from their equations, one window at a time.

Tensors have the shape (trace, …, time). `lengths` holds the number of time points of each trace;
values beyond the end of a trace are padding and mean nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.logic.core import Window
from fotltn.semantics.operators import Operators
from fotltn.semantics.tables import within


def shift(u: Tensor, steps: int, past: bool, outside: float, lengths: Tensor) -> Tensor:
    """Return the value `steps` away, or `outside` beyond the ends of the trace."""
    times = torch.arange(u.shape[-1], device=u.device)
    there = times - steps if past else times + steps
    inside = within(lengths, there, u.dim())
    moved = u[..., there.clamp(0, u.shape[-1] - 1)]
    return torch.where(inside, moved, torch.full_like(moved, outside))


def aggregate(
    u: Tensor, universal: bool, window: Window, past: bool, lengths: Tensor, ops: Operators,
    counts: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Compute ⊗ or ⊕ over the window of each time point; if given, over the points that count."""
    horizon = u.shape[-1]
    if counts is not None:
        u, counts = torch.broadcast_tensors(u, counts)
    results = []
    for t in range(horizon):
        points = _tensor(_points(t, window, past, horizon), u.device)
        mask = within(lengths, points, u.dim())
        mask = mask if counts is None else mask & counts[..., points]
        results.append(ops.over_time(u[..., points], universal, mask))
    return torch.stack(results, dim=-1)


def until(
    left: Tensor, right: Tensor, window: Window, past: bool, lengths: Tensor, ops: Operators
) -> Tensor:
    """Compute ⊕ over the window of `right ∧ ⊗ left`, with ⊗ over all points before the witness."""
    left, right = torch.broadcast_tensors(left, right)
    points = range(left.shape[-1])
    results = [until_at(t, left, right, window, past, lengths, ops) for t in points]
    return torch.stack(results, dim=-1)


def until_at(
    t: int, left: Tensor, right: Tensor, window: Window, past: bool, lengths: Tensor,
    ops: Operators,
) -> Tensor:  # fmt: skip
    """Compute until at one time point, without a time dimension."""
    points = _points(t, window, past, left.shape[-1])
    candidates = []
    for k in points:
        before = left[..., k + 1 : t + 1] if past else left[..., t:k]
        candidates.append(ops.conjoin(right[..., k], ops.over_time(before, universal=True)))
    stacked = torch.stack(candidates, dim=-1) if candidates else right[..., :0]
    mask = within(lengths, _tensor(points, left.device), left.dim())
    return ops.over_time(stacked, False, mask)


def _points(t: int, window: Window, past: bool, horizon: int) -> range:
    """Return the time points in the window of `t`, clipped to the horizon."""
    if past:
        low = 0 if window.high is None else max(0, t - window.high)
        return range(low, max(low, t - window.low + 1))
    low = min(t + window.low, horizon)
    high = horizon - 1 if window.high is None else min(horizon - 1, t + window.high)
    return range(low, max(low, high + 1))


def _tensor(points: range, device: torch.device) -> Tensor:
    return torch.arange(points.start, points.stop, device=device)
