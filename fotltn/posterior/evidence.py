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
        usual = _share(total, torch.full_like(total[0], _NOISE))
        for name, count in counts.items():
            old = torch.tensor(self.rates[name], dtype=torch.float64)
            new = _share(count, usual).clamp_max(_MOST_NOISE)
            self.rates[name] = NoiseRates(*(old + share * (new - old)).tolist())

    def _counts(self, name: str, worlds: Mapping[str, Tensor]) -> Tensor:
        """How many labels are wrong, and how many there are: of true facts, and of false ones."""
        truth = at_index(worlds[name], *self.labels.index[name].to(worlds[name].device))
        truth = truth.to(torch.float64).mean(0).cpu()
        says = self.labels.truth[name].to(torch.float64).cpu()
        wrong = torch.stack([(truth * (1 - says)).sum(), ((1 - truth) * says).sum()])
        return torch.stack([wrong, torch.stack([truth.sum(), (1 - truth).sum()])])


def _share(count: Tensor, usual: Tensor) -> Tensor:
    """Rates by how many labels are wrong of how many, drawn to others."""
    return (_NOISE_WEIGHT * usual + count[0]) / (_NOISE_WEIGHT + count[1])
