"""Many networks of one shape as one: each trace has weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fotltn.networks.predicates import ACTIVATIONS


class ManyMLP(nn.Module):
    """As `mlp`, with weights for each of `count` traces: from (count, …, width) to (count, …, 1).

    With one trace for each of several runs of an experiment, they are trained at once, and none
    has to do with the others.
    """

    def __init__(
        self,
        count: int,
        width: int,
        hidden: Sequence[int] = (16, 16),
        outputs: int = 1,
        *,
        activation: str = "elu",
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw initial weights, trace by trace."""
        super().__init__()
        sizes = list(pairwise([width, *hidden, outputs]))
        self.weights = nn.ParameterList(torch.empty(count, a, b) for a, b in sizes)
        self.biases = nn.ParameterList(torch.empty(count, 1, b) for _, b in sizes)
        self.activation = ACTIVATIONS[activation]()
        for number in range(count):
            self.draw(number, generator)

    def draw(self, number: int, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights of one trace, in the range that `mlp` has."""
        with torch.no_grad():
            for weight, bias in zip(self.weights, self.biases, strict=True):
                bound = weight.shape[1] ** -0.5
                weight[number].uniform_(-bound, bound, generator=generator)
                bias[number].uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Each trace through its own network."""
        lead = x.shape[:-1]
        flat = x.flatten(1, -2)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            flat = torch.baddbmm(bias, flat, weight)
            if i < len(self.weights) - 1:
                flat = self.activation(flat)
        return flat.reshape(*lead, flat.shape[-1])
