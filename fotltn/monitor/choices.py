"""Formulas without future operators, compiled to instructions.

The instructions give the truth of a formula for a binding, and the bindings for which it is true.
The truth over the steps of a batch is a number: bit i is the truth at step i.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import compress
from typing import Any, NamedTuple, Protocol, assert_never

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import operands
from fotltn.monitor.domain import Axes
from fotltn.monitor.extents import EVERYTHING, NOTHING, Extent, meet, picker, union
from fotltn.monitor.roster import Key, Roster
from fotltn.tree import children, postorder

_MOST_TERMS = 8  # most terms of a disjunctive form


class Condition:
    """A part of formulas whose truth is looked up: an atom, a quantifier, or a past operator.

    Attributes:
        axes: the axes of its bindings.
        base: the truth for all bindings without a row.
        rows: the truth for the bindings that differ from the base.
        fixed: whether it is the same at all steps.
        plain: whether its rows are the stated facts themselves.
    """

    fixed = False
    plain = False

    def __init__(self, axes: Axes) -> None:
        """Start before the first batch."""
        self.axes = axes
        self.base = 0
        self.rows: dict[Key, int] = {}

    def read(self, roster: Roster) -> None:
        """Read a batch of steps."""

    def forget(self, gone: Callable[[Key], bool]) -> None:
        """Drop the memory of bindings whose entities were forgotten."""


class Lookup(NamedTuple):
    """An instruction for a part of a formula: its kind, what it looks up, which parts it joins."""

    kind: str
    condition: Condition | None = None
    pick: Callable[[Key], Key] | None = None
    read: Callable[[Key, Roster], int] = lambda *_: 0
    args: tuple[int, ...] = ()


class Instructions(Protocol):
    """Anything that makes instructions for the parts of formulas."""

    def op(self, node: c.Formula, axes: Axes, args: list[int]) -> Lookup:
        """Return the instruction for a part, given the places of the parts that it joins."""


class Choice:
    """A compiled formula: its truth for a binding, and the bindings for which it is ever true."""

    def __init__(
        self,
        formula: c.Formula,
        axes: Axes,
        conditions: Instructions,
        *,
        negated: bool = False,
        counted: Axes | None = None,
    ) -> None:
        """Compile a formula in normal form without future operators.

        Args:
            formula: the formula.
            axes: the axes of its bindings.
            conditions: makes the instructions.
            negated: also compile the negation, to find bindings for which the formula is false.
            counted: the axes whose entities must be present; by default, all.
        """
        self.axes = axes
        self._there = (axes, None) if counted is None else (counted, picker(axes, counted))
        self.ops: list[Lookup] = []
        places: dict[c.Core, int] = {}
        self.even = True  # whether all bindings without a row have the same truth
        for node in _opened(formula):
            places[node] = len(self.ops)
            self.ops.append(conditions.op(node, axes, [places[n] for n in _parts(node)]))
            self.even &= self.ops[-1].kind not in ("test", "same")
        self._negated = Choice(nnf(c.Not(formula)), axes, conditions) if negated else None
        self.conditions = {o.condition for o in self.ops if o.condition is not None}
        self.restless = any(o.kind == "test" for o in self.ops)
        self.terms = self._terms()

    def _terms(self) -> list[list[Lookup]]:
        """Return the formula as a disjunction of lists of literals; empty if there are too many."""
        known: list[list[list[Lookup]]] = []
        for op in self.ops:
            parts = [known[arg] for arg in op.args]
            if op.condition is not None:
                known.append([[op]])
            elif not all(parts) or not parts:
                known.append([])
            elif op.kind == "or":
                terms = [term for part in parts for term in part]
                known.append(terms if len(terms) <= _MOST_TERMS else [])
            elif math.prod(map(len, parts)) > _MOST_TERMS:
                known.append([])
            else:
                ways = itertools.product(*parts)
                known.append([list(itertools.chain.from_iterable(way)) for way in ways])
        return known[-1]

    def at(self, key: Key, roster: Roster, *, rest: bool = False) -> int:
        """Return the truth for a binding; with `rest`, if no temporal fact about it were true."""
        values: list[int] = []
        full = roster.full
        for kind, condition, pick, read, args in self.ops:
            if condition is not None:
                if rest and not condition.fixed:
                    bits = 0
                else:
                    part = key if pick is None else pick(key)
                    bits = condition.rows.get(part, condition.base)
                values.append(bits & full if kind == "is" else ~bits & full)
            elif kind == "and":
                bits = full
                for arg in args:
                    bits &= values[arg]
                values.append(bits)
            elif kind == "or":
                bits = 0
                for arg in args:
                    bits |= values[arg]
                values.append(bits)
            else:
                values.append(read(key, roster))
        return values[-1]

    def base(self, roster: Roster) -> int:
        """Return the truth for a binding without a row."""
        if not self.even:
            return 0
        return self.at((None,) * len(self.axes), roster)

    def rows(self, roster: Roster) -> Mapping[Key, int]:
        """Return the bindings for which the formula is true at a step at which they are present."""
        if len(self.ops) == 1 and self.ops[0].kind == "is":
            (op,) = self.ops
            facts = op.condition
            if facts is not None and facts.plain and facts.axes == self.axes and not facts.fixed:
                return facts.rows
        extent = self.extent(roster)
        if not extent.keys and extent.inside:
            return {}
        keys = extent.every(self.axes, roster)
        if roster.count == 1 and extent.exact and roster.settled:
            return dict.fromkeys(keys, 1)
        rows = {}
        axes, pick = self._there
        for key in keys:
            if bits := self.at(key, roster) & roster.there(axes, pick(key) if pick else key):
                rows[key] = bits
        return rows

    def differing(self, roster: Roster) -> Iterable[Key]:
        """Return the bindings that may differ from the base."""
        base = self.base(roster)
        if self.even and base == 0:
            return self.extent(roster).every(self.axes, roster)
        if self.even and base == roster.full and self._negated is not None:
            return self._negated.extent(roster).every(self.axes, roster)
        return EVERYTHING.every(self.axes, roster)

    def among(self, keys: Set[Key], roster: Roster) -> Set[Key]:
        """Return the bindings among `keys` for which it is true, in a batch of a single step."""
        kind, condition, pick, _, _ = self.ops[-1]
        if len(self.ops) > 1 or condition is None:
            return {key for key in keys if self.at(key, roster)}
        rows, inside = condition.rows, (condition.base == 0) == (kind == "is")
        if not rows:
            return frozenset() if inside else keys
        if pick is None:
            return keys & rows.keys() if inside else keys - rows.keys()
        true = set(compress(keys, map(rows.__contains__, map(pick, keys))))
        return true if inside else keys - true

    def true(self, roster: Roster) -> Set[Key]:
        """Return the bindings for which it is true, in a batch of a single step."""
        keys = self._some_of(True, 1)
        if keys is None or not roster.settled:
            return self.rows(roster).keys()
        return keys

    def extent(self, roster: Roster) -> Extent:
        """Return an extent that has every binding for which the formula is true at some step."""
        single, full = roster.count == 1, roster.full
        if (keys := self._some_of(single, full)) is not None:
            return Extent(self.axes, keys, True, single)
        known: list[Extent] = []
        for kind, condition, _, read, args in self.ops:
            if condition is not None:
                inside = condition.base == (0 if kind == "is" else full)
                if inside or single:
                    known.append(Extent(condition.axes, condition.rows.keys(), inside, single))
                else:
                    known.append(EVERYTHING)
            elif kind == "and":
                known.append(meet([known[arg] for arg in args]))
            elif kind == "or":
                known.append(union([known[arg] for arg in args], roster))
            else:
                never = kind == "constant" and not read((), roster)
                known.append(NOTHING if never else EVERYTHING)
        return known[-1]

    def _some_of(self, single: bool, full: int) -> Set[Key] | None:
        """Return the bindings of all terms, if they are known for each term."""
        if len(self.terms) == 1:
            return _all_of(self.terms[0], single, full)
        every: Set[Key] = frozenset()
        for term in self.terms:
            keys = _all_of(term, single, full)
            if keys is None:
                return None
            every = every | keys if every else keys
        return every if self.terms else None


def _all_of(literals: list[Lookup], single: bool, full: int) -> Set[Key] | None:
    """Return the bindings of a conjunction of literals, if one of them has all axes."""
    keys: Set[Key] | None = None
    others: list[tuple[Callable[[Key], Key] | None, Mapping[Key, int], bool]] = []
    for kind, condition, pick, _, _ in literals:
        rows = condition.rows  # type: ignore[union-attr]
        if condition.base == (0 if kind == "is" else full):  # type: ignore[union-attr]
            if not rows:
                return frozenset()
            if pick is not None:
                others.append((pick, rows, True))
            else:
                keys = rows.keys() if keys is None else keys & rows.keys()
        elif single and rows:
            others.append((pick, rows, False))
    for pick, rows, inside in others if keys else ():
        if pick is None:
            keys = keys - rows.keys()  # type: ignore[operator]
            continue
        true = map(rows.__contains__, map(pick, keys))  # type: ignore[arg-type]
        keys = set(compress(keys, true if inside else map(operator.not_, true)))  # type: ignore[arg-type]
    return keys


def _opened(formula: c.Formula) -> Iterator[c.Formula]:
    """Return the connectives of a formula and their operands, operands first."""
    below: dict[c.Core, None] = {formula: None}
    stack: list[c.Formula] = [formula]
    while stack:
        for part in _parts(stack.pop()):
            if part not in below:
                below[part] = None
                stack.append(part)
    return (n for n in postorder(formula) if n in below)


def _parts(node: c.Formula) -> list[c.Formula]:
    """Return the operands of a connective, through equal connectives directly below it."""
    return operands(node, type(node)) if isinstance(node, c.And | c.Or) else []


# --- atoms that are read for each binding separately -------------------------------------------


def looked_at(formula: c.Formula, axes: Axes, sign: str) -> Lookup:
    """Return the instruction for an atom with functions, an equation, or a comparison."""
    terms = [_term(t, axes) for t in children(formula)]  # type: ignore[arg-type]
    moves = any(isinstance(n, c.Apply) for n in postorder(formula))

    def at(key: Key, roster: Roster, step: int) -> bool:
        values = [term(key, roster, step) for term in terms]
        if isinstance(formula, c.Equal):
            return bool(values[0] == values[1])
        assert isinstance(formula, c.Compare)
        return bool(_COMPARE[formula.op](*values))

    def read(key: Key, roster: Roster) -> int:
        bits = 0
        if isinstance(formula, c.Atom):
            rows = roster.facts[formula.predicate]
            for step in range(roster.count):
                args = tuple(t(key, roster, step) for t in terms)
                bits |= rows.get(args, 0) & 1 << step
        elif not moves:
            bits = roster.full if at(key, roster, 0) else 0
        else:
            bits = sum(1 << step for step in range(roster.count) if at(key, roster, step))
        return bits if sign == "is" else bits ^ roster.full

    return Lookup("test" if moves else "same", read=read)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _term(term: c.Term, axes: Axes) -> Callable[[Key, Roster, int], Any]:
    """Return a function that gives the name or number of a term for a binding at a step."""
    places: list[tuple[c.AnyTerm, list[int]]] = []
    numbers: dict[c.Core, int] = {}
    for node in postorder(term):
        numbers[node] = len(places)
        assert isinstance(node, c.AnyTerm)
        below = [child for child in children(node) if isinstance(child, c.Term)]
        places.append((node, [numbers[child] for child in below]))

    def read(key: Key, roster: Roster, step: int) -> Any:
        values: list[Any] = []
        for node, args in places:
            match node:
                case c.Variable(axis, _, column):
                    place = key[axes.index(axis)]
                    values.append(place if column is None else place[column])
                case c.Constant(value) | c.Number(value):
                    values.append(value)
                case c.Apply(name):
                    values.append(roster.value(name, tuple(values[i] for i in args), step))
                case never:
                    assert_never(never)
        return values[-1]

    return read


class Sleepers:
    """Bindings that wait for facts, indexed by the facts that may come."""

    def __init__(self, choices: Iterable[Choice], axes: tuple[object, ...]) -> None:
        """Start empty; the facts that may come are those that some formulas look up."""
        conditions = {one for choice in choices for one in choice.conditions if not one.fixed}
        self.index: list[tuple[Condition, Callable[[Key], Key] | None, dict[Key, set[Key]]]] = [
            (condition, picker(axes, condition.axes), {})  # type: ignore[arg-type]
            for condition in conditions
        ]
        self.restless = any(choice.restless for choice in choices)

    def add(self, key: Key) -> None:
        """Let a binding wait."""
        for _, pick, index in self.index:
            index.setdefault(pick(key) if pick else key, set()).add(key)

    def discard(self, key: Key) -> None:
        """Let a binding wait no longer."""
        for _, pick, index in self.index:
            part = pick(key) if pick else key
            index[part].discard(key)
            if not index[part]:
                del index[part]

    def woken(self, every: Collection[Key]) -> set[Key]:
        """Return the waiting bindings about which this batch states a fact."""
        if self.restless or any(condition.base for condition, _, _ in self.index):
            return set(every)
        woken: set[Key] = set()
        for condition, _, index in self.index:
            rows = condition.rows
            few, many = (index, rows) if len(index) < len(rows) else (rows, index)
            for part in few:
                if part in many:
                    woken |= index[part]
        return woken
