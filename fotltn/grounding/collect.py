"""Collects rows, numbers for names, and errors while tables are read."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import Diagnostic
from fotltn.grounding.cells import Floats, Ints, encode
from fotltn.grounding.read import TablePlace
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Names

#: The trace number of a fact that names no trace.
EVERY = -1

_SHOWN_ERRORS = 20

#: How to fill a feature that has no value: raise an error, or use the mean of the training data, 0,
#: or the last value.
Missing = Literal["error", "mean", "zero", "last"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The facts of one symbol, with trace and entity numbers; `time` is -1 for static facts."""

    trace: Ints
    args: Ints
    time: Ints
    value: Floats

    def take(self, index: Ints) -> Rows:
        """Return the rows at these positions, in this order."""
        return Rows(self.trace[index], self.args[index], self.time[index], self.value[index])

    def in_every_trace(self, traces: int) -> tuple[Rows, Ints]:
        """Repeat rows without a trace once per trace; also return each row's original position."""
        every = self.trace == EVERY
        index = np.repeat(np.arange(len(every)), np.where(every, traces, 1))
        trace = self.trace[index]
        trace[trace == EVERY] = np.tile(np.arange(traces), int(every.sum()))
        return replace(self.take(index), trace=trace), index


class SymbolKind(StrEnum):
    """The kind of symbol that rows are about."""

    PREDICATE = "predicate"
    FUNCTION = "function"
    RELATION = "relation"
    FEATURE = "feature"
    EXISTENCE = "existence"


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a symbol requires of its rows.

    Args:
        name: the name used in messages.
        kind: the kind of symbol.
        sorts: the sorts of the arguments.
        static: whether rows have no time.
        result: the sort that a function returns.
        categories: the words of a text feature; values are positions in this tuple.
        missing: how to fill the feature where it has no value.
    """

    name: str
    kind: SymbolKind
    sorts: tuple[str, ...]
    static: bool
    result: str = REAL
    categories: tuple[str, ...] | None = None
    missing: Missing = "error"

    @property
    def numeric(self) -> bool:
        """Whether values are numbers rather than entities or categories."""
        return self.result == REAL and self.categories is None

    @property
    def mentions(self) -> tuple[str, ...]:
        """The sorts of all entities in a row."""
        return self.sorts if self.result == REAL else (*self.sorts, self.result)


class SourceRows(NamedTuple):
    """The rows of one symbol from one table, with their row numbers there."""

    rows: Rows
    place: TablePlace
    numbers: Ints


@dataclass(slots=True)
class NameNumbers:
    """Numbers names in the order in which they first appear."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """Return the number of a name, adding the name if it is new."""
        return self.numbers.setdefault(name, len(self.numbers))

    def encode(self, column: pa.ChunkedArray) -> Ints:
        """Return the numbers of a column of names."""
        words, codes = encode(column)
        seen = pc.unique(pa.array(codes))  # in order of first appearance
        table = np.zeros(len(words), dtype=np.int64)
        table[seen.to_numpy()] = [self.number(name) for name in words.take(seen).to_pylist()]
        picked: Ints = table[codes]
        return picked


class Collector:
    """Collects rows and errors over several tables.

    A symbol of the signature has its name as key. Features are added to `symbols` under keys that
    no symbol can have. Facts about symbols in `quiet` may be repeated without a warning. `words`
    holds the categories that are taken from the data. `several` is true if the tables hold only
    some of the traces. `testing` is true while tables of test facts are read.
    """

    def __init__(self, signature: Signature, names: Names | None = None) -> None:
        """Start with the symbols of a signature and, if given, names that are already numbered."""
        self.signature = signature
        self.several = names is not None
        self.count = 0
        self.traces = NameNumbers()
        self.entities = {sort: NameNumbers() for sort in signature.sorts}
        if names is not None:
            self.traces.numbers = {name: i for i, name in enumerate(names.traces)}
            for sort, of in names.entities.items():
                self.entities[sort].numbers = {name: i for i, name in enumerate(of)}
        self.parts: dict[str, list[SourceRows]] = {}
        self.testing = False
        self.for_tests: dict[str, list[bool]] = {}
        self.quiet: set[str] = set()
        self.words: dict[str, NameNumbers] = {}
        self.symbols: dict[str, Symbol] = {
            **{
                n: Symbol(n, SymbolKind.PREDICATE, d.sorts, d.static)
                for n, d in signature.predicates.items()
            },
            **{
                n: Symbol(n, SymbolKind.FUNCTION, d.sorts, d.static, d.result)
                for n, d in signature.functions.items()
            },
            **{
                n: Symbol(n, SymbolKind.RELATION, d.sorts, True)
                for n, d in signature.relations.items()
            },
        }
        self._errors: list[tuple[int, int, int, Diagnostic]] = []
        self._tables: dict[str, int] = {}
        self._told: set[tuple[str, int]] = set()

    def complain(
        self, place: TablePlace | None, row: int | None, message: str, hint: str | None = None
    ) -> None:
        """Record an error at a row, in a table, or without a place; only the first few are kept."""
        self.count += 1
        table = len(self._tables)
        if place is not None:
            message = f"{place.at(row)}: {message}"
            table = self._tables.setdefault(place.name, table)
        key = (-table, -(row or 0), -self.count)
        heapq.heappush(self._errors, (*key, Diagnostic(message, hint=hint)))
        if len(self._errors) > _SHOWN_ERRORS:
            heapq.heappop(self._errors)

    def complain_once(self, place: TablePlace, row: int, message: str) -> None:
        """Record an error that several facts of one row may share."""
        if (place.name, row) not in self._told:
            self._told.add((place.name, row))
            self.complain(place, row, message)

    def begin(self, place: TablePlace) -> None:
        """Register a table, so that errors are listed in the order in which tables were read."""
        self._tables.setdefault(place.name, len(self._tables))

    def add(self, key: str, part: SourceRows) -> None:
        """Add rows of a symbol."""
        self.parts.setdefault(key, []).append(part)
        self.for_tests.setdefault(key, []).append(self.testing)

    def shown(self) -> list[Diagnostic]:
        """Return the first errors in the order of tables and rows, and a count of the others."""
        ordered = [d for *_, d in sorted(self._errors, key=lambda e: e[:3], reverse=True)]
        if self.count > _SHOWN_ERRORS:
            more = self.count - _SHOWN_ERRORS
            return [*ordered, Diagnostic(f"{more} more errors are not shown")]
        return ordered
