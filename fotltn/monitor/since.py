"""Past operators on bits: their truth at the steps of a batch, and a memory for the next batch.

Bit i of a number is the truth at step i of the batch. The memory has the last truth values of the
operands, the latest at the highest bit, and whether an unbounded `since` was true at the last step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from fotltn.logic.core import Window

#: The last truth values of the first and of the second operand, and that of `since`.
Memory = tuple[int, int, int]


def before(a: int, steps: int, count: int, memory: Memory) -> tuple[int, Memory]:
    """Return the truth a number of steps before; false before the first step.

    >>> before(0b0110, 1, 4, (1, 0, 0))
    (13, (0, 0, 0))
    """
    joined = memory[0] | a << steps
    return joined & (1 << count) - 1, (joined >> count, 0, 0)


def since(a: int, b: int, window: Window, count: int, memory: Memory) -> tuple[int, Memory]:
    """Return whether `b` was true inside the window, and `a` at all steps since.

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
    near = second if high is None else within(first, second, high - low + 1)
    return (all_of(first, low) & near << low) >> size & full, later


def all_of(a: int, count: int, shift: Callable[[int, int], int] = operator.lshift) -> int:
    """Return whether `a` is true at all of the last `count` steps; with `rshift`, the next ones."""
    if count == 0:
        return -1
    points = 1
    while points < count:
        more = min(points, count - points)
        a, points = a & shift(a, more), points + more
    return a


def within(a: int, b: int, count: int, shift: Callable[[int, int], int] = operator.lshift) -> int:
    """Return whether `b` is true at one of the last `count` steps, and `a` at all steps after it.

    With `rshift`, whether `b` is true at one of the next `count` steps, and `a` at all before it.
    """
    points, runs = 1, a
    while points < count:
        more = min(points, count - points)
        b |= (all_of(a, more, shift) if more < points else runs) & shift(b, more)
        runs, points = runs & shift(runs, points), points + more
    return b
