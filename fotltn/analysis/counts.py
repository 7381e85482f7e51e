"""Count cells: all of them, those with a true antecedent, and those with a true consequent, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cells
from fotltn.analysis.evaluate_cells import CellBlock
from fotltn.analysis.tally import CellTally
from fotltn.analysis.truncation import undecided
from fotltn.analysis.unlabelled import labelled, opened, without_label
from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts, free_axes
from fotltn.logic.prefix import Layer, Prefix
from fotltn.logic.span import reach
from fotltn.semantics.by_trace import shared
from fotltn.sharing import WHOLE, BindingPart, by_parts
from fotltn.stop import doing

#: A number for each trace.
ByTrace = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Counts by trace; under a semantics of degrees, sums of degrees.

    A rule that is not an implication has an antecedent that is always true.

    Args:
        cells: the cells that count, including undecided and unlabelled ones.
        absent: the cells that would count if all entities were present where they are used.
        support: the cells where the antecedent is true, without undecided and unlabelled ones.
        held: the cells among these where the consequent is true, too.
        undecided: the cells that fail only because the trace ends; none if its end is final.
        unlabelled: the cells whose truth depends on facts without a label.
        base_cells: the cells of the consequent, without undecided and unlabelled ones.
        base_true: the cells among these where the consequent is true.
    """

    cells: ByTrace
    absent: ByTrace
    support: ByTrace
    held: ByTrace
    undecided: ByTrace
    unlabelled: ByTrace
    base_cells: ByTrace
    base_true: ByTrace

    @property
    def decided(self) -> ByTrace:
        """The cells that are true or false, whatever ends of traces and labels leave open."""
        return self.cells - self.undecided - self.unlabelled

    @property
    def true(self) -> ByTrace:
        """The decided cells that are true: the antecedent is false, or the consequent is true."""
        return self.decided - (self.support - self.held)

    @property
    def tally(self) -> CellTally:
        """Return the tally of all traces, in two-valued logic."""
        numbers = (self.cells, self.support - self.held, self.undecided, self.absent)
        unlabelled = int(self.unlabelled.sum())
        return CellTally(*(int(each.sum()) for each in numbers), unlabelled=unlabelled)


def measures(
    support: ByTrace, held: ByTrace, base_cells: ByTrace, base_true: ByTrace
) -> tuple[ByTrace, ByTrace, ByTrace]:
    """Return confidence, base rate and lift of a rule, from sums of counts; NaN if undefined."""
    confidence, base_rate = ratio(held, support), ratio(base_true, base_cells)
    return confidence, base_rate, ratio(confidence, base_rate)


def ratio(above: ByTrace, below: ByTrace) -> ByTrace:
    """Return a quotient; NaN if it is undefined."""
    quotient: ByTrace = np.full(np.broadcast(above, below).shape, np.nan)
    np.divide(above, below, out=quotient, where=np.asarray(below) > 0)
    return quotient


def count(cells: Cells, *, crisp: bool = True) -> tuple[Counts, Counts | None]:
    """Count all cells, and the cells from which the consequent looks only at points of the trace.

    The latter are None if the consequent looks as far as the trace goes. The base rate is over the
    variables of the consequent, where entities are present whenever the rule uses them, and over
    guards about no other variables.

    Args:
        cells: the cells of the rule.
        crisp: count in two-valued logic; otherwise sum degrees.
    """
    exact = crisp or cells.semantics.boolean
    parts = by_parts(
        "counts", cells.tables.batch, lambda part: _count(cells, crisp, part), exact=exact
    )
    if parts is not None:
        return _added(parts)
    blocks = shared("counts", cells.tables, lambda t: _count(cells.viewed(tables=t), crisp))
    return _count(cells, crisp) if blocks is None else joined_counts(blocks)


def _count(cells: Cells, crisp: bool, part: BindingPart = WHOLE) -> tuple[Counts, Counts | None]:
    """Count a part of the cells, and a part of the cells of the consequent alone."""
    doing(cells.name)
    antecedent, consequent = cells.prefix.rule or (c.Truth(True), cells.body)
    ahead, free = reach(consequent), free_axes(consequent)
    cells = cells.viewed(tables=opened(cells.tables))
    gaps = without_label(cells.formula, cells.tables)
    (sure, _), body, then = (labelled(f, gaps) for f in (antecedent, cells.body, consequent))
    formulas: dict[str, c.Formula] = {"support": sure, "held": c.And(sure, then.low)}
    base: dict[str, c.Formula] = {"base_true": then.low}
    if crisp or cells.semantics.boolean:
        formulas |= _named("undecided", undecided(body.high, cells.view.end))
        base |= _named("base_undecided", undecided(then.high, cells.view.end))
    if gaps:
        cells = replace(cells, prefix=_sure(cells.prefix, gaps))
        formulas["unlabelled"] = body.between
        formulas["support_unlabelled"] = c.And(sure, then.between)
        base["base_unlabelled"] = then.between
    alone = _about(cells.prefix, cells.body, tuple(a for a in cells.axes if a in free))
    apart = replace(cells, free=tuple(a for a in cells.free if a in free))
    every, uncut = _Sums(cells), _Sums(cells, ahead or 0)
    if crisp and (marked := _by_rows(cells, formulas, cells.prefix, cells.axes, part)) is not None:
        base_axes = tuple(a for a in cells.axes if a in free)
        alone_marked = _by_rows(apart, base, alone, base_axes, part)
        assert alone_marked is not None
        marked |= {"base_cells": alone_marked["cells"], **{n: alone_marked[n] for n in base}}
        for sums in (every, uncut):
            sums.take(marked)
        return every.counts(), None if ahead is None else uncut.counts()
    for block in cells.blocks(formulas, crisp=crisp, count=True, part=part):
        for sums in (every, uncut):
            sums.add(block, {"cells": block.counts, "absent": block.absent})
    for block in apart.blocks(base, crisp=crisp, count=True, prefix=alone, part=part):
        for sums in (every, uncut):
            sums.add(block, {"base_cells": block.counts})
    return every.counts(), None if ahead is None else uncut.counts()


def joined_counts(
    blocks: Sequence[tuple[Counts, Counts | None]],
) -> tuple[Counts, Counts | None]:
    """Join the results of `count` on consecutive groups of traces."""
    inner = [part for _, part in blocks if part is not None]
    return all_counts([part for part, _ in blocks]), all_counts(inner) if inner else None


def all_counts(blocks: Sequence[Counts]) -> Counts:
    """Join the counts of consecutive groups of traces."""
    names = [field.name for field in fields(Counts)]
    return Counts(*(np.concatenate([getattr(block, name) for block in blocks]) for name in names))


def _added(parts: Sequence[tuple[Counts, Counts | None]]) -> tuple[Counts, Counts | None]:
    """Add the results of `count` on parts of the cells of the same traces."""
    every, uncut = zip(*parts, strict=True)
    return _sum(every), None if None in uncut else _sum(uncut)


def _sum(parts: Sequence[Counts]) -> Counts:
    names = [field.name for field in fields(Counts)]
    return Counts(*(sum(getattr(part, name) for part in parts) for name in names))


class _Sums:
    """Sums of blocks by trace, over the cells with enough time points ahead."""

    def __init__(self, cells: Cells, ahead: int = 0) -> None:
        tables = cells.tables
        self.totals: dict[str, ByTrace] = defaultdict(lambda: np.zeros(tables.batch))
        times = torch.arange(tables.horizon, device=tables.lengths.device)
        self.inner = times + ahead < tables.lengths.unsqueeze(-1)

    def add(self, block: CellBlock, marks: Mapping[str, Tensor]) -> None:
        """Add a block: the sums of its values where cells count, and of the marks of cells."""
        inner = self.inner.reshape(len(self.inner), *[1] * (len(block.shape) - 2), -1)
        counted = {
            name: value & block.counts
            if value.dtype == torch.bool
            else torch.where(block.counts, value, 0)
            for name, value in block.values.items()
        }
        for name, value in {**counted, **marks}.items():
            chosen = (value * inner).expand(block.shape)
            self.totals[name] += chosen.flatten(1).sum(1, dtype=torch.float64).cpu().numpy()

    def take(self, numbers: Mapping[str, Tensor]) -> None:
        """Add numbers of cells by trace and time."""
        for name, number in numbers.items():
            self.totals[name] += (number * self.inner).sum(1, dtype=torch.float64).cpu().numpy()

    def counts(self) -> Counts:
        """Return all sums so far; open cells support neither the rule nor its base."""
        every = self.totals
        totals = {field.name: every[field.name] for field in fields(Counts)}
        totals["support"] = every["support"] - every["undecided"] - every["support_unlabelled"]
        base = every["base_cells"] - every["base_undecided"] - every["base_unlabelled"]
        return Counts(**totals | {"base_cells": base})


def _named(name: str, formula: c.Formula | None) -> dict[str, c.Formula]:
    return {} if formula is None else {name: formula}


def _by_rows(
    cells: Cells,
    formulas: Mapping[str, c.Formula],
    prefix: Prefix,
    axes: tuple[c.Axis, ...],
    part: BindingPart,
) -> dict[str, Tensor] | None:
    """Return the numbers of cells by time, and where formulas are true, at the cost of facts."""
    rows = cell_rows(cells, prefix, axes, part)
    if rows is None:
        return None
    total = rows.count(rows.counted)
    marks = {"cells": total, "absent": rows.count(rows.there) - total}
    return marks | {name: rows.count(rows.where(f)) for name, f in formulas.items()}


def _sure(prefix: Prefix, gaps: Collection[str]) -> Prefix:
    """The layers, with guards that are true only where labels say so."""
    layers: list[Layer] = [
        replace(layer, guard=labelled(layer.guard, gaps).low)
        if isinstance(layer, c.Quantifier) and layer.guard is not None
        else layer
        for layer in prefix.layers
    ]
    return Prefix(tuple(layers), prefix.body)


def _about(prefix: Prefix, body: c.Formula, axes: tuple[c.Axis, ...]) -> Prefix:
    """Return the layers without other axes, and without guards that name them."""
    layers: list[Layer] = []
    for layer in prefix.layers:
        if isinstance(layer, c.Quantifier):
            bound = tuple(a for a in layer.axes if a in axes)
            parts = [g for g in conjuncts(layer.guard) if free_axes(g) <= set(axes)]
            guard = reduce(c.And, parts) if parts else None
            if not bound and guard is None:
                continue
            layer = replace(layer, axes=bound, guard=guard)
        layers.append(layer)
    return Prefix(tuple(layers), body)
