"""Exact Boolean truth of FO-LTLf with past and bounds, at every time point.

Shares nothing with the real-valued operators: F and G are computed by counting, until by its
one-step recursion. Both are correct only in two-valued logic.
"""

from __future__ import annotations

import itertools
import operator
from typing import assert_never

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.semantics.tables import (
    Tables,
    Value,
    align,
    every_entity,
    gather,
    term_value,
    within,
)
from fotltn.tree import fold

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def evaluate(formula: c.Formula, tables: Tables, *, threshold: float | None = None) -> Value:
    """Compute the truth of a formula, as Booleans of shape (trace, *free variables, time).

    Args:
        formula: a core formula.
        tables: the tables; without a threshold, degrees must be 0 or 1.
        threshold: the smallest degree that counts as true.

    Raises:
        DataError: a degree is neither 0 nor 1, and there is no threshold.
    """

    def visit(node: c.AnyTerm | c.AnyFormula, below: list[Value]) -> Value:
        return _value(node, below, tables, threshold)

    return fold(formula, visit)


def compare(op: str, a: Tensor, b: Tensor) -> Tensor:
    """Compute `a op b` elementwise in the lower precision of the two, so 0.1 equals 0.1."""
    result: Tensor = _COMPARE[op](*alike(a, b))
    return result


def alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Convert two tensors to the lower precision of the two."""
    if a.is_floating_point() and b.is_floating_point() and a.dtype != b.dtype:
        lower = min(a.dtype, b.dtype, key=lambda kind: torch.finfo(kind).bits)
        return a.to(lower), b.to(lower)
    return a, b


def _value(
    node: c.AnyTerm | c.AnyFormula, below: list[Value], tables: Tables, threshold: float | None
) -> Value:
    lengths = tables.lengths
    match node:
        case c.Variable() | c.Constant() | c.Number() | c.Apply():
            return term_value(node, below, tables)
        case c.Truth(value):
            return Value((), torch.full_like(tables.inside, value))
        case c.Edge(past):
            return Value((), tables.edge(past))
        case c.Atom(name, args):
            axes, degrees = looked_up(tables.predicate(name), args, below, tables)
            return Value(axes, tables.everywhere(true(name, degrees, threshold)))
        case c.Equal():
            axes, (a, b) = align(below)
            return Value(axes, tables.everywhere(torch.eq(*alike(a, b))))
        case c.Compare(op):
            axes, (a, b) = align(below)
            return Value(axes, tables.everywhere(compare(op, a, b)))
        case c.Not():
            ((axes, u),) = below
            return Value(axes, ~u)
        case c.And():
            axes, (u, v) = align(below)
            return Value(axes, u & v)
        case c.Or():
            axes, (u, v) = align(below)
            return Value(axes, u | v)
        case c.Implies():
            axes, (u, v) = align(below)
            return Value(axes, ~u | v)
        case c.Quantifier(universal, bound):
            return _quantify(below, universal, bound, tables)
        case c.Shift(_, steps, past, weak):
            ((axes, u),) = below
            return Value(axes, shift(u, steps, past, weak, lengths))
        case c.Aggregate(universal, _, window, past):
            ((axes, u),) = below
            inner = _some(~u if universal else u, window, past, lengths)
            return Value(axes, ~inner if universal else inner)
        case c.Until(dual, _, _, window, past):
            axes, (u, v) = align(below)
            u, v = torch.broadcast_tensors(u, v)
            reached = until(~u if dual else u, ~v if dual else v, window, past, lengths)
            return Value(axes, ~reached if dual else reached)
        case _:
            assert_never(node)


def looked_up(table: Tensor, args: tuple[c.Term, ...], below: list[Value], tables: Tables) -> Value:
    """Look terms up in a table; for different variables, return its visible part."""
    axes = tuple(a.axis for a in args if isinstance(a, c.Variable) and a.column is None)
    if not len(axes) == len(args) == len(set(axes)):
        return gather(table, below)
    for place, axis in enumerate(axes, 1):
        start, stop = tables.cuts.get(axis, (0, table.shape[place]))
        table = table.narrow(place, start, stop - start)
    return Value(axes, table)


def true(name: str, degrees: Tensor, threshold: float | None) -> Tensor:
    """Return which degrees of a predicate count as true.

    Raises:
        DataError: a degree is neither 0 nor 1, and there is no threshold.
    """
    if degrees.dtype == torch.bool:
        return degrees
    if threshold is not None:
        return degrees >= threshold
    odd = (degrees != 0) & (degrees != 1)
    if bool(odd.any()):
        value = degrees[odd][0].item()
        raise DataError(
            f"'{name}' has the degree {value:g}; a guard, or the crisp semantics without a "
            "threshold, allows only 0 and 1"
        )
    return degrees == 1


def _quantify(
    below: list[Value], universal: bool, bound: tuple[c.Axis, ...], tables: Tables
) -> Value:
    axes, (*guard, u) = align([*every_entity(bound, tables, torch.bool), *below])
    for present in guard:
        u = (~present | u) if universal else (present & u)
    dims = [1 + axes.index(a) for a in bound]
    free = tuple(a for a in axes if a not in bound)
    return Value(free, u.all(dims) if universal else u.any(dims))


def shift(u: Tensor, steps: int, past: bool, outside: bool, lengths: Tensor) -> Tensor:
    """Return the value `steps` away at each time point, or `outside` beyond the trace."""
    out = moved(u, steps, past, outside)
    if past:
        return out
    there = torch.arange(steps, u.shape[-1] + steps, device=u.device)
    return out.masked_fill_(~within(lengths, there, u.dim()), outside)


def moved(u: Tensor, steps: int, past: bool, outside: bool = False) -> Tensor:
    """Return the value `steps` away at each time point of the tables, ignoring ends of traces."""
    out = torch.full_like(u, outside)
    horizon = u.shape[-1]
    if steps >= horizon:
        return out
    if past:
        out[..., steps:] = u[..., : horizon - steps]
    else:
        out[..., : horizon - steps] = u[..., steps:]
    return out


def _some(u: Tensor, window: c.Window, past: bool, lengths: Tensor) -> Tensor:
    """Whether any time point of a window is true, by the difference of two running counts."""
    horizon = u.shape[-1]
    times = torch.arange(horizon, device=u.device)
    inside = within(lengths, times, u.dim())
    before = torch.nn.functional.pad((u & inside).cumsum(-1, dtype=torch.int32), (1, 0))
    low = min(window.low, horizon)
    high = horizon if window.high is None else min(window.high, horizon)
    first, last = (times - high, times - low) if past else (times + low, times + high)
    begin, end = first.clamp(0, horizon), (last + 1).clamp(0, horizon)
    return before[..., end] > before[..., begin]


def until(u: Tensor, v: Tensor, window: c.Window, past: bool, lengths: Tensor) -> Tensor:
    """Compute until by recursion: `a U[l,h] b = a ∧ X(a U[l-1,h-1] b)` for l > 0."""
    low, high = window.low, window.high
    if high is not None and low > high:
        return torch.zeros_like(u)
    reached = _near(u, v, None if high is None else high - low, past, lengths)
    for _ in range(min(low, u.shape[-1])):
        reached = u & shift(reached, 1, past, False, lengths)
    return reached


def _near(u: Tensor, v: Tensor, reach: int | None, past: bool, lengths: Tensor) -> Tensor:
    """Compute `a U b` within `reach` steps as `b ∨ (a ∧ X(a U b))`, backwards from the end."""
    horizon = u.shape[-1]
    inside = within(lengths, torch.arange(horizon, device=u.device), u.dim())
    now = reached = v & inside
    if reach is None or reach >= horizon:
        times = range(horizon) if past else range(horizon - 1, -1, -1)
        for before, t in itertools.pairwise(times):
            reached[..., t] |= u[..., t] & reached[..., before] & inside[..., t]
        return reached
    for _ in range(reach):
        reached = now | (u & shift(reached, 1, past, False, lengths))
    return reached
