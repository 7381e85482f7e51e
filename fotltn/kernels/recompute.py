"""Compute now, and again when gradients are asked for, instead of keeping intermediate results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

R = TypeVar("R")


def recompute(function: Callable[..., R], *args: Any) -> R:
    """`function(*args)`, whose intermediate results are not kept for the backward pass.

    Inside a `torch.func` transform, which has no such hooks, they are kept.
    """
    if not torch.is_grad_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
        return function(*args)
    return checkpoint(function, *args, use_reentrant=False)  # type: ignore[no-any-return]
