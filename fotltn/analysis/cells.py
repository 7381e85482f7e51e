"""What is explained: a rule, the data that it is read on, and one cell of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from fotltn.analysis.atoms import Names, binding, called
from fotltn.analysis.error_shares import split
from fotltn.analysis.explain.text import text_of, written
from fotltn.analysis.prefix import Prefix, prefix, rebuild
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedFormula
from fotltn.logic.signature import Signature
from fotltn.semantics.config import Semantics
from fotltn.semantics.interpretation import Tables
from fotltn.syntax.formula import Formula

T = TypeVar("T")

#: How many things a subject keeps before it begins anew.
_KEPT = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Tables with names, and what gives formulas their value on them.

    What is computed for one question and helps with the next is kept here, so make one subject
    and ask it often. The tables must not change.

    Args:
        signature: what formulas may use.
        tables: the degrees of all predicates.
        semantics: what gives formulas their degrees.
        names: gives the name of an entity from its sort, the trace and its number.
        traces: the names of traces; without, they are numbered.
        dtype: the precision of degrees.
        threshold: the degree from which on a fact is true in two-valued logic.

    Raises:
        DataError: the threshold is none.
    """

    signature: Signature
    tables: Tables
    semantics: Semantics
    names: Names
    traces: tuple[str, ...] = ()
    dtype: torch.dtype = torch.float32
    threshold: float = 0.5
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse thresholds that every degree, or none, is above."""
        if not 0 < self.threshold <= 1:
            raise DataError(f"a threshold lies above 0 and at most at 1, not at {self.threshold}")

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under a key; it is made the first time."""
        found: T | None = self._kept.get(key)
        if found is None:
            found = make()
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def trace_name(self, trace: int) -> str:
        """The name of a trace, or its number."""
        return self.traces[trace] if trace < len(self.traces) else str(trace)

    def length(self, trace: int) -> int:
        """The number of points of a trace."""
        return int(self.tables.lengths[trace])

    def entity(self, sort: str, trace: int, number: int) -> str:
        """The name of an entity, or its sort and number."""
        return called(self.names, sort, trace, number)


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula as cells: the ∀ and G that it begins with taken off.

    Args:
        name: the axiom's, or `formula`.
        text: the whole formula.
        whole: the layers, and the body that has a value at each cell.
        free: the variables that nothing binds. A formula that has some is read at all times.
    """

    name: str
    text: str
    whole: Prefix
    free: tuple[c.Axis, ...] = ()

    @property
    def axes(self) -> tuple[c.Axis, ...]:
        """What a binding of a cell has a number for."""
        return self.free + self.whole.axes

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of a binding."""
        return tuple(v for a in self.axes for v in a.name.split(","))

    @property
    def body(self) -> c.Formula:
        """The formula that has a value at each cell."""
        return self.whole.body

    @property
    def formula(self) -> Formula:
        """The whole formula, in the language."""
        return written(rebuild(self.whole.layers, self.body))

    @property
    def timed(self) -> bool:
        """Whether cells are at more points than the first."""
        return self.whole.timed


@dataclass(frozen=True, slots=True)
class Cell:
    """A trace, a place on each axis of a rule, and a time."""

    trace: int
    numbers: tuple[int, ...]
    time: int


def rule_of(formula: CheckedAxiom | CheckedFormula) -> Rule:
    """The rule of an axiom, or of a formula that may have free variables."""
    if isinstance(formula, CheckedAxiom):
        return Rule(formula.name, str(formula.source), prefix(formula.formula))
    whole = prefix(formula.formula)
    if formula.free and not whole.timed:
        whole = prefix(c.Aggregate(True, formula.formula, c.Window(), past=False))
    return Rule("formula", text_of(formula.formula), whole, formula.free)


def shared_rule(axiom: CheckedAxiom, subject: Subject) -> Rule:
    """The rule whose cells are those that an axiom's error is shared among.

    Where the means of ∀ and G differ, its body keeps the layers inside that have no exact shares.
    """
    part, _ = split(axiom.formula, subject.semantics, subject.tables.batch)
    return Rule(axiom.name, str(axiom.source), part)


def find_cell(
    rule: Rule,
    subject: Subject,
    entities: Mapping[str, str],
    time: int = 0,
    trace: str | int = 0,
) -> Cell:
    """The cell of a rule by names.

    Args:
        rule: the rule.
        subject: the data.
        entities: the name of an entity for each variable of the rule.
        time: the time point.
        trace: the name of the trace, or its number.

    Raises:
        DataError: there is no such cell.
    """
    place = _trace(subject, trace)
    if odd := sorted(set(entities) ^ set(rule.variables)):
        wrong = "is not bound" if odd[0] in rule.variables else "is no variable of the rule"
        raise DataError(f"'{odd[0]}' {wrong}; its variables are {listing(rule.variables)}")
    numbers = tuple(_number(axis, subject, entities, place) for axis in rule.axes)
    cell = Cell(place, numbers, time)
    check_cell(rule, subject, cell)
    return cell


def check_cell(rule: Rule, subject: Subject, cell: Cell) -> None:
    """Refuse a cell that does not exist.

    Raises:
        DataError: it does not.
    """
    tables = subject.tables
    _trace(subject, cell.trace)
    if len(cell.numbers) != len(rule.axes):
        wanted = listing(rule.variables)
        raise DataError(f"a cell of this rule binds {wanted}, not {len(cell.numbers)} numbers")
    for axis, number in zip(rule.axes, cell.numbers, strict=True):
        if not 0 <= number < tables.size(axis):
            raise DataError(f"'{axis.name}' has {tables.size(axis)} places, and none is {number}")
    length = subject.length(cell.trace)
    if isinstance(cell.time, bool) or not 0 <= cell.time < length:
        raise DataError(f"the time point {cell.time} does not exist: there are 0 to {length - 1}")


def check_predicates(subject: Subject, names: Collection[str]) -> None:
    """Refuse predicates that do not exist.

    Raises:
        DataError: one does not.
    """
    known = subject.signature.predicates
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {listing(known)}"
            raise DataError(f"no predicate is named '{name}'; {hint}")


def named_binding(rule: Rule, subject: Subject, cell: Cell) -> dict[str, str]:
    """The names of a cell's entities by variable."""
    return binding(
        rule.axes, cell.numbers, cell.trace, subject.signature, subject.tables, subject.names
    )


def _trace(subject: Subject, trace: str | int) -> int:
    if isinstance(trace, int):
        if not 0 <= trace < subject.tables.batch:
            raise DataError(f"there is no trace {trace}: there are 0 to {subject.tables.batch - 1}")
        return trace
    known = [subject.trace_name(i) for i in range(subject.tables.batch)]
    if trace in known:
        return known.index(trace)
    hint = did_you_mean(trace, known) or f"there are {listing(known)}"
    raise DataError(f"no trace is named '{trace}'; {hint}")


def _number(axis: c.Axis, subject: Subject, entities: Mapping[str, str], trace: int) -> int:
    """The place on an axis at which variables are bound to entities of these names."""
    tables = subject.tables
    wanted = tuple(entities[v] for v in axis.name.split(","))
    if axis.relation is None:
        sort = str(axis.sort)
        known = {subject.entity(sort, trace, i): i for i in reversed(range(tables.size(axis)))}
        if wanted[0] in known:
            return known[wanted[0]]
        hint = did_you_mean(wanted[0], known) or f"there are {listing(reversed(known))}"
        raise DataError(f"no entity of sort '{sort}' is named '{wanted[0]}'; {hint}")
    sorts = subject.signature.relations[axis.relation].sorts
    for number, entry in enumerate(tables.relation(axis.relation).tolist()):
        if wanted == tuple(subject.entity(s, trace, i) for s, i in zip(sorts, entry, strict=True)):
            return number
    raise DataError(f"({', '.join(wanted)}) is no tuple of the relation '{axis.relation}'")
