"""Steps to numbers: facts are checked, entities get numbers, and degrees go to their cells."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.cells import NEVER, Columns
from fotltn.monitor.checks import Checked, Checker
from fotltn.monitor.domain import Array, Domain, Kind
from fotltn.monitor.steps import Header, Step, wrong


class Arrival(NamedTuple):
    """An entity that was not there before."""

    name: str
    kind: Kind


def fixed_sorts(signature: Signature, header: Header) -> set[str]:
    """The sorts all of whose entities are named in the first line."""
    if header.closed:
        return set(signature.sorts)
    return {
        sort
        for decl in signature.functions.values()
        if header.default is None or decl.result != c.REAL
        for sort in decl.sorts
    }


class Intake:
    """Checks steps against a signature and numbers what they name.

    Attributes:
        static: tables of static predicates, with a step in front, for all entities.
        functions: tables of static functions, likewise.
        relations: tuples of numbers.
    """

    def __init__(
        self,
        signature: Signature,
        domain: Domain,
        columns: Columns,
        used: Set[str],
        hard: Set[str] = frozenset(),
    ) -> None:
        """Nothing is known but the constants of the domain.

        Args:
            signature: what facts are about.
            domain: who is numbered.
            columns: where degrees go.
            used: the predicates that matter.
            hard: those of guards, whose degrees are 0 or 1.
        """
        self.signature, self.domain, self.columns = signature, domain, columns
        self.used, self.checker = used, Checker(signature, hard)
        self.begun = False
        self.known: dict[tuple[Any, ...], int] = {}
        self.static: dict[str, Array] = {}
        self.functions: dict[str, Array] = {}
        self.relations: dict[str, Array] = {}
        self.default: float | None = None
        self.closed: set[str] = set()
        self.changing = [n for n, f in signature.functions.items() if not f.static]
        self.first: list[tuple[Step, list[Checked]]] = []

    # --- the beginning ------------------------------------------------------------------------

    def header(self, header: Header) -> None:
        """Take in what is known before the first step.

        Raises:
            DataError: something in it does not fit the theory.
        """
        for sort, names in header.entities.items():
            if sort not in self.signature.sorts:
                known = self.signature.sorts
                hint = did_you_mean(sort, known) or f"there are {listing(known)}"
                raise wrong(header, f"unknown sort '{sort}'", ("entities", sort), hint)
            listed = isinstance(names, Sequence) and not isinstance(names, str)
            if not listed or not all(isinstance(n, str) for n in names):
                raise wrong(
                    header, f"the entities of '{sort}' are a list of names", ("entities", sort)
                )
        self.default = header.default
        self.closed = fixed_sorts(self.signature, header)
        checked = self.check(header)
        for item in checked:
            if not self._is_static(item.symbol):
                raise wrong(
                    header, f"'{item.symbol}' changes over time, so it belongs to a step", item.path
                )
        for sort, names in header.entities.items():
            for name in names:
                self._admit(sort, name)
        for item in checked:
            for sort, name in self._mentions(item):
                self._admit(sort, name)
        self.first.append((header, checked))

    def begin(self, step: Step, checked: Sequence[Checked]) -> None:
        """Number everybody in the first step, and make the tables of what is static."""
        self._nobody_new(step, checked)
        for item in checked:
            for sort, name in self._mentions(item):
                self._admit(sort, name)
        self.first.append((step, [i for i in checked if self._is_static(i.symbol)]))
        self._tables()
        self.columns.renew()
        self.begun = True

    def _admit(self, sort: str, name: str) -> None:
        if name not in self.domain.names[sort]:
            self.domain.add(sort, name)

    def _tables(self) -> None:
        signature, domain = self.signature, self.domain
        for name, decl in signature.predicates.items():
            if decl.static:
                shape = (1, *(domain.size(s) for s in decl.sorts))
                self.static[name] = np.zeros(shape)
        for sort, marks in domain.marks.items():
            for kind in domain.kinds(sort):
                first = domain.stranger(kind)
                for mark in marks:
                    value = float(mark in kind.marks)
                    self.static[mark][0, first : first + domain.copies[sort]] = value
        for name, fun in signature.functions.items():
            if fun.static:
                shape = (1, *(domain.size(s) for s in fun.sorts))
                empty = self.default if fun.result == c.REAL else None
                self.functions[name] = np.full(shape, np.nan if empty is None else empty)
        tuples: dict[str, list[list[int]]] = {name: [] for name in signature.relations}
        stated: dict[tuple[str, tuple[str, ...]], Any] = {}
        for step, checked in self.first:
            for item in checked:
                numbers = self._numbers(item)
                if item.symbol in tuples:
                    tuples[item.symbol].append(numbers)
                    continue
                key = (item.symbol, item.args)
                if stated.setdefault(key, item.value) != item.value:
                    raise self._contradiction(step, item, stated[key])
                tables = self.functions if item.symbol in signature.functions else self.static
                tables[item.symbol][(0, *numbers)] = self._result(item)
        for name, rows in tuples.items():
            places = len(signature.relations[name].sorts)
            self.relations[name] = np.array(rows, dtype=np.intp).reshape(-1, places)
        for name, table in self.functions.items():
            self._total(name, table)
            if signature.functions[name].result != c.REAL:
                self.functions[name] = table.astype(np.intp)
        self.first = []

    # --- steps --------------------------------------------------------------------------------

    def cells(self, step: Step) -> dict[int, float] | None:
        """The columns of a step's facts with their degrees, if all of them were seen before."""
        if not self.begun or step.values or self.changing:
            return None
        found: dict[int, float] = {}
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
                if found.setdefault(place, degree) != degree and place != NEVER:
                    return None
        except (TypeError, LookupError):
            return None
        return found

    def check(self, step: Step) -> list[Checked]:
        """The facts and values of a step, as far as they fit the theory.

        Raises:
            DataError: something in it does not.
        """
        found = self.checker.check(step)
        stated: dict[tuple[str, tuple[str, ...]], Any] = {}
        for item in found:
            if item.symbol not in self.signature.relations:
                old = stated.setdefault((item.symbol, item.args), item.value)
                if old != item.value:
                    raise self._contradiction(step, item, old)
        if not isinstance(step, Header):
            self._complete(step, {key for key in stated if key[0] in self.changing})
        return found

    def _complete(self, step: Step, stated: set[tuple[str, tuple[str, ...]]]) -> None:
        """Every function that changes has a value for all arguments."""
        for name in self.changing:
            sorts = self.signature.functions[name].sorts
            if self.default is not None and self.signature.functions[name].result == c.REAL:
                continue
            for args in itertools.product(*(self.domain.names[s] for s in sorts)):
                if (name, args) not in stated:
                    raise wrong(step, f"'{name}' has no value for ({', '.join(args)})", ("values",))

    def arrivals(self, step: Step, checked: Sequence[Checked]) -> list[Arrival]:
        """Who is new in a step.

        Raises:
            DataError: something in it does not fit what is known.
        """
        self._nobody_new(step, checked)
        new: dict[tuple[str, str], set[str]] = {}
        for item in checked:
            for sort, name in self._mentions(item):
                if name not in self.domain.names[sort]:
                    new.setdefault((sort, name), set())
        for item in checked:
            if self._is_static(item.symbol):
                self._late(step, item, new)
        return [Arrival(n, Kind(s, frozenset(marks))) for (s, n), marks in new.items()]

    def _nobody_new(self, step: Step, checked: Sequence[Checked]) -> None:
        """In sorts whose entities are all known, that is."""
        for item in checked:
            for sort, name in self._mentions(item):
                if sort in self.closed and name not in self.domain.names[sort]:
                    raise self._unknown(step, item, sort, name)

    def _late(self, step: Step, item: Checked, new: dict[tuple[str, str], set[str]]) -> None:
        """A static fact after the beginning: one that is known, or a mark of somebody new."""
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
                raise self._contradiction(step, item, value)
            known = item.symbol in self.domain.marks.get(sorts[0], ())
            if len(sorts) == 1 and known and item.value in (0, 1):
                new[fresh[0]] |= {item.symbol} if item.value == 1 else set()
                return
            what = "with a degree" if len(sorts) == 1 and known else "of this kind"
            raise wrong(
                step,
                f"'{item.symbol}' is static: a fact {what} about somebody who comes late would "
                "change the past",
                item.path,
                "name the entity and its static facts in the first line",
            )
        raise wrong(
            step, f"'{item.symbol}' does not change, so it belongs to the first line", item.path
        )

    def admit(self, arrival: Arrival) -> None:
        """Number somebody new, with the tables of what is static."""
        kind = arrival.kind
        for name, table in self.static.items():
            axes = [c.Axis(s, s) for s in self.signature.predicates[name].sorts]
            self.static[name] = self.domain.grown(table, axes, kind, lead=1)
        for name, table in self.functions.items():
            axes = [c.Axis(s, s) for s in self.signature.functions[name].sorts]
            self.functions[name] = self.domain.grown(table, axes, kind, lead=1)
        self.domain.add(kind.sort, arrival.name)
        self.columns.renew()
        self.known = {}

    def place(self, checked: Sequence[Checked]) -> dict[int, float]:
        """The columns of a step's facts with their degrees, once everybody is numbered."""
        found: dict[int, float] = {}
        for item in checked:
            if item.symbol in self.signature.functions:
                continue
            column = NEVER
            if item.symbol in self.columns.first:
                column = self.columns.place(item.symbol, self._numbers(item))
            found[column] = item.value
            if item.value == 1 or column != NEVER:
                self.known[(item.symbol, *item.args)] = column
        return found

    def results(self, checked: Sequence[Checked]) -> dict[str, Array]:
        """The tables of the functions that change, with a step in front."""
        found = {}
        for name in self.changing:
            decl = self.signature.functions[name]
            kind = np.float64 if decl.result == c.REAL else np.intp
            shape = (1, *(self.domain.size(s) for s in decl.sorts))
            found[name] = np.full(shape, self.default or 0, dtype=kind)
        for item in checked:
            if item.symbol in found:
                found[item.symbol][(0, *self._numbers(item))] = self._result(item)
        return found

    # --- names --------------------------------------------------------------------------------

    def _mentions(self, item: Checked) -> list[tuple[str, str]]:
        """The entities that a fact or value names, with their sorts."""
        signature = self.signature
        if item.symbol in signature.functions:
            decl = signature.functions[item.symbol]
            found = list(zip(decl.sorts, item.args, strict=True))
            return found if decl.result == c.REAL else [*found, (decl.result, item.value)]
        paired = item.symbol in signature.relations
        sorts = (signature.relations if paired else signature.predicates)[item.symbol].sorts
        return list(zip(sorts, item.args, strict=True))

    def _numbers(self, item: Checked) -> list[int]:
        mentions = self._mentions(item)[: len(item.args)]
        return [self.domain.names[s][n] for s, n in mentions]

    def _result(self, item: Checked) -> float:
        decl = self.signature.functions.get(item.symbol)
        if decl is None or decl.result == c.REAL:
            return float(item.value)
        return float(self.domain.names[decl.result][item.value])

    def _is_static(self, symbol: str) -> bool:
        signature = self.signature
        if symbol in signature.relations:
            return True
        table: Mapping[str, Any] = (
            signature.functions if symbol in signature.functions else signature.predicates
        )
        return bool(table[symbol].static)

    def _total(self, name: str, table: Array) -> None:
        if np.isnan(table).any():
            sorts = self.signature.functions[name].sorts
            _, *place = np.argwhere(np.isnan(table))[0].tolist()
            names = [self.domain.name(s, n) for s, n in zip(sorts, place, strict=True)]
            raise DataError(
                f"the function '{name}' has no value for ({', '.join(names)}) in the first line"
            )

    def _unknown(self, step: Step, item: Checked, sort: str, name: str) -> DataError:
        names = self.domain.names[sort]
        known = did_you_mean(name, names) or f"there are {listing(names)}"
        reason = "all its entities are named in the first line"
        if any(sort in f.sorts for f in self.signature.functions.values()):
            reason = "functions take it, so its entities are named in the first line"
        where = [n for _, n in self._mentions(item)].index(name) + 1
        return wrong(
            step, f"'{name}' is no entity of sort '{sort}': {reason}", (*item.path, where), known
        )

    def _contradiction(self, step: Step, item: Checked, old: Any) -> DataError:
        shown = ", ".join(item.args)
        return wrong(
            step, f"'{item.symbol}' of ({shown}) is {item.value:g} here, but {old:g} before"
            if not isinstance(item.value, str)
            else f"'{item.symbol}' of ({shown}) has two values",
            item.path,
        )  # fmt: skip
