"""Enter steps into a monitor: check facts, number entities, and find columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.cells import NEVER, Columns
from fotltn.monitor.checks import Checked, Checker, contradiction, too_late
from fotltn.monitor.domain import Array, Domain, Stranger, axes_of
from fotltn.monitor.intake import fixed_sorts
from fotltn.monitor.loop import entries_of
from fotltn.monitor.steps import Header, TraceStep, wrong
from fotltn.syntax import theory as th

Stated = tuple[str, tuple[str, ...]]


class Arrival(NamedTuple):
    """An entity that a step names for the first time."""

    name: str
    kind: Stranger


class Numbering:
    """Checks steps against a signature and numbers their entities.

    Attributes:
        static: the tables of static predicates, with axes (step, arguments …) and one step.
        functions: the tables of static functions, with the same axes.
    """

    def __init__(
        self,
        signature: Signature,
        domain: Domain,
        columns: Columns,
        used: Set[str],
        hard: Set[str] = frozenset(),
    ) -> None:
        """Start before the header.

        Args:
            signature: the signature of the theory.
            domain: the numbers of entities; it has the constants.
            columns: the columns of facts.
            used: the predicates that axioms use.
            hard: the predicates of guards, whose degrees must be 0 or 1.
        """
        self.signature, self.domain, self.columns = signature, domain, columns
        self.used, self.checker = used, Checker(signature, hard)
        self.begun = False
        self.known: dict[tuple[Any, ...] | str, int] = {}  # facts, and texts of facts
        self.static: dict[str, Array] = {}
        self.functions: dict[str, Array] = {}
        self.default: float | None = None
        self.closed: set[str] = set()
        self.changing = [n for n, f in signature.functions.items() if not f.static]
        self.first: list[tuple[TraceStep, list[Checked]]] = []

    # --- the beginning ------------------------------------------------------------------------

    def header(self, header: Header) -> None:
        """Enter a header.

        Raises:
            DataError: the header does not fit the theory.
        """
        checked = self.checker.header(header)
        self.default = header.default
        self.closed = fixed_sorts(self.signature, header)
        for sort, names in header.entities.items():
            for name in names:
                self.domain.add(sort, name)
        self._number(checked)
        self.first.append((header, checked))

    def begin(self, step: TraceStep, checked: Sequence[Checked]) -> None:
        """Number the entities of the first step, and make the tables of static symbols."""
        self._nobody_new(step, checked)
        self._number(checked)
        self.first.append((step, [i for i in checked if self.checker.is_static(i.symbol)]))
        self._tables()
        self.columns.renew()
        self.begun = True

    def _number(self, checked: Sequence[Checked]) -> None:
        for item in checked:
            for sort, name in self.checker.mentions(item):
                self.domain.add(sort, name)

    def _tables(self) -> None:
        signature, domain = self.signature, self.domain
        for name, decl in signature.predicates.items():
            if decl.static:
                self.static[name] = np.zeros(self._shape(name))
        for sort, marks in domain.marks.items():
            for kind in domain.kinds(sort):
                first = domain.stranger(kind)
                for mark in marks:
                    value = float(mark in kind.marks)
                    self.static[mark][0, first : first + domain.copies[sort]] = value
        for name, fun in signature.functions.items():
            if fun.static:
                empty = self.default if fun.result == c.REAL else None
                self.functions[name] = np.full(
                    self._shape(name), np.nan if empty is None else empty
                )
        tuples: dict[str, list[list[int]]] = {name: [] for name in signature.relations}
        stated: dict[Stated, Any] = {}
        for step, checked in self.first:
            for item in checked:
                numbers = self._numbers(item)
                if item.symbol in tuples:
                    tuples[item.symbol].append(numbers)
                    continue
                key = (item.symbol, item.args)
                if stated.setdefault(key, item.value) != item.value:
                    raise contradiction(step, item, stated[key])
                tables = self.functions if item.symbol in signature.functions else self.static
                tables[item.symbol][(0, *numbers)] = self._result(item)
        for name, rows in tuples.items():
            places = len(signature.relations[name].sorts)
            domain.relations[name] = np.array(rows, dtype=np.intp).reshape(-1, places)
        for name, table in self.functions.items():
            self._total(name, table)
            if signature.functions[name].result != c.REAL:
                self.functions[name] = table.astype(np.intp)
        self.first = []

    # --- steps --------------------------------------------------------------------------------

    def cells(self, step: TraceStep) -> dict[int, float] | None:
        """Return the degrees of a step's facts by column, if all facts were checked before."""
        if not self.begun or step.values or self.changing:
            return None
        cells: dict[int, float] = {}
        known = self.known
        try:
            for fact in step.facts:
                degree, place = 1.0, known.get(tuple(fact))
                if place is None:
                    degree, place = fact[-1], known.get(tuple(fact[:-1]))
                    if place is None or type(degree) is not float or not 0 <= degree <= 1:
                        return None
                    if fact[0] in self.checker.hard:
                        return None
                if cells.setdefault(place, degree) != degree and place != NEVER:
                    return None
        except (TypeError, LookupError):
            return None
        return cells

    def again(self, text: str) -> dict[int, float] | None:
        """Return the degrees of a line's facts by column, if all are known by their text."""
        if not self.begun or self.changing:
            return None
        entries = entries_of(text, self.known)
        if entries is None:
            return None
        plain, graded, degrees = entries
        cells = dict.fromkeys(plain, 1.0)
        if graded:
            cells.update(zip(graded, degrees, strict=True))
            if self.checker.hard or len(cells) < len(plain) + len(graded):
                return None  # the degrees must be checked
        return cells

    def check(self, step: TraceStep) -> list[Checked]:
        """Return the facts and values of a step.

        Raises:
            DataError: the step does not fit the theory, or lacks a value of a function.
        """
        checked = self.checker.check(step)
        self._complete(step, {(item.symbol, item.args) for item in checked})
        return checked

    def _complete(self, step: TraceStep, stated: set[Stated]) -> None:
        """Refuse a step that lacks a value of a temporal function."""
        for name in self.changing:
            sorts = self.signature.functions[name].sorts
            if self.default is not None and self.signature.functions[name].result == c.REAL:
                continue
            for args in itertools.product(*(self.domain.names[s] for s in sorts)):
                if (name, args) not in stated:
                    raise wrong(step, f"'{name}' has no value for ({', '.join(args)})", ("values",))

    def arrivals(self, step: TraceStep, checked: Sequence[Checked]) -> list[Arrival]:
        """Return the entities that come with a step.

        Raises:
            DataError: the step contradicts earlier steps.
        """
        self._nobody_new(step, checked)
        new: dict[tuple[str, str], set[str]] = {}
        for item in checked:
            for sort, name in self.checker.mentions(item):
                if name not in self.domain.names[sort]:
                    new.setdefault((sort, name), set())
        for item in checked:
            if self.checker.is_static(item.symbol):
                self._late(step, item, new)
        return [Arrival(n, Stranger(s, frozenset(marks))) for (s, n), marks in new.items()]

    def _nobody_new(self, step: TraceStep, checked: Sequence[Checked]) -> None:
        """Refuse new entities of sorts whose entities are all named in the first line."""
        for item in checked:
            for sort, name in self.checker.mentions(item):
                if sort in self.closed and name not in self.domain.names[sort]:
                    raise self.checker.unknown(step, item, sort, name, self.domain.names[sort])

    def _late(self, step: TraceStep, item: Checked, new: dict[tuple[str, str], set[str]]) -> None:
        """Check a static fact after the first step: it must be known, or mark a new entity."""
        signature = self.signature
        if item.symbol in signature.predicates:
            if item.symbol not in self.used:
                return
            sorts = signature.predicates[item.symbol].sorts
            fresh = [(s, n) for s, n in zip(sorts, item.args, strict=True) if (s, n) in new]
            if not fresh:
                value = self.static[item.symbol][(0, *self._numbers(item))]
                if value == self._result(item):
                    return
                raise contradiction(step, item, value)
            known = item.symbol in self.domain.marks.get(sorts[0], ())
            if len(sorts) == 1 and known and item.value in (0, 1):
                new[fresh[0]] |= {item.symbol} if item.value == 1 else set()
                return
            what = "with a degree" if len(sorts) == 1 and known else "of this kind"
            raise wrong(
                step,
                f"'{item.symbol}' is static: a fact {what} about an entity that comes late would "
                "change the past",
                item.path,
                "name the entity and its static facts in the first line",
            )
        raise too_late(step, item)

    def admit(self, arrival: Arrival) -> None:
        """Number a new entity, and extend the tables of static symbols."""
        kind = arrival.kind
        for tables in (self.static, self.functions):
            for name, table in tables.items():
                axes = axes_of(self.checker.declared[name].sorts)
                tables[name] = self.domain.grown(table, axes, kind)
        self.domain.add(kind.sort, arrival.name)
        self.columns.renew()
        self.known = {}

    def place(self, checked: Sequence[Checked]) -> dict[int, float]:
        """Return the degrees of a step's facts by column, once all entities have numbers."""
        cells: dict[int, float] = {}
        for item in checked:
            if item.symbol in self.signature.functions:
                continue
            column = NEVER
            if item.symbol in self.columns.first:
                column = self.columns.place(item.symbol, self._numbers(item))
            cells[column] = item.value
            if item.value == 1 or column != NEVER:
                self.known[(item.symbol, *item.args)] = column
        return cells

    def results(self, checked: Sequence[Checked]) -> dict[str, Array]:
        """Return the tables of temporal functions, with axes (step, arguments …) and one step."""
        tables = {}
        for name in self.changing:
            real = self.signature.functions[name].result == c.REAL
            kind = np.float64 if real else np.intp
            tables[name] = np.full(self._shape(name), self.default or 0, dtype=kind)
        for item in checked:
            if item.symbol in tables:
                tables[item.symbol][(0, *self._numbers(item))] = self._result(item)
        return tables

    # --- names --------------------------------------------------------------------------------

    def _shape(self, symbol: str) -> tuple[int, ...]:
        """Return the shape of a symbol's table, with one step in front."""
        return (1, *self.domain.shape(axes_of(self.checker.declared[symbol].sorts)))

    def _numbers(self, item: Checked) -> list[int]:
        sorts = self.checker.declared[item.symbol].sorts
        return [self.domain.names[s][n] for s, n in zip(sorts, item.args, strict=True)]

    def _result(self, item: Checked) -> float:
        decl = self.checker.declared[item.symbol]
        if isinstance(decl, th.FunctionDecl) and decl.result != c.REAL:
            return float(self.domain.names[decl.result][item.value])
        return float(item.value)

    def _total(self, name: str, table: Array) -> None:
        if np.isnan(table).any():
            sorts = self.signature.functions[name].sorts
            _, *place = np.argwhere(np.isnan(table))[0].tolist()
            names = [self.domain.name(s, n) for s, n in zip(sorts, place, strict=True)]
            raise DataError(
                f"the function '{name}' has no value for ({', '.join(names)}) in the first line"
            )
