"""Agreement of chains: R-hat and the effective number of draws, by predicate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.errors import listing
from fotltn.format import number

#: The most cells of a predicate whose draws are compared.
_WATCHED = 512

#: Chains with an R-hat above the first number disagree; up to the second, they agree well.
AGREE, AGREE_WELL = 1.2, 1.1


@dataclass(frozen=True, slots=True)
class MixingReport:
    """How far chains agree.

    Args:
        r_hat: for each predicate, the R-hat that 95 % of its cells do not exceed: the spread of all
            draws, divided by the spread within chains. It is 1 where chains agree.
        effective: for each predicate, the effective number of draws of a cell, in the median.
        copied: the number of chains that did not reach a world that obeys, and became copies of
            other chains.
    """

    r_hat: Mapping[str, float]
    effective: Mapping[str, float]
    copied: int = 0

    @property
    def worst(self) -> float:
        """The greatest R-hat."""
        return max(self.r_hat.values(), default=1.0)

    @property
    def apart(self) -> dict[str, float]:
        """The predicates on which chains disagree, with their R-hat."""
        return {name: value for name, value in self.r_hat.items() if value > AGREE}

    def enough(self, draws: float) -> bool:
        """Whether chains agree well, and each predicate has so many effective draws."""
        return self.worst <= AGREE_WELL and min(self.effective.values(), default=draws) >= draws

    def warnings(self, chains: int, tied: Sequence[str] = ()) -> tuple[str, ...]:
        """Warnings about probabilities that may be wrong.

        Args:
            chains: the number of chains.
            tied: the hard axioms that tie tracks, although tracks move one at a time.
        """
        result = []
        if self.apart:
            names = ", ".join(f"{n} (R-hat {number(value)})" for n, value in self.apart.items())
            why = f", and hard axioms tie tracks ({listing(tied)})" if tied else ""
            result.append(
                f"chains do not agree on {names}: probabilities depend on where they began{why}; "
                "larger `sweeps` and `burn_in` in [posterior] may help"
            )
        if 2 * self.copied > chains:
            result.append(
                f"{self.copied} of {chains} chains did not reach a world that obeys the hard "
                "axioms, and continue as copies of others; a larger `burn_in` in [posterior] may "
                "help"
            )
        return tuple(result)


class Mixing:
    """Records the draws of some cells of each predicate."""

    def __init__(self, tables: Mapping[str, Tensor], seed: int) -> None:
        """Choose cells at random, by the seed."""
        generator = torch.Generator().manual_seed(seed)
        self.cells: dict[str, Tensor] = {}
        self.draws: dict[str, list[Tensor]] = {}
        for name, table in tables.items():
            number = table[0].numel()
            chosen = torch.randperm(number, generator=generator)[:_WATCHED]
            self.cells[name] = chosen.to(table.device)
            self.draws[name] = []

    def add(self, tables: Mapping[str, Tensor]) -> None:
        """Record the present worlds."""
        for name, cells in self.cells.items():
            table = tables[name]
            self.draws[name].append(table.reshape(table.shape[0], -1)[:, cells])

    def report(self, names: Collection[str] | None = None, copied: int = 0) -> MixingReport:
        """Report how far chains agree, on some predicates or all; `copied` is passed on."""
        r_hats: dict[str, float] = {}
        effective: dict[str, float] = {}
        for name, draws in self.draws.items():
            if names is not None and name not in names:
                continue
            if len(draws) < 4 or not self.cells[name].numel():
                continue
            values = torch.stack(draws).to(torch.float64)  # (sweep, chain, cell)
            half = len(draws) // 2
            parts = torch.cat([values[:half], values[-half:]], dim=1)  # each half counts as a chain
            within = parts.var(0).mean(0)
            means = parts.mean(0)
            between = half * means.var(0)
            varied = (within + between) > 1e-12
            if not bool(varied.any()):
                continue
            pooled = (half - 1) / half * within + between / half
            draws_of_all = values.shape[0] * values.shape[1]
            # Chains that never move would have an infinite R-hat; count one draw as different.
            ratio = (pooled / within.clamp_min(1.0 / draws_of_all)).sqrt()[varied]
            r_hats[name] = float(ratio.quantile(0.95))
            error = values.mean(0).var(0) / values.shape[1]  # of the mean, by the chains
            worth = (pooled / error.clamp_min(1e-12))[varied]
            effective[name] = float(worth.clamp(max=float(draws_of_all)).median())
        return MixingReport(r_hats, effective, copied)
