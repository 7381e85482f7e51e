"""Tables: the data that formulas are evaluated on, with the names of traces and entities."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, assert_never

import torch
from torch import Tensor

from fotltn.arguments import public
from fotltn.errors import DataError, name_hint
from fotltn.logic import core as c
from fotltn.logic.check import CheckedFormula
from fotltn.logic.presence import EVERYONE, Presence, presence_of
from fotltn.logic.signature import Signature
from fotltn.semantics.sparse import SparseTable
from fotltn.syntax.theory import FunctionDecl, PredicateDecl, RelationDecl
from fotltn.tree import fold

T = TypeVar("T")


#: Predicates that no theory can name: an entity is present, or its trace has it.
_HERE, _KNOWN = "present ", "known "


class TimeNames(Protocol):
    """Maps time points to dates or times of day."""

    def text(self, step: int, trace: str) -> str:
        """Return the date or time at which a step of a trace begins, as text."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of traces and entities; unnamed ones have only numbers.

    Args:
        traces: the names of traces, by number.
        entities: for each sort that all traces share, the names of entities by number.
        local: for each sort whose entities belong to one trace, their names by trace and number.
        clock: the date or time of each time point of each trace, if known.
        room: for local sorts, the least number of places per trace, because traces elsewhere may
            have more entities.
    """

    traces: tuple[str, ...] = ()
    entities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    local: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    clock: TimeNames | None = None
    room: Mapping[str, int] = field(default_factory=dict)

    def entity(self, sort: str, trace: int, number: int) -> str | None:
        """Return the name of an entity, or None if its trace has no entity with that number."""
        names = self.local[sort][trace] if sort in self.local else self.entities.get(sort)
        if names is None:
            return f"{sort}#{number}"
        return names[number] if 0 <= number < len(names) else None

    def called(self, sort: str, trace: int, number: int) -> str:
        """Return the name of an entity, or its sort and number if it has no name."""
        name = self.entity(sort, trace, number)
        return f"{sort}#{number}" if name is None else name

    def trace(self, number: int) -> str:
        """Return the name of a trace, or its number."""
        return self.traces[number] if number < len(self.traces) else str(number)

    def when(self, trace: int, step: int) -> str | None:
        """Return the date or time of a time point of a trace; None if times are only numbers."""
        return None if self.clock is None else self.clock.text(step, self.trace(trace))

    def sizes(self) -> dict[str, int]:
        """Return the number of entities of each named sort; for local ones, the most in a trace."""
        most = {
            s: max(self.room.get(s, 0), *map(len, names)) if names else self.room.get(s, 0)
            for s, names in self.local.items()
        }
        return {s: len(names) for s, names in self.entities.items()} | most


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """How degrees become true or false; `fotltn.decisions` applies it.

    Args:
        thresholds: for some predicates, the smallest degree that counts as true; 0.5 for the
            others.
        definitions: predicates that follow from the truth of others, each after those it uses. The
            free variables are the arguments, in order; for a static predicate, the first time point
            counts.
        exceptions: facts that are true or false whatever their definition says, by their places in
            the table of the predicate.
    """

    thresholds: Mapping[str, float] = field(default_factory=dict)
    definitions: Mapping[str, CheckedFormula] = field(default_factory=dict)
    exceptions: Mapping[str, Mapping[int, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tables:
    r"""A table for each predicate and function, over traces, entities and time points.

    `fotltn.read` builds them from facts, `fotltn.tables` from tensors, and a model has its
    predictions as tables. Use them to read data once and pass them to every function that
    evaluates, explains or counts formulas.

    Args:
        sizes: the number of entities of each sort.
        lengths: the number of time points of each trace, shape `(trace,)`.
        horizon: the number of time points of the tables, at least the greatest length.
        predicates: degrees, shape `(trace, *arguments, time)`; a trace or time axis of size 1 holds
            for all traces or time points. Tables of facts have the same shape.
        functions: results, of the same shape: entity numbers, or numbers for the sort `real`.
        constants: entity numbers by name, for each sort.
        relations: tuples of entity numbers, shape `(tuple, place)`.
        features: for a sort, the vectors whose distance gives the degree of equality, shape
            `(trace, entity, feature)`. Without vectors, an entity equals only itself.
        cuts: for some axes, the range of places that is visible.
        signature: the declarations of the predicates and functions.
        names: the names of traces and entities.
        present: for sorts whose entities come and go, where they are present, shape
            `(trace, entity, time)`.
        stated: for sorts read from facts, the predicates that state presence. Without any, or with
            static ones alone, the entities of a trace are there from its beginning to its end.
        single: whether there is a single trace, so that values have no trace axis.
        inputs: for each sort with features for networks, their names and values.
        decisions: how degrees become true or false, if they come from a model.
        possible: for predicates with facts that have no label, the table in which these facts are
            true, shape `(trace, *arguments, time)`; in `predicates`, they are false.
        sources: the data that the tables were read from, and how, if known; its facts are labels
            for learning.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> data
    <1 trace, 3 time points; tables of Near, Stop>
    >>> data.predicate("Stop").shape
    torch.Size([1, 3])
    """

    sizes: Mapping[str, int]
    lengths: Tensor
    horizon: int
    predicates: Mapping[str, Tensor | SparseTable]
    functions: Mapping[str, Tensor] = field(default_factory=dict)
    constants: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    relations: Mapping[str, Tensor] = field(default_factory=dict)
    features: Mapping[str, Tensor] = field(default_factory=dict)
    cuts: Mapping[c.Axis, tuple[int, int]] = field(default_factory=dict)
    signature: Signature = field(default_factory=Signature, repr=False)
    names: Names = field(default_factory=Names, repr=False)
    present: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    stated: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    single: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    decisions: Decisions | None = field(default=None, repr=False, compare=False)
    possible: Mapping[str, Tensor | SparseTable] = field(
        default_factory=dict, repr=False, compare=False
    )
    sources: Any = field(default=None, repr=False, compare=False)
    _derived: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        """Return the number of traces, time points and entities, and the names of the tables."""
        traces = "1 trace" if self.batch == 1 else f"{self.batch:,} traces"
        points = "1 time point" if self.horizon == 1 else f"{self.horizon:,} time points"
        sorts = [f"{number:,} of sort '{sort}'" for sort, number in self.sizes.items()]
        symbols = ", ".join([*self.predicates, *self.functions, *self.relations]) or "nothing"
        return f"<{', '.join([traces, points, *sorts])}; tables of {symbols}>"

    @property
    def batch(self) -> int:
        """The number of traces."""
        return self.lengths.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of degrees: that of the first dense table that has one, at least single.

        Without such a table, the precision of the facts; without facts, PyTorch's default.
        """
        tables = self.predicates.values()
        dense = (t for t in tables if isinstance(t, Tensor))
        values = itertools.chain(dense, (t.value for t in tables if isinstance(t, SparseTable)))
        kinds = (v.dtype for v in values if v.is_floating_point())
        first = next(kinds, torch.get_default_dtype())
        return torch.float32 if first in (torch.float16, torch.bfloat16) else first

    def length(self, trace: int) -> int:
        """Return the number of time points of a trace."""
        return int(self.lengths[trace])

    @public
    def numbers(self, sort: str, trace: int) -> Mapping[str, int]:
        """Return the numbers of a sort's entities in a trace by name; the first of equal names."""
        size = self.full_size(c.Axis("", sort=sort))

        def made() -> dict[str, int]:
            return {self.names.called(sort, trace, i): i for i in reversed(range(size))}

        return self.derived(("numbers", sort, trace), made)

    def with_relation(self, declared: RelationDecl, tuples: Tensor) -> Tables:
        """Return the tables with one more relation; values derived from predicates stay.

        Args:
            declared: the name of the relation, and the sorts of its tuples.
            tuples: entity numbers, shape `(tuple, place)`.
        """
        name = declared.name
        signature = replace(self.signature, relations={**self.signature.relations, name: declared})
        more = replace(self, signature=signature, relations={**self.relations, name: tuples})
        for key, value in list(self._derived.items()):
            same = isinstance(value, Tables)
            more._derived[key] = value.with_relation(declared, tuples) if same else value
        return more

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value that depends only on these tables, computed on first use."""
        if key not in self._derived:
            self._derived[key] = make()
        value: T = self._derived[key]
        return value

    def to(self, device: torch.device) -> Tables:
        """Return the tables on a device."""

        def moved(tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: table.to(device) for name, table in tables.items()}

        def of_facts(tables: Mapping[str, Tensor | SparseTable]) -> dict[str, Tensor | SparseTable]:
            return {
                n: t.to(device)
                if isinstance(t, Tensor)
                else replace(t, index=t.index.to(device), value=t.value.to(device))
                for n, t in tables.items()
            }

        return replace(
            self, lengths=self.lengths.to(device), predicates=of_facts(self.predicates),
            possible=of_facts(self.possible), functions=moved(self.functions),
            relations=moved(self.relations), features=moved(self.features),
            present=moved(self.present),
        )  # fmt: skip

    def size(self, axis: c.Axis) -> int:
        """Return the number of visible places on an axis."""
        if axis in self.cuts:
            start, stop = self.cuts[axis]
            return stop - start
        return self.full_size(axis)

    def full_size(self, axis: c.Axis) -> int:
        """Return the number of all places on an axis, visible or not."""
        if axis.relation is not None:
            return self.relation(axis.relation).shape[0]
        assert axis.sort is not None
        if axis.sort not in self.sizes:
            raise DataError(f"the number of entities of the sort '{axis.sort}' is not known")
        return self.sizes[axis.sort]

    def relation(self, name: str) -> Tensor:
        """Return the tuples of a relation, shape `(tuple, place)`."""
        return _lookup("relation", name, self.relations)

    def predicate(self, name: str) -> Tensor:
        """Return the dense table of a predicate, shape `(trace, *arguments, time)`."""
        table = self.table(name)
        return table.dense(table.value.dtype) if isinstance(table, SparseTable) else table

    def table(self, name: str) -> Tensor | SparseTable:
        """Return the table of a predicate: dense, shape `(trace, *arguments, time)`, or facts."""
        added = isinstance(name, str) and name.startswith((_HERE, _KNOWN))
        if added and name not in self.predicates:
            kind, sort = name.split(" ", 1)
            return self._here(sort) if f"{kind} " == _HERE else self._known(sort)
        return _lookup("predicate", name, self.predicates)

    def known(self, name: str) -> Tensor:
        """Return where a predicate is not unknown, shape `(trace, *arguments, time)`."""
        table, most = self.predicate(name), self.possible.get(name, self.predicate(name))
        return table == (most.dense(table.dtype) if isinstance(most, SparseTable) else most)

    @property
    def presence(self) -> Presence:
        """Which entities may be absent; the predicates that say so have tables here, too."""
        if not (self.present or self.names.local):
            return EVERYONE

        def made() -> Presence:
            here = {sort: f"{_HERE}{sort}" for sort in self.present if self._moves(sort)}
            sorts = {*self.names.local, *self.present} - ({*here} - {*self.names.local})
            known = {
                sort: f"{_KNOWN}{sort}"
                for sort in sorts
                if sort in self.sizes and not bool(self._known(sort).all())
            }
            return presence_of(here, self.signature, itertools.chain(*self.stated.values()), known)

        return self.derived("presence", made)

    def _moves(self, sort: str) -> bool:
        """Whether entities of a sort come and go while a trace lasts."""
        known = self.signature.predicates
        return sort not in self.stated or any(not known[n].static for n in self.stated[sort])

    def _here(self, sort: str) -> Tensor:
        """Where entities of a sort are present, shape `(trace, entity, time)`."""
        return _lookup("presence", sort, self.present)

    def _known(self, sort: str) -> Tensor:
        """Which entities of a sort a trace has, shape `(trace, entity, 1)`."""
        size, local = self.sizes[sort], self.names.local.get(sort)
        numbers = (size,) * self.batch if local is None else tuple(map(len, local))
        known = _first_places(numbers, size, self.lengths.device)
        if sort in self.present and not self._moves(sort):
            known = known & self.present[sort].any(-1, keepdim=True)
        return known

    def function(self, name: str) -> Tensor:
        """Return the table of a function, shape `(trace, *arguments, time)`."""
        return _lookup("function", name, self.functions)

    def constant(self, node: c.Constant) -> int:
        """Return the number of a named entity."""
        names = self.constants.get(node.sort, {})
        if node.name not in names:
            hint = name_hint(node.name, names)
            raise DataError(f"no entity of sort '{node.sort}' is named '{node.name}'; {hint}")
        return names[node.name]

    @property
    def times(self) -> Tensor:
        """The time points of the tables, shape `(time,)`."""
        return torch.arange(self.horizon, device=self.lengths.device)

    @property
    def inside(self) -> Tensor:
        """Which time points lie inside each trace, shape `(trace, time)`."""
        return within(self.lengths, self.times)

    def edge(self, past: bool) -> Tensor:
        """Mark the last time point of each trace, or the first if `past`, shape `(trace, time)`."""
        end = torch.zeros_like(self.lengths) if past else self.lengths - 1
        return self.times == end.unsqueeze(-1)

    def everywhere(self, u: Tensor) -> Tensor:
        """Expand a tensor of shape `(trace, …, time)` to all traces and time points."""
        return u.expand(self.batch, *u.shape[1:-1], self.horizon)


def table_shape(tables: Tables, decl: PredicateDecl | FunctionDecl) -> tuple[int, ...]:
    """Return the shape of a symbol's table: (trace, *arguments, time)."""
    sizes = (tables.sizes[s] for s in decl.sorts)
    return (tables.batch, *sizes, 1 if decl.static else tables.horizon)


@lru_cache(maxsize=64)
def _first_places(numbers: tuple[int, ...], size: int, device: torch.device) -> Tensor:
    """Mark the first places of each trace, shape `(trace, size, 1)`."""
    wanted = torch.tensor(numbers, device=device).unsqueeze(-1)
    return (torch.arange(size, device=device) < wanted).unsqueeze(-1)


def _lookup(kind: str, name: str, tables: Mapping[str, T]) -> T:
    if not isinstance(name, str) or name not in tables:
        raise DataError(f"no table was given for the {kind} '{name}'; {name_hint(name, tables)}")
    return tables[name]


def within(lengths: Tensor, times: Tensor, dims: int = 2) -> Tensor:
    """Return a mask of the times inside each trace, with `dims` dimensions (trace, …, time)."""
    inside = (times >= 0) & (times < lengths.unsqueeze(-1))
    return inside.reshape(lengths.shape[0], *[1] * (dims - 2), times.shape[0])


class Value(NamedTuple):
    """A tensor of shape (trace, *axes, time)."""

    axes: tuple[c.Axis, ...]
    tensor: Tensor


def in_order(axes: Iterable[c.Axis]) -> tuple[c.Axis, ...]:
    """Sort axes by name, the order that all values use."""
    return tuple(sorted(axes, key=lambda a: (a.name, a.sort or "", a.relation or "")))


def align(values: Sequence[Value]) -> tuple[tuple[c.Axis, ...], list[Tensor]]:
    """Return all named axes, and the tensors with a dimension for each, of size 1 where missing."""
    first = values[0].axes if values else ()
    if all(value.axes == first for value in values):
        return first, [value.tensor for value in values]
    axes = tuple(dict.fromkeys(axis for value in values for axis in value.axes))
    tensors = []
    for present, tensor in values:
        order = [1 + present.index(axis) for axis in axes if axis in present]
        moved = tensor.permute([0, *order, tensor.dim() - 1])
        sizes = iter(moved.shape[1:-1])
        shape = [next(sizes) if axis in present else 1 for axis in axes]
        tensors.append(moved.reshape(tensor.shape[0], *shape, tensor.shape[-1]))
    return axes, tensors


def spread(value: Value, axes: tuple[c.Axis, ...]) -> Tensor:
    """Return a value with shape (trace, *axes, time), of size 1 where it lacks an axis."""
    present, tensor = value
    order = [0, *(1 + present.index(a) for a in axes if a in present), tensor.dim() - 1]
    tensor = tensor.permute(order)
    for place, axis in enumerate(axes):
        if axis not in present:
            tensor = tensor.unsqueeze(1 + place)
    return tensor


def arranged(value: Value, free: Sequence[c.Axis], tables: Tables, *, static: bool) -> Tensor:
    """Return a value as a table, shape (trace, *free, time), with the free variables in order.

    For a static predicate, the table holds the value at the first time point.
    """
    table = spread(value, tuple(free)).expand(-1, *map(tables.size, free), -1)
    return table[..., :1] if static else table


def every_entity(axes: Sequence[c.Axis], tables: Tables, dtype: torch.dtype) -> list[Value]:
    """Return ones along each axis; aligning a value with them expands it to full size."""
    device = tables.lengths.device
    return [Value((a,), torch.ones(1, tables.size(a), 1, dtype=dtype, device=device)) for a in axes]


def sort_of(term: c.Term) -> str:
    """Return the sort of a term."""
    assert isinstance(term, c.AnyTerm)
    return c.REAL if isinstance(term, c.Number) else term.sort


def evaluate_term(term: c.Term, tables: Tables) -> Value:
    """Return the entity numbers, or numbers, of a term, with its free axes."""

    def visit(node: c.AnyTerm, below: list[Value]) -> Value:
        return term_value(node, below, tables)

    return fold(term, visit)


def term_value(node: c.AnyTerm, below: list[Value], tables: Tables) -> Value:
    """Return the same for a term whose arguments are already evaluated."""
    device = tables.lengths.device
    match node:
        case c.Variable(axis, _, column):
            if column is None:
                numbers = torch.arange(tables.full_size(axis), device=device)
            else:
                assert axis.relation is not None
                numbers = tables.relation(axis.relation)[:, column].to(device)
            if axis in tables.cuts:
                numbers = numbers[slice(*tables.cuts[axis])]
            return Value((axis,), numbers.reshape(1, -1, 1))
        case c.Constant():
            return Value((), torch.tensor(tables.constant(node), device=device).reshape(1, 1))
        case c.Number(value):
            return Value((), torch.full((1, 1), value, dtype=torch.float64, device=device))
        case c.Apply(name):
            return gather(tables.function(name), below)
        case _:
            assert_never(node)


def _is_whole(table: Tensor, args: Sequence[Value]) -> bool:
    """Whether the arguments are distinct variables over all entities, so the table is the value."""
    axes = [axis for value in args for axis in value.axes]
    if table.is_cuda or len(axes) != len(args) or len(set(axes)) < len(axes):
        return False
    return all(
        value.tensor.shape == (1, size, 1)
        and torch.equal(value.tensor.reshape(-1), torch.arange(size))
        for value, size in zip(args, table.shape[1:-1], strict=True)
    )


def gather(table: Tensor, args: Sequence[Value]) -> Value:
    """Look terms up in a table of shape (trace, *arguments, time)."""
    axes, numbers = align(args)
    if _is_whole(table, args):
        return Value(axes, table)
    rank = len(axes) + 2
    batch = torch.arange(table.shape[0], device=table.device).reshape(-1, *[1] * (rank - 1))
    times = torch.arange(table.shape[-1], device=table.device)
    return Value(axes, table[(batch, *(n.to(table.device) for n in numbers), times)])
