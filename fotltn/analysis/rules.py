"""What rules are worth on data alone: support, confidence, base rate and lift, with intervals.

A rule `forall x. G(if -> then)` has cells: one for each trace, binding and time. Its support are
the cells where the antecedent is true, its confidence the share of them where the consequent is.
The base rate is the share of true consequents wherever that can be asked, and the lift the ratio
of the two: above 1, the antecedent says something about the consequent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fotltn.algebra.expr import free_axes
from fotltn.analysis.bootstrap import Counts, Draws, Estimate, estimate, ratio
from fotltn.analysis.evaluate_cells import sweep, two_valued
from fotltn.analysis.prefix import Layer, Prefix, Weights, prefix, weights
from fotltn.analysis.truncation import reach
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom
from fotltn.logic.signature import Signature
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.interpretation import Tables

#: Where entities of a sort are present, with axes (trace, entity, time).
Present = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Strength:
    """How a rule does on some cells.

    Args:
        support: cells where the antecedent is true; of a rule that is no implication, all cells.
            Under a semantics of degrees, the sum of them.
        traces: traces that have such cells.
        confidence: the share of the support where the consequent is true, too.
        base_rate: the share of true consequents over all cells of the consequent.
        lift: confidence over base rate.
    """

    support: float
    traces: int
    confidence: Estimate
    base_rate: Estimate
    lift: Estimate

    def as_dict(self) -> dict[str, object]:
        """The numbers for machines."""
        return {
            "support": self.support,
            "traces": self.traces,
            "confidence": self.confidence.as_dict(),
            "base_rate": self.base_rate.as_dict(),
            "lift": self.lift.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and how it does.

    Args:
        name: of the axiom, or its text.
        text: the rule as it is written.
        implication: whether there is an antecedent under ∀ and G.
        whole: on all cells, with the ends of traces read as the language reads them: `WX a` is
            true at the last point, `F a` is false if `a` has not come by then.
        uncut: on the cells from which the consequent looks at points of the trace alone; None if
            it looks as far as the end, wherever that is.
    """

    name: str
    text: str
    implication: bool
    whole: Strength
    uncut: Strength | None

    @property
    def cut(self) -> float | None:
        """The support at cells from which the consequent looks beyond the end of the trace."""
        return None if self.uncut is None else self.whole.support - self.uncut.support

    def as_dict(self) -> dict[str, object]:
        """The rule for machines."""
        return {
            "rule": self.name,
            "text": self.text,
            "implication": self.implication,
            **self.whole.as_dict(),
            "cut": self.cut,
            "uncut": None if self.uncut is None else self.uncut.as_dict(),
        }


def rules(
    axioms: Sequence[CheckedAxiom],
    signature: Signature,
    tables: Tables,
    *,
    present: Present | None = None,
    traces: Sequence[int] | None = None,
    semantics: Semantics = CRISP,
    threshold: float = 0.5,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[Rule, ...]:
    """Say of each rule how well its antecedent predicts its consequent.

    A cell counts where all entities of its binding are present. For the base rate these are the
    entities of the consequent alone, and of guards the parts that speak of no others.

    Args:
        axioms: the rules.
        signature: what they use.
        tables: the tables.
        present: for sorts whose entities come and go, where they are present.
        traces: the numbers of the traces to count; None for all.
        semantics: crisp to count cells; of degrees, these are summed, and a degree that is both
            is that of `if & then`. Where all facts are 0 or 1, "godel" sums to the crisp counts.
        threshold: the degree from which on a fact is true, in guards or if crisp.
        resamples: how often traces are drawn anew, for the intervals; 0 for none.
        seed: of these draws.

    Raises:
        DataError: there are no such traces, or a number is out of range.
    """
    if not 0 < threshold <= 1:
        raise DataError(f"a threshold lies above 0 and at most at 1, not at {threshold}")
    chosen = np.arange(tables.batch) if traces is None else np.asarray(traces, dtype=np.int64)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= tables.batch:
        raise DataError(f"rules are counted on some of the traces 0 to {tables.batch - 1}")
    draws = Draws(len(chosen), resamples, seed)
    read = two_valued(tables, threshold) if semantics.boolean else tables
    given = _Data(signature, read, present or {}, semantics, threshold)
    found = []
    for axiom in axioms:
        whole = prefix(axiom.formula)
        ahead = reach(whole.body if whole.rule is None else whole.rule[1])
        every, uncut = (counts[:, chosen] for counts in _counts(whole, given, ahead or 0))
        implies = whole.rule is not None
        found.append(
            Rule(
                axiom.name, str(axiom.source), implies, _strength(every, draws, implies),
                None if ahead is None else _strength(uncut, draws, implies),
            )
        )  # fmt: skip
    return tuple(found)


def _strength(counts: Counts, draws: Draws, implication: bool) -> Strength:
    """From counts with axes (support, held, cells of the consequent, true ones; trace)."""

    def measures(sums: Counts) -> tuple[Counts, Counts, Counts]:
        support, held, cells, true = sums
        confidence = ratio(held, support)
        if not implication:
            nothing = np.full_like(confidence, np.nan)
            return confidence, nothing, nothing
        base = ratio(true, cells)
        return confidence, base, ratio(confidence, base)

    sums = counts.sum(axis=1)
    drawn = measures(draws.sums(counts.T).T)
    found = [estimate(*pair) for pair in zip(measures(sums), drawn, strict=True)]
    return Strength(float(sums[0]), int((counts[0] > 0).sum()), *found)


# --- counting ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    signature: Signature
    tables: Tables
    present: Present
    semantics: Semantics
    threshold: float

    def there(self, axes: tuple[c.Axis, ...], cut: tuple[int, int]) -> Tensor | bool:
        """Where all entities of a binding are present, with axes (trace, `axes` …, time)."""
        found: Tensor | bool = True
        for place, axis in enumerate(axes):
            for mask in self._masks(axis):
                own = mask[:, cut[0] : cut[1]] if place == 0 else mask
                shape = [own.shape[0], *[1] * len(axes), own.shape[2]]
                shape[1 + place] = own.shape[1]
                found = found & own.reshape(shape)
        return found

    def _masks(self, axis: c.Axis) -> list[Tensor]:
        if axis.relation is None:
            found = self.present.get(str(axis.sort))
            return [] if found is None else [found]
        tuples = self.tables.relation(axis.relation)
        sorts = self.signature.relations[axis.relation].sorts
        return [self.present[s][:, tuples[:, i]] for i, s in enumerate(sorts) if s in self.present]


def _counts(whole: Prefix, given: _Data, ahead: int) -> tuple[Counts, Counts]:
    """By trace: support, how much of it holds, cells of the consequent, and how many are true.

    Once for all cells, and once for those that have so many points ahead.
    """
    antecedent, consequent = whole.rule or (c.Truth(True), whole.body)
    free = free_axes(consequent)
    own = tuple(a for a in whole.axes if a in free)
    both = c.And(antecedent, consequent)
    rule = _summed({"if": antecedent, "both": both}, whole.axes, _seen(whole, given), given, ahead)
    base = _summed({"then": consequent}, own, _seen(_about(whole, own), given), given, ahead)
    every, uncut = (
        np.stack([r["if"], r["both"], b[""], b["then"]]) for r, b in zip(rule, base, strict=True)
    )
    return every, uncut


def _seen(whole: Prefix, given: _Data) -> Weights:
    return weights(whole, given.tables, threshold=given.threshold, count=True)


def _summed(
    formulas: Mapping[str, c.Formula],
    axes: tuple[c.Axis, ...],
    counted: Weights,
    given: _Data,
    ahead: int,
) -> tuple[dict[str, Counts], dict[str, Counts]]:
    """Sums of values by trace over the cells that count; without a name, how many these are."""
    tables = given.tables
    every = {name: np.zeros(tables.batch) for name in (*formulas, "")}
    uncut = {name: np.zeros(tables.batch) for name in every}
    times = torch.arange(tables.horizon, device=tables.lengths.device)
    inner = times + ahead < tables.lengths.unsqueeze(-1)
    inner = inner.reshape(tables.batch, *[1] * len(axes), tables.horizon)
    parts = sweep(formulas, axes, given.signature, tables, given.semantics, dtype=torch.float64)
    for part in parts:
        cut = (part.start, part.stop)
        seen = (counted.at(axes, cut) > 0) & given.there(axes, cut)
        shape = part.shape(axes, tables)
        for name in every:
            value = part.values[name] if name else torch.ones((), dtype=torch.bool)
            for sums, where in ((every, seen), (uncut, seen & inner)):
                kept = value & where if value.dtype == torch.bool else torch.where(where, value, 0)
                cells = kept.expand(shape).flatten(1)
                sums[name] += cells.sum(1, dtype=torch.float64).cpu().numpy()
    return every, uncut


def _about(whole: Prefix, own: tuple[c.Axis, ...]) -> Prefix:
    """The layers as far as they speak of some axes: others are not bound, nor named in guards."""
    layers: list[Layer] = []
    for layer in whole.layers:
        if isinstance(layer, c.Quantifier):
            axes = tuple(a for a in layer.axes if a in own)
            guard = _joined([g for g in _conjuncts(layer.guard) if free_axes(g) <= set(own)])
            if not axes and guard is None:
                continue
            layer = replace(layer, axes=axes, guard=guard)
        layers.append(layer)
    return Prefix(tuple(layers), whole.body)


def _conjuncts(guard: c.Formula | None) -> list[c.Formula]:
    found: list[c.Formula] = []
    waiting = [] if guard is None else [guard]
    while waiting:
        match waiting.pop():
            case c.And(left, right):
                waiting += [right, left]
            case other:
                found.append(other)
    return found


def _joined(parts: list[c.Formula]) -> c.Formula | None:
    if not parts:
        return None
    found = parts[0]
    for part in parts[1:]:
        found = c.And(found, part)
    return found
