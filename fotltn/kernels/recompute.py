"""Recompute intermediate results when gradients are needed, instead of storing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

R = TypeVar("R")


def recompute(function: Callable[..., R], *args: Any) -> R:
    """Return `function(*args)` without storing intermediate results for the backward pass.

    Inside a `torch.func` transform, which does not support this, they are stored.
    """
    if not torch.is_grad_enabled() or torch._C._functorch.peek_interpreter_stack() is not None:
        return function(*args)
    return checkpoint(function, *args, use_reentrant=False)  # type: ignore[no-any-return]
