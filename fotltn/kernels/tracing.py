"""Whether operations are being recorded, to be differentiated and fused by a compiler.

A recorder sees what a function does, not the rule for the way back that it brings along. While it
looks, functions with such a rule do the same by operations that need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_TRACING = ContextVar("fotltn_tracing", default=False)


def is_tracing() -> bool:
    """Whether operations are being recorded."""
    return _TRACING.get()


def is_learned(value: Tensor) -> bool:
    """Whether a tensor has gradients, or is one of many of a function transform."""
    return value.requires_grad or is_transformed(value)


def is_transformed(value: Tensor) -> bool:
    """Whether a tensor is one of many of a function transform, whose numbers cannot be read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(value)


@contextmanager
def tracing() -> Iterator[None]:
    """While operations are being recorded."""
    token = _TRACING.set(True)
    try:
        yield
    finally:
        _TRACING.reset(token)
