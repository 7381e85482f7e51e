"""Exact Boolean truth of FO-LTLf with past and bounds, at every time point.

Shares nothing with the real-valued operators: F and G are computed by counting, until by its
one-step recursion, which hold in two-valued logic and only there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.semantics.tables import Tables, Value, align, gather, variable
from fotltn.tree import fold


def evaluate(formula: c.Formula, tables: Tables, *, threshold: float | None = None) -> Value:
    """The truth of a formula, as Booleans with axes (trace, free variables …, time).

    Args:
        formula: a core formula.
        tables: the tables. Degrees other than 0 and 1 are refused, unless there is a
        threshold: degrees at or above it are true.

    Raises:
        DataError: a degree is neither 0 nor 1, and there is no threshold.
    """

    def visit(node: c.Core, below: list[Value]) -> Value:
        return _value(node, below, tables, threshold)

    return fold(formula, visit)


def compare(op: str, a: Tensor, b: Tensor) -> Tensor:
    """`a op b`, elementwise, in the lower precision of the two: 0.1 is 0.1 in both."""
    a, b = alike(a, b)
    match op:
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
    raise AssertionError(op)


def alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two terms in the lower precision of the two."""
    if a.is_floating_point() and b.is_floating_point() and a.dtype != b.dtype:
        lower = min(a.dtype, b.dtype, key=lambda kind: torch.finfo(kind).bits)
        return a.to(lower), b.to(lower)
    return a, b


def _value(node: c.Core, below: list[Value], tables: Tables, threshold: float | None) -> Value:
    lengths = tables.lengths
    match node:
        case c.Variable():
            return variable(node, tables)
        case c.Constant():
            number = torch.tensor(tables.constant(node), device=lengths.device)
            return Value((), number.reshape(1, 1))
        case c.Number(value):
            return Value((), torch.full((1, 1), value, dtype=torch.float64, device=lengths.device))
        case c.Apply(name):
            return gather(tables.function(name), below)
        case c.Truth(value):
            return Value(
                (), torch.full((tables.batch, tables.horizon), value, device=lengths.device)
            )
        case c.Edge(past):
            times = torch.arange(tables.horizon, device=lengths.device)
            end = torch.zeros_like(lengths) if past else lengths - 1
            return Value((), times == end.unsqueeze(-1))
        case c.Atom(name, args):
            axes, found = _looked_up(tables.predicate(name), args, below, tables)
            return Value(axes, _everywhere(_truth(name, found, threshold), tables))
        case c.Equal():
            axes, (a, b) = align(below)
            return Value(axes, _everywhere(torch.eq(*alike(a, b)), tables))
        case c.Compare(op):
            axes, (a, b) = align(below)
            return Value(axes, _everywhere(compare(op, a, b), tables))
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
            return Value(axes, _shift(u, steps, past, weak, lengths))
        case c.Aggregate(universal, _, window, past):
            ((axes, u),) = below
            found = _some(~u if universal else u, window, past, lengths)
            return Value(axes, ~found if universal else found)
        case c.Until(dual, _, _, window, past):
            axes, (u, v) = align(below)
            u, v = torch.broadcast_tensors(u, v)
            found = _until(~u if dual else u, ~v if dual else v, window, past, lengths)
            return Value(axes, ~found if dual else found)
    raise AssertionError(node)


def _looked_up(
    table: Tensor, args: tuple[c.Term, ...], below: list[Value], tables: Tables
) -> Value:
    """Terms looked up in a table; of variables that run over all entities, the table itself."""
    axes = tuple(a.axis for a in args if isinstance(a, c.Variable) and a.column is None)
    if len(axes) == len(args) == len(set(axes)) and not any(a in tables.cuts for a in axes):
        return Value(axes, table)
    return gather(table, below)


def _truth(name: str, degrees: Tensor, threshold: float | None) -> Tensor:
    if degrees.dtype == torch.bool:
        return degrees
    if threshold is not None:
        return degrees >= threshold
    odd = (degrees != 0) & (degrees != 1)
    if bool(odd.any()):
        value = degrees[odd][0].item()
        raise DataError(
            f"'{name}' has the degree {value:g}, where only 0 and 1 are allowed (in a guard, or "
            "under the crisp semantics without a threshold)"
        )
    return degrees == 1


def _everywhere(u: Tensor, tables: Tables) -> Tensor:
    return u.expand(tables.batch, *u.shape[1:-1], tables.horizon)


def _quantify(
    below: list[Value], universal: bool, bound: tuple[c.Axis, ...], tables: Tables
) -> Value:
    device = tables.lengths.device
    every = [
        Value((a,), torch.ones(1, tables.size(a), 1, dtype=torch.bool, device=device))
        for a in bound
    ]
    axes, (*guard, u) = align([*every, *below])
    for present in guard:
        u = (~present | u) if universal else (present & u)
    dims = [1 + axes.index(a) for a in bound]
    kept = tuple(a for a in axes if a not in bound)
    return Value(kept, u.all(dims) if universal else u.any(dims))


def _shift(u: Tensor, steps: int, past: bool, outside: bool, lengths: Tensor) -> Tensor:
    """One point after another: its value `steps` away, if that is inside the trace."""
    out = torch.full_like(u, outside)
    horizon = u.shape[-1]
    if steps >= horizon:
        return out
    if past:
        out[..., steps:] = u[..., : horizon - steps]
        return out
    out[..., : horizon - steps] = u[..., steps:]
    beyond = torch.arange(steps, horizon + steps, device=u.device) >= lengths.unsqueeze(-1)
    return out.masked_fill_(beyond.reshape(-1, *[1] * (u.dim() - 2), horizon), outside)


def _some(u: Tensor, window: c.Window, past: bool, lengths: Tensor) -> Tensor:
    """Whether any point of a window is true: how many are true up to its end, and to its begin."""
    horizon = u.shape[-1]
    times = torch.arange(horizon, device=u.device)
    inside = (times < lengths.unsqueeze(-1)).reshape(-1, *[1] * (u.dim() - 2), horizon)
    before = torch.nn.functional.pad((u & inside).cumsum(-1, dtype=torch.int32), (1, 0))
    low = min(window.low, horizon)
    high = horizon if window.high is None else min(window.high, horizon)
    first, last = (times - high, times - low) if past else (times + low, times + high)
    begin, end = first.clamp(0, horizon), (last + 1).clamp(0, horizon)
    return before[..., end] > before[..., begin]


def _until(u: Tensor, v: Tensor, window: c.Window, past: bool, lengths: Tensor) -> Tensor:
    """Until by recursion over bounds and time: `a U[l,h] b = a ∧ X(a U[l-1,h-1] b)` for l > 0."""
    low, high = window.low, window.high
    if high is not None and low > high:
        return torch.zeros_like(u)
    found = _near(u, v, None if high is None else high - low, past, lengths)
    for _ in range(min(low, u.shape[-1])):
        found = u & _shift(found, 1, past, False, lengths)
    return found


def _near(u: Tensor, v: Tensor, reach: int | None, past: bool, lengths: Tensor) -> Tensor:
    """`a U b` within `reach` steps: `b ∨ (a ∧ X(a U b))`, walking back from the end."""
    horizon = u.shape[-1]
    if reach is None or reach >= horizon:
        found = torch.zeros_like(u)
        times = range(horizon) if past else range(horizon - 1, -1, -1)
        inside = torch.arange(horizon, device=u.device) < lengths.unsqueeze(-1)
        inside = inside.reshape(-1, *[1] * (u.dim() - 2), horizon)
        after: Tensor | None = None
        for t in times:
            here = v[..., t] if after is None else v[..., t] | (u[..., t] & after)
            after = here & inside[..., t]
            found[..., t] = after
        return found
    times_left = reach
    inside = torch.arange(horizon, device=u.device) < lengths.unsqueeze(-1)
    found = v & inside.reshape(-1, *[1] * (u.dim() - 2), horizon)
    start = found
    while times_left > 0:
        found = start | (u & _shift(found, 1, past, False, lengths))
        times_left -= 1
    return found
