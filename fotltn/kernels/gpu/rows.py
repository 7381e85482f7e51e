"""Multiply a sparse matrix with short rows by a vector on a GPU, one thread per row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 256


@triton.jit  # type: ignore[untyped-decorator]
def _sums(starts, columns, values, x, out, rows, all_one: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = row < rows
    begin = tl.load(starts + row, mask=inside, other=0)
    end = tl.load(starts + row + 1, mask=inside, other=0)
    total = tl.zeros([block], dtype=out.dtype.element_ty)
    longest = tl.max(end - begin, axis=0)
    for k in range(longest):
        place = begin + k
        here = place < end
        column = tl.load(columns + place, mask=here, other=0)
        term = tl.load(x + column, mask=here, other=0.0)
        if not all_one:
            term *= tl.load(values + place, mask=here, other=0.0)
        total += term
    tl.store(out + row, total, mask=inside)


def row_sums(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """Sum value times x over the columns of each row; without values, they are 1."""
    rows = starts.shape[0] - 1
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    if rows:
        all_one = values.shape[0] == 0
        grid = (triton.cdiv(rows, _ROWS),)
        _sums[grid](starts, columns, values, x.contiguous(), out, rows, all_one, _ROWS)
    return out
