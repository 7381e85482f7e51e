"""Sums of products over facts: gather, multiply and add up, forward and backward.

The backward pass stores nothing as large as the facts. Products, minima and maxima over facts are
also here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fotltn.kernels.function import Differentiated
from fotltn.kernels.tracing import is_tracing, is_transformed

#: The number of facts gathered at once, to keep intermediate results small.
PART = 2**22


def taken(values: Tensor, places: Tensor) -> Tensor:
    """Return the values at places; older transforms of PyTorch need places of 64 bits."""
    return values.index_select(0, places.long() if is_transformed(values) else places)


class _Gather(Differentiated):
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
                product = product * taken(factor, place[part])
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
            looked = [taken(f, p[part]) for f, p in zip(factors, ctx.places, strict=True)]
            here = value[part]
            base = grad.expand(here.shape) if ctx.key is None else taken(grad, ctx.key[part])
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
    """Sum value times factors over the facts of each cell of the result.

    Args:
        key: the cell of each fact; None if there is one cell.
        size: the number of cells.
        places: for each factor, the flat index that each fact reads.
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
    """How to multiply the facts of each cell, two at a time, until one number per cell is left.

    Args:
        order: the facts, sorted by cell.
        rounds: for each round, the numbers that stay, their neighbours, and whether the neighbours
            count.
        cells: the cells that the final numbers belong to.
    """

    order: Tensor
    rounds: tuple[tuple[Tensor, Tensor, Tensor], ...]
    cells: Tensor


def halvings(key: Tensor) -> Halvings:
    """Plan the rounds for facts with known cells; done once, because facts do not move."""
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


class _ProductOfFacts(Differentiated):
    """Products over facts; the backward pass divides the product of a cell by each of its facts.

    Division by facts close to 0 is avoided. If a cell has one such fact, the others are multiplied
    without it; if it has more, the result is negligible.
    """

    @staticmethod
    def forward(value: Tensor, key: Tensor, size: int, by: Callable[[], Halvings]) -> Tensor:  # noqa: ARG004
        ones = torch.ones(size, dtype=value.dtype, device=value.device)
        return ones.scatter_reduce(0, key, value, "prod")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        value, key, ctx.size, ctx.by = inputs
        ctx.save_for_backward(value, key, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        value, key, out = ctx.saved_tensors
        if torch.is_grad_enabled():  # higher derivatives are needed
            halved = _halved(value, ctx.by(), ctx.size)
            (to_value,) = torch.autograd.grad(halved, value, grads[0], create_graph=True)
            return to_value, None, None, None
        tiny = torch.finfo(value.dtype).tiny ** 0.5
        if value.is_cpu and value.numel() and value.amin() >= tiny:
            return (grads[0] * out).index_select(0, key) / value, None, None, None
        small = value.abs() < tiny
        divisor = torch.where(small, 1, value)
        rest = torch.ones_like(out).scatter_reduce_(0, key, divisor, "prod")
        count = torch.zeros_like(out).index_add_(0, key, small.to(out.dtype))
        alone = count.index_select(0, key) == small  # no other fact of the cell is close to 0
        to_value = (grads[0] * rest).index_select(0, key) / divisor * alone
        return to_value, None, None, None


def product(value: Tensor, key: Tensor, size: int, by: Callable[[], Halvings]) -> Tensor:
    """Multiply the facts of each cell; 1 for a cell without facts.

    Args:
        value: the degree of each fact.
        key: the cell of each fact.
        size: the number of cells.
        by: returns the halvings of the cells, for function transforms and higher derivatives.
    """
    if is_tracing() or torch._C._functorch.peek_interpreter_stack() is not None:
        return _halved(value, by(), size)
    return _ProductOfFacts.apply(value, key, size, by)  # type: ignore[no-untyped-call,no-any-return]


def _halved(value: Tensor, by: Halvings, size: int) -> Tensor:
    """Multiply by pairs, which gives derivatives of every order, even where a fact is 0."""
    value = value[by.order]
    for stay, beside, both in by.rounds:
        value = value[stay] * torch.where(both, value[beside], 1)
    ones = torch.ones(size, dtype=value.dtype, device=value.device)
    return ones.scatter(0, by.cells, value)


class _Extreme(Differentiated):
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
    """Return the minimum or maximum over the facts of each cell and `rest` constants."""
    return _Extreme.apply(value, key, rest, constant, neutral, least)  # type: ignore[no-untyped-call,no-any-return]
