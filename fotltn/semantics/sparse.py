"""A predicate as a table of facts: a degree for each listed fact, a default for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn import threads
from fotltn.errors import DataError

threads.loaded()  # every module that computes is above this one


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """The facts of one predicate.

    Args:
        index: the places of the facts, shape (dimension, fact); the dimensions are those of
            `shape`.
        value: the degrees of the facts, which may carry gradients.
        shape: the shape of the dense table: (traces or 1, *arguments, time points or 1).
        default: the degree of everything that is not listed.
    """

    index: Tensor
    value: Tensor
    shape: tuple[int, ...]
    default: float = 0.0

    @property
    def facts(self) -> int:
        """The number of facts."""
        return self.value.shape[0]

    @property
    def numbers(self) -> int:
        """The numbers that the table holds."""
        return self.index.numel() + self.value.numel()

    def unsqueeze(self, dim: int) -> SparseTable:
        """Add an axis of size 1 before the others, or after them for -1."""
        row = torch.zeros_like(self.index[:1])
        if dim == 0:
            return replace(self, index=torch.cat([row, self.index]), shape=(1, *self.shape))
        return replace(self, index=torch.cat([self.index, row]), shape=(*self.shape, 1))

    def dense(self, dtype: torch.dtype) -> Tensor:
        """Return the dense table."""
        table = torch.full(self.shape, self.default, dtype=dtype, device=self.value.device)
        return table.index_put(tuple(self.index.long()), self.value.to(dtype))


def largest(tables: Iterable[Tensor | SparseTable]) -> int:
    """Return the size of the largest table: its cells, or the places and degrees of its facts."""
    return max((t.numel() if isinstance(t, Tensor) else t.numbers for t in tables), default=0)


def has_gradients(tables: Iterable[Tensor | SparseTable]) -> bool:
    """Whether gradients are wanted, and degrees of any table have them."""
    degrees = (t if isinstance(t, Tensor) else t.value for t in tables)
    return torch.is_grad_enabled() and any(t.requires_grad for t in degrees)


def sparse_table(
    index: Tensor | Sequence[Sequence[int]],
    value: Tensor | Sequence[float] | None,
    shape: Sequence[int],
    *,
    default: float = 0.0,
) -> SparseTable:
    """Check facts and build a table from them; without values, all degrees are 1.

    Raises:
        DataError: an index is outside the shape, a degree outside [0, 1], or a fact occurs twice.
    """
    where = torch.as_tensor(index)
    if where.dtype != torch.int32:
        where = where.long()
    sizes = tuple(int(n) for n in shape)
    if where.dim() != 2 or where.shape[0] != len(sizes):
        raise DataError(
            f"the index for shape {sizes} needs {len(sizes)} rows, but its shape is "
            f"{tuple(where.shape)}"
        )
    count = where.shape[1]
    degrees = torch.ones(count, device=where.device) if value is None else torch.as_tensor(value)
    if degrees.shape != (count,):
        raise DataError(f"{count} facts need {count} degrees, not shape {tuple(degrees.shape)}")
    if not degrees.is_floating_point():
        degrees = degrees.to(torch.get_default_dtype())
    if not 0 <= default <= 1 or not bool(((degrees >= 0) & (degrees <= 1)).all()):
        raise DataError("degrees must be from 0 to 1")
    limits = torch.tensor(sizes, device=where.device).unsqueeze(-1)
    if bool(((where < 0) | (where >= limits)).any()):
        raise DataError(f"a fact is outside the shape {sizes}")
    if _twice(flat(where, sizes)):
        raise DataError("a fact occurs twice")
    return SparseTable(where, degrees, sizes, default)


def _twice(cells: Tensor) -> bool:
    """Whether a number occurs twice; in a strictly rising row, none does."""
    rising = bool((cells[1:] > cells[:-1]).all())
    return not rising and cells.unique().numel() != cells.numel()


def flat(index: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the row-major numbers of cells from an index of shape (dimension, fact)."""
    return numbered(list(index), shape)


def numbered(rows: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return the row-major numbers of cells, as 32-bit integers where they suffice."""
    kind = torch.int32 if math.prod(shape) < 2**31 else torch.int64
    cells: Tensor | None = None
    for row, size in zip(rows, shape, strict=True):
        if size > 1:
            cells = row.to(kind, copy=True) if cells is None else cells.mul_(size).add_(row)
    if cells is None:
        return torch.zeros_like(rows[0], dtype=kind)
    return cells
