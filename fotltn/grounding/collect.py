"""What is collected while tables are read: rows by symbol, numbers for names, and complaints."""

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

#: The trace of a fact that names none.
EVERY = -1

_SHOWN_ERRORS = 20

#: What a feature is where it has no value: an error, the mean of what training has, 0, or what it
#: was last.
Missing = Literal["error", "mean", "zero", "last"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The facts of one symbol, as entity and trace numbers; `time` is -1 where static."""

    trace: Ints
    args: Ints
    time: Ints
    value: Floats

    def take(self, index: Ints) -> Rows:
        """The rows of some numbers, in their order."""
        return Rows(self.trace[index], self.args[index], self.time[index], self.value[index])

    def in_every_trace(self, traces: int) -> tuple[Rows, Ints]:
        """Rows that name no trace once for each, and for each row its number here."""
        every = self.trace == EVERY
        index = np.repeat(np.arange(len(every)), np.where(every, traces, 1))
        trace = self.trace[index]
        trace[trace == EVERY] = np.tile(np.arange(traces), int(every.sum()))
        return replace(self.take(index), trace=trace), index


class SymbolKind(StrEnum):
    """What rows are about."""

    PREDICATE = "predicate"
    FUNCTION = "function"
    RELATION = "relation"
    FEATURE = "feature"
    EXISTENCE = "existence"


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a row must look like.

    Args:
        name: as messages say it.
        kind: what rows are about.
        sorts: of the arguments.
        static: whether rows have no time.
        result: of a function, a sort.
        categories: of a text feature, whose value is one of their numbers.
        missing: what a feature is where it has no value.
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
        """Whether values are numbers, not entities or categories."""
        return self.result == REAL and self.categories is None

    @property
    def mentions(self) -> tuple[str, ...]:
        """The sorts of all entities in a row."""
        return self.sorts if self.result == REAL else (*self.sorts, self.result)


class SourceRows(NamedTuple):
    """Rows of one symbol from one table, with their numbers there."""

    rows: Rows
    place: TablePlace
    numbers: Ints


@dataclass(slots=True)
class NameNumbers:
    """Numbers for names, in order of first appearance."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name, which may be new."""
        return self.numbers.setdefault(name, len(self.numbers))

    def encode(self, column: pa.ChunkedArray) -> Ints:
        """The numbers of a column of names."""
        words, codes = encode(column)
        seen = pc.unique(pa.array(codes))  # in order of first appearance
        table = np.zeros(len(words), dtype=np.int64)
        table[seen.to_numpy()] = [self.number(name) for name in words.take(seen).to_pylist()]
        picked: Ints = table[codes]
        return picked


class Collector:
    """Collects rows and complaints over several tables.

    Symbols of the signature have their name as key. What else has rows (features) is added to
    `symbols` under a key that no symbol can have. Symbols in `quiet` may well be stated twice.
    `words` are the categories of features whose categories are those that the data have.
    """

    def __init__(self, signature: Signature) -> None:
        """Begin with nothing but the symbols of a signature."""
        self.signature = signature
        self.count = 0
        self.traces = NameNumbers()
        self.entities = {sort: NameNumbers() for sort in signature.sorts}
        self.parts: dict[str, list[SourceRows]] = {}
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
        """Note an error at a row, in a table, or in none; the first few are kept."""
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
        """Note an error that several facts of one row may share."""
        if (place.name, row) not in self._told:
            self._told.add((place.name, row))
            self.complain(place, row, message)

    def begin(self, place: TablePlace) -> None:
        """Errors of this table come after those of tables before it."""
        self._tables.setdefault(place.name, len(self._tables))

    def add(self, key: str, part: SourceRows) -> None:
        """Collect rows of a symbol."""
        self.parts.setdefault(key, []).append(part)

    def shown(self) -> list[Diagnostic]:
        """The first complaints in the order of tables and rows, and how many more there are."""
        ordered = [d for *_, d in sorted(self._errors, key=lambda e: e[:3], reverse=True)]
        if self.count > _SHOWN_ERRORS:
            more = self.count - _SHOWN_ERRORS
            return [*ordered, Diagnostic(f"{more} more errors are not shown")]
        return ordered
