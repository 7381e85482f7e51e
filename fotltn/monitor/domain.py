"""Entities by number, including those that have not come yet.

An entity that comes late has existed all the time, without facts. Its state is known in advance:
each sort has *strangers*, entities without facts, for which everything is computed as for the
others. When an entity comes, it takes over what is known of a stranger. There is a stranger for
each combination of the static predicates with one argument, since an entity that comes may be a
car; and several of them where equality tells entities apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fotltn.logic import core as c

Array = np.ndarray[Any, np.dtype[Any]]
Axes = tuple[c.Axis, ...]

#: Static predicates of a sort beyond which late entities have none of them.
MOST_MARKS = 3


@dataclass(frozen=True, slots=True)
class Stranger:
    """A kind of entity that has not come: its sort, and which static predicates it has."""

    sort: str
    marks: frozenset[str] = frozenset()


@dataclass(slots=True)
class Domain:
    """The numbers of entities: strangers first, then names in the order in which they came.

    Args:
        copies: for each sort that may grow, how many strangers of a kind there are.
        marks: for each such sort, the static predicates with one argument that count.
        names: numbers by name, for each sort.
        relations: tuples of numbers, which paired variables run through.
    """

    copies: Mapping[str, int]
    marks: Mapping[str, tuple[str, ...]]
    names: dict[str, dict[str, int]] = field(default_factory=dict)
    relations: dict[str, Array] = field(default_factory=dict)

    def strangers(self, sort: str) -> int:
        """How many strangers of a sort there are."""
        return self.copies[sort] << len(self.marks[sort]) if sort in self.copies else 0

    def size(self, sort: str) -> int:
        """How many entities of a sort there are, with strangers."""
        return self.strangers(sort) + len(self.names[sort])

    def kinds(self, sort: str) -> list[Stranger]:
        """The kinds of strangers of a sort, in the order of their numbers."""
        if sort not in self.copies:
            return []
        marks = self.marks[sort]
        return [
            Stranger(sort, frozenset(m for i, m in enumerate(marks) if bits >> i & 1))
            for bits in range(1 << len(marks))
        ]

    def stranger(self, kind: Stranger) -> int:
        """The number of the first stranger of a kind."""
        bits = sum(1 << i for i, m in enumerate(self.marks[kind.sort]) if m in kind.marks)
        return bits * self.copies[kind.sort]

    def add(self, sort: str, name: str) -> None:
        """Number an entity, unless it is known."""
        if name not in self.names[sort]:
            self.names[sort][name] = self.size(sort)

    def name(self, sort: str, number: int) -> str:
        """The name of an entity."""
        return list(self.names[sort])[number - self.strangers(sort)]

    # --- axes ---------------------------------------------------------------------------------

    def shape(self, axes: Iterable[c.Axis]) -> tuple[int, ...]:
        """The sizes of axes, with strangers."""
        return tuple(
            self.size(str(a.sort)) if a.relation is None else len(self.relations[a.relation])
            for a in axes
        )

    def present(self, axes: Sequence[c.Axis]) -> Array:
        """Which bindings of axes are of no strangers."""
        present = np.ones(self.shape(axes), dtype=np.bool_)
        for dim, axis in enumerate(axes):
            if axis.sort is not None:
                present[(*[slice(None)] * dim, slice(0, self.strangers(axis.sort)))] = False
        return present

    def named(self, sorts: Iterable[str]) -> tuple[slice, ...]:
        """The part of a table over sorts that is of no strangers."""
        return tuple(slice(self.strangers(sort), None) for sort in sorts)

    def seen(self, sort: str, kinds: Iterable[Stranger] = ()) -> slice | Array:
        """The numbers of those who are there, and of strangers of some kinds."""
        here = self.strangers(sort)
        firsts = [self.stranger(k) for k in kinds if k.sort == sort]
        if not firsts:
            return slice(here, None)
        numbers = [n + i for n in firsts for i in range(self.copies[sort])]
        return np.array([*sorted(numbers), *range(here, self.size(sort))], dtype=np.intp)

    # --- growth -------------------------------------------------------------------------------

    def grown(self, array: Array, axes: Sequence[c.Axis], kind: Stranger) -> Array:
        """An array over entities, with one more of a kind, who is as its stranger was.

        Args:
            array: with a step or trace first, then a dimension for each axis, then any others.
            axes: what the dimensions run over. Those of other sorts stay as they are.
            kind: of the new entity, which is numbered last. It is not added yet.
        """
        dims = [1 + i for i, a in enumerate(axes) if a.sort == kind.sort]
        if not dims:
            return array
        stranger, copies = self.stranger(kind), self.copies[kind.sort]
        larger = array
        for dim in dims:
            larger = np.concatenate([larger, larger.take([stranger], axis=dim)], axis=dim)
        if copies > 1 and len(dims) > 1:
            _untangle(larger, array, dims, range(stranger, stranger + copies))
        return larger


def _untangle(new: Array, old: Array, dims: list[int], twins: range) -> None:
    """Two who are different were two different strangers."""
    last = new.shape[dims[0]] - 1
    for count in range(1, len(dims)):
        for mine in itertools.combinations(dims, count):
            others = [d for d in dims if d not in mine]
            for places in itertools.product(range(last), repeat=len(others)):
                if twins.start not in places:
                    continue
                free = next(t for t in twins if t not in places)
                target: list[Any] = [slice(None)] * new.ndim
                source: list[Any] = [slice(None)] * new.ndim
                for dim, place in zip(others, places, strict=True):
                    target[dim] = source[dim] = place
                for dim in mine:
                    target[dim], source[dim] = last, free
                new[tuple(target)] = old[tuple(source)]


def axes_of(sorts: Iterable[str]) -> Axes:
    """Axes over the entities of sorts, as tables have them."""
    return tuple(c.Axis(sort, sort) for sort in sorts)


def ordered(axes: Iterable[c.Axis]) -> Axes:
    """Axes in an order that does not depend on where they come from."""
    return tuple(sorted(axes, key=lambda axis: (axis.name, repr(axis))))


def aligner(axes: Axes, wanted: Axes) -> Callable[[Array], Array]:
    """What gives arrays with axes (step, axes …) a dimension for each wanted axis, in order."""
    if axes == wanted:
        return lambda array: array
    order = [0, *(1 + axes.index(a) for a in wanted if a in axes)]
    index = (slice(None), *(slice(None) if a in axes else None for a in wanted))
    return lambda array: array.transpose(order)[index]
