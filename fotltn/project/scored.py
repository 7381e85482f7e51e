"""Labelled facts with a model's predictions, from which metrics are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fotltn.analysis.metrics import Report, Scores, report
from fotltn.decisions import rounded, threshold_of
from fotltn.grounding.labels import Labels
from fotltn.learn.objective import predicted
from fotltn.semantics.tables import Tables


@dataclass(frozen=True, slots=True, eq=False)
class ScoredFacts:
    """Labelled facts and a model's predictions, by predicate.

    Args:
        scores: the truth of the facts, and the predicted degrees.
        decided: the decisions about the facts.
        limits: the smallest degree that counts as true.
    """

    scores: Scores
    decided: Mapping[str, np.ndarray[Any, Any]]
    limits: Mapping[str, float | None]

    def report(self) -> Report:
        """Measure how good predictions are; accuracy refers to decisions."""
        return report(self.scores, decided=self.decided, thresholds=self.limits)


def scored_facts(tables: Tables, labels: Labels, threshold: float | None = None) -> ScoredFacts:
    """Return labelled facts with the predictions in a model's tables."""
    truths = predicted(labels, rounded(tables, threshold))
    limits = {n: threshold_of(tables, n, threshold) for n in truths}
    decided = {n: truth.cpu().numpy() for n, truth in truths.items()}
    return ScoredFacts(scores_of(tables, labels), decided, limits)


def scores_of(tables: Tables, labels: Labels) -> Scores:
    """Return the truth and predicted degree of labelled facts, by predicate."""
    degrees = predicted(labels, tables)
    return {
        n: ((truth >= 0.5).cpu().numpy(), degrees[n].cpu().numpy())
        for n, truth in labels.truth.items()
        if len(truth)
    }


def joined_facts(parts: Sequence[ScoredFacts]) -> ScoredFacts:
    """Join the facts of several groups of traces."""
    names = dict.fromkeys(name for part in parts for name in part.scores)
    scores, decided, limits = {}, {}, {}
    for name in names:
        some = [part for part in parts if name in part.scores]
        truth, degree = zip(*(part.scores[name] for part in some), strict=True)
        scores[name] = (np.concatenate(truth), np.concatenate(degree))
        decided[name] = np.concatenate([part.decided[name] for part in some])
        limits[name] = some[0].limits[name]
    return ScoredFacts(scores, decided, limits)
