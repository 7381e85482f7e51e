"""Split a leaf for an automaton: letters, whose truth a step gives, and operators over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.parts import changes
from fotltn.logic.signature import Signature
from fotltn.monitor.outer import having, is_temporal, looks_ahead
from fotltn.tree import children, fold, postorder, rebuilt

#: With more letters than this, the largest parts without a temporal operator become letters.
FINE_LETTERS = 8

#: With more letters than this, a leaf has no automaton.
MOST_LETTERS = 16

_PAST_STATES = 64  # past operators are part of an automaton up to this number of states


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A leaf as a formula over letters and static parts.

    Args:
        formula: the leaf, with `letter(n)` for letter n and `static(n)` for static part n.
        letters: formulas whose truth each step gives.
        statics: formulas with the same truth at all time points.
    """

    formula: c.Formula
    letters: tuple[c.Formula, ...]
    statics: tuple[c.Formula, ...]

    def works_like(self, other: Skeleton) -> bool:
        """Return whether two skeletons differ only in what their letters stand for."""
        return self.formula == other.formula and len(self.letters) == len(other.letters)


def letter(number: int) -> c.Atom:
    """Return the atom that stands for a letter."""
    return c.Atom(f"letter {number}", ())


def static(number: int) -> c.Atom:
    """Return the atom that stands for a static part."""
    return c.Atom(f"static {number}", ())


def skeleton(formula: c.Formula, signature: Signature) -> Skeleton:
    """Return the skeleton of a formula in normal form.

    No quantifier of the formula may have a future operator below it.

    Raises:
        LimitError: the formula has too many letters.
    """
    past_inside = _past_states(formula) <= _PAST_STATES
    for fine in (True, False):
        statics: list[c.Formula] = []
        letters: list[c.Formula] = []
        for node in _states(formula, fine, past_inside):
            (letters if changes(signature, node) else statics).append(node)
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


def _past_states(formula: c.Formula) -> int:
    """Return how many states the past operators without future operands may need."""
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
    """Return the parts that become letters or static parts, in the order of the formula."""
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
                # A negation stands before an atom. It is open, so both signs share one letter.
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
