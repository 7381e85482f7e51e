"""Ground atoms: the degrees of a leaf's atoms at a cell, and which facts they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.pattern import Leaf
from fotltn.analysis.prefix import spread
from fotltn.evaluation import evaluate_core
from fotltn.logic import core as c
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, STABLE_PRODUCT
from fotltn.semantics.interpretation import Tables
from fotltn.semantics.sparse import SparseTable


class Fact(NamedTuple):
    """A ground atom: a predicate and its place in the table of a trace."""

    predicate: str
    place: int


class Degrees(NamedTuple):
    """What a leaf is at a cell, with axes (axes bound inside …, time).

    Args:
        value: degrees.
        truth: in two-valued logic.
        places: for an atom, the places of its facts in the table of its predicate.
    """

    value: Tensor
    truth: Tensor
    places: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A cells as a cell sees it: one trace, and the outer variables bound.

    Args:
        cells: those that it is one of.
        outer: the axes that the cell binds.
        trace: the number of the trace.
        tables: functions, relations and features of that trace.
    """

    cells: Cells
    outer: tuple[c.Axis, ...]
    trace: int
    tables: Tables

    def leaf(self, leaf: Leaf, first: int, last: int) -> Degrees:
        """The degrees of a leaf from one point to another."""
        node = leaf.node
        match node:
            case c.Atom(predicate, args):
                numbers = [self._number(a, leaf.axes, first, last) for a in args]
                places = self._places(predicate, numbers, first, last)
                places = self._whole(places, leaf.axes)
                value = self.degrees(predicate, places)
                return Degrees(value, value >= self.cells.threshold, places)
            case c.Edge(past):
                end = 0 if past else self.cells.tables.length(self.trace) - 1
                truth = torch.arange(first, last + 1, device=self._device) == end
                return Degrees(truth.to(self.cells.tables.dtype), truth, None)
        scale = self.cells.semantics.equality_scale
        graded = replace(STABLE_PRODUCT, equality_scale=scale)
        found = evaluate_core(node, self.tables, graded, engine=False)
        value = self._inside(spread(found, self.outer + leaf.axes), first, last)
        truth = self._inside(
            spread(evaluate_core(node, self.tables, CRISP), self.outer + leaf.axes), first, last
        )
        return Degrees(self._whole(value, leaf.axes), self._whole(truth, leaf.axes), None)

    def degrees(self, predicate: str, places: Tensor) -> Tensor:
        """The degrees of facts by their places."""
        table = self.cells.tables.table(predicate)
        trace = self.trace if table.shape[0] > 1 else 0
        dtype = self.cells.tables.dtype
        if isinstance(table, Tensor):
            at: tuple[Tensor, ...] = torch.unravel_index(places, table.shape[1:])
            return table.detach()[trace][at].to(dtype)
        keys, values = self.cells.tables.derived(("facts", predicate), lambda: _sorted(table))
        found = torch.full(places.shape, table.default, dtype=dtype, device=values.device)
        if len(keys):
            wanted = places + trace * math.prod(table.shape[1:])
            near = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
            found = torch.where(keys[near] == wanted, values[near].to(dtype), found)
        return found

    def fact(self, atom: c.Atom, inner: Mapping[c.Axis, int], time: int) -> Fact:
        """The fact that an atom is, the axes bound inside being at some places."""
        shape = self.cells.tables.table(atom.predicate).shape[1:]
        place = time if shape[-1] > 1 else 0
        for term, stride in zip(atom.args, _strides(shape), strict=False):
            place += int(self.term(term, inner, time)) * stride
        return Fact(atom.predicate, place)

    def name(self, fact: Fact) -> tuple[str, int | None]:
        """A fact in words, and its time; None if it is static."""
        table = self.cells.tables.table(fact.predicate)
        *numbers, time = _unravel(fact.place, table.shape[1:])
        sorts = self.cells.tables.signature.predicates[fact.predicate].sorts
        entity = self.cells.tables.names.called
        shown = ", ".join(entity(s, self.trace, n) for s, n in zip(sorts, numbers, strict=True))
        text = f"{fact.predicate}({shown})" if shown else fact.predicate
        return text, time if table.shape[-1] > 1 else None

    def over_time(self, fact: Fact) -> Tensor:
        """The degrees of a fact's atom at all points of the trace; one only if it is static."""
        times = self.cells.tables.table(fact.predicate).shape[-1]
        start = fact.place - fact.place % times
        points = min(times, self.cells.tables.length(self.trace))
        return self.degrees(
            fact.predicate, torch.arange(start, start + points, device=self._device)
        )

    def term(self, term: c.Term, inner: Mapping[c.Axis, int], time: int) -> float:
        """What a term is, the axes bound inside being at some places: an entity, or a number."""
        axes = tuple(inner)
        found = self._number(term, axes, time, time)
        at = [n if size > 1 else 0 for n, size in zip(inner.values(), found.shape, strict=False)]
        return float(found[(*at, 0)])

    @property
    def _device(self) -> torch.device:
        return self.cells.tables.lengths.device

    def _number(self, term: c.Term, inner: tuple[c.Axis, ...], first: int, last: int) -> Tensor:
        """The entities (or numbers) that a term is, with axes (`inner` …, time)."""
        found = reference.evaluate_term(term, self.tables, self.cells.tables.dtype)
        return self._inside(spread(found, self.outer + inner), first, last)

    def _inside(self, tensor: Tensor, first: int, last: int) -> Tensor:
        """A value of this trace and binding alone, at some points."""
        tensor = tensor.reshape(tensor.shape[1 + len(self.outer) :])
        return tensor[..., first : last + 1] if tensor.shape[-1] > 1 else tensor

    def _places(self, predicate: str, numbers: list[Tensor], first: int, last: int) -> Tensor:
        """The places of a predicate's facts in the table of a trace, one after another."""
        shape = self.cells.tables.table(predicate).shape[1:]
        times = torch.zeros(1, dtype=torch.long, device=self._device)
        if shape[-1] > 1:
            times = torch.arange(first, last + 1, device=self._device)
        found = times
        for number, stride in zip(numbers, _strides(shape), strict=False):
            found = found + number.long() * stride
        return found

    def _whole(self, tensor: Tensor, inner: tuple[c.Axis, ...]) -> Tensor:
        sizes = [self.cells.tables.size(a) for a in inner]
        return tensor.expand(*sizes, tensor.shape[-1])


def view(cells: Cells, cell: Cell) -> View:
    """The cells as a cell sees it."""
    tables, trace = cells.tables, cell.trace

    def own(table: Tensor) -> Tensor:
        return table[trace : trace + 1] if table.shape[0] > 1 else table

    model = replace(
        tables,
        lengths=tables.lengths[trace : trace + 1],
        predicates={},
        functions={n: own(t.detach()) for n, t in tables.functions.items()},
        features={n: own(t.detach()) for n, t in tables.features.items()},
        cuts={a: (n, n + 1) for a, n in zip(cells.axes, cell.numbers, strict=True)},
    )
    return View(cells, cells.axes, trace, model)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def _unravel(place: int, shape: Sequence[int]) -> list[int]:
    found = []
    for stride in _strides(shape):
        found.append(place // stride)
        place %= stride
    return found


def _sorted(table: SparseTable) -> tuple[Tensor, Tensor]:
    """The facts of a table by their places over all traces, in order."""
    keys = torch.zeros(table.facts, dtype=torch.long, device=table.index.device)
    for row, stride in zip(table.index, _strides(table.shape), strict=True):
        keys = keys + row.long() * stride
    keys, order = keys.sort()
    return keys, table.value.detach()[order]
