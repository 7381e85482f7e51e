"""Sums of products over facts: gather, multiply, add up; the backward pass does the same.

Two ways. Where the factors fall into those along one argument and those along the other, the
facts are a matrix and the sum is a matrix-vector product, forward and (transposed) backward.
Otherwise each factor is looked up at each fact. Neither keeps anything the size of the facts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: Facts that are gathered at a time, so that intermediate results stay small.
PART = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """Facts as a sparse matrix, by rows and by columns, both in compressed form."""

    by_row: Tensor
    by_column: Tensor

    def transposed(self) -> Matrix:
        """The same the other way round."""
        return Matrix(self.by_column, self.by_row)


def matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Matrix:
    """Compress facts in both directions; done once, since facts do not change."""
    return Matrix(
        _compress(rows, columns, values, shape), _compress(columns, rows, values, shape[::-1])
    )


def _compress(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    sorted_ = bool((rows[1:] >= rows[:-1]).all())
    order = None if sorted_ else torch.argsort(rows, stable=True)
    counts = torch.bincount(rows, minlength=shape[0])
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = counts.cumsum(0)
    small = max(*shape, rows.numel()) < 2**31
    kind = torch.int32 if small else torch.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(
            starts.to(kind),
            (columns if order is None else columns[order]).to(kind),
            (values if order is None else values[order]).contiguous(),
            shape,
            check_invariants=False,
        )


class _Swap(torch.autograd.Function):
    """The last two dimensions exchanged in memory too, forward and backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor) -> Tensor:
        return u.transpose(-1, -2).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return grads[0].transpose(-1, -2).contiguous()


def swap(u: Tensor) -> Tensor:
    """The last two dimensions exchanged, so that what follows reads memory in order."""
    found: Tensor = _Swap.apply(u)  # type: ignore[no-untyped-call]
    return found


class _Multiply(torch.autograd.Function):
    """A fixed sparse matrix times a dense one."""

    @staticmethod
    def forward(dense: Tensor, facts: Matrix) -> Tensor:
        if dense.shape[1] == 1:
            return torch.mv(facts.by_row, dense[:, 0]).unsqueeze(-1)
        return torch.mm(facts.by_row, dense)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Matrix], output: Tensor) -> None:  # noqa: ARG004
        ctx.facts = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _multiply(grads[0].contiguous(), ctx.facts.transposed()), None

    @staticmethod
    def vmap(
        info: Any,  # noqa: ARG004
        in_dims: tuple[int | None, None],
        dense: Tensor,
        facts: Matrix,
    ) -> Any:
        assert in_dims[0] is not None
        moved = dense.movedim(in_dims[0], -1)
        found = _multiply(moved.reshape(moved.shape[0], -1), facts)
        return found.reshape(-1, *moved.shape[1:]), 2


def _multiply(dense: Tensor, facts: Matrix) -> Tensor:
    found: Tensor = _Multiply.apply(dense, facts)  # type: ignore[no-untyped-call]
    return found


def multiply(facts: Matrix, vector: Tensor) -> Tensor:
    """The matrix times a vector, differentiable in the vector."""
    return _multiply(vector.unsqueeze(-1), facts).squeeze(-1)


class _Gather(torch.autograd.Function):
    """`out[key] += value · Π factor[place]` over facts."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        key: Tensor | None, size: int, places: Sequence[Tensor], value: Tensor, *factors: Tensor
    ) -> Tensor:
        out = torch.zeros(size, dtype=value.dtype, device=value.device)
        for part in _parts(value):
            product = value[part]
            for place, factor in zip(places, factors, strict=True):
                product = product * factor[place[part]]
            out = out + product.sum() if key is None else out.index_add(0, key[part], product)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        ctx.key, _, ctx.places, value, *factors = inputs
        ctx.save_for_backward(value, *factors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (grad,) = grads
        value, *factors = ctx.saved_tensors
        need = ctx.needs_input_grad[3:]
        found = [torch.zeros_like(f) if n else None for f, n in zip(factors, need[1:], strict=True)]
        by_value = []
        for part in _parts(value):
            looked = [f[p[part]] for f, p in zip(factors, ctx.places, strict=True)]
            here = value[part]
            base = grad.expand(here.shape) if ctx.key is None else grad[ctx.key[part]]
            if need[0]:
                by_value.append(_times(base, looked, None))
            for i, place in enumerate(ctx.places):
                so_far = found[i]
                if so_far is not None:
                    found[i] = so_far.index_add(0, place[part], _times(base * here, looked, i))
        whole = None
        if need[0]:
            whole = torch.cat(by_value) if by_value else torch.zeros_like(value)
        return (None, None, None, whole, *found)


def gather_sum(
    key: Tensor | None,
    size: int,
    places: Sequence[Tensor],
    value: Tensor,
    factors: Sequence[Tensor],
) -> Tensor:
    """For each cell of the result, the sum over its facts of value times factors.

    Args:
        key: the cell of each fact; None if there is one cell.
        size: the number of cells.
        places: for each factor, where each fact looks.
        value: the degree of each fact.
        factors: flat tables.
    """
    found: Tensor = _Gather.apply(key, size, tuple(places), value, *factors)  # type: ignore[no-untyped-call]
    return found


def _times(base: Tensor, looked: list[Tensor], without: int | None) -> Tensor:
    for i, factor in enumerate(looked):
        if i != without:
            base = base * factor
    return base


def _parts(value: Tensor) -> list[slice]:
    count = value.shape[0]
    return [slice(i, min(i + PART, count)) for i in range(0, count, PART)]


class _Extreme(torch.autograd.Function):
    """Minimum or maximum over facts and a counted constant; ties share the gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        value: Tensor, key: Tensor, rest: Tensor, constant: float, neutral: float, least: bool
    ) -> Tensor:
        start = torch.full_like(rest, neutral, dtype=value.dtype)
        start = torch.where(rest > 0, torch.full_like(start, constant), start)
        return start.scatter_reduce(0, key, value, "amin" if least else "amax")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        value, key, rest, ctx.constant, _, _ = inputs
        ctx.save_for_backward(value, key, rest, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        value, key, rest, out = ctx.saved_tensors
        hit = value == out[key]
        ties = torch.zeros_like(out).index_add(0, key, hit.to(out.dtype))
        ties = ties + torch.where(out == ctx.constant, rest.to(out.dtype), torch.zeros_like(out))
        share = (grads[0] / ties.clamp(min=1))[key]
        return torch.where(hit, share, torch.zeros_like(share)), None, None, None, None, None


def extreme(
    value: Tensor, key: Tensor, rest: Tensor, constant: float, neutral: float, *, least: bool
) -> Tensor:
    """For each cell, the least (or greatest) value of its facts and of `rest` constants."""
    found: Tensor = _Extreme.apply(value, key, rest, constant, neutral, least)  # type: ignore[no-untyped-call]
    return found
