"""What a leaf is made of for an automaton: letters, which steps give, and operators over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.normal import having, is_temporal, looks_ahead
from fotltn.monitor.promises import ENDLESS
from fotltn.tree import children, postorder

#: More letters than this are not told apart: what has no temporal operator becomes one letter.
FINE_LETTERS = 8

#: With more letters than this, a leaf has no automaton.
MOST_LETTERS = 16

_PAST_STATES = 64  # operators of the past are part of an automaton if they need no more states
_MOST_MEMORY = 256  # values of the past that an automaton may keep


class Op(NamedTuple):
    """An operator: its kind, the numbers of its operands, and what else it needs.

    Args:
        kind: "letter", "static", "constant", "first", "last", "and", "or", "next", "until", "prev"
            or "since".
        args: the numbers of operands; of a letter, its place.
        flag: of a letter or an end, whether it is not negated; of a constant, its value; of a step,
            whether it is weak; of until and since, whether it is the dual.
        low, high: steps, or a window.
        memory: of prev and since, the places of what they keep, by the window that is left.
    """

    kind: str
    args: tuple[int, ...] = ()
    flag: bool = True
    low: int = 0
    high: int = 0
    memory: dict[tuple[int, int], int] | None = None


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The operators of a leaf, operands first, over letters and what does not change.

    Args:
        ops: the operators; the last one is the leaf.
        letters: state formulas, whose truth a step gives.
        statics: those that have one truth for all times.
        memory: for each value that is kept from one step to the next, what it is at first.
    """

    ops: tuple[Op, ...]
    letters: tuple[c.Formula, ...]
    statics: tuple[c.Formula, ...]
    memory: tuple[bool, ...]

    def works_like(self, other: Skeleton) -> bool:
        """Whether two skeletons are the same but for what their letters are."""
        return self.ops == other.ops and len(self.letters) == len(other.letters)


def skeleton(formula: c.Formula, signature: Signature) -> Skeleton:
    """The skeleton of a formula in normal form whose quantifiers have no future beneath them.

    Raises:
        LimitError: it has too many letters, or keeps too much of the past.
    """
    past_inside = _past_states(formula) <= _PAST_STATES
    for fine in (True, False):
        reached = _reached(formula, fine, past_inside)
        letters = [n for n, open_ in reached.items() if not open_ and not is_static(n, signature)]
        if len(letters) <= (FINE_LETTERS if fine else MOST_LETTERS):
            return _build(formula, reached, signature)
    raise LimitError(
        f"it has {len(letters)} different conditions on a step, and at most {MOST_LETTERS} are "
        "followed"
    )


def is_static(formula: c.Core, signature: Signature) -> bool:
    """Whether a formula has the same truth at all times, whatever comes."""
    for node in postorder(formula):
        if is_temporal(node):
            return False
        match node:
            case c.Atom(name) if not signature.predicates[name].static:
                return False
            case c.Apply(name) if not signature.functions[name].static:
                return False
    return True


def _past_states(formula: c.Formula) -> int:
    """How many states the operators of the past may need, if no future is beneath them."""
    count, ahead = 1, having(formula, looks_ahead)
    for node in postorder(formula):
        match node:
            case c.Shift(_, steps, True) if node not in ahead:
                count *= 2 ** min(steps, 10)
            case c.Until(_, _, _, window, True) if node not in ahead:
                reach = 1 if window.high is None else window.high - window.low
                count *= 2 ** min(window.low, 10) * (reach + 1)
        if count > _PAST_STATES:
            break
    return count


def _reached(formula: c.Formula, fine: bool, past_inside: bool) -> dict[c.Formula, bool]:
    """The parts that an automaton knows; the closed ones are letters."""
    found: dict[c.Formula, bool] = {}
    timed, ahead = having(formula, is_temporal), having(formula, looks_ahead)
    stack: list[c.Core] = [formula]
    while stack:
        node = stack.pop()
        if not isinstance(node, c.Formula) or node in found:
            continue
        match node:
            case c.Atom() | c.Equal() | c.Compare() | c.Quantifier():
                is_open = False
            case c.Truth() | c.Edge():
                is_open = True
            case c.Not(arg):
                # A negation stands before an atom; it is open, so that both signs are one letter.
                is_open = True
                assert isinstance(arg, c.Atom | c.Equal | c.Compare | c.Edge)
            case _:
                is_open = fine or node in timed
                if not past_inside and node in timed and node not in ahead:
                    is_open = False
        found[node] = is_open
        if is_open:
            stack.extend(children(node))  # type: ignore[arg-type]
    return found


def _build(formula: c.Formula, reached: dict[c.Formula, bool], signature: Signature) -> Skeleton:
    ops: list[Op] = []
    numbers: dict[c.Formula, int] = {}
    letters: list[c.Formula] = []
    statics: list[c.Formula] = []
    memory: list[bool] = []

    def place(node: c.Formula) -> tuple[str, int]:
        kind, places = ("static", statics) if is_static(node, signature) else ("letter", letters)
        if node not in places:
            places.append(node)
        return kind, places.index(node)

    for node in postorder(formula):
        if not isinstance(node, c.Formula) or node not in reached:
            continue
        numbers[node] = len(ops)
        if not reached[node]:
            kind, number = place(node)
            ops.append(Op(kind, (number,)))
            continue
        match node:
            case c.Truth(value):
                ops.append(Op("constant", flag=value))
            case c.Edge(past):
                ops.append(Op("first" if past else "last"))
            case c.Not(c.Edge(past)):
                ops.append(Op("first" if past else "last", flag=False))
            case c.Not(arg):
                kind, number = place(arg)
                ops.append(Op(kind, (number,), flag=False))
            case c.And(left, right):
                ops.append(Op("and", (numbers[left], numbers[right])))
            case c.Or(left, right):
                ops.append(Op("or", (numbers[left], numbers[right])))
            case c.Shift(arg, steps, False, weak):
                ops.append(Op("next", (numbers[arg],), weak, steps, steps))
            case c.Shift(arg, steps, True, weak):
                kept = {(k, k): len(memory) + k for k in range(min(steps, _MOST_MEMORY + 1))}
                memory += [weak] * len(kept)
                ops.append(Op("prev", (numbers[arg],), weak, steps, steps, kept))
            case c.Until(dual, left, right, window, past):
                high = ENDLESS if window.high is None else window.high
                args = (numbers[left], numbers[right])
                if not past:
                    ops.append(Op("until", args, dual, window.low, high))
                    continue
                kept = {}
                for left_over in _windows(window.low, high):
                    kept[left_over] = len(memory) + len(kept)
                memory += [dual] * len(kept)
                ops.append(Op("since", args, dual, window.low, high, kept))
            case _:
                raise AssertionError(node)
        if len(memory) > _MOST_MEMORY:
            raise LimitError(f"it keeps more than {_MOST_MEMORY} values of the past")
    return Skeleton(tuple(ops), tuple(letters), tuple(statics), tuple(memory))


def left_over(low: int, high: int) -> tuple[int, int] | None:
    """The window that is left of one a step later, if any."""
    if high == 0:
        return None
    return max(0, low - 1), high if high == ENDLESS else high - 1


def _windows(low: int, high: int) -> list[tuple[int, int]]:
    """The windows whose values at the last step a since asks for, and those ask for."""
    found: list[tuple[int, int]] = []
    window = left_over(low, high)
    while window is not None and window not in found and len(found) <= _MOST_MEMORY:
        found.append(window)
        window = left_over(*window)
    return found
