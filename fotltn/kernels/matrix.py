"""Facts as a sparse matrix: a sum over facts is a product with it, with its transpose going back.

This serves where the factors fall into those along one argument and those along the other.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from fotltn.kernels.tracing import is_tracing

#: Tables up to this size are transposed without a rule for the way back, which costs more.
SMALL = 2**18

with warnings.catch_warnings():  # said once, at the first such tensor: that the format is new
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


@dataclass(frozen=True, slots=True, eq=False)
class Compressed:
    """A sparse matrix row by row: where each row starts, the columns, the values."""

    starts: Tensor
    columns: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Facts as a sparse matrix, by rows and by columns, both in compressed form."""

    by_row: Compressed
    by_column: Compressed


def matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Matrix:
    """Compress facts in both directions; done once, since facts do not change."""
    return Matrix(
        _compress(rows, columns, values, shape), _compress(columns, rows, values, shape[::-1])
    )


def _compress(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Compressed:
    sorted_ = bool((rows[1:] >= rows[:-1]).all())
    order = None if sorted_ else torch.argsort(rows, stable=True)
    counts = torch.bincount(rows, minlength=shape[0])
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = counts.cumsum(0)
    small = max(*shape, rows.numel()) < 2**31
    kind = torch.int32 if small else torch.int64
    return Compressed(
        starts.to(kind),
        (columns if order is None else columns[order]).to(kind),
        (values if order is None else values[order]).contiguous(),
    )


def _multiply(dense: Tensor, starts: Tensor, columns: Tensor, values: Tensor, *_: Tensor) -> Tensor:
    """A fixed sparse matrix times a dense one; its transpose is there for the way back."""
    shape = (starts.shape[0] - 1, dense.shape[0])
    facts = torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
    if dense.shape[1] == 1:
        return torch.mv(facts, dense[:, 0]).unsqueeze(-1)
    return torch.mm(facts, dense)


def _multiply_shape(dense: Tensor, starts: Tensor, *_: Tensor) -> Tensor:
    return dense.new_empty(starts.shape[0] - 1, dense.shape[1])


def _keep_facts(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[1:])


class _Multiply(torch.autograd.Function):
    """The product for PyTorch's own way back and function transforms."""

    setup_context = staticmethod(_keep_facts)

    @staticmethod
    def forward(dense: Tensor, *facts: Tensor) -> Tensor:  # PyTorch reads the signature each time
        return _multiply(dense, *facts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        there, back = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        result: Tensor = _Multiply.apply(grads[0].contiguous(), *back, *there)  # type: ignore[no-untyped-call]
        return (result, *[None] * 6)

    @staticmethod
    def vmap(
        info: Any,  # noqa: ARG004
        in_dims: tuple[int | None, ...],
        dense: Tensor,
        *facts: Tensor,
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        moved = dense.movedim(in_dims[0], -1)
        result: Tensor = _Multiply.apply(moved.reshape(moved.shape[0], -1), *facts)  # type: ignore[no-untyped-call]
        return result.reshape(-1, *moved.shape[1:]), 2


def _swap(u: Tensor) -> Tensor:
    if u.is_cuda and _have_triton():
        from fotltn.kernels.gpu.transpose import transposed

        return transposed(u)
    return u.transpose(-1, -2).clone(memory_format=torch.contiguous_format)


def _swap_shape(u: Tensor) -> Tensor:
    return u.new_empty(*u.shape[:-2], u.shape[-1], u.shape[-2])


@cache
def _have_triton() -> bool:
    return find_spec("triton") is not None


class _Swap(torch.autograd.Function):
    """The exchange for PyTorch's own way back and function transforms."""

    forward = staticmethod(_swap)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return _Swap.apply(grads[0])  # type: ignore[no-untyped-call,no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], u: Tensor) -> tuple[Tensor, int]:  # noqa: ARG004
        assert in_dims[0] is not None
        return _Swap.apply(u.movedim(in_dims[0], 0)), 0  # type: ignore[no-untyped-call]


# The same as operators, which PyTorch's compiler records whole, with their way back.
_LIBRARY = torch.library.Library("fotltn", "DEF")
_LIBRARY.define(
    "multiply(Tensor dense, Tensor starts, Tensor columns, Tensor values, "
    "Tensor back_starts, Tensor back_columns, Tensor back_values) -> Tensor"
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
    result = torch.ops.fotltn.multiply(grad.contiguous(), *back, *there)
    return (result, *[None] * 6)


def _swap_back(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG001
    return torch.ops.fotltn.swap(grad)  # type: ignore[no-any-return]


torch.library.register_autograd(
    "fotltn::multiply", _multiply_back, setup_context=_keep_facts, lib=_LIBRARY
)
torch.library.register_autograd("fotltn::swap", _swap_back, lib=_LIBRARY)


def multiply(facts: Matrix, vector: Tensor) -> Tensor:
    """The matrix times a vector, differentiable in the vector."""
    there, back = facts.by_row, facts.by_column
    run: Any = torch.ops.fotltn.multiply if is_tracing() else _Multiply.apply
    result: Tensor = run(
        vector.unsqueeze(-1),
        there.starts, there.columns, there.values, back.starts, back.columns, back.values,
    )  # fmt: skip
    return result.squeeze(-1)


def swap(u: Tensor) -> Tensor:
    """The last two dimensions exchanged in memory too, so that what follows reads in order."""
    if u.numel() <= SMALL:
        return u.transpose(-1, -2).contiguous()
    run: Any = torch.ops.fotltn.swap if is_tracing() else _Swap.apply
    return run(u)  # type: ignore[no-any-return]
