"""Multiply a sparse matrix with short rows by a vector on a GPU, one thread per row.

Rows are cells (trace, entity, time). Facts join cells of equal trace and time, so programs go by
trace, then by a few time points, then by entity: what they read stays in the cache, and a line of
memory, which holds the next time points of an entity, is used whole.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Rows per program, and the most time points among them.
_ROWS, _POINTS = 256, 32


@triton.jit  # type: ignore[untyped-decorator]
def _sums(  # type: ignore[no-untyped-def] # noqa: ANN202
    starts, columns, values, x, out, entities, points,  # noqa: ANN001
    all_one: tl.constexpr, height: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    across, down = tl.cdiv(points, width), tl.cdiv(entities, height)
    trace, rest = tl.program_id(0) // (across * down), tl.program_id(0) % (across * down)
    entity = (rest % down) * height + tl.arange(0, height)[:, None]
    time = (rest // down) * width + tl.arange(0, width)[None, :]
    inside = (entity < entities) & (time < points)
    row = (trace.to(tl.int64) * entities + entity) * points + time
    begin = tl.load(starts + row, mask=inside, other=0)
    end = tl.load(starts + row + 1, mask=inside, other=0)
    total = tl.zeros([height, width], dtype=out.dtype.element_ty)
    longest = tl.max(tl.max(end - begin, axis=1), axis=0)
    for k in range(longest):
        place = begin + k
        here = place < end
        column = tl.load(columns + place, mask=here, other=0)
        term = tl.load(x + column, mask=here, other=0.0)
        if not all_one:
            term *= tl.load(values + place, mask=here, other=0.0)
        total += term
    tl.store(out + row, total, mask=inside)


def row_sums(
    starts: Tensor, columns: Tensor, values: Tensor, x: Tensor, traces: int, points: int
) -> Tensor:
    """Sum value times x over the columns of each row; without values, they are 1."""
    rows = starts.shape[0] - 1
    out = torch.empty(rows, dtype=x.dtype, device=x.device)
    if rows:
        all_one, entities = values.shape[0] == 0, rows // (traces * points)
        width = min(_POINTS, triton.next_power_of_2(points))
        height = _ROWS // width
        grid = (traces * triton.cdiv(points, width) * triton.cdiv(entities, height),)
        _sums[grid](
            starts, columns, values, x.contiguous(), out, entities, points, all_one, height, width
        )  # fmt: skip
    return out
