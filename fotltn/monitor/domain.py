"""The numbers of entities, including entities that have not come yet.

For a monitor, an entity that comes late has existed from the start, without facts. Its state is
computed in advance: each sort has *strangers*, entities without facts, which are followed like the
others. When an entity comes, it takes over the state of a stranger. There is a stranger for each
combination of the static predicates with one argument, because a late entity may be, for example,
a car. There are several of each kind if equality tells entities apart.
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

#: With more static predicates of a sort than this, late entities may have none of them.
MOST_MARKS = 3


@dataclass(frozen=True, slots=True)
class Stranger:
    """A kind of entity that has not come yet: its sort, and its true static predicates."""

    sort: str
    marks: frozenset[str] = frozenset()


@dataclass(slots=True)
class Domain:
    """The numbers of entities: strangers first, then names in the order in which they came.

    Args:
        copies: for each sort that may grow, the number of strangers of each kind.
        marks: for each such sort, the static predicates that tell kinds apart.
        names: for each sort, the numbers of entities by name.
        relations: the tuples of numbers that paired variables range over.
    """

    copies: Mapping[str, int]
    marks: Mapping[str, tuple[str, ...]]
    names: dict[str, dict[str, int]] = field(default_factory=dict)
    relations: dict[str, Array] = field(default_factory=dict)

    def strangers(self, sort: str) -> int:
        """Return the number of strangers of a sort."""
        return self.copies[sort] << len(self.marks[sort]) if sort in self.copies else 0

    def size(self, sort: str) -> int:
        """Return the number of entities of a sort, with strangers."""
        return self.strangers(sort) + len(self.names[sort])

    def kinds(self, sort: str) -> list[Stranger]:
        """Return the kinds of strangers of a sort, in the order of their numbers."""
        if sort not in self.copies:
            return []
        marks = self.marks[sort]
        return [
            Stranger(sort, frozenset(m for i, m in enumerate(marks) if bits >> i & 1))
            for bits in range(1 << len(marks))
        ]

    def stranger(self, kind: Stranger) -> int:
        """Return the number of the first stranger of a kind."""
        bits = sum(1 << i for i, m in enumerate(self.marks[kind.sort]) if m in kind.marks)
        return bits * self.copies[kind.sort]

    def add(self, sort: str, name: str) -> None:
        """Give an entity a number, unless it has one."""
        if name not in self.names[sort]:
            self.names[sort][name] = self.size(sort)

    def name(self, sort: str, number: int) -> str:
        """Return the name of an entity."""
        return list(self.names[sort])[number - self.strangers(sort)]

    # --- axes ---------------------------------------------------------------------------------

    def shape(self, axes: Iterable[c.Axis]) -> tuple[int, ...]:
        """Return the sizes of axes, with strangers."""
        return tuple(
            self.size(str(a.sort)) if a.relation is None else len(self.relations[a.relation])
            for a in axes
        )

    def present(self, axes: Sequence[c.Axis]) -> Array:
        """Return which bindings of axes have no stranger."""
        present = np.ones(self.shape(axes), dtype=np.bool_)
        for dim, axis in enumerate(axes):
            if axis.sort is not None:
                present[(*[slice(None)] * dim, slice(0, self.strangers(axis.sort)))] = False
        return present

    def named(self, sorts: Iterable[str]) -> tuple[slice, ...]:
        """Return the index of the part of a table over sorts that has no strangers."""
        return tuple(slice(self.strangers(sort), None) for sort in sorts)

    def seen(self, sort: str, kinds: Iterable[Stranger] = ()) -> slice | Array:
        """Return the numbers of named entities, and of strangers of some kinds."""
        here = self.strangers(sort)
        firsts = [self.stranger(k) for k in kinds if k.sort == sort]
        if not firsts:
            return slice(here, None)
        numbers = [n + i for n in firsts for i in range(self.copies[sort])]
        return np.array([*sorted(numbers), *range(here, self.size(sort))], dtype=np.intp)

    # --- growth -------------------------------------------------------------------------------

    def grown(self, array: Array, axes: Sequence[c.Axis], kind: Stranger) -> Array:
        """Return an array with one more entity, which takes over the values of a stranger.

        Args:
            array: an array with axes (step or trace, axes …, any others …).
            axes: the axes of the array. Axes of other sorts stay as they are.
            kind: the kind of the new entity, which will get the next number.
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
    """Take the values of two different entities from two different strangers."""
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
    """Return axes over the entities of sorts, as tables have them."""
    return tuple(c.Axis(sort, sort) for sort in sorts)


def ordered(axes: Iterable[c.Axis]) -> Axes:
    """Return axes in an order that depends only on the axes themselves."""
    return tuple(sorted(axes, key=lambda axis: (axis.name, repr(axis))))


def aligner(axes: Axes, wanted: Axes) -> Callable[[Array], Array]:
    """Return a function that gives arrays (step, axes …) a dimension for each wanted axis."""
    if axes == wanted:
        return lambda array: array
    order = [0, *(1 + axes.index(a) for a in wanted if a in axes)]
    index = (slice(None), *(slice(None) if a in axes else None for a in wanted))
    return lambda array: array.transpose(order)[index]
