"""A cell with the data as it sees them: one trace, the outer variables bound, atoms as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, assert_never

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain.pattern import BodyLeaf, Pattern, needed, pattern
from fotltn.evaluation import evaluate_core
from fotltn.logic import core as c
from fotltn.logic.presence import relative
from fotltn.semantics.config import CRISP, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Names, Tables, Value, evaluate_term, spread
from fotltn.tree import fold

#: Places on the axes that are bound inside a body.
Inner = Mapping[c.Axis, int]


class FactPlace(NamedTuple):
    """A ground atom: a predicate and its place in the table of a trace."""

    predicate: str
    place: int


class LeafTable(NamedTuple):
    """The values of a leaf at a cell, with axes (axes bound inside …, time).

    Args:
        value: degrees.
        truth: in two-valued logic.
        places: for an atom, the places of its facts in the table of its predicate.
    """

    value: Tensor
    truth: Tensor
    places: Tensor | None


@dataclass(frozen=True, eq=False)
class Site:
    """A cell with the data to evaluate it.

    Args:
        cells: the cells of the formula.
        cell: the cell.
        changed: changed degrees of facts of its trace, by predicate and place.

    Raises:
        DataError: there is no such cell.
    """

    cells: Cells
    cell: Cell
    changed: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a cell that does not exist."""
        self.cells.check(self.cell)

    # --- the cell -----------------------------------------------------------------------------

    @cached_property
    def length(self) -> int:
        """The number of points of its trace."""
        return self.cells.tables.length(self.cell.trace)

    @cached_property
    def pattern(self) -> Pattern:
        """The body over tables."""
        return pattern(self.body, self.cells.axes)

    @cached_property
    def body(self) -> c.Formula:
        """The body, with guards that select the points at which entities are present."""
        return relative(self.cells.body, self.cells.tables.presence).value

    @cached_property
    def moves(self) -> dict[c.Core, bool]:
        """Whether each part of the body can have another value at another time."""
        body, tables = self.body, self.cells.tables
        return tables.derived(("moves", body), lambda: _moves(body, tables))

    @cached_property
    def spans(self) -> dict[c.Formula, tuple[int, int]]:
        """The first and last point at which each part is read."""
        return needed(self.body, self.cell.time, self.length)

    @cached_property
    def first(self) -> int:
        """The first point of all tables of leaves."""
        return min(low for low, _ in self.spans.values())

    @cached_property
    def last(self) -> int:
        """Their last point."""
        return max(high for _, high in self.spans.values())

    # --- its leaves ---------------------------------------------------------------------------

    @cached_property
    def leaves(self) -> dict[BodyLeaf, LeafTable]:
        """The tables of all leaves, from the first to the last point that is read.

        Raises:
            DataError: a table is missing.
        """
        return {leaf: self._leaf(leaf) for leaf in self.pattern.leaves}

    def variant(
        self, tables: Mapping[BodyLeaf, Tensor], guards: Mapping[BodyLeaf, Tensor] | None = None
    ) -> Tables:
        """The tables that the pattern is evaluated on.

        Args:
            tables: the values of its leaves, with axes (axes bound inside …, time). With an axis of
                traces before them, the result is a batch of variants of the same cell.
            guards: the truth of leaves in guards; by default, their truth at the cell.
        """
        predicates: dict[str, Tensor] = {}
        for leaf, (value, truth, _) in self.leaves.items():
            here = truth if leaf.predicate is None else value
            guard = here if guards is None else guards[leaf]
            for name, table in ((leaf.name, tables[leaf]), (leaf.guard, guard)):
                variants = table.dim() > len(leaf.axes) + 1
                predicates[name] = table if variants else table.unsqueeze(0)
        points = self.last - self.first + 1
        sizes = {str(at.sort): self.cells.tables.size(a) for a, at in self.pattern.axes.items()}
        batch = max((table.shape[0] for table in predicates.values()), default=1)
        lengths = torch.full((batch,), points, device=self._device)
        return Tables(sizes, lengths, points, predicates)

    def _leaf(self, leaf: BodyLeaf) -> LeafTable:
        node, tables, semantics = leaf.node, self.cells.tables, self.cells.semantics
        match node:
            case c.Atom(predicate, args):
                numbers = [self._numbers(a, leaf.axes, self.first, self.last) for a in args]
                places = self._in_full(self._places(predicate, numbers), leaf.axes)
                return LeafTable(
                    self.degrees(predicate, places), self.truths(predicate, places), places
                )
            case c.Edge(past):
                end = 0 if past else self.length - 1
                truth = torch.arange(self.first, self.last + 1, device=self._device) == end
                return LeafTable(truth.to(tables.dtype), truth, None)
            case c.Equal() | c.Compare():
                graded = replace(STABLE_PRODUCT, equality_scale=semantics.equality_scale)
                degree = evaluate_core(node, self._tables, graded, engine=False)
                holds = evaluate_core(node, self._tables, CRISP)
                value, truth = (
                    self._in_full(self._here(u, leaf.axes, self.first, self.last), leaf.axes)
                    for u in (degree, holds)
                )
                return LeafTable(value, truth, None)
            case _:
                assert_never(node)

    # --- facts --------------------------------------------------------------------------------

    def degrees(self, predicate: str, places: Tensor) -> Tensor:
        """The degrees of facts by their places."""
        degrees = self._looked_up(self.cells.tables, predicate, places)
        for place, degree in self.changed.get(predicate, {}).items():
            degrees = torch.where(places == place, degree, degrees)
        return degrees

    def truths(self, predicate: str, places: Tensor) -> Tensor:
        """The truth of facts by their places, in two-valued logic."""
        truths = self._looked_up(self.cells.boolean, predicate, places) > 0
        limit = self.cells.threshold_of(predicate)
        for place, degree in self.changed.get(predicate, {}).items():
            assert limit is not None, "what is defined cannot be changed"
            truths = torch.where(places == place, degree >= limit, truths)
        return truths

    def _looked_up(self, tables: Tables, predicate: str, places: Tensor) -> Tensor:
        table, dtype = tables.table(predicate), self.cells.tables.dtype
        trace = self.cell.trace if table.shape[0] > 1 else 0
        if isinstance(table, Tensor):
            return table.detach()[trace].take(places).to(dtype)
        keys, values = tables.derived(("facts", predicate), lambda: _sorted(table))
        degrees = torch.full(places.shape, table.default, dtype=dtype, device=values.device)
        if len(keys):
            wanted = places + trace * math.prod(table.shape[1:])
            near = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
            degrees = torch.where(keys[near] == wanted, values[near].to(dtype), degrees)
        return degrees

    def degree(self, fact: FactPlace) -> float:
        """The degree of a fact."""
        return float(self.degrees(fact.predicate, torch.tensor(fact.place, device=self._device)))

    def truth(self, fact: FactPlace) -> bool:
        """The truth of a fact, in two-valued logic."""
        return bool(self.truths(fact.predicate, torch.tensor(fact.place, device=self._device)))

    def fact(self, atom: c.Atom, inner: Inner, time: int) -> FactPlace:
        """The fact that an atom stands for, with axes bound inside at some places."""
        shape = self.cells.tables.table(atom.predicate).shape[1:]
        numbers = [int(self.term(term, inner, time)) for term in atom.args]
        place = np.ravel_multi_index([*numbers, time if shape[-1] > 1 else 0], tuple(shape))
        return FactPlace(atom.predicate, int(place))

    def name(self, fact: FactPlace) -> tuple[str, int | None]:
        """A fact in words, and its time; None if it is static."""
        tables = self.cells.tables
        shape = tuple(tables.table(fact.predicate).shape[1:])
        *numbers, time = map(int, np.unravel_index(fact.place, shape))
        sorts = tables.signature.predicates[fact.predicate].sorts
        called, trace = tables.names.called, self.cell.trace
        shown = ", ".join(called(s, trace, n) for s, n in zip(sorts, numbers, strict=True))
        text = f"{fact.predicate}({shown})" if shown else fact.predicate
        return text, time if shape[-1] > 1 else None

    def over_time(self, fact: FactPlace) -> Tensor:
        """The degrees of a fact's atom at all points of the trace; one only if it is static."""
        times = self.cells.tables.table(fact.predicate).shape[-1]
        start = fact.place - fact.place % times
        stop = start + min(times, self.length)
        return self.degrees(fact.predicate, torch.arange(start, stop, device=self._device))

    def term(self, term: c.Term, inner: Inner, time: int) -> float:
        """The entity or number that a term stands for, with axes bound inside at some places."""
        numbers = self._numbers(term, tuple(inner), time, time)
        at = [n if size > 1 else 0 for n, size in zip(inner.values(), numbers.shape, strict=False)]
        return float(numbers[(*at, 0)])

    # --- the data of one trace and binding ----------------------------------------------------

    @property
    def _device(self) -> torch.device:
        return self.cells.tables.lengths.device

    @cached_property
    def _tables(self) -> Tables:
        """Functions, relations and features of the trace, with the outer variables bound."""
        tables, trace = self.cells.tables, self.cell.trace

        def alone(every: Mapping[str, Tensor]) -> dict[str, Tensor]:
            one = slice(trace, trace + 1)
            return {n: t.detach()[one] if t.shape[0] > 1 else t.detach() for n, t in every.items()}

        bound = zip(self.cells.axes, self.cell.numbers, strict=True)
        return replace(
            tables,
            lengths=tables.lengths[trace : trace + 1],
            predicates={},
            present={},
            names=Names(),
            functions=alone(tables.functions),
            features=alone(tables.features),
            cuts={axis: (number, number + 1) for axis, number in bound},
        )

    def _here(self, value: Value, inner: tuple[c.Axis, ...], first: int, last: int) -> Tensor:
        """A value at this binding and some points, with axes (`inner` …, time)."""
        tensor = spread(value, self.cells.axes + inner)
        tensor = tensor.reshape(tensor.shape[1 + len(self.cells.axes) :])
        return tensor[..., first : last + 1] if tensor.shape[-1] > 1 else tensor

    def _numbers(self, term: c.Term, inner: tuple[c.Axis, ...], first: int, last: int) -> Tensor:
        """The entities (or numbers) that a term stands for, with axes (`inner` …, time)."""
        value = evaluate_term(term, self._tables)
        return self._here(value, inner, first, last)

    def _places(self, predicate: str, numbers: Sequence[Tensor]) -> Tensor:
        """The places of a predicate's facts in the table of a trace, one after another."""
        shape = self.cells.tables.table(predicate).shape[1:]
        times = torch.arange(self.first, self.last + 1, device=self._device)
        if shape[-1] == 1:
            times = torch.zeros(1, dtype=torch.long, device=self._device)
        return _ravelled([*numbers, times], shape)

    def _in_full(self, tensor: Tensor, inner: tuple[c.Axis, ...]) -> Tensor:
        sizes = [self.cells.tables.size(a) for a in inner]
        return tensor.expand(*sizes, tensor.shape[-1])


def _ravelled(numbers: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """The place of each index in a table of a shape."""
    places = numbers[0].long()
    for number, size in zip(numbers[1:], shape[1:], strict=True):
        places = places * size + number.long()
    return places


def _sorted(table: SparseTable) -> tuple[Tensor, Tensor]:
    """The facts of a table by their places over all traces, in order."""
    keys, order = _ravelled(list(table.index), table.shape).sort()
    return keys, table.value.detach()[order]


def _moves(body: c.Formula, tables: Tables) -> dict[c.Core, bool]:
    moves: dict[c.Core, bool] = {}

    def visit(node: c.AnyTerm | c.AnyFormula, below: list[bool]) -> bool:
        match node:
            case c.Atom(name):
                moves[node] = tables.table(name).shape[-1] > 1 or any(below)
            case c.Apply(name):
                moves[node] = tables.function(name).shape[-1] > 1 or any(below)
            case c.Edge() | c.Shift() | c.Aggregate() | c.Until():
                moves[node] = True
            case (
                c.Variable() | c.Constant() | c.Number() | c.Truth() | c.Equal() | c.Compare()
                | c.Not() | c.And() | c.Or() | c.Implies() | c.Quantifier()
            ):  # fmt: skip
                moves[node] = any(below)
            case _:
                assert_never(node)
        return moves[node]

    fold(body, visit)
    return moves
