"""Write parts of a checked formula as text in the language."""

from __future__ import annotations

import itertools
from typing import Any, assert_never

from fotltn.logic import core as c
from fotltn.syntax import formula as f
from fotltn.syntax.operators import Temporal
from fotltn.syntax.show import show
from fotltn.tree import children, events, fold, postorder

#: Larger parts are shown by their outermost operator alone.
MAX_SHOWN = 800

_STEPS = {
    (False, False): Temporal.X, (False, True): Temporal.WX,
    (True, False): Temporal.Y, (True, True): Temporal.WY,
}  # fmt: skip
_POINTS = {
    (False, False): Temporal.F, (False, True): Temporal.G,
    (True, False): Temporal.O, (True, True): Temporal.H,
}  # fmt: skip
_UNTIL = {
    (False, False): Temporal.U, (False, True): Temporal.R,
    (True, False): Temporal.S, (True, True): Temporal.T,
}  # fmt: skip


def written(formula: c.Formula) -> f.Formula:
    """Return the formula in the language; `<->` is restored, but W, M and strict forms are not."""
    syntax = fold(formula, _written)
    assert isinstance(syntax, f.Formula)
    return syntax


def text_of(formula: c.Formula) -> str:
    """Return the ASCII text of a formula; very large parts are left out."""
    if next(itertools.islice(events(formula), MAX_SHOWN, None), None) is None:
        return show(written(formula))
    hidden = f.Atom("…")
    below = [hidden if isinstance(n, c.Formula) else fold(n, _written) for n in children(formula)]
    return show(_written(formula, below))


def is_iff(node: c.Formula) -> bool:
    """Return whether a conjunction is `a <-> b`: both implications."""
    if not (isinstance(node, c.And) and isinstance(there := node.left, c.Implies)):
        return False
    return node.right == c.Implies(there.right, there.left)


def kind_of(node: c.Formula) -> str:
    """Return the kind of a part of a formula, in a word or two."""
    kind = c.closed(node)
    match kind:
        case c.Truth():
            return "constant"
        case c.Quantifier(universal):
            return "forall" if universal else "exists"
        case c.Shift(_, _, past, weak):
            return _STEPS[past, weak].value.words
        case c.Aggregate(universal, _, _, past):
            return _POINTS[past, universal].value.words
        case c.Until(dual, _, _, _, past):
            return _UNTIL[past, dual].value.words
        case (
            c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or() | c.Implies()
        ):  # fmt: skip
            return type(kind).__name__.lower()
        case _:
            assert_never(kind)


def _written(core: c.Core, below: list[Any]) -> f.Syntax:
    assert isinstance(core, c.AnyTerm | c.AnyFormula)
    node: c.AnyTerm | c.AnyFormula = core
    match node:
        case c.Variable(axis, _, column):
            return f.Var(axis.name.split(",")[column or 0])
        case c.Constant(name):
            return f.Const(name)
        case c.Number(value):
            return f.Number(value)
        case c.Apply(name):
            return f.Apply(name, tuple(below))
        case c.Truth(value):
            return f.Truth(value)
        case c.Edge(past):
            return f.Edge("first" if past else "last")
        case c.Atom(name):
            return f.Atom(name, tuple(below))
        case c.Equal():
            return f.Equal(*below)
        case c.Compare(op):
            return f.Compare(op, *below)
        case c.Not():
            return f.Not(*below)
        case c.And():
            if is_iff(node) and isinstance(below[0], f.Implies):
                return f.Iff(below[0].left, below[0].right)
            return f.And(*below)
        case c.Or():
            return f.Or(*below)
        case c.Implies():
            return f.Implies(*below)
        case c.Quantifier(universal, axes, guard):
            kind = f.Forall if universal else f.Exists
            test = below[0] if guard is not None else None
            told = _told(node)
            return kind(tuple(_binder(a, a in told) for a in axes), test, below[-1])
        case c.Shift(_, steps, past, weak):
            bound = None if steps == 1 else f.Bound(steps, steps)
            return f.Unary(_STEPS[past, weak], below[0], bound)
        case c.Aggregate(universal, _, window, past):
            return f.Unary(_POINTS[past, universal], below[0], _bound(window))
        case c.Until(dual, _, _, window, past):
            return f.Binary(_UNTIL[past, dual], below[0], below[1], _bound(window))
        case _:
            assert_never(node)


def _told(formula: c.Core) -> set[c.Axis]:
    """Return the axes whose variables are arguments of a predicate or function."""
    uses = [node for node in postorder(formula) if isinstance(node, c.Atom | c.Apply)]
    return {a.axis for node in uses for a in node.args if isinstance(a, c.Variable)}


def _binder(axis: c.Axis, told: bool) -> f.Binder | f.Paired:
    """Return a variable, with its sort if no predicate or function determines it."""
    if axis.relation is None:
        return f.Binder(axis.name, None if told else axis.sort)
    return f.Paired(tuple(map(f.Binder, axis.name.split(","))), axis.relation)


def _bound(window: c.Window) -> f.Bound | None:
    if (window.low, window.high) == (0, None):
        return None
    return f.Bound(window.low, window.high)
