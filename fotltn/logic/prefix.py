"""The prefixes of formulas: ∀ and G, which determine the cells, and ∧ between conjuncts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.parts import changes
from fotltn.logic.presence import EVERYONE, Presence, defined_where, present_in
from fotltn.logic.signature import Signature

Layer = c.Quantifier | c.Aggregate


@dataclass(frozen=True, slots=True)
class Prefix:
    """Universal layers, from the outside in, and the formula inside them."""

    layers: tuple[Layer, ...]
    body: c.Formula

    @property
    def axes(self) -> tuple[c.Axis, ...]:
        """Return the axes that the layers bind."""
        return tuple(a for n in self.layers if isinstance(n, c.Quantifier) for a in n.axes)

    @property
    def timed(self) -> bool:
        """Whether the body is read at more time points than the first."""
        return any(isinstance(n, c.Aggregate) for n in self.layers)

    @property
    def rule(self) -> tuple[c.Formula, c.Formula] | None:
        """The antecedent and the consequent, if the body is an implication."""
        return (self.body.left, self.body.right) if isinstance(self.body, c.Implies) else None


def prefix(formula: c.Formula) -> Prefix:
    """Split off all ∀ and G (or H) at the beginning of a formula."""
    layers: list[Layer] = []
    while isinstance(formula, Layer) and formula.universal:
        layers.append(formula)
        formula = formula.body if isinstance(formula, c.Quantifier) else formula.arg
    return Prefix(tuple(layers), formula)


def outer(every: Prefix, count: int) -> Prefix:
    """Keep only the first layers; the others belong to the body."""
    return Prefix(every.layers[:count], rebuild(every.layers[count:], every.body))


def rebuild(layers: tuple[Layer, ...], body: c.Formula) -> c.Formula:
    """Put layers around a body again."""
    for layer in reversed(layers):
        if isinstance(layer, c.Quantifier):
            body = replace(layer, body=body)
        else:
            body = replace(layer, arg=body)
    return body


def is_always(node: c.Aggregate) -> bool:
    """Return whether a node is a G without bounds."""
    return node.universal and node.window == c.Window() and not node.past


def at_first(formula: c.Formula, signature: Signature) -> c.Formula:
    """Return what is true at every time point if a formula is true at the first one."""
    if not changes(signature, formula):
        return formula
    return c.Aggregate(False, c.And(c.Edge(past=True), formula), c.Window(), past=True)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A conjunct of a formula: `forall axes. guards -> body`.

    Args:
        axes: the variables.
        always: whether it holds at all time points, or only at the first.
        guards: the conjunct is about the bindings for which these are true.
        body: the statement, which is not a conjunction.
    """

    axes: tuple[c.Axis, ...]
    always: bool
    guards: tuple[c.Formula, ...]
    body: c.Formula


def said_at_once(
    formula: c.Formula, signature: Signature, presence: Presence = EVERYONE
) -> list[Conjunct]:
    """Return the conjuncts of a formula, taken out of ∀ and G.

    This is for two-valued logic only: the laws do not hold for degrees. Where entities may be
    absent, guards also say where a conjunct counts; what it says is as written.
    """
    result: list[Conjunct] = []
    waiting = [Conjunct((), False, (), formula)]
    while waiting:
        one = waiting.pop()
        match c.closed(one.body):
            case c.And(left, right) as both:
                guards = (*one.guards, *defined_where(both, presence))
                parts = (right, left)
                waiting += [replace(one, guards=guards, body=part) for part in parts]
            case c.Quantifier(True, axes, guard, body):
                guards = (*one.guards, *present_in(axes, presence))
                if guard is not None:
                    guards = (*guards, *defined_where(guard, presence), guard)
                waiting.append(Conjunct((*one.axes, *axes), one.always, guards, body))
            case c.Aggregate() as node if is_always(node) and not changes(signature, *one.guards):
                waiting.append(Conjunct(one.axes, True, one.guards, node.arg))
            case c.Aggregate() as node if is_always(node) and not one.always and presence:
                guards = tuple(at_first(guard, signature) for guard in one.guards)
                waiting.append(Conjunct(one.axes, True, guards, node.arg))
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Or()
                | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                guards = (*one.guards, *defined_where(one.body, presence))
                result.append(replace(one, guards=guards))
            case never:
                assert_never(never)
    return result
