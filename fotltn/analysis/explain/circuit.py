"""The truth of a body at a cell as a circuit of facts: and, or, and facts that may be flipped."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

import numpy as np

from fotltn.algebra.expr import free_axes_of_all
from fotltn.analysis.explain.pattern import BodyLeaf, clipped
from fotltn.analysis.explain.site import Fact, Site
from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.span import Span, operands

Array = np.ndarray[Any, Any]

#: The most gates that a circuit has.
MAX_GATES = 60_000

#: The most facts that the body reads.
MAX_FACTS = 2_000_000

FALSE, TRUE = 0, 1  # the numbers of the first two gates


class CircuitGate(NamedTuple):
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

    gates: list[CircuitGate] = field(
        default_factory=lambda: [CircuitGate(False, ()), CircuitGate(True, ())]
    )
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


class _CircuitBuilder:
    """Builds the gates of goals, each once, and those below them first."""

    def __init__(self, site: Site, fixed: Collection[str]) -> None:
        self.site, self.fixed = site, fixed
        self.circuit = Circuit()
        self.axes = {
            node: tuple(a for a in site.pattern.axes if a in axes)
            for node, axes in free_axes_of_all(site.cells.body).items()
            if isinstance(node, c.Formula)
        }
        self.leaves = {leaf.node: _facts(leaf, site) for leaf in site.pattern.leaves}
        self.made: dict[_Goal, int] = {}
        self.known: dict[CircuitGate, int] = {}
        self.numbers: dict[Fact, int] = {}

    def build(self, goal: _Goal) -> int:
        """The number of the gate of a goal."""
        stack: list[tuple[_Goal, tuple[bool, tuple[_Goal, ...]] | None]] = [(goal, None)]
        while stack:
            wanted, opened = stack.pop()
            if wanted in self.made:
                continue
            if opened is not None:
                every, below = opened
                self.made[wanted] = self._join(every, [self.made[part] for part in below])
                continue
            gate = self._open(wanted)
            if isinstance(gate, int):
                self.made[wanted] = gate
            else:
                stack.append((wanted, gate))
                stack.extend((part, None) for part in gate[1])
        return self.made[goal]

    def _join(self, every: bool, inputs: list[int]) -> int:
        """A gate of inputs, without those that say nothing."""
        ends, plain = (FALSE, TRUE) if every else (TRUE, FALSE)
        telling = tuple(dict.fromkeys(i for i in inputs if i != plain))
        if ends in telling:
            return ends
        if not telling:
            return plain
        return telling[0] if len(telling) == 1 else self._gate(CircuitGate(every, telling))

    def _gate(self, gate: CircuitGate) -> int:
        if gate not in self.known:
            if len(self.circuit.gates) >= MAX_GATES:
                raise LimitError(f"the body has more than {MAX_GATES:,} parts at this cell")
            self.known[gate] = len(self.circuit.gates)
            self.circuit.gates.append(gate)
        return self.known[gate]

    def _fact(self, goal: _Goal) -> int:
        """The gate of a leaf: a fact, or what it is where it cannot be flipped."""
        truths, places, prices = self.leaves[goal.node]
        at = (*goal.inner, goal.time - self.site.first)
        at = tuple(i if size > 1 else 0 for i, size in zip(at, truths.shape, strict=True))
        truth = bool(truths[at])
        if not isinstance(goal.node, c.Atom) or goal.node.predicate in self.fixed:
            return TRUE if truth == goal.sign else FALSE
        fact = Fact(goal.node.predicate, int(places[at]))
        if fact not in self.numbers:
            self.numbers[fact] = len(self.circuit.facts)
            self.circuit.facts.append(fact)
            self.circuit.truths.append(truth)
            self.circuit.price.append(float(prices[at]))
        return self._gate(CircuitGate(False, (), self.numbers[fact], goal.sign))

    def _open(self, goal: _Goal) -> int | tuple[bool, tuple[_Goal, ...]]:
        """The gate of a goal, or whether all or any of some other goals are wanted for it."""
        node, time, sign = c.closed(goal.node), goal.time, goal.sign
        at = dict(zip(self.axes[node], goal.inner, strict=True))

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
                if not 0 <= when < self.site.length:
                    return TRUE if weak == sign else FALSE
                return True, (below(arg, sign, when),)
            case c.Aggregate(universal, arg, _, past):
                ((_, span),) = operands(node, Span(time, time))
                first, last = clipped(span, self.site.length)
                points = range(last, first - 1, -1) if past else range(first, last + 1)
                return universal == sign, tuple(below(arg, sign, t) for t in points)
            case c.Quantifier():
                return self._quantified(goal, node, at)
            case c.Until():
                return self._until(goal, node, below(node.left, sign), below(node.right, sign))
            case _:
                assert_never(node)

    def _quantified(
        self, goal: _Goal, node: c.Quantifier, at: dict[c.Axis, int]
    ) -> tuple[bool, tuple[_Goal, ...]]:
        """A goal for each binding; one with a guard is a conjunction or implication of its own."""
        body = node.body
        if node.guard is not None:
            body = (c.Implies if node.universal else c.And)(node.guard, node.body)
            used = {*self.axes[node.guard], *self.axes[node.body]}
            self.axes[body] = tuple(a for a in self.site.pattern.axes if a in used)
        sizes = [range(self.site.cells.tables.size(a)) for a in node.axes]
        goals = []
        for places in itertools.product(*sizes):
            here = {**at, **dict(zip(node.axes, places, strict=True))}
            inner = tuple(here[a] for a in self.axes[body])
            goals.append(_Goal(body, inner, goal.time, goal.sign))
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
        if not 0 <= goal.time < self.site.length or (
            goal.high is not None and goal.high < goal.low
        ):
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


def _facts(leaf: BodyLeaf, site: Site) -> tuple[Array, Array, Array]:
    """The truths of a leaf, and of an atom the places and prices of its facts."""
    value, truth, places = site.leaves[leaf]
    static = leaf.predicate is None or site.cells.tables.table(leaf.predicate).shape[-1] == 1
    prices = (value - site.cells.threshold).abs() + static
    places = truth if places is None else places
    return truth.cpu().numpy(), places.cpu().numpy(), prices.cpu().numpy()


def circuit(site: Site, fixed: Collection[str] = ()) -> Circuit:
    """The circuit of the body at a cell.

    Args:
        site: the cell.
        fixed: predicates whose facts cannot be flipped.

    Raises:
        LimitError: it would have too many gates.
    """
    if sum(table.truth.numel() for table in site.leaves.values()) > MAX_FACTS:
        raise LimitError(f"the body reads more than {MAX_FACTS:,} facts at this cell")
    builder = _CircuitBuilder(site, fixed)
    builder.circuit.root = builder.build(_Goal(site.cells.body, (), site.cell.time, True))
    return builder.circuit
