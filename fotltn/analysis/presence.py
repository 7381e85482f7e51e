"""Where cells count when entities come and go: where their formula is defined."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import torch
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.evaluation import evaluate_core
from fotltn.logic import core as c
from fotltn.logic.parts import conjuncts, free_axes
from fotltn.logic.prefix import Layer
from fotltn.logic.presence import relative, without
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables, Value, spread


def needs(axes: tuple[c.Axis, ...], body: c.Formula, tables: Tables) -> tuple[c.Formula, ...]:
    """Return what must be true of presence where a cell counts, each part apart.

    Args:
        axes: the axes of the cells; entities of others are taken to be there.
        body: the formula.
        tables: the tables, with the presence of entities.
    """
    presence = tables.presence
    if not presence:
        return ()
    known = dict(presence.known)
    exist = [
        c.Atom(known[sort], (c.Variable(axis, sort, None if axis.relation is None else place),))
        for axis in axes
        for place, (_, sort, _) in enumerate(columns(axis, tables))
        if sort in known
    ]
    asked = [n for n in conjuncts(relative(body, presence).defined) if n != c.Truth(True)]
    return (*exist, *without(asked, free_axes(body).difference(axes)))


def present_where_used(
    axes: tuple[c.Axis, ...], body: c.Formula, tables: Tables
) -> tuple[Value, ...]:
    """Return masks of the cells that count: few axes each, and visible places of an axis."""
    return tuple(evaluate_core(need, tables, CRISP) for need in needs(axes, body, tables))


def absent_where_used(
    free: tuple[c.Axis, ...], formula: c.Formula, tables: Tables
) -> Tensor | None:
    """Where a formula is undefined, shape `(trace, *free, time)`; None if that is nowhere.

    Of entities that a trace never has, not even what is static is told.
    """
    ever = [
        Value((axis,), tables.present[sort][:, list(entities)].any(-1, keepdim=True))
        for axis in free
        for _, sort, entities in columns(axis, tables)
        if sort in tables.present
    ]
    masks = (*present_where_used(free, formula, tables), *ever)
    if not masks:
        return None
    shape = (tables.batch, *map(tables.size, free), tables.horizon)
    absent = torch.zeros(shape, dtype=torch.bool, device=tables.lengths.device)
    for mask in masks:
        absent |= ~spread(mask, free)
    return absent


def guarded(layers: tuple[Layer, ...], tables: Tables) -> tuple[Layer, ...]:
    """Return the layers with guards that are false where they are undefined."""

    def asked(guard: c.Formula) -> c.Formula:
        return reduce(c.And, (*needs(tuple(free_axes(guard)), guard, tables), guard))

    return tuple(
        replace(layer, guard=asked(layer.guard))
        if isinstance(layer, c.Quantifier) and layer.guard is not None
        else layer
        for layer in layers
    )
