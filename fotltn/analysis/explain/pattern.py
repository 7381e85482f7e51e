"""A body with its atoms replaced by small tables, to evaluate one cell.

At one cell the outer variables are fixed. An atom is then a table over the variables that are bound
inside the body, and time. The body with such tables in place of its atoms is a formula like any
other: the engine evaluates it, with all of its parts, only on the data that the cell needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fotltn.logic import core as c
from fotltn.logic.parts import free_axes_of_all
from fotltn.logic.span import HERE, TimeSpan, inside, operands
from fotltn.logic.text import text_of
from fotltn.tree import children, parts, postorder, transform

AnyLeaf = c.Atom | c.Equal | c.Compare | c.Edge


@dataclass(frozen=True, slots=True)
class BodyLeaf:
    """An atom, equality, comparison or end of the trace in a body.

    Args:
        node: the formula.
        name: the name of the table that takes its place.
        guard: the name of the table that takes its place in guards, where truth is two-valued.
        axes: the axes of both, which are bound inside the body.
    """

    node: AnyLeaf
    name: str
    guard: str
    axes: tuple[c.Axis, ...]

    @property
    def predicate(self) -> str | None:
        """The predicate of an atom."""
        return self.node.predicate if isinstance(self.node, c.Atom) else None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A body over small tables.

    Args:
        body: the body.
        leaves: the leaves that become tables.
        parts: for every part of the body outside guards, the formula over tables.
        guards: for these parts that have a guard, the guard over tables.
        axes: for every axis bound inside the body, the axis of the tables.
    """

    body: c.Formula
    leaves: tuple[BodyLeaf, ...]
    parts: dict[c.Formula, c.Formula]
    guards: dict[c.Formula, c.Formula]
    axes: dict[c.Axis, c.Axis]


@lru_cache(maxsize=256)
def pattern(body: c.Formula, outer: tuple[c.Axis, ...]) -> Pattern:
    """The pattern of a body whose outer axes are fixed."""
    bound = [a for n in postorder(body) if isinstance(n, c.Quantifier) for a in n.axes]
    axes = {
        axis: c.Axis(axis.name, sort=f"{number}: {axis.name}")
        for number, axis in enumerate(dict.fromkeys(a for a in bound if a not in outer))
    }
    free = free_axes_of_all(body)
    leaves: list[BodyLeaf] = []
    forms: dict[c.Core, c.Formula] = {}
    in_guards: dict[str, str] = {}

    def in_guard(node: c.Core) -> c.Core:
        """A table as it is in guards."""
        if isinstance(node, c.Atom) and node.predicate in in_guards:
            return c.Atom(in_guards[node.predicate], node.args)
        return node

    for node in postorder(body):
        if isinstance(node, AnyLeaf):
            name = f"{text_of(node)} ({len(leaves)})"
            inner = tuple(a for a in axes if a in free[node])
            leaves.append(BodyLeaf(node, name, f"guard {name}", inner))
            in_guards[name] = f"guard {name}"
            args = tuple(c.Variable(axes[a], str(axes[a].sort)) for a in inner)
            forms[node] = c.Atom(name, args)
        elif isinstance(node, c.Quantifier):
            guard = None if node.guard is None else transform(forms[node.guard], in_guard)
            places = tuple(axes[a] for a in node.axes)
            forms[node] = c.Quantifier(node.universal, places, guard, forms[node.body])
        elif isinstance(node, c.Aggregate) and node.guard is not None:
            guard = transform(forms[node.guard], in_guard)
            forms[node] = replace(node, arg=forms[node.arg], guard=guard)
        elif isinstance(node, c.Formula):
            below = [forms[n] for n in children(node) if isinstance(n, c.Formula)]
            forms[node] = replaced(node, below)
    outside = dict.fromkeys(node for node, _ in outside_guards(body))
    guards = {
        node: form.guard
        for node in outside
        if isinstance(form := forms[node], c.Quantifier | c.Aggregate) and form.guard is not None
    }
    return Pattern(body, tuple(leaves), {node: forms[node] for node in outside}, guards, axes)


def replaced(node: c.Core, inner: Sequence[c.Formula]) -> c.Formula:
    """The node with other formulas directly below it, in their order."""
    below = iter(inner)
    made = type(node)(*(next(below) if isinstance(p, c.Formula) else p for p in parts(node)))
    assert isinstance(made, c.Formula)
    return made


def outside_guards(body: c.Formula) -> Iterator[tuple[c.Formula, int]]:
    """The parts of a body as they are written, each with how many steps X and Y move it.

    Parts that are inside guards only are left out, and what is written twice is given once.
    """
    seen: set[tuple[c.Formula, int]] = set()
    stack: list[tuple[c.Formula, int]] = [(body, 0)]
    while stack:
        node, steps = stack.pop()
        if (node, steps) not in seen:
            seen.add((node, steps))
            yield node, steps
            far = (inside(node, HERE).low or 0) if isinstance(node, c.Shift) else 0
            below = [n for n in children(node) if n is not getattr(node, "guard", None)]
            moved = [(child, steps + far) for child in below if isinstance(child, c.Formula)]
            stack += reversed(moved)


def clipped(span: TimeSpan, length: int) -> tuple[int, int]:
    """The first and last point of a span that lie inside a trace; reversed if none does."""
    low = 0 if span.low is None else max(0, span.low)
    return low, length - 1 if span.high is None else min(length - 1, span.high)


def needed(body: c.Formula, time: int, length: int) -> dict[c.Formula, tuple[int, int]]:
    """The first and last point at which each part is read, for the body's value at a time.

    Parts that are read nowhere, such as that of X at the end of the trace, are left out.
    """
    read: dict[c.Formula, tuple[int, int]] = {body: (time, time)}
    for node in reversed([n for n in postorder(body) if isinstance(n, c.Formula)]):
        if node in read:
            for child, span in operands(node, TimeSpan(*read[node])):
                low, high = clipped(span, length)
                if low <= high:
                    first, last = read.get(child, (low, high))
                    read[child] = (min(low, first), max(high, last))
    return read
