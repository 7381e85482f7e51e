"""Measure rules on data alone: support, confidence, base rate and lift, with intervals.

A rule `forall x. G(if -> then)` has cells: one for each trace, binding and time. Its support is the
number of cells where the antecedent is true, and its confidence is the share of these cells where
the consequent is true. The base rate is the share of true consequents over all cells, and the lift
is the ratio of the two: above 1, the antecedent says something about the consequent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fotltn.analysis.counts import ByTrace, Counts, count, measures
from fotltn.analysis.record import Record
from fotltn.analysis.view import View
from fotltn.errors import DataError, LimitError, listing, name_hint, renamed
from fotltn.logic.check import CheckedAxiom, check_formula
from fotltn.logic.prefix import prefix
from fotltn.logic.signature import Signature
from fotltn.syntax.parse import parse_formula

#: Numbers of traces.
ChosenTraces = np.ndarray[Any, np.dtype[np.int64]]

#: The part of the draws that an interval spans.
LEVEL = 0.95

_LACKING = 0.05  # of the draws may have no value, for an interval to be given
_AT_ONCE = 2**22  # numbers drawn at once


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A number with its interval; None if there is nothing to count or to resample."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Strength(Record):
    """The numbers of a rule on some cells.

    Args:
        support: the cells where the antecedent is true; all cells if the rule is not an
            implication. Under a semantics of degrees, a sum of degrees.
        traces: the traces that have such cells.
        confidence: the share of the support where the consequent is true, too.
        base_rate: the share of true consequents over all cells of the consequent.
        lift: confidence over base rate.
    """

    support: float
    traces: int
    confidence: Estimate
    base_rate: Estimate
    lift: Estimate


@dataclass(frozen=True, slots=True)
class Rule(Record):
    """A rule with its numbers.

    Args:
        name: the name of the axiom, or its text.
        text: the rule as written.
        implication: whether there is an antecedent under ∀ and G.
        overall: the numbers on all cells except the undecided ones. If the ends of traces are
            final, `F a` is false if `a` has not come by then; `WX a` is true at the last point in
            any case.
        uncut: the numbers on the cells from which the consequent looks only at points of the trace;
            None if it looks as far as the end, wherever that is.
        absent: the cells that do not count, because an entity is not present when it is used.
        undecided: the cells that fail only because their trace ends; they do not count as support.
        unlabelled: the cells whose truth depends on facts without a label; no support either.
    """

    name: str
    text: str
    implication: bool
    overall: Strength
    uncut: Strength | None
    absent: int = 0
    undecided: int = 0
    unlabelled: int = 0

    KEYS = (
        "rule=name", "text", "implication", "support=overall.support", "traces=overall.traces",
        "confidence=overall.confidence", "base_rate=overall.base_rate", "lift=overall.lift", "cut",
        "uncut", "absent", "undecided", "unlabelled",
    )  # fmt: skip

    @property
    def cut(self) -> float | None:
        """The support at cells from which the consequent looks beyond the end of the trace."""
        return None if self.uncut is None else self.overall.support - self.uncut.support

    def __getattr__(self, name: str) -> Any:
        """Return `overall` under its name in version 0.1.0."""
        return renamed(self, name, {"whole": "overall"})


def rules(
    view: View,
    formulas: Sequence[str] = (),
    *,
    part: str | None = None,
    traces: Sequence[int] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Iterator[Rule]:
    """Yield for each rule how well its antecedent predicts its consequent.

    A cell counts where each entity of its binding is present at the times at which it is used.
    The base rate is over the entities of the consequent alone, where they are present whenever the
    rule uses them, and over the parts of guards that are about no others.

    Under a crisp semantics, cells are counted. Under a semantics of degrees, degrees are summed:
    the degree to which both sides hold is that of `if & then`, and all ends of traces are final, so
    no sum is undecided. Where all facts are 0 or 1, the sums of "godel" are the crisp counts.

    Args:
        view: the axioms and the tables, and how they are read.
        formulas: closed formulas over the symbols of the theory, in place of its axioms.
        part: the part of the traces, by name; None for all.
        traces: the numbers of the traces to count, in place of a part.
        resamples: how often to resample traces for the intervals; 0 for no intervals.
        seed: the seed of the resampling.

    Raises:
        FotError: a formula is wrong, there are no such traces, or a number is out of range.
        LimitError: a rule does not fit the budget; the message names it.
    """
    axioms = rule_axioms(view, formulas)
    chosen = chosen_traces(view.tables.batch, traces, view.parts, part)
    draws = Draws(len(chosen), resamples, seed)
    return (counted_rule(axiom, rule_counts(view, axiom), chosen, draws) for axiom in axioms)


def rule_axioms(view: View, formulas: Sequence[str]) -> Sequence[CheckedAxiom]:
    """Closed formulas as axioms; without any, those of the view.

    Raises:
        FotError: a formula is wrong.
    """
    return [_rule(text, view.tables.signature) for text in formulas] or view.theory.axioms


def chosen_traces(
    total: int,
    traces: Sequence[int] | None,
    parts: Mapping[str, tuple[int, ...]],
    part: str | None,
) -> ChosenTraces:
    """The numbers of the traces to count, out of a total.

    Raises:
        DataError: there are no such traces.
    """
    if part is not None:
        traces = _traces(parts, part)
    chosen = np.arange(total) if traces is None else np.asarray(traces, dtype=np.int64)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= total:
        raise DataError(f"rules are counted on some of the traces 0 to {total - 1}")
    return chosen


def rule_counts(view: View, axiom: CheckedAxiom) -> tuple[Counts, Counts | None]:
    """The cells of a rule, counted by trace: all, and those far enough from the end.

    Raises:
        LimitError: with the rule that does not fit the budget.
    """
    cells = view.cells(axiom)
    try:
        return count(cells, crisp=cells.semantics.boolean)
    except LimitError as error:
        raise LimitError(f"'{cells.name}': {error.diagnostics[0].message}") from None


def counted_rule(
    axiom: CheckedAxiom,
    counts: tuple[Counts, Counts | None],
    traces: ChosenTraces,
    draws: Draws,
) -> Rule:
    """The numbers of a rule on some traces, from its counts on all traces."""
    every, uncut = counts
    implies = prefix(axiom.formula).rule is not None
    return Rule(
        axiom.name, str(axiom.source), implies, _strength(every, traces, draws, implies),
        None if uncut is None else _strength(uncut, traces, draws, implies),
        *(int(n[traces].sum()) for n in (every.absent, every.undecided, every.unlabelled)),
    )  # fmt: skip


def _rule(text: str, signature: Signature) -> CheckedAxiom:
    source = parse_formula(text, source="--formula")
    checked = check_formula(source, signature)
    if checked.free:
        names = listing([axis.name for axis in checked.free])
        raise DataError(f"a rule has no free variables, but '{text}' has {names}; bind them")
    return CheckedAxiom(text, checked.formula, 1.0, source)


def _traces(parts: Mapping[str, tuple[int, ...]], part: str) -> tuple[int, ...]:
    if part not in parts:
        hint = name_hint(part, parts)
        if not parts:
            hint = "the project has no [data.split]"
        raise DataError(f"there is no part '{part}' of the traces; {hint}")
    if not parts[part]:
        raise DataError(f"no trace is for '{part}'")
    return parts[part]


def _strength(counts: Counts, traces: ChosenTraces, draws: Draws, implication: bool) -> Strength:
    kinds = (counts.support, counts.held, counts.base_cells, counts.base_true)
    by_trace = np.stack(kinds)[:, traces]

    sums = by_trace.sum(axis=1)
    drawn = measures(*draws.sums(by_trace.T).T)
    estimates = [estimate(*pair) for pair in zip(measures(*sums), drawn, strict=True)]
    if not implication:
        estimates[1:] = [Estimate(None)] * 2
    return Strength(float(sums[0]), int((by_trace[0] > 0).sum()), *estimates)


# --- intervals: traces are drawn with replacement --------------------------------------------


class Draws:
    """How often each trace is drawn, the same for all rules.

    Whole traces are drawn, because the steps of a trace are alike: many steps of one clip say less
    than the same number of steps of many clips.
    """

    def __init__(self, traces: int, resamples: int, seed: int) -> None:
        """Fix the draws by a seed; without resamples, or with a single trace, there are none."""
        if not 0 <= resamples <= 10**6:
            raise DataError(f"the resamples are a whole number up to 1,000,000, not {resamples}")
        if not 0 <= seed < 2**63:
            raise DataError(f"a seed is a whole number from 0 to 2**63 - 1, not {seed}")
        self.traces, self.resamples, self.seed = traces, resamples if traces > 1 else 0, seed

    def sums(self, counts: ByTrace) -> ByTrace:
        """Sums of counts, with axes (trace, count), over the traces of each draw."""
        if not self.resamples:
            return np.zeros((0, counts.shape[1]))
        return np.concatenate([drawn @ counts for drawn in self._drawn()])

    def _drawn(self) -> Iterator[ByTrace]:
        generator = np.random.default_rng(self.seed)
        width = max(1, _AT_ONCE // self.traces)
        for start in range(0, self.resamples, width):
            rows = min(width, self.resamples - start)
            picked = generator.integers(self.traces, size=(rows, self.traces))
            picked += np.arange(rows)[:, None] * self.traces
            times = np.bincount(picked.reshape(-1), minlength=rows * self.traces)
            yield times.reshape(rows, self.traces).astype(np.float64)


def estimate(number: ByTrace | float, drawn: ByTrace) -> Estimate:
    """A number, NaN where there is none, and the interval of its values over draws."""
    value = None if np.isnan(number) else float(number)
    finite = drawn[np.isfinite(drawn)]
    if value is None or not len(drawn) or len(finite) < (1 - _LACKING) * len(drawn):
        return Estimate(value)
    low, high = np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))
