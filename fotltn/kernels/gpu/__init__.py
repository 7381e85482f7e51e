"""Triton kernels: for a GPU, or for any processor in Triton's interpreter, which tests them."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

from torch import Tensor


def usable(u: Tensor) -> bool:
    """Whether kernels can process a tensor."""
    return (u.is_cuda or _interpreted()) and _have_triton()


@cache
def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def _have_triton() -> bool:
    return find_spec("triton") is not None
