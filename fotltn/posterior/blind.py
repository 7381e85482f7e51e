"""Worlds that know all but the labels, sampled beside those that know them.

The likelihood of labels is a ratio of two sums over worlds, with the labels and without. So the
slope of its logarithm, in whatever makes worlds more likely, is what worlds with labels have of it,
less what worlds without have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.posterior.bits import packed, unpacked
from fotltn.posterior.carried import PARTS
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.sampler import Sampler

#: There are half as many as worlds with labels, but not fewer than this, if there are as many.
_LEAST = 16


class BlindWorlds:
    """Worlds that know the axioms, the prior and the features, but no label.

    Attributes:
        sampler: these worlds.
    """

    def __init__(self, sampler: Sampler) -> None:
        """Begin beside a sampler that has not moved yet."""
        how, evidence = sampler.sampling, sampler.evidence
        silent = {n: torch.full_like(t, 0.5) for n, t in evidence.labels.truth.items()}
        labels = replace(evidence.labels, truth=silent)
        without = LabelEvidence(labels, evidence.rates, frozenset(), evidence.logits)
        number = min(how.worlds, max(_LEAST, how.worlds // 2))
        few = replace(how, worlds=number, seed=how.seed + 1, learn=False)
        self.sampler = Sampler(sampler.structure, sampler.known, without, few, sampler.scales)

    def sweep(self, sampler: Sampler, number: int) -> None:
        """Move once, by what has been learned with labels."""
        blind = self.sampler
        blind.evidence.logits = sampler.evidence.logits
        for part in PARTS:
            getattr(blind.prior, part).update(getattr(sampler.prior, part))
        blind.sweep(number)
        if number + 1 in (blind.sampling.settled, blind.sampling.burn_in):
            blind.rejoin()

    def follow(self, sampler: Sampler) -> None:
        """Go on from where worlds with labels are.

        These have come to rest, as labels hold them. Without labels, worlds in which ties have just
        come to count in full break more of these than they will, for a long time.
        """
        for name, table in self.sampler.tables.items():
            table.copy_(sampler.tables[name][: len(table)])
        self.sampler.moved()

    def state(self) -> dict[str, Tensor]:
        """All that the rest depends on."""
        tensors = {name: packed(table) for name, table in self.sampler.snapshot().items()}
        return {**tensors, "generator": self.sampler.generator.get_state()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from a state, of the same task.

        Raises:
            KeyError: something is missing.
            ValueError: something is another thing.
        """
        for name, table in self.sampler.tables.items():
            table.copy_(unpacked(tensors[name], table.shape))
        self.sampler.generator.set_state(tensors["generator"])
