"""Conditions on the present and the past: their truth over a batch of steps.

The truth over the steps of a batch is a number: bit i is the truth at step i. A condition has one
number for most bindings, its base, and a number for each binding that differs. So its cost depends
on the number of stated facts, not on the number of entities. Formulas are in negation normal form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.logic.parts import free_axes
from fotltn.monitor.choices import Choice, Condition, Lookup, looked_at
from fotltn.monitor.domain import Axes, ordered
from fotltn.monitor.extents import picker
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.since import Memory, before, since
from fotltn.tree import children


class FactCondition(Condition):
    """An atom with variables and constants, whose truth the facts state."""

    def __init__(self, atom: c.Atom, axes: Axes, roster: Roster) -> None:
        """Read the facts of an atom, by the axes of its variables."""
        super().__init__(axes)
        self.predicate, self.args = atom.predicate, atom.args
        self.fixed = atom.predicate in roster.static
        plain = [t.axis for t in atom.args if isinstance(t, c.Variable) and t.column is None]
        self.plain = tuple(plain) == axes and len(plain) == len(atom.args)
        self._changes = -1  # the version of static facts that was read
        if self.plain:
            self.rows = roster.facts[atom.predicate]

    def read(self, roster: Roster) -> None:
        """Read the facts of an atom with constants, pairs or a variable twice."""
        if self.fixed and self._changes == roster.changes:
            return
        self._changes = roster.changes
        facts = roster.facts[self.predicate]
        self.rows = {k: bits for args, bits in facts.items() for k in self._keys(args, roster)}

    def _keys(self, names: Key, roster: Roster) -> Iterable[Key]:
        """Return the bindings for which the atom has these arguments."""
        wanted: dict[c.Axis, dict[int | None, str]] = {axis: {} for axis in self.axes}
        for term, name in zip(self.args, names, strict=True):
            if isinstance(term, c.Constant):
                if term.name != name:
                    return ()
                continue
            assert isinstance(term, c.Variable)
            if wanted[term.axis].setdefault(term.column, name) != name:
                return ()
        return itertools.product(*(roster.matching(a, wanted[a]) for a in self.axes))


class FirstCondition(Condition):
    """`first`: true only at the first step."""

    def read(self, roster: Roster) -> None:
        """Set the first bit in the first batch."""
        self.rows = {(): 1} if roster.start == 0 else {}


class SomeCondition(Condition):
    """`exists`: whether a formula is true for an entity that is present."""

    def __init__(self, axes: Axes, body: Choice) -> None:
        """Quantify over the axes that the body has beyond `axes`."""
        super().__init__(axes)
        self.body, self.part = body, picker(body.axes, axes) or (lambda key: key)

    def read(self, roster: Roster) -> None:
        """Join the bindings of the body that differ only in the quantified axes."""
        rows = self.body.rows(roster)
        if roster.count == 1:
            self.rows = dict.fromkeys(map(self.part, rows), 1)
            return
        self.rows = {}
        for key, bits in rows.items():
            key = self.part(key)
            self.rows[key] = self.rows.get(key, 0) | bits


class PastCondition(Condition):
    """`Y` or `S`, with a memory for each binding, and one for all bindings without facts."""

    def __init__(self, node: c.Shift | c.Until, axes: Axes, operands: list[Choice]) -> None:
        """Start with an empty memory."""
        super().__init__(axes)
        self.node, self.operands = node, operands
        self.others: Memory = (0, 0, 0)
        self.memory: dict[Key, Memory] = {}

    def read(self, roster: Roster) -> None:
        """Update every binding that has a memory or a fact."""
        bases = [operand.base(roster) for operand in self.operands]
        self.base, others = self._next(bases, self.others, roster)
        keys = set(self.memory).union(*(o.differing(roster) for o in self.operands))
        self.rows, memory = {}, {}
        for key in keys:
            known = self.memory.get(key, self.others)
            bits, known = self._next([o.at(key, roster) for o in self.operands], known, roster)
            if bits != self.base:
                self.rows[key] = bits
            if known != others:
                memory[key] = known
        self.memory, self.others = memory, others

    def _next(self, bits: list[int], memory: Memory, roster: Roster) -> tuple[int, Memory]:
        if isinstance(self.node, c.Shift):
            return before(bits[0], self.node.steps, roster.count, memory)
        return since(bits[0], bits[1], self.node.window, roster.count, memory)

    def forget(self, gone: Callable[[Key], bool]) -> None:
        """Drop the memory of bindings whose entities were forgotten."""
        self.memory = {key: known for key, known in self.memory.items() if not gone(key)}


class Conditions:
    """All conditions of a watch, each distinct one once, operands first."""

    def __init__(self, roster: Roster) -> None:
        """Start without conditions; the roster will hold the facts."""
        self.roster = roster
        self.known: dict[c.Formula, Condition] = {}
        self._to_read: list[Condition] = []

    def read(self) -> None:
        """Read a batch of steps."""
        for condition in self._to_read:
            condition.read(self.roster)

    def op(self, node: c.Formula, axes: Axes, args: list[int]) -> Lookup:
        """Return the instruction for a part of a formula."""
        sign, other, formula = "is", "not", node
        if isinstance(node, c.Not):
            sign, other, formula = "not", "is", node.arg
        match c.closed(formula):
            case c.And():
                return Lookup("and", args=tuple(args))
            case c.Or():
                return Lookup("or", args=tuple(args))
            case c.Truth(value):
                true = value == (sign == "is")
                return Lookup("constant", read=lambda _, r: r.full if true else 0)
            case c.Edge(past):
                assert past
                return self._look_up(sign, formula, (), axes)
            case c.Equal() | c.Compare():
                return looked_at(formula, axes, sign)
            case c.Atom(_, terms):
                if any(isinstance(t, c.Apply) for t in terms):
                    return looked_at(formula, axes, sign)
                mine = dict.fromkeys(t.axis for t in terms if isinstance(t, c.Variable))
                return self._look_up(sign, formula, tuple(mine), axes)
            case c.Quantifier(universal, bound, _, body):
                if universal:  # forall a = !exists !a
                    sign = other
                    formula = c.Quantifier(False, bound, None, nnf(c.Not(body)))
                return self._look_up(sign, formula, ordered(free_axes(formula)), axes)
            case c.Shift(arg, steps, past, weak):
                assert past
                if weak:
                    sign = other
                    formula = c.Shift(nnf(c.Not(arg)), steps, True, False)
                return self._look_up(sign, formula, ordered(free_axes(formula)), axes)
            case c.Until(dual, left, right, window, past):
                assert past
                if dual:
                    sign = other
                    a, b = nnf(c.Not(left)), nnf(c.Not(right))
                    formula = c.Until(False, a, b, window, True)
                return self._look_up(sign, formula, ordered(free_axes(formula)), axes)
            case c.Not() | c.Implies() | c.Aggregate():
                raise AssertionError(node)  # not in normal form
            case never:
                assert_never(never)

    def _look_up(self, sign: str, formula: c.Formula, mine: Axes, axes: Axes) -> Lookup:
        condition = self.known.get(formula)
        if condition is None:
            condition = self._condition(formula, mine)
            self.known[formula] = condition
            if not condition.plain:
                self._to_read.append(condition)
        return Lookup(sign, condition, picker(axes, condition.axes))

    def _condition(self, formula: c.Formula, mine: Axes) -> Condition:
        if isinstance(formula, c.Edge):
            return FirstCondition(mine)
        if isinstance(formula, c.Atom):
            return FactCondition(formula, mine, self.roster)
        if isinstance(formula, c.Quantifier):
            axes = (*mine, *formula.axes)
            return SomeCondition(mine, Choice(formula.body, axes, self, counted=formula.axes))
        assert isinstance(formula, c.Shift | c.Until)
        parts = [n for n in children(formula) if isinstance(n, c.Formula)]
        operands = [Choice(n, mine, self, negated=True) for n in parts]
        return PastCondition(formula, mine, operands)
