"""The truth of a body at a cell as a circuit of facts: and, or, and facts that may be flipped."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, assert_never

import numpy as np

from fotltn.analysis.explain.pattern import BodyLeaf, clipped
from fotltn.analysis.explain.site import FactPlace, Site
from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes_of_all
from fotltn.logic.span import TimeSpan, operands

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


class _Goal(NamedTuple):
    """A part of the body that is to be true, or (`sign` False) false, at a place and time."""

    node: c.Formula
    inner: tuple[int, ...]
    time: int
    sign: bool


#: Whether all or any of some goals are wanted.
_Wanted = tuple[bool, tuple[_Goal, ...]]


class Circuit:
    """The gates of a body at a cell, each once, and in order: inputs come first.

    Attributes:
        gates: by number; the first two are false and true.
        facts: the facts that may be flipped.
        truths: their truth.
        price: the price of each flip, which decides between repairs of the same size: little for
            degrees near the threshold, more for static facts, which all times share.
        root: the gate of the body.
    """

    def __init__(
        self, site: Site, fixed: Collection[str] = (), held: Collection[FactPlace] = ()
    ) -> None:
        """Build all gates.

        Args:
            site: the cell.
            fixed: predicates whose facts cannot be flipped.
            held: further facts that cannot be flipped.

        Raises:
            LimitError: it would have too many gates.
        """
        if sum(table.truth.numel() for table in site.leaves.values()) > MAX_FACTS:
            raise LimitError(f"the body reads more than {MAX_FACTS:,} facts at this cell")
        self.truths: list[bool] = []
        self.price: list[float] = []
        self._site, self._held = site, frozenset(held)
        self._fixed = {*fixed, *site.cells.tables.presence.added}  # presence is given
        self._axes = {
            node: tuple(a for a in site.pattern.axes if a in axes)
            for node, axes in free_axes_of_all(site.body).items()
            if isinstance(node, c.Formula)
        }
        self._leaves: dict[c.Formula, tuple[Array, Array, Array]] = {
            leaf.node: _facts(leaf, site) for leaf in site.pattern.leaves
        }
        self._made: dict[_Goal, int] = {}
        self._numbers = {CircuitGate(False, ()): FALSE, CircuitGate(True, ()): TRUE}
        self._facts: dict[FactPlace, int] = {}
        self.root = self._build(_Goal(site.body, (), site.cell.time, True))
        self.gates, self.facts = list(self._numbers), list(self._facts)

    def _build(self, goal: _Goal) -> int:
        """The number of the gate of a goal."""
        stack: list[tuple[_Goal, _Wanted | None]] = [(goal, None)]
        while stack:
            wanted, opened = stack.pop()
            if wanted in self._made:
                continue
            if opened is not None:
                every, below = opened
                self._made[wanted] = self._join(every, [self._made[part] for part in below])
                continue
            gate = self._open(wanted)
            if isinstance(gate, int):
                self._made[wanted] = gate
            else:
                stack.append((wanted, gate))
                stack.extend((part, None) for part in gate[1])
        return self._made[goal]

    def _join(self, every: bool, inputs: list[int]) -> int:
        """Return a gate of inputs, without inputs that change nothing."""
        ends, plain = (FALSE, TRUE) if every else (TRUE, FALSE)
        telling = tuple(dict.fromkeys(i for i in inputs if i != plain))
        if ends in telling:
            return ends
        if not telling:
            return plain
        return telling[0] if len(telling) == 1 else self._gate(CircuitGate(every, telling))

    def _gate(self, gate: CircuitGate) -> int:
        number = self._numbers.setdefault(gate, len(self._numbers))
        if number >= MAX_GATES:
            raise LimitError(f"the body has more than {MAX_GATES:,} parts at this cell")
        return number

    def _read(self, goal: _Goal, every: Collection[c.Axis] = ()) -> list[int]:
        """Return the gates of a leaf for all places on some axes; the goal gives the other places.

        Each is a fact or, if the fact cannot be flipped, its truth.
        """
        node, sign = goal.node, goal.sign
        at = zip(self._axes[node], goal.inner, strict=True)
        index = [slice(None) if a in every else n for a, n in at] + [goal.time - self._site.first]
        truths, places, prices = (_at(leaf, index) for leaf in self._leaves[node])
        if not isinstance(node, c.Atom) or node.predicate in self._fixed:
            return [TRUE if truth == sign else FALSE for truth in truths]
        gates = []
        for truth, place, price in zip(truths, places, prices, strict=True):
            fact = FactPlace(node.predicate, place)
            if fact in self._held:
                gates.append(TRUE if truth == sign else FALSE)
                continue
            number = self._facts.setdefault(fact, len(self._facts))
            if number == len(self.truths):
                self.truths.append(truth)
                self.price.append(price)
            gates.append(self._gate(CircuitGate(False, (), number, sign)))
        return gates

    def _open(self, goal: _Goal) -> int | _Wanted:
        """The gate of a goal, or whether all or any of some other goals are wanted for it."""
        node, time, sign = c.closed(goal.node), goal.time, goal.sign
        at = dict(zip(self._axes[node], goal.inner, strict=True))

        def below(part: c.Formula, sign: bool, time: int = time) -> _Goal:
            return _Goal(part, tuple(at[a] for a in self._axes[part]), time, sign)

        match node:
            case c.Truth(value):
                return TRUE if value == sign else FALSE
            case c.Atom() | c.Equal() | c.Compare() | c.Edge():
                return self._read(goal)[0]
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
                if not 0 <= when < self._site.length:
                    return TRUE if weak == sign else FALSE
                return True, (below(arg, sign, when),)
            case c.Aggregate(universal, arg, _, past):
                (_, span), *_ = operands(node, TimeSpan(time, time))
                first, last = clipped(span, self._site.length)
                points = range(last, first - 1, -1) if past else range(first, last + 1)
                if node.guard is not None:
                    arg = self._guarded(universal, node.guard, arg)
                return universal == sign, tuple(below(arg, sign, t) for t in points)
            case c.Quantifier():
                return self._quantified(goal, node, at)
            case c.Until():
                return True, (below(self._unfolded(node), sign),)
            case _:
                assert_never(node)

    def _quantified(self, goal: _Goal, node: c.Quantifier, at: dict[c.Axis, int]) -> int | _Wanted:
        """Return a goal for each binding; a guard makes it a conjunction or an implication."""
        body, every = node.body, node.universal == goal.sign
        if node.guard is None and body in self._leaves and all(map(self._size, node.axes)):
            inner = tuple(at.get(a, 0) for a in self._axes[body])
            return self._join(every, self._read(goal._replace(node=body, inner=inner), node.axes))
        if node.guard is not None:
            body = self._guarded(node.universal, node.guard, node.body)
        goals = []
        for places in itertools.product(*(range(self._size(a)) for a in node.axes)):
            here = {**at, **dict(zip(node.axes, places, strict=True))}
            inner = tuple(here[a] for a in self._axes[body])
            goals.append(_Goal(body, inner, goal.time, goal.sign))
        return every, tuple(dict.fromkeys(goals))

    def _guarded(self, universal: bool, guard: c.Formula, body: c.Formula) -> c.Formula:
        """Return a body that is passed over where a guard is false."""
        both = (c.Implies if universal else c.And)(guard, body)
        used = {*self._axes[guard], *self._axes[body]}
        self._axes[both] = tuple(a for a in self._site.pattern.axes if a in used)
        return both

    def _size(self, axis: c.Axis) -> int:
        return self._site.cells.tables.size(axis)

    def _unfolded(self, node: c.Until) -> c.Formula:
        """Unfold until: `right | left & X later`; before the window begins, only `left & X later`.

        Release is the dual, `right & (left | WX later)`. After the window an until is false.
        """
        low, high = node.window.low, node.window.high
        if high is not None and high < low:
            step: c.Formula = c.Truth(node.dual)
            self._axes[step] = ()
            return step
        window = c.Window(max(0, low - 1), None if high is None else high - 1)
        later = replace(node, window=window)
        shift = c.Shift(later, 1, node.past, weak=node.dual)
        step = (c.Or if node.dual else c.And)(node.left, shift)
        unfolded = (c.And if node.dual else c.Or)(node.right, step) if low == 0 else step
        self._axes.update(dict.fromkeys((later, shift, step, unfolded), self._axes[node]))
        return unfolded


def _facts(leaf: BodyLeaf, site: Site) -> tuple[Array, Array, Array]:
    """The truths of a leaf and, for an atom, the places and prices of its facts."""
    value, truth, places = site.leaves[leaf]
    static = leaf.predicate is None or site.cells.tables.table(leaf.predicate).shape[-1] == 1
    limit = None if leaf.predicate is None else site.cells.threshold_of(leaf.predicate)
    # A derived fact has no threshold; its price is the distance of its degree from 0.5.
    prices = (value - (0.5 if limit is None else limit)).abs() + static
    places = truth if places is None else places
    return truth.cpu().numpy(), places.cpu().numpy(), prices.cpu().numpy()


def _at(leaf: Array, index: Sequence[int | slice]) -> list[Any]:
    """Return the values of a leaf at some places; a dimension of size 1 is for all places."""
    one = (
        0 if size == 1 and isinstance(i, int) else i
        for i, size in zip(index, leaf.shape, strict=True)
    )
    return list(leaf[tuple(one)].reshape(-1).tolist())
