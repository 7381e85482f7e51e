"""The axes of cells: the entities at their places, and values laid out over them.

A tensor over axes has size 1 along each axis on which its values do not depend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.semantics.tables import Tables, Value, spread


class Column(NamedTuple):
    """A variable of an axis: its name, its sort, and its entity at each place."""

    variable: str
    sort: str
    entities: Sequence[int]


def columns(axis: c.Axis, tables: Tables) -> list[Column]:
    """The variables of an axis; a tuple of a relation binds several."""
    if axis.relation is None:
        return [Column(axis.name, str(axis.sort), range(tables.size(axis)))]
    relation = axis.relation

    def made() -> list[Column]:
        sorts = tables.signature.relations[relation].sorts
        entities = tables.relation(relation).T.tolist()
        return [Column(*one) for one in zip(axis.name.split(","), sorts, entities, strict=True)]

    return tables.derived(("columns", axis), made)


def binding(
    axes: Iterable[c.Axis], places: Iterable[int], trace: int, tables: Tables
) -> dict[str, str]:
    """The names of entities by variable."""
    return {
        column.variable: tables.names.called(column.sort, trace, column.entities[place])
        for axis, place in zip(axes, places, strict=True)
        for column in columns(axis, tables)
    }


def product(
    factors: Iterable[Value], axes: tuple[c.Axis, ...], cut: tuple[int, int] | None = None
) -> Tensor:
    """The product of values with few axes each, with axes (trace, `axes` …, time).

    The product of truth values is true where all are true.

    Args:
        factors: their axes are among `axes`.
        axes: the axes of the product; it has size 1 along axes on which nothing depends.
        cut: the wanted part of the first axis.
    """
    tensors = [spread(factor, axes) for factor in factors]
    if cut is not None and axes:
        tensors = [u[:, slice(*cut)] if u.shape[1] > 1 else u for u in tensors]
    return reduce(torch.mul, tensors, torch.tensor(True))
