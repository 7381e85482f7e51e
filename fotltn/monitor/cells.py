"""The tables of all temporal predicates, one after the other: a column per cell, over steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import numpy as np

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.compile import Skeleton
from fotltn.monitor.domain import Array, Axes, Domain

#: The column that is always false.
NEVER = 0


class Columns:
    """Where the cells of a predicate are. Column 0 belongs to none, and is false."""

    def __init__(self, domain: Domain, signature: Signature, names: Iterable[str]) -> None:
        """Columns for the temporal ones of some predicates."""
        self.domain = domain
        self.sorts = {
            n: signature.predicates[n].sorts for n in names if not signature.predicates[n].static
        }
        self.first: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.width = 1
        self.renew()

    def renew(self) -> None:
        """Lay the columns out for as many entities as there are."""
        self.width = 1
        for name, sorts in self.sorts.items():
            self.first[name] = self.width
            self.shapes[name] = tuple(self.domain.size(s) for s in sorts)
            self.width += math.prod(self.shapes[name])

    def place(self, name: str, numbers: Sequence[int]) -> int:
        """The column of a predicate of entities."""
        place = 0
        for size, number in zip(self.shapes[name], numbers, strict=True):
            place = place * size + number
        return self.first[name] + place

    def laid_out(self, steps: Sequence[Mapping[int, float]]) -> Array:
        """The degrees of steps, with axes (column, step), from those that are stated of each."""
        counts = [len(cells) for cells in steps]
        columns = np.fromiter(itertools.chain.from_iterable(steps), np.intp, sum(counts))
        stated = itertools.chain.from_iterable(cells.values() for cells in steps)
        degrees = np.zeros((self.width, len(steps)))
        places = np.repeat(np.arange(len(steps)), counts)
        degrees[columns, places] = np.fromiter(stated, np.float64, sum(counts))
        degrees[NEVER] = 0
        return degrees

    def tables(self, cells: Array) -> dict[str, Array]:
        """The cells of each predicate, as a table with axes (step, arguments …)."""
        tables = {}
        for name, first in self.first.items():
            shape = self.shapes[name]
            columns = cells[first : first + math.prod(shape)]
            tables[name] = np.moveaxis(columns.reshape(*shape, cells.shape[1]), -1, 0)
        return tables


def is_plain(formula: c.Formula) -> bool:
    """Whether a letter is a cell of a table, for each binding."""
    return isinstance(formula, c.Atom) and not any(isinstance(a, c.Apply) for a in formula.args)


class Letters:
    """Which columns the letters of many leaves are in, so that one look-up gives them all."""

    def __init__(self, columns: Columns) -> None:
        """No leaves yet."""
        self.columns, self.domain = columns, columns.domain
        self.blocks: list[Array] = []

    def renew(self, leaves: Iterable[tuple[Skeleton, Axes, Array]]) -> None:
        """Find the columns of all letters; those of letters that are no cells come last.

        Of each leaf, some bindings are chosen; the letters of others are not read.
        """
        self.blocks = []
        end = self.columns.width
        for bones, axes, chosen in leaves:
            bindings = math.prod(self.domain.shape(axes))
            columns = np.zeros((len(bones.letters), bindings), dtype=np.intp)
            for place, formula in enumerate(bones.letters):
                if is_plain(formula):
                    assert isinstance(formula, c.Atom)
                    columns[place] = self._cells(formula, axes).reshape(-1)
                else:
                    columns[place] = np.arange(end, end + bindings)
                    end += bindings
            self.blocks.append(columns[:, chosen])

    def read(self, cells: Array) -> Array:
        """The letters of each step, as bits of a number, with axes (step, binding).

        Cells are truth values with axes (column, step).
        """
        width = sum(columns.shape[1] for columns in self.blocks)
        most = max((len(columns) for columns in self.blocks), default=0)
        bits = cells.astype(np.min_scalar_type((1 << most) - 1))
        seen = np.zeros((width, cells.shape[1]), dtype=bits.dtype)
        start = 0
        for columns in self.blocks:
            stop = start + columns.shape[1]
            for place, numbers in enumerate(columns):
                seen[start:stop] |= bits[numbers] << place
            start = stop
        return np.ascontiguousarray(seen.T)

    def _cells(self, atom: c.Atom, axes: Axes) -> Array:
        """The column of an atom for each binding."""
        cells = np.zeros(self.domain.shape(axes), dtype=np.intp)
        for size, arg in zip(self.columns.shapes[atom.predicate], atom.args, strict=True):
            numbers: Array
            assert isinstance(arg, c.AnyTerm)
            match arg:
                case c.Variable(axis, _, column):
                    dim = axes.index(axis)
                    numbers = np.arange(cells.shape[dim])
                    if column is not None and axis.relation is not None:
                        numbers = self.domain.relations[axis.relation][:, column]
                    numbers = numbers.reshape([-1 if i == dim else 1 for i in range(len(axes))])
                case c.Constant(name, sort):
                    numbers = np.array(self.domain.names[sort][name])
                case c.Number() | c.Apply():
                    raise AssertionError(arg)  # not plain
                case never:
                    assert_never(never)
            cells = cells * size + numbers
        return cells + self.columns.first[atom.predicate]
