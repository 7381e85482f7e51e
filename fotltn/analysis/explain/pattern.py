"""A body with its atoms replaced by small tables, so that one cell of it can be evaluated alone.

At one cell the outer variables are fixed. An atom is then a table over the variables that are bound
inside the body, and time. The body with such tables in place of its atoms is a formula like any
other: the engine evaluates it, with all of its parts, on what that cell needs and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fotltn.algebra.expr import free_axes_of_all
from fotltn.analysis.text import text_of
from fotltn.logic import core as c
from fotltn.logic.span import Span, inside
from fotltn.tree import children, fold, parts, postorder


@dataclass(frozen=True, slots=True)
class Leaf:
    """An atom, equality, comparison or end of the trace in a body.

    Args:
        node: the formula.
        name: of the table that takes its place.
        guard: of the table that takes its place in guards, where truth is two-valued.
        axes: the axes of both, which are bound inside the body.
    """

    node: c.Formula
    name: str
    guard: str
    axes: tuple[c.Axis, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A body over small tables.

    Args:
        body: as it is.
        leaves: what becomes tables.
        parts: every part of the body outside guards, as it is over tables.
        guards: the guard of each quantifier among them, likewise.
        axes: the axes bound inside the body, as they are there.
    """

    body: c.Formula
    leaves: tuple[Leaf, ...]
    parts: dict[c.Formula, c.Formula]
    guards: dict[c.Formula, c.Formula]
    axes: dict[c.Axis, c.Axis]


class _Forms(NamedTuple):
    """A formula over tables, and the same as a guard."""

    plain: c.Formula
    guard: c.Formula


@lru_cache(maxsize=256)
def pattern(body: c.Formula, outer: tuple[c.Axis, ...]) -> Pattern:
    """The pattern of a body whose outer axes are fixed."""
    bound = [a for n in postorder(body) if isinstance(n, c.Quantifier) for a in n.axes]
    axes = {
        axis: c.Axis(axis.name, sort=f"{number}: {axis.name}")
        for number, axis in enumerate(dict.fromkeys(a for a in bound if a not in outer))
    }
    free = free_axes_of_all(body)
    leaves: dict[c.Formula, Leaf] = {}
    for node in postorder(body):
        if isinstance(node, c.Atom | c.Equal | c.Compare | c.Edge):
            name = f"{text_of(node)} ({len(leaves)})"
            own = tuple(a for a in axes if a in free[node])
            leaves[node] = Leaf(node, name, f"guard {name}", own)

    def visit(node: c.Core, below: list[_Forms | None]) -> _Forms | None:
        match node:
            case c.Term():
                return None
            case c.Truth():
                return _Forms(node, node)
            case c.Quantifier(universal, bound, guard):
                form, own = below[-1], tuple(axes[a] for a in bound)
                test = below[0] if guard is not None else None
                assert form is not None
                inside = None if test is None else test.guard
                return _Forms(
                    c.Quantifier(universal, own, inside, form.plain),
                    c.Quantifier(universal, own, inside, form.guard),
                )
        assert isinstance(node, c.Formula)
        if node in leaves:
            return _leaf(leaves[node], axes)
        forms = [form for form in below if form is not None]
        return _Forms(
            replaced(node, [form.plain for form in forms]),
            replaced(node, [form.guard for form in forms]),
        )

    forms: dict[c.Core, _Forms] = {}

    def remember(node: c.Core, below: list[_Forms | None]) -> _Forms | None:
        found = visit(node, below)
        if found is not None:
            forms[node] = found
        return found

    fold(body, remember)
    outside = list(_outside_guards(body))
    return Pattern(
        body,
        tuple(leaves.values()),
        {node: forms[node].plain for node in outside},
        {
            node: forms[node.guard].guard
            for node in outside
            if isinstance(node, c.Quantifier) and node.guard is not None
        },
        axes,
    )


def _leaf(leaf: Leaf, axes: dict[c.Axis, c.Axis]) -> _Forms:
    args = tuple(c.Variable(axes[a], str(axes[a].sort)) for a in leaf.axes)
    return _Forms(c.Atom(leaf.name, args), c.Atom(leaf.guard, args))


def replaced(node: c.Core, inner: Sequence[c.Formula]) -> c.Formula:
    """The node with other formulas directly below it, in their order."""
    below = iter(inner)
    made = type(node)(*(next(below) if isinstance(p, c.Formula) else p for p in parts(node)))
    assert isinstance(made, c.Formula)
    return made


def _outside_guards(body: c.Formula) -> Iterator[c.Formula]:
    """Each distinct part of a body once, without those that are inside guards only."""
    seen: set[c.Formula] = {body}
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        below = [node.body] if isinstance(node, c.Quantifier) else children(node)
        for child in below:
            if isinstance(child, c.Formula) and child not in seen:
                seen.add(child)
                stack.append(child)


def needed(body: c.Formula, time: int, length: int) -> dict[c.Formula, tuple[int, int]]:
    """The first and last point at which each part is read, for the body's value at a time.

    Parts that are read nowhere, such as that of X at the end of the trace, are left out.
    """
    read: dict[c.Formula, tuple[int, int]] = {body: (time, time)}
    order = [n for n in postorder(body) if isinstance(n, c.Formula)]
    for node in reversed(order):
        if node not in read:
            continue
        span = inside(node, Span(*read[node]))
        low = 0 if span.low is None else max(0, span.low)
        high = length - 1 if span.high is None else min(length - 1, span.high)
        for child in children(node):
            if isinstance(child, c.Formula) and low <= high:
                known = read.get(child, (low, high))
                read[child] = (min(low, known[0]), max(high, known[1]))
    return read
