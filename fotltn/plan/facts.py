"""Facts made ready for a plan: where each lies along the axes of a leaf, once for all runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.matrix import Matrix, matrix
from fotltn.kernels.sparse import Halvings, halvings
from fotltn.logic import core as c
from fotltn.semantics.sparse import SparseTable, flat, numbered
from fotltn.semantics.tables import Tables

Key = tuple[object, ...]


@dataclass(slots=True, eq=False)
class LeafFacts:
    """The facts of one leaf: coordinates by axis, and what has been derived from them."""

    leaf: e.TableLeaf
    table: SparseTable
    tables: Tables
    coordinates: dict[c.Axis, Tensor]
    trace: Tensor | None
    time: Tensor | None
    order: Tensor | None  # where in the table each fact is; None if it is in order
    _cells: dict[Key, Tensor] = field(default_factory=dict)
    _counts: dict[Key, Tensor] = field(default_factory=dict)
    _halvings: dict[Key, Halvings] = field(default_factory=dict)
    _matrices: dict[Key, Matrix] = field(default_factory=dict)
    _places: dict[e.TableLeaf, Tensor] = field(default_factory=dict)
    _constants: dict[Key, Tensor] = field(default_factory=dict)

    def values(self, dtype: torch.dtype) -> Tensor:
        """Degrees, in the order of the coordinates."""
        value = self.table.value.to(dtype)
        return value if self.order is None else value[self.order]

    def forget(self) -> None:
        """Drop what was derived from degrees; where facts are stays known."""
        self._matrices.clear()
        self._constants.clear()

    def _rows(
        self, axes: tuple[c.Axis, ...], traces: int, times: int
    ) -> tuple[list[Tensor], list[int]]:
        rows, shape = [], []
        if traces > 1:
            assert self.trace is not None
            rows, shape = [self.trace], [traces]
        if times > 1:
            assert self.time is not None
            rows, shape = [*rows, self.time], [*shape, times]
        rows += [self.coordinates[a] for a in axes]
        return rows, [*shape, *(self.tables.size(a) for a in axes)]

    @property
    def some(self) -> Tensor:
        """One of the coordinates, for its length and device."""
        return next(iter(self.coordinates.values()))

    def cells(self, axes: tuple[c.Axis, ...], traces: int, times: int) -> Tensor:
        """For each fact its cell in a flat table with axes (trace, time, axes …)."""
        key: Key = (axes, traces > 1, times > 1)
        if key not in self._cells:
            rows, shape = self._rows(axes, traces, times)
            cell = numbered(rows, shape) if rows else torch.zeros_like(self.some)
            self._cells[key] = cell
        return self._cells[key]

    def counts(self, axes: tuple[c.Axis, ...], traces: int, times: int, size: int) -> Tensor:
        """How many facts each cell has."""
        key: Key = (axes, traces > 1, times > 1)
        if key not in self._counts:
            self._counts[key] = torch.bincount(self.cells(axes, traces, times), minlength=size)
        return self._counts[key]

    def halvings(self, axes: tuple[c.Axis, ...], traces: int, times: int) -> Halvings:
        """How to multiply the facts of each cell."""
        key: Key = (axes, traces > 1, times > 1)
        if key not in self._halvings:
            self._halvings[key] = halvings(self.cells(axes, traces, times).long())
        return self._halvings[key]

    def constant(self, key: Key, find: Callable[[], Tensor]) -> Tensor:
        """Something that depends on the facts alone."""
        if key not in self._constants:
            self._constants[key] = find()
        return self._constants[key]

    def places(self, leaf: e.TableLeaf, find: Callable[[], Tensor]) -> Tensor:
        """Where another table has these facts."""
        if leaf not in self._places:
            self._places[leaf] = find()
        return self._places[leaf]

    def matrix(
        self, rows: tuple[c.Axis, ...], columns: tuple[c.Axis, ...], value: Tensor, name: Key,
        traces: int, times: int,
    ) -> Matrix:  # fmt: skip
        """The facts as a matrix from cells of `columns` to cells of `rows`."""
        key = (rows, columns, name)
        if key not in self._matrices:
            shape = tuple(
                traces * times * math.prod(self.tables.size(a) for a in axes)
                for axes in (rows, columns)
            )
            numbers = [numbered(*self._rows(axes, traces, times)) for axes in (rows, columns)]
            self._matrices[key] = matrix(numbers[0], numbers[1], value, shape)  # type: ignore[arg-type]
        return self._matrices[key]


def bind(leaf: e.TableLeaf, table: SparseTable, tables: Tables) -> LeafFacts:
    """Order facts by trace, time and arguments, and split their index into axes.

    Facts beyond the end of their trace are left out: there is no such point.
    """
    trace, *args, time = table.index
    source: Tensor | None = None
    if table.shape[0] == 1 and tables.batch > 1:
        count = table.facts
        trace = torch.arange(tables.batch, device=time.device).repeat_interleave(count)
        args = [a.repeat(tables.batch) for a in args]
        time = time.repeat(tables.batch)
        source = torch.arange(count, device=time.device).repeat(tables.batch)
    sizes = (tables.batch, table.shape[-1], *table.shape[1:-1])
    numbers = numbered([trace, time, *args], sizes)
    order: Tensor | None = None
    if not bool((numbers[1:] > numbers[:-1]).all()):
        order = numbers.argsort()
    del numbers
    if leaf.temporal and not bool((tables.lengths == table.shape[-1]).all()):
        order = torch.arange(time.numel(), device=time.device) if order is None else order
        order = order[time[order] < tables.lengths.to(time.device)[trace[order].long()]]
    axes = [a.axis for a in leaf.args if isinstance(a, c.Variable)]

    def ordered(row: Tensor) -> Tensor:
        return row if order is None else row[order]

    places = {axis: ordered(args[i]) for i, axis in enumerate(axes)}
    if source is not None:
        source = ordered(source)
    return LeafFacts(
        leaf, table, tables, places, ordered(trace) if tables.batch > 1 else None,
        ordered(time) if leaf.temporal else None, order if source is None else source,
    )  # fmt: skip


def lookup(found: LeafFacts, table: SparseTable, leaf: e.TableLeaf) -> Tensor:
    """For each fact of one leaf, the number of the fact of another at the same place, or -1."""
    axes = [a.axis for a in leaf.args if isinstance(a, c.Variable)]
    zero = torch.zeros_like(found.some)
    trace = found.trace if found.trace is not None and table.shape[0] > 1 else zero
    time = found.time if leaf.temporal and found.time is not None else zero
    wanted = numbered([trace, *(found.coordinates[a] for a in axes), time], table.shape)
    known = flat(table.index, table.shape)
    order = known.argsort()
    place = torch.searchsorted(known[order], wanted).clamp(max=max(0, known.numel() - 1))
    if known.numel() == 0:
        return torch.full_like(zero, -1, dtype=torch.int64)
    nowhere = torch.full_like(order[place], -1)
    return torch.where(known[order][place] == wanted, order[place], nowhere)
