"""How much each axiom can move what is learned, and what a guard would change.

The value of `forall x. G(a -> b)` is a mean over all bindings and times. Where `a` is false the
axiom is true, whatever is learned. If `a` is seldom true, these cells are nearly all of the mean,
and the slope of the axiom is next to nothing. With `a` as a guard, `G forall x where a. b`, the
mean is over the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

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
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.show import show_axiom
from fotltn.syntax.theory import Axiom
from fotltn.tree import postorder

#: An axiom that a guard would give so many times its slope hardly moves what is learned.
WEAK = 10.0

#: What is said of such axioms.
WEAKNESS = (
    "hardly any influence on what is learned, since its conditions are seldom true; with these as "
    "a guard it would have some"
)

_MOST_CELLS = 2**27  # of the tables of what is learned
_MARK = " (guarded)"  # no axiom's name has a blank


@dataclass(frozen=True, slots=True)
class AxiomInfluence(Record):
    """How much an axiom can move what is learned, where nothing is known of that yet.

    Args:
        axiom: its name.
        slope: the sum of its derivatives, without signs, by all degrees that are learned, where all
            of these are 0.5.
        share: its share in the slopes of all axioms, by weight.
        gain: how many times its slope would be with the guard; None if there is none to suggest.
        suggestion: the axiom with the guard, as text.
    """

    axiom: str
    slope: float
    share: float
    gain: float | None = None
    suggestion: str | None = None

    @property
    def weak(self) -> bool:
        """Whether the axiom hardly moves what is learned, and a guard would change that."""
        return self.gain is not None and self.gain >= WEAK


@dataclass(frozen=True, slots=True, eq=False)
class InfluencePart:
    """What some traces say of the influence of axioms.

    Args:
        crisp: the given predicates that are true or false in these traces.
        guards: the axioms that can have a guard, with it.
        values: of each axiom where nothing is known, by trace; with its guard, under another name.
        slopes: the sums of its slopes, likewise; none if that is too large.
    """

    crisp: frozenset[str] = frozenset()
    guards: Mapping[str, c.Formula] = field(default_factory=dict)
    values: Mapping[str, Tensor] = field(default_factory=dict)
    slopes: Mapping[str, Tensor] = field(default_factory=dict)


def influences(view: View) -> tuple[AxiomInfluence, ...]:
    """The influence of each axiom on what is learned; none if nothing is, or it is too large.

    Of tables that are learned, only the shapes count.
    """
    return influences_of(view.theory, [influence_part(view)], view.semantics)


def influence_part(view: View, crisp: Collection[str] | None = None) -> InfluencePart:
    """What some traces say of it; `crisp` if other traces have degrees that these do not have."""
    if view.semantics.boolean or not view.learned:
        return InfluencePart()
    certain = _crisp(view) if crisp is None else _crisp(view) & set(crisp)
    guards = _guards(view, certain)
    return InfluencePart(certain, guards, *_slopes(view, guards))


def influences_of(
    theory: CheckedTheory, parts: Sequence[InfluencePart], semantics: Semantics
) -> tuple[AxiomInfluence, ...]:
    """The influence of each axiom, from what all traces say, which know the same guards."""
    if not all(part.slopes for part in parts):
        return ()
    slopes = {
        name: over_all_traces(
            torch.cat([part.slopes[name] for part in parts]),
            torch.cat([part.values[name] for part in parts]),
            semantics,
        )
        for name in parts[0].slopes
    }
    total = sum(a.weight * slopes[a.name] for a in theory.axioms)
    guards = parts[0].guards
    return tuple(_influence(a, slopes, guards.get(a.name), total) for a in theory.axioms)


def weak_axioms(view: View) -> tuple[str, ...]:
    """The axioms that hardly move what is learned; those that a guard could help are looked at."""
    if view.semantics.boolean or not view.learned:
        return ()
    helped = _guards(view, _crisp(view))
    some = replace(view.theory, axioms=tuple(a for a in view.theory.axioms if a.name in helped))
    return tuple(one.axiom for one in influences(replace(view, theory=some)) if one.weak)


def _crisp(view: View) -> frozenset[str]:
    """The given predicates that are true or false."""
    tables = view.tables
    return frozenset(n for n in tables.predicates if n not in view.learned and _is_crisp(tables, n))


def _guards(view: View, crisp: Collection[str]) -> dict[str, c.Formula]:
    """The axioms that can have a guard, with it."""
    guards = {a.name: guarded(a.formula, crisp) for a in view.theory.axioms}
    return {name: formula for name, formula in guards.items() if formula is not None}


def _slopes(
    view: View, guards: Mapping[str, c.Formula]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Values and slopes of each axiom, without a guard and with one; none if it is too large."""
    theory, tables, shapes = view.theory, view.tables, {}
    for name in view.learned:
        declared = theory.signature.predicates[name]
        times = 1 if declared.static else tables.horizon
        shapes[name] = (tables.batch, *(tables.sizes[s] for s in declared.sorts), times)
    if not theory.axioms or sum(map(math.prod, shapes.values())) > _MOST_CELLS:
        return {}, {}
    device, dtype = tables.lengths.device, tables.dtype
    inputs = {
        n: learnable(torch.full(shape, 0.5, dtype=dtype, device=device), tables.batch, dtype)
        for n, shape in shapes.items()
    }
    formulas = {a.name: a.formula for a in theory.axioms}
    formulas |= {name + _MARK: formula for name, formula in guards.items()}
    degrees = {n: table for n, (_, table) in inputs.items()}
    blank = replace(tables, predicates={**tables.predicates, **degrees}, decisions=None)
    nothing = torch.zeros(tables.batch, dtype=torch.float64, device=device)
    with torch.enable_grad():
        values = trace_values(formulas, blank, view.semantics, view.budget)
        slopes = {n: sum(trace_slopes(v, inputs).values(), nothing) for n, v in values.items()}
    return {name: value.detach() for name, value in values.items()}, slopes


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
    """An axiom whose given conditions are a guard, inside of time: `G forall x where a. b`.

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
    """Whether a condition is given, and about the present alone."""
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
