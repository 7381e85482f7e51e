"""Compute dense sums of products over named axes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

Named = tuple[tuple[Hashable, ...], Tensor]


def contract(factors: Sequence[Named], result: Sequence[Hashable]) -> Tensor:
    """Multiply factors and sum over every axis that the result lacks.

    Args:
        factors: tensors with a name for each dimension.
        result: the axes of the result, in order; each occurs in some factor.
    """
    order: dict[Hashable, int] = {}
    operands: list[object] = []
    for names, tensor in factors:
        operands += [tensor, [order.setdefault(n, len(order)) for n in names]]
    if len(order) > 50:
        raise ValueError("too many axes for one contraction")
    return torch.einsum(*operands, [order[n] for n in result])
