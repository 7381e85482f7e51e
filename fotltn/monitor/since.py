"""Operators of the past on bits: the truth at the steps of a batch, and what is kept for the next.

Bit i of a number is the truth at step i of the batch. What is kept are the last truths of operands,
the latest at the highest bit, and whether `since` without bounds was true at the last step.
"""

from __future__ import annotations

from fotltn.logic.core import Window

#: The last truths of the first and of the second operand, and the last truth of `since`.
Memory = tuple[int, int, int]


def before(a: int, steps: int, count: int, memory: Memory) -> tuple[int, Memory]:
    """The truth so many steps before; false before the first step.

    >>> before(0b0110, 1, 4, (1, 0, 0))
    (13, (0, 0, 0))
    """
    joined = memory[0] | a << steps
    return joined & (1 << count) - 1, (joined >> count, 0, 0)


def since(a: int, b: int, window: Window, count: int, memory: Memory) -> tuple[int, Memory]:
    """Whether `b` was true inside the window, and `a` ever since.

    >>> bin(since(0b11011, 0b00010, Window(), 5, (0, 0, 0))[0])
    '0b10'
    """
    low, high = window.low, window.high
    full = (1 << count) - 1
    olds, news, carry = memory
    size = low if high is None else high
    if high is None:
        start = (b << 1 | carry) & a
        b = (b | ((start + a) ^ a) & a | start) & full
        carry = b >> count - 1
        if not low:
            return b, (0, 0, carry)
    first, second = olds | a << size, news | b << size
    later = first >> count, second >> count, carry
    near = second if high is None else _within(first, second, high - low + 1)
    return (all_of(first, low) & near << low) >> size & full, later


def all_of(a: int, count: int) -> int:
    """Whether the last so many steps are all true; of none, always."""
    if count == 0:
        return -1
    points = 1
    while points < count:
        more = min(points, count - points)
        a, points = a & a << more, points + more
    return a


def _within(a: int, b: int, count: int) -> int:
    """Whether `b` was true at one of the last so many steps, and `a` after it."""
    points, runs = 1, a
    while points < count:
        more = min(points, count - points)
        b |= all_of(a, more) & b << more if more < points else runs & b << points
        runs, points = runs & runs << points, points + more
    return b
