"""Count and list cells in two-valued logic, at the cost of facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fotltn.analysis.cell_weights import weights
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.presence import guarded, needs
from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts
from fotltn.logic.prefix import Prefix
from fotltn.semantics.crisp_rows import truth
from fotltn.semantics.tables import Value
from fotltn.semantics.truth_rows import TruthRows, Truths
from fotltn.sharing import WHOLE, BindingPart


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """The cells of a formula as rows of facts.

    Args:
        truths: computes the truth of formulas.
        axes: the axes of the bindings.
        there: the cells inside their traces, whose guards are true.
        counted: the cells among these at which the formula is defined.
        known: the truth of formulas so far.
    """

    truths: Truths
    axes: tuple[c.Axis, ...]
    there: TruthRows
    counted: TruthRows
    known: dict[c.Formula, TruthRows] = field(default_factory=dict)

    def where(self, formula: c.Formula, among: TruthRows | None = None) -> TruthRows:
        """Return the cells at which a formula is true, among the cells that count or others."""
        true = self.counted if among is None else among
        for part in conjuncts(formula):
            if true.empty:
                break
            if part not in self.known:
                self.known[part] = truth(part, self.truths)
            true = self.truths.both(true, self.known[part])
        return true

    def count(self, true: TruthRows) -> Tensor:
        """Return the numbers of cells, with axes (trace, time)."""
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
    cells: Cells,
    layers: Prefix | None = None,
    axes: tuple[c.Axis, ...] | None = None,
    part: BindingPart = WHOLE,
) -> CellRows | None:
    """The cells of a formula as rows, or those of other ∀ and G over other axes.

    A part has some places of the largest axis; without axes, one part has all cells.

    None if guards stand between temporal layers, because a cell may then count more than once.
    """
    layers, axes = layers or cells.prefix, cells.axes if axes is None else axes
    times = [i for i, layer in enumerate(layers.layers) if isinstance(layer, c.Aggregate)]
    guards = {
        i: layer.guard
        for i, layer in enumerate(guarded(layers.layers, cells.boolean))
        if isinstance(layer, c.Quantifier) and layer.guard is not None
    }
    if len(times) > 1 and any(i < times[-1] for i in guards):
        return None
    tables, largest = cells.boolean, max(axes, key=cells.tables.size, default=None)
    places = part.of(1 if largest is None else tables.size(largest))
    if part.parts > 1 and largest is not None:
        tables = replace(tables, cuts={largest: (places.start, places.stop)})
    truths = Truths(tables, cells.view.budget)
    plain = Prefix(tuple(n for n in layers.layers if isinstance(n, c.Aggregate)), layers.body)
    ((_, often),) = weights(plain, tables, count=True)
    there = truths.dense(Value((), (often > 0) & bool(len(places))))
    for number, guard in guards.items():
        if there.empty:
            break
        where = truth(guard, truths)
        if times and number < times[-1]:  # the guard is read at the first point only
            where = truths.over_time(lambda u, _: u[..., :1].expand_as(u), where)
        there = truths.both(there, where)
    counted = there
    for need in needs(axes, layers.body, tables):
        counted = truths.both(counted, truth(need, truths))
    return CellRows(truths, axes, there, counted)


def _first(rows: Tensor, number: int) -> Tensor:
    """The first rows of numbers, by the first number, then the second, and so on."""
    for column in reversed(range(rows.shape[1])):
        rows = rows[rows[:, column].argsort(stable=True)]
    return rows[:number]
