"""Some bindings of a formula that has too many, as the cells of another formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike

from fotltn.analysis.axes import columns
from fotltn.analysis.cells import Cells
from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.prefix import Layer, Prefix
from fotltn.logic.text import text_of
from fotltn.semantics.tables import Tables
from fotltn.syntax.theory import RelationDecl
from fotltn.tree import transform

#: The name of the relation whose tuples are the bindings; no theory has such a name.
_SHOWN = "(shown)"


def some_cells(cells: Cells, places: ArrayLike) -> Cells:
    """Return the cells of only some bindings, with the same variables, values and truth.

    The bindings are tuples of a relation that takes the place of the ∀ that the formula begins
    with. Shares of errors refer to these bindings.

    Args:
        cells: the cells of the formula.
        places: for each binding, its place on each axis.

    Raises:
        LimitError: the formula has no variables, or has guards both inside and outside G.
    """
    axes, tables = cells.axes, cells.tables
    if not axes:
        raise LimitError("a formula without variables has one row")
    shown = c.Axis(",".join(axis.name for axis in axes), None, _SHOWN)
    taken: dict[tuple[c.Axis, int | None], c.Variable] = {}
    for axis in axes:
        for place, column in enumerate(columns(axis, tables)):
            number = None if axis.relation is None else place
            taken[axis, number] = c.Variable(shown, column.sort, len(taken))

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable):
            return taken.get((node.axis, node.column), node)
        return node

    layers = tuple(
        replace(layer, guard=transform(layer.guard, rule))
        if isinstance(layer, c.Quantifier) and layer.guard is not None
        else layer
        for layer in cells.prefix.layers
    )
    body: c.Formula = transform(cells.body, rule)
    start = Prefix(_together(layers, shown), body)
    shown_tables = _with_tuples(tables, axes, places)
    return replace(cells.viewed(tables=shown_tables), prefix=start, free=(), text=text_of(body))


def _together(layers: Sequence[Layer], shown: c.Axis) -> tuple[Layer, ...]:
    """One ∀ in place of several, where their guards are read."""
    times = [layer for layer in layers if isinstance(layer, c.Aggregate)]
    guarded = [
        (place, layer.guard)
        for place, layer in enumerate(layers)
        if isinstance(layer, c.Quantifier) and layer.guard is not None
    ]
    before = [sum(isinstance(one, c.Aggregate) for one in layers[:place]) for place, _ in guarded]
    if len(set(before)) > 1:
        raise LimitError("its guards are read at different points")
    guard: c.Formula | None = None
    for _, part in guarded:
        guard = part if guard is None else c.And(guard, part)
    every = c.Quantifier(True, (shown,), guard, c.Truth(True))
    cut = before[0] if before else 0
    return (*times[:cut], every, *times[cut:])


def _with_tuples(tables: Tables, axes: Sequence[c.Axis], places: ArrayLike) -> Tables:
    """Tables with a relation of the entities at some places of axes."""
    bindings = np.asarray(places).reshape(-1, len(axes))
    every = [
        (column.sort, np.asarray(column.entities)[bindings[:, place]])
        for place, axis in enumerate(axes)
        for column in columns(axis, tables)
    ]
    sorts = [sort for sort, _ in every]
    tuples = torch.tensor(np.stack([entities for _, entities in every], -1), dtype=torch.long)
    tuples = tuples.to(tables.lengths.device)
    declared = RelationDecl(_SHOWN, tuple(sorts))
    return tables.with_relation(declared, tuples)
