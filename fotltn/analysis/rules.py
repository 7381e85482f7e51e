"""What rules are worth on data alone: support, confidence, base rate and lift, with intervals.

A rule `forall x. G(if -> then)` has cells: one for each trace, binding and time. Its support are
the cells where the antecedent is true, its confidence the share of them where the consequent is.
The base rate is the share of true consequents wherever that can be asked, and the lift the ratio
of the two: above 1, the antecedent says something about the consequent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fotltn.analysis.cells import cells_of
from fotltn.analysis.counts import ByTrace, Counts, count, measures
from fotltn.analysis.record import Record
from fotltn.analysis.truncation import End
from fotltn.errors import DataError, LimitError, renamed
from fotltn.logic.check import CheckedAxiom
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import CRISP, Semantics
from fotltn.semantics.tables import Tables

#: The part of the draws that an interval spans.
LEVEL = 0.95

_LACKING = 0.05  # of the draws may have no value, for an interval to be given
_AT_ONCE = 2**22  # numbers drawn at once


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A number with its interval; None where there is nothing to count, or to draw from."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Strength(Record):
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


@dataclass(frozen=True, slots=True)
class Rule(Record):
    """A rule and how it does.

    Args:
        name: of the axiom, or its text.
        text: the rule as it is written.
        implication: whether there is an antecedent under ∀ and G.
        overall: on all cells but the undecided ones. If the ends of traces are final, `F a` is
            false if `a` has not come by then; `WX a` is true at the last point in any case.
        uncut: on the cells from which the consequent looks at points of the trace alone; None if
            it looks as far as the end, wherever that is.
        absent: cells that do not count, since an entity is not present when it is used.
        undecided: cells that fail only since their trace ends; they are no support.
    """

    name: str
    text: str
    implication: bool
    overall: Strength
    uncut: Strength | None
    absent: int = 0
    undecided: int = 0

    KEYS = (
        "rule=name", "text", "implication", "support=overall.support", "traces=overall.traces",
        "confidence=overall.confidence", "base_rate=overall.base_rate", "lift=overall.lift", "cut",
        "uncut", "absent", "undecided",
    )  # fmt: skip

    @property
    def cut(self) -> float | None:
        """The support at cells from which the consequent looks beyond the end of the trace."""
        return None if self.uncut is None else self.overall.support - self.uncut.support

    def __getattr__(self, name: str) -> Any:
        """What `overall` was called in version 0.1.0."""
        return renamed(self, name, {"whole": "overall"})


def rules(
    axioms: Sequence[CheckedAxiom],
    tables: Tables,
    *,
    traces: Sequence[int] | None = None,
    semantics: Semantics = CRISP,
    threshold: float | None = None,
    resamples: int = 2000,
    seed: int = 0,
    budget: int = BUDGET,
    end: End = "undecided",
) -> tuple[Rule, ...]:
    """Say of each rule how well its antecedent predicts its consequent.

    A cell counts where each entity of its binding is present at the times at which it is used.
    For the base rate these are the entities of the consequent alone, and of guards the parts that
    speak of no others.

    Args:
        axioms: the rules.
        tables: the tables.
        traces: the numbers of the traces to count; None for all.
        semantics: crisp to count cells; of degrees, these are summed, and a degree that is both
            is that of `if & then`. Where all facts are 0 or 1, "godel" sums to the crisp counts.
        threshold: the degree from which on a fact is true, in guards or if crisp.
        resamples: how often traces are drawn anew, for the intervals; 0 for none.
        seed: of these draws.
        budget: bytes that intermediate results may take.
        end: whether cells that fail only since their trace ends are undecided, or false. Sums of
            degrees have no such cells: there, all ends are final.

    Raises:
        LimitError: with the rule that does not fit the budget.
        DataError: there are no such traces, or a number is out of range.
    """
    chosen = np.arange(tables.batch) if traces is None else np.asarray(traces, dtype=np.int64)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= tables.batch:
        raise DataError(f"rules are counted on some of the traces 0 to {tables.batch - 1}")
    draws = Draws(len(chosen), resamples, seed)
    strengths = []
    for axiom in axioms:
        cells = cells_of(axiom, tables, semantics, threshold, budget, end=end)
        try:
            every, uncut = count(cells, crisp=semantics.boolean)
        except LimitError as error:
            raise LimitError(f"'{axiom.name}': {error.diagnostics[0].message}") from None
        implies = cells.prefix.rule is not None
        strengths.append(
            Rule(
                axiom.name, str(axiom.source), implies, _strength(every, chosen, draws, implies),
                None if uncut is None else _strength(uncut, chosen, draws, implies),
                int(every.absent[chosen].sum()), int(every.undecided[chosen].sum()),
            )
        )  # fmt: skip
    return tuple(strengths)


def _strength(counts: Counts, traces: Any, draws: Draws, implication: bool) -> Strength:
    kinds = (counts.support, counts.held, counts.base_cells, counts.base_true)
    by_trace = np.stack(kinds)[:, traces]

    sums = by_trace.sum(axis=1)
    drawn = measures(*draws.sums(by_trace.T).T)
    estimates = [estimate(*pair) for pair in zip(measures(*sums), drawn, strict=True)]
    if not implication:
        estimates[1:] = [Estimate(None)] * 2
    return Strength(float(sums[0]), int((by_trace[0] > 0).sum()), *estimates)


# --- intervals: traces are drawn anew, with replacement --------------------------------------


class Draws:
    """How often each trace is drawn, the same for all rules.

    A trace is what is drawn, since its steps and entities are alike: many steps of one clip say
    less than the same number of steps of many.
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
