"""Sums of products over facts: gather, multiply, add up; the backward pass does the same.

Nothing of the size of the facts is kept for it. Products, minima and maxima are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fotltn.kernels.tracing import is_tracing

#: Facts that are gathered at a time, so that intermediate results stay small.
PART = 2**22


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
                product = product * factor.index_select(0, place[part])
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
        by_factor = [
            torch.zeros_like(f) if n else None for f, n in zip(factors, need[1:], strict=True)
        ]
        by_value = []
        for part in _parts(value):
            looked = [f.index_select(0, p[part]) for f, p in zip(factors, ctx.places, strict=True)]
            here = value[part]
            base = (
                grad.expand(here.shape) if ctx.key is None else grad.index_select(0, ctx.key[part])
            )
            if need[0]:
                by_value.append(_times(base, looked, None))
            for i, place in enumerate(ctx.places):
                so_far = by_factor[i]
                if so_far is not None:
                    here_too = _times(base * here, looked, i)
                    by_factor[i] = so_far.index_add(0, place[part], here_too)
        to_value = None
        if need[0]:
            to_value = torch.cat(by_value) if by_value else torch.zeros_like(value)
        return (None, None, None, to_value, *by_factor)


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
    if is_tracing():
        return _Gather.forward(key, size, places, value, *factors)
    return _Gather.apply(key, size, tuple(places), value, *factors)  # type: ignore[no-untyped-call,no-any-return]


def _times(base: Tensor, looked: list[Tensor], without: int | None) -> Tensor:
    for i, factor in enumerate(looked):
        if i != without:
            base = base * factor
    return base


def _parts(value: Tensor) -> list[slice]:
    count = value.shape[0]
    return [slice(i, min(i + PART, count)) for i in range(0, count, PART)]


@dataclass(frozen=True, slots=True, eq=False)
class Halvings:
    """How to multiply the facts of each cell, two at a time, until one number a cell is left.

    Args:
        order: the facts, cell by cell.
        rounds: for each round the numbers that stay, their neighbours, and whether these count.
        cells: where the numbers that are left belong.
    """

    order: Tensor
    rounds: tuple[tuple[Tensor, Tensor, Tensor], ...]
    cells: Tensor


def halvings(key: Tensor) -> Halvings:
    """The rounds for facts whose cells are known; done once, since facts do not move."""
    order = key.argsort(stable=True)
    cells = key[order]
    rounds: list[tuple[Tensor, Tensor, Tensor]] = []
    while True:
        places = torch.arange(cells.numel(), device=key.device)
        begins = torch.ones_like(cells, dtype=torch.bool)
        begins[1:] = cells[1:] != cells[:-1]
        if bool(begins.all()):
            return Halvings(order, tuple(rounds), cells)
        rank = places - torch.where(begins, places, 0).cummax(0).values
        stay = (rank % 2 == 0).nonzero().squeeze(-1)
        beside = (stay + 1).clamp(max=cells.numel() - 1)
        rounds.append((stay, beside, (stay + 1 == beside) & ~begins[beside]))
        cells = cells[stay]


class _Product(torch.autograd.Function):
    """Products over facts; on the way back the product of all others is that of all, divided.

    Facts next to 0 cannot divide. Where a cell has one of them, the others are multiplied without
    it; where it has more, what is left is next to nothing.
    """

    @staticmethod
    def forward(value: Tensor, key: Tensor, size: int, by: Callable[[], Halvings]) -> Tensor:  # noqa: ARG004
        ones = torch.ones(size, dtype=value.dtype, device=value.device)
        return ones.scatter_reduce_(0, key, value, "prod")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        value, key, ctx.size, ctx.by = inputs
        ctx.save_for_backward(value, key, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        value, key, out = ctx.saved_tensors
        if torch.is_grad_enabled():  # derivatives of the way back are asked for
            halved = _halved(value, ctx.by(), ctx.size)
            (to_value,) = torch.autograd.grad(halved, value, grads[0], create_graph=True)
            return to_value, None, None, None
        tiny = torch.finfo(value.dtype).tiny ** 0.5
        if value.is_cpu and value.numel() and value.amin() >= tiny:
            return (grads[0] * out).index_select(0, key).div_(value), None, None, None
        small = value.abs() < tiny
        divisor = torch.where(small, 1, value)
        rest = torch.ones_like(out).scatter_reduce_(0, key, divisor, "prod")
        count = torch.zeros_like(out).index_add_(0, key, small.to(out.dtype))
        alone = count.index_select(0, key) == small  # no other fact of the cell is next to 0
        to_value = (grads[0] * rest).index_select(0, key) / divisor * alone
        return to_value, None, None, None


def product(value: Tensor, key: Tensor, size: int, by: Callable[[], Halvings]) -> Tensor:
    """For each cell, the product of its facts; 1 over none.

    Args:
        value: the degree of each fact.
        key: the cell of each fact.
        size: the number of cells.
        by: makes the halvings of the cells, for transforms and for derivatives of derivatives.
    """
    if is_tracing() or torch._C._functorch.peek_interpreter_stack() is not None:
        return _halved(value, by(), size)
    return _Product.apply(value, key, size, by)  # type: ignore[no-untyped-call,no-any-return]


def _halved(value: Tensor, by: Halvings, size: int) -> Tensor:
    """Products of two have derivatives of every order, also where a fact is 0."""
    value = value[by.order]
    for stay, beside, both in by.rounds:
        value = value[stay] * torch.where(both, value[beside], 1)
    ones = torch.ones(size, dtype=value.dtype, device=value.device)
    return ones.scatter(0, by.cells, value)


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
    return _Extreme.apply(value, key, rest, constant, neutral, least)  # type: ignore[no-untyped-call,no-any-return]
