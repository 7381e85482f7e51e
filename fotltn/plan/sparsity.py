"""Find the parts of an expression that are sparse: one known constant in most cells."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import assert_never

from fotltn.algebra import expr as e
from fotltn.algebra.expand import grows, without
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.tree import Node, children, descend, postorder

Interval = tuple[float, float]


def sparse_leaf(node: e.Expr, sizes: Sizes) -> e.TableLeaf | None:
    """Return the table of facts if a factor is a pointwise function of it, or None."""
    while True:
        match e.closed(node):
            case e.Affine(x) | e.Power(x) | e.Root(x):
                node = x
            case e.Pointwise(_, (x, *rest)) if all(isinstance(r, e.Scalar) for r in rest):
                node = x
            case e.TableLeaf(name) as leaf if name in sizes.sparse and e.argument_axes(leaf):
                return leaf
            case (
                e.TableLeaf() | e.Data() | e.Scalar() | e.Product() | e.Pointwise() | e.Reduce()
                | e.At() | e.TimeShift() | e.Scan() | e.Pairs()
            ):  # fmt: skip
                return None
            case never:
                assert_never(never)


def default(factor: e.Expr, leaf: e.TableLeaf, table: Sparse) -> float:
    """Return the value of a factor where its table has no fact."""
    low, high = bounds(factor, {leaf: (table.default, table.default)})
    assert low == high
    return low


def bounds(root: e.Expr, leaves: Mapping[e.Expr, Interval]) -> Interval:
    """Return an interval that contains all values of an expression, with degrees in [0, 1].

    If a table's default is given for its leaf, an interval of a single point is the constant value
    of the expression wherever there is no fact.
    """
    return all_bounds(root, leaves)[root]


def all_bounds(root: e.Expr, leaves: Mapping[e.Expr, Interval]) -> dict[Node, Interval]:
    """Return such an interval for each part of an expression."""
    intervals: dict[Node, Interval] = {}
    for node in postorder(root):
        if not isinstance(node, e.Expr):
            intervals[node] = 0.0, 1.0
        elif node in leaves:
            intervals[node] = leaves[node]
        else:
            below = [intervals[child] for child in children(node)]
            intervals[node] = _interval(e.closed(node), below)
    return intervals


def _interval(node: e.AnyExpr, below: list[Interval]) -> Interval:
    match node:
        case e.Scalar(value):
            return value, value
        case e.Affine(_, scale, offset):
            ends = [scale * x + offset for x in below[0]]
            return min(ends), max(ends)
        case e.Product():
            low, high = 1.0, 1.0
            for a, b in below:
                corners = [low * a, low * b, high * a, high * b]
                low, high = min(corners), max(corners)
            return low, high
        case e.Power(_, p):
            return tuple(max(x, 0.0) ** p for x in below[0])
        case e.Root(_, p):
            return tuple(max(x, 0.0) ** (1 / p) for x in below[0])
        case e.Pointwise(op):
            return _pointwise(op, below)
        case e.Reduce(e.Reduction.SUM) | e.Scan(e.Reduction.SUM):
            return min(0.0, below[0][0] * math.inf if below[0][0] < 0 else 0.0), math.inf
        case e.TimeShift(_, _, _, outside):
            return min(below[0][0], outside), max(below[0][1], outside)
        case e.TableLeaf() | e.Data() | e.Reduce() | e.At() | e.Scan() | e.Pairs():
            return 0.0, 1.0
        case _:
            assert_never(node)


def _pointwise(op: e.Op, below: list[Interval]) -> Interval:
    match op, below:
        case e.Op.PLUS, _:
            return sum(a for a, _ in below), sum(b for _, b in below)
        case e.Op.EXCESS, [(a, b), (x, y)]:
            return max(0.0, a - y), max(0.0, b - x)
        case e.Op.MINIMUM, [(a, b), (x, y)]:
            return min(a, x), min(b, y)
        case e.Op.MAXIMUM, [(a, b), (x, y)]:
            return max(a, x), max(b, y)
        case e.Op.POSITIVE, [(a, b), (x, y)]:
            return max(0.0, a + x), max(0.0, b + y)
        case e.Op.GODEL_IMPLIES | e.Op.GOGUEN, [(_, b), (x, y)]:
            return (1.0, 1.0) if b <= x else (min(x, 1.0), 1.0 if b > 0 else max(y, 1.0))
        case e.Op.GODEL_NOT, [(a, b)]:
            return (0.0, 0.0) if a > 0 else (1.0, 1.0) if b == 0 else (0.0, 1.0)
    return 0.0, 1.0


def fact_leaves(body: e.Expr, sizes: Sizes) -> list[e.TableLeaf]:
    """Return the leaves of a body that are tables of facts applied to distinct variables."""
    leaves = [node for node in postorder(body) if isinstance(node, e.TableLeaf)]
    return [leaf for leaf in leaves if sparse_leaf(leaf, sizes) is leaf]


def supports(body: e.Expr, sizes: Sizes) -> list[tuple[e.TableLeaf, float]]:
    """Return the leaves outside whose facts `body` is constant, with that constant."""
    pairs = []
    for leaf in fact_leaves(body, sizes):
        if not body.axes <= leaf.axes or (body.timed and not leaf.temporal):
            continue
        low, high = 0.0, 0.0
        if not _is_excess(body, leaf):
            nowhere = sizes.sparse[leaf.predicate].default
            low, high = bounds(body, {leaf: (nowhere, nowhere)})
        if low == high:
            pairs.append((leaf, low))
    return pairs


def _is_excess(body: e.Expr, leaf: e.TableLeaf) -> bool:
    """Whether a body is what the facts of a leaf add, so it is 0 where there is no fact."""
    if not isinstance(body, e.Pointwise) or body.op is not e.Op.EXCESS:
        return False
    more, rest = body.args
    return without(more, leaf) == rest


def excesses(node: e.Reduce, sizes: Sizes) -> list[e.TableLeaf]:
    """Return the leaves of facts with all axes of a mean, with which its body grows."""
    leaves = fact_leaves(node.x, sizes)
    if not leaves:
        return []
    low = {part: ends[0] for part, ends in all_bounds(node.x, {}).items()}
    return [
        leaf
        for leaf in leaves
        if sizes.sparse[leaf.predicate].default == 0
        and walks(node, leaf)
        and grows(node.x, leaf, low)  # type: ignore[arg-type]
    ]


def walks(node: e.Reduce, leaf: e.TableLeaf) -> bool:
    """Whether the body of a reduction can be computed fact by fact, each in one place."""
    return (
        node.x.axes <= leaf.axes
        and (leaf.temporal or not (node.x.timed or node.time))
        and leaf.axes - node.axes == set(node.over)
        and pointwise_over(node.x, leaf)
    )


def pointwise_over(body: e.Expr, leaf: e.TableLeaf) -> bool:
    """Whether `body` can be computed fact by fact: only pointwise operations are above its leaf."""
    parts = descend([body], lambda node: e.pointwise_parts(node) or ())
    others = [part for part in parts if e.pointwise_parts(part) is None and part != leaf]
    return not any(leaf in postorder(part) for part in others)


def gathered(body: e.Expr, sizes: Sizes, facts: int) -> tuple[e.Expr, ...]:
    """Return the parts of a body that are looked up at facts, rather than computed there.

    Parts that are no larger than the facts, and depend on none of them, are computed beforehand.
    """
    needs: dict[Node, bool] = {}
    for part in postorder(body):
        table = isinstance(part, e.TableLeaf) and part.predicate in sizes.sparse
        needs[part] = table or any(needs[child] for child in children(part))

    def computed_here(node: e.Expr) -> tuple[e.Expr, ...]:
        there = not needs[node] and sizes.of(node) <= facts
        return () if there else e.pointwise_parts(node) or ()

    return tuple(
        node
        for node in descend([body], computed_here)
        if not computed_here(node)
        and not isinstance(node, e.Scalar)
        and not (isinstance(node, e.TableLeaf) and sparse_leaf(node, sizes) is not None)
    )


def computed(body: e.Expr, inputs: Collection[e.Expr]) -> int:
    """Count the parts of a body that are computed or looked up at facts."""
    parts = descend([body], lambda node: () if node in inputs else e.pointwise_parts(node) or ())
    return len(parts)
