"""Move quantifiers inwards or outwards, past connectives and temporal operators.

This is for two-valued logic only: the laws do not hold for degrees. Domains are not empty, so a
quantifier may be dropped where its variables do not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import assert_never

from fotltn.logic import core as c
from fotltn.logic.nnf import both, either
from fotltn.logic.parts import free_axes, operands
from fotltn.tree import children, postorder, rebuilt, transform


def pushed_in(
    axes: tuple[c.Axis, ...], body: c.Formula, moving: Callable[[c.Core], bool]
) -> c.Formula:
    """Return `forall axes. body` with the quantifiers as far inside as possible, in normal form.

    Args:
        axes: the variables.
        body: a formula in normal form.
        moving: whether quantifiers should move below a node; they move past temporal operators only
            for such nodes.
    """
    return _pushed(True, axes, body, moving)


def _pushed(
    universal: bool, axes: tuple[c.Axis, ...], body: c.Formula, moving: Callable[[c.Core], bool]
) -> c.Formula:
    axes = tuple(a for a in axes if a in free_axes(body))
    if not axes:
        return body

    def inner(part: c.Formula, some: tuple[c.Axis, ...] = axes) -> c.Formula:
        return _pushed(universal, some, part, moving)

    outside = c.Quantifier(universal, axes, None, body)
    match c.closed(body):
        case c.And() | c.Or() as joined if isinstance(joined, c.And) is universal:
            parts = operands(joined, type(joined))
            return reduce(both if universal else either, map(inner, parts))
        case c.And() | c.Or() as joined:
            groups = _sharing(operands(joined, type(joined)), axes)
            if len(groups) == 1:
                return outside
            join, total = either if universal else both, c.Truth(not universal)
            for names, members in groups:
                some = tuple(a for a in axes if a in names)
                total = join(total, inner(reduce(join, members), some))  # type: ignore[assignment]
            return total
        case c.Quantifier(same, more, _, part) if same is universal:
            return inner(part, (*axes, *more))
        case c.Until() | c.Shift() if not any(map(moving, postorder(body))):
            return outside
        case c.Until(dual, left, right) as until if dual is universal:
            return outside if free_axes(left) & {*axes} else replace(until, right=inner(right))
        case c.Until(_, left, right) as until:
            # The first time point at which the right side decides is the same for all bindings.
            return outside if free_axes(right) & {*axes} else replace(until, left=inner(left))
        case c.Shift(arg, _, _, weak) as shift if weak is universal:
            return replace(shift, arg=inner(arg))
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Implies()
            | c.Quantifier() | c.Shift() | c.Aggregate()
        ):  # fmt: skip
            return outside
        case never:
            assert_never(never)


def _sharing(
    parts: Sequence[c.Formula], axes: tuple[c.Axis, ...]
) -> list[tuple[frozenset[c.Axis], list[c.Formula]]]:
    """Group parts that share variables, with the variables of each group."""
    groups: list[tuple[frozenset[c.Axis], list[c.Formula]]] = []
    for part in parts:
        mine = free_axes(part) & {*axes}
        touching = [group for group in groups if group[0] & mine]
        rest = [group for group in groups if not group[0] & mine]
        members = [formula for _, formulas in touching for formula in formulas]
        groups = [*rest, (mine.union(*(names for names, _ in touching)), [*members, part])]
    return groups


def pulled_out(formula: c.Formula, wanted: Collection[c.Axis]) -> c.Formula:
    """Move the quantifiers of some variables in front of temporal operators.

    `O exists x. P(x)` becomes `exists x. O P(x)`, in which `O P(x)` is about a single entity.

    Args:
        formula: a formula in normal form.
        wanted: the variables; other quantifiers stay.
    """

    def rule(node: c.Core) -> c.Core:
        if not isinstance(node, c.Until | c.Shift):
            return node
        if isinstance(node, c.Shift):
            sides = [(0, node.arg, node.weak, set[c.Axis]())]
        else:
            left, right, dual = node.left, node.right, node.dual
            sides = [(1, right, dual, _named(left)), (0, left, not dual, _named(right))]
        for place, side, universal, taken in sides:
            split = _in_front(universal, side, wanted)
            if split is not None and not taken & {*split[0]}:
                below = [*children(node)]
                axes, below[place] = split
                return c.Quantifier(universal, axes, None, rebuilt(node, below))
        return node

    return transform(formula, rule)


def _in_front(
    universal: bool, body: c.Formula, wanted: Collection[c.Axis]
) -> tuple[tuple[c.Axis, ...], c.Formula] | None:
    """Wanted variables of a quantifier that can stand in front of a body, and the rest of it."""
    if isinstance(body, c.Quantifier) and body.universal is universal:
        mine = tuple(a for a in body.axes if a in wanted)
        rest = tuple(a for a in body.axes if a not in wanted)
        inner = c.Quantifier(universal, rest, None, body.body) if rest else body.body
        return (mine, inner) if mine else None
    if isinstance(body, c.And | c.Or):
        parts = operands(body, type(body))
        for place, part in enumerate(parts):
            split = _in_front(universal, part, wanted)
            others = parts[:place] + parts[place + 1 :]
            if split is not None and not any(_named(o) & {*split[0]} for o in others):
                parts[place] = split[1]
                return split[0], reduce(type(body), parts)
    return None


def _named(formula: c.Formula) -> set[c.Axis]:
    """The axes of all variables of a formula, free or not."""
    return {node.axis for node in postorder(formula) if isinstance(node, c.Variable)}
