"""Tell whether operations are being recorded, for a compiler to differentiate and fuse.

A recorder sees the operations of a function, but not its custom backward rule. While recording,
functions with such a rule use operations that do not need one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_TRACING = ContextVar("fotltn_tracing", default=False)
#: Callbacks that learn of kernels that PyTorch's own tools do not see.
WATCHERS: list[Callable[[str], None]] = []


def is_tracing() -> bool:
    """Whether operations are being recorded."""
    return _TRACING.get()


def is_learned(value: Tensor) -> bool:
    """Whether a tensor has gradients, or is batched by a function transform."""
    return value.requires_grad or is_transformed(value)


def is_transformed(value: Tensor) -> bool:
    """Whether a tensor is batched by a function transform, so its numbers cannot be read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(value)


@contextmanager
def tracing() -> Iterator[None]:
    """Mark that operations are being recorded."""
    token = _TRACING.set(True)
    try:
        yield
    finally:
        _TRACING.reset(token)


def unseen(what: str) -> None:
    """Report that a kernel runs which PyTorch does not see."""
    for tell in WATCHERS:
        tell(what)
