"""Split an axiom into its cells, the conditions on them, and their demands, for a watch.

`forall x. G(a -> X b)` has a cell for each x and each time point. Where the condition `a` is true,
the demand `X b` must come true. An axiom with several conjuncts has a *leaf* for each; a cell is
violated if one of its leaves is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom
from fotltn.logic.nnf import TRUE, both, nnf
from fotltn.logic.parts import changes, conjuncts, operands
from fotltn.logic.prefix import at_first, prefix
from fotltn.logic.presence import (
    Presence,
    as_written,
    declared,
    presence_of,
    relative,
    written_out,
)
from fotltn.logic.signature import Signature
from fotltn.monitor.compile import Skeleton, letter
from fotltn.monitor.domain import Axes
from fotltn.monitor.outer import STUCK, having, looks_ahead, universal_parts
from fotltn.tree import children, fold, postorder, rebuilt, transform

_MOST_PAIRS = 10  # most pairs of leaves that are followed together

#: `last` and its negation as demands, in a form that no theory has.
_LAST = c.Shift(c.Not(c.Truth(True)), 1, past=False, weak=True)
_NOT_LAST = c.Shift(c.Not(c.Truth(False)), 1, past=False, weak=False)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition on the cells of an axiom, and a demand.

    Args:
        axes: its variables; those of the cell come first.
        when: the condition: a cell has the demand where all of these are true.
        must: the demand, over letters; None if it is false.
        final: the parts of `must` that the end of a trace always decides.
        source: the demand as a formula.
    """

    axes: Axes
    when: tuple[c.Formula, ...]
    must: Skeleton | None
    final: frozenset[c.Formula]
    source: c.Formula

    @property
    def condition(self) -> c.Formula:
        """The condition as one formula."""
        return functools.reduce(both, (TRUE, *self.when))


@dataclass(frozen=True, slots=True)
class WatchedAxiom:
    """An axiom as a watch follows it.

    Args:
        name: the name of the axiom.
        hard: whether the axiom is hard.
        axes: the variables of a cell.
        first, last: the first and last time point with cells; without a last one, to the end.
        timed: whether there are cells at more time points than the first.
        leaves: its leaves.
        pairs: pairs of leaves that may contradict each other, each as one leaf.
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
    axiom: CheckedAxiom, presence: Mapping[str, tuple[str, ...]], signature: Signature
) -> WatchedAxiom:
    """Return an axiom as a watch follows it.

    Args:
        axiom: a checked axiom.
        presence: for a sort whose entities come and go, the predicates of their presence.
        signature: the signature of the theory.

    Raises:
        LimitError: the axiom cannot be watched.
    """
    here = {f"present {sort}": names for sort, names in presence.items()}
    stated = itertools.chain(*presence.values())
    absence = presence_of({sort: f"present {sort}" for sort in presence}, signature, stated)
    told = declared(signature, absence)
    split = prefix(axiom.formula)
    axes, body = split.axes, split.body
    guards: list[c.Formula] = []
    low, timed = 0, False
    last: int | None = 0
    for layer in split.layers:
        if isinstance(layer, c.Quantifier):
            guards += [] if layer.guard is None else [_asked(layer.guard, absence)]
            continue
        if layer.past:
            raise LimitError("it begins with a past operator")
        if timed and changes(told, *guards):
            raise LimitError("a guard that changes stands between two temporal operators")
        guards = [at_first(guard, told) for guard in guards]
        low += layer.window.low
        last = None if last is None or layer.window.high is None else last + layer.window.high
        timed = True
    if any(having(guard, looks_ahead) for guard in guards):
        raise LimitError("a guard looks ahead")
    if len(set(axes)) < len(axes):
        raise LimitError("two of its quantifiers bind the same variable")
    asked = [nnf(guard) for guard in guards]
    defined, body = relative(body, absence)
    marks = [part for part in conjuncts(defined) if part != c.Truth(True)]
    parts = universal_parts(nnf(written_out(body)), set(axes))
    if parts is None:
        raise LimitError(STUCK)
    scoped = [((*axes, *more), part) for more, part in parts]
    leaves = tuple(_leaf(mine, asked, marks, part, absence, here) for mine, part in scoped)
    pairs = tuple(
        _leaf(mine, asked, marks, _at_once(first, second), absence, here)
        for (mine, first), (others, second) in itertools.islice(
            itertools.combinations(scoped, 2), _MOST_PAIRS
        )
        if mine == others and having(first, looks_ahead) and having(second, looks_ahead)
    )
    return WatchedAxiom(axiom.name, axiom.hard, axes, low, last, timed, leaves, pairs)


def _at_once(first: c.Formula, second: c.Formula) -> c.Formula:
    """Join two parts for cells with both conditions: `a → b`, `c → d` give `a ∧ c → b ∧ d`."""
    (here, later), (here_too, later_too) = _disjuncts(first), _disjuncts(second)
    must = c.And(functools.reduce(c.Or, later), functools.reduce(c.Or, later_too))
    return functools.reduce(c.Or, [*here, *here_too, must])


def _disjuncts(part: c.Formula) -> tuple[list[c.Formula], list[c.Formula]]:
    """Return the disjuncts of a part: those without future operators, and the others."""
    ahead, parts = having(part, looks_ahead), operands(part, c.Or)
    return [p for p in parts if p not in ahead], [p for p in parts if p in ahead]


def _leaf(
    axes: Axes, asked: list[c.Formula], marks: list[c.Formula], part: c.Formula,
    absence: Presence, here: Mapping[str, tuple[str, ...]],
) -> Leaf:  # fmt: skip
    """Return a leaf; `marks` say where the part is defined, and `here` what presence is called."""
    ahead = having(part, looks_ahead)
    when = list(asked)
    if having(part, lambda n: _is_past(n) and n in ahead):
        raise LimitError("a past operator has a future operator below it")
    now, must = _disjuncts(part)
    when += [nnf(c.Not(node)) for node in now if node != c.Truth(False)]
    source = functools.reduce(c.Or, must) if must else c.Truth(False)
    final: list[c.Formula] = []
    for mark in marks:
        if having(mark, looks_ahead):
            final.append(nnf(c.Not(mark)))
        else:
            when.append(nnf(mark))
    source = as_written(source, absence)
    when, must, final = ([_by_name(f, here) for f in some] for some in (when, must, final))
    every = [*must, *final]
    if not every:
        return Leaf(axes, tuple(when), None, frozenset(), source)
    bones, settled = _lettered(functools.reduce(c.Or, every), final)
    return Leaf(axes, tuple(when), bones, settled, source)


def _is_past(node: c.Core) -> bool:
    return isinstance(node, c.Shift | c.Until) and node.past


def _lettered(formula: c.Formula, final: list[c.Formula]) -> tuple[Skeleton, frozenset[c.Formula]]:
    """Replace the largest parts without future operators by letters."""
    ahead = having(formula, looks_ahead)
    letters: dict[c.Core, c.Formula] = {}
    settled: set[c.Formula] = {_LAST, _NOT_LAST}

    def visit(node: c.Core, below: list[c.Core]) -> c.Core:
        if node not in ahead and node not in largest:
            return node
        if isinstance(node, c.Edge) and not node.past:
            return _LAST
        if isinstance(node, c.Not) and node in ahead:
            return _NOT_LAST  # in normal form, only `last` is negated there
        if node in ahead:
            return rebuilt(node, below)
        if isinstance(node, c.Truth) or not isinstance(node, c.Formula):
            return node
        if isinstance(node, c.Not):  # a formula and its negation share one letter
            return c.Not(letters.setdefault(node.arg, letter(len(letters))))
        return letters.setdefault(node, letter(len(letters)))

    largest = {child for node in ahead for child in children(node) if child not in ahead} | (
        {formula} - ahead
    )
    replaced = fold(formula, visit)
    for part in final:
        over = postorder(fold(part, visit))
        settled.update(n for n in over if isinstance(n, c.Shift | c.Until))
    return Skeleton(replaced, tuple(letters), ()), frozenset(settled)  # type: ignore[arg-type]


# --- presence of entities ----------------------------------------------------------------------


def _asked(guard: c.Formula, presence: Presence) -> c.Formula:
    """Return a guard that is false where it is undefined."""
    defined, value = relative(guard, presence)
    value = written_out(value)
    return value if defined == c.Truth(True) else c.And(defined, value)


def _by_name(formula: c.Formula, here: Mapping[str, tuple[str, ...]]) -> c.Formula:
    """Name predicates of presence as the theory does, in normal form."""

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Atom) and node.predicate in here:
            atoms: list[c.Formula] = [c.Atom(name, node.args) for name in here[node.predicate]]
            return functools.reduce(c.Or, atoms)
        return node

    return nnf(transform(formula, rule)) if here else formula
