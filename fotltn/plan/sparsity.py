"""Which parts of an expression are facts: where most cells are one known constant."""

from __future__ import annotations

import math

from fotltn.algebra import expr as e
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.tree import Node, fold, postorder


def sparse_leaf(node: e.Expr, sizes: Sizes) -> e.Leaf | None:
    """The table of facts that a factor is a pointwise function of, or None."""
    while True:
        match node:
            case e.Affine(x) | e.Power(x) | e.Root(x):
                node = x
            case e.Pointwise(_, (x, *rest)) if all(isinstance(r, e.Const) for r in rest):
                node = x
            case e.Leaf(name) if name in sizes.sparse and e.own_axes(node):
                return node
            case _:
                return None


def default(factor: e.Expr, leaf: e.Leaf, table: Sparse) -> float:
    """The value of a factor where its table has no fact."""
    low, high = bounds(factor, {leaf: (table.default, table.default)})
    assert low == high
    return low


def bounds(root: e.Expr, given: dict[e.Expr, tuple[float, float]]) -> tuple[float, float]:
    """An interval that holds all values of an expression, degrees being in [0, 1].

    With a table's default given for its leaf, an interval of one point is the constant that the
    expression has wherever there is no fact.
    """

    def visit(node: Node, below: list[tuple[float, float]]) -> tuple[float, float]:
        if not isinstance(node, e.Expr):
            return 0.0, 1.0
        if node in given:
            return given[node]
        return _interval(node, below)

    return fold(root, visit)


def _interval(node: e.Expr, below: list[tuple[float, float]]) -> tuple[float, float]:
    match node:
        case e.Const(value):
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
        case e.Reduce(e.Kind.SUM) | e.Scan(e.Kind.SUM):
            return min(0.0, below[0][0] * math.inf if below[0][0] < 0 else 0.0), math.inf
        case e.Shift(_, _, _, outside):
            return min(below[0][0], outside), max(below[0][1], outside)
    return 0.0, 1.0


def _pointwise(op: e.Op, below: list[tuple[float, float]]) -> tuple[float, float]:
    match op, below:
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


def supports(body: e.Expr, sizes: Sizes) -> list[tuple[e.Leaf, float]]:
    """Leaves outside whose facts `body` is one constant, with that constant."""
    found = []
    for node in postorder(body):
        if isinstance(node, e.Leaf) and sparse_leaf(node, sizes) is node and body.axes <= node.axes:
            if body.timed and not node.temporal:
                continue
            table = sizes.sparse[node.predicate]
            low, high = bounds(body, {node: (table.default, table.default)})
            if low == high:
                found.append((node, low))
    return found


def pointwise_over(body: e.Expr, leaf: e.Leaf) -> bool:
    """Whether `body` can be computed fact by fact: its leaf is under pointwise operations only."""
    stack: list[e.Expr] = [body]
    while stack:
        node = stack.pop()
        parts = e.pointwise_parts(node)
        if parts is not None:
            stack.extend(parts)
        elif not isinstance(node, e.Leaf | e.Data | e.Const) and leaf in postorder(node):
            return False
    return True
