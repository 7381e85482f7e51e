"""A leaf as an automaton: formula progression, with states in one irredundant form.

The value of a formula at a point is a pair: its truth if the trace ends there, and what the next
point must bring if it does not. That is known at the point itself, for every formula: `X a` is
false at the end and else the promise of `a`. Operators of the past keep such pairs of earlier
points, which go on with the trace, so that they may well have the future beneath them.
"""

from __future__ import annotations

from typing import NamedTuple

from fotltn.monitor.promises import FALSE, TRUE, Function, Promise, join, meet, only, replaced
from fotltn.monitor.skeleton import Op, Skeleton, left_over


class State(NamedTuple):
    """What an automaton knows of the past.

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
    """States and transitions of a skeleton, computed one at a time."""

    def __init__(self, skeleton: Skeleton) -> None:
        """No state is known before it is asked for."""
        self.skeleton = skeleton

    def start(self, statics: int) -> State:
        """The state before the first step."""
        memory = tuple(TRUE if weak else FALSE for weak in self.skeleton.memory)
        return State(statics, False, False, FALSE, memory)

    def next(self, state: State, letter: int | bool) -> State:
        """The state after a step, whose letters are true where `letter` has a bit.

        With `True`, all that is asked of letters is so, a letter and its negation alike; with
        `False`, nothing is. No step leads to a state that ends better, or worse.
        """
        step = _Step(self.skeleton, state, letter)
        here = step.progress(state.rest) if state.started else step.values[-1]
        memory = tuple(pair.rest for pair in step.kept())
        return State(state.statics, True, here.end, here.rest, memory)


class _Step:
    """The values of all operators at one point."""

    def __init__(self, skeleton: Skeleton, state: State, letter: int | bool) -> None:
        self.skeleton, self.state, self.letter = skeleton, state, letter
        self.values: list[_Pair] = []
        # What is kept may be about the present's operands, which come before their operator, so
        # that it is brought up to date when an operator first asks for it.
        self.old: dict[int, _Pair] = {}
        for number, op in enumerate(skeleton.ops):
            self.values.append(self._value(number, op))

    def progress(self, function: Function) -> _Pair:
        """What was promised for this point, at this point."""
        if function == TRUE or not function:
            return _constant(bool(function))
        known = {p: self._kept_promise(p) for term in function for p in term}
        end = any(all(known[p].end for p in term) for term in function)
        return _Pair(end, replaced(function, lambda p: known[p].rest))

    def kept(self) -> list[_Pair]:
        """What is to be kept for the next step, in the order of the memory."""
        found: dict[int, _Pair] = {}
        for number, op in enumerate(self.skeleton.ops):
            for (low, high), place in (op.memory or {}).items():
                if op.kind == "since":
                    found[place] = self._since(number, low, high)
                else:
                    found[place] = self.values[op.args[0]] if low == 0 else self._old(place - 1)
        return [found[place] for place in range(len(self.skeleton.memory))]

    def _value(self, number: int, op: Op) -> _Pair:
        match op.kind:
            case "letter" if isinstance(self.letter, bool):
                return _constant(self.letter)
            case "letter":
                return _constant(bool(self.letter >> op.args[0] & 1) == op.flag)
            case "static":
                return _constant(bool(self.state.statics >> op.args[0] & 1) == op.flag)
            case "constant":
                return _constant(op.flag)
            case "first":
                return _constant(self.state.started != op.flag)
            case "last":
                return _Pair(op.flag, FALSE if op.flag else TRUE)
            case "and":
                return _both(self.values[op.args[0]], self.values[op.args[1]])
            case "or":
                return _either(self.values[op.args[0]], self.values[op.args[1]])
            case "next":
                return _Pair(op.flag, only(Promise(number, op.low - 1, op.low - 1, 0)))
            case "until":
                return self._until(number, op.low, op.high)
            case "prev":
                assert op.memory is not None
                return self._old(op.memory[op.low - 1, op.low - 1])
            case "since":
                return self._since(number, op.low, op.high)
        raise AssertionError(op)

    def _kept_promise(self, promise: Promise) -> _Pair:
        op = self.skeleton.ops[promise.number]
        if op.kind == "until":
            return self._until(promise.number, promise.low, promise.high)
        if promise.low == 0:
            return self.values[op.args[0]]
        left = promise.low - 1
        return _Pair(op.flag, only(Promise(promise.number, left, left, 0)))

    def _until(self, number: int, low: int, high: int) -> _Pair:
        op = self.skeleton.ops[number]
        window = left_over(low, high)
        later = None
        if window is not None:
            later = _Pair(op.flag, only(Promise(number, *window, -1 if op.flag else 1)))
        return self._unfolded(op, low, later)

    def _since(self, number: int, low: int, high: int) -> _Pair:
        op = self.skeleton.ops[number]
        window = left_over(low, high)
        assert op.memory is not None
        return self._unfolded(op, low, None if window is None else self._old(op.memory[window]))

    def _unfolded(self, op: Op, low: int, other: _Pair | None) -> _Pair:
        """`b ∨ (a ∧ other)`, or its dual, where the other is the same at the next or last point."""
        narrow, wide = (_either, _both) if op.flag else (_both, _either)
        a, b = self.values[op.args[0]], self.values[op.args[1]]
        if other is None:
            return b
        beyond = narrow(a, other)
        return beyond if low > 0 else wide(b, beyond)

    def _old(self, place: int) -> _Pair:
        if place not in self.old:
            self.old[place] = self.progress(self.state.memory[place])
        return self.old[place]
