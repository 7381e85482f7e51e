"""Write parts of axioms as text, with entities in place of variables."""

from __future__ import annotations

import re
from collections.abc import Callable

from fotltn.logic import core as c
from fotltn.logic.nnf import nnf
from fotltn.logic.text import text_of
from fotltn.monitor.domain import Axes
from fotltn.monitor.roster import Key
from fotltn.tree import transform

_QUOTED = re.compile('"(\0\\d+\0)"')


def told_of(part: c.Formula, axes: Axes) -> tuple[Callable[[Key], str], bool]:
    """Return a function from bindings to the text of a formula, and True.

    If the negation reads better, return its text instead, and False.
    """
    negative = (
        isinstance(part, c.Not) or getattr(part, "dual", False) or getattr(part, "weak", False)
    )
    if negative and part.past if isinstance(part, c.Until | c.Shift) else negative:
        return _text(nnf(c.Not(part)), axes), False
    return _text(part, axes), True


def _text(formula: c.Formula, axes: Axes) -> Callable[[Key], str]:
    """Return a function from bindings to the text of a formula."""
    marks: dict[str, tuple[int, int | None]] = {}

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis in axes:
            mark = f"\0{len(marks)}\0"
            marks[mark] = axes.index(node.axis), node.column
            return c.Constant(mark, node.sort)
        if isinstance(node, c.Until) and node.left == c.Truth(not node.dual):
            return c.Aggregate(node.dual, node.right, node.window, node.past)
        return node

    text = text_of(transform(formula, rule))
    pieces = re.split("(\0\\d+\0)", _QUOTED.sub(r"\1", text))

    def filled(key: Key) -> str:
        names = list(pieces)
        for number in range(1, len(pieces), 2):
            place, column = marks[pieces[number]]
            names[number] = key[place] if column is None else key[place][column]
        return "".join(names)

    return filled
