"""A part of a formula's cells: some places on its axes, with tables of only these places.

Each atom has its own table, without other entities. So the cost of a part does not depend on the
number of facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, placed, put
from fotltn.logic import core as c
from fotltn.logic.prefix import Layer, Prefix
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Decisions, Names, Tables
from fotltn.syntax.theory import RelationDecl
from fotltn.tree import children, postorder, transform

#: The chosen places on some axes, in order; on other axes, all places.
AxisPlaces = Mapping[c.Axis, Tensor]


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """A formula in which some axes have fewer places.

    Args:
        prefix: the formula.
        atoms: each atom, by the name of its table, with the predicate of the full table.
        axes: the new axis for each narrowed axis.
    """

    prefix: Prefix
    atoms: dict[str, c.Atom]
    axes: dict[c.Axis, c.Axis]


def cell_part(
    cells: Cells, places: AxisPlaces, changes: Sequence[Change] = ()
) -> tuple[Cells, Cells]:
    """The cells at some places, as they are and with changed facts.

    Args:
        cells: the cells of a formula whose ∀ and G have no guards, and which needs nobody who
            comes and goes.
        places: the places on some axes.
        changes: the changed facts.

    Raises:
        DataError: there is no such fact.
    """
    tables, part = cells.tables, _narrowed(cells.prefix, tuple(places))
    here = {part.axes[axis]: at for axis, at in places.items()}
    now = {name: _cut(tables, atom, here) for name, atom in part.atoms.items()}
    then = dict(now)
    for change in changes:
        trace, place = placed(tables, change)
        shape = tuple(tables.table(change.predicate).shape)
        index = [trace if shape[0] > 1 else 0, *map(int, np.unravel_index(place, shape[1:]))]
        for name, atom in part.atoms.items():
            at = _tied(atom, here)
            if atom.predicate == change.predicate and all(index[i] in at[i] for i in at):
                local = [int((at[i] == n).nonzero()) if i in at else n for i, n in enumerate(index)]
                key = np.ravel_multi_index(local, tuple(then[name].shape))
                then[name] = put(then[name], int(key), change.degree)
    small = _tables(tables, part, places)
    before, after = (
        replace(cells.viewed(tables=replace(small, predicates=one)), prefix=part.prefix)
        for one in (now, then)
    )
    return before, after


@lru_cache(maxsize=256)
def _narrowed(start: Prefix, tied: tuple[c.Axis, ...]) -> _Narrowed:
    """A formula in which some axes have fewer places.

    An axis gets a smaller sort if its entities are used only as arguments of atoms. Otherwise it
    gets a relation.
    """
    others = [n for n in postorder(start.body) if not isinstance(n, c.Atom)]
    read = {v.axis for n in others for v in children(n) if isinstance(v, c.Variable)}
    axes = {
        axis: c.Axis(axis.name, f"{axis.sort} ({axis.name})")
        if axis.relation is None and axis not in read
        else c.Axis(axis.name, None, f"({axis.name})")
        for axis in tied
    }
    atoms: dict[str, c.Atom] = {}

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis in axes:
            axis = axes[node.axis]
            if axis.relation is None:
                return c.Variable(axis, str(axis.sort))
            return replace(node, axis=axis, column=node.column or 0)
        if isinstance(node, c.Atom):
            name = f"{node.predicate} ({len(atoms)})"
            atoms[name] = node
            return replace(node, predicate=name)
        return node

    layers: tuple[Layer, ...] = tuple(
        replace(layer, axes=tuple(axes.get(a, a) for a in layer.axes))
        if isinstance(layer, c.Quantifier)
        else layer
        for layer in start.layers
    )
    return _Narrowed(Prefix(layers, transform(start.body, rule)), atoms, axes)


def _tables(tables: Tables, part: _Narrowed, places: AxisPlaces) -> Tables:
    """Tables with the sorts and relations of some places, and without predicates."""
    how, sizes = tables.decisions or Decisions(), dict(tables.sizes)
    limits = {
        name: how.thresholds[atom.predicate]
        for name, atom in part.atoms.items()
        if atom.predicate in how.thresholds
    }
    for axis, at in places.items():
        sort = part.axes[axis].sort
        if sort is not None:
            sizes[sort] = len(at)
    small = replace(
        tables, sizes=sizes, present={}, names=Names(), predicates={}, decisions=Decisions(limits)
    )
    for axis, at in places.items():
        relation = part.axes[axis].relation
        if relation is not None:
            every = columns(axis, tables)
            tuples = torch.stack([torch.as_tensor(one.entities)[at] for one in every], -1)
            declared = RelationDecl(relation, tuple(one.sort for one in every))
            small = small.with_relation(declared, tuples.to(tables.lengths.device))
    return small


def _tied(atom: c.Atom, here: AxisPlaces) -> dict[int, Tensor]:
    """Return the places of the narrowed arguments of an atom, by dimension."""
    return {
        1 + number: here[term.axis]
        for number, term in enumerate(atom.args)
        if isinstance(term, c.Variable) and term.axis in here and term.axis.relation is None
    }


def _cut(tables: Tables, atom: c.Atom, here: AxisPlaces) -> Tensor | SparseTable:
    """The table of an atom at some places."""
    table = tables.table(atom.predicate)
    for number, (dim, at) in enumerate(_tied(atom, here).items()):
        if isinstance(table, Tensor):
            table = table.index_select(dim, at.to(table.device))
            continue
        if number:
            read = torch.isin(table.index[dim], at.to(table.index)).nonzero().squeeze(-1)
        else:
            read = _facts_at(tables, atom.predicate, table, dim, at)
        index, shape = table.index[:, read], list(table.shape)
        index[dim] = torch.searchsorted(at.to(index), index[dim]).to(index)
        shape[dim] = len(at)
        table = replace(table, index=index, value=table.value[read], shape=tuple(shape))
    return table


def _facts_at(tables: Tables, name: str, table: SparseTable, dim: int, at: Tensor) -> Tensor:
    """The numbers of a table's facts about some entities."""

    def made() -> tuple[Tensor, Tensor]:
        counts = table.index[dim].bincount(minlength=table.shape[dim])
        return table.index[dim].argsort(stable=True), counts.cumsum(0)

    order, ends = tables.derived(("facts at", name, dim), made)
    return torch.cat([order[ends[i - 1] if i else 0 : ends[i]] for i in at.tolist()])
