"""Minimal automata of formulas over letters, as arrays of states and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, assert_never

import numpy as np

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.nnf import both, either
from fotltn.logic.parts import operands
from fotltn.monitor.automaton import Automaton
from fotltn.monitor.compile import Skeleton, letter
from fotltn.posterior.clauses import is_edge, is_node
from fotltn.posterior.patterns import Moving
from fotltn.tree import children, rebuilt

#: The most states of an automaton.
MOST_STATES = 512
#: The most letters of an automaton.
MOST_LETTERS = 10

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class MinimalAutomaton:
    """A deterministic automaton, which starts in state 0.

    Args:
        next: the state after a step, with axes (state, letters as bits).
        accepts: whether the formula is true if the trace ends in a state.
        live: whether an accepting state can be reached from a state.
    """

    next: Numbers
    accepts: Flags
    live: Flags


def over_letters(
    node: c.Formula, moving: Moving, read: Callable[[int], c.Formula],
    condition: Callable[[c.Formula], c.Formula],
) -> c.Formula:  # fmt: skip
    """Write a formula in letters: one for each bit, and for each largest condition.

    Args:
        node: a formula in normal form.
        moving: the bits of the tracks.
        read: the letter of a bit.
        condition: the letter of a formula without bits.
    """

    def visit(part: c.Formula) -> c.Formula:
        if is_edge(part):
            return part
        if not moving.inside(part):
            return condition(part)
        match is_node(part):
            case c.And() | c.Or() as joined:
                kind, join = (c.And, both) if isinstance(joined, c.And) else (c.Or, either)
                pieces = operands(joined, kind)
                known = [p for p in pieces if not moving.inside(p) and not is_edge(p)]
                start = condition(reduce(kind, known)) if known else c.Truth(kind is c.And)
                rest = [visit(p) for p in pieces if moving.inside(p) or is_edge(p)]
                return reduce(join, rest, start)
            case c.Atom() as atom:
                hit = moving.bit(atom)
                assert hit is not None
                return read(hit[0])
            case c.Not() | c.Quantifier() | c.Shift() | c.Until():
                below = [child for child in children(part) if isinstance(child, c.Formula)]
                return rebuilt(part, [visit(child) for child in below])
            case c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Aggregate():
                raise AssertionError(part)
            case never:
                assert_never(never)

    return visit(node)


def machine(name: str, formula: c.Formula, letters: int) -> MinimalAutomaton:
    """Build the minimal automaton of a formula in normal form, read at the first time point.

    Args:
        name: the axiom that says it.
        formula: a formula over the atoms `letter(0)`, `letter(1)`, ….
        letters: the number of these atoms.

    Raises:
        LimitError: the automaton has too many letters or states.
    """
    if letters > MOST_LETTERS:
        message = f"'{name}' has {letters} letters, and at most {MOST_LETTERS} are followed"
        raise LimitError(message)
    automaton = Automaton(Skeleton(formula, tuple(letter(n) for n in range(letters)), ()))
    start = automaton.start(0)
    numbers, states, rows = {start: 0}, [start], []
    for state in states:
        row = []
        for bits in range(1 << letters):
            after = automaton.next(state, bits)
            if after not in numbers:
                if len(states) >= MOST_STATES:
                    message = f"the automaton of '{name}' has more than {MOST_STATES} states"
                    raise LimitError(message)
                numbers[after] = len(states)
                states.append(after)
            row.append(numbers[after])
        rows.append(row)
    accepts = np.array([state.end for state in states])
    return minimal(np.array(rows, dtype=np.int64), accepts)


def minimal(table: Numbers, outputs: Numbers | Flags) -> MinimalAutomaton:
    """Minimise an automaton all of whose states can be reached."""
    classes = merged(table, outputs)
    firsts = np.unique(classes, return_index=True)[1]
    small = classes[table[firsts]]
    accepts = np.asarray(outputs)[firsts].astype(bool)
    return MinimalAutomaton(small, accepts, live(small, accepts))


def merged(table: Numbers, outputs: Numbers | Flags) -> Numbers:
    """Number classes of states; no run distinguishes states of one class. State 0 has class 0."""
    classes = np.unique(np.asarray(outputs), return_inverse=True, axis=0)[1].reshape(-1)
    count = int(classes.max()) + 1 if len(classes) else 0
    while True:
        keys = np.concatenate([classes[:, None], classes[table]], axis=1)
        classes = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        if classes.max() + 1 == count:
            break
        count = int(classes.max()) + 1
    order: Numbers = np.full(count, -1)
    firsts = np.unique(classes, return_index=True)[1]
    order[np.argsort(firsts, kind="stable")] = np.arange(count)
    numbers: Numbers = order[classes]
    return numbers


def live(table: Numbers, accepts: Flags) -> Flags:
    """Whether an accepting state can be reached from each state."""
    alive = accepts.copy()
    while True:
        more = alive | alive[table].any(1)
        if (more == alive).all():
            return alive
        alive = more
