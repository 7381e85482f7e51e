"""Collect the worst cells: violations, then weak cells, each with the largest errors first."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.error_shares import ErrorMeasure, Errors
from fotltn.analysis.evaluate_cells import CellBlock
from fotltn.analysis.tally import CellTally
from fotltn.errors import LimitError
from fotltn.logic import core as c


class ListedCell(NamedTuple):
    """A cell with its error, and the values of formulas there."""

    violated: bool
    error: float
    cell: Cell
    values: dict[str, float]

    def rank(self) -> tuple[object, ...]:
        """The key for sorting: violations, then weak cells, each by error and then by place."""
        return not self.violated, -self.error, self.cell.trace, self.cell.time, self.cell.numbers


class WorstSoFar:
    """The worst cells so far, how many there are in all, and the sum of their errors.

    Args:
        top: how many cells to keep.
    """

    def __init__(self, top: int) -> None:
        """Start without cells."""
        self.top = top
        self.worst: list[ListedCell] = []
        self.total = self.largest = 0.0
        self.ties = self.count = self.violated = self.undecided = self.weak = self.absent = 0

    def add(self, block: CellBlock) -> None:
        """Add some cells."""
        degree, error, truth = (block.values[n] for n in ("degree", "error", "truth"))
        counts, cut = block.counts.expand(block.shape), block.values["undecided"]
        wrong, weak = counts & ~truth & ~cut, counts & ((degree < 1) | cut)
        self.count += int(counts.sum())
        self.violated += int(wrong.sum())
        self.undecided += int((counts & cut).sum())
        self.weak += int((weak | wrong).sum())
        self.absent += int(block.absent.expand(block.shape).sum())
        self.total += float(error.sum())
        largest = float(error.max()) if error.numel() else 0.0
        if largest > self.largest:
            self.largest, self.ties = largest, 0
        if largest == self.largest:
            self.ties += int((error == largest).sum())
        for violated, chosen in ((True, wrong), (False, weak & (truth | cut))):
            for place in _largest(error, chosen, self.top):
                trace, *numbers, time = place
                if numbers:
                    numbers[0] += block.start
                here = {name: float(u[place]) for name, u in block.values.items()}
                cell = Cell(trace, tuple(numbers), time)
                self.worst.append(ListedCell(violated, float(error[place]), cell, here))
        self.worst.sort(key=ListedCell.rank)
        del self.worst[self.top :]

    @property
    def tally(self) -> CellTally:
        """All cells, counted."""
        return CellTally(self.count, self.violated, self.undecided, self.absent)

    def share(self, error: float, errors: Errors) -> float:
        """The share of one error in all."""
        if errors.measure is ErrorMeasure.WORST or math.isinf(self.total):
            return 1 / self.ties if error == self.largest and error else 0.0
        return error / self.total if self.total else 0.0


def worst_by_rows(cells: Cells, top: int) -> WorstSoFar | None:
    """All cells in two-valued logic, at the cost of facts.

    A false cell has the error 1. If an implication is false, its
    antecedent is true and its consequent is false. None if rows cannot tell cells apart, or if
    there are so many facts that blocks of cells take less memory.
    """
    rows = cell_rows(cells)
    if rows is None:
        return None
    rule, cut, best = cells.prefix.rule, cells.undecided, WorstSoFar(top)
    fails = c.Not(cells.body) if rule is None else c.And(rule[0], c.Not(rule[1]))
    values = {"body": 0.0} if rule is None else {"body": 0.0, "antecedent": 1.0, "consequent": 0.0}
    try:
        false = rows.where(fails)
        wrong, loose = false, None
        if cut is not None:
            wrong, loose = rows.where(c.Not(cut), false), rows.where(cut)
        best.count = int(rows.count(rows.counted).sum())
        best.absent = int(rows.count(rows.there).sum()) - best.count
        best.weak = int(rows.count(false).sum())
        best.violated = int(rows.count(wrong).sum())
        best.undecided = best.weak - best.violated
        best.ties = best.weak
        best.largest = best.total = float(best.ties > 0)
        for violated, true in ((True, wrong), (False, loose)):
            here = {**values, "undecided": float(not violated)}
            first = [] if true is None else rows.first(true, top - len(best.worst))
            best.worst += [ListedCell(violated, 1.0, cell, here) for cell in first]
    except LimitError:
        return None
    return best


def _largest(error: Tensor, chosen: Tensor, top: int) -> list[tuple[int, ...]]:
    """Return where the largest chosen entries are; of equal ones, the first by trace and time."""
    ordered = torch.where(chosen, error, -1.0).movedim(-1, 1)
    flat = ordered.reshape(-1)
    number = min(top, int(chosen.sum()))
    if number == 0:
        return []
    least = flat.topk(number).values[-1]
    above = (flat > least).nonzero().squeeze(-1)
    equal = (flat == least).nonzero().squeeze(-1)[: number - above.numel()]
    places = np.unravel_index(torch.cat([above, equal]).cpu().numpy(), ordered.shape)
    return [(trace, *rest, time) for trace, time, *rest in np.stack(places, -1).tolist()]
