"""Which parts of an expression are facts: where most cells are one known constant."""

from __future__ import annotations

import math

from fotltn.algebra import expr as e
from fotltn.algebra.expand import grows, without
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.tree import Node, children, postorder


def sparse_leaf(node: e.Expr, sizes: Sizes) -> e.TableLeaf | None:
    """The table of facts that a factor is a pointwise function of, or None."""
    while True:
        match node:
            case e.Affine(x) | e.Power(x) | e.Root(x):
                node = x
            case e.Pointwise(_, (x, *rest)) if all(isinstance(r, e.Scalar) for r in rest):
                node = x
            case e.TableLeaf(name) if name in sizes.sparse and e.argument_axes(node):
                return node
            case _:
                return None


def default(factor: e.Expr, leaf: e.TableLeaf, table: Sparse) -> float:
    """The value of a factor where its table has no fact."""
    low, high = bounds(factor, {leaf: (table.default, table.default)})
    assert low == high
    return low


def bounds(root: e.Expr, given: dict[e.Expr, tuple[float, float]]) -> tuple[float, float]:
    """An interval that holds all values of an expression, degrees being in [0, 1].

    With a table's default given for its leaf, an interval of one point is the constant that the
    expression has wherever there is no fact.
    """
    return all_bounds(root, given)[root]


def all_bounds(
    root: e.Expr, given: dict[e.Expr, tuple[float, float]]
) -> dict[Node, tuple[float, float]]:
    """The same for each part of an expression."""
    found: dict[Node, tuple[float, float]] = {}
    for node in postorder(root):
        if not isinstance(node, e.Expr):
            found[node] = 0.0, 1.0
        elif node in given:
            found[node] = given[node]
        else:
            found[node] = _interval(node, [found[child] for child in children(node)])
    return found


def _interval(node: e.Expr, below: list[tuple[float, float]]) -> tuple[float, float]:
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
    return 0.0, 1.0


def _pointwise(op: e.Op, below: list[tuple[float, float]]) -> tuple[float, float]:
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


def supports(body: e.Expr, sizes: Sizes) -> list[tuple[e.TableLeaf, float]]:
    """Leaves outside whose facts `body` is one constant, with that constant."""
    found = []
    for node in postorder(body):
        if (
            isinstance(node, e.TableLeaf)
            and sparse_leaf(node, sizes) is node
            and body.axes <= node.axes
        ):
            if body.timed and not node.temporal:
                continue
            table = sizes.sparse[node.predicate]
            if _is_excess(body, node):
                found.append((node, 0.0))
                continue
            low, high = bounds(body, {node: (table.default, table.default)})
            if low == high:
                found.append((node, low))
    return found


def _is_excess(body: e.Expr, leaf: e.TableLeaf) -> bool:
    """Whether a body is what the facts of a leaf add, so that it is 0 where there is none."""
    match body:
        case e.Pointwise(e.Op.EXCESS, (whole, rest)):
            return without(whole, leaf) == rest
    return False


def excesses(node: e.Reduce, sizes: Sizes) -> list[e.TableLeaf]:
    """Leaves of facts with which the body of a mean grows, and whose facts have all its axes."""
    found = []
    for leaf in postorder(node.x):
        if not isinstance(leaf, e.TableLeaf) or sparse_leaf(leaf, sizes) is not leaf:
            continue
        if sizes.sparse[leaf.predicate].default != 0 or not walks(node, leaf):
            continue
        low = {part: ends[0] for part, ends in all_bounds(node.x, {}).items()}
        if grows(node.x, leaf, low):  # type: ignore[arg-type]
            found.append(leaf)
    return found


def walks(node: e.Reduce, leaf: e.TableLeaf) -> bool:
    """Whether the body of a reduction can be computed fact by fact, each in one place."""
    return (
        node.x.axes <= leaf.axes
        and (leaf.temporal or not (node.x.timed or node.time))
        and leaf.axes - node.axes == set(node.over)
        and pointwise_over(node.x, leaf)
    )


def pointwise_over(body: e.Expr, leaf: e.TableLeaf) -> bool:
    """Whether `body` can be computed fact by fact: its leaf is under pointwise operations only."""
    stack: list[e.Expr] = [body]
    while stack:
        node = stack.pop()
        parts = e.pointwise_parts(node)
        if parts is not None:
            stack.extend(parts)
        elif not isinstance(node, e.TableLeaf | e.Data | e.Scalar) and leaf in postorder(node):
            return False
    return True


def gathered(body: e.Expr, sizes: Sizes, facts: int) -> tuple[e.Expr, ...]:
    """The parts of a body that are looked up at facts, rather than computed there.

    What is no larger than the facts, and depends on none of them, is computed before.
    """
    tables = {
        n for n in postorder(body) if isinstance(n, e.TableLeaf) and n.predicate in sizes.sparse
    }
    needs: dict[Node, bool] = {}
    for part in postorder(body):
        needs[part] = part in tables or any(needs[child] for child in children(part))
    found: list[e.Expr] = []
    stack: list[e.Expr] = [body]
    while stack:
        node = stack.pop()
        parts = e.pointwise_parts(node)
        if parts is not None and not needs[node] and sizes.of(node) <= facts:
            found += [] if node in found else [node]
        elif parts is not None:
            stack.extend(parts)
        elif isinstance(node, e.Scalar) or sparse_leaf(node, sizes) is not None:
            pass
        elif node not in found:
            found.append(node)
    return tuple(found)


def computed(body: e.Expr, given: tuple[e.Expr, ...]) -> int:
    """The parts of a body that are computed at facts."""
    found = set(given)
    stack = [body]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(e.pointwise_parts(node) or ())
    return len(found)
