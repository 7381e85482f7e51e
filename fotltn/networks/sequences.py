"""Encoders over time: inputs about an entity that depend on its past, or also its future."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, FotError, listing
from fotltn.networks.encoders import Embeddings, FeatureInputs, Joined, Pieces, SeenData

EncoderKind = Literal["gru", "convolution", "transformer"]


_MOST_PARTS = 4096  # the most parts of the data for which presence is cached


def takes_presence(module: nn.Module) -> bool:
    """Whether a module has an argument `present`, for where entities are present."""
    return "present" in inspect.signature(module.forward).parameters


def _bound(parts: dict[int, Any]) -> None:
    """Clear the cache when it has too many parts for most of them to be met again."""
    if len(parts) >= _MOST_PARTS:
        parts.clear()


class Encoded(nn.Module):
    """The output of an encoder over time, on the inputs about the entities of a sort.

    Args:
        sort: the name of the sort, for errors.
        seen: the inputs, shape (trace, entity, time, width).
        encoder: a module from these inputs to the same shape with any width. If it has an argument
            `present`, it receives where entities are present, shape (trace, entity, time).
        present: where entities are present.

    Raises:
        DataError: the inputs do not change over time, or the encoder returns another shape.
    """

    present: Tensor

    def __init__(
        self,
        sort: str,
        seen: Embeddings | FeatureInputs | Joined,
        encoder: nn.Module,
        present: Tensor,
    ) -> None:
        """Find out the width of the encoder's output."""
        super().__init__()
        self.sort, self.seen, self.encoder = sort, seen, encoder
        self.register_buffer("present", present, persistent=False)
        self._asks = takes_presence(encoder)
        self._parts: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        with torch.no_grad():
            self.width: int = self(torch.zeros(1, dtype=torch.int64)).shape[-1]

    def laid(self) -> SeenData:
        """Return the current data."""
        return self.seen.laid()._replace(there=self.present)

    def put_over(self, seen: SeenData) -> None:
        """Switch to other data."""
        assert seen.there is not None
        self.present = seen.there
        self._parts.clear()
        self.seen.put_over(seen)

    def forward(self, traces: Tensor | None = None) -> Tensor:
        """Return the vectors of all entities, or of those in some traces, given by number."""
        seen, present = self.seen(), self.present
        if traces is not None:
            present = self._present(traces)
            seen = seen if seen.shape[0] == 1 else seen.index_select(0, traces)
        if seen.shape[2] == 1 < present.shape[2]:
            raise DataError(
                f"inputs.{self.sort}: an encoder needs inputs that change over time, but those "
                f"of '{self.sort}' are the same at all times"
            )
        seen = seen.expand(*present.shape, seen.shape[-1])
        try:
            output = self.encoder(seen, present=present) if self._asks else self.encoder(seen)
        except (torch.OutOfMemoryError, FotError):
            raise
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise DataError(
                f"the encoder of '{self.sort}' does not accept vectors of shape "
                f"{tuple(seen.shape)}: {str(error).strip().splitlines()[0]}"
            ) from error
        if not isinstance(output, Tensor) or output.shape[:-1] != seen.shape[:-1]:
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise DataError(
                f"the encoder of '{self.sort}' returned {shape} for vectors of shape "
                f"{tuple(seen.shape)}; expected the same axes (trace, entity, time) and any width"
            )
        return output

    def _present(self, traces: Tensor) -> Tensor:
        """Return where entities of some traces are present; cached by the numbers of the traces."""
        numbers, every, present = self._parts.get(id(traces), (None, None, traces))
        if numbers is not traces or every is not self.present:
            present = self.present.index_select(0, traces)
            _bound(self._parts)
            self._parts[id(traces)] = (traces, self.present, present)
        return present


Inputs = Embeddings | FeatureInputs | Joined | Encoded


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The time from arrival to departure of each entity, as rows that begin together.

    So the output of an encoder for a row depends neither on when the entity arrived nor on the
    length of other traces.

    Args:
        rows: which entities are ever present, among those of all traces.
        times: the time point of each place in a row.
        valid: which places of a row are before its end.
    """

    rows: Tensor
    times: Tensor
    valid: Tensor

    @staticmethod
    def of(present: Tensor) -> Spans:
        """Build the rows from presence of shape (trace, entity, time)."""
        flat = present.reshape(-1, present.shape[-1])
        rows = flat.any(-1).nonzero().squeeze(-1)
        flat = flat[rows].int()
        first = flat.argmax(-1, keepdim=True)
        last = flat.shape[-1] - 1 - flat.flip(-1).argmax(-1, keepdim=True)
        length = int((last - first).max()) + 1 if len(rows) else 0
        places = torch.arange(length, device=present.device)
        times = first + places
        return Spans(rows, torch.minimum(times, last), times <= last)

    def cut(self, values: Tensor) -> Tensor:
        """Cut values of shape (trace, entity, time, width) into rows (row, place, width)."""
        flat = values.reshape(-1, *values.shape[-2:])[self.rows]
        return flat.gather(1, self.times.unsqueeze(-1).expand(-1, -1, flat.shape[-1]))

    def spread(self, rows: Tensor, like: Tensor) -> Tensor:
        """Put rows back at their times, in the shape of `like`; 0 elsewhere."""
        row, place = self.valid.nonzero(as_tuple=True)
        table = rows.new_zeros(math.prod(like.shape[:-1]), like.shape[-1], rows.shape[-1])
        table = table.index_put((self.rows[row], self.times[row, place]), rows[row, place])
        return table.reshape(*like.shape, rows.shape[-1])


class TimeEncoder(nn.Module):
    """An encoder over the time from an entity's arrival to its departure.

    Besides its inputs, it sees whether the entity is present.

    Args:
        width: the width of the inputs.
        kind: a recurrent network ("gru"), convolutions ("convolution"), or "transformer".
        size: the width of the output.
        layers: the number of layers.
        causal: whether a vector depends only on the past.
        reach: for convolutions, how many steps each layer looks back and, unless causal, ahead.
        heads: the number of heads of a transformer.
        pieces: how to encode numbers by pieces, if at all.

    Raises:
        DataError: the kind is unknown, a number is below 1, or the heads do not divide the width.
    """

    def __init__(
        self,
        width: int,
        kind: EncoderKind = "gru",
        size: int = 16,
        *,
        layers: int = 1,
        causal: bool = True,
        reach: int = 3,
        heads: int = 2,
        pieces: Pieces | None = None,
    ) -> None:
        """Draw initial weights from PyTorch's global generator."""
        super().__init__()
        if kind not in get_args(EncoderKind):
            raise DataError(f"encoders can be {listing(get_args(EncoderKind))}, not '{kind}'")
        if min(width, size, layers, reach, heads) < 1:
            raise DataError(
                f"the width ({size}), layers ({layers}), reach ({reach}) and heads ({heads}) of an "
                "encoder must be whole numbers of at least 1"
            )
        if kind == "transformer" and size % heads:
            raise DataError(f"{heads} heads do not divide a transformer's width of {size}")
        self.kind, self.causal, self.pieces = kind, causal, pieces
        width = width if pieces is None else pieces.width
        match kind:
            case "gru":
                self.core: nn.Module = _Recurrent(width + 1, size, layers, causal)
            case "convolution":
                self.core = _Convolutions(width + 1, size, layers, causal, reach)
            case "transformer":
                self.core = _Transformer(width + 1, size, layers, causal, heads)
        self._spans: dict[int, tuple[Tensor, Spans]] = {}

    def forward(self, seen: Tensor, present: Tensor) -> Tensor:
        """Return vectors of shape (trace, entity, time, size), 0 where an entity is absent."""
        known, spans = self._spans.get(id(present), (None, None))
        if spans is None or known is not present:
            spans = Spans.of(present)
            _bound(self._spans)
            self._spans[id(present)] = (present, spans)
        told = present.unsqueeze(-1).to(seen.dtype)
        rows = spans.cut(torch.cat([seen * told, told], dim=-1))
        if self.pieces is not None:
            there = rows[..., -1:]
            rows = torch.cat([self.pieces(rows[..., :-1]) * there, there], dim=-1)
        if not len(rows):
            rows = rows.new_zeros(1, 1, rows.shape[-1])  # a dummy row, to get the width
            width = self.core(rows, rows[..., 0] > 0).shape[-1]
            return seen.new_zeros(*present.shape, width)
        return spans.spread(self.core(rows, spans.valid), present) * told


class _Recurrent(nn.Module):
    def __init__(self, width: int, size: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.ahead = nn.GRU(width, size, layers, batch_first=True)
        self.back = None if causal else nn.GRU(width, size, layers, batch_first=True)

    def forward(self, rows: Tensor, valid: Tensor) -> Tensor:
        output: Tensor = self.ahead(rows)[0]
        if self.back is None:
            return output
        places = torch.arange(rows.shape[1], device=rows.device)
        mirror = (valid.sum(-1, keepdim=True) - 1 - places).clamp(min=0).unsqueeze(-1)
        turned = self.back(rows.gather(1, mirror.expand_as(rows)))[0]
        return torch.cat([output, turned.gather(1, mirror.expand_as(turned))], dim=-1)


class _Convolutions(nn.Module):
    def __init__(self, width: int, size: int, layers: int, causal: bool, reach: int) -> None:
        super().__init__()
        self.before, self.after = reach, 0 if causal else reach
        kernel = 1 + self.before + self.after
        widths = [width, *[size] * layers]
        self.layers = nn.ModuleList(nn.Conv1d(widths[i], size, kernel) for i in range(layers))

    def forward(self, rows: Tensor, valid: Tensor) -> Tensor:
        mask = valid.unsqueeze(1)
        values = rows.transpose(1, 2)
        for layer in self.layers:
            values = nn.functional.pad(values * mask, (self.before, self.after))
            values = nn.functional.elu(layer(values))
        return values.transpose(1, 2)


class _Transformer(nn.Module):
    def __init__(self, width: int, size: int, layers: int, causal: bool, heads: int) -> None:
        super().__init__()
        self.causal = causal
        self.entry = nn.Linear(width, size)
        layer = nn.TransformerEncoderLayer(
            size, heads, 2 * size, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, rows: Tensor, valid: Tensor) -> Tensor:
        values = self.entry(rows)
        places = torch.arange(rows.shape[1], device=rows.device)
        values = values + _positions(places, values.shape[-1]).to(values.dtype)
        later = (places > places.unsqueeze(-1)) if self.causal else None
        output: Tensor = self.body(values, mask=later, src_key_padding_mask=~valid)
        return output


def _positions(places: Tensor, width: int) -> Tensor:
    """Encode places as waves of different lengths, as vectors of the given width."""
    rates = torch.exp(-math.log(1e4) * torch.arange(0, width, 2, device=places.device) / width)
    angles = places.unsqueeze(-1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :width]
