"""Axioms as a monitor watches them: when a cell is asked something, and what must come then.

`forall x. G(a -> X b)` has a cell for each x and each time. The cell is asked something where `a`
is true, and then `X b` must be. An axiom that says several things has a leaf for each of them; a
cell is violated if one of its leaves is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom
from fotltn.logic.nnf import TRUE, both, nnf
from fotltn.logic.parts import operands
from fotltn.logic.span import HERE, TimeSpan, times_of_use
from fotltn.monitor.compile import Skeleton, letter
from fotltn.monitor.domain import Axes
from fotltn.monitor.outer import having, looks_ahead, universal_parts
from fotltn.tree import children, fold, postorder, rebuilt

_MOST_PAIRS = 10  # of parts that may contradict each other

#: `last` and its negation, as what must come. They are told from what users write.
_LAST = c.Shift(c.Not(c.Truth(True)), 1, past=False, weak=True)
_NOT_LAST = c.Shift(c.Not(c.Truth(False)), 1, past=False, weak=False)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One of the things that an axiom says of its cells.

    Args:
        axes: its variables; those of the cell come first.
        when: a cell is asked something where all of these are true.
        must: what must come then, over letters; None if nothing can help.
        final: the parts of `must` whose truth the end of a trace settles in any case.
        source: what must come, as a formula.
    """

    axes: Axes
    when: tuple[c.Formula, ...]
    must: Skeleton | None
    final: frozenset[c.Formula]
    source: c.Formula


@dataclass(frozen=True, slots=True)
class WatchedAxiom:
    """An axiom by its cells.

    Args:
        name: of the axiom.
        hard: whether it holds without exception.
        axes: the variables of a cell.
        first, last: the times at which there are cells; no last one: to the end.
        timed: whether there are cells at more points than the first.
        leaves: what it says of them.
        pairs: two of these at once, which may contradict each other.
    """

    name: str
    hard: bool
    axes: Axes
    first: int
    last: int | None
    timed: bool
    leaves: tuple[Leaf, ...]
    pairs: tuple[Leaf, ...]


def watched(
    axiom: CheckedAxiom, presence: Mapping[str, str], moves: Callable[[c.Core], bool]
) -> WatchedAxiom:
    """An axiom taken apart.

    Args:
        axiom: a checked axiom.
        presence: for a sort whose entities come and go, the predicate that says where they are.
        moves: whether an atom or a function changes over time.

    Raises:
        LimitError: its cells need the whole trace.
    """
    axes: Axes = ()
    guards: list[c.Formula] = []
    low, timed = 0, False
    last: int | None = 0
    formula = axiom.formula
    while isinstance(formula, c.Quantifier | c.Aggregate) and formula.universal:
        if isinstance(formula, c.Quantifier):
            axes += formula.axes
            if formula.guard is not None:
                guards.append(formula.guard)
            formula = formula.body
            continue
        if formula.past:
            raise LimitError("it begins with an operator of the past")
        if timed and guards and any(moves(n) for g in guards for n in postorder(g)):
            raise LimitError("a guard stands between two operators of time")
        guards = [_at_first(g, moves) for g in guards]
        low += formula.window.low
        last = None if last is None or formula.window.high is None else last + formula.window.high
        timed = True
        formula = formula.arg
    if len(set(axes)) < len(axes):
        raise LimitError("two of its quantifiers bind the same variable")
    asked = [nnf(guard) for guard in guards]
    parts = universal_parts(nnf(formula), set(axes))
    if parts is None:
        raise LimitError("a quantifier inside of time has the future beneath it")
    there = _presence(axes, formula, presence, moves)
    scoped = [((*axes, *more), part) for more, part in parts]
    leaves = tuple(_leaf(mine, asked, there, part) for mine, part in scoped)
    pairs = tuple(
        _leaf(mine, asked, there, _at_once(first, second))
        for (mine, first), (others, second) in itertools.islice(
            itertools.combinations(scoped, 2), _MOST_PAIRS
        )
        if mine == others and having(first, looks_ahead) and having(second, looks_ahead)
    )
    return WatchedAxiom(axiom.name, axiom.hard, axes, low, last, timed, leaves, pairs)


def _at_once(first: c.Formula, second: c.Formula) -> c.Formula:
    """What two parts say of cells that both ask something of, as of `a ∧ c` in `a → b`, `c → d`."""
    (here, later), (here_too, later_too) = _disjuncts(first), _disjuncts(second)
    must = c.And(functools.reduce(c.Or, later), functools.reduce(c.Or, later_too))
    return functools.reduce(c.Or, [*here, *here_too, must])


def _disjuncts(part: c.Formula) -> tuple[list[c.Formula], list[c.Formula]]:
    """What a part is a disjunction of: those without future, and the others."""
    ahead, parts = having(part, looks_ahead), operands(part, c.Or)
    return [p for p in parts if p not in ahead], [p for p in parts if p in ahead]


def _at_first(guard: c.Formula, moves: Callable[[c.Core], bool]) -> c.Formula:
    """A guard outside of time, which is read at the first point."""
    if not any(moves(node) for node in postorder(guard)):
        return guard
    if having(guard, looks_ahead):
        raise LimitError("a guard looks ahead")
    return c.Aggregate(False, c.And(c.Edge(True), guard), c.Window(), past=True)


def _leaf(axes: Axes, asked: list[c.Formula], there: list[c.Formula], part: c.Formula) -> Leaf:
    ahead = having(part, looks_ahead)
    when = list(asked)
    if having(part, lambda n: _is_past(n) and n in ahead):
        raise LimitError("an operator of the past has the future beneath it")
    here, must = _disjuncts(part)
    when += [nnf(c.Not(node)) for node in here if node != c.Truth(False)]
    source = functools.reduce(c.Or, must) if must else c.Truth(False)
    final: list[c.Formula] = []
    for mark in there:
        if having(mark, looks_ahead):
            final.append(nnf(c.Not(mark)))
        else:
            when.append(nnf(mark))
    every = [*must, *final]
    if not every:
        return Leaf(axes, tuple(when), None, frozenset(), source)
    bones, settled = _lettered(functools.reduce(c.Or, every), final)
    return Leaf(axes, tuple(when), bones, settled, source)


def _is_past(node: c.Core) -> bool:
    return isinstance(node, c.Shift | c.Until) and node.past


def _lettered(formula: c.Formula, final: list[c.Formula]) -> tuple[Skeleton, frozenset[c.Formula]]:
    """A formula over letters: its parts without future, the largest ones."""
    ahead = having(formula, looks_ahead)
    letters: dict[c.Core, c.Formula] = {}
    settled: set[c.Formula] = {_LAST, _NOT_LAST}

    def visit(node: c.Core, below: list[c.Core]) -> c.Core:
        if isinstance(node, c.Edge) and not node.past:
            return _LAST
        if isinstance(node, c.Not) and node in ahead:
            return _NOT_LAST  # in normal form, of an end alone
        if node in ahead:
            return rebuilt(node, below)
        if isinstance(node, c.Truth) or not isinstance(node, c.Formula):
            return node
        if isinstance(node, c.Not):  # what it negates is one letter, wherever it stands
            return c.Not(letters.setdefault(node.arg, letter(len(letters))))
        return letters.setdefault(node, letter(len(letters)))

    largest = {child for node in ahead for child in children(node) if child not in ahead} | (
        {formula} - ahead
    )
    replaced = fold(formula, lambda n, below: visit(n, below) if n in ahead or n in largest else n)
    for part in final:
        over = fold(part, lambda n, below: visit(n, below) if n in ahead or n in largest else n)
        settled.update(n for n in postorder(over) if isinstance(n, c.Shift | c.Until))
    return Skeleton(replaced, tuple(letters), ()), frozenset(settled)  # type: ignore[arg-type]


# --- who is present ----------------------------------------------------------------------------


def _presence(
    axes: Axes, body: c.Formula, presence: Mapping[str, str], moves: Callable[[c.Core], bool]
) -> list[c.Formula]:
    """Where entities are present when the body uses them: a formula for each use."""
    if not presence:
        return []
    used = times_of_use(body, moves)
    formulas = []
    for axis in axes:
        if axis.sort is not None and axis.sort in presence:
            atom = c.Atom(presence[axis.sort], (c.Variable(axis, axis.sort),))
            spans = used.get((axis, None), {HERE})
            formulas += [_present(atom, span) for span in sorted(spans, key=repr)]
    return formulas


def _present(atom: c.Formula, span: TimeSpan) -> c.Formula:
    """Whether an atom is true at a point of a span, or the span lies outside the trace."""
    low, high = span
    if low is not None and low >= 0:
        if span == HERE:
            return atom
        later = c.Aggregate(False, atom, c.Window(low, high), past=False)
        return later if low == 0 else c.Or(later, c.Shift(c.Truth(False), low, False, True))
    if high is not None and high <= 0:
        far = None if low is None else -low
        earlier = c.Aggregate(False, atom, c.Window(-high, far), past=True)
        return earlier if high == 0 else c.Or(earlier, c.Shift(c.Truth(False), -high, True, True))
    return c.Or(
        c.Aggregate(False, atom, c.Window(0, None if low is None else -low), past=True),
        c.Aggregate(False, atom, c.Window(0, high), past=False),
    )


def conjunction(formulas: tuple[c.Formula, ...]) -> c.Formula:
    """All of some formulas at once."""
    every: c.Formula = TRUE
    for formula in formulas:
        every = both(every, formula)
    return every
