"""Share work over traces among several processes: split it into blocks, and join the results.

A computation over traces calls `by_blocks`. In a single process, it is not shared. Of several
processes, each computes some blocks of traces, and every process gets the results of all blocks.
The blocks depend only on the number of traces, so results do not depend on the number of processes.
With few traces, `by_parts` shares parts of their bindings instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fotltn.errors import DataError, FotError

T = TypeVar("T")

#: The most blocks of traces, for any number of processes.
BLOCKS = 16

_END = "the end"


class _LeftError(DataError):
    """Another process has left, or does other work, so nothing can be exchanged."""


def ranges(total: int, parts: int) -> list[range]:
    """Split a number of items into consecutive ranges whose sizes differ by one at most.

    >>> ranges(5, 3)
    [range(0, 1), range(1, 3), range(3, 5)]
    """
    ends = [total * n // parts for n in range(parts + 1)]
    return [range(*ends[n : n + 2]) for n in range(parts)]


class BindingPart(NamedTuple):
    """One of several parts of all bindings, by its number from 0.

    >>> BindingPart(1, 3).of(5)
    range(1, 3)
    """

    number: int
    parts: int

    def of(self, total: int) -> range:
        """Return the numbers of the items in this part, of all items in a row."""
        return ranges(total, self.parts)[self.number]


#: All of it.
WHOLE = BindingPart(0, 1)


@dataclass(frozen=True, slots=True)
class Sharing:
    """This process among those that share work.

    Args:
        number: the number of this process, from 0.
        count: the number of all processes.
        tell: sends a value to all processes, and returns the values of all.
    """

    number: int
    count: int
    tell: Callable[[Any], list[Any]]

    def done(self, what: str, outcomes: list[T], error: FotError | None = None) -> list[T]:
        """Return the results of all processes, in order; an error of one is an error of all.

        Raises:
            FotError: the error of this process, or of the first process that has one.
            DataError: the others do other work, because their data differ.
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
    """Share the work inside; all processes leave it together.

    Raises:
        FotError: another process ended with an error.
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


def is_shared() -> bool:
    """Return whether processes share work; a group may consist of one process."""
    return _now.get() is not None


def is_first() -> bool:
    """Return whether this process writes files: it is the only one, or the first of several."""
    sharing = _now.get()
    return sharing is None or sharing.number == 0


def sharers() -> int:
    """Return the number of processes that share work."""
    sharing = _now.get()
    return 1 if sharing is None else sharing.count


def by_blocks(what: str, total: int, work: Callable[[range], T]) -> list[T] | None:
    """Return the result of work on each block of traces; None if it is not shared.

    Args:
        what: a name for the work, the same in all processes.
        total: the number of traces; a single trace is not shared.
        work: called with the numbers of the traces of a block. Inside it, work is not shared.

    Raises:
        FotError: the error of the first block that has one.
    """
    if _now.get() is None or total < 2:
        return None
    blocks = ranges(total, min(total, BLOCKS))
    said = f"{what} of {total} traces"
    return one_by_one(said, len(blocks), lambda number: work(blocks[number]))


def by_parts(
    what: str, traces: int, work: Callable[[BindingPart], T], *, exact: bool = False
) -> list[T] | None:
    """Return the result of work on each part of all bindings; None if bindings are not shared.

    Bindings are shared if there are fewer traces than blocks. The number of parts does not depend
    on the number of processes, unless results are exact: then each process has one part, if there
    are fewer traces than processes.

    Args:
        what: a name for the work, the same in all processes.
        traces: the number of traces.
        work: called with a part. Inside it, work is not shared.
        exact: whether the results of parts add up without rounding.

    Raises:
        FotError: the error of the first part that has one.
    """
    sharing = _now.get()
    count = BLOCKS if sharing is None or not exact else sharing.count
    if sharing is None or traces >= count:
        return None
    said = f"{what} of {count} parts of {traces} traces"
    return one_by_one(said, count, lambda number: work(BindingPart(number, count)))


def one_by_one(what: str, total: int, work: Callable[[int], T]) -> list[T]:
    """Return the result of work on each of several items; each process takes a range of them.

    Args:
        what: a name for the work and its object, the same in all processes.
        total: the number of items.
        work: called with the number of an item. Inside it, work is not shared.

    Raises:
        FotError: the error of the first item that has one.
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
