"""Labelled facts with what a model says of them: what metrics are made of."""

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
    """By predicate, labelled facts and what a model says of them.

    Args:
        scores: their truth, and the predicted degrees.
        decided: what is decided of them.
        limits: from which degree on a prediction says true.
    """

    scores: Scores
    decided: Mapping[str, np.ndarray[Any, Any]]
    limits: Mapping[str, float | None]

    def report(self) -> Report:
        """How good predictions are; accuracy is that of what is decided."""
        return report(self.scores, decided=self.decided, thresholds=self.limits)


def scored_facts(tables: Tables, labels: Labels, threshold: float | None = None) -> ScoredFacts:
    """Labelled facts with what the tables of a model say of them."""
    truths = predicted(labels, rounded(tables, threshold))
    limits = {n: threshold_of(tables, n, threshold) for n in truths}
    decided = {n: truth.cpu().numpy() for n, truth in truths.items()}
    return ScoredFacts(scores_of(tables, labels), decided, limits)


def scores_of(tables: Tables, labels: Labels) -> Scores:
    """Truth and predicted degree of labelled facts, by predicate."""
    degrees = predicted(labels, tables)
    return {
        n: ((truth >= 0.5).cpu().numpy(), degrees[n].cpu().numpy())
        for n, truth in labels.truth.items()
        if len(truth)
    }


def joined_facts(parts: Sequence[ScoredFacts]) -> ScoredFacts:
    """All facts, from those of some traces each."""
    names = dict.fromkeys(name for part in parts for name in part.scores)
    scores, decided, limits = {}, {}, {}
    for name in names:
        some = [part for part in parts if name in part.scores]
        truth, degree = zip(*(part.scores[name] for part in some), strict=True)
        scores[name] = (np.concatenate(truth), np.concatenate(degree))
        decided[name] = np.concatenate([part.decided[name] for part in some])
        limits[name] = some[0].limits[name]
    return ScoredFacts(scores, decided, limits)
