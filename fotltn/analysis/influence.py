"""Measure how much each axiom can move learned predicates, and what a guard would change.

The value of `forall x. G(a -> b)` is a mean over all bindings and times. Where `a` is false the
axiom is true, whatever is learned. If `a` is seldom true, these cells are nearly all of the mean,
and the slope of the axiom is next to nothing. With `a` as a guard, `G forall x where a. b`, the
mean is over the other cells only.

Influence refers to a model that knows nothing: slopes are taken where all learned degrees are 0.5,
and predictions do not matter. So an axiom does not become weak because a trained model satisfies
it. Some axioms, such as `a <-> b`, are flat at 0.5. So before an axiom is called weak, slopes are
also taken at random degrees around 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from statistics import mean
from typing import assert_never

import torch
from torch import Tensor

from fotltn.analysis.record import Record
from fotltn.analysis.slopes import learnable, over_all_traces, trace_slopes
from fotltn.analysis.view import View
from fotltn.evaluation import trace_values
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedTheory
from fotltn.logic.parts import conjuncts, predicates_in
from fotltn.logic.prefix import prefix
from fotltn.logic.text import written
from fotltn.semantics.config import GODEL, PMean, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.show import show_axiom
from fotltn.syntax.theory import Axiom
from fotltn.tree import postorder

#: If a guard would raise the slope of an axiom by this factor, the axiom is weak.
WEAK = 10.0

#: An axiom is also weak if its slope is below this part of the mean slope of learned axioms.
SMALL = 0.01

_MOST_CELLS = 2**27  # of the tables of what is learned
_MARK = " (guarded)"  # no axiom's name has a blank
_ELSEWHERE = " (elsewhere)"


class Weakness(StrEnum):
    """Why an axiom about learned predicates hardly moves them, or not at all."""

    GUARD = "guard"  # its conditions are seldom true; as a guard, they would give it ten times more
    SMALL = "small"  # it moves them far less than others do, and a guard would not help
    UNMOVED = "unmoved"  # learned predicates do not change its value
    NEVER = "never"  # its conditions are never true

    @property
    def meaning(self) -> str:
        """The reason in words, to follow the axiom's name and a colon."""
        match self:
            case Weakness.GUARD:
                return (
                    "hardly any influence on learned predicates, because the conditions are seldom "
                    "true; with these as a guard there would be some (fotltn audit --suggest)"
                )
            case Weakness.NEVER:
                return (
                    "no influence on learned predicates, because the conditions are never true on "
                    "these data"
                )
            case Weakness.UNMOVED:
                return "no influence on learned predicates, because these do not change the value"
            case Weakness.SMALL:
                return (
                    "hardly any influence on learned predicates: less than a hundredth of that of "
                    "an average axiom; a larger weight would give more"
                )
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class AxiomInfluence(Record):
    """How much an axiom can move learned predicates before anything is learned.

    Args:
        axiom: its name.
        slope: the sum of its derivatives, without signs, by all degrees that are learned, where all
            of these are 0.5.
        share: its share in the slopes of all axioms, by weight.
        gain: how many times larger its slope would be with the guard; None without a suggestion.
        suggestion: the axiom with the guard, as text.
        weakness: why it hardly moves learned predicates; None if it does move them, or mentions
            none.
    """

    axiom: str
    slope: float
    share: float
    gain: float | None = None
    suggestion: str | None = None
    weakness: Weakness | None = None

    @property
    def weak(self) -> bool:
        """Whether the axiom mentions learned predicates, but hardly moves them."""
        return self.weakness is not None


@dataclass(frozen=True, slots=True, eq=False)
class InfluencePart:
    """The influence of axioms on some traces.

    Args:
        crisp: the given predicates that are true or false in these traces.
        guards: the axioms that can have a guard, with the guard.
        values: the values of each axiom if nothing is known, by trace; with its guard, under
            another name.
        slopes: the sums of its slopes, by trace and under the same names; empty if the data are
            too large.
        learned: the axioms that mention learned predicates.
        never: the axioms among these that may be weak and whose conditions are never true.
    """

    crisp: frozenset[str] = frozenset()
    guards: Mapping[str, c.Formula] = field(default_factory=dict)
    values: Mapping[str, Tensor] = field(default_factory=dict)
    slopes: Mapping[str, Tensor] = field(default_factory=dict)
    learned: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


def influences(view: View) -> tuple[AxiomInfluence, ...]:
    """Return the influence of each axiom; empty if nothing is learned, or the data are too large.

    Only the shapes of learned tables count.
    """
    return influences_of(view.theory, [influence_part(view)], view.semantics)


def influence_part(view: View, crisp: Collection[str] | None = None) -> InfluencePart:
    """Return the influence on some traces; `crisp` gives the crisp predicates of all traces."""
    if view.semantics.boolean or not view.learned:
        return InfluencePart()
    certain = _crisp(view) if crisp is None else _crisp(view) & set(crisp)
    guards = _guards(view, certain)
    return _slopes(view, InfluencePart(certain, guards))


def influences_of(
    theory: CheckedTheory, parts: Sequence[InfluencePart], semantics: Semantics
) -> tuple[AxiomInfluence, ...]:
    """Return the influence of each axiom from parts of the traces with the same guards."""
    if not all(part.slopes for part in parts):
        return ()
    values = {n: torch.cat([part.values[n] for part in parts]) for n in parts[0].slopes}
    slopes = {
        name: over_all_traces(torch.cat([part.slopes[name] for part in parts]), value, semantics)
        for name, value in values.items()
    }
    total = sum(a.weight * slopes[a.name] for a in theory.axioms)
    guards = parts[0].guards
    every = [_influence(a, slopes, guards.get(a.name), total) for a in theory.axioms]
    never = frozenset.intersection(*(part.never for part in parts))
    reasons = _weaknesses(theory, every, slopes, values, parts[0].learned, never, semantics)
    return tuple(replace(one, weakness=reasons.get(one.axiom)) for one in every)


def weaknesses(view: View) -> dict[str, Weakness]:
    """Return the axioms that hardly move learned predicates, with the reasons."""
    return {one.axiom: one.weakness for one in influences(view) if one.weakness is not None}


def _weaknesses(
    theory: CheckedTheory,
    every: Sequence[AxiomInfluence],
    slopes: Mapping[str, float],
    values: Mapping[str, Tensor],
    learned: Collection[str],
    never: Collection[str],
    semantics: Semantics,
) -> dict[str, Weakness]:
    """Return the weak axioms, with the reasons.

    A slope must be small both with and without the weight of the axiom: a small weight is meant to
    make it small, and a large weight makes up for it. If ∀ and G are products, slopes at 0.5 differ
    by powers of the number of cells, and values may underflow. Then slopes say nothing.
    """
    best = {name: max(slopes[name], slopes[name + _ELSEWHERE]) for name in learned}
    weight = {a.name: a.weight for a in theory.axioms}
    weighted = {name: weight[name] * slope for name, slope in best.items()}
    means = isinstance(semantics.forall, PMean) and isinstance(semantics.always, PMean)
    reasons = {}
    for one in every:
        name = one.axiom
        if name not in learned:
            continue
        small = means and all(by[name] < SMALL * mean(by.values()) for by in (best, weighted))
        flat = best[name] == 0 and (means or bool((values[name] > 0).all()))
        if one.gain is not None and one.gain >= WEAK:
            reasons[name] = Weakness.GUARD
        elif (small or flat) and name in never:
            reasons[name] = Weakness.NEVER
        elif flat:
            reasons[name] = Weakness.UNMOVED
        elif small:
            reasons[name] = Weakness.SMALL
    return reasons


def _crisp(view: View) -> frozenset[str]:
    """The given predicates that are true or false."""
    tables = view.tables
    return frozenset(n for n in tables.predicates if n not in view.learned and _is_crisp(tables, n))


def _guards(view: View, crisp: Collection[str]) -> dict[str, c.Formula]:
    """Return the axioms that can have a guard, with the guard."""
    guards = {a.name: guarded(a.formula, crisp) for a in view.theory.axioms}
    return {name: formula for name, formula in guards.items() if formula is not None}


def _slopes(view: View, part: InfluencePart) -> InfluencePart:
    """Return a part with values and slopes of each axiom and guard, unless they are too large."""
    theory, tables, shapes = view.theory, view.tables, {}
    for name in view.learned:
        declared = theory.signature.predicates[name]
        times = 1 if declared.static else tables.horizon
        shapes[name] = (tables.batch, *(tables.sizes[s] for s in declared.sorts), times)
    if not theory.axioms or sum(map(math.prod, shapes.values())) > _MOST_CELLS:
        return part
    formulas = {a.name: a.formula for a in theory.axioms}
    guards = {name + _MARK: formula for name, formula in part.guards.items()}
    half = {name: torch.tensor(0.5).expand(shape) for name, shape in shapes.items()}
    values, slopes = _moved(view, formulas | guards, half)
    touched = frozenset(n for n, f in formulas.items() if predicates_in(f) & set(view.learned))
    sums = {name: float(slopes[name].sum()) for name in touched}
    weak = [n for n in formulas if n in touched and sums[n] <= SMALL * mean(sums.values())]
    for name in touched.difference(weak):
        values[name + _ELSEWHERE], slopes[name + _ELSEWHERE] = values[name], slopes[name]
    if not weak:
        return replace(part, values=values, slopes=slopes, learned=touched)
    generator = torch.Generator().manual_seed(0)
    other = {n: 0.25 + torch.rand(shape, generator=generator) / 2 for n, shape in shapes.items()}
    more = _moved(view, {name + _ELSEWHERE: formulas[name] for name in weak}, other)
    blank = replace(tables, predicates={**tables.predicates, **_like(tables, half)}, decisions=None)
    conditions = {name: _conditions(formulas[name]) for name in weak}
    with torch.no_grad():
        true = trace_values(conditions, blank, GODEL, view.budget)
    never = frozenset(name for name, value in true.items() if not bool((value > 0).any()))
    return replace(
        part, values=values | more[0], slopes=slopes | more[1], learned=touched, never=never
    )


def _moved(
    view: View, formulas: Mapping[str, c.Formula], start: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return values and slopes of formulas, by trace, for some degrees of learned predicates."""
    tables = view.tables
    some = _like(tables, start)
    inputs = {n: learnable(table, tables.batch, tables.dtype) for n, table in some.items()}
    degrees = {n: table for n, (_, table) in inputs.items()}
    blank = replace(tables, predicates={**tables.predicates, **degrees}, decisions=None)
    nothing = torch.zeros(tables.batch, dtype=torch.float64, device=tables.lengths.device)
    with torch.enable_grad():
        values = trace_values(formulas, blank, view.semantics, view.budget)
        slopes = {n: sum(trace_slopes(v, inputs).values(), nothing) for n, v in values.items()}
    return {name: value.detach() for name, value in values.items()}, slopes


def _like(tables: Tables, degrees: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Degrees as tables have them: of their type, where they are."""
    return {n: t.to(tables.lengths.device, tables.dtype) for n, t in degrees.items()}


def _conditions(formula: c.Formula) -> c.Formula:
    """Whether guards and antecedents are true for some binding and time: `∃x F a` of `∀x G(a → b)`.

    Learned degrees are 0.5, so all learned facts may be true. Under minimum and maximum, the value
    is above 0 if the conditions can be true.
    """
    layers: list[c.Quantifier | c.Aggregate | c.Implies] = []
    while isinstance(formula, c.Implies) or (
        isinstance(formula, c.Quantifier | c.Aggregate) and formula.universal
    ):
        layers.append(formula)
        match formula:
            case c.Implies():
                formula = formula.right
            case c.Quantifier():
                formula = formula.body
            case c.Aggregate():
                formula = formula.arg
            case _:
                assert_never(formula)
    some: c.Formula = c.Truth(True)
    for layer in reversed(layers):
        match layer:
            case c.Implies():
                some = c.And(layer.left, some)
            case c.Quantifier():
                some = replace(layer, universal=False, body=some)
            case c.Aggregate():
                some = replace(layer, universal=False, arg=some)
            case _:
                assert_never(layer)
    return some


def _influence(
    axiom: CheckedAxiom, slopes: Mapping[str, float], guard: c.Formula | None, total: float
) -> AxiomInfluence:
    slope, share = slopes[axiom.name], 0.0
    if total > 0:
        share = axiom.weight * slope / total
    if guard is None or not slope or not slopes[axiom.name + _MARK]:
        return AxiomInfluence(axiom.name, slope, share)
    better = Axiom(axiom.name, written(guard), axiom.weight, axiom.hard)
    gain = slopes[axiom.name + _MARK] / slope
    return AxiomInfluence(axiom.name, slope, share, gain, show_axiom(better))


def guarded(formula: c.Formula, crisp: Collection[str]) -> c.Formula | None:
    """Return an axiom with its given conditions as a guard inside `G`: `G forall x where a. b`.

    None if it has no such condition, or no quantifier. In two-valued logic it says the same.

    Args:
        formula: the axiom.
        crisp: the predicates that are given, and true or false.
    """
    start = prefix(formula)
    quantifiers = [layer for layer in start.layers if isinstance(layer, c.Quantifier)]
    times = [layer for layer in start.layers if isinstance(layer, c.Aggregate)]
    if start.rule is None or not quantifiers or any(q.guard is not None for q in quantifiers):
        return None
    moved = [part for part in conjuncts(start.rule[0]) if _can_guard(part, crisp)]
    if not moved:
        return None
    rest = [part for part in conjuncts(start.rule[0]) if part not in moved]
    body = start.rule[1]
    if rest:
        body = c.Implies(reduce(c.And, rest), body)
    axes = tuple(axis for q in quantifiers for axis in q.axes)
    inside: c.Formula = c.Quantifier(True, axes, reduce(c.And, moved), body)
    for layer in reversed(times):
        inside = replace(layer, arg=inside)
    return inside


def _can_guard(part: c.Formula, crisp: Collection[str]) -> bool:
    """Return whether a condition is given, and only about the present."""
    timeless = not any(
        isinstance(n, c.Shift | c.Aggregate | c.Until | c.Edge | c.Quantifier)
        for n in postorder(part)
    )
    return timeless and bool(predicates_in(part)) and predicates_in(part) <= set(crisp)


def _is_crisp(tables: Tables, name: str) -> bool:
    table = tables.table(name)
    degrees = table.value if isinstance(table, SparseTable) else table
    plain = not isinstance(table, SparseTable) or table.default in (0, 1)
    return plain and bool(((degrees == 0) | (degrees == 1)).all())
