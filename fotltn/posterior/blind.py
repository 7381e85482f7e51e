"""Blind worlds: worlds without labels, sampled alongside the worlds with labels.

The likelihood of the labels is a ratio of two sums over worlds, with labels and without. The slope
of its logarithm in a weight is therefore a difference of means: that of the weighted quantity over
worlds with labels, minus that over worlds without.
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

#: There are half as many blind worlds as worlds with labels, but at least this many if possible.
_LEAST = 16


class BlindWorlds:
    """Worlds that follow the axioms, the prior and the features, but no label.

    Attributes:
        sampler: the blind worlds.
    """

    def __init__(self, sampler: Sampler) -> None:
        """Make blind worlds for a sampler that has not moved yet."""
        how, evidence = sampler.sampling, sampler.evidence
        silent = {n: torch.full_like(t, 0.5) for n, t in evidence.labels.truth.items()}
        labels = replace(evidence.labels, truth=silent)
        without = LabelEvidence(labels, evidence.rates, frozenset(), evidence.logits)
        number = min(how.worlds, max(_LEAST, how.worlds // 2))
        few = replace(how, worlds=number, seed=how.seed + 1, learn=False)
        self.sampler = Sampler(sampler.structure, sampler.known, without, few, sampler.scales)

    def sweep(self, sampler: Sampler, number: int) -> None:
        """Move once, with the prior and logits that the sampler with labels has."""
        blind = self.sampler
        blind.evidence.logits = sampler.evidence.logits
        for part in PARTS:
            getattr(blind.prior, part).update(getattr(sampler.prior, part))
        blind.sweep(number)
        if number + 1 in (blind.sampling.settled, blind.sampling.burn_in):
            blind.rejoin()

    def follow(self, sampler: Sampler) -> None:
        """Continue from copies of the worlds with labels.

        Labels have brought those worlds to rest. Without labels, worlds in which ties have just
        begun to count in full would break too many of them for a long time.
        """
        for name, table in self.sampler.tables.items():
            table.copy_(sampler.tables[name][: len(table)])
        self.sampler.moved()

    def state(self) -> dict[str, Tensor]:
        """Return everything that a resumed run needs."""
        tensors = {name: packed(table) for name, table in self.sampler.snapshot().items()}
        return {**tensors, "generator": self.sampler.generator.get_state()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Resume from a state of the same task.

        Raises:
            KeyError: part of the state is missing.
            ValueError: part of the state is of another task.
        """
        for name, table in self.sampler.tables.items():
            table.copy_(unpacked(tensors[name], table.shape))
        self.sampler.generator.set_state(tensors["generator"])
