"""Sums of products over facts: gather, multiply, add up; the backward pass does the same.

Two ways. Where the factors fall into those along one argument and those along the other, the
facts are a matrix and the sum is a matrix-vector product, forward and (transposed) backward.
Otherwise each factor is looked up at each fact. Neither keeps anything the size of the facts.
"""

from __future__ import annotations

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


def matrix(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Matrix:
    """Compress facts in both directions; done once, since facts do not change."""
    return Matrix(
        _compress(rows, columns, values, shape), _compress(columns, rows, values, shape[::-1])
    )


def _compress(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    order = torch.argsort(rows * shape[1] + columns)
    counts = torch.bincount(rows, minlength=shape[0])
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = counts.cumsum(0)
    small = max(*shape, rows.numel()) < 2**31
    kind = torch.int32 if small else torch.int64
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            starts.to(kind), columns[order].to(kind), values[order], shape, check_invariants=False
        )


class _Multiply(torch.autograd.Function):
    """A fixed sparse matrix times a vector."""

    @staticmethod
    def forward(ctx: Any, vector: Tensor, facts: Matrix) -> Tensor:
        ctx.facts = facts
        return torch.mv(facts.by_row, vector)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.mv(ctx.facts.by_column, grads[0].contiguous()), None


def multiply(facts: Matrix, vector: Tensor) -> Tensor:
    """The matrix times a vector, differentiable in the vector."""
    found: Tensor = _Multiply.apply(vector, facts)  # type: ignore[no-untyped-call]
    return found


class _Gather(torch.autograd.Function):
    """`out[key] += value · Π factor[place]` over facts."""

    @staticmethod
    def forward(
        ctx: Any,
        key: Tensor | None,
        size: int,
        places: Sequence[Tensor],
        value: Tensor,
        *factors: Tensor,
    ) -> Tensor:
        ctx.key, ctx.size, ctx.places = key, size, places
        ctx.save_for_backward(value, *factors)
        out = torch.zeros(size, dtype=value.dtype, device=value.device)
        for part in _parts(value):
            product = value[part]
            for place, factor in zip(places, factors, strict=True):
                product = product * factor[place[part]]
            if key is None:
                out += product.sum()
            else:
                out.index_add_(0, key[part], product)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        (grad,) = grads
        value, *factors = ctx.saved_tensors
        found = [torch.zeros_like(f) for f in factors]
        need = ctx.needs_input_grad[3:]
        by_value = torch.zeros_like(value) if need[0] else None
        for part in _parts(value):
            looked = [f[p[part]] for f, p in zip(factors, ctx.places, strict=True)]
            base = grad.expand(value[part].shape) if ctx.key is None else grad[ctx.key[part]]
            if by_value is not None:
                by_value[part] = _times(base, looked, None)
            base = base * value[part]
            for i, place in enumerate(ctx.places):
                if need[1 + i]:
                    found[i].index_add_(0, place[part], _times(base, looked, i))
        results = [f if n else None for f, n in zip(found, need[1:], strict=True)]
        return (None, None, None, by_value, *results)


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
    found: Tensor = _Gather.apply(key, size, places, value, *factors)  # type: ignore[no-untyped-call]
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

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        key: Tensor,
        rest: Tensor,
        constant: float,
        neutral: float,
        least: bool,
    ) -> Tensor:
        start = torch.full_like(rest, neutral, dtype=value.dtype)
        start = torch.where(rest > 0, torch.full_like(start, constant), start)
        out = start.scatter_reduce(0, key, value, "amin" if least else "amax")
        ctx.save_for_backward(value, key, rest, out)
        ctx.constant = constant
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        value, key, rest, out = ctx.saved_tensors
        hit = value == out[key]
        ties = torch.zeros_like(out).index_add_(0, key, hit.to(out.dtype))
        ties = ties + torch.where(out == ctx.constant, rest.to(out.dtype), torch.zeros_like(out))
        share = (grads[0] / ties.clamp(min=1))[key]
        return torch.where(hit, share, torch.zeros_like(share)), None, None, None, None, None


def extreme(
    value: Tensor, key: Tensor, rest: Tensor, constant: float, neutral: float, *, least: bool
) -> Tensor:
    """For each cell, the least (or greatest) value of its facts and of `rest` constants."""
    found: Tensor = _Extreme.apply(value, key, rest, constant, neutral, least)  # type: ignore[no-untyped-call]
    return found
