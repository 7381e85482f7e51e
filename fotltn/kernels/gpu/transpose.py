"""Transpose on a GPU tile by tile, so that reads and writes both follow memory order."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 64


@triton.jit  # type: ignore[untyped-decorator]
def _tiles(source, target, rows, columns, tile: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    bands = tl.cdiv(rows, tile)
    part = (tl.program_id(0) // bands).to(tl.int64) * rows * columns
    row = (tl.program_id(0) % bands).to(tl.int64) * tile + tl.arange(0, tile)
    column = tl.program_id(1).to(tl.int64) * tile + tl.arange(0, tile)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    block = tl.load(source + part + row[:, None] * columns + column[None, :], mask=inside)
    there = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(target + part + column[:, None] * rows + row[None, :], tl.trans(block), mask=there)


def transposed(u: Tensor) -> Tensor:
    """Swap the last two dimensions in memory."""
    u = u.contiguous()
    rows, columns = u.shape[-2:]
    target = torch.empty(*u.shape[:-2], columns, rows, dtype=u.dtype, device=u.device)
    parts = u.numel() // max(1, rows * columns)
    if u.numel():
        grid = (parts * triton.cdiv(rows, _TILE), triton.cdiv(columns, _TILE))
        _tiles[grid](u, target, rows, columns, _TILE)
    return target
