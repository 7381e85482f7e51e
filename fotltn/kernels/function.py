"""Base of all functions with a backward rule of their own."""

from __future__ import annotations

import inspect
from typing import Any

import torch


class Differentiated(torch.autograd.Function):
    """A function that differentiates itself, such as a root whose slope is 0 at 0.

    At every call, PyTorch looks up the signature of `forward` to bind the arguments. This class
    stores the signature when a subclass is defined, so a call reads an attribute instead. A step
    of the paper's 13 axioms has ten such calls.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.forward.__signature__ = inspect.signature(cls.forward)  # type: ignore[attr-defined]
