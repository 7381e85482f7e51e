"""Move the quantifiers of formulas in normal form out of temporal operators.

This is for two-valued logic only: the laws do not hold for degrees.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple, assert_never

from fotltn.logic import core as c
from fotltn.logic.nnf import FALSE, TRUE, both, either, until
from fotltn.logic.parts import free_axes, operands
from fotltn.tree import children, fold, postorder, rebuilt, transform

#: Why a formula cannot be followed if its quantifiers cannot be moved.
STUCK = "a quantifier inside a temporal operator has a future operator below it"

_MOST_PARTS = 64  # most parts of a formula that is multiplied out
_MOST_PASSES = 32  # most passes that push quantifiers inwards


def is_temporal(node: c.Core) -> bool:
    """Return whether a node is a temporal operator."""
    return isinstance(node, c.Shift | c.Until | c.Aggregate | c.Edge)


def looks_ahead(node: c.Core) -> bool:
    """Return whether a node is a future operator."""
    return isinstance(node, c.Shift | c.Until | c.Aggregate | c.Edge) and not node.past


def having(formula: c.Core, test: Callable[[c.Core], bool]) -> set[c.Core]:
    """Return the parts of a formula that contain a node which passes a test."""
    parts: set[c.Core] = set()
    for node in postorder(formula):
        if test(node) or any(child in parts for child in children(node)):
            parts.add(node)
    return parts


# --- quantifiers outside temporal operators --------------------------------------------------


class Outer(NamedTuple):
    """A formula as quantifiers and connectives over leaves, read at time 0.

    Args:
        tree: ∧, ∨ and quantifiers over atoms; the name of an atom is the number of a leaf.
        leaves: formulas in which no quantifier has a future operator below it.
    """

    tree: c.Formula
    leaves: tuple[c.Formula, ...]


def outer(formula: c.Formula) -> Outer | None:
    """Split a formula in normal form; return None if that is impossible.

    Quantifiers are pulled out of temporal operators (`G forall` becomes `forall G`), or pushed
    inwards (`exists F` becomes `F exists`). For `G exists x. G P(x)`, neither is possible.
    """
    body = formula
    prefix: list[c.Core] = []
    while isinstance(body, c.Quantifier):
        prefix.append(body)
        body = body.body
    inside = stuck(body)
    splits = _splits(body, inside)
    numbers: dict[c.Formula, int] = {}
    trees: dict[c.Core, c.Formula] = {}

    def leaf(part: c.Formula) -> c.Formula:
        return c.Atom(str(numbers.setdefault(part, len(numbers))), ())

    stack = [body]
    while stack:
        part = stack.pop()
        if part not in inside:
            trees[part] = leaf(part)
            continue
        match c.closed(part):
            case c.And() | c.Or() | c.Quantifier():
                stack.extend(reversed(children(part)))  # type: ignore[arg-type]
            case (
                c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Implies()
                | c.Shift() | c.Aggregate() | c.Until()
            ):  # fmt: skip
                tree = _pulled(splits[part], leaf) or _pushed(part, leaf)
                if tree is None:
                    return None
                trees[part] = tree
            case never:
                assert_never(never)
    tree = fold(body, lambda node, below: trees.get(node) or rebuilt(node, below))
    for node in reversed(prefix):
        tree = rebuilt(node, [tree])  # type: ignore[assignment]
    assert tree is not None
    return Outer(tree, tuple(numbers))


def stuck(formula: c.Formula) -> set[c.Core]:
    """Return the parts that contain a quantifier with a future operator below it."""
    later = having(formula, looks_ahead)
    return having(formula, lambda node: isinstance(node, c.Quantifier) and node in later)


Scoped = tuple[tuple[c.Axis, ...], c.Formula]


class _OuterSplit(NamedTuple):
    """A formula as `∧ᵢ ∀ axesᵢ. partᵢ`, and as `∨ᵢ ∃ axesᵢ. partᵢ`."""

    all: list[Scoped]
    some: list[Scoped]


def _splits(formula: c.Formula, inside: set[c.Core]) -> dict[c.Core, _OuterSplit]:
    """Return a split of each part of a formula; only stuck parts are really split."""
    known: dict[c.Core, _OuterSplit] = {}
    for node in postorder(formula):
        if isinstance(node, c.Formula):
            plain = _OuterSplit([((), node)], [((), node)])
            known[node] = _split(node, plain, known) if node in inside else plain
    return known


def _split(node: c.Formula, plain: _OuterSplit, known: dict[c.Core, _OuterSplit]) -> _OuterSplit:
    match c.closed(node):
        case c.And(left, right):
            a, b = known[left], known[right]
            return _bounded(_OuterSplit(a.all + b.all, _pairs(a.some, b.some, both)), plain)
        case c.Or(left, right):
            a, b = known[left], known[right]
            return _bounded(_OuterSplit(_pairs(a.all, b.all, either), a.some + b.some), plain)
        case c.Quantifier(universal, axes, _, body):
            inner = known[body].all if universal else known[body].some
            parts = [((*axes, *more), part) for more, part in inner]
            return _OuterSplit(parts, plain.some) if universal else _OuterSplit(plain.all, parts)
        case c.Until(True, left, right, window, past):
            parts = [(axes, until(True, left, p, window, past)) for axes, p in known[right].all]
            return _OuterSplit(parts, plain.some)
        case c.Until(_, left, right, window, past):
            parts = [(axes, until(False, left, p, window, past)) for axes, p in known[right].some]
            return _OuterSplit(plain.all, parts)
        case c.Shift(arg, steps, past, weak):
            # X a = X true ∧ WX a, and WX a = WX false ∨ X a: these move ∀ and ∃ out of either.
            every: list[Scoped] = [(x, c.Shift(p, steps, past, True)) for x, p in known[arg].all]
            some: list[Scoped] = [(x, c.Shift(p, steps, past, False)) for x, p in known[arg].some]
            if weak:
                some = [((), c.Shift(FALSE, steps, past, True)), *some]
            else:
                every = [((), c.Shift(TRUE, steps, past, False)), *every]
            return _OuterSplit(every, some)
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Implies()
            | c.Aggregate()
        ):  # fmt: skip
            return plain
        case never:
            assert_never(never)


def _bounded(split: _OuterSplit, plain: _OuterSplit) -> _OuterSplit:
    return _OuterSplit(
        split.all if len(split.all) <= _MOST_PARTS else plain.all,
        split.some if len(split.some) <= _MOST_PARTS else plain.some,
    )


def _pairs(
    first: list[Scoped],
    second: list[Scoped],
    join: Callable[[c.Formula, c.Formula], c.Formula],
) -> list[Scoped]:
    pairs = []
    for (axes, a), (more, b) in itertools.product(first, second):
        new, renamed = _apart(more, b, set(axes))
        pairs.append(((*axes, *new), join(a, renamed)))
    return pairs


def _apart(
    axes: tuple[c.Axis, ...], formula: c.Formula, taken: set[c.Axis]
) -> tuple[tuple[c.Axis, ...], c.Formula]:
    """Rename axes that are taken: in `a <-> b`, each quantifier occurs twice."""
    if not taken & set(axes):
        return axes, formula
    fresh = {a: c.Axis(f"{a.name}'", a.sort, a.relation) for a in axes if a in taken}

    def rule(node: c.Core) -> c.Core:
        if isinstance(node, c.Variable) and node.axis in fresh:
            return c.Variable(fresh[node.axis], node.sort, node.column)
        return node

    renamed = transform(formula, rule)
    return _apart(tuple(fresh.get(a, a) for a in axes), renamed, taken)


def universal_parts(formula: c.Formula, taken: set[c.Axis]) -> list[Scoped] | None:
    """Split a formula in normal form as `∧ᵢ ∀ axesᵢ. partᵢ`; return None if that is impossible.

    No quantifier of a part has a future operator below it.

    Args:
        formula: the formula.
        taken: axes that are bound outside the formula; the axes of parts get other names.
    """
    inside = stuck(formula)
    parts: list[Scoped] = []
    for axes, part in _splits(formula, inside)[formula].all if inside else [((), formula)]:
        free = _pushed(part, lambda node: node)
        if free is None:
            return None
        axes, free = _apart(axes, free, taken)
        parts += [(axes, node) for node in operands(free, c.And)]
    return parts


def _pulled(split: _OuterSplit, leaf: Callable[[c.Formula], c.Formula]) -> c.Formula | None:
    for universal, parts in ((True, split.all), (False, split.some)):
        if not any(stuck(part) for _, part in parts):
            trees = [
                c.Quantifier(universal, axes, None, leaf(part)) if axes else leaf(part)
                for axes, part in parts
            ]
            return functools.reduce(c.And if universal else c.Or, trees)
    return None


def _pushed(node: c.Formula, leaf: Callable[[c.Formula], c.Formula]) -> c.Formula | None:
    for _ in range(_MOST_PASSES):
        if not stuck(node):
            return leaf(node)
        inner = transform(node, _inwards)
        if inner == node:
            return None
        node = inner
    return None


def _inwards(node: c.Core) -> c.Core:
    """Move a quantifier inside the operator below it, if a law allows that."""
    if not isinstance(node, c.Quantifier) or not having(node.body, looks_ahead):
        return node
    universal, axes = node.universal, node.axes
    narrow, wide = (either, both) if universal else (both, either)
    some_entity = c.Quantifier(universal, axes, None, c.Truth(not universal))

    def inside(part: c.Formula) -> c.Formula:
        if _free(part, axes):
            return narrow(part, some_entity)
        return c.Quantifier(universal, axes, None, part)

    match c.closed(node.body):
        case c.And(a, b) if universal:
            return wide(inside(a), inside(b))
        case c.Or(a, b) if not universal:
            return wide(inside(a), inside(b))
        case c.And(a, b) | c.Or(a, b) if _free(a, axes) or _free(b, axes):
            apart, rest = (a, b) if _free(a, axes) else (b, a)
            return narrow(apart, inside(rest))
        case c.Until(dual, a, b, window, past) if dual == universal and _free(a, axes):
            return until(dual, a, inside(b), window, past)
        case c.Shift(arg, steps, past, weak):
            moved = c.Shift(inside(arg), steps, past, weak)
            return moved if weak == universal else narrow(some_entity, moved)
        case (
            c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.And() | c.Or()
            | c.Implies() | c.Quantifier() | c.Aggregate() | c.Until()
        ):  # fmt: skip
            return node
        case never:
            assert_never(never)


def _free(part: c.Formula, axes: tuple[c.Axis, ...]) -> bool:
    return not free_axes(part) & set(axes)
