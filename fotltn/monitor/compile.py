"""What a leaf is made of for an automaton: letters, which steps give, and operators over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.outer import having, is_temporal, looks_ahead
from fotltn.tree import children, fold, postorder, rebuilt

#: More letters than this are not told apart: what has no temporal operator becomes one letter.
FINE_LETTERS = 8

#: With more letters than this, a leaf has no automaton.
MOST_LETTERS = 16

_PAST_STATES = 64  # operators of the past are part of an automaton if they need no more states


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A leaf over letters and what does not change.

    Args:
        formula: the leaf, with the atom `letter(n)` or `static(n)` for each of those.
        letters: state formulas, whose truth a step gives.
        statics: those that have one truth for all times.
    """

    formula: c.Formula
    letters: tuple[c.Formula, ...]
    statics: tuple[c.Formula, ...]

    def works_like(self, other: Skeleton) -> bool:
        """Whether two skeletons are the same but for what their letters are."""
        return self.formula == other.formula and len(self.letters) == len(other.letters)


def letter(number: int) -> c.Atom:
    """The atom that stands for a letter."""
    return c.Atom(f"letter {number}", ())


def static(number: int) -> c.Atom:
    """The atom that stands for what does not change."""
    return c.Atom(f"static {number}", ())


def skeleton(formula: c.Formula, signature: Signature) -> Skeleton:
    """The skeleton of a formula in normal form whose quantifiers have no future beneath them.

    Raises:
        LimitError: it has too many letters.
    """
    past_inside = _past_states(formula) <= _PAST_STATES
    for fine in (True, False):
        statics: list[c.Formula] = []
        letters: list[c.Formula] = []
        for node in _states(formula, fine, past_inside):
            (statics if is_static(node, signature) else letters).append(node)
        if len(letters) <= (FINE_LETTERS if fine else MOST_LETTERS):
            break
    else:
        raise LimitError(
            f"it has {len(letters)} different conditions on a step, and at most {MOST_LETTERS} are "
            "followed"
        )
    atoms: dict[c.Core, c.Formula] = {node: letter(n) for n, node in enumerate(letters)}
    atoms |= {node: static(n) for n, node in enumerate(statics)}
    over_letters: c.Formula = fold(formula, lambda n, below: atoms.get(n) or rebuilt(n, below))
    return Skeleton(over_letters, tuple(letters), tuple(statics))


def is_static(formula: c.Core, signature: Signature) -> bool:
    """Whether a formula has the same truth at all times, whatever comes."""
    for node in postorder(formula):
        if is_temporal(node):
            return False
        if isinstance(node, c.Atom) and not signature.predicates[node.predicate].static:
            return False
        if isinstance(node, c.Apply) and not signature.functions[node.function].static:
            return False
    return True


def _past_states(formula: c.Formula) -> int:
    """How many states the operators of the past may need, if no future is beneath them."""
    count, ahead = 1, having(formula, looks_ahead)
    for node in postorder(formula):
        if not isinstance(node, c.Formula) or node in ahead:
            continue
        match c.closed(node):
            case c.Shift(_, steps, True):
                count *= 2 ** min(steps, 10)
            case c.Until(_, _, _, window, True):
                reach = 1 if window.high is None else window.high - window.low
                count *= 2 ** min(window.low, 10) * (reach + 1)
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And()
                | c.Or() | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
        if count > _PAST_STATES:
            break
    return count


def _states(formula: c.Formula, fine: bool, past_inside: bool) -> list[c.Formula]:
    """The parts that an automaton does not look into, in the order of the formula."""
    reached: dict[c.Core, bool] = {}
    timed, ahead = having(formula, is_temporal), having(formula, looks_ahead)
    stack: list[c.Core] = [formula]
    while stack:
        node = stack.pop()
        if not isinstance(node, c.Formula) or node in reached:
            continue
        match c.closed(node):
            case c.Atom() | c.Equal() | c.Compare() | c.Quantifier():
                is_open = False
            case c.Truth() | c.Edge():
                is_open = True
            case c.Not(arg):
                # A negation stands before an atom; it is open, so that both signs are one letter.
                is_open = True
                assert isinstance(arg, c.Atom | c.Equal | c.Compare | c.Edge)
            case c.And() | c.Or() | c.Implies() | c.Shift() | c.Aggregate() | c.Until():
                past = not past_inside and node in timed and node not in ahead
                is_open = (fine or node in timed) and not past
            case never:
                assert_never(never)
        reached[node] = is_open
        if is_open:
            stack.extend(children(node))  # type: ignore[arg-type]
    states = (node for node in postorder(formula) if reached.get(node) is False)
    return [node for node in states if isinstance(node, c.Formula)]
