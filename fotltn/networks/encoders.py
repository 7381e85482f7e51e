"""The inputs of networks about an entity: given features and learned embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, listing

Time = Literal["free", "static", "smooth"]


class SeenData(NamedTuple):
    """The data about the entities of a sort that networks see.

    Args:
        values: features, shape (trace, entity, time or 1, feature); None if there are none.
        present: which features count, shape (trace, entity, time or 1, 1); None if all do.
        there: where entities are present, shape (trace, entity, time); encoders need it.
    """

    values: Tensor | None = None
    present: Tensor | None = None
    there: Tensor | None = None

    def to(self, device: torch.device) -> SeenData:
        """Return the data on a device."""
        return SeenData(*(None if one is None else one.to(device) for one in self))


@dataclass(frozen=True, slots=True, eq=False)
class Centring:
    """How to centre and scale features, if the data in memory do not determine it.

    Args:
        mean: the mean of each feature.
        spread: the spread of each feature.
        rows: sample rows of features to take quantiles from; None if they are not needed.
    """

    mean: Tensor
    spread: Tensor
    rows: Tensor | None = None


class Embeddings(nn.Module):
    """A learned vector for every entity, shape (trace, entity, time, width).

    Args:
        traces: the number of traces; 1 if all traces share the entities and their vectors.
        entities: the number of entities.
        horizon: the number of time points.
        width: the length of a vector.
        time: a vector for each time point ("free"), one for all ("static"), or one for each that is
            averaged with its neighbours ("smooth").
        scale: the standard deviation of the initial vectors, over all entities and time points.
        reach: for "smooth", the standard deviation of the neighbours' weights, in steps.
        generator: the source of random numbers.

    Raises:
        DataError: a size is below 1, the scale is below 0, or `time` is unknown.
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
        """Draw the initial vectors."""
        super().__init__()
        if min(traces, entities, horizon, width) < 1:
            raise DataError(
                f"embeddings of {traces} traces, {entities} entities, {horizon} time points and "
                f"width {width}: each of these must be a whole number of at least 1"
            )
        if time not in get_args(Time):
            raise DataError(f"embeddings can be {listing(get_args(Time))} in time, not '{time}'")
        if not 0 <= scale < math.inf:
            raise DataError(f"the scale of embeddings must be at least 0, not {scale}")
        points = 1 if time == "static" else horizon
        start = torch.randn(traces, entities, points, width, generator=generator)
        self.width, self.time, self.scale, self.reach = width, time, scale, reach
        # Smoothing averages independent numbers, so they are drawn larger to keep the scale.
        kernel = smoothing(horizon, reach) if time == "smooth" else None
        gain = 1.0 if kernel is None else 1 / math.sqrt(float(kernel.square().sum(1).mean()))
        self.vectors = nn.Parameter(start * scale * gain)
        self.register_buffer("kernel", kernel, persistent=False)

    def laid(self) -> SeenData:
        """Return the current data; embeddings have none."""
        return SeenData()

    def put_over(self, seen: SeenData) -> None:
        """Switch to other data, in which entities keep their vectors."""

    def forward(self) -> Tensor:
        """Return the vectors of all entities at all time points."""
        if self.kernel is None:
            return self.vectors
        return torch.einsum("st,betw->besw", self.kernel, self.vectors)


def smoothing(horizon: int, reach: float) -> Tensor:
    """Return normal weights with deviation `reach`, shape (time, time); each row sums to 1."""
    if not 0 < reach < math.inf:
        raise DataError(f"the reach of smoothing must be above 0 steps, not {reach}")
    steps = torch.arange(horizon, dtype=torch.float64)
    weights = torch.exp(-0.5 * ((steps.unsqueeze(0) - steps.unsqueeze(1)) / reach) ** 2)
    return (weights / weights.sum(1, keepdim=True)).to(torch.get_default_dtype())


class FeatureInputs(nn.Module):
    """Given features, centred and scaled, shape (trace, entity, time or 1, feature).

    The mean and the spread belong to the state of the module, but the features do not. So loaded
    weights see other features centred and scaled as in training.

    Args:
        values: the features, with the same shape. NaN marks a missing value: it does not count for
            centring, and the network sees 0 in its place, which is the mean.
        present: which cells count for centring, shape (trace, entity, time); None for all. In the
            others, the network sees 0, which is the mean.
        counted: which of these count for centring, with the same shape, if not all do.
        learnable: the numbers of entities whose features are learned instead, the same in all
            traces.
        centring: the mean and the spread, if they are not those of the values.

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
        centring: Centring | None = None,
    ) -> None:
        """Centre and scale the features."""
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
        if centring is not None:
            mean, spread = centring.mean.to(mean), centring.spread.to(spread)
            flat = flat[:0] if centring.rows is None else centring.rows.to(flat)
        self._sample = None if centring is None else flat
        # Do not scale up what rounding leaves of a constant feature.
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

    def laid(self) -> SeenData:
        """Return the current data."""
        return SeenData(self.values, self.present)

    def put_over(self, seen: SeenData) -> None:
        """Switch to other data, centred and scaled as the first data were."""
        assert seen.values is not None
        self.values, self.present, self._scaled = seen.values, seen.present, None

    def forward(self) -> Tensor:
        """Return the features of all entities."""
        scaled = self._centred()
        if self.learned is None:
            return scaled
        shape = (scaled.shape[0], len(self.learnable), scaled.shape[2], self.width)
        return scaled.index_copy(1, self.learnable, self.learned.unsqueeze(0).expand(shape))

    def rows(self) -> Tensor:
        """Return the rows that count, centred and scaled, before the module is moved."""
        if self._sample is not None:
            scaled = (self._sample - self.mean) / self.spread
            return scaled.masked_fill(scaled.isnan(), 0.0)
        scaled = self._centred()
        return scaled.flatten(0, 2) if self._counted is None else scaled[self._counted]

    def _centred(self) -> Tensor:
        """Return the centred and scaled features, recomputed only if their inputs have changed."""
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
    """Return the mean and spread of each column, without missing values; 0 and 1 if all are."""
    if len(flat) and not bool(flat.isnan().any()):
        return flat.mean(0), flat.std(0, correction=0)
    mean, spread = flat.new_zeros(flat.shape[1]), flat.new_ones(flat.shape[1])
    for number, column in enumerate(flat.T):
        known = column[~column.isnan()]
        if len(known):
            mean[number], spread[number] = known.mean(), known.std(correction=0)
    return mean, spread


class Pieces(nn.Module):
    """Encodes numbers by pieces: how much of each interval between quantiles lies below them.

    A linear layer on a number can only rise or fall with it. On pieces it can bend at each
    quantile, as trees can, and outliers count no more than the last quantile.

    Args:
        rows: the inputs to take quantiles of, shape (row, column).
        numbers: which columns to encode by pieces; the others stay as they are.
        bins: the number of pieces. A column with fewer values has fewer pieces; the rest are 0.
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
        """Return the vectors with pieces in place of numbers; the pieces come last."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        size = torch.where(low.isinf(), 1.0, high - low)
        share = ((vectors[..., self.numbers].unsqueeze(-1) - low) / size).clamp(0, 1)
        return torch.cat([vectors[..., ~self.numbers], share.flatten(-2)], dim=-1)


class PiecesByArgument(nn.Module):
    """Pieces of the inputs about several arguments, concatenated.

    Args:
        parts: for each argument, its pieces, or the width of inputs that stay as they are.
    """

    def __init__(self, parts: Sequence[Pieces | int]) -> None:
        """Compute the total width."""
        super().__init__()
        self.parts = nn.ModuleList(nn.Identity() if isinstance(p, int) else p for p in parts)
        self.seen = [p if isinstance(p, int) else p.seen for p in parts]
        self.width = sum(p if isinstance(p, int) else p.width for p in parts)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the encoded inputs of all arguments, concatenated."""
        split = vectors.split(self.seen, dim=-1)
        return torch.cat([part(one) for part, one in zip(self.parts, split, strict=True)], dim=-1)


def with_changes(values: Tensor, present: Tensor, steps: Sequence[int]) -> Tensor:
    """Concatenate features with their changes over some numbers of steps.

    Before an entity arrives, its features count as they are on arrival; while it is away, as they
    were when it was last seen.

    Args:
        values: the features, shape (trace, entity, time, feature).
        present: where entities are present, shape (trace, entity, time).
        steps: how many steps to look back, each at least 1.

    Raises:
        DataError: a number of steps is below 1, or the features are the same at all times.
    """
    if not steps:
        return values
    if min(steps) < 1:
        raise DataError(f"changes must be over at least 1 step, not {min(steps)}")
    if values.shape[2] == 1:
        raise DataError("these features are the same at all times, so they have no changes")
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
            "features must be numbers with axes (trace, entity, time or 1, feature), "
            f"not {values.dtype} of shape {tuple(values.shape)}"
        )
    if present is not None and (present.dtype, present.shape) != (torch.bool, values.shape[:-1]):
        raise DataError(
            f"presence for features of shape {tuple(values.shape)} must be truth values of shape "
            f"{tuple(values.shape[:-1])}, not {present.dtype} of shape {tuple(present.shape)}"
        )
    if bool(torch.isinf(values if present is None else values[present]).any()):
        raise DataError("a feature is not a finite number")
    for number in learnable:
        if not 0 <= number < values.shape[1] or learnable.count(number) > 1:
            raise DataError(
                f"features can be learned for different entities from 0 to {values.shape[1] - 1}, "
                f"not for {list(learnable)}"
            )


def beside(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate vectors; other axes of size 1 are repeated."""
    lead = torch.broadcast_tensors(*(part[..., :0] for part in parts))[0].shape[:-1]
    return torch.cat([part.expand(*lead, part.shape[-1]) for part in parts], dim=-1)


class Joined(nn.Module):
    """Several inputs of one sort, concatenated."""

    def __init__(self, *parts: Embeddings | FeatureInputs | Joined) -> None:
        """Combine inputs."""
        super().__init__()
        if not parts:
            raise DataError("there are no inputs to combine; give at least one")
        self.parts = nn.ModuleList(parts)
        self.width: int = sum(part.width for part in parts)

    def laid(self) -> SeenData:
        """Return the current data of the parts; at most one part has features."""
        every = [part.laid() for part in self._inputs()]
        return next((seen for seen in every if seen.values is not None), SeenData())

    def put_over(self, seen: SeenData) -> None:
        """Switch to other data."""
        for part in self._inputs():
            part.put_over(seen)

    def _inputs(self) -> Iterator[Embeddings | FeatureInputs | Joined]:
        for part in self.parts:
            assert isinstance(part, Embeddings | FeatureInputs | Joined)
            yield part

    def forward(self) -> Tensor:
        """Return all inputs concatenated, shape (trace, entity, time, width)."""
        seen = [part() for part in self.parts]
        try:
            return beside(seen)
        except RuntimeError:
            shapes = ", ".join(str(tuple(f.shape[:-1])) for f in seen)
            raise DataError(
                f"the inputs to combine differ in traces, entities or time points: {shapes}"
            ) from None
