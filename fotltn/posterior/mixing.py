"""How far chains agree: R-hat and effective numbers of draws, by predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

#: TrackCells of a predicate that are watched.
_WATCHED = 512


@dataclass(frozen=True, slots=True)
class MixingReport:
    """How far chains agree.

    Args:
        r_hat: for each predicate a figure that 95 % of its cells do not exceed: the spread of all
            draws to that within chains. It is 1 where chains agree.
        effective: for each predicate how many independent draws a cell is worth, in the median.
    """

    r_hat: Mapping[str, float]
    effective: Mapping[str, float]

    @property
    def worst(self) -> float:
        """The greatest of the figures."""
        return max(self.r_hat.values(), default=1.0)


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

    def report(self) -> MixingReport:
        """How far chains agree so far."""
        r_hats: dict[str, float] = {}
        effective: dict[str, float] = {}
        for name, draws in self.draws.items():
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
            ratio = (pooled / within.clamp_min(1e-12)).sqrt()[varied]
            r_hats[name] = float(ratio.quantile(0.95))
            number = values.shape[0] * values.shape[1]
            worth = number * (pooled / between.clamp_min(1e-12))[varied]
            effective[name] = float(worth.clamp(max=float(number)).median())
        return MixingReport(r_hats, effective)
