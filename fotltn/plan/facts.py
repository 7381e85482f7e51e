"""Prepare facts for a plan: their coordinates along the axes of a leaf, once for all runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from fotltn.algebra import expr as e
from fotltn.kernels.matrix import Matrix, PlacesOfFacts, matrix
from fotltn.kernels.sparse import Halvings, halvings
from fotltn.kernels.tracing import is_learned
from fotltn.logic import core as c
from fotltn.semantics.sparse import SparseTable, flat, numbered
from fotltn.semantics.tables import Tables, Value, align

Key = tuple[object, ...]
Axes = tuple[c.Axis, ...]
T = TypeVar("T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class LeafFacts:
    """The facts of one leaf: coordinates by axis, and values derived from them.

    Plans share coordinates of the same facts, and what follows from them, but not from degrees.
    """

    leaf: e.TableLeaf
    table: SparseTable
    tables: Tables
    coordinates: dict[c.Axis, Tensor]
    trace: Tensor | None
    time: Tensor | None
    order: Tensor | None  # the position of each fact in the table; None if already in order
    _by_place: dict[Key, Any] = field(default_factory=dict)
    _by_degree: dict[Key, Any] = field(default_factory=dict)

    def values(self, dtype: torch.dtype) -> Tensor:
        """Return the degrees, in the order of the coordinates."""
        value, order = self.table.value, self.order
        if is_learned(value):
            return value.to(dtype) if order is None else value.to(dtype)[order]
        if order is None:
            return value.to(dtype)
        return self.constant((dtype,), lambda: value.to(dtype)[order])

    def all_one(self) -> bool:
        """Whether every fact has degree 1, and no degree is learned."""
        value = self.table.value
        if is_learned(value):
            return False
        return _known(self._by_degree, ("all one",), lambda: bool((value == 1).all()))

    def forget(self) -> None:
        """Drop what was derived from degrees, and keep what was derived from coordinates."""
        self._by_degree.clear()

    def _rows(self, axes: Axes, traces: int, times: int) -> tuple[list[Tensor], list[int]]:
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
        """One of the coordinates, to get the number of facts and the device."""
        return next(iter(self.coordinates.values()))

    def cells(self, axes: Axes, traces: int, times: int) -> Tensor:
        """Return the cell of each fact in a flat table of shape (trace, time, *axes)."""

        def make() -> Tensor:
            rows, shape = self._rows(axes, traces, times)
            return numbered(rows, shape) if rows else torch.zeros_like(self.some)

        return _known(self._by_place, ("cells", axes, traces > 1, times > 1), make)

    def indices(self, axes: Axes, traces: int, times: int) -> Tensor:
        """Return the cells as long integers, which scatter operations need."""
        name = ("indices", axes, traces > 1, times > 1)
        return _known(self._by_place, name, lambda: self.cells(axes, traces, times).long())

    def counts(self, axes: Axes, traces: int, times: int, size: int) -> Tensor:
        """Count the facts of each cell."""

        def make() -> Tensor:
            return torch.bincount(self.cells(axes, traces, times), minlength=size)

        return _known(self._by_place, ("counts", axes, traces > 1, times > 1), make)

    def halvings(self, axes: Axes, traces: int, times: int) -> Halvings:
        """Plan how to multiply the facts of each cell."""

        def make() -> Halvings:
            return halvings(self.indices(axes, traces, times))

        return _known(self._by_place, ("halvings", axes, traces > 1, times > 1), make)

    def places(self, leaf: e.TableLeaf, table: SparseTable) -> Tensor:
        """Return, for each fact, the number of another leaf's fact at the same place, or -1."""
        known: tuple[Tensor, Tensor] | None = self._by_place.get(("places", leaf))
        if known is None or known[0] is not table.index:
            known = table.index, _lookup(self, table, leaf)
            self._by_place["places", leaf] = known
        return known[1]

    def constant(self, key: Key, find: Callable[[], Tensor]) -> Tensor:
        """Return a tensor that depends only on the facts, computed on first use."""
        return _known(self._by_degree, key, find)

    def matrix(
        self, row: c.Axis, column: c.Axis, value: Tensor, name: Key, traces: int, times: int
    ) -> Matrix:
        """Return the facts as a matrix from cells of `column` to cells of `row`."""

        def make() -> Matrix:
            shape = (traces, times, self.tables.size(row), self.tables.size(column))
            entities = self.coordinates[row], self.coordinates[column]
            return matrix(PlacesOfFacts(self.trace, self.time, *entities, shape), value)

        return _known(self._by_degree, ("matrix", row, column, name), make)


def _known(memory: dict[Key, Any], key: Key, make: Callable[[], T]) -> T:
    if key not in memory:
        memory[key] = make()
    value: T = memory[key]
    return value


#: The facts that plans use now.
_BOUND: WeakValueDictionary[Key, LeafFacts] = WeakValueDictionary()


def bind(leaf: e.TableLeaf, table: SparseTable, tables: Tables) -> LeafFacts:
    """Prepare the facts of a leaf, or take those that another plan prepared."""
    index, inference = table.index, torch.is_inference_mode_enabled()
    key = (
        leaf, id(index), 0 if index.is_inference() else index._version, table.shape, inference,
        tables.horizon, *tables.lengths.tolist(),
    )  # fmt: skip
    bound = _BOUND.get(key)
    if bound is None or bound.table.index is not index:
        _BOUND[key] = bound = _sorted_facts(leaf, table, tables)
        return bound
    return replace(bound, table=table, tables=tables, _by_degree={})


def _sorted_facts(leaf: e.TableLeaf, table: SparseTable, tables: Tables) -> LeafFacts:
    """Sort facts by trace, time and arguments, and split their index into axes.

    Facts beyond the end of their trace are left out, because there is no such time point.
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

    if order is not None and max(sizes) < 2**31:  # rows are copied anyway, so make them smaller
        args, trace, time = [a.int() for a in args], trace.int(), time.int()
    places = {axis: ordered(args[i]) for i, axis in enumerate(axes)}
    if source is not None:
        source = ordered(source)
    return LeafFacts(
        leaf, table, tables, places, ordered(trace) if tables.batch > 1 else None,
        ordered(time) if leaf.temporal else None, order if source is None else source,
    )  # fmt: skip


def _lookup(facts: LeafFacts, table: SparseTable, leaf: e.TableLeaf) -> Tensor:
    axes = [a.axis for a in leaf.args if isinstance(a, c.Variable)]
    zero = torch.zeros_like(facts.some)
    trace = facts.trace if facts.trace is not None and table.shape[0] > 1 else zero
    time = facts.time if leaf.temporal and facts.time is not None else zero
    wanted = numbered([trace, *(facts.coordinates[a] for a in axes), time], table.shape)
    known = flat(table.index, table.shape)
    if known.numel() == 0:
        return torch.full_like(zero, -1, dtype=torch.int64)
    known, order = known.sort()
    wanted, asked = wanted.sort()  # sorted, so that each lookup is close to the one before
    place = torch.searchsorted(known, wanted).clamp_(max=known.numel() - 1)
    places = torch.empty_like(place)
    places[asked] = torch.where(known[place] == wanted, order[place], -1)
    return places


def fewer_than_dense(table: SparseTable, args: Sequence[Value]) -> bool:
    """Whether the terms name far fewer places than the table has."""
    _, numbers = align(args)
    cells: int = math.prod(torch.broadcast_shapes(*(n.shape[1:-1] for n in numbers)))
    return 4 * cells < math.prod(table.shape[1:-1])


def gather_facts(table: SparseTable, args: Sequence[Value]) -> Value:
    """Look terms up in a table of facts as `gather` does, but without a dense copy."""
    axes, numbers = align(args)
    rank, device = len(axes) + 2, table.value.device
    batch = torch.arange(table.shape[0], device=device).reshape(-1, *[1] * (rank - 1))
    times = torch.arange(table.shape[-1], device=device)
    keys, order = _places(list(table.index), table.shape).sort()
    wanted = _places([batch, *(n.to(device) for n in numbers), times], table.shape)
    if not len(keys):
        degrees = torch.full(wanted.shape, table.default, dtype=table.value.dtype, device=device)
        return Value(axes, degrees)
    near = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    stated = table.value[order[near]]
    return Value(axes, torch.where(keys[near] == wanted, stated, table.default))


def _places(numbers: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return the flat position of each index in a table of the given shape."""
    places = numbers[0].long()
    for number, size in zip(numbers[1:], shape[1:], strict=True):
        places = places * size + number.long()
    return places
