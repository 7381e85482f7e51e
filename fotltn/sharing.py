"""Work over traces that several processes share: dealt in blocks, and put together in order.

Whatever computes something of each trace asks `by_blocks`. Alone it is told to do so at once. Of
several processes, each does some blocks of traces, and all are told what every block came to. The
blocks depend on the number of traces alone, so that results do not depend on how many processes
there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from fotltn.errors import DataError, FotError

T = TypeVar("T")

#: How many blocks of traces there are at most, however many processes share them.
BLOCKS = 16

_END = "the end"


class _LeftError(DataError):
    """Another process has left, or does something else: there is nobody to tell any more."""


def ranges(total: int, parts: int) -> list[range]:
    """So many things in a row, in parts whose sizes differ by one at most.

    >>> ranges(5, 3)
    [range(0, 1), range(1, 3), range(3, 5)]
    """
    ends = [total * n // parts for n in range(parts + 1)]
    return [range(*ends[n : n + 2]) for n in range(parts)]


@dataclass(frozen=True, slots=True)
class Sharing:
    """This process among those that share work.

    Args:
        number: of this one, from 0.
        count: of all.
        tell: tells a value to all, and returns that of each.
    """

    number: int
    count: int
    tell: Callable[[Any], list[Any]]

    def done(self, what: str, outcomes: list[T], error: FotError | None = None) -> list[T]:
        """What all processes have done, in order; an error of one is an error of all.

        Raises:
            FotError: this process's own, or that of the first process that has one.
            DataError: the others do something else, since their data differ.
        """
        every = self.tell((what, outcomes, error))
        if error is not None:
            raise error
        for said, _, wrong in every:
            if wrong is not None:
                raise _LeftError(*wrong.diagnostics) if said == _END else wrong
        if len({said for said, _, _ in every}) > 1:
            did = "; ".join(f"process {n}: {said}" for n, (said, _, _) in enumerate(every))
            raise _LeftError(f"the processes do not have the same data ({did})")
        return [outcome for _, some, _ in every for outcome in some]


_now: ContextVar[Sharing | None] = ContextVar("now", default=None)


@contextmanager
def shared_by(sharing: Sharing) -> Iterator[None]:
    """Share the work inside, which all processes leave together.

    Raises:
        FotError: another process ended with one.
    """
    token = _now.set(sharing)
    try:
        try:
            yield
        except _LeftError:
            raise
        except FotError as error:
            sharing.done(_END, [], error)
        else:
            sharing.done(_END, [])
    finally:
        _now.reset(token)


def is_first() -> bool:
    """Whether this process writes files: alone, or as the first of several."""
    sharing = _now.get()
    return sharing is None or sharing.number == 0


def sharers() -> int:
    """How many processes share work."""
    sharing = _now.get()
    return 1 if sharing is None else sharing.count


def by_blocks(what: str, total: int, work: Callable[[range], T]) -> list[T] | None:
    """What work comes to on each block of so many traces; None if it is not shared.

    Args:
        what: the work, in a word, which is the same in all processes.
        total: how many traces there are; one alone is not shared.
        work: is called with the numbers of the traces of a block. What it shares is not shared
            again.

    Raises:
        FotError: that of a block, the first one that has one.
    """
    if _now.get() is None or total < 2:
        return None
    blocks = ranges(total, min(total, BLOCKS))
    said = f"{what} of {total} traces"
    return one_by_one(said, len(blocks), lambda number: work(blocks[number]))


def one_by_one(what: str, total: int, work: Callable[[int], T]) -> list[T]:
    """What work comes to on each of so many things, of which each process does some in a row.

    Args:
        what: the work and what it is done to, in the same words in all processes.
        total: how many things there are.
        work: is called with the number of a thing. What it shares is not shared again.

    Raises:
        FotError: that of a thing, the first one that has one.
    """
    sharing = _now.get()
    if sharing is None:
        return [work(number) for number in range(total)]
    outcomes: list[T] = []
    wrong: FotError | None = None
    token = _now.set(None)
    try:
        outcomes = [work(number) for number in ranges(total, sharing.count)[sharing.number]]
    except FotError as error:
        wrong = error
    finally:
        _now.reset(token)
    return sharing.done(what, outcomes, wrong)
