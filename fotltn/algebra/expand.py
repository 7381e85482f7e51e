"""Rewrite a mean as a sum of means that are cheaper together. All terms are positive.

    off the facts     mean[y](f(y, c(x, y)))
                          ->  mean[y](f(y, 0)) + mean[y](f(y, c(x, y)) - f(y, 0))
    power by power    mean[x y]((2·a(x)·b(y) + 1)^2)
                          ->  4·mean[x](a(x)^2)·mean[y](b(y)^2) + 4·mean[x](a(x))·mean[y](b(y)) + 1

The first rewrite needs a table of facts `c` that is 0 where there is no fact, and an `f` that grows
with `c`. Then the difference is never negative, and 0 where there is no fact. The second needs
non-negative scales and offsets. So nothing cancels, and no digits are lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from fotltn.algebra.expr import (
    Affine,
    At,
    Data,
    Expr,
    Op,
    Pairs,
    Pointwise,
    PointwiseExpr,
    Power,
    Product,
    Reduce,
    Reduction,
    Root,
    Scalar,
    Scan,
    TableLeaf,
    TimeShift,
    closed,
)
from fotltn.algebra.passes.factor_products import factor_products
from fotltn.algebra.passes.fold_constants import affine, fold_constants, product
from fotltn.algebra.passes.split_sums import split_sums
from fotltn.tree import Node, fold, transform

#: The maximum number of terms that a power is expanded into.
MAX_TERMS = 200

Monomial = tuple[tuple[int, int], ...]  # pairs of a part's number and its exponent
Polynomial = dict[Monomial, float]


def off_facts(node: Reduce, leaf: TableLeaf) -> tuple[Expr, Reduce]:
    """Return the mean as if a table had no facts, and the mean of what its facts add."""
    rest = without(node.x, leaf)
    excess = Pointwise(Op.EXCESS, (node.x, rest))
    return mean(node, rest), Reduce(Reduction.MEAN, node.over, node.time, excess)


def without(x: Expr, leaf: TableLeaf) -> Expr:
    """Return an expression for the places without facts, where the leaf of the table is 0."""

    def rule(inner: Node) -> Node:
        return Scalar(0.0) if inner == leaf else inner

    return fold_constants(transform(x, rule))


def mean(node: Reduce, x: Expr) -> Expr:
    """Return the mean of another body over the non-empty axes of a reduction.

    Factors that share none of these axes are averaged separately.
    """
    factors = x.factors if isinstance(x, Product) else (x,)
    groups: list[tuple[set[object], list[Expr]]] = []
    for factor in factors:
        axes = _reduced(node, factor)
        joined = [factor]
        for known in [g for g in groups if g[0] & axes]:
            groups.remove(known)
            axes |= known[0]
            joined = [*known[1], *joined]
        groups.append((axes, joined))
    return product([_mean(node, product(joined)) for _, joined in groups])


def _reduced(node: Reduce, x: Expr) -> set[object]:
    return {*(x.axes & set(node.over)), *(["time"] if node.time and x.timed else [])}


def _mean(node: Reduce, x: Expr) -> Expr:
    over = tuple(a for a in node.over if a in x.axes)
    time = node.time and x.timed
    if not over and not time:
        return x
    return split_sums(factor_products(Reduce(Reduction.MEAN, over, time, x)))


def grows(x: Expr, leaf: TableLeaf, low: Mapping[Expr, float]) -> bool:
    """Whether a body grows with a leaf; `low` is the smallest value of each part."""

    def visit(node: Node, below: list[bool | None]) -> bool | None:
        """Return None if the node does not depend on the leaf."""
        if node == leaf:
            return True
        growing = [b for b in below if b is not None]
        if not growing:
            return None
        if not all(growing) or not isinstance(node, PointwiseExpr):
            return False
        match node:
            case Affine(_, scale):
                return scale > 0
            case Power(inner) | Root(inner):
                return low[inner] >= 0
            case Product(factors):
                return all(low[f] >= 0 for f in factors)
            case Pointwise(op):
                return op in (Op.MINIMUM, Op.MAXIMUM, Op.POSITIVE, Op.PLUS)
            case never:
                assert_never(never)

    return fold(x, visit) is True


def by_powers(node: Reduce) -> Expr | None:
    """Expand a mean of a power of sums of products; None if it has another form or is too long."""
    if not _mixed(node.x):
        return None
    parts: list[Expr] = []
    polynomial = _polynomial(node.x, parts)
    if polynomial is None or len(polynomial) < 2:
        return None
    terms = []
    for monomial, scale in polynomial.items():
        factors = [Power(parts[i], float(n)) if n > 1 else parts[i] for i, n in monomial]
        terms.append(affine(mean(node, product(factors)), scale, 0.0) if factors else Scalar(scale))
    return Pointwise(Op.PLUS, tuple(terms))


def _mixed(x: Expr) -> bool:
    """Whether a product inside has factors over different axes."""
    stack = [x]
    while stack:
        match closed(stack.pop()):
            case Affine(inner) | Power(inner):
                stack.append(inner)
            case Product(factors):
                if len({(f.axes, f.timed) for f in factors}) > 1:
                    return True
                stack.extend(factors)
            case (
                TableLeaf() | Data() | Scalar() | Root() | Pointwise() | Reduce() | At()
                | TimeShift() | Scan() | Pairs()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)
    return False


def _polynomial(root: Expr, parts: list[Expr]) -> Polynomial | None:
    """Write an expression as a polynomial in its parts, which are collected but not expanded."""
    numbers: dict[Expr, int] = {}

    def part(x: Expr, n: int) -> Polynomial:
        if x not in numbers:
            numbers[x] = len(parts)
            parts.append(x)
        return {((numbers[x], n),): 1.0}

    def visit(node: Node, below: list[Polynomial | None]) -> Polynomial | None:
        if not isinstance(node, Expr):
            return None
        match closed(node):
            case Scalar(value):
                return {(): value} if value >= 0 else None
            case Affine(inner, scale, offset) if _mixed(inner):
                if below[0] is None or scale <= 0 or offset < 0:
                    return None
                scaled = {m: scale * s for m, s in below[0].items()}
                return {**scaled, (): scaled.get((), 0.0) + offset} if offset else scaled
            case Power(inner, p) if _mixed(inner):
                return _times([below[0]] * int(p)) if p == int(p) else None
            case Power(inner, p) if p == int(p):
                return part(inner, int(p))
            case Product():
                return _times(below)
            case (
                TableLeaf() | Data() | Affine() | Power() | Root() | Pointwise() | Reduce() | At()
                | TimeShift() | Scan() | Pairs()
            ):  # fmt: skip
                return part(node, 1)
            case never:
                assert_never(never)

    polynomial = fold(root, visit)
    return None if polynomial is None or len(polynomial) > MAX_TERMS else polynomial


def _times(factors: Sequence[Polynomial | None]) -> Polynomial | None:
    """Multiply polynomials; None if one of them is None or the product is too long."""
    total: Polynomial = {(): 1.0}
    for factor in factors:
        if factor is None or len(total) * len(factor) > 4 * MAX_TERMS:
            return None
        longer: Polynomial = {}
        for left, s in total.items():
            for right, t in factor.items():
                powers = dict(left)
                for x, n in right:
                    powers[x] = powers.get(x, 0) + n
                key = tuple(sorted(powers.items()))
                longer[key] = longer.get(key, 0.0) + s * t
        total = longer
    return total
