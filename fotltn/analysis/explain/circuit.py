"""The truth of a body at a cell as a circuit of facts: and, or, and facts that may be flipped."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from fotltn.algebra.expr import free_axes_of_all
from fotltn.analysis.explain.ground import Fact
from fotltn.analysis.explain.pattern import Leaf
from fotltn.analysis.explain.values import Site
from fotltn.errors import LimitError
from fotltn.logic import core as c

#: The most gates that a circuit has.
MAX_GATES = 60_000

#: The most facts that the body reads.
MAX_FACTS = 2_000_000

FALSE, TRUE = 0, 1  # the numbers of the first two gates


class Gate(NamedTuple):
    """A gate: `all` or any of its inputs, which come before it; or a fact, as it is or negated.

    A fact has no inputs. `fact` is its number, and `sign` says which truth makes the gate true.
    """

    all: bool
    inputs: tuple[int, ...]
    fact: int = -1
    sign: bool = True


@dataclass(slots=True, eq=False)
class Circuit:
    """Gates in order, inputs first; the last of them that matters is `root`.

    Args:
        gates: the first two are false and true.
        facts: what may be flipped.
        truths: their truth.
        price: what one more flip of each costs where as many flips would do: little for degrees
            near the threshold, more for static facts, which all times share.
        root: the gate of the body.
    """

    gates: list[Gate] = field(default_factory=lambda: [Gate(False, ()), Gate(True, ())])
    facts: list[Fact] = field(default_factory=list)
    truths: list[bool] = field(default_factory=list)
    price: list[float] = field(default_factory=list)
    root: int = FALSE


class _Goal(NamedTuple):
    """A part of the body that is to be true, or (`sign` False) false, at a place and time.

    For an until, `low` and `high` are the steps that are left until its window begins and ends,
    and `rest` leaves out that the witness is here.
    """

    node: c.Formula
    inner: tuple[int, ...]
    time: int
    sign: bool
    low: int = -1
    high: int | None = None
    rest: bool = False


class _Builder:
    """Builds the gates of goals, each once, and those below them first."""

    def __init__(self, site: Site, fixed: Collection[str]) -> None:
        self.site, self.fixed = site, fixed
        self.circuit = Circuit()
        body = site.pattern.body
        free = free_axes_of_all(body)
        inner = site.pattern.axes
        self.axes = {
            node: tuple(a for a in inner if a in axes)
            for node, axes in free.items()
            if isinstance(node, c.Formula)
        }
        self.leaves = {leaf.node: _Table(leaf, site) for leaf in site.pattern.leaves}
        self.length = site.cells.tables.length(site.view.trace)
        self.made: dict[_Goal, int] = {}
        self.known: dict[Gate, int] = {}
        self.numbers: dict[Fact, int] = {}

    def build(self, goal: _Goal) -> int:
        """The number of the gate of a goal."""
        stack: list[tuple[_Goal, bool, tuple[_Goal, ...]] | _Goal] = [goal]
        while stack:
            item = stack.pop()
            if isinstance(item, _Goal):
                if item in self.made:
                    continue
                found = self._open(item)
                if isinstance(found, int):
                    self.made[item] = found
                    continue
                stack.append((item, *found))
                stack.extend(found[1])
                continue
            own, every, below = item
            self.made[own] = self._join(every, [self.made[g] for g in below])
        return self.made[goal]

    def _join(self, every: bool, inputs: list[int]) -> int:
        """A gate of inputs, without those that say nothing."""
        ends, plain = (FALSE, TRUE) if every else (TRUE, FALSE)
        kept = tuple(dict.fromkeys(i for i in inputs if i != plain))
        if ends in kept:
            return ends
        if not kept:
            return plain
        return kept[0] if len(kept) == 1 else self._gate(Gate(every, kept))

    def _gate(self, gate: Gate) -> int:
        if gate not in self.known:
            if len(self.circuit.gates) >= MAX_GATES:
                raise LimitError(f"the body has more than {MAX_GATES:,} parts at this cell")
            self.known[gate] = len(self.circuit.gates)
            self.circuit.gates.append(gate)
        return self.known[gate]

    def _fact(self, goal: _Goal) -> int:
        """The gate of a leaf: a fact, or what it is where it cannot be flipped."""
        truth, place, price = self.leaves[goal.node].at(goal.inner, goal.time - self.site.first)
        if not isinstance(goal.node, c.Atom) or goal.node.predicate in self.fixed:
            return TRUE if truth == goal.sign else FALSE
        fact = Fact(goal.node.predicate, place)
        if fact not in self.numbers:
            self.numbers[fact] = len(self.circuit.facts)
            self.circuit.facts.append(fact)
            self.circuit.truths.append(truth)
            self.circuit.price.append(price)
        return self._gate(Gate(False, (), self.numbers[fact], goal.sign))

    def _open(self, goal: _Goal) -> int | tuple[bool, tuple[_Goal, ...]]:
        """The gate of a goal, or whether all or any of some other goals are wanted for it."""
        node, inner, time, sign = goal.node, goal.inner, goal.time, goal.sign
        at = dict(zip(self.axes[node], inner, strict=True))

        def below(part: c.Formula, sign: bool, time: int = time) -> _Goal:
            return _Goal(part, tuple(at[a] for a in self.axes[part]), time, sign)

        match node:
            case c.Truth(value):
                return TRUE if value == sign else FALSE
            case c.Atom() | c.Equal() | c.Compare() | c.Edge():
                return self._fact(goal)
            case c.Not(arg):
                return True, (below(arg, not sign),)
            case c.And(left, right):
                return sign, (below(left, sign), below(right, sign))
            case c.Or(left, right):
                return not sign, (below(left, sign), below(right, sign))
            case c.Implies(left, right):
                return not sign, (below(left, not sign), below(right, sign))
            case c.Shift(arg, steps, past, weak):
                when = time - steps if past else time + steps
                if not 0 <= when < self.length:
                    return TRUE if weak == sign else FALSE
                return True, (below(arg, sign, when),)
            case c.Aggregate(universal, arg, window, past):
                inside = range(window.low, 1 + self._far(window.high, time, past))
                points = [time - s if past else time + s for s in inside]
                return universal == sign, tuple(below(arg, sign, t) for t in points)
            case c.Quantifier():
                return self._quantified(goal, node, at)
            case c.Until():
                return self._until(goal, node, below(node.left, sign), below(node.right, sign))
        raise AssertionError(node)

    def _far(self, high: int | None, time: int, past: bool) -> int:
        """How many steps of a window are inside the trace."""
        end = time if past else self.length - 1 - time
        return end if high is None else min(high, end)

    def _quantified(
        self, goal: _Goal, node: c.Quantifier, at: dict[c.Axis, int]
    ) -> tuple[bool, tuple[_Goal, ...]]:
        """A goal for each binding; one with a guard is a conjunction or implication of its own."""
        body: c.Formula = node.body
        if node.guard is not None:
            body = (c.Implies if node.universal else c.And)(node.guard, node.body)
            self.axes.setdefault(
                body,
                tuple(
                    a
                    for a in self.site.pattern.axes
                    if a in self.axes[node.guard] or a in self.axes[node.body]
                ),
            )
        sizes = [range(self.site.cells.tables.size(a)) for a in node.axes]
        goals = []
        for places in itertools.product(*sizes):
            here = {**at, **dict(zip(node.axes, places, strict=True))}
            own = tuple(here[a] for a in self.axes[body])
            goals.append(_Goal(body, own, goal.time, goal.sign))
        return node.universal == goal.sign, tuple(dict.fromkeys(goals))

    def _until(
        self, goal: _Goal, node: c.Until, left: _Goal, right: _Goal
    ) -> int | tuple[bool, tuple[_Goal, ...]]:
        """`right | left & later`, step by step; before the window begins, `left & later` alone.

        Release is the dual, `right & (left | later)`. After the window, and beyond the trace, an
        until is false and a release true.
        """
        if goal.low < 0:
            return True, (goal._replace(low=node.window.low, high=node.window.high),)
        every = node.dual == goal.sign
        if not 0 <= goal.time < self.length or (goal.high is not None and goal.high < goal.low):
            return TRUE if every else FALSE
        if goal.low > 0 or goal.rest:
            later = goal._replace(
                time=goal.time - 1 if node.past else goal.time + 1,
                low=max(0, goal.low - 1),
                high=None if goal.high is None else goal.high - 1,
                rest=False,
            )
            return not every, (left, later)
        return every, (right, goal._replace(rest=True))


class _Table:
    """The truths, places and prices of a leaf, as lists."""

    def __init__(self, leaf: Leaf, site: Site) -> None:
        own = site.degrees[leaf]
        self.shape = tuple(own.truth.shape)
        self.truths: list[bool] = own.truth.reshape(-1).tolist()
        self.places: list[int] = []
        self.prices: list[float] = []
        if own.places is not None and isinstance(leaf.node, c.Atom):
            static = site.cells.tables.table(leaf.node.predicate).shape[-1] == 1
            doubt = (own.value - site.cells.threshold).abs() + static
            self.places = own.places.reshape(-1).tolist()
            self.prices = doubt.reshape(-1).tolist()

    def at(self, inner: tuple[int, ...], point: int) -> tuple[bool, int, float]:
        """The truth, the place and the price at some places of the axes, and a point."""
        number = 0
        for place, size in zip((*inner, point), self.shape, strict=True):
            number = number * size + (place if size > 1 else 0)
        if not self.places:
            return self.truths[number], -1, 0.0
        return self.truths[number], self.places[number], self.prices[number]


def circuit(site: Site, fixed: Collection[str] = ()) -> Circuit:
    """The circuit of the body at a cell.

    Args:
        site: the tables of the cell.
        fixed: predicates whose facts cannot be flipped.

    Raises:
        LimitError: it would have too many gates.
    """
    if sum(own.truth.numel() for own in site.degrees.values()) > MAX_FACTS:
        raise LimitError(f"the body reads more than {MAX_FACTS:,} facts at this cell")
    builder = _Builder(site, fixed)
    builder.circuit.root = builder.build(_Goal(site.pattern.body, (), site.time, True))
    return builder.circuit
