"""A leaf as an automaton: formula progression, with states in one irredundant form.

The value of a formula at a point is a pair: its truth if the trace ends there, and what the next
point must bring if it does not. That is known at the point itself, for every formula: `X a` is
false at the end and else the promise of `a`. Operators of the past keep such pairs of earlier
points, which continue with the trace, so they may contain future operators.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.monitor.compile import Skeleton, letter, static
from fotltn.monitor.obligations import (
    ENDLESS,
    FALSE,
    TRUE,
    Function,
    Promise,
    join,
    meet,
    only,
    replaced,
)
from fotltn.tree import children, postorder

_MOST_MEMORY = 256  # values of the past that an automaton may keep


class AutomatonState(NamedTuple):
    """The state of an automaton: what it knows of the past.

    Args:
        statics: the truth of what does not change, as bits.
        started: whether there was a step.
        end: the truth of the formula if the trace ends here.
        rest: what it needs of the next point if it does not.
        memory: the same of values that operators of the past keep.
    """

    statics: int
    started: bool
    end: bool
    rest: Function
    memory: tuple[Function, ...]


class _Pair(NamedTuple):
    end: bool
    rest: Function


_TRUE, _FALSE = _Pair(True, TRUE), _Pair(False, FALSE)


def _constant(value: bool) -> _Pair:
    return _TRUE if value else _FALSE


def _both(a: _Pair, b: _Pair) -> _Pair:
    return _Pair(a.end and b.end, meet(a.rest, b.rest))


def _either(a: _Pair, b: _Pair) -> _Pair:
    return _Pair(a.end or b.end, join(a.rest, b.rest))


class Automaton:
    """States and transitions of a skeleton, computed one at a time.

    Attributes:
        nodes: the parts of its formula, operands first, with the numbers of these.
        atoms: for each letter (True) or static part (False), its place.
        memory: the parts of the past whose values are kept, by number and the window that is left.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        """No state is known before it is asked for.

        Raises:
            LimitError: it would keep too much of the past.
        """
        self.skeleton = skeleton
        numbers: dict[c.Core, int] = {}
        self.nodes: list[tuple[c.Formula, list[int]]] = []
        self.memory: dict[tuple[int, int, int], int] = {}
        for number, node in enumerate(postorder(skeleton.formula)):
            numbers[node] = number
            self.nodes.append((node, [numbers[child] for child in children(node)]))  # type: ignore[index]
            for window in _windows_kept(node):
                self.memory[number, *window] = len(self.memory)
            if len(self.memory) > _MOST_MEMORY:
                raise LimitError(f"it keeps more than {_MOST_MEMORY} values of the past")
        self.atoms = {letter(n): (True, n) for n in range(len(skeleton.letters))}
        self.atoms |= {static(n): (False, n) for n in range(len(skeleton.statics))}

    def start(self, statics: int) -> AutomatonState:
        """The state before the first step."""
        return AutomatonState(statics, False, False, FALSE, tuple(map(self._at_first, self.memory)))

    def _at_first(self, place: tuple[int, int, int]) -> Function:
        node, _ = self.nodes[place[0]]
        assert isinstance(node, c.Shift | c.Until)  # others keep nothing
        return TRUE if (node.weak if isinstance(node, c.Shift) else node.dual) else FALSE

    def next(self, state: AutomatonState, letter: int | bool) -> AutomatonState:
        """The state after a step, whose letters are true where `letter` has a bit.

        With `True`, all that is asked of letters is so, a letter and its negation alike; with
        `False`, nothing is. No step leads to a state that ends better, or worse.
        """
        point = _Point(self, state, letter)
        here = point.progress(state.rest) if state.started else point.values[-1]
        return AutomatonState(state.statics, True, here.end, here.rest, point.remembered())


class _Point:
    """The values of all parts at one point."""

    def __init__(self, automaton: Automaton, state: AutomatonState, letter: int | bool) -> None:
        self.automaton, self.state, self.letter = automaton, state, letter
        self.values: list[_Pair] = []
        # What is kept may be about the present's operands, which come before their operator, so
        # that it is brought up to date when an operator first asks for it.
        self.old: dict[int, _Pair] = {}
        for number, (node, args) in enumerate(automaton.nodes):
            self.values.append(self._value(number, c.closed(node), args))

    def progress(self, function: Function) -> _Pair:
        """What was promised for this point, at this point."""
        if function == TRUE or not function:
            return _constant(bool(function))
        known = {p: self._promised(p) for term in function for p in term}
        end = any(all(known[p].end for p in term) for term in function)
        return _Pair(end, replaced(function, lambda p: known[p].rest))

    def remembered(self) -> tuple[Function, ...]:
        """What is to be kept for the next step, in the order of the memory."""
        rests = []
        for (number, low, high), place in self.automaton.memory.items():
            node, args = self.automaton.nodes[number]
            if isinstance(node, c.Until):
                pair = self._until(number, low, high)
            else:
                pair = self.values[args[0]] if low == 0 else self._old(place - 1)
            rests.append(pair.rest)
        return tuple(rests)

    def _value(self, number: int, node: c.AnyFormula, args: list[int]) -> _Pair:
        match node:
            case c.Truth(value):
                return _constant(value)
            case c.Edge(True):
                return _constant(not self.state.started)
            case c.Edge():
                return _Pair(True, FALSE)
            case c.Atom():
                is_letter, place = self.automaton.atoms[node]
                if is_letter and isinstance(self.letter, bool):
                    return _constant(self.letter)
                bits = self.letter if is_letter else self.state.statics
                return _constant(bool(bits >> place & 1))
            case c.Not(arg):  # of an atom or an end
                if isinstance(self.letter, bool) and self.automaton.atoms.get(arg, (False,))[0]:  # type: ignore[call-overload]
                    return _constant(self.letter)
                end, rest = self.values[args[0]]
                return _Pair(not end, FALSE if rest else TRUE)
            case c.And():
                return _both(*(self.values[arg] for arg in args))
            case c.Or():
                return _either(*(self.values[arg] for arg in args))
            case c.Shift(_, steps, True):
                return self._old(self.automaton.memory[number, steps - 1, steps - 1])
            case c.Shift(_, steps, _, weak):
                return _Pair(weak, only(Promise(number, steps - 1, steps - 1, 0)))
            case c.Until(_, _, _, window):
                high = ENDLESS if window.high is None else window.high
                return self._until(number, window.low, high)
            case c.Equal() | c.Compare() | c.Implies() | c.Quantifier() | c.Aggregate():
                raise AssertionError(node)  # letters, or not in normal form
            case never:
                assert_never(never)

    def _promised(self, promise: Promise) -> _Pair:
        node, args = self.automaton.nodes[promise.number]
        if isinstance(node, c.Until):
            return self._until(promise.number, promise.low, promise.high)
        if promise.low == 0:
            return self.values[args[0]]
        assert isinstance(node, c.Shift)
        left = promise.low - 1
        return _Pair(node.weak, only(Promise(promise.number, left, left, 0)))

    def _until(self, number: int, low: int, high: int) -> _Pair:
        """`b ∨ (a ∧ other)`, or its dual, where the other is the same at the next or last point."""
        node, args = self.automaton.nodes[number]
        assert isinstance(node, c.Until)
        narrow, wide = (_either, _both) if node.dual else (_both, _either)
        a, b = (self.values[arg] for arg in args)
        window = left_over(low, high)
        if window is None:
            return b
        if node.past:
            other = self._old(self.automaton.memory[number, *window])
        else:
            other = _Pair(node.dual, only(Promise(number, *window, -1 if node.dual else 1)))
        beyond = narrow(a, other)
        return beyond if low > 0 else wide(b, beyond)

    def _old(self, place: int) -> _Pair:
        if place not in self.old:
            self.old[place] = self.progress(self.state.memory[place])
        return self.old[place]


def left_over(low: int, high: int) -> tuple[int, int] | None:
    """The window that is left of one a step later, if any."""
    if high == 0:
        return None
    return max(0, low - 1), high if high == ENDLESS else high - 1


def _windows_kept(node: c.Formula) -> list[tuple[int, int]]:
    """The windows whose values at the last step an operator asks for, and those ask for."""
    windows: list[tuple[int, int]] = []
    match c.closed(node):
        case c.Shift(_, steps, True):
            windows = [(k, k) for k in range(min(steps, _MOST_MEMORY + 1))]
        case c.Until(_, _, _, c.Window(low, high), True):
            window = left_over(low, ENDLESS if high is None else high)
            while window is not None and window not in windows and len(windows) <= _MOST_MEMORY:
                windows.append(window)
                window = left_over(*window)
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or()
            | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
        ):  # fmt: skip
            pass
        case never:
            assert_never(never)
    return windows
