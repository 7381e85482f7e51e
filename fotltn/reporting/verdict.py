"""The verdict of a report: what a model is worth, in words, with intervals and baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fotltn.analysis.metrics import pr_auc
from fotltn.analysis.record import Record
from fotltn.format import count, degree, listed, number, share

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit, AxiomAudit
    from fotltn.analysis.metrics import PredicateReport, Report, Scores

#: How often test facts are resampled, and the most facts to draw in total.
_DRAWS, _FACTS = 400, 20_000_000

#: With fewer test facts, the verdict says that they are few.
_FEW = 30

#: The most predicates, and the most things to do, that a report names.
_MOST = 5


@dataclass(frozen=True, slots=True)
class ScoreInterval(Record):
    """A score, with its range in 95 of 100 resamples of the test facts."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the score with its interval."""
        return f"{number(self.value)} (95 % interval: {number(self.low)} to {number(self.high)})"


def mean_pr_auc(scores: Scores, seed: int = 0) -> ScoreInterval | None:
    """Return the mean PR-AUC with an interval, by resampling test facts of each predicate.

    Facts are resampled as if they were independent; if they are not, the interval is too narrow.
    Returns None if no predicate has both true and false test facts.
    """
    pairs = [
        (np.asarray(truth, dtype=float), np.asarray(score, dtype=float))
        for truth, score in scores.values()
        if pr_auc(truth, score).defined
    ]
    if not pairs:
        return None
    draw = np.random.default_rng(seed)
    total = sum(len(truth) for truth, _ in pairs)
    means = []
    for _ in range(max(40, min(_DRAWS, _FACTS // total))):
        drawn = []
        for truth, score in pairs:
            chosen = draw.integers(0, len(truth), len(truth))
            one = pr_auc(truth[chosen], score[chosen])
            if one.defined:
                drawn.append(one.value)
        if drawn:
            means.append(float(np.mean(drawn)))
    value = float(np.mean([pr_auc(truth, score).value for truth, score in pairs]))
    low, high = np.quantile(means, [0.025, 0.975])
    return ScoreInterval(value, float(low), float(high))


def verdict(
    metrics: Report | None, interval: ScoreInterval | None, audit: Audit | None, *,
    sampled: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return the verdict, sentence by sentence; `sampled` if the model has sampled worlds."""
    return (*_predictions(metrics, interval), *_axioms(audit, sampled=sampled))


def _predictions(metrics: Report | None, interval: ScoreInterval | None) -> list[str]:
    if metrics is None or interval is None:
        return ["No test facts say how good predictions are."]
    judged = {n: one for n, one in metrics.predicates.items() if one.pr_auc.defined}
    facts = sum(one.facts for one in judged.values())
    chance = metrics.mean["chance"].value
    if interval.low > chance:
        words = "are better than guessing"
    elif interval.high < chance:
        words = "are worse than guessing"
    else:
        words = "cannot be told apart from guessing"
    sentences = [
        f"On {count(facts)} test facts, predictions {words}: the mean PR-AUC is {interval}, where "
        f"guessing scores {number(chance)}."
    ]
    if facts < _FEW:
        sentences.append("These facts are few: on others, the score may be quite different.")
    return sentences if len(judged) == 1 else [*sentences, _weakest(judged)]


def _weakest(judged: Mapping[str, PredicateReport]) -> str:
    """Return the predicates that score below guessing, or else the one that improves least."""
    gains = {name: one.pr_auc.value - one.chance.value for name, one in judged.items()}
    scores = {name: (number(a.pr_auc.value), number(a.chance.value)) for name, a in judged.items()}
    first, *others = sorted(gains, key=lambda name: (gains[name], name))
    if gains[first] >= 0:
        score, guessing = scores[first]
        least = f"{score}, where guessing scores {guessing}"
        return f"They improve least on guessing for {first}: {least}."
    worse = [first, *(name for name in others if gains[name] < 0)]
    words = ["{} ({}, guessing {})".format(name, *scores[name]) for name in worse[:_MOST]]
    words += [f"{count(len(worse) - _MOST)} more"] if len(worse) > _MOST else []
    return f"Scores are worse than guessing on {listed(words)}."


def _axioms(audit: Audit | None, *, sampled: bool) -> list[str]:
    if audit is None:
        return []
    violated = by_attention(audit.axioms)
    violated = [one for one in violated if one.on_model.violated]
    if not violated:
        many = len(audit.axioms)
        every = f"None of the {count(many)} axioms is" if many > 1 else "The axiom is not"
        return [f"{every} violated."]
    first = violated[0]
    rate = first.on_model.rate or 0.0
    verb = "is" if len(violated) == 1 else "are"
    hard = [one.name for one in violated if one.hard]
    words = f" Hard ones among them: {', '.join(hard)}." if hard else ""
    if hard and sampled:
        words += " All sampled worlds obey these; facts that are decided one by one need not."
    return [
        f"{count(len(violated))} of {count(len(audit.axioms))} axioms {verb} violated; first "
        f"{first.name}, at {share(rate)} of its bindings and times, with a value of "
        f"{degree(first.value)}.{words}"
    ]


#: Predictions with a larger gain over guessing and a smaller calibration error need no advice.
_GAIN, _OFF = 0.1, 0.1


def advice(
    metrics: Report | None, audit: Audit | None, worst: Mapping[str, str], place: str = "below",
    *, doubts: Sequence[str] | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Return what to do next, the most important first.

    Args:
        metrics: the metrics on test facts.
        audit: the audit of the axioms.
        worst: the worst cells of violated axioms, in words.
        place: the place of the warnings about axioms, in words.
        doubts: reasons to doubt sampled worlds; None if none were sampled.
    """
    steps = [f"{doubt[0].upper()}{doubt[1:]}." for doubt in doubts or ()]
    violated = [] if audit is None else [a for a in by_attention(audit.axioms) if a.name in worst]
    if doubts is not None:  # sampled worlds obey hard axioms, whatever single facts say
        violated = [one for one in violated if not one.hard]
    for begin, one in zip(("Look at", "Then look at"), violated, strict=False):
        must = "must hold, and is violated" if one.hard else "is violated"
        rate = share(one.on_model.rate)
        begun = f"; begin with {worst[one.name]}" if worst[one.name] else ""
        steps.append(f"{begin} {one.name}, which {must} in {rate} of its cells{begun}.")
    if metrics is None:
        steps.append("Hold back some facts for testing, so that predictions can be judged.")
    else:
        steps += _about_predictions(metrics)
    findings = () if audit is None else audit.warnings
    axioms_by_kind = Counter(
        kind for kind, _ in {(str(f.kind), f.axiom) for f in findings if f.axiom}
    )
    if axioms_by_kind:
        words = ", ".join(f"{many} {kind}" for kind, many in sorted(axioms_by_kind.items()))
        steps.append(f"Go through the warnings about axioms {place}: {words}.")
    return tuple(steps[:_MOST]) or ("Nothing needs attention.",)


def _about_predictions(metrics: Report) -> list[str]:
    judged = {n: one for n, one in metrics.predicates.items() if one.pr_auc.defined}
    steps = []
    weak = [n for n, one in judged.items() if one.pr_auc.value - one.chance.value < _GAIN]
    if weak:
        steps.append(
            f"Give more labels or axioms for {listed(weak)}: predictions are little or no better "
            "than guessing."
        )
    off = [n for n, one in metrics.predicates.items() if one.ece.defined and one.ece.value > _OFF]
    if off:
        steps.append(
            f"Do not read degrees of {listed(off)} as probabilities: they are off by "
            f"more than {number(_OFF, 1)} on average."
        )
    return steps


def by_attention(axioms: Sequence[AxiomAudit]) -> list[AxiomAudit]:
    """Sort axioms by attention: hard and violated, violated, then by value."""

    def rank(one: AxiomAudit) -> tuple[object, ...]:
        wrong, rate = not one.on_model.holds, one.on_model.rate or 0.0
        return not (wrong and one.hard), not wrong, -rate, one.value

    return sorted(axioms, key=rank)
