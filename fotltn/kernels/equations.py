"""Temporal operators of the equations, in blocks of time points that are recomputed for gradients.

Memory grows with the trace, not with its square. Logarithms of products are sums, which take O(T).
The values are those of `semantics/temporal.py`, up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.algebra.expr import Reduction
from fotltn.kernels.recompute import recompute
from fotltn.kernels.until import BLOCK, until_of_logarithms
from fotltn.kernels.windows import scan
from fotltn.logic.core import Window
from fotltn.semantics import temporal
from fotltn.semantics.config import Fold
from fotltn.semantics.operators import Operators
from fotltn.semantics.tables import within


def aggregate(
    u: Tensor, universal: bool, window: Window, past: bool, lengths: Tensor, ops: Operators,
    counts: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Compute ⊗ or ⊕ over the window of each time point; if given, over the points that count."""
    if counts is not None:
        u, counts = torch.broadcast_tensors(u, counts)
    how = ops.semantics.always if universal else ops.semantics.eventually
    if ops.semantics.log_space and isinstance(how, Fold):
        terms = u if universal else ops.negate(u)
        terms = terms if counts is None else torch.where(counts, terms, 0)
        total = scan(Reduction.SUM, terms, window, past, _inside(u, lengths))
        return total if universal else ops.negate(total)
    horizon = u.shape[-1]
    size = max(1, min(horizon, BLOCK // max(1, u.numel())))
    pieces = [
        recompute(_rows, u, (start, min(start + size, horizon)), universal, window, past, lengths,
                  ops, counts)
        for start in range(0, horizon, size)
    ]  # fmt: skip
    return torch.cat(pieces, dim=-1)


def until(
    left: Tensor, right: Tensor, window: Window, past: bool, lengths: Tensor, ops: Operators
) -> Tensor:
    """Compute ⊕ over the window of `right ∧ ⊗ left`, with ⊗ over all points before the witness."""
    left, right = torch.broadcast_tensors(left, right)
    s = ops.semantics
    if s.log_space and isinstance(s.always, Fold):
        inside = _inside(left, lengths)
        return until_of_logarithms(left, right, window, past, inside, s)
    points = [
        recompute(temporal.until_at, t, left, right, window, past, lengths, ops)
        for t in range(left.shape[-1])
    ]
    return torch.stack(points, dim=-1)


def _inside(u: Tensor, lengths: Tensor) -> Tensor | None:
    """Return which points lie inside each trace; None if all do."""
    if bool((lengths == u.shape[-1]).all()):
        return None
    return within(lengths, torch.arange(u.shape[-1], device=u.device), u.dim())


def _rows(
    u: Tensor, block: tuple[int, int], universal: bool, window: Window, past: bool,
    lengths: Tensor, ops: Operators, counts: Tensor | None,
) -> Tensor:  # fmt: skip
    """Aggregate over the windows of some time points, as a matrix of points and windows."""
    times = torch.arange(u.shape[-1], device=u.device)
    steps = times - times[slice(*block)].unsqueeze(-1)
    steps = -steps if past else steps
    allowed = steps >= window.low
    if window.high is not None:
        allowed = allowed & (steps <= window.high)
    mask = allowed & within(lengths, times, u.dim()).unsqueeze(-2)
    mask = mask if counts is None else mask & counts.unsqueeze(-2)
    return ops.over_time(u.unsqueeze(-2), universal, mask)
