"""Threads that stand for processes which tell each other what they have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fotltn import FotError
from tests.patience import PATIENCE

#: Gives a thread's own value to all, and returns those of all, by number.
Tell = Callable[[Any], list[Any]]


def together(count: int, work: Callable[[int, Tell], Any]) -> list[Any]:
    """What each of so many threads returns, or the error that it ends with.

    An error of the package is one that all of them are told of; after any other, nobody waits.
    """
    barrier, told = threading.Barrier(count), [None] * count
    results: list[Any] = [None] * count

    def one(number: int) -> None:
        def tell(value: Any) -> list[Any]:
            told[number] = value
            barrier.wait(PATIENCE)
            every = list(told)
            barrier.wait(PATIENCE)
            return every

        try:
            results[number] = work(number, tell)
        except Exception as error:
            results[number] = error
            if not isinstance(error, FotError):
                barrier.abort()

    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return results
