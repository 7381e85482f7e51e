"""Encoders: what is seen of an entity at a time may depend on what it was before, or also after."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from fotltn.errors import DataError, FotError, listing
from fotltn.networks.encoders import Embeddings, FeatureInputs, Joined, Pieces

EncoderKind = Literal["gru", "convolution", "transformer"]


_MOST_PARTS = 4096  # of the data, for which is kept where entities are


def takes_presence(module: nn.Module) -> bool:
    """Whether a module asks where entities are present, by an argument of that name."""
    return "present" in inspect.signature(module.forward).parameters


def _bound(parts: dict[int, Any]) -> None:
    """Forget all parts where there are so many that they are hardly met again."""
    if len(parts) >= _MOST_PARTS:
        parts.clear()


class Encoded(nn.Module):
    """What an encoder over time makes of what is seen of the entities of a sort.

    Args:
        sort: the name of the sort, for errors.
        seen: what is seen, with axes (trace, entity, time, width).
        encoder: from that, and where entities are (its argument `present`, with axes (trace,
            entity, time), if it has one), to the same axes with any width.
        present: where entities are.

    Raises:
        DataError: what is seen does not change over time, or the encoder gives another shape.
    """

    present: Tensor

    def __init__(
        self,
        sort: str,
        seen: Embeddings | FeatureInputs | Joined,
        encoder: nn.Module,
        present: Tensor,
    ) -> None:
        """See how wide the encoder's vectors are."""
        super().__init__()
        self.sort, self.seen, self.encoder = sort, seen, encoder
        self.register_buffer("present", present, persistent=False)
        self._asks = takes_presence(encoder)
        self._parts: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        with torch.no_grad():
            self.width: int = self(torch.zeros(1, dtype=torch.int64)).shape[-1]

    def forward(self, traces: Tensor | None = None) -> Tensor:
        """The vectors of all entities, or of those of some traces, by number."""
        seen, present = self.seen(), self.present
        if traces is not None:
            present = self._present(traces)
            seen = seen if seen.shape[0] == 1 else seen.index_select(0, traces)
        if seen.shape[2] == 1 < present.shape[2]:
            raise DataError(
                f"inputs.{self.sort}: an encoder looks over time, but what is seen of "
                f"'{self.sort}' is the same at all times"
            )
        seen = seen.expand(*present.shape, seen.shape[-1])
        try:
            output = self.encoder(seen, present=present) if self._asks else self.encoder(seen)
        except (torch.OutOfMemoryError, FotError):
            raise
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise DataError(
                f"the encoder of '{self.sort}' does not take vectors of shape "
                f"{tuple(seen.shape)}: {str(error).strip().splitlines()[0]}"
            ) from error
        if not isinstance(output, Tensor) or output.shape[:-1] != seen.shape[:-1]:
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise DataError(
                f"the encoder of '{self.sort}' gives {shape} for vectors of shape "
                f"{tuple(seen.shape)}; expected the same axes (trace, entity, time) and any width"
            )
        return output

    def _present(self, traces: Tensor) -> Tensor:
        """Where entities of some traces are; the same tensor for the same numbers."""
        numbers, every, present = self._parts.get(id(traces), (None, None, traces))
        if numbers is not traces or every is not self.present:
            present = self.present.index_select(0, traces)
            _bound(self._parts)
            self._parts[id(traces)] = (traces, self.present, present)
        return present


Inputs = Embeddings | FeatureInputs | Joined | Encoded


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The time from when each entity came until it left, as rows that begin together.

    What an encoder makes of a row then depends neither on when the entity came nor on how long
    other traces are.

    Args:
        rows: which entities are ever there, of all of all traces.
        times: of each place of a row, its time.
        valid: which places of a row are before its end.
    """

    rows: Tensor
    times: Tensor
    valid: Tensor

    @staticmethod
    def of(present: Tensor) -> Spans:
        """The rows of entities with axes (trace, entity, time)."""
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
        """Rows (row, place, width) of values with axes (trace, entity, time, width)."""
        flat = values.reshape(-1, *values.shape[-2:])[self.rows]
        return flat.gather(1, self.times.unsqueeze(-1).expand(-1, -1, flat.shape[-1]))

    def spread(self, rows: Tensor, like: Tensor) -> Tensor:
        """Rows back at their times, with the axes of `like`; 0 elsewhere."""
        row, place = self.valid.nonzero(as_tuple=True)
        table = rows.new_zeros(math.prod(like.shape[:-1]), like.shape[-1], rows.shape[-1])
        table = table.index_put((self.rows[row], self.times[row, place]), rows[row, place])
        return table.reshape(*like.shape, rows.shape[-1])


class TimeEncoder(nn.Module):
    """An encoder over the time from when an entity came until it left.

    Besides what it is given it sees whether the entity is present.

    Args:
        width: of what is seen.
        kind: a recurrent network ("gru"), convolutions ("convolution"), or "transformer".
        size: of the vectors that it gives.
        layers: how many.
        causal: whether a vector depends on the past alone.
        reach: of convolutions, how many steps each layer looks back (and, unless causal, ahead).
        heads: of a transformer.
        pieces: how numbers of what is seen are taken by pieces, if they are.

    Raises:
        DataError: there is no such kind, a number is below 1, or heads do not divide the width.
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
        """Draw initial weights from PyTorch's own generator."""
        super().__init__()
        if kind not in get_args(EncoderKind):
            raise DataError(f"encoders are {listing(get_args(EncoderKind))}, not '{kind}'")
        if min(width, size, layers, reach, heads) < 1:
            raise DataError(
                f"the width ({size}), layers ({layers}), reach ({reach}) and heads ({heads}) of an "
                "encoder are whole numbers from 1"
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
        """Vectors with axes (trace, entity, time, size); 0 where an entity is not there."""
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
            rows = rows.new_zeros(1, 1, rows.shape[-1])  # for the width alone
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
    """Places as waves of different lengths, a vector of a width each."""
    rates = torch.exp(-math.log(1e4) * torch.arange(0, width, 2, device=places.device) / width)
    angles = places.unsqueeze(-1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :width]
