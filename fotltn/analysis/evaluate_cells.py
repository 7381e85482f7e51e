"""Values of formulas at every cell, some cells at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from fotltn.analysis.prefix import spread
from fotltn.errors import LimitError
from fotltn.evaluation import Evaluator
from fotltn.logic import core as c
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import Semantics, check_share
from fotltn.semantics.interpretation import Tables, Value
from fotltn.semantics.sparse import SparseTable
from fotltn.tree import transform

#: The most cells of one formula that are held at once.
MAX_CELLS = 2**21


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
    *,
    budget: int = BUDGET,
) -> Iterator[Part]:
    """The values of formulas at every cell, a part of the first axis at a time.

    Under the crisp semantics values are Booleans, and tables must be (see `two_valued`).

    Raises:
        LimitError: even one place of the first axis does not fit the budget.
    """
    size = tables.size(axes[0]) if axes else 1
    each = tables.batch * tables.horizon * math.prod(tables.size(a) for a in axes[1:])
    width = max(1, min(size, MAX_CELLS // max(1, each)))
    parted = _apart(formulas, axes, tables) if size > 1 else (formulas, axes, tables)
    start = 0
    evaluator: Evaluator | None = None
    while start < size:
        stop = min(size, start + width)
        chosen, places, cut = (formulas, axes, tables) if width >= size else parted
        if width < size:
            cut = replace(cut, cuts={places[0]: (start, stop)})
        evaluator = evaluator or Evaluator(chosen, semantics, None, budget)
        try:
            values = evaluator(cut)
        except LimitError:
            if width == 1:
                raise
            width, evaluator = width // 2, None
            continue
        if semantics.log_space:
            values = {n: Value(v.axes, v.tensor.exp()) for n, v in values.items()}
        yield Part(start, stop, {n: spread(v, places).detach() for n, v in values.items()})
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
    own = replace(first, sort=f"{first.sort} (part)")

    def renamed(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis == first:
            return replace(node, axis=own)
        return node

    sizes = {**tables.sizes, str(own.sort): tables.whole(first)}
    changed = {name: transform(formula, renamed) for name, formula in formulas.items()}
    return changed, (own, *others), replace(tables, sizes=sizes)


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

    def whole(table: Tensor | SparseTable) -> Tensor | SparseTable:
        if isinstance(table, Tensor):
            return (table >= threshold).to(dtype) if table.dtype != torch.bool else table.to(dtype)
        value = (table.value >= threshold).to(dtype)
        return replace(table, value=value, default=float(table.default >= threshold))

    return replace(tables, predicates={n: whole(t) for n, t in tables.predicates.items()})
