"""The ∀ and G that a formula begins with, as one weighted mean over its cells.

`forall x. G(body)` is a mean over cells: one for each trace, binding and time. A cell's weight is
its share of that mean, whatever guards, windows and lengths of traces there are.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from fotltn.evaluation import evaluate_core
from fotltn.logic import core as c
from fotltn.logic.prefix import Prefix
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables, Value, align


def weights(start: Prefix, tables: Tables, *, count: bool = False) -> tuple[Value, ...]:
    """How much each cell of a prefix counts, as factors with few axes each.

    The first are the weights of points in time; the others are what guards make of them.

    Args:
        start: the layers.
        tables: the tables that guards are read from, in two-valued logic.
        count: count how often each cell occurs, instead of its share of the mean.
    """
    time = torch.zeros(
        tables.batch, tables.horizon, dtype=torch.float64, device=tables.lengths.device
    )
    time[:, 0] = 1 if count else 1 / tables.batch
    still: list[Value] = []  # factors that do not change over time
    moving: list[Value] = []  # guards since the last layer of time
    for layer in start.layers:
        if isinstance(layer, c.Quantifier):
            scale, factors = _bindings(layer, tables, count)
            time = time * scale
            moving += factors
            continue
        active = (time > 0).any(0).nonzero().squeeze(-1)
        rows = _windows(layer, active, tables, count)
        if layer.guard is not None:
            moving, time, factors = _selected(layer.guard, moving, time, active, tables, rows)
            still += factors
        elif len(active) == 1:
            still += [Value(a, _point(u, int(active))) for a, u in moving]
            time, moving = time[:, active] * rows.squeeze(1), []
        elif not moving:
            time = torch.einsum("ba,bat->bt", time[:, active], rows)
        else:
            axes, tensors = align([Value((), time), *moving])
            product = tensors[0][..., active]
            for tensor in tensors[1:]:
                product = product * (tensor[..., active] if tensor.shape[-1] > 1 else tensor)
            moving = [Value(axes, torch.einsum("b...a,bat->b...t", product, rows))]
            time = (rows.sum(1) > 0).to(time.dtype)
    return (Value((), time), *still, *moving)


def _selected(
    guard: c.Formula, moving: list[Value], time: Tensor, active: Tensor, tables: Tables,
    rows: Tensor,
) -> tuple[list[Value], Tensor, list[Value]]:  # fmt: skip
    """What a window makes of weights if only the points count at which a guard is true."""
    axes, true = evaluate_core(guard, tables, CRISP)
    chosen, seen = true.to(torch.float64), (rows > 0).to(torch.float64)
    number = torch.einsum("b...t,bst->b...s", chosen.expand(tables.batch, *chosen.shape[1:]), seen)
    inverse = Value(axes, 1 / number.clamp(min=1))
    before = [Value(a, u[..., active] if u.shape[-1] > 1 else u) for a, u in moving]
    if len(active) == 1:
        return [Value(axes, chosen)], time[:, active] * seen.squeeze(1), [*before, inverse]
    names, tensors = align([Value((), time[:, active]), *before, inverse])
    product = functools.reduce(torch.mul, tensors)
    reached = Value(names, torch.einsum("b...s,bst->b...t", product, seen))
    return [reached, Value(axes, chosen)], (seen.sum(1) > 0).to(time.dtype), []


def _point(u: Tensor, time: int) -> Tensor:
    return u[..., time : time + 1] if u.shape[-1] > 1 else u


def _bindings(node: c.Quantifier, tables: Tables, count: bool) -> tuple[float, list[Value]]:
    """What ∀ makes of weights: a number, and factors if there is a guard."""
    if node.guard is None:
        size = math.prod(tables.size(a) for a in node.axes)
        return (1.0 if count else 1 / max(1, size)), []
    axes, guard = evaluate_core(node.guard, tables, CRISP)
    if count:
        return 1.0, [Value(axes, guard)]
    bound = [a for a in axes if a in node.axes]
    counted = guard.sum([1 + axes.index(a) for a in bound]) if bound else guard.long()
    counted = counted * math.prod(tables.size(a) for a in node.axes if a not in bound)
    inverse = 1 / counted.clamp(min=1).to(torch.float64)
    free = tuple(a for a in axes if a not in bound)
    return 1.0, [Value(axes, guard), Value(free, inverse)]


def _windows(node: c.Aggregate, active: Tensor, tables: Tables, count: bool) -> Tensor:
    """What the window of each active point sees, with axes (trace, active point, time)."""
    times = torch.arange(tables.horizon, device=active.device)
    steps = times - active.unsqueeze(-1)
    steps = -steps if node.past else steps
    seen = steps >= node.window.low
    if node.window.high is not None:
        seen = seen & (steps <= node.window.high)
    inside = seen & (times < tables.lengths.reshape(-1, 1, 1))
    if count:
        return inside.to(torch.float64)
    return inside / inside.sum(-1, keepdim=True).clamp(min=1).to(torch.float64)
