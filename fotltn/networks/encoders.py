"""What networks see of an entity: features that are given, and embeddings that are learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, listing

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
        scale: the standard deviation of the initial vectors, over all entities and time points.
        reach: for "smooth", the standard deviation of the weights of the neighbours, in steps.
        generator: of random numbers.

    Raises:
        DataError: a size is below 1, the scale below 0, or time has no such kind.
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
        if min(traces, entities, horizon, width) < 1:
            raise DataError(
                f"embeddings of {traces} traces, {entities} entities, {horizon} time points and "
                f"width {width}: all of these are whole numbers from 1"
            )
        if time not in get_args(Time):
            raise DataError(f"embeddings are {listing(get_args(Time))} in time, not '{time}'")
        if not 0 <= scale < math.inf:
            raise DataError(f"the scale of embeddings is a number from 0, not {scale}")
        points = 1 if time == "static" else horizon
        start = torch.randn(traces, entities, points, width, generator=generator)
        self.width, self.time, self.scale, self.reach = width, time, scale, reach
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
    if not 0 < reach < math.inf:
        raise DataError(f"smoothing reaches some steps, a number above 0, not {reach}")
    steps = torch.arange(horizon, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((steps.unsqueeze(0) - steps.unsqueeze(1)) / reach) ** 2)
    return (weights / weights.sum(1, keepdim=True)).to(torch.get_default_dtype())


class FeatureInputs(nn.Module):
    """Given features, centred and scaled, with axes (trace, entity, time or 1, feature).

    The mean and the spread belong to the state of the module, the features do not: weights that
    are loaded over other features see them as the network is used to.

    Args:
        values: with the same axes. NaN stands for a value that is missing: it does not count for
            centring, and is seen as 0, which is the mean.
        present: which of them count for centring, with axes (trace, entity, time); all, if None.
            The others are seen as 0, which is the mean.
        counted: which of these count for centring, with the same axes, if not all do.
        learnable: numbers of entities whose features are learned instead, in all traces alike.

    Raises:
        DataError: shapes do not fit, a feature is infinite, or there is no such entity.
    """

    values: Tensor
    present: Tensor | None
    mean: Tensor
    spread: Tensor
    learnable: Tensor

    def __init__(
        self,
        values: Tensor,
        *,
        present: Tensor | None = None,
        counted: Tensor | None = None,
        learnable: tuple[int, ...] = (),
    ) -> None:
        """Centre and scale."""
        super().__init__()
        _check_features(values, present, learnable)
        self.width: int = values.shape[-1]
        if counted is None:
            counted = present
        elif present is not None:
            counted = counted & present
        self._counted = counted
        flat = values.reshape(-1, self.width) if counted is None else values[counted]
        mean, spread = _mean_and_spread(flat)
        # What rounding leaves of a constant feature is not worth scaling up.
        least = 4 * torch.finfo(values.dtype).eps * mean.abs()
        self.register_buffer("mean", mean)
        self.register_buffer("spread", torch.where(spread > least, spread, torch.ones_like(spread)))
        self.register_buffer("values", values, persistent=False)
        mask = None if present is None else present.unsqueeze(-1)
        self.register_buffer("present", mask, persistent=False)
        entities = torch.tensor(learnable, dtype=torch.long)
        self.register_buffer("learnable", entities, persistent=False)
        start = values.new_zeros(len(learnable), 1, self.width)
        self.learned = nn.Parameter(start) if learnable else None
        self._scaled: tuple[tuple[int, ...], Tensor] | None = None

    def forward(self) -> Tensor:
        """The features of all entities."""
        scaled = self._centred()
        if self.learned is None:
            return scaled
        shape = (scaled.shape[0], len(self.learnable), scaled.shape[2], self.width)
        return scaled.index_copy(1, self.learnable, self.learned.unsqueeze(0).expand(shape))

    def rows(self) -> Tensor:
        """The rows that count for centring, as they are seen, before this module is moved."""
        scaled = self._centred()
        return scaled.flatten(0, 2) if self._counted is None else scaled[self._counted]

    def _centred(self) -> Tensor:
        """The features, centred and scaled anew only if mean, spread or features have changed."""
        used = (self.values, self.mean, self.spread)
        state = tuple(n for t in used for n in (id(t), t._version))
        if self._scaled is None or self._scaled[0] != state:
            scaled = (self.values - self.mean) / self.spread
            scaled = scaled.masked_fill(scaled.isnan(), 0.0)
            if self.present is not None:
                scaled = scaled.masked_fill(~self.present, 0.0)
            self._scaled = (state, scaled)
        return self._scaled[1]


def _mean_and_spread(flat: Tensor) -> tuple[Tensor, Tensor]:
    """Of each column, over the values that are there; 0 and 1 where there are none."""
    if len(flat) and not bool(flat.isnan().any()):
        return flat.mean(0), flat.std(0, correction=0)
    mean, spread = flat.new_zeros(flat.shape[1]), flat.new_ones(flat.shape[1])
    for number, column in enumerate(flat.T):
        known = column[~column.isnan()]
        if len(known):
            mean[number], spread[number] = known.mean(), known.std(correction=0)
    return mean, spread


class Pieces(nn.Module):
    """Numbers by pieces: how much of each interval between their quantiles lies below them.

    A layer over a number can only go up or down with it. Over pieces it can bend at each quantile,
    as trees can, and what is far out is no more than what is last.

    Args:
        rows: what is seen, with axes (row, column), whose quantiles are taken.
        numbers: which columns are taken by pieces, as truth values; the others stay as they are.
        bins: how many pieces. A column with fewer values has fewer; the others are 0.
    """

    edges: Tensor
    numbers: Tensor

    def __init__(self, rows: Tensor, numbers: Sequence[bool], bins: int) -> None:
        """Take quantiles."""
        super().__init__()
        self.seen: int = rows.shape[-1]
        chosen = torch.tensor(numbers)
        self.register_buffer("numbers", chosen, persistent=False)
        columns = rows[:, chosen].T
        self.width: int = self.seen + len(columns) * (bins - 1)
        edges = rows.new_full((len(columns), bins + 1), math.inf)
        places = torch.linspace(0, max(0, len(rows) - 1), bins + 1).round().long()
        for number, column in enumerate(columns if len(rows) else ()):
            values = column.sort().values[places].unique()
            edges[number, : len(values)] = values
        self.register_buffer("edges", edges)

    def forward(self, vectors: Tensor) -> Tensor:
        """The vectors with pieces in place of numbers, which come last."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        size = torch.where(low.isinf(), 1.0, high - low)
        share = ((vectors[..., self.numbers].unsqueeze(-1) - low) / size).clamp(0, 1)
        return torch.cat([vectors[..., ~self.numbers], share.flatten(-2)], dim=-1)


class PiecesByArgument(nn.Module):
    """Pieces of what is seen of several arguments, side by side.

    Args:
        parts: of each argument its pieces, or how wide what is seen of it is.
    """

    def __init__(self, parts: Sequence[Pieces | int]) -> None:
        """See how wide all of it is."""
        super().__init__()
        self.parts = nn.ModuleList(nn.Identity() if isinstance(p, int) else p for p in parts)
        self.seen = [p if isinstance(p, int) else p.seen for p in parts]
        self.width = sum(p if isinstance(p, int) else p.width for p in parts)

    def forward(self, vectors: Tensor) -> Tensor:
        """All of them."""
        split = vectors.split(self.seen, dim=-1)
        return torch.cat([part(one) for part, one in zip(self.parts, split, strict=True)], dim=-1)


def with_changes(values: Tensor, present: Tensor, steps: Sequence[int]) -> Tensor:
    """Features, and by how much each has changed over so many steps, side by side.

    What lies before an entity came is taken to be as when it came, and what lies where it was
    away as when it was last seen.

    Args:
        values: with axes (trace, entity, time, feature).
        present: where entities are, with axes (trace, entity, time).
        steps: how far back, each from 1.

    Raises:
        DataError: a number of steps is below 1, or the features are the same at all times.
    """
    if not steps:
        return values
    if min(steps) < 1:
        raise DataError(f"changes are over a number of steps from 1, not {min(steps)}")
    if values.shape[2] == 1:
        raise DataError("these features are the same at all times; they have no changes")
    time = torch.arange(values.shape[2], device=values.device).expand(present.shape)
    last = torch.where(present, time, -1).cummax(-1).values
    first = present.int().argmax(-1, keepdim=True)
    parts = [values]
    for back in steps:
        before = last.gather(-1, torch.maximum(time - back, first)).clamp(min=0)
        parts.append(values - values.gather(2, before.unsqueeze(-1).expand_as(values)))
    return torch.cat(parts, dim=-1)


def _check_features(values: Tensor, present: Tensor | None, learnable: tuple[int, ...]) -> None:
    if values.dim() != 4 or not values.is_floating_point() or not values.shape[-1]:
        raise DataError(
            "features are numbers with axes (trace, entity, time or 1, feature), "
            f"not {values.dtype} of shape {tuple(values.shape)}"
        )
    if present is not None and (present.dtype, present.shape) != (torch.bool, values.shape[:-1]):
        raise DataError(
            f"presence for features of shape {tuple(values.shape)} is truth values of shape "
            f"{tuple(values.shape[:-1])}, not {present.dtype} of shape {tuple(present.shape)}"
        )
    if bool(torch.isinf(values if present is None else values[present]).any()):
        raise DataError("a feature is not a finite number")
    for number in learnable:
        if not 0 <= number < values.shape[1] or learnable.count(number) > 1:
            raise DataError(
                f"features are learned for different entities from 0 to {values.shape[1] - 1}, "
                f"not for {list(learnable)}"
            )


def beside(parts: Sequence[Tensor]) -> Tensor:
    """Vectors side by side; other axes of size 1 are repeated."""
    lead = torch.broadcast_tensors(*(part[..., :0] for part in parts))[0].shape[:-1]
    return torch.cat([part.expand(*lead, part.shape[-1]) for part in parts], dim=-1)


class Joined(nn.Module):
    """Several inputs of one sort, side by side."""

    def __init__(self, *parts: Embeddings | FeatureInputs | Joined) -> None:
        """Put inputs together."""
        super().__init__()
        if not parts:
            raise DataError("nothing is put side by side")
        self.parts = nn.ModuleList(parts)
        self.width: int = sum(part.width for part in parts)

    def forward(self) -> Tensor:
        """All of them, with axes (trace, entity, time, width)."""
        seen = [part() for part in self.parts]
        try:
            return beside(seen)
        except RuntimeError:
            shapes = ", ".join(str(tuple(f.shape[:-1])) for f in seen)
            raise DataError(
                f"inputs side by side differ in traces, entities or time points: {shapes}"
            ) from None
