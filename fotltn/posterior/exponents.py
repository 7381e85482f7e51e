"""How far networks are trusted: the exponent of what they say, learned from labels.

Let `s` be the sum over the cells of a predicate, in a world, of what networks say of those that are
true. A world is more likely by `exp(κ s)`. The likelihood of all labels, given the features, is the
ratio of two sums over worlds, with the labels and without; so its logarithm has the slope `E[s]`
with labels, less `E[s]` without. Worlds without labels, sampled beside, tell the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.posterior.carried import PARTS
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.sampler import Sampler

#: What is believed of an exponent before labels are seen, and how much that weighs.
USUAL_EXPONENT, _WEIGHT = 0.5, 4.0

#: The greatest exponent: networks that say too little are trusted up to this.
MOST_EXPONENT = 2.0

#: So many worlds without labels are sampled at most.
_WORLDS = 16


class Exponents:
    """Exponents of what networks say, by predicate, and the worlds that they are learned by.

    Attributes:
        values: the exponents.
        blind: worlds that know the axioms, the prior and the features, but no label.
    """

    def __init__(self, values: Mapping[str, float], sampler: Sampler) -> None:
        """Begin at some values, beside a sampler that has not moved yet."""
        self.values = dict(values)
        how, evidence = sampler.sampling, sampler.evidence
        silent = {n: torch.full_like(t, 0.5) for n, t in evidence.labels.truth.items()}
        labels = replace(evidence.labels, truth=silent)
        without = LabelEvidence(labels, evidence.rates, frozenset(), evidence.logits)
        few = replace(how, worlds=min(how.worlds, _WORLDS), seed=how.seed + 1, learn=False)
        self.blind = Sampler(sampler.structure, sampler.known, without, few)

    def sweep(self, sampler: Sampler, number: int) -> None:
        """Move the worlds without labels once, by what has been learned with them."""
        self.blind.evidence.logits = sampler.evidence.logits
        for part in PARTS:
            getattr(self.blind.prior, part).update(getattr(sampler.prior, part))
        self.blind.sweep(number)
        if number + 1 in (self.blind.sampling.settled, self.blind.sampling.burn_in):
            self.blind.rejoin()

    def learn(self, sampler: Sampler, scores: Mapping[str, Tensor], share: float) -> None:
        """Move a share of the way to where labels are most likely.

        Args:
            sampler: the worlds with labels.
            scores: what networks say of cells, by predicate.
            share: how far to move.
        """
        for name, score in scores.items():
            told, blind = _sums(sampler.tables[name], score), _sums(self.blind.tables[name], score)
            slope = float(told.mean() - blind.mean())
            bend = float(blind.var(correction=0))
            old = self.values[name]
            step = (slope + _WEIGHT * (USUAL_EXPONENT - old)) / (bend + _WEIGHT)
            self.values[name] = min(max(old + share * step, 0.0), MOST_EXPONENT)


def _sums(worlds: Tensor, score: Tensor) -> Tensor:
    """The sum of scores over the true cells of each world."""
    return torch.stack([(score * world).sum() for world in worlds])
