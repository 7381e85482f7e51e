"""What networks see of an entity: features that are given, and embeddings that are learned."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from fotltn.errors import DataError

Time = Literal["free", "static", "smooth"]


class Embeddings(nn.Module):
    """A vector for every entity, with axes (trace, entity, time, width).

    Args:
        traces: 1 if all traces share the entities and their vectors.
        entities: how many there are.
        horizon: the number of time points.
        width: of a vector.
        time: one vector for each time point ("free"), for all of them ("static"), or for each, but
            averaged with its neighbours ("smooth").
        scale: the standard deviation of the initial values.
        reach: for "smooth", the standard deviation of the weights of the neighbours, in steps.
        generator: of random numbers.
    """

    kernel: Tensor | None

    def __init__(
        self,
        traces: int,
        entities: int,
        horizon: int,
        width: int = 32,
        *,
        time: Time = "free",
        scale: float = 0.01,
        reach: float = 3.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """Draw initial vectors."""
        super().__init__()
        points = 1 if time == "static" else horizon
        start = torch.randn(traces, entities, points, width, generator=generator)
        self.width = width
        # Smoothing averages independent numbers; they are drawn larger, so that the scale holds.
        kernel = smoothing(horizon, reach) if time == "smooth" else None
        gain = 1.0 if kernel is None else 1 / math.sqrt(float(kernel.square().sum(1).mean()))
        self.vectors = nn.Parameter(start * scale * gain)
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self) -> Tensor:
        """The vectors of all entities at all time points."""
        if self.kernel is None:
            return self.vectors
        return torch.einsum("st,betw->besw", self.kernel, self.vectors)


def smoothing(horizon: int, reach: float) -> Tensor:
    """Weights of all time points for each, normal with deviation `reach`; rows add up to 1."""
    if not reach > 0:
        raise DataError(f"smoothing reaches some steps, not {reach}")
    steps = torch.arange(horizon, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((steps.unsqueeze(0) - steps.unsqueeze(1)) / reach) ** 2)
    return (weights / weights.sum(1, keepdim=True)).to(torch.get_default_dtype())


class FeatureInputs(nn.Module):
    """Given features, centred and scaled, with axes (trace, entity, time or 1, feature).

    Args:
        values: with the same axes.
        present: which of them count for centring, with axes (trace, entity, time); all, if None.
        learnable: numbers of entities whose features are learned instead, in all traces alike.
    """

    values: Tensor
    own: Tensor

    def __init__(
        self,
        values: Tensor,
        *,
        present: Tensor | None = None,
        learnable: tuple[int, ...] = (),
    ) -> None:
        """Centre and scale."""
        super().__init__()
        self.width: int = values.shape[-1]
        flat = values.reshape(-1, self.width) if present is None else values[present]
        mean = flat.mean(0) if len(flat) else torch.zeros(self.width, dtype=values.dtype)
        spread = flat.std(0, correction=0) if len(flat) else torch.ones_like(mean)
        scaled = (values - mean) / torch.where(spread > 0, spread, torch.ones_like(spread))
        if present is not None:
            scaled = torch.where(present.unsqueeze(-1), scaled, torch.zeros_like(scaled))
        self.register_buffer("values", scaled)
        self.register_buffer("own", torch.tensor(learnable, dtype=torch.long), persistent=False)
        self.learned = nn.Parameter(torch.zeros(len(learnable), 1, self.width, dtype=values.dtype))

    def forward(self) -> Tensor:
        """The features of all entities."""
        if not len(self.own):
            return self.values
        shape = (self.values.shape[0], len(self.own), self.values.shape[2], self.width)
        return self.values.index_copy(1, self.own, self.learned.unsqueeze(0).expand(shape))


class Joined(nn.Module):
    """Several inputs of one sort, side by side."""

    def __init__(self, *parts: Embeddings | FeatureInputs | Joined) -> None:
        """Put inputs together."""
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.width: int = sum(part.width for part in parts)

    def forward(self) -> Tensor:
        """All of them, with axes (trace, entity, time, width)."""
        found = [part() for part in self.parts]
        lead = torch.broadcast_shapes(*(f.shape[:-1] for f in found))
        return torch.cat([f.expand(*lead, f.shape[-1]) for f in found], dim=-1)


Inputs = Embeddings | FeatureInputs | Joined
