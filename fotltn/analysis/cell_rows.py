"""Cells in two-valued logic at the cost of facts: counted, and listed where something is true."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.analysis.cell_weights import weights
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.presence import present_where_used
from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts
from fotltn.logic.prefix import Prefix
from fotltn.semantics.crisp_rows import truth
from fotltn.semantics.tables import Value
from fotltn.semantics.truth_rows import TruthRows, Truths


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """The cells of a formula as rows of facts.

    Args:
        truths: what they are computed with.
        axes: what a binding of a cell has a number for.
        there: the cells inside their traces, whose guards are true.
        counted: those of them whose entities are present when they are used.
        known: the truth of formulas that were asked for.
    """

    truths: Truths
    axes: tuple[c.Axis, ...]
    there: TruthRows
    counted: TruthRows
    known: dict[c.Formula, TruthRows] = field(default_factory=dict)

    def where(self, formula: c.Formula, among: TruthRows | None = None) -> TruthRows:
        """The cells at which a formula is true, among those that count or others."""
        true = self.counted if among is None else among
        for part in conjuncts(formula):
            if part not in self.known:
                self.known[part] = truth(part, self.truths)
            true = self.truths.both(true, self.known[part])
        return true

    def count(self, true: TruthRows) -> Tensor:
        """How many cells there are, with axes (trace, time)."""
        return self.truths.count(true, self.axes)

    def first(self, true: TruthRows, number: int) -> list[Cell]:
        """The first cells, by trace, by time, then by binding."""
        listed: list[Cell] = []
        points = self.count(true).nonzero().tolist() if number else []
        for trace, time in points:
            if len(listed) >= number:
                break
            bindings = self._bindings(true, trace, time, number - len(listed))
            listed += [Cell(trace, tuple(places), time) for places in bindings.tolist()]
        return listed

    def _bindings(self, true: TruthRows, trace: int, time: int, number: int) -> Tensor:
        """The first bindings at a point, with axes (binding, axis)."""
        truths, mine = self.truths, [a for a in self.axes if a in true.axes]
        if true.never:
            traces, places = truths.places(true.keys, true.axes)
            here = true.bits[:, time] & (traces == trace)
            rows = torch.stack([places[a][here] for a in mine], -1) if mine else here.nonzero()
        else:
            rows = truths.at_point(true, mine, trace, time).nonzero()
        rows = _first(rows.reshape(len(rows), -1)[:, : len(mine)], number)
        others = [a for a in self.axes if a not in true.axes]
        sizes = truths.sizes(others)
        many = min(number, math.prod(sizes))
        truths.room(8 * len(self.axes) * len(rows) * many)
        rest = torch.arange(many, device=truths.device)
        columns = {a: rows[:, i].repeat_interleave(many) for i, a in enumerate(mine)}
        for axis, size in zip(reversed(others), reversed(sizes), strict=True):
            columns[axis] = (rest % size).repeat(len(rows))
            rest = rest // size
        if not self.axes:
            return rows[:1]
        return _first(torch.stack([columns[a] for a in self.axes], -1), number)


def cell_rows(
    cells: Cells, layers: Prefix | None = None, axes: tuple[c.Axis, ...] | None = None
) -> CellRows | None:
    """The cells of a formula as rows, or those of other ∀ and G over other axes.

    None where guards and layers of time take turns, so that a cell may count more than once.
    """
    layers, axes = layers or cells.prefix, cells.axes if axes is None else axes
    times = [i for i, layer in enumerate(layers.layers) if isinstance(layer, c.Aggregate)]
    guards = {
        i: layer.guard
        for i, layer in enumerate(layers.layers)
        if isinstance(layer, c.Quantifier) and layer.guard is not None
    }
    if len(times) > 1 and any(i < times[-1] for i in guards):
        return None
    truths = Truths(cells.boolean, cells.view.budget)
    plain = Prefix(tuple(n for n in layers.layers if isinstance(n, c.Aggregate)), layers.body)
    ((_, often),) = weights(plain, cells.boolean, count=True)
    there = truths.dense(Value((), often > 0))
    for number, guard in guards.items():
        where = truth(guard, truths)
        if times and number < times[-1]:  # read at the first point, and holds from there on
            where = truths.over_time(lambda u, _: u[..., :1].expand_as(u), where)
        there = truths.both(there, where)
    counted = there
    for mask in present_where_used(axes, layers.body, cells.tables):
        counted = truths.both(counted, truths.dense(mask))
    return CellRows(truths, axes, there, counted)


def _first(rows: Tensor, number: int) -> Tensor:
    """The first rows of numbers, by the first number, then the second, and so on."""
    for column in reversed(range(rows.shape[1])):
        rows = rows[rows[:, column].argsort(stable=True)]
    return rows[:number]
