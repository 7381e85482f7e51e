"""How far networks are trusted: the exponent of what they say, learned from labels.

Let `s` be the sum over the cells of a predicate, in a world, of what networks say of those that are
true. A world is more likely by `exp(κ s)`. The likelihood of all labels, given the features, has a
logarithm with the slope `E[s]` with labels, less `E[s]` without. Blind worlds tell the latter.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fotltn.posterior.sampler import Sampler

#: What is believed of an exponent before labels are seen, and how much that weighs.
USUAL_EXPONENT, _WEIGHT = 0.5, 4.0

#: The greatest exponent: networks that say too little are trusted up to this.
MOST_EXPONENT = 2.0


class Exponents:
    """Exponents of what networks say, by predicate.

    Attributes:
        values: the exponents.
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        """Begin at some values."""
        self.values = dict(values)

    def learn(
        self, sampler: Sampler, blind: Sampler, scores: Mapping[str, Tensor], share: float
    ) -> None:
        """Move a share of the way to where labels are most likely.

        Args:
            sampler: the worlds with labels.
            blind: those without.
            scores: what networks say of cells, by predicate.
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
