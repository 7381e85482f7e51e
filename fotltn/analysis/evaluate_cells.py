"""Values of formulas: of axioms at the first point, and of their parts at every cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.analysis.prefix import spread
from fotltn.engine import Prepared, as_given, compile_formulas, sizes_of
from fotltn.logic import core as c
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.operators import operators
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import transform

#: The most cells of one formula that are held at once.
MAX_CELLS = 2**21


def axiom_values(
    formulas: Mapping[str, c.Formula],
    tables: Tables,
    semantics: Semantics,
) -> dict[str, Tensor]:
    """The degree of each closed formula at the first point of all traces, differentiable."""
    found = evaluate_parts(formulas, tables, semantics, at=0)
    return {
        name: over_traces(value.tensor[..., 0].to(tables.dtype), semantics)
        for name, value in found.items()
    }


def over_traces(values: Tensor, semantics: Semantics) -> Tensor:
    """One degree for all traces, which are aggregated as ∀ aggregates entities."""
    if values.shape[0] == 1:
        return values[0].clone()
    if semantics.boolean:
        return values.amin()
    plain = replace(semantics, epsilon=0.0, log_space=False)
    return operators(plain).quantify(values, True, [0])


@dataclass(frozen=True, slots=True)
class Part:
    """Values at a part of the cells: `start` to `stop` of the first axis.

    The tensors have axes (trace, axes …, time), of size 1 where nothing depends on one.
    """

    start: int
    stop: int
    values: dict[str, Tensor]

    def shape(self, axes: tuple[c.Axis, ...], tables: Tables) -> tuple[int, ...]:
        """The sizes of all axes in this part."""
        sizes = [tables.size(a) for a in axes]
        if axes:
            sizes[0] = self.stop - self.start
        return (tables.batch, *sizes, tables.horizon)


@torch.no_grad()
def sweep(
    formulas: Mapping[str, c.Formula],
    axes: tuple[c.Axis, ...],
    tables: Tables,
    semantics: Semantics,
) -> Iterator[Part]:
    """The values of formulas at every cell, a part of the first axis at a time.

    Under the crisp semantics values are Booleans, and tables must be (see `two_valued`).
    """
    size = tables.size(axes[0]) if axes else 1
    each = tables.batch * tables.horizon * math.prod(tables.size(a) for a in axes[1:])
    width = max(1, min(size, MAX_CELLS // max(1, each)))
    if width < size:
        formulas, axes, tables = _apart(formulas, axes, tables)
    prepared: Prepared | None = None
    for start in range(0, size, width):
        stop = min(size, start + width)
        cut = replace(tables, cuts={axes[0]: (start, stop)}) if width < size else tables
        if semantics.boolean or semantics.log_space:
            found = evaluate_parts(formulas, cut, semantics, at=None)
        else:
            if prepared is None:
                prepared = _prepare(formulas, cut, semantics, None)
            found = prepared(cut)
        yield Part(start, stop, {n: spread(value, axes).detach() for n, value in found.items()})


def _apart(
    formulas: Mapping[str, c.Formula], axes: tuple[c.Axis, ...], tables: Tables
) -> tuple[dict[str, c.Formula], tuple[c.Axis, ...], Tables]:
    """The same with a sort of its own for the first axis, of which only a part will be seen.

    Otherwise a plan may take what it knows of one axis for another axis of the same sort.
    """
    first, *others = axes
    if first.sort is None:
        return dict(formulas), axes, tables
    own = replace(first, sort=f"{first.sort} (part)")

    def renamed(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis == first:
            return replace(node, axis=own)
        return node

    sizes = {**tables.sizes, str(own.sort): tables.whole(first)}
    changed = {name: transform(formula, renamed) for name, formula in formulas.items()}
    return changed, (own, *others), replace(tables, sizes=sizes)


def two_valued(tables: Tables, threshold: float) -> Tables:
    """The same with degrees at or above the threshold true, as tables of Booleans; made once."""

    def boolean(table: Tensor | SparseTable) -> Tensor:
        if isinstance(table, Tensor):
            return table >= threshold if table.dtype != torch.bool else table
        dense = torch.full(table.shape, table.default >= threshold, device=table.value.device)
        dense[tuple(table.index.long())] = table.value >= threshold
        return dense

    def made() -> Tables:
        return replace(tables, predicates={n: boolean(t) for n, t in tables.predicates.items()})

    return tables.derived(("two-valued", threshold), made)


def rounded(tables: Tables, threshold: float) -> Tables:
    """The same with degrees at or above the threshold 1 and the others 0; facts stay facts."""
    dtype = tables.dtype

    def whole(table: Tensor | SparseTable) -> Tensor | SparseTable:
        if isinstance(table, Tensor):
            return (table >= threshold).to(dtype) if table.dtype != torch.bool else table.to(dtype)
        value = (table.value >= threshold).to(dtype)
        return replace(table, value=value, default=float(table.default >= threshold))

    return replace(tables, predicates={n: whole(t) for n, t in tables.predicates.items()})


def evaluate_parts(
    formulas: Mapping[str, c.Formula],
    tables: Tables,
    semantics: Semantics,
    *,
    at: int | None,
) -> dict[str, Value]:
    """Degrees (Booleans if crisp) with the traces in full; at one point, or at all.

    What does not change over time has an axis of time of size 1.
    """
    if semantics.boolean or semantics.log_space:
        found = {}
        for name, formula in formulas.items():
            if semantics.boolean:
                axes, u = crisp.evaluate(formula, tables)
            else:
                axes, u = reference.evaluate(formula, tables, semantics, dtype=tables.dtype)
                u = u.exp()
            found[name] = Value(axes, u if at is None else u[..., at : at + 1])
        return found
    values = _prepare(formulas, tables, semantics, at)(tables)
    return {
        name: Value(axes, u.expand(tables.batch, *u.shape[1:]))
        for name, (axes, u) in values.items()
    }


def _prepare(
    formulas: Mapping[str, c.Formula],
    tables: Tables,
    semantics: Semantics,
    at: int | None,
) -> Prepared:
    """The engine for formulas; where a part of an axis is seen, with facts laid out there."""
    program = compile_formulas(formulas, as_given(formulas, tables), semantics, at=at)
    sizes = sizes_of(tables, tables.dtype)
    for axis in tables.cuts:
        sizes = sizes.cut(axis, tables.size(axis))
    return Prepared(program.plan(sizes), semantics, tables.dtype, sizes.ragged)
