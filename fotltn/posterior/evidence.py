"""Evidence from labels, with rates of wrong labels that may be learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.posterior.rows import at_index

#: The least probability, so that its logarithm is finite.
_LEAST = 1e-12

#: The prior rate of wrong labels, and its strength as a number of labels.
_NOISE, _NOISE_WEIGHT = 0.1, 10.0

#: The strength, in labels, that draws the rates of a predicate to those of all predicates.
_POOLED = 40.0

#: The greatest rate: labels that are wrong more often would state the opposite of the truth.
_MOST_NOISE = 0.49


class NoiseRates(NamedTuple):
    """The probability that a label is wrong, for true facts and for false facts."""

    missed: float
    invented: float


@dataclass(slots=True)
class LabelEvidence:
    """Labels, with the rates at which they are wrong.

    Args:
        labels: the labels.
        rates: the rates of wrong labels, by predicate.
        learned: the predicates whose rates are learned.
        logits: the output of networks for cells, as log-odds, by predicate.
    """

    labels: Labels
    rates: dict[str, NoiseRates]
    learned: frozenset[str] = frozenset()
    logits: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def by_part(self) -> Sequence[LabelEvidence]:
        """The evidence of each part of the traces; parts learn separately."""
        return (self,)

    @property
    def parts(self) -> int:
        """The number of parts, which have equally many traces."""
        return len(self.by_part)

    def odds(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """The log-odds of all cells of a predicate."""
        table = torch.zeros(*shape, dtype=torch.float64, device=device)
        if name in self.labels.index and self.labels.truth[name].numel():
            index = tuple(self.labels.index[name].to(device))
            table.index_put_(index, self.by_label(name).to(device), accumulate=True)
        if name in self.logits:
            table = table + self.logits[name].to(table)
        return table

    def by_label(self, name: str) -> Tensor:
        """The log-odds from each label of a predicate."""
        degree = self.labels.truth[name].to(torch.float64)
        missed, invented = self.rates[name]
        if_true = degree * (1 - missed) + (1 - degree) * missed
        if_false = degree * invented + (1 - degree) * (1 - invented)
        return if_true.clamp_min(_LEAST).log() - if_false.clamp_min(_LEAST).log()

    def learn(self, worlds: Mapping[str, Tensor], share: float) -> None:
        """Move learned rates towards the rates of wrong labels in these worlds.

        The rates of a predicate with few labels are drawn to the rates of all predicates.
        """
        names = [n for n in sorted(self.learned) if self.labels.truth[n].numel()]
        counts = {name: self._counts(name, worlds) for name in names}  # sorted, for the sum
        if not counts:
            return
        total = torch.stack([*counts.values()]).sum(0)
        usual = _share(total, torch.full_like(total[0], _NOISE), _NOISE_WEIGHT)
        for name, count in counts.items():
            old = torch.tensor(self.rates[name], dtype=torch.float64)
            target = _share(count, usual, _POOLED)
            new = (old + share * (target - old)).maximum(target / 2)  # a target is never 0
            self.rates[name] = NoiseRates(*new.clamp_max(_MOST_NOISE).tolist())

    def _counts(self, name: str, worlds: Mapping[str, Tensor]) -> Tensor:
        """Count wrong labels, and all labels; each for true facts and for false ones."""
        truth = at_index(worlds[name], *self.labels.index[name].to(worlds[name].device))
        truth = truth.to(torch.float64).mean(0).cpu()
        says = self.labels.truth[name].to(torch.float64).cpu()
        wrong = torch.stack([(truth * (1 - says)).sum(), ((1 - truth) * says).sum()])
        return torch.stack([wrong, torch.stack([truth.sum(), (1 - truth).sum()])])


@dataclass(slots=True)
class EvidenceByPart(LabelEvidence):
    """The evidence of several parts, whose traces follow each other; each part learns its rates.

    Args:
        each: the evidence of each part, with traces counted from 0.
    """

    each: Sequence[LabelEvidence] = ()

    @property
    def by_part(self) -> Sequence[LabelEvidence]:
        """The evidence of each part."""
        return self.each

    def odds(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """The log-odds of all cells of a predicate."""
        size = (shape[0] // len(self.each), *shape[1:])
        return torch.cat([one.odds(name, size, device) for one in self.each])

    def learn(self, worlds: Mapping[str, Tensor], share: float) -> None:
        """Move the learned rates of each part."""
        if not self.learned:
            return
        for number, one in enumerate(self.each):
            one.learn(
                {n: t.unflatten(1, (len(self.each), -1))[:, number] for n, t in worlds.items()},
                share,
            )


def _share(count: Tensor, usual: Tensor, weight: float) -> Tensor:
    """Rates from counts of wrong labels and of all, drawn to usual rates with a weight."""
    return (weight * usual + count[0]) / (weight + count[1])
