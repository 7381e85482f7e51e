"""Values of formulas whose bindings several processes share, if there are few traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.bindings import BlockedFormulas, ranged
from fotltn.errors import LimitError
from fotltn.evaluation import evaluate_all, statement
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import Semantics
from fotltn.semantics.tables import Tables, Value
from fotltn.sharing import BLOCKS, BindingPart, by_parts, sharers

_Formulas = Mapping[str, c.Formula]


@torch.no_grad()
def shared_values(
    formulas: _Formulas,
    tables: Tables,
    semantics: Semantics,
    *,
    at: int | None = None,
    budget: int = BUDGET,
) -> dict[str, Value]:
    """Return the values of checked formulas, as `evaluate_all` does, without gradients.

    With few traces, processes share the bindings of closed formulas at the first time point.

    Raises:
        LimitError: with the name of a formula that does not fit the budget.
    """
    closed = {n: f for n, f in formulas.items() if at == 0 and not free_axes(f)}
    by_bindings = _truths if semantics.boolean else _degrees
    rows = by_bindings(closed, tables, semantics, budget)
    device = tables.lengths.device
    values = {n: Value((), row.unsqueeze(-1).to(device)) for n, row in rows.items()}
    rest = {n: f for n, f in formulas.items() if n not in values}
    if rest:
        values |= evaluate_all(rest, tables, semantics, at=at, budget=budget)
    return {name: values[name] for name in formulas}


def _degrees(
    formulas: _Formulas, tables: Tables, semantics: Semantics, budget: int
) -> dict[str, Tensor]:
    """Return the degrees of formulas on each trace, from blocks of bindings that fit the budget."""

    def made(part: BindingPart) -> tuple[Tensor, Tensor]:
        fixed = replace(tables)  # tables derived from this copy are freed with it
        blocked = BlockedFormulas(formulas, semantics, part.parts, fixed, budget)
        numbers, counts = blocked.of(part.number, tables)
        return numbers.cpu(), counts.cpu()

    try:
        parts = by_parts("values", tables.batch, made) if formulas else None
    except LimitError:
        if len(formulas) == 1:
            return {}
        alone = [_degrees({n: f}, tables, semantics, budget) for n, f in formulas.items()]
        return {name: row for one in alone for name, row in one.items()}
    if parts is None:
        return {}
    numbers, counts = (torch.stack(each) for each in zip(*parts, strict=True))
    blocked = BlockedFormulas(formulas, semantics, BLOCKS, tables, budget)
    values = blocked.together(numbers, counts, tables)
    values = values.exp() if semantics.log_space else values
    return dict(zip(formulas, values.to(tables.dtype), strict=True))


def _truths(
    formulas: _Formulas, tables: Tables, semantics: Semantics, budget: int
) -> dict[str, Tensor]:
    """Return the truth on each trace of formulas that begin with a quantifier, from parts."""
    if tables.batch >= sharers():
        return {}
    stated = {n: statement(f, tables.presence) for n, f in formulas.items()}
    quantified = {n: f for n, f in stated.items() if isinstance(f, c.Quantifier)}
    ways = {n: ranged(f, max(f.axes, key=tables.full_size)) for n, f in quantified.items()}
    shared = {n: (quantified[n], way) for n, way in ways.items() if way is not None}

    def made(part: BindingPart) -> list[Tensor]:
        rows = []
        for formula, way in shared.values():
            places = part.of(tables.full_size(way.variable))
            row = torch.full((tables.batch,), formula.universal)
            if len(places):
                some = way.tables(tables, places, replace(tables))
                (value,) = evaluate_all(
                    {"": way.formula}, some, semantics, at=0, budget=budget
                ).values()
                row = value.tensor[..., 0].expand(tables.batch).cpu()
            rows.append(row)
        return rows

    parts = by_parts("truths", tables.batch, made, exact=True) if shared else None
    if parts is None:
        return {}
    truths = {}
    for (name, (formula, _)), rows in zip(shared.items(), zip(*parts, strict=True), strict=True):
        every = torch.stack(rows)
        truths[name] = every.all(0) if formula.universal else every.any(0)
    return truths
