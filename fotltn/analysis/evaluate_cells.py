"""Values of formulas at every cell, some cells at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.axes import product
from fotltn.errors import LimitError
from fotltn.evaluation import Evaluator
from fotltn.logic import core as c
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables, Value, spread
from fotltn.sharing import WHOLE, BindingPart
from fotltn.stop import may_go_on
from fotltn.tree import transform

#: The most cells of one formula that are held at once.
MAX_CELLS = 2**21


class CellBlock(NamedTuple):
    """Some of the cells: places `start` to `stop` of the first axis.

    Tensors have axes (trace, axes …, time), of size 1 if nothing depends on the axis.

    Args:
        start: the first place.
        stop: the place after the last.
        shape: the size of all axes in full.
        values: the values of formulas at these cells.
        weight: the share of each cell in the mean of the formula.
        there: the cells inside their traces whose guards are true.
        counts: the cells among these that count, because the formula is defined.
    """

    start: int
    stop: int
    shape: tuple[int, ...]
    values: dict[str, Tensor]
    weight: Tensor
    there: Tensor
    counts: Tensor

    @property
    def absent(self) -> Tensor:
        """The cells that would count if all entities were present that the formula needs."""
        return self.there & ~self.counts


class _Reading(NamedTuple):
    """Formulas with the tables to evaluate them on: all, or some places of the first axis."""

    formulas: Mapping[str, c.Formula]
    axes: tuple[c.Axis, ...]
    tables: Tables
    semantics: Semantics

    def values(self, evaluate: Evaluator, cut: tuple[int, int] | None) -> dict[str, Tensor]:
        """Return their values, with axes (trace, axes …, time), of size 1 for axes they lack."""
        seen = self.tables if cut is None else replace(self.tables, cuts={self.axes[0]: cut})
        laid_out = {n: spread(v, self.axes).detach() for n, v in evaluate(seen).items()}
        return {n: u.exp() for n, u in laid_out.items()} if self.semantics.log_space else laid_out


def places_at_once(axes: tuple[c.Axis, ...], tables: Tables) -> int:
    """Return how many places of the first axis the budget allows at once."""
    size, *others = [tables.size(a) for a in axes] or [1]
    each = tables.batch * tables.horizon * math.prod(others)
    return max(1, min(size, MAX_CELLS // max(1, each)))


@torch.no_grad()
def sweep(
    formulas: Mapping[str, c.Formula],
    axes: tuple[c.Axis, ...],
    tables: Tables,
    semantics: Semantics,
    *,
    truths: Mapping[str, c.Formula] | None = None,
    boolean: Tables | None = None,
    there: Sequence[Value] = (),
    shares: Sequence[Value] | None = None,
    present: Sequence[Value] = (),
    budget: int = BUDGET,
    part: BindingPart = WHOLE,
) -> Iterator[CellBlock]:
    """The values of formulas at every cell, some places of the first axis at a time.

    Args:
        formulas: the formulas by name; their free variables are the axes.
        axes: the axes of the cells.
        tables: the tables; for the crisp semantics, of Booleans (see `two_valued`), as its values.
        semantics: the semantics of the formulas.
        truths: formulas whose truth in two-valued logic is wanted as well, by other names.
        boolean: the tables for them.
        there: factors of how often each cell occurs.
        shares: factors of the cells' shares of a mean; without them, a cell weighs how often it
            occurs.
        present: masks of the cells at which the formula is defined.
        budget: bytes that intermediate results may take.
        part: a part of the places of the first axis, or all; without axes, one part has all.

    Raises:
        LimitError: even one place of the first axis does not fit the budget.
    """
    size, *others = [tables.size(a) for a in axes] or [1]
    places = part.of(size)
    width = min(max(1, len(places)), places_at_once(axes, tables))
    every = [_Reading(formulas, axes, tables, semantics)]
    if truths and boolean is not None:
        every.append(_Reading(truths, axes, boolean, CRISP))
    parted = [_apart(reading) for reading in every] if size > 1 else every
    start = places.start
    evaluators: list[Evaluator] = []
    while start < places.stop:
        may_go_on()
        stop = min(places.stop, start + width)
        readings = every if width >= size else parted
        evaluators = evaluators or [
            Evaluator(one.formulas, one.semantics, None, budget) for one in readings
        ]
        values: dict[str, Tensor] = {}
        try:
            for reading, evaluate in zip(readings, evaluators, strict=True):
                values |= reading.values(evaluate, (start, stop) if width < size else None)
        except LimitError:
            if width == 1:
                raise
            width, evaluators = width // 2, []
            continue
        often = product(there, axes, (start, stop))
        counts = (often > 0) & product(present, axes, (start, stop))
        weight = often * counts if shares is None else product(shares, axes, (start, stop))
        sizes = [stop - start, *others] if axes else []
        shape = (tables.batch, *sizes, tables.horizon)
        yield CellBlock(start, stop, shape, values, weight, often > 0, counts)
        start = stop


def _apart(reading: _Reading) -> _Reading:
    """Return the formulas with a separate sort for the first axis, which will be narrowed.

    Without it, a plan may mix up the first axis and other axes of the same sort.
    """
    formulas, (first, *others), tables, _ = reading
    if first.sort is None:
        return reading
    part = replace(first, sort=f"{first.sort} (part)")

    def renamed(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis == first:
            return replace(node, axis=part)
        return node

    return reading._replace(
        formulas={name: transform(formula, renamed) for name, formula in formulas.items()},
        axes=(part, *others),
        tables=replace(tables, sizes={**tables.sizes, str(part.sort): tables.full_size(first)}),
    )
