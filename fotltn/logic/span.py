"""How far a formula looks in time: which time points each operator reads.

Time points are counted from the one at which a formula is evaluated; None means the end of the
trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from fotltn.logic import core as c
from fotltn.tree import children, fold, postorder


class TimeSpan(NamedTuple):
    """The first and the last time point that a formula reads."""

    low: int | None
    high: int | None


HERE = TimeSpan(0, 0)


def inside(node: c.Formula, span: TimeSpan) -> TimeSpan:
    """Return where a formula reads the formulas directly below it, if it is read over a span."""
    match c.closed(node):
        case c.Shift(_, steps, past):
            far = -steps if past else steps
            return TimeSpan(_plus(span.low, far), _plus(span.high, far))
        case c.Aggregate(_, _, window, past):
            return _window(span, window.low, window.high, past)
        case c.Until(_, _, _, window, past):
            return _window(span, 0, window.high, past)
        case (
            c.Truth() | c.Atom() | c.Equal() | c.Compare() | c.Edge() | c.Not() | c.And() | c.Or()
            | c.Implies() | c.Quantifier()
        ):  # fmt: skip
            return span
        case never:
            assert_never(never)


def operands(node: c.Formula, span: TimeSpan) -> Iterator[tuple[c.Formula, TimeSpan]]:
    """Yield each formula directly below a formula, with the span in which it is read.

    The left side of `U[a,b]` is read from the present, the right side from a to b.

    >>> until = c.Until(False, c.Truth(True), c.Atom("p", ()), c.Window(2, 3), past=False)
    >>> [span for _, span in operands(until, HERE)]
    [TimeSpan(low=0, high=3), TimeSpan(low=2, high=3)]
    """
    if isinstance(node, c.Until):
        yield node.left, inside(node, span)
        yield node.right, _window(span, node.window.low, node.window.high, node.past)
        return
    for child in children(node):
        if isinstance(child, c.Formula):
            yield child, inside(node, span)


def spans(formula: c.Formula) -> dict[c.Formula, set[TimeSpan]]:
    """Return where each distinct part of a formula is read: a span for each occurrence.

    >>> p = c.Atom("p", ())
    >>> sorted(spans(c.And(p, c.Shift(p, 1, past=False, weak=False)))[p])
    [TimeSpan(low=0, high=0), TimeSpan(low=1, high=1)]
    """
    read: dict[c.Formula, set[TimeSpan]] = {formula: {HERE}}
    for node in reversed([n for n in postorder(formula) if isinstance(n, c.Formula)]):
        for span in read[node]:
            for child, below in operands(node, span):
                read.setdefault(child, set()).add(below)
    return read


def reach(formula: c.Formula) -> int | None:
    """Return how many time points ahead a formula looks, counting their mere existence.

    >>> reach(c.Aggregate(False, c.Shift(c.Truth(True), 1, False, True), c.Window(0, 2), False))
    3
    """

    def visit(node: c.Core, below: list[int | None]) -> int | None:
        if (isinstance(node, c.Edge) and not node.past) or None in below:
            return None
        ahead = inside(node, HERE).high if isinstance(node, c.Formula) else 0
        return None if ahead is None else max(0, ahead) + max(filter(None, below), default=0)

    return fold(formula, visit)


def _window(span: TimeSpan, near: int, far: int | None, past: bool) -> TimeSpan:
    if past:
        return TimeSpan(None if far is None else _plus(span.low, -far), _plus(span.high, -near))
    return TimeSpan(_plus(span.low, near), None if far is None else _plus(span.high, far))


def _plus(point: int | None, steps: int) -> int | None:
    return None if point is None else point + steps
