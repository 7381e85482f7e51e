"""Learn the weights of soft axioms that make the labels most likely.

Let `v` be the number of cells of a world that break an axiom. The weight makes the world less
likely by the factor `exp(-weight · v)`. In the weight, the log-likelihood of the labels has the
slope `E[v]` without labels, minus `E[v]` with labels; its second derivative is `Var[v]` with
labels, minus `Var[v]` without.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fotltn.posterior.sampler import Sampler

#: The standard deviation of the prior of a weight, whose mean is the written weight.
DEVIATION = 2.0

#: The greatest weight, and the greatest step of a weight.
_MOST, _STEP = 20.0, 1.0

#: Labels are taken to know at least this share of the information that whole worlds would give.
_KNOWN = 0.2


class LearnedWeights:
    """Learns the scales of a sampler: weights as multiples of the written weights.

    Attributes:
        spread: the covariances of broken cells, without labels and with labels, over past sweeps.
    """

    def __init__(self, sampler: Sampler) -> None:
        """Start from the written weights."""
        self.sampler = sampler
        weights = sampler.weights
        device = sampler.known.lengths.device
        self.written = torch.tensor([weights[name] for name in sampler.scales], device=device)
        self.written = self.written.to(torch.float64)
        self._clauses = [one for one in sampler.structure.clauses if one.axiom in sampler.scales]
        self.spread = torch.zeros(
            2, len(self.written), len(self.written), dtype=torch.float64, device=device
        )

    def learn(self, blind: Sampler, number: int) -> None:
        """Move weights to where labels are more likely, once ties between tracks count in full.

        Args:
            blind: the worlds without labels.
            number: the number of the sweep.
        """
        how, sampler = self.sampler.sampling, self.sampler
        if number >= how.burn_in or how.heat(number) < 1.0:
            return
        share = 1.0 / (max(0, number - how.settled) + 1.0)
        free, told = self._broken(blind), self._broken(sampler)
        spread = torch.stack([_covariance(free), _covariance(told)])
        known = bool(self.spread.any())
        self.spread = torch.lerp(self.spread, spread, share / 2) if known else spread
        scales = self.written.new_tensor([*sampler.scales.values()])
        old = scales * self.written
        slope = free.mean(1) - told.mean(1) + (self.written - old) / DEVIATION**2
        # A weight of 0 that would fall stays, and does not affect the step of other weights.
        moving = (old > 0) | (slope > 0)
        new = (old + share * self._step(slope * moving, moving)).clamp(0.0, _MOST)
        for name, scale in zip(sampler.scales, (new / self.written).tolist(), strict=True):
            sampler.scales[name] = scale

    def _broken(self, sampler: Sampler) -> Tensor:
        """Count the cells of each world that break each axiom, with axes (axiom, world)."""
        counts = sampler.false_cells(self._clauses)
        return torch.stack([counts[name] for name in self.sampler.scales]).to(torch.float64)

    def _step(self, slope: Tensor, moving: Tensor) -> Tensor:
        """A step of Newton's method, shortened where labels leave much open."""
        believed = torch.eye(len(slope), dtype=slope.dtype, device=slope.device) / DEVIATION**2
        free, told = self.spread * (moving.unsqueeze(0) & moving.unsqueeze(1))
        root = torch.linalg.cholesky(free + believed)
        half = torch.linalg.solve_triangular(root, told, upper=False)
        missing = torch.linalg.solve_triangular(root, half.T, upper=False)
        share, turn = torch.linalg.eigh((missing + missing.T) / 2)
        inner = turn.T @ torch.linalg.solve_triangular(root, slope.unsqueeze(-1), upper=False)
        inner = turn @ (inner / (1.0 - share.clamp(0.0, 1.0 - _KNOWN)).unsqueeze(-1))
        step: Tensor = torch.linalg.solve_triangular(root.T, inner, upper=True).squeeze(-1)
        return step.clamp(-_STEP, _STEP)


def _covariance(cells: Tensor) -> Tensor:
    """The covariance matrix of rows."""
    apart = cells - cells.mean(1, keepdim=True)
    return apart @ apart.T / cells.shape[1]
