"""Exponents, learned from labels: how far the logits of networks are trusted.

For a predicate and a world, let `s` be the sum of the logits of networks over the true cells. The
exponent κ makes the world more likely by the factor `exp(κ s)`. The log-likelihood of the labels,
given the features, has the slope `E[s]` with labels, minus `E[s]` without labels. The latter comes
from blind worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fotltn.posterior.sampler import Sampler

#: The prior mean of an exponent, and its weight.
USUAL_EXPONENT, _WEIGHT = 0.5, 4.0

#: The greatest exponent; above 1, it makes up for networks that are too unsure.
MOST_EXPONENT = 2.0


class Exponents:
    """The exponents of networks, by predicate.

    Attributes:
        values: the exponents.
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        """Start from some values."""
        self.values = dict(values)

    def learn(
        self, sampler: Sampler, blind: Sampler, scores: Mapping[str, Tensor], share: float
    ) -> None:
        """Move a share of the way to where labels are most likely.

        Args:
            sampler: the worlds with labels.
            blind: the worlds without labels.
            scores: the logits of networks for cells, by predicate.
            share: how far to move.
        """
        for name, score in scores.items():
            told, free = _sums(sampler.tables[name], score), _sums(blind.tables[name], score)
            slope = float(told.mean() - free.mean())
            bend = float(free.var(correction=0))
            old = self.values[name]
            step = (slope + _WEIGHT * (USUAL_EXPONENT - old)) / (bend + _WEIGHT)
            self.values[name] = min(max(old + share * step, 0.0), MOST_EXPONENT)


def _sums(worlds: Tensor, score: Tensor) -> Tensor:
    """The sum of scores over the true cells of each world."""
    return torch.stack([(score * world).sum() for world in worlds])
