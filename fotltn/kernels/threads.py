"""Work that threads share, each with operations of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def in_threads(process: Callable[[T], None], items: Iterable[T], threads: int) -> None:
    """Process items in several threads, in which each operation takes one thread.

    Use this for many small operations in a row: PyTorch divides an operation among threads only if
    it is large, and they wait for each other after every one.
    """
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for _ in pool.map(process, items):
            pass
    torch.set_num_threads(threads)  # for threads that begin later; this one still has as many
