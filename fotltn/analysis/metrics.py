"""Metrics of predictions, and of the satisfaction of axioms.

Predictions are compared with facts that are true or false. Every metric is a number with, where it
is undefined, the reason: then its value is NaN. Predictions that are not numbers are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fotltn.analysis.record import Record, plain
from fotltn.errors import DataError
from fotltn.format import number
from fotltn.syntax.notebook import table

Array = np.ndarray[Any, Any]

#: For each predicate its truth values, 0 or 1, and the predicted degrees.
Scores = Mapping[str, tuple[Array | Tensor | Sequence[float], Array | Tensor | Sequence[float]]]

_LEAST = 1e-12  # the least probability whose logarithm is taken
_ROUNDING = 1e-6  # how far outside [0, 1] a computed degree may lie


@dataclass(frozen=True, slots=True)
class Metric(Record):
    """A number, or NaN with the reason why it is undefined."""

    value: float
    reason: str | None = None

    @property
    def defined(self) -> bool:
        """Whether there is a number."""
        return self.reason is None


def _undefined(reason: str) -> Metric:
    return Metric(math.nan, reason)


@dataclass(frozen=True, slots=True)
class Bin(Record):
    """The predictions from `low` to `high`: their number, their mean, and the share that is true.

    In an empty bin, the mean and the share are NaN.
    """

    low: float
    high: float
    count: int
    predicted: float
    true: float


@dataclass(frozen=True, slots=True)
class Calibration(Record):
    """Predictions by bins, and the mean distance of prediction and truth."""

    bins: tuple[Bin, ...]
    error: Metric

    KEYS = ("error", "bins")


# --- one predicate ---------------------------------------------------------------------------


def pr_auc(truth: Any, score: Any) -> Metric:
    """Return the average precision: the mean of the precisions at each true fact, ranked by score.

    >>> pr_auc([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]).value
    0.8333333333333333
    >>> pr_auc([1, 1], [0.9, 0.8]).reason
    'all 2 facts are true'
    """
    return _ranking(truth, score, _average_precision)


@dataclass(frozen=True, slots=True)
class Curve(Record):
    """Precision and recall as the threshold rises; at the last point nothing is predicted."""

    recall: tuple[float, ...]
    precision: tuple[float, ...]


def pr_curve(truth: Any, score: Any) -> Curve:
    """Return the points at which precision or recall change; the area under the steps is `pr_auc`.

    Raises:
        DataError: all facts are true, or all are false.

    >>> pr_curve([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]).recall
    (1.0, 1.0, 0.5, 0.5, 0.0)
    """
    labels, scores = _pair(truth, score)
    if (missing := _one_class(labels)) is not None:
        raise DataError(f"there is no curve of precision and recall: {missing}")
    hits, chosen = _cuts(labels, scores)
    recall, precision = hits[::-1] / hits[-1], hits[::-1] / chosen[::-1]
    return Curve((*recall.tolist(), 0.0), (*precision.tolist(), 1.0))


def roc_auc(truth: Any, score: Any) -> Metric:
    """Return the probability that a true fact scores above a false one; a tie counts half."""
    return _ranking(truth, score, _rank_of_true_facts)


def _cuts(labels: Array, scores: Array) -> tuple[Array, Array]:
    """Return for each score, from above, how many true facts and how many facts reach it."""
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(labels[order]), scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(order) - 1)
    return hits[last].astype(np.float64), (last + 1).astype(np.float64)


def _average_precision(labels: Array, scores: Array) -> float:
    hits, chosen = _cuts(labels, scores)
    return float(np.sum(np.diff(hits, prepend=0) * hits / chosen) / hits[-1])


def _rank_of_true_facts(labels: Array, scores: Array) -> float:
    hits, chosen = _cuts(labels, scores)
    misses = chosen - hits
    area = np.sum(np.diff(misses, prepend=0) * (hits + np.append(0, hits[:-1])) / 2)
    return float(area / (hits[-1] * misses[-1]))


def _ranking(truth: Any, score: Any, measure: Callable[[Array, Array], float]) -> Metric:
    """A measure of a ranking, which needs facts of both kinds."""
    labels, scores = _pair(truth, score)
    missing = _one_class(labels)
    return Metric(float(measure(labels, scores))) if missing is None else _undefined(missing)


def accuracy(truth: Any, score: Any, *, threshold: float = 0.5) -> Metric:
    """Return the share of facts on the right side of the threshold; at the threshold means true."""
    labels, scores = _pair(truth, score)
    if math.isnan(threshold):
        raise DataError("the threshold is NaN; expected a number")
    return _averaged((scores >= threshold) == (labels == 1))


def brier(truth: Any, score: Any) -> Metric:
    """Return the mean squared distance of score and truth; 0 is best."""
    labels, scores = _pair(truth, score, degrees=True)
    return _averaged((scores - labels) ** 2)


def log_loss(truth: Any, score: Any) -> Metric:
    """Return the mean negative logarithm of the probability given to the truth; 0 is best.

    Degrees are kept away from 0 and 1, so one fact costs at most 27.6.

    >>> round(log_loss([1, 0], [0.5, 0.5]).value, 3)
    0.693
    """
    labels, scores = _pair(truth, score, degrees=True)
    likely = np.where(labels == 1, scores, 1 - scores)
    return _averaged(-np.log(np.clip(likely, _LEAST, 1)))


def chance(truth: Any) -> Metric:
    """Return the share of true facts, which is the average precision of a constant score."""
    labels, _ = _pair(truth, truth)
    return _averaged(labels)


def _averaged(numbers: Array) -> Metric:
    return Metric(float(numbers.mean())) if len(numbers) else _undefined("there are no facts")


def calibration(truth: Any, score: Any, *, bins: int = 10) -> Calibration:
    """Put scores into bins of equal width, each with the mean score and the share that is true.

    A bin holds its lower end; the last one holds 1 too. The error is the distance of the two,
    averaged over the facts.
    """
    labels, scores = _pair(truth, score, degrees=True)
    if bins < 1:
        raise DataError(f"calibration needs at least 1 bin, not {bins}")
    edges = np.arange(bins + 1) / bins
    numbers = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, bins - 1)
    count = np.bincount(numbers, minlength=bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(numbers, scores, minlength=bins) / count
        true = np.bincount(numbers, labels, minlength=bins) / count
    columns = (edges[:-1], edges[1:], count, predicted, true)
    every = tuple(Bin(*row) for row in zip(*(c.tolist() for c in columns), strict=True))
    if not len(labels):
        return Calibration(every, _undefined("there are no facts"))
    distance = sum(b.count * abs(b.predicted - b.true) for b in every if b.count)
    return Calibration(every, Metric(float(distance / len(labels))))


# --- all predicates --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PredicateReport(Record):
    """The metrics of one predicate.

    Accuracy refers to decisions: by the threshold or, without one, by the definition.
    """

    facts: int
    positive: int
    pr_auc: Metric
    roc_auc: Metric
    accuracy: Metric
    threshold: float | None
    brier: Metric
    log_loss: Metric
    chance: Metric
    calibration: Calibration

    @property
    def ece(self) -> Metric:
        """The expected calibration error: the distance of prediction and truth over all bins."""
        return self.calibration.error


#: The metrics that are averaged over predicates.
METRICS = ("pr_auc", "roc_auc", "accuracy", "brier", "log_loss", "ece", "chance")


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The metrics of every predicate, and their means over predicates, each counted once."""

    predicates: Mapping[str, PredicateReport]
    mean: Mapping[str, Metric]

    def __repr__(self) -> str:
        """Return the number of tested facts, and the means of two metrics."""
        facts = sum(one.facts for one in self.predicates.values())
        names = f"{len(self.predicates)} predicate{'s' * (len(self.predicates) != 1)}"
        score, chance = (number(self.mean[name].value) for name in ("pr_auc", "chance"))
        tested = f"{facts:,} fact{'s' * (facts != 1)}"
        return f"<metrics of {names}, {tested}: mean PR-AUC {score}, chance {chance}>"

    def _repr_html_(self) -> str:
        heads = ["predicate", "facts", "true", "PR-AUC", "chance", "ROC-AUC", "accuracy", "ECE"]
        names = ("pr_auc", "chance", "roc_auc", "accuracy", "ece")
        rows = [
            [name, one.facts, one.positive, *(number(getattr(one, n).value) for n in names)]
            for name, one in self.predicates.items()
        ]
        rows.append(["mean", "", "", *(number(self.mean[n].value) for n in names)])
        return table(heads, rows, left=["predicate"])

    def left_out(self, metric: str) -> tuple[str, ...]:
        """Return the predicates without a defined metric, which a mean leaves out."""
        return tuple(n for n, r in self.predicates.items() if not getattr(r, metric).defined)

    def as_dict(self) -> dict[str, object]:
        """Return the report as data."""
        return {
            "predicates": plain(self.predicates),
            "mean": {
                name: {**metric.as_dict(), "left_out": list(self.left_out(name))}
                for name, metric in self.mean.items()
            },
        }


def best_threshold(truth: Any, score: Any, by: str) -> float:
    """Return the threshold with the best F1 or accuracy on labelled facts.

    Among equals, the one nearest to 0.5 wins. It lies halfway between two scores, or at an end. If
    all facts are true or all are false, it is 0.5.
    """
    labels, scores = _pair(truth, score)
    true = labels == 1
    if not true.any() or true.all():
        return 0.5
    levels = np.unique(np.concatenate([[0.0], scores, [1.0]]))
    cuts = np.concatenate([[0.5], levels[:1], (levels[1:] + levels[:-1]) / 2, levels[-1:]])
    order = np.argsort(scores, kind="stable")
    ahead = np.searchsorted(scores[order], cuts, side="left")  # facts below each cut
    below = np.concatenate([[0], np.cumsum(true[order])])[ahead]
    hits, said = true.sum() - below, len(scores) - ahead
    worth = 2 * hits / (said + true.sum()) if by == "f1" else hits + ahead - below
    best = cuts[worth == worth.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def report(
    scores: Scores,
    *,
    decided: Mapping[str, Array] | None = None,
    thresholds: Mapping[str, float | None] | None = None,
    bins: int = 10,
) -> Report:
    """Compute all metrics, by predicate and on average.

    A mean is over the predicates for which the metric is defined; the mean of `chance`, over those
    for which PR-AUC is, so that the two can be compared.

    Args:
        scores: truth and degrees.
        decided: decisions as 0 and 1, by predicate; without them, degrees from 0.5 on are true.
        thresholds: the threshold of each predicate; None if its definition decides.
        bins: the number of bins of the calibration.

    Raises:
        DataError: a truth value is neither 0 nor 1, or a score is not in [0, 1]; it names the
            predicate.
    """
    decided, thresholds = decided or {}, thresholds or {}
    reports = {}
    for name, (truth, score) in scores.items():
        try:
            labels, _ = _pair(truth, score, degrees=True)
            reports[name] = PredicateReport(
                facts=len(labels),
                positive=int(labels.sum()),
                pr_auc=pr_auc(truth, score),
                roc_auc=roc_auc(truth, score),
                accuracy=accuracy(truth, decided.get(name, score)),
                threshold=thresholds.get(name, 0.5),
                brier=brier(truth, score),
                log_loss=log_loss(truth, score),
                chance=chance(truth),
                calibration=calibration(truth, score, bins=bins),
            )
        except DataError as error:
            raise DataError(*(f"'{name}': {d.message}" for d in error.diagnostics)) from None
    means = {
        metric: mean({name: getattr(one, metric) for name, one in reports.items()})
        for metric in METRICS
    }
    judged = {n: one.chance if one.pr_auc.defined else one.pr_auc for n, one in reports.items()}
    return Report(reports, {**means, "chance": mean(judged)})


def mean(metrics: Mapping[str, Metric]) -> Metric:
    """Return the mean over the defined metrics."""
    values = [metric.value for metric in metrics.values() if metric.defined]
    if values:
        return Metric(math.fsum(values) / len(values))
    if not metrics:
        return _undefined("there are no predicates")
    return _undefined("undefined for every predicate")


# --- axioms ----------------------------------------------------------------------------------


def kb_sat(values: Any, *, weights: Any = None) -> Metric:
    """Return the geometric mean of the values of axioms: the KB-SAT of the paper.

    It is 0 if one axiom with a weight is 0. It does not measure quality: if all predictions are
    false, most axioms are true.

    >>> round(kb_sat({"A1": 1.0, "A2": 0.25}).value, 3)
    0.5
    """
    degrees, shares = _axioms(values, weights)
    if not len(degrees):
        return _undefined("there are no axioms")
    if (degrees == 0).any():
        return Metric(0.0)
    return Metric(float(np.exp((shares * np.log(degrees)).sum())))


def satisfaction(values: Any, *, p: float = 4.0, weights: Any = None) -> Metric:
    """The p-mean error of the values of axioms, `1 - (Σ w (1-v)^p / Σ w)^(1/p)`, as in training.

    For p = ∞ it is the smallest value of an axiom with a weight.
    """
    if not p >= 1:
        raise DataError(f"p is a number from 1, or infinite, not {p}")
    degrees, shares = _axioms(values, weights)
    if not len(degrees):
        return _undefined("there are no axioms")
    errors = 1 - degrees
    top = errors.max()
    if math.isinf(p) or top == 0:
        return Metric(float(1 - top))
    mean_error = (shares * (errors / top) ** p).sum()  # scaled, so that large p does not underflow
    return Metric(float(1 - top * mean_error ** (1 / p)))


def _axioms(values: Any, weights: Any) -> tuple[Array, Array]:
    """The values of the axioms that have a weight, and their shares of the weight."""
    if isinstance(weights, Mapping) != isinstance(values, Mapping) and weights is not None:
        raise DataError("values and weights are both by name, or both in order")
    if isinstance(values, Mapping):
        names = list(values)
        if weights is not None and set(weights) != set(names):
            odd = sorted(set(weights) ^ set(names))
            raise DataError(f"values and weights are of other axioms: '{odd[0]}' is in one only")
        weights = None if weights is None else [weights[name] for name in names]
        values = list(values.values())
    else:
        values = _flat("the value of an axiom", values)
        names = [str(i + 1) for i in range(len(values))]
    degrees = _flat("the value of an axiom", values)
    for name, value in zip(names, degrees, strict=True):
        if not -_ROUNDING <= value <= 1 + _ROUNDING:
            raise DataError(f"the axiom {name} has the value {value}; expected one from 0 to 1")
    shares = np.ones(len(degrees)) if weights is None else _flat("the weight of an axiom", weights)
    if shares.shape != degrees.shape:
        raise DataError(f"there are {len(degrees)} axioms, but {len(shares)} weights")
    for name, weight in zip(names, shares, strict=True):
        if not 0 <= weight < math.inf:
            raise DataError(f"the axiom {name} has the weight {weight}; expected a number from 0")
    counted = shares > 0
    if len(degrees) and not counted.any():
        raise DataError("all weights of axioms are 0")
    return degrees[counted].clip(0, 1), shares[counted] / shares.sum()


# --- arrays ----------------------------------------------------------------------------------


def _flat(what: str, values: Any) -> Array:
    """Return anything like an array as an array with one axis, in double precision."""
    if isinstance(values, Tensor):
        values = values.detach().double().cpu().numpy()
    elif isinstance(values, list | tuple):
        values = [v.item() if isinstance(v, Tensor) and v.numel() == 1 else v for v in values]
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{what} is not a list of numbers") from None
    if array.ndim != 1:
        raise DataError(f"{what} has the shape {array.shape}; expected numbers in a row")
    return array


def _pair(truth: Any, score: Any, *, degrees: bool = False) -> tuple[Array, Array]:
    """Checked truth values and scores."""
    labels, scores = _flat("truth", truth), _flat("score", score)
    if len(labels) != len(scores):
        raise DataError(f"there are {len(labels)} truth values, but {len(scores)} scores")
    strange = np.flatnonzero((labels != 0) & (labels != 1))
    if len(strange):
        i = strange[0]
        raise DataError(
            f"fact {i} (from 0) has the truth {labels[i]:g}; metrics need facts of 0 or 1"
        )
    wrong = ~np.isfinite(scores)
    if degrees:
        wrong |= (scores < -_ROUNDING) | (scores > 1 + _ROUNDING)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        expected = "a degree from 0 to 1" if degrees else "a finite number"
        many = f" (and {int(wrong.sum()) - 1} more)" if wrong.sum() > 1 else ""
        raise DataError(f"fact {i} (from 0) has the score {scores[i]:g}{many}; expected {expected}")
    return labels, scores.clip(0, 1) if degrees else scores


def _one_class(labels: Array) -> str | None:
    """Why a ranking cannot be judged, or None if it can."""
    if not len(labels):
        return "there are no facts"
    positive = int(labels.sum())
    if positive == len(labels):
        return f"all {positive} facts are true"
    return f"all {len(labels)} facts are false" if positive == 0 else None
