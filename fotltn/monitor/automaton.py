"""The automaton of a leaf, by formula progression; equal demands are equal states.

The value of a formula at a time point is a pair: its truth if the trace ends there, and otherwise
the demand on the next point. Every formula has such a pair at the point itself. For example, `X a`
is false at the end, and otherwise demands `a`. Past operators keep the pairs of earlier points and
update them at each step, so their operands may contain future operators.
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

_MOST_MEMORY = 256  # values of earlier points that an automaton may keep


class AutomatonState(NamedTuple):
    """The state of an automaton after some steps.

    Args:
        statics: the truth of the static parts, as bits.
        started: whether there was a step.
        end: the truth of the formula if the trace ends here.
        rest: the demand on the next point if the trace goes on.
        memory: the demand of each value that past operators keep.
    """

    statics: int
    started: bool
    end: bool
    rest: Function
    memory: tuple[Function, ...]


class _Endings(NamedTuple):
    end: bool
    rest: Function


_TRUE, _FALSE = _Endings(True, TRUE), _Endings(False, FALSE)


def _constant(value: bool) -> _Endings:
    return _TRUE if value else _FALSE


def _both(a: _Endings, b: _Endings) -> _Endings:
    return _Endings(a.end and b.end, meet(a.rest, b.rest))


def _either(a: _Endings, b: _Endings) -> _Endings:
    return _Endings(a.end or b.end, join(a.rest, b.rest))


class Automaton:
    """The states and transitions of a skeleton, computed when they are needed.

    Attributes:
        nodes: the parts of the formula, operands first, each with the numbers of its operands.
        atoms: for the atom of a letter (True) or of a static part (False), its place.
        memory: the past operators whose values are kept, by number and remaining window, with
            their places in the memory of a state.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        """Number the parts of a skeleton's formula.

        Raises:
            LimitError: the automaton would keep too many values of earlier points.
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
        """Return the state before the first step."""
        return AutomatonState(statics, False, False, FALSE, tuple(map(self._at_first, self.memory)))

    def _at_first(self, place: tuple[int, int, int]) -> Function:
        node, _ = self.nodes[place[0]]
        assert isinstance(node, c.Shift | c.Until)  # other nodes keep nothing
        return TRUE if (node.weak if isinstance(node, c.Shift) else node.dual) else FALSE

    def next(self, state: AutomatonState, letter: int | bool) -> AutomatonState:
        """Return the state after a step, whose letters are true where `letter` has a bit.

        With `True`, letters and negated letters are all true; with `False`, all are false. So no
        step leads to a state that ends better than with `True`, or worse than with `False`.
        """
        point = _Point(self, state, letter)
        here = point.progress(state.rest) if state.started else point.values[-1]
        return AutomatonState(state.statics, True, here.end, here.rest, point.remembered())


class _Point:
    """The values of all parts of a formula at one time point."""

    def __init__(self, automaton: Automaton, state: AutomatonState, letter: int | bool) -> None:
        self.automaton, self.state, self.letter = automaton, state, letter
        self.values: list[_Endings] = []
        # A kept value may depend on operands at this point. They are computed before their
        # operator, so a kept value is updated when an operator first reads it.
        self.old: dict[int, _Endings] = {}
        for number, (node, args) in enumerate(automaton.nodes):
            self.values.append(self._value(number, c.closed(node), args))

    def progress(self, function: Function) -> _Endings:
        """Return the value at this point of a demand that the last point made."""
        if function == TRUE or not function:
            return _constant(bool(function))
        known = {p: self._promised(p) for term in function for p in term}
        end = any(all(known[p].end for p in term) for term in function)
        return _Endings(end, replaced(function, lambda p: known[p].rest))

    def remembered(self) -> tuple[Function, ...]:
        """Return the demands to keep for the next step, in the order of the memory."""
        rests = []
        for (number, low, high), place in self.automaton.memory.items():
            node, args = self.automaton.nodes[number]
            if isinstance(node, c.Until):
                pair = self._until(number, low, high)
            else:
                pair = self.values[args[0]] if low == 0 else self._old(place - 1)
            rests.append(pair.rest)
        return tuple(rests)

    def _value(self, number: int, node: c.AnyFormula, args: list[int]) -> _Endings:
        match node:
            case c.Truth(value):
                return _constant(value)
            case c.Edge(True):
                return _constant(not self.state.started)
            case c.Edge():
                return _Endings(True, FALSE)
            case c.Atom():
                is_letter, place = self.automaton.atoms[node]
                if is_letter and isinstance(self.letter, bool):
                    return _constant(self.letter)
                bits = self.letter if is_letter else self.state.statics
                return _constant(bool(bits >> place & 1))
            case c.Not(arg):  # the operand is an atom, `first` or `last`
                if isinstance(self.letter, bool) and self.automaton.atoms.get(arg, (False,))[0]:  # type: ignore[call-overload]
                    return _constant(self.letter)
                end, rest = self.values[args[0]]
                return _Endings(not end, FALSE if rest else TRUE)
            case c.And():
                return _both(*(self.values[arg] for arg in args))
            case c.Or():
                return _either(*(self.values[arg] for arg in args))
            case c.Shift(_, steps, True):
                return self._old(self.automaton.memory[number, steps - 1, steps - 1])
            case c.Shift(_, steps, _, weak):
                return _Endings(weak, only(Promise(number, steps - 1, steps - 1, 0)))
            case c.Until(_, _, _, window):
                high = ENDLESS if window.high is None else window.high
                return self._until(number, window.low, high)
            case c.Equal() | c.Compare() | c.Implies() | c.Quantifier() | c.Aggregate():
                raise AssertionError(node)  # a letter stands for it, or it is not in normal form
            case never:
                assert_never(never)

    def _promised(self, promise: Promise) -> _Endings:
        node, args = self.automaton.nodes[promise.number]
        if isinstance(node, c.Until):
            return self._until(promise.number, promise.low, promise.high)
        if promise.low == 0:
            return self.values[args[0]]
        assert isinstance(node, c.Shift)
        left = promise.low - 1
        return _Endings(node.weak, only(Promise(promise.number, left, left, 0)))

    def _until(self, number: int, low: int, high: int) -> _Endings:
        """Return `b ∨ (a ∧ o)`, or its dual; `o` is the same formula at the next or last point."""
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
            other = _Endings(node.dual, only(Promise(number, *window, -1 if node.dual else 1)))
        beyond = narrow(a, other)
        return beyond if low > 0 else wide(b, beyond)

    def _old(self, place: int) -> _Endings:
        if place not in self.old:
            self.old[place] = self.progress(self.state.memory[place])
        return self.old[place]


def left_over(low: int, high: int) -> tuple[int, int] | None:
    """Return the window that remains after one more step; None if nothing remains."""
    if high == 0:
        return None
    return max(0, low - 1), high if high == ENDLESS else high - 1


def _windows_kept(node: c.Formula) -> list[tuple[int, int]]:
    """Return all windows whose values at the last step a past operator needs."""
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
