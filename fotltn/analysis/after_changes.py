"""A formula whose facts have other degrees: only the bindings that read them are looked at.

Under means with one p, the error of a formula is the mean of the errors of its bindings. So its
value then follows from its value now, and from the errors of the bindings that read a changed fact,
now and then. The same goes for the number of violations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, placed
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.tally import Standing
from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.semantics.config import PMean
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.tree import postorder

#: The most cells of bindings that are looked at; where changes reach more, all are evaluated.
REACHED = 2**22

#: Places on axes, with axes (binding, axis).
_TiedPlaces = np.ndarray[Any, np.dtype[np.int64]]

#: For some axes, the places that are meant; on others, all are.
_ReadBox = dict[c.Axis, np.ndarray[Any, np.dtype[np.int64]]]


def outcome(cells: Cells) -> Standing:
    """How a formula stands, from all of its cells."""
    return Standing(*cells.counts().tally.numbers, cells.value())


def after_changes(
    cells: Cells, changed: Tables, changes: Sequence[Change], now: Standing
) -> Standing | None:
    """How a formula with changed facts stands; None if all cells are needed.

    Args:
        cells: of the formula, as it is.
        changed: the tables with the changes.
        changes: the facts that differ.
        now: how the formula stands without them.

    Raises:
        DataError: there is no such fact.
    """
    assert now.value is not None
    p = _exponent(cells)
    boxes = [
        _places(cells, atom, change)
        for change in changes
        for atom in _atoms(cells.body)
        if atom.predicate == change.predicate
    ]
    if p is None or not all(boxes):  # an atom without variables is read by all bindings
        return None
    if not boxes:
        return now
    tied = [axis for axis in cells.axes if any(axis in box for box in boxes)]
    places = _reached(cells, boxes, tied)
    if places is None:
        return None
    if not len(places):
        return now
    before, after = (
        some_cells(cells.viewed(tables=_read(cells, tables, places, tied)), places, tied)
        for tables in (cells.tables, changed)
    )
    errors = [(1 - one.value()) ** p for one in (before, after)]
    share = len(places) / math.prod(cells.tables.size(axis) for axis in tied)
    error = max(0.0, (1 - now.value) ** p + share * (errors[1] - errors[0]))
    tallies = (one.counts().tally.numbers for one in (after, before))
    count, violated, undecided, absent = (
        n + a - b for n, a, b in zip(now.numbers, *tallies, strict=True)
    )
    return Standing(count, violated, undecided, absent, 1 - min(1.0, error) ** (1 / p))


def _exponent(cells: Cells) -> float | None:
    """The p of the mean that a formula is of its bindings; None if it is no such mean."""
    semantics, layers, how = cells.semantics, cells.prefix.layers, cells.tables.decisions
    if semantics.boolean or semantics.epsilon or cells.free or (how and how.definitions):
        return None
    if not isinstance(semantics.forall, PMean) or math.isinf(semantics.forall.p):
        return None
    if any(isinstance(layer, c.Quantifier) and layer.guard is not None for layer in layers):
        return None
    times = [isinstance(layer, c.Aggregate) for layer in layers]
    in_order = times == sorted(times)
    return semantics.forall.p if in_order or semantics.always == semantics.forall else None


def _reached(cells: Cells, boxes: Sequence[_ReadBox], tied: Sequence[c.Axis]) -> _TiedPlaces | None:
    """The places on axes that are in any of some boxes, each once; None if these are too many."""
    sizes = [cells.tables.size(axis) for axis in tied]
    rows = [np.zeros(0, np.int64)]
    for box in boxes:
        every = [box.get(axis, np.arange(n)) for axis, n in zip(tied, sizes, strict=True)]
        if math.prod(map(len, every)) * cells.columns * cells.tables.batch > REACHED:
            return None
        rows.append(np.ravel_multi_index(np.ix_(*every), sizes).reshape(-1))
    return np.stack(np.unravel_index(np.unique(np.concatenate(rows)), sizes), -1)


def _places(cells: Cells, atom: c.Atom, change: Change) -> _ReadBox:
    """Where on axes of the cells an atom can be a changed fact; on those left out, everywhere."""
    tables = cells.tables
    shape = tuple(tables.table(change.predicate).shape[1:])
    *numbers, _ = np.unravel_index(placed(tables, change)[1], shape)
    chosen: _ReadBox = {}
    for term, number in zip(atom.args, numbers, strict=True):
        if isinstance(term, c.Variable) and term.axis in cells.axes:
            here = np.array([number])
            if term.column is not None:
                column = columns(term.axis, tables)[term.column]
                here = np.flatnonzero(np.equal(column.entities, number))
            chosen[term.axis] = np.intersect1d(chosen.get(term.axis, here), here)
    return chosen


def _read(cells: Cells, tables: Tables, places: _TiedPlaces, tied: Sequence[c.Axis]) -> Tables:
    """Tables without facts that some bindings do not read: what these cost depends on the rest."""
    bound: dict[c.Axis, Tensor] = {}
    for number, axis in enumerate(tied):
        if axis.relation is None:
            bound[axis] = torch.zeros(tables.size(axis), dtype=torch.bool)
            bound[axis][torch.as_tensor(places[:, number])] = True
    predicates = {name: tables.table(name) for name in predicates_in(cells.formula)}
    for name, table in predicates.items():
        if isinstance(table, SparseTable):
            read = torch.zeros(table.facts, dtype=torch.bool)
            for atom in _atoms(cells.body):
                if atom.predicate == name:
                    here = torch.ones_like(read)
                    for term, entities in zip(atom.args, table.index[1:-1].cpu(), strict=True):
                        if isinstance(term, c.Variable) and term.axis in bound:
                            here &= bound[term.axis][entities]
                    read |= here
            chosen = read.nonzero().squeeze(-1).to(table.index.device)
            predicates[name] = replace(
                table, index=table.index[:, chosen], value=table.value[chosen]
            )
    return replace(tables, predicates=predicates)


def _atoms(formula: c.Formula) -> list[c.Atom]:
    return [node for node in postorder(formula) if isinstance(node, c.Atom)]
