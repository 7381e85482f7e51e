"""The meaning of formulas, as section 3.1 of the paper writes it: slow, obvious, the oracle.

Every formula gets a value at every time point of every trace, for every binding of its free
variables: a tensor with axes (trace, variables …, time). Each distinct subformula is computed
once, bottom-up, over all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.semantics import crisp, temporal
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.operators import Operators, operators
from fotltn.semantics.tables import Tables, Value, align, gather, variable
from fotltn.tree import fold


def evaluate(
    formula: c.Formula, tables: Tables, semantics: Semantics, *, dtype: torch.dtype
) -> Value:
    """The degrees (in log space: their logarithms) of a formula, with its free axes."""
    ops = operators(semantics)

    def visit(node: c.Core, below: list[Value]) -> Value:
        return _value(node, below, tables, semantics, ops, dtype)

    return fold(formula, visit)


def evaluate_term(term: c.Term, tables: Tables, dtype: torch.dtype) -> Value:
    """The entity numbers (or numbers) of a term, with its free axes."""

    def visit(node: c.Core, below: list[Value]) -> Value:
        return _value(node, below, tables, STABLE_PRODUCT, operators(STABLE_PRODUCT), dtype)

    return fold(term, visit)


def _value(
    node: c.Core,
    below: list[Value],
    tables: Tables,
    semantics: Semantics,
    ops: Operators,
    dtype: torch.dtype,
) -> Value:
    lengths, full = tables.lengths, (tables.batch, tables.horizon)
    match node:
        # --- terms: entity numbers, or numbers -----------------------------------------------
        case c.Variable():
            return variable(node, tables)
        case c.Constant():
            number = torch.tensor(tables.constant(node), device=lengths.device)
            return Value((), number.reshape(1, 1))
        case c.Number(value):
            return Value((), torch.full((1, 1), value, dtype=torch.float64, device=lengths.device))
        case c.Apply(name):
            return gather(tables.function(name), below)

        # --- atoms ----------------------------------------------------------------------------
        case c.Truth(value):
            return Value((), ops.enter(_constant(full, float(value), lengths, dtype)))
        case c.Edge(past):
            times = torch.arange(tables.horizon, device=lengths.device)
            end = torch.zeros_like(lengths) if past else lengths - 1
            return Value((), ops.enter((times == end.unsqueeze(-1)).to(dtype)))
        case c.Atom(name):
            axes, found = gather(tables.predicate(name), below)
            return Value(axes, ops.enter(_everywhere(found.to(dtype), tables)))
        case c.Equal(left):
            axes, (a, b) = align(below)
            same = equality(a, b, left, tables, semantics, dtype)
            return Value(axes, ops.enter(_everywhere(same, tables)))
        case c.Compare(op):
            axes, (a, b) = align(below)
            holds = crisp.compare(op, a, b).to(dtype)
            return Value(axes, ops.enter(_everywhere(holds, tables)))

        # --- connectives ----------------------------------------------------------------------
        case c.Not():
            ((axes, u),) = below
            return Value(axes, ops.negate(u))
        case c.And():
            axes, (u, v) = align(below)
            return Value(axes, ops.conjoin(u, v))
        case c.Or():
            axes, (u, v) = align(below)
            return Value(axes, ops.disjoin(u, v))
        case c.Implies():
            axes, (u, v) = align(below)
            return Value(axes, ops.imply(u, v))

        # --- quantifiers ----------------------------------------------------------------------
        case c.Quantifier(universal, bound, guard):
            body = below[-1]
            test = None if guard is None else crisp.evaluate(guard, tables)
            return _quantify(body, test, universal, bound, tables, ops)

        # --- time -----------------------------------------------------------------------------
        case c.Shift(_, steps, past, weak):
            ((axes, u),) = below
            outside = ops.enter(torch.tensor(float(weak), dtype=dtype)).item()
            return Value(axes, temporal.shift(u, steps, past, outside, lengths))
        case c.Aggregate(universal, _, window, past):
            ((axes, u),) = below
            return Value(axes, temporal.aggregate(u, universal, window, past, lengths, ops))
        case c.Until(False, _, _, window, past):
            axes, (u, v) = align(below)
            return Value(axes, temporal.until(u, v, window, past, lengths, ops))
        case c.Until(True, _, _, window, past):
            axes, (u, v) = align(below)
            opposite = temporal.until(ops.negate(u), ops.negate(v), window, past, lengths, ops)
            return Value(axes, ops.negate(opposite))
    raise AssertionError(node)


def _constant(shape: tuple[int, ...], value: float, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, value, dtype=dtype, device=lengths.device)


def _everywhere(u: Tensor, tables: Tables) -> Tensor:
    """Expand trace and time to their full sizes."""
    return u.expand(tables.batch, *u.shape[1:-1], tables.horizon)


def _quantify(
    body: Value,
    guard: Value | None,
    universal: bool,
    bound: tuple[c.Axis, ...],
    tables: Tables,
    ops: Operators,
) -> Value:
    """Aggregate over the bound axes, all of them present in full so that each binding counts."""
    every = [
        Value((a,), torch.ones(1, tables.size(a), 1, device=tables.lengths.device)) for a in bound
    ]
    parts = [body, *every, *([guard] if guard is not None else [])]
    axes, (u, *rest) = align(parts)
    u = u.expand(torch.broadcast_shapes(*(r.shape for r in rest), u.shape))
    mask = rest[-1].bool() if guard is not None else None
    kept = tuple(a for a in axes if a not in bound)
    dims = [1 + axes.index(a) for a in bound]
    return Value(kept, ops.quantify(u, universal, dims, mask))


def equality(
    a: Tensor,
    b: Tensor,
    left: c.Term,
    tables: Tables,
    semantics: Semantics,
    dtype: torch.dtype,
) -> Tensor:
    """`exp(-α ‖a - b‖)` of numbers or features; of entities without features, 1 or 0."""
    scale = semantics.equality_scale
    if _sort(left) == c.REAL:
        a, b = crisp.alike(a, b)
        return torch.exp(-scale * (a.to(dtype) - b.to(dtype)).abs())
    table = tables.features.get(_sort(left))
    if table is None:
        return (a == b).to(dtype)
    batch = torch.arange(table.shape[0], device=table.device).reshape(-1, *[1] * (a.dim() - 1))
    square = (table[batch, a] - table[batch, b]).to(dtype).square().sum(-1)
    zero = square == 0
    distance = torch.where(zero, torch.zeros_like(square), torch.where(zero, 1, square).sqrt())
    return torch.exp(-scale * distance)


def _sort(term: c.Term) -> str:
    match term:
        case c.Variable(_, sort) | c.Constant(_, sort) | c.Apply(_, _, sort):
            return sort
        case c.Number():
            return c.REAL
    raise DataError(f"not a term: {term}")
