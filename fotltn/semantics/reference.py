"""The reference evaluator: formulas as section 3.1 of the paper defines them, slow but obvious.

Every formula gets a value at every time point of every trace, for every binding of its free
variables: a tensor of shape (trace, *variables, time). Each distinct subformula is computed once,
bottom-up, for all of these cells together.
"""

from __future__ import annotations

from typing import Protocol, assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.core import Window
from fotltn.semantics import crisp, temporal
from fotltn.semantics.config import Semantics
from fotltn.semantics.operators import Operators, operators
from fotltn.semantics.sparse import has_gradients, largest
from fotltn.semantics.tables import (
    Tables,
    Value,
    align,
    every_entity,
    gather,
    sort_of,
    term_value,
)
from fotltn.threads import threads_for
from fotltn.tree import fold


class OverTime(Protocol):
    """How to compute the operators over windows of time: `temporal`, or the same in blocks."""

    def aggregate(
        self,
        u: Tensor,
        universal: bool,
        window: Window,
        past: bool,
        lengths: Tensor,
        ops: Operators,
        counts: Tensor | None = None,
    ) -> Tensor:
        """Compute ⊗ or ⊕ over the window of each time point, over the points that count."""

    def until(
        self,
        left: Tensor,
        right: Tensor,
        window: Window,
        past: bool,
        lengths: Tensor,
        ops: Operators,
    ) -> Tensor:
        """Compute ⊕ over the window of `right ∧ ⊗ left`."""


def evaluate(
    formula: c.Formula,
    tables: Tables,
    semantics: Semantics,
    *,
    dtype: torch.dtype,
    over_time: OverTime | None = None,
) -> Value:
    """Compute the degrees of a formula, or their logarithms in log space, with its free axes."""
    ops = operators(semantics)
    windows: OverTime = over_time or temporal

    def visit(node: c.AnyTerm | c.AnyFormula, below: list[Value]) -> Value:
        return _value(node, below, tables, semantics, ops, dtype, windows)

    predicates = tables.predicates.values()
    with threads_for(largest(predicates), step=has_gradients(predicates)):
        return fold(formula, visit)


def _value(
    node: c.AnyTerm | c.AnyFormula,
    below: list[Value],
    tables: Tables,
    semantics: Semantics,
    ops: Operators,
    dtype: torch.dtype,
    windows: OverTime,
) -> Value:
    lengths = tables.lengths
    match node:
        case c.Variable() | c.Constant() | c.Number() | c.Apply():
            return term_value(node, below, tables)

        # --- atoms ----------------------------------------------------------------------------
        case c.Truth(value):
            return Value((), ops.enter(torch.full_like(tables.inside, value, dtype=dtype)))
        case c.Edge(past):
            return Value((), ops.enter(tables.edge(past).to(dtype)))
        case c.Atom(name):
            axes, degrees = gather(tables.predicate(name), below)
            return Value(axes, ops.enter(tables.everywhere(degrees.to(dtype))))
        case c.Equal(left):
            axes, (a, b) = align(below)
            same = equality(a, b, left, tables, semantics, dtype)
            return Value(axes, ops.enter(tables.everywhere(same)))
        case c.Compare(op):
            axes, (a, b) = align(below)
            holds = crisp.compare(op, a, b).to(dtype)
            return Value(axes, ops.enter(tables.everywhere(holds)))

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
        case c.Aggregate(universal, _, window, past, guard):
            values = [below[0]]
            if guard is not None:
                values.append(crisp.evaluate(guard, tables))
            axes, (u, *counts) = align(values)
            result = windows.aggregate(u, universal, window, past, lengths, ops, *counts)
            return Value(axes, result)
        case c.Until(dual, _, _, window, past):
            axes, (u, v) = align(below)
            if dual:
                u, v = ops.negate(u), ops.negate(v)
            reached = windows.until(u, v, window, past, lengths, ops)
            return Value(axes, ops.negate(reached) if dual else reached)
        case _:
            assert_never(node)


def _quantify(
    body: Value,
    guard: Value | None,
    universal: bool,
    bound: tuple[c.Axis, ...],
    tables: Tables,
    ops: Operators,
) -> Value:
    """Aggregate over the bound axes, expanded to full size so that each binding counts."""
    every = every_entity(bound, tables, torch.bool)
    axes, (u, *rest) = align([body, *every, *([guard] if guard is not None else [])])
    u = torch.broadcast_tensors(u, *rest)[0]
    mask = rest[-1] if guard is not None else None
    free = tuple(a for a in axes if a not in bound)
    return Value(free, ops.quantify(u, universal, [1 + axes.index(a) for a in bound], mask))


def equality(
    a: Tensor,
    b: Tensor,
    left: c.Term,
    tables: Tables,
    semantics: Semantics,
    dtype: torch.dtype,
) -> Tensor:
    """Compute `exp(-α ‖a - b‖)` of numbers or features; 1 or 0 for entities without features."""
    scale = semantics.equality_scale
    sort = sort_of(left)
    if sort == c.REAL:
        a, b = crisp.alike(a, b)
        return torch.exp(-scale * (a.to(dtype) - b.to(dtype)).abs())
    table = tables.features.get(sort)
    if table is None:
        return (a == b).to(dtype)
    batch = torch.arange(table.shape[0], device=table.device).reshape(-1, *[1] * (a.dim() - 1))
    square = (table[batch, a] - table[batch, b]).to(dtype).square().sum(-1)
    zero = square == 0
    distance = torch.where(zero, torch.zeros_like(square), torch.where(zero, 1, square).sqrt())
    return torch.exp(-scale * distance)
