"""How much each axiom can move what is learned, and what a guard would change.

The value of `forall x. G(a -> b)` is a mean over all bindings and times. Where `a` is false the
axiom is true, whatever is learned. If `a` is seldom true, these cells are nearly all of the mean,
and the slope of the axiom is next to nothing. With `a` as a guard, `G forall x where a. b`, the
mean is over the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from fotltn.analysis.cell_rows import conjuncts
from fotltn.analysis.evaluate_cells import used_predicates
from fotltn.analysis.prefix import prefix
from fotltn.analysis.record import Record
from fotltn.evaluation import axiom_values
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, CheckedTheory
from fotltn.logic.text import written
from fotltn.semantics.config import Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.show import show
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


def influences(
    theory: CheckedTheory, tables: Tables, semantics: Semantics, learned: Collection[str]
) -> tuple[AxiomInfluence, ...]:
    """The influence of each axiom on what is learned; none if nothing is, or it is too large.

    Args:
        theory: the axioms.
        tables: given tables, and the shapes of learned ones.
        semantics: what gives axioms their values.
        learned: the predicates that are learned.
    """
    if semantics.boolean or not learned:
        return ()
    guards = _guards(theory, tables, learned)
    slopes = _slopes(theory, tables, semantics, learned, guards)
    if not slopes:
        return ()
    total = sum(a.weight * slopes[a.name] for a in theory.axioms)
    return tuple(_influence(a, slopes, guards.get(a.name), total) for a in theory.axioms)


def weak_axioms(
    theory: CheckedTheory, tables: Tables, semantics: Semantics, learned: Collection[str]
) -> tuple[str, ...]:
    """The axioms that hardly move what is learned; those that a guard could help are looked at."""
    if semantics.boolean or not learned:
        return ()
    helped = _guards(theory, tables, learned)
    some = replace(theory, axioms=tuple(a for a in theory.axioms if a.name in helped))
    return tuple(one.axiom for one in influences(some, tables, semantics, learned) if one.weak)


def _guards(
    theory: CheckedTheory, tables: Tables, learned: Collection[str]
) -> dict[str, c.Formula]:
    """The axioms that can have a guard, with it."""
    crisp = {n for n in tables.predicates if n not in learned and _is_crisp(tables, n)}
    guards = {a.name: guarded(a.formula, crisp) for a in theory.axioms}
    return {name: formula for name, formula in guards.items() if formula is not None}


def _slopes(
    theory: CheckedTheory,
    tables: Tables,
    semantics: Semantics,
    learned: Collection[str],
    guards: Mapping[str, c.Formula],
) -> dict[str, float]:
    """The slope of each axiom, without a guard and with one; none if that is too large."""
    shapes = {}
    for name in learned:
        declared = theory.signature.predicates[name]
        times = 1 if declared.static else tables.horizon
        shapes[name] = (tables.batch, *(tables.sizes[s] for s in declared.sorts), times)
    if not theory.axioms or sum(map(math.prod, shapes.values())) > _MOST_CELLS:
        return {}
    degrees = {
        n: torch.full(shape, 0.5, dtype=tables.dtype, device=tables.lengths.device).requires_grad_()
        for n, shape in shapes.items()
    }
    formulas = {a.name: a.formula for a in theory.axioms}
    formulas |= {name + _MARK: formula for name, formula in guards.items()}
    predicates: dict[str, Tensor | SparseTable] = {**tables.predicates, **degrees}
    blank = replace(tables, predicates=predicates, decisions=None)
    with torch.enable_grad():
        values = axiom_values(formulas, blank, semantics)
        return {name: _slope(value, degrees) for name, value in values.items()}


def _influence(
    axiom: CheckedAxiom, slopes: Mapping[str, float], guard: c.Formula | None, total: float
) -> AxiomInfluence:
    slope, share = slopes[axiom.name], 0.0
    if total > 0:
        share = axiom.weight * slope / total
    if guard is None or not slope or not slopes[axiom.name + _MARK]:
        return AxiomInfluence(axiom.name, slope, share)
    better = Axiom(axiom.name, written(guard), axiom.weight, axiom.hard)
    text = f"axiom {better.name}: {show(better.formula)}"
    gain = slopes[axiom.name + _MARK] / slope
    return AxiomInfluence(axiom.name, slope, share, gain, f"hard {text}" if axiom.hard else text)


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
    return timeless and bool(used_predicates(part)) and used_predicates(part) <= set(crisp)


def _is_crisp(tables: Tables, name: str) -> bool:
    table = tables.table(name)
    degrees = table.value if isinstance(table, SparseTable) else table
    plain = not isinstance(table, SparseTable) or table.default in (0, 1)
    return plain and bool(((degrees == 0) | (degrees == 1)).all())


def _slope(value: Tensor, degrees: Mapping[str, Tensor]) -> float:
    if not value.requires_grad:
        return 0.0
    slopes = torch.autograd.grad(
        value, list(degrees.values()), allow_unused=True, retain_graph=True
    )
    return sum(float(s.abs().sum(dtype=torch.float64)) for s in slopes if s is not None)
