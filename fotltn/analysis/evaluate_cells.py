"""Values of formulas at every cell, some cells at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.axes import product, section, spread
from fotltn.errors import LimitError
from fotltn.evaluation import Evaluator, axiom_values
from fotltn.logic import core as c
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import Semantics, check_share
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import postorder, transform

#: The most cells of one formula that are held at once.
MAX_CELLS = 2**21


class CellBlock(NamedTuple):
    """Some of the cells: places `start` to `stop` of the first axis.

    Tensors have axes (trace, axes …, time), of size 1 where nothing depends on one.

    Args:
        start: the first place.
        stop: the place after the last.
        shape: the size of all axes in full.
        values: what formulas are at these cells.
        weight: the share of each cell in the mean that the formula is.
        counts: the cells that count: whose guards are true, inside their trace, with all entities
            present at the times at which they are used.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    values: dict[str, Tensor]
    weight: Tensor
    counts: Tensor

    @property
    def absent(self) -> Tensor:
        """The cells that would count if all entities were present when they are used."""
        return (self.weight > 0) & ~self.counts

    def between(self, start: int, stop: int) -> CellBlock:
        """Some of these cells."""
        cut = (start - self.start, stop - self.start)
        values = {name: section(tensor, *cut) for name, tensor in self.values.items()}
        shape = (
            self.shape if len(self.shape) == 2 else (self.shape[0], stop - start, *self.shape[2:])
        )
        return CellBlock(
            start, stop, shape, values, section(self.weight, *cut), section(self.counts, *cut)
        )


@torch.no_grad()
def sweep(
    formulas: Mapping[str, c.Formula],
    axes: tuple[c.Axis, ...],
    tables: Tables,
    semantics: Semantics,
    *,
    weights: Sequence[Value] = (),
    present: Sequence[Value] = (),
    budget: int = BUDGET,
) -> Iterator[CellBlock]:
    """The values of formulas at every cell, a part of the first axis at a time.

    Args:
        formulas: by name; their free variables are those of the axes.
        axes: of the cells.
        tables: under the crisp semantics of Booleans (see `two_valued`), as values are then.
        semantics: what gives formulas their values.
        weights: factors of the cells' weights.
        present: masks of the cells that count.
        budget: bytes that intermediate results may take.

    Raises:
        LimitError: even one place of the first axis does not fit the budget.
    """
    size, *others = [tables.size(a) for a in axes] or [1]
    each = tables.batch * tables.horizon * math.prod(others)
    width = max(1, min(size, MAX_CELLS // max(1, each)))
    parted = _apart(formulas, axes, tables) if size > 1 else (formulas, axes, tables)
    start = 0
    evaluator: Evaluator | None = None
    while start < size:
        stop = min(size, start + width)
        chosen, places, seen = (formulas, axes, tables) if width >= size else parted
        if width < size:
            seen = replace(seen, cuts={places[0]: (start, stop)})
        evaluator = evaluator or Evaluator(chosen, semantics, None, budget)
        try:
            values = evaluator(seen)
        except LimitError:
            if width == 1:
                raise
            width, evaluator = width // 2, None
            continue
        if semantics.log_space:
            values = {n: Value(v.axes, v.tensor.exp()) for n, v in values.items()}
        laid_out = {n: spread(v, places).detach() for n, v in values.items()}
        weight = product(weights, axes, (start, stop))
        counts = (weight > 0) & product(present, axes, (start, stop))
        sizes = [stop - start, *others] if axes else []
        shape = (tables.batch, *sizes, tables.horizon)
        yield CellBlock(start, stop, shape, laid_out, weight, counts)
        start = stop


def _apart(
    formulas: Mapping[str, c.Formula], axes: tuple[c.Axis, ...], tables: Tables
) -> tuple[dict[str, c.Formula], tuple[c.Axis, ...], Tables]:
    """The same with a sort of its own for the first axis, of which only a part will be seen.

    Otherwise a plan may take what it knows of one axis for another axis of the same sort.
    """
    if not axes or axes[0].sort is None:
        return dict(formulas), axes, tables
    first, *others = axes
    part = replace(first, sort=f"{first.sort} (part)")

    def renamed(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis == first:
            return replace(node, axis=part)
        return node

    sizes = {**tables.sizes, str(part.sort): tables.whole(first)}
    changed = {name: transform(formula, renamed) for name, formula in formulas.items()}
    return changed, (part, *others), replace(tables, sizes=sizes)


def two_valued(
    tables: Tables,
    threshold: float,
    names: Iterable[str] | None = None,
    *,
    budget: int = BUDGET,
) -> Tables:
    """The same with degrees at or above the threshold true, as tables of Booleans; made once.

    Args:
        tables: the tables.
        threshold: the degree from which on a fact is true.
        names: of the predicates that are needed; without, all.
        budget: bytes that tables of facts may take when they are laid out.

    Raises:
        LimitError: with the predicate whose table would take more.
    """
    check_share(threshold)
    chosen = frozenset(tables.predicates if names is None else names)
    for name in chosen:
        table = tables.predicates.get(name)
        if isinstance(table, SparseTable) and math.prod(table.shape) > budget:
            raise LimitError(
                f"the facts of '{name}', laid out over all entities and times, need "
                f"{math.prod(table.shape):,} bytes, more than the budget of {budget:,}"
            )

    def boolean(name: str) -> Tensor:
        table = tables.table(name)
        if isinstance(table, Tensor):
            return table >= threshold if table.dtype != torch.bool else table
        dense = torch.full(table.shape, table.default >= threshold, device=table.value.device)
        dense[tuple(table.index.long())] = table.value >= threshold
        return dense

    def made() -> Tables:
        dense = {
            name: tables.derived(("true", name, threshold), partial(boolean, name))
            for name in tables.predicates
            if name in chosen
        }
        return replace(tables, predicates=dense)

    return tables.derived(("two-valued", threshold, chosen), made)


def rounded(tables: Tables, threshold: float) -> Tables:
    """The same with degrees at or above the threshold 1 and the others 0; facts stay facts."""
    dtype = tables.dtype

    def ends(table: Tensor | SparseTable) -> Tensor | SparseTable:
        if isinstance(table, Tensor):
            return (table >= threshold).to(dtype) if table.dtype != torch.bool else table.to(dtype)
        value = (table.value >= threshold).to(dtype)
        return replace(table, value=value, default=float(table.default >= threshold))

    return replace(tables, predicates={n: ends(t) for n, t in tables.predicates.items()})


def used_predicates(*formulas: c.Formula) -> set[str]:
    """The predicates that formulas speak of."""
    return {n.predicate for n in postorder(*formulas) if isinstance(n, c.Atom)}


@torch.no_grad()
def degrees_of(
    formulas: Mapping[str, c.Formula],
    tables: Tables,
    semantics: Semantics,
    threshold: float,
    budget: int = BUDGET,
) -> dict[str, float]:
    """The degrees of closed formulas; several traces are aggregated as ∀ aggregates.

    Raises:
        DataError: a table is missing, or the threshold is none.
    """
    if semantics.boolean:
        used = used_predicates(*formulas.values())
        tables = two_valued(tables, threshold, used, budget=budget)
    values = axiom_values(formulas, tables, semantics)
    return {name: float(value) for name, value in values.items()}
