"""What labels say, and how far they are to be trusted, which may be learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.posterior.rows import at_index

#: A probability is at least this, so that a logarithm is a number.
_LEAST = 1e-12

#: What is believed of noise before labels are seen, and how many labels that is worth.
_NOISE, _NOISE_WEIGHT = 0.1, 10.0

#: And how many labels of a predicate it is worth that its noise is that of all predicates.
_POOLED = 40.0

#: Labels that are wrong more often than this would say the opposite of what is true.
_MOST_NOISE = 0.49


class NoiseRates(NamedTuple):
    """How probable it is that a label is wrong: of a true fact, and of a false one."""

    missed: float
    invented: float


@dataclass(slots=True)
class LabelEvidence:
    """Labels, and how far they are to be trusted.

    Args:
        labels: the labels.
        rates: for each predicate how often they are wrong.
        learned: the predicates whose rates are learned.
        logits: what networks say of cells, as logarithms of odds, by predicate.
    """

    labels: Labels
    rates: dict[str, NoiseRates]
    learned: frozenset[str] = frozenset()
    logits: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def by_part(self) -> Sequence[LabelEvidence]:
        """That of each part of the traces, which learn apart from each other."""
        return (self,)

    @property
    def parts(self) -> int:
        """How many parts there are, each of as many traces."""
        return len(self.by_part)

    def odds(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """The logarithms of the odds of all cells of a predicate."""
        table = torch.zeros(*shape, dtype=torch.float64, device=device)
        if name in self.labels.index and self.labels.truth[name].numel():
            index = tuple(self.labels.index[name].to(device))
            table.index_put_(index, self.by_label(name).to(device), accumulate=True)
        if name in self.logits:
            table = table + self.logits[name].to(table)
        return table

    def by_label(self, name: str) -> Tensor:
        """The logarithm of the odds that each label of a predicate gives."""
        degree = self.labels.truth[name].to(torch.float64)
        missed, invented = self.rates[name]
        if_true = degree * (1 - missed) + (1 - degree) * missed
        if_false = degree * invented + (1 - degree) * (1 - invented)
        return if_true.clamp_min(_LEAST).log() - if_false.clamp_min(_LEAST).log()

    def learn(self, worlds: Mapping[str, Tensor], share: float) -> None:
        """Move learned rates towards those of the labels in these worlds.

        Those of a predicate with few labels are drawn to those of all predicates.
        """
        names = [n for n in sorted(self.learned) if self.labels.truth[n].numel()]
        counts = {name: self._counts(name, worlds) for name in names}  # sums need an order
        if not counts:
            return
        total = torch.stack([*counts.values()]).sum(0)
        usual = _share(total, torch.full_like(total[0], _NOISE), _NOISE_WEIGHT)
        for name, count in counts.items():
            old = torch.tensor(self.rates[name], dtype=torch.float64)
            target = _share(count, usual, _POOLED)
            new = (old + share * (target - old)).maximum(target / 2)  # which is never 0
            self.rates[name] = NoiseRates(*new.clamp_max(_MOST_NOISE).tolist())

    def _counts(self, name: str, worlds: Mapping[str, Tensor]) -> Tensor:
        """How many labels are wrong, and how many there are: of true facts, and of false ones."""
        truth = at_index(worlds[name], *self.labels.index[name].to(worlds[name].device))
        truth = truth.to(torch.float64).mean(0).cpu()
        says = self.labels.truth[name].to(torch.float64).cpu()
        wrong = torch.stack([(truth * (1 - says)).sum(), ((1 - truth) * says).sum()])
        return torch.stack([wrong, torch.stack([truth.sum(), (1 - truth).sum()])])


@dataclass(slots=True)
class EvidenceByPart(LabelEvidence):
    """That of parts, whose traces follow each other; each learns rates of its own.

    Args:
        each: the evidence of each part, whose traces are counted from 0.
    """

    each: Sequence[LabelEvidence] = ()

    @property
    def by_part(self) -> Sequence[LabelEvidence]:
        """That of each part."""
        return self.each

    def odds(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """The logarithms of the odds of all cells of a predicate."""
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
    """Rates by how many labels are wrong of how many, drawn to others that are worth as many."""
    return (weight * usual + count[0]) / (weight + count[1])
