"""Facts as a sparse matrix: a sum over facts is a product with it, or backwards its transpose.

It applies where every factor is along one argument or along the other. Facts join cells of equal
trace and time. So cells are numbered by trace, time and entity, and tables are transposed: what a
product reads next is then close by. The kernel for short rows on a GPU does without that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fotltn.kernels.function import Differentiated
from fotltn.kernels.gpu import usable
from fotltn.kernels.tracing import WATCHERS, is_tracing, unseen
from fotltn.semantics.sparse import numbered

#: The maximum number of columns in a short row.
SHORT = 32
#: Tables up to this size are transposed without a custom backward rule, which would cost more.
SMALL = 2**18

with warnings.catch_warnings():  # PyTorch warns at the first such tensor that the format is new
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """A sparse matrix stored by rows: the start of each row, the columns and the values.

    On a GPU, a matrix whose rows are all `short` is multiplied by a custom kernel, and stores no
    values if all are 1.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    short: bool


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Facts as a sparse matrix in compressed form, both by rows and by columns.

    Args:
        by_row: the matrix.
        by_column: its transpose.
        by_entity: whether cells are numbered as in tables, by trace, entity and time; else by
            trace, time and entity.
    """

    by_row: Compressed
    by_column: Compressed
    by_entity: bool


class PlacesOfFacts(NamedTuple):
    """Where facts are.

    Args:
        trace: the trace of each fact; None if there is one.
        time: the time point of each fact; None if there is one.
        row: the entity of each fact that numbers rows.
        column: the entity of each fact that numbers columns.
        shape: the numbers of traces, time points, rows and columns.
    """

    trace: Tensor | None
    time: Tensor | None
    row: Tensor
    column: Tensor
    shape: tuple[int, int, int, int]

    def cells(self, by_entity: bool) -> list[Tensor]:
        """Return the number of each fact's row, and that of its column."""
        traces, points, *sizes = self.shape
        trace, time = (self.row if t is None else t for t in (self.trace, self.time))
        return [
            numbered([trace, entity, time], [traces, size, points])
            if by_entity
            else numbered([trace, time, entity], [traces, points, size])
            for entity, size in zip((self.row, self.column), sizes, strict=True)
        ]


def matrix(places: PlacesOfFacts, values: Tensor) -> Matrix:
    """Compress facts in both directions; done once, because facts do not change."""
    traces, points, *sizes = places.shape
    cells, shape = places.cells(by_entity=False), [traces * points * size for size in sizes]
    short = [
        usable(values) and bool((torch.bincount(numbers, minlength=size) <= SHORT).all())
        for numbers, size in zip(cells, shape, strict=True)
    ]
    if all(short):
        cells = places.cells(by_entity=True)
    there, back = (
        _compress(cells[i], cells[1 - i], values, (shape[i], shape[1 - i]), short[i])
        for i in range(2)
    )
    return Matrix(there, back, all(short))


def _compress(
    rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], short: bool
) -> Compressed:
    sorted_ = bool((rows[1:] >= rows[:-1]).all())
    order = None if sorted_ else torch.argsort(rows, stable=True)
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    small = max(*shape, rows.numel()) < 2**31
    kind = torch.int32 if small else torch.int64
    if short and bool((values == 1).all()):
        degrees = values[:0]
    else:
        degrees = values if order is None else values[order]
    ordered = columns if order is None else columns[order]
    return Compressed(starts.to(kind), ordered.to(kind), degrees.contiguous(), short)


def _multiply(
    dense: Tensor, starts: Tensor, columns: Tensor, values: Tensor,
    _1: Tensor, _2: Tensor, _3: Tensor, short: bool, _4: bool, traces: int, points: int,
) -> Tensor:  # fmt: skip
    """Multiply a fixed sparse matrix by a dense one; the transpose is for the backward pass."""
    if short and dense.shape[1] == 1:
        from fotltn.kernels.gpu.rows import row_sums

        return row_sums(starts, columns, values, dense[:, 0], traces, points).unsqueeze(-1)
    if values.shape[0] < columns.shape[0]:  # all values are 1
        values = values.new_ones(columns.shape)
    shape = (starts.shape[0] - 1, dense.shape[0])
    facts = torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
    if dense.shape[1] == 1:
        return torch.mv(facts, dense[:, 0]).unsqueeze(-1)
    return torch.mm(facts, dense)


def _multiply_shape(dense: Tensor, starts: Tensor, *_: object) -> Tensor:
    return dense.new_empty(starts.shape[0] - 1, dense.shape[1])


def _keep_facts(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[1:7])
    ctx.short, ctx.sizes = inputs[7:9], inputs[9:]


class _Multiply(Differentiated):
    """The product, for PyTorch's backward pass and function transforms."""

    setup_context = staticmethod(_keep_facts)

    @staticmethod
    def forward(dense: Tensor, *facts: Any) -> Tensor:
        if facts[6]:
            unseen("row sums")
        return _multiply(dense, *facts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        there, back = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        result: Tensor = _Multiply.apply(  # type: ignore[no-untyped-call]
            grads[0].contiguous(), *back, *there, *ctx.short[::-1], *ctx.sizes
        )
        return (result, *[None] * 10)

    @staticmethod
    def vmap(
        info: Any,  # noqa: ARG004
        in_dims: tuple[int | None, ...],
        dense: Tensor,
        *facts: Any,
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        moved = dense.movedim(in_dims[0], -1)
        result: Tensor = _Multiply.apply(moved.reshape(moved.shape[0], -1), *facts)  # type: ignore[no-untyped-call]
        return result.reshape(-1, *moved.shape[1:]), 2


def _swap(u: Tensor) -> Tensor:
    if usable(u):
        from fotltn.kernels.gpu.transpose import transposed

        unseen("transpose")
        return transposed(u)
    return u.transpose(-1, -2).clone(memory_format=torch.contiguous_format)


def _swap_shape(u: Tensor) -> Tensor:
    return u.new_empty(*u.shape[:-2], u.shape[-1], u.shape[-2])


class _Swap(Differentiated):
    """The transposition, for PyTorch's backward pass and function transforms."""

    forward = staticmethod(_swap)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Save nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return _Swap.apply(grads[0])  # type: ignore[no-untyped-call,no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], u: Tensor) -> tuple[Tensor, int]:  # noqa: ARG004
        assert in_dims[0] is not None
        return _Swap.apply(u.movedim(in_dims[0], 0)), 0  # type: ignore[no-untyped-call]


# The same functions as operators, which PyTorch's compiler records with their backward pass.
_LIBRARY = torch.library.Library("fotltn", "DEF")
_LIBRARY.define(
    "multiply(Tensor dense, Tensor starts, Tensor columns, Tensor values, "
    "Tensor back_starts, Tensor back_columns, Tensor back_values, bool short, bool back_short, "
    "int traces, int points) -> Tensor"
)
_LIBRARY.define("swap(Tensor u) -> Tensor")
for _name, _run, _shape in (
    ("multiply", _multiply, _multiply_shape),
    ("swap", _swap, _swap_shape),
):
    _LIBRARY.impl(_name, _run, "CPU")
    _LIBRARY.impl(_name, _run, "CUDA")
    torch.library.register_fake(f"fotltn::{_name}", _shape, lib=_LIBRARY)


def _multiply_back(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    there, back = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
    facts = (*back, *there, *ctx.short[::-1], *ctx.sizes)
    return (torch.ops.fotltn.multiply(grad.contiguous(), *facts), *[None] * 10)


def _swap_back(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG001
    return torch.ops.fotltn.swap(grad)  # type: ignore[no-any-return]


torch.library.register_autograd(
    "fotltn::multiply", _multiply_back, setup_context=_keep_facts, lib=_LIBRARY
)
torch.library.register_autograd("fotltn::swap", _swap_back, lib=_LIBRARY)


def _is_noted(u: Tensor) -> bool:
    """Whether operations are being recorded, so that GPU kernels must be called as operators."""
    return is_tracing() or (u.is_cuda and bool(WATCHERS))


def multiply(facts: Matrix, table: Tensor) -> Tensor:
    """Multiply by a table (trace, entity, time), differentiably; the result has the same shape."""
    traces, _, points = table.shape
    vector = (table if facts.by_entity else _swap_in_memory(table)).reshape(-1, 1)
    there, back = facts.by_row, facts.by_column
    run: Any = torch.ops.fotltn.multiply if _is_noted(vector) else _Multiply.apply
    result: Tensor = run(
        vector,
        there.starts, there.columns, there.values, back.starts, back.columns, back.values,
        there.short, back.short, *((traces, points) if facts.by_entity else (1, 1)),
    )  # fmt: skip
    if facts.by_entity:
        return result.reshape(traces, -1, points)
    return _swap_in_memory(result.reshape(traces, points, -1))


def _swap_in_memory(u: Tensor) -> Tensor:
    """Swap the last two dimensions in memory as well, so later steps read in order."""
    if u.numel() <= SMALL:
        return u.transpose(-1, -2).contiguous()
    run: Any = torch.ops.fotltn.swap if _is_noted(u) else _Swap.apply
    return run(u)  # type: ignore[no-any-return]
