"""Many networks of one shape as one module: each trace has its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.networks.predicates import ACTIVATIONS


class ManyMLP(nn.Module):
    """An `mlp` with weights for each of `count` traces: from (count, …, width) to (count, …, 1).

    With one trace for each run of an experiment, all runs are trained at once and stay independent.

    Args:
        count: the number of traces.
        width: the width of a vector.
        hidden: the widths of hidden layers.
        outputs: the number of outputs.
        activation: the name of the activation between layers.
        generator: the generator of initial weights, which are drawn trace by trace.

    Raises:
        DataError: a width or the count is below 1, or the activation is unknown.
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
        """Draw initial weights."""
        super().__init__()
        if min(count, width, *hidden, outputs) < 1:
            raise DataError(
                f"{count} networks with layers of widths {[width, *hidden, outputs]}: all of these "
                "must be whole numbers of at least 1"
            )
        if activation not in ACTIVATIONS:
            hint = did_you_mean(activation, ACTIVATIONS) or f"there are {listing(ACTIVATIONS)}"
            raise DataError(f"unknown activation '{activation}'; {hint}")
        sizes = list(pairwise([width, *hidden, outputs]))
        self.weights = nn.ParameterList(torch.empty(count, a, b) for a, b in sizes)
        self.biases = nn.ParameterList(torch.empty(count, 1, b) for _, b in sizes)
        self.activation = ACTIVATIONS[activation]()
        for number in range(count):
            self.draw(number, generator)

    def draw(self, number: int, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights of one trace, in the same range as `mlp`."""
        with torch.no_grad():
            for weight, bias in zip(self.weights, self.biases, strict=True):
                bound = weight.shape[1] ** -0.5
                weight[number].uniform_(-bound, bound, generator=generator)
                bias[number].uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Pass each trace through its own network."""
        lead = x.shape[:-1]
        flat = x.reshape(x.shape[0], lead[1:].numel(), x.shape[-1])
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            flat = torch.baddbmm(bias, flat, weight)
            if i < len(self.weights) - 1:
                flat = self.activation(flat)
        return flat.reshape(*lead, flat.shape[-1])
