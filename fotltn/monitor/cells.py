"""The facts of all temporal predicates in one array, with axes (column, step)."""

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

#: The column that belongs to no fact, and is always false.
NEVER = 0


class Columns:
    """The columns of each predicate. Column 0 belongs to none, and is always false."""

    def __init__(self, domain: Domain, signature: Signature, names: Iterable[str]) -> None:
        """Make columns for the temporal predicates among some names."""
        self.domain = domain
        self.sorts = {
            n: signature.predicates[n].sorts for n in names if not signature.predicates[n].static
        }
        self.first: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.width = 1
        self.renew()

    def renew(self) -> None:
        """Lay the columns out again for the present number of entities."""
        self.width = 1
        for name, sorts in self.sorts.items():
            self.first[name] = self.width
            self.shapes[name] = tuple(self.domain.size(s) for s in sorts)
            self.width += math.prod(self.shapes[name])

    def place(self, name: str, numbers: Sequence[int]) -> int:
        """Return the column of a predicate for entities, given by number."""
        place = 0
        for size, number in zip(self.shapes[name], numbers, strict=True):
            place = place * size + number
        return self.first[name] + place

    def laid_out(self, steps: Sequence[Mapping[int, float]]) -> Array:
        """Return an array with axes (column, step) from the stated degrees of each step."""
        counts = [len(cells) for cells in steps]
        columns = np.fromiter(itertools.chain.from_iterable(steps), np.intp, sum(counts))
        stated = itertools.chain.from_iterable(cells.values() for cells in steps)
        degrees = np.zeros((self.width, len(steps)))
        places = np.repeat(np.arange(len(steps)), counts)
        degrees[columns, places] = np.fromiter(stated, np.float64, sum(counts))
        degrees[NEVER] = 0
        return degrees

    def tables(self, cells: Array) -> dict[str, Array]:
        """Return the columns of each predicate as a table with axes (step, arguments …)."""
        tables = {}
        for name, first in self.first.items():
            shape = self.shapes[name]
            columns = cells[first : first + math.prod(shape)]
            tables[name] = np.moveaxis(columns.reshape(*shape, cells.shape[1]), -1, 0)
        return tables


def is_plain(formula: c.Formula) -> bool:
    """Return whether each binding of a letter is one column."""
    return isinstance(formula, c.Atom) and not any(isinstance(a, c.Apply) for a in formula.args)


class Letters:
    """The columns of the letters of all leaves, so that one look-up reads all letters."""

    def __init__(self, columns: Columns) -> None:
        """Start without leaves."""
        self.columns, self.domain = columns, columns.domain
        self.blocks: list[Array] = []

    def renew(self, leaves: Iterable[tuple[Skeleton, Axes, Array]]) -> None:
        """Find the columns of all letters.

        Letters that are computed, not stated, get columns after all others.

        Args:
            leaves: for each leaf, its skeleton, its axes, and a mask of the bindings to read.
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
        """Return the letters of each step as bits of a number, with axes (step, binding).

        Args:
            cells: truth values with axes (column, step).
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
        """Return the column of an atom for each binding."""
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
