"""Truth values, eight to a byte, to store worlds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def packed(truth: Tensor) -> Tensor:
    """Pack truth values into bytes, in the order of their axes.

    >>> packed(torch.tensor([[True, False, True], [True, True, False]]))
    tensor([184], dtype=torch.uint8)
    """
    return torch.from_numpy(np.packbits(truth.cpu().numpy().reshape(-1)))


def unpacked(data: Tensor, shape: Sequence[int]) -> Tensor:
    """Unpack truth values of a shape.

    Raises:
        ValueError: the number of bytes does not fit the shape.
    """
    count = math.prod(shape)
    if data.dtype != torch.uint8 or data.shape != (-(-count // 8),):
        raise ValueError(f"{count:,} truth values are not {data.numel():,} bytes")
    bits = np.unpackbits(data.cpu().numpy(), count=count)
    return torch.from_numpy(bits).to(torch.bool).reshape(tuple(shape))
