"""How far chains agree: R-hat and effective numbers of draws, by predicate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.errors import listing
from fotltn.format import number

#: Cells of a predicate that are watched.
_WATCHED = 512

#: Chains whose R-hat is above this do not agree; up to the other one, they agree well.
AGREE, AGREE_WELL = 1.2, 1.1


@dataclass(frozen=True, slots=True)
class MixingReport:
    """How far chains agree.

    Args:
        r_hat: for each predicate a figure that 95 % of its cells do not exceed: the spread of all
            draws to that within chains. It is 1 where chains agree.
        effective: for each predicate how many independent draws a cell is worth, in the median.
        copied: how many chains did not come to obey by themselves, and went on from others.
    """

    r_hat: Mapping[str, float]
    effective: Mapping[str, float]
    copied: int = 0

    @property
    def worst(self) -> float:
        """The greatest of the figures."""
        return max(self.r_hat.values(), default=1.0)

    @property
    def apart(self) -> dict[str, float]:
        """The predicates on which chains do not agree, with their figures."""
        return {name: value for name, value in self.r_hat.items() if value > AGREE}

    def enough(self, draws: float) -> bool:
        """Whether chains agree well, and are worth so many draws of each predicate."""
        return self.worst <= AGREE_WELL and min(self.effective.values(), default=draws) >= draws

    def warnings(self, chains: int, tied: Sequence[str] = ()) -> tuple[str, ...]:
        """What makes probabilities doubtful.

        Args:
            chains: how many there are.
            tied: the axioms that tie tracks which move one at a time.
        """
        result = []
        if self.apart:
            names = ", ".join(f"{n} (R-hat {number(value)})" for n, value in self.apart.items())
            why = f", and hard axioms tie what moves alone ({listing(tied)})" if tied else ""
            result.append(
                f"chains do not agree on {names}: probabilities depend on where they began{why}; "
                "more sweeps and a longer burn-in may help"
            )
        if 2 * self.copied > chains:
            result.append(
                f"{self.copied} of {chains} chains did not come to obey the hard axioms by "
                "themselves, and went on from others; a longer burn-in may help"
            )
        return tuple(result)


class Mixing:
    """Watches some cells of each predicate."""

    def __init__(self, tables: Mapping[str, Tensor], seed: int) -> None:
        """Choose cells by seed."""
        generator = torch.Generator().manual_seed(seed)
        self.cells: dict[str, Tensor] = {}
        self.draws: dict[str, list[Tensor]] = {}
        for name, table in tables.items():
            number = table[0].numel()
            chosen = torch.randperm(number, generator=generator)[:_WATCHED]
            self.cells[name] = chosen.to(table.device)
            self.draws[name] = []

    def add(self, tables: Mapping[str, Tensor]) -> None:
        """Take the present worlds into account."""
        for name, cells in self.cells.items():
            table = tables[name]
            self.draws[name].append(table.reshape(table.shape[0], -1)[:, cells])

    def report(self, names: Collection[str] | None = None, copied: int = 0) -> MixingReport:
        """How far chains agree so far, of some predicates or all; with how many were copied."""
        r_hats: dict[str, float] = {}
        effective: dict[str, float] = {}
        for name, draws in self.draws.items():
            if names is not None and name not in names:
                continue
            if len(draws) < 4 or not self.cells[name].numel():
                continue
            values = torch.stack(draws).to(torch.float64)  # (sweep, chain, cell)
            half = len(draws) // 2
            parts = torch.cat([values[:half], values[-half:]], dim=1)  # halves are chains, too
            within = parts.var(0).mean(0)
            means = parts.mean(0)
            between = half * means.var(0)
            varied = (within + between) > 1e-12
            if not bool(varied.any()):
                continue
            pooled = (half - 1) / half * within + between / half
            draws_of_all = values.shape[0] * values.shape[1]
            # Chains that never move would be infinitely far apart: as if one draw had differed.
            ratio = (pooled / within.clamp_min(1.0 / draws_of_all)).sqrt()[varied]
            r_hats[name] = float(ratio.quantile(0.95))
            error = values.mean(0).var(0) / values.shape[1]  # of the mean, by how chains differ
            worth = (pooled / error.clamp_min(1e-12))[varied]
            effective[name] = float(worth.clamp(max=float(draws_of_all)).median())
        return MixingReport(r_hats, effective, copied)
