"""Conditions on the present and the past: their truth over some steps, for bindings that matter.

The truth over the steps of a batch is a number: its bit i is the truth at step i. A condition about
entities has such a number for each binding that differs from the rest, and one for the rest. So it
costs what is stated, not how many entities there are. Formulas are in negation normal form.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, assert_never

from fotltn.algebra.expr import free_axes
from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.monitor.domain import Axes, ordered
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.since import Memory, before, since
from fotltn.tree import children, postorder

#: Bindings that may differ, over some axes.
Support = tuple[Axes, Collection[Key]]


class Condition:
    """What a formula's truth is looked up in: an atom, something about others, or about the past.

    Attributes:
        axes: what its bindings are of.
        base: the truth for all bindings that are not among the rows.
        rows: the truth for those that differ.
        fixed: whether it is the same at all steps.
    """

    fixed = False

    def __init__(self, axes: Axes) -> None:
        """Nothing is read yet."""
        self.axes = axes
        self.base = 0
        self.rows: dict[Key, int] = {}

    def read(self, roster: Roster) -> None:
        """Read a batch of steps."""

    def forget(self, gone: Callable[[Key], bool]) -> None:
        """Forget what is known of bindings that are gone."""


class FactCondition(Condition):
    """An atom of variables and constants: facts as they are stated."""

    def __init__(self, atom: c.Atom, axes: Axes, fixed: bool) -> None:
        """The atom's truth over its variables; `fixed` if it does not change."""
        super().__init__(axes)
        self.predicate, self.args, self.fixed = atom.predicate, atom.args, fixed
        plain = [t.axis for t in atom.args if isinstance(t, c.Variable) and t.column is None]
        self.plain = tuple(plain) == axes and len(plain) == len(atom.args)

    def read(self, roster: Roster) -> None:
        """Find the facts; those of constants and pairs by what is asked for."""
        facts = roster.facts[self.predicate]
        if self.plain:
            self.rows = facts
        elif not self.fixed or len(facts) != len(self.rows):
            self.rows = {k: bits for args, bits in facts.items() for k in self._keys(args, roster)}

    def _keys(self, names: Key, roster: Roster) -> Iterable[Key]:
        """The bindings for which the atom is about these entities."""
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
    """`first`: true at the first step alone."""

    def read(self, roster: Roster) -> None:
        """The first bit of the first batch."""
        self.rows = {(): 1} if roster.start == 0 else {}


class SomeCondition(Condition):
    """`exists`: whether a formula is true of somebody who is there."""

    def __init__(self, axes: Axes, body: Choice) -> None:
        """For somebody a formula is true, which has more axes."""
        super().__init__(axes)
        self.body, self.part = body, picker(body.axes, axes)

    def read(self, roster: Roster) -> None:
        """Join the bindings of the body that differ in somebody alone."""
        self.rows = {}
        for key, bits in self.body.rows(roster).items():
            key = self.part(key)
            self.rows[key] = self.rows.get(key, 0) | bits


class PastCondition(Condition):
    """`Y` or `S`: what is remembered of each binding, and of those of which nothing was stated."""

    def __init__(self, node: c.Shift | c.Until, axes: Axes, operands: list[Choice]) -> None:
        """Nothing is remembered before the first step."""
        super().__init__(axes)
        self.node, self.operands = node, operands
        self.others: Memory = (0, 0, 0)
        self.memory: dict[Key, Memory] = {}

    def read(self, roster: Roster) -> None:
        """Go on with every binding of which something is remembered or stated."""
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
        """Let go of what is remembered of bindings that are gone."""
        self.memory = {key: known for key, known in self.memory.items() if not gone(key)}


class Lookup(NamedTuple):
    """A part of a formula as an instruction: its kind, what it looks up, which parts it joins."""

    kind: str
    condition: Condition | None = None
    pick: Callable[[Key], Key] = lambda key: key
    read: Callable[[Key, Roster], int] = lambda *_: 0
    args: tuple[int, ...] = ()


class Choice:
    """A formula over axes: its truth for a binding, and the bindings for which it is ever true."""

    def __init__(
        self, formula: c.Formula, axes: Axes, conditions: Conditions, *, negated: bool = False
    ) -> None:
        """Compile a formula in normal form without future; its negation, too, where that counts."""
        self.axes = axes
        self.ops: list[Lookup] = []
        places: dict[c.Core, int] = {}
        self.even = True  # whether all bindings without rows are alike
        for node in _opened(formula):
            places[node] = len(self.ops)
            self.ops.append(conditions.op(node, axes, [places[n] for n in _parts(node)]))
            self.even &= self.ops[-1].kind not in ("test", "same")
        self._negated = Choice(nnf(c.Not(formula)), axes, conditions) if negated else None
        self.conditions = {o.condition for o in self.ops if o.condition is not None}
        self.restless = any(o.kind == "test" for o in self.ops)

    def at(self, key: Key, roster: Roster, *, rest: bool = False) -> int:
        """The truth for a binding; with `rest`, if nothing that changes were true of it."""
        values: list[int] = []
        full = roster.full
        for kind, condition, pick, read, args in self.ops:
            if kind == "and":
                values.append(values[args[0]] & values[args[1]])
            elif kind == "or":
                values.append(values[args[0]] | values[args[1]])
            elif condition is None:
                values.append(read(key, roster))
            else:
                bits = 0
                if condition.fixed:
                    bits = condition.rows.get(pick(key), 0) & full
                elif not rest:
                    bits = condition.rows.get(pick(key), condition.base)
                values.append(bits if kind == "is" else bits ^ full)
        return values[-1]

    def base(self, roster: Roster) -> int:
        """The truth for a binding that no row is about."""
        if not self.even:
            return 0
        return self.at((None,) * len(self.axes), roster)

    def rows(self, roster: Roster) -> dict[Key, int]:
        """The bindings for which it is true at some step at which they are there."""
        if len(self.ops) == 1 and self.ops[0].kind == "is":
            (op,) = self.ops
            facts = op.condition
            if isinstance(facts, FactCondition) and facts.axes == self.axes and not facts.fixed:
                return facts.rows
        rows = {}
        for key in self._all(self.support(roster), roster):
            if bits := self.at(key, roster) & roster.there(self.axes, key):
                rows[key] = bits
        return rows

    def differing(self, roster: Roster) -> Iterable[Key]:
        """The bindings that may differ from the base."""
        base = self.base(roster)
        if self.even and base == 0:
            return self._all(self.support(roster), roster)
        if self.even and base == roster.full and self._negated is not None:
            return self._all(self._negated.support(roster), roster)
        return self._all(None, roster)

    def _all(self, support: Support | None, roster: Roster) -> Iterable[Key]:
        axes, keys = support or ((), [()])
        return keys if axes == self.axes else _widened((axes, keys), self.axes, roster)

    def support(self, roster: Roster) -> Support | None:
        """Bindings outside of which it is never true; None if there is no such set."""
        known: list[Support | None] = []
        for kind, condition, _, read, args in self.ops:
            support: Support | None = None
            if kind in ("and", "or"):
                support = _joined(kind, known[args[0]], known[args[1]], roster)
            elif condition is not None:
                if condition.base == (0 if kind == "is" else roster.full):
                    support = condition.axes, condition.rows
            elif kind == "constant" and not read((), roster):
                support = (), ()
            known.append(support)
        return known[-1]


class Conditions:
    """Everything that formulas without future look up, operands first."""

    def __init__(self, fixed: Callable[[c.Core], bool]) -> None:
        """Nothing yet; `fixed` says whether an atom does not change."""
        self.fixed = fixed
        self.known: dict[c.Formula, Condition] = {}

    def read(self, roster: Roster) -> None:
        """Read a batch of steps."""
        for condition in self.known.values():
            condition.read(roster)

    def op(self, node: c.Formula, axes: Axes, args: list[int]) -> Lookup:
        """A part of a formula as an instruction."""
        sign, formula = "is", node
        if isinstance(node, c.Not):
            sign, formula = "not", node.arg
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
                return _test(formula, axes, sign)
            case c.Atom(_, terms):
                if any(isinstance(t, c.Apply) for t in terms):
                    return _test(formula, axes, sign)
                mine = dict.fromkeys(t.axis for t in terms if isinstance(t, c.Variable))
                return self._look_up(sign, formula, tuple(mine), axes)
            case c.Quantifier(universal, bound, _, body):
                if universal:  # not for some that it is not
                    sign = "not" if sign == "is" else "is"
                    formula = c.Quantifier(False, bound, None, nnf(c.Not(body)))
                return self._look_up(sign, formula, ordered(free_axes(formula)), axes)
            case c.Shift(arg, steps, past, weak):
                assert past
                if weak:
                    sign = "not" if sign == "is" else "is"
                    formula = c.Shift(nnf(c.Not(arg)), steps, True, False)
                return self._look_up(sign, formula, ordered(free_axes(formula)), axes)
            case c.Until(dual, left, right, window, past):
                assert past
                if dual:
                    sign = "not" if sign == "is" else "is"
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
        return Lookup(sign, condition, picker(axes, condition.axes))

    def _condition(self, formula: c.Formula, mine: Axes) -> Condition:
        if isinstance(formula, c.Edge):
            return FirstCondition(mine)
        if isinstance(formula, c.Atom):
            return FactCondition(formula, mine, self.fixed(formula))
        if isinstance(formula, c.Quantifier):
            return SomeCondition(mine, Choice(formula.body, (*mine, *formula.axes), self))
        assert isinstance(formula, c.Shift | c.Until)
        parts = [n for n in children(formula) if isinstance(n, c.Formula)]
        operands = [Choice(n, mine, self, negated=True) for n in parts]
        return PastCondition(formula, mine, operands)


def _opened(formula: c.Formula) -> Iterator[c.Formula]:
    """The connectives of a formula and what they join, operands first."""
    below: dict[c.Core, None] = {formula: None}
    stack: list[c.Formula] = [formula]
    while stack:
        for part in _parts(stack.pop()):
            if part not in below:
                below[part] = None
                stack.append(part)
    return (n for n in postorder(formula) if n in below)


def _parts(node: c.Formula) -> tuple[c.Formula, ...]:
    return (node.left, node.right) if isinstance(node, c.And | c.Or) else ()


def picker(axes: Axes, wanted: Axes) -> Callable[[Key], Key]:
    """What gives the part of a binding that is of some of its axes."""
    places = [axes.index(a) for a in wanted]
    if places == list(range(len(axes))):
        return lambda key: key
    if not places:
        return lambda _: ()
    if len(places) == 1:
        (place,) = places
        return lambda key: (key[place],)
    return operator.itemgetter(*places)


def _joined(kind: str, a: Support | None, b: Support | None, roster: Roster) -> Support | None:
    """The support of a conjunction or a disjunction."""
    if a is None or b is None:
        return (a or b) if kind == "and" else None
    (first, left), (second, right) = a, b
    axes = (*first, *(x for x in second if x not in first))
    if kind == "or":
        wide = [_widened(support, axes, roster) for support in (a, b)]
        return axes, {*wide[0], *wide[1]}
    if set(first) == set(second) and len(right) < len(left):
        return _joined(kind, b, a, roster)
    if set(second) <= set(first):
        pick = picker(first, second)
        return axes, [
            key for key in left if pick(key) in right
        ] if second else left if right else []
    if set(first) <= set(second):
        pick, order = picker(second, first), picker(second, axes)
        return axes, [order(key) for key in right if pick(key) in left]
    shared = tuple(x for x in first if x in second)
    rest = tuple(x for x in second if x not in first)
    here, there, more = picker(first, shared), picker(second, shared), picker(second, rest)
    index: dict[Key, list[Key]] = {}
    for key in right:
        index.setdefault(there(key), []).append(more(key))
    return axes, [(*key, *end) for key in left for end in index.get(here(key), ())]


def _widened(support: Support, axes: Axes, roster: Roster) -> Iterable[Key]:
    mine, keys = support
    if not keys:
        return ()
    missing = [a for a in axes if a not in mine]
    order = picker((*mine, *missing), axes)
    more = [list(roster.places(a)) for a in missing]
    return (order((*key, *rest)) for key in keys for rest in itertools.product(*more))


# --- what is asked of each binding by itself ---------------------------------------------------


def _test(formula: c.Formula, axes: Axes, sign: str) -> Lookup:
    """An atom of functions, an equation, or a comparison."""
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
    """The name or number that a term is for a binding at a step."""
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
