"""A predicate as a table of facts: true where listed, with degrees, and a default elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """Facts of one predicate.

    Args:
        index: where they are, with axes (dimension, fact); the dimensions are those of `shape`.
        value: their degrees, which may carry gradients.
        shape: (traces or 1, arguments …, time points or 1), as of a dense table.
        default: the degree of everything else.
    """

    index: Tensor
    value: Tensor
    shape: tuple[int, ...]
    default: float = 0.0

    @property
    def facts(self) -> int:
        """The number of facts."""
        return self.value.shape[0]

    def unsqueeze(self, dim: int) -> SparseTable:
        """The same with an axis of size 1 before the others, or (-1) after them."""
        row = torch.zeros_like(self.index[:1])
        if dim == 0:
            return replace(self, index=torch.cat([row, self.index]), shape=(1, *self.shape))
        return replace(self, index=torch.cat([self.index, row]), shape=(*self.shape, 1))

    def dense(self, dtype: torch.dtype) -> Tensor:
        """All degrees."""
        table = torch.full(self.shape, self.default, dtype=dtype, device=self.value.device)
        return table.index_put(tuple(self.index.long()), self.value.to(dtype))


def sparse_table(
    index: Tensor | Sequence[Sequence[int]],
    value: Tensor | Sequence[float] | None,
    shape: Sequence[int],
    *,
    default: float = 0.0,
) -> SparseTable:
    """Check facts and put them together; without values, all are 1.

    Raises:
        DataError: an index lies outside the shape, a degree outside [0, 1], or a fact occurs twice.
    """
    where = torch.as_tensor(index)
    if where.dtype != torch.int32:
        where = where.long()
    sizes = tuple(int(n) for n in shape)
    if where.dim() != 2 or where.shape[0] != len(sizes):
        raise DataError(
            f"an index for shape {sizes} has {len(sizes)} rows, not shape {tuple(where.shape)}"
        )
    count = where.shape[1]
    degrees = torch.ones(count, device=where.device) if value is None else torch.as_tensor(value)
    if degrees.shape != (count,):
        raise DataError(f"{count} facts need {count} degrees, not shape {tuple(degrees.shape)}")
    if not degrees.is_floating_point():
        degrees = degrees.to(torch.get_default_dtype())
    if not 0 <= default <= 1 or not bool(((degrees >= 0) & (degrees <= 1)).all()):
        raise DataError("degrees lie in [0, 1]")
    limits = torch.tensor(sizes, device=where.device).unsqueeze(-1)
    if bool(((where < 0) | (where >= limits)).any()):
        raise DataError(f"a fact lies outside the shape {sizes}")
    if count and flat(where, sizes).unique().numel() != count:
        raise DataError("a fact occurs twice")
    return SparseTable(where, degrees, sizes, default)


def flat(index: Tensor, shape: Sequence[int]) -> Tensor:
    """Row-major numbers of the cells of an index with axes (dimension, fact)."""
    return numbered(list(index), shape)


def numbered(rows: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Row-major numbers of cells, in the smaller integers where they suffice."""
    kind = torch.int32 if math.prod(shape) < 2**31 else torch.int64
    cells = torch.zeros_like(rows[0], dtype=kind)
    for row, size in zip(rows, shape, strict=True):
        if size > 1:
            cells = cells * size + row.to(kind)
    return cells
