"""Compute with constants, flatten nested products, and cancel complements.

1 - (1 - a)      ->  a
a · (b · 1)      ->  a · b
0 · a            ->  0
(2·a)^2          ->  4·a^2
"""

from __future__ import annotations

from typing import assert_never

from fotltn.algebra.expr import (
    Affine,
    Expr,
    Op,
    Pointwise,
    PointwiseExpr,
    Power,
    Product,
    Root,
    Scalar,
)
from fotltn.tree import Node, transform


def fold_constants(expr: Expr) -> Expr:
    """Fold constants and flatten products."""
    return transform(expr, _rule)


def product(factors: list[Expr]) -> Expr:
    """Build a flat product with one constant in front."""
    scale, rest = 1.0, list[Expr]()
    stack = list(reversed(factors))
    while stack:
        factor = stack.pop()
        if isinstance(factor, Scalar):
            scale *= factor.value
        elif isinstance(factor, Product):
            stack.extend(reversed(factor.factors))
        elif isinstance(factor, Affine) and factor.offset == 0:
            scale *= factor.scale
            stack.append(factor.x)
        else:
            rest.append(factor)
    if scale == 0 or not rest:
        return Scalar(scale)
    body = rest[0] if len(rest) == 1 else Product(tuple(rest))
    return body if scale == 1 else Affine(body, scale, 0.0)


def affine(x: Expr, scale: float, offset: float) -> Expr:
    """Build `scale · x + offset`, combined with an affine `x`."""
    if isinstance(x, Scalar):
        return Scalar(scale * x.value + offset)
    if isinstance(x, Affine):
        return affine(x.x, scale * x.scale, scale * x.offset + offset)
    if scale == 0:
        return Scalar(offset)
    return x if (scale, offset) == (1.0, 0.0) else Affine(x, scale, offset)


def _rule(node: Node) -> Node:
    if not isinstance(node, PointwiseExpr):
        return node
    match node:
        case Affine(x, scale, offset):
            return affine(x, scale, offset)
        case Product(factors):
            return product(list(factors))
        case Power(Scalar(value), p):
            return Scalar(value**p)
        case Power(Affine(x, scale, 0.0), p) if scale > 0:
            return affine(Power(x, p), scale**p, 0.0)
        case Root(Scalar(value), p) if value >= 0:
            return Scalar(value ** (1 / p))
        case Root(Affine(x, scale, 0.0), p) if scale > 0:
            return affine(Root(x, p), scale ** (1 / p), 0.0)
        case Pointwise(op, args):
            return _pointwise(op, args)
        case Power() | Root():
            return node
        case never:
            assert_never(never)


def _pointwise(op: Op, args: tuple[Expr, ...]) -> Expr:
    """Simplify operations that 0 or 1 decides alone, because degrees are in [0, 1]."""
    values = [a.value for a in args if isinstance(a, Scalar)]
    if len(values) < len(args):
        return Pointwise(op, args)
    match op:
        case Op.MINIMUM:
            return Scalar(min(values))
        case Op.MAXIMUM:
            return Scalar(max(values))
        case Op.POSITIVE:
            return Scalar(max(0.0, values[0] + values[1]))
        case Op.GODEL_NOT:
            return Scalar(float(values[0] == 0))
        case Op.PLUS | Op.EXCESS | Op.GODEL_IMPLIES | Op.GOGUEN | Op.RATIO:
            return Pointwise(op, args)
        case never:
            assert_never(never)
