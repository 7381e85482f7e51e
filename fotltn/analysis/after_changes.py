"""Evaluate a formula after changes of facts, only at the bindings that read them.

Under means with one p, the error of a formula is the mean of the errors of its bindings. So its
new value follows from its present value, and from the old and new errors of the bindings that read
a changed fact. The same holds for the number of violations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.analysis.cell_part import cell_part
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, placed
from fotltn.analysis.tally import Standing
from fotltn.logic import core as c
from fotltn.logic.presence import relative
from fotltn.semantics.config import PMean
from fotltn.tree import postorder


def outcome(cells: Cells) -> Standing:
    """Return the value and the violations of a formula, from all of its cells."""
    return Standing(*cells.counts().tally.numbers, cells.value())


def after_changes(cells: Cells, changes: Sequence[Change], now: Standing) -> Standing | None:
    """Return the value and the violations after changes of facts; None if all cells are needed.

    Args:
        cells: the cells of the formula, without changes.
        changes: the changed facts.
        now: the value and the violations without changes.

    Raises:
        DataError: there is no such fact.
    """
    assert now.value is not None
    p = _exponent(cells)
    boxes = [
        _places(cells, atom, change)
        for change in changes
        for atom in postorder(cells.body)
        if isinstance(atom, c.Atom) and atom.predicate == change.predicate
    ]
    tied = [axis for axis in cells.axes if all(axis in box for box in boxes)]
    if p is None or not tied:  # an atom without variables is read by all bindings
        return None
    if not boxes:
        return now
    places = {axis: torch.cat([box[axis] for box in boxes]).unique() for axis in tied}
    if not all(map(len, places.values())):
        return now
    before, after = cell_part(cells, places, changes)
    errors = [(1 - one.value()) ** p for one in (before, after)]
    share = math.prod(len(places[axis]) / cells.tables.size(axis) for axis in tied)
    error = (1 - now.value) ** p + share * (errors[1] - errors[0])
    rounding = 2 * p * torch.finfo(cells.tables.dtype).eps * (1 - now.value) ** (p - 1)
    error = 0.0 if error < rounding else min(1.0, error)  # so that what is all true is worth 1
    tallies = (one.counts().tally.numbers for one in (after, before))
    count, violated, undecided, absent = (
        n + a - b for n, a, b in zip(now.numbers, *tallies, strict=True)
    )
    return Standing(count, violated, undecided, absent, 1 - error ** (1 / p))


def _exponent(cells: Cells) -> float | None:
    """Return the p of a formula's mean over its bindings; None if it is not such a mean."""
    semantics, layers, how = cells.semantics, cells.prefix.layers, cells.tables.decisions
    if semantics.boolean or semantics.epsilon or cells.free or (how and how.definitions):
        return None
    if not isinstance(semantics.forall, PMean) or math.isinf(semantics.forall.p):
        return None
    if any(isinstance(layer, c.Quantifier) and layer.guard is not None for layer in layers):
        return None
    if relative(cells.formula, cells.tables.presence).value != cells.formula:
        return None  # as many count as are present
    times = [isinstance(layer, c.Aggregate) for layer in layers]
    in_order = times == sorted(times)
    return semantics.forall.p if in_order or semantics.always == semantics.forall else None


def _places(cells: Cells, atom: c.Atom, change: Change) -> dict[c.Axis, Tensor]:
    """Return the places where an atom can be a changed fact, for each axis that this limits."""
    tables = cells.tables
    shape = tuple(tables.table(change.predicate).shape[1:])
    *numbers, _ = np.unravel_index(placed(tables, change)[1], shape)
    chosen: dict[c.Axis, Tensor] = {}
    for term, number in zip(atom.args, numbers, strict=True):
        if isinstance(term, c.Variable) and term.axis in cells.axes:
            here = torch.tensor([number])
            if term.column is not None:
                column = torch.as_tensor(columns(term.axis, tables)[term.column].entities)
                here = column.eq(int(number)).nonzero().squeeze(-1)
            known = chosen.get(term.axis, here)
            chosen[term.axis] = known[torch.isin(known, here)]
    return chosen
