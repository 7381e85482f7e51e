"""Arithmetic with constants, nested products, and complements that cancel.

1 - (1 - a)      ->  a
a · (b · 1)      ->  a · b
0 · a            ->  0
(2·a)^2          ->  4·a^2
"""

from __future__ import annotations

from fotltn.algebra.expr import Affine, Expr, Op, Pointwise, Power, Product, Root, Scalar
from fotltn.tree import Node, transform


def fold_constants(expr: Expr) -> Expr:
    """Fold constants and flatten products."""
    return transform(expr, _rule)


def product(factors: list[Expr]) -> Expr:
    """A flat product with one constant in front."""
    scale, rest = 1.0, list[Expr]()
    stack = list(reversed(factors))
    while stack:
        match stack.pop():
            case Scalar(value):
                scale *= value
            case Product(inner):
                stack.extend(reversed(inner))
            case Affine(x, s, 0.0):
                scale *= s
                stack.append(x)
            case factor:
                rest.append(factor)
    if scale == 0 or not rest:
        return Scalar(scale)
    body = rest[0] if len(rest) == 1 else Product(tuple(rest))
    return body if scale == 1 else Affine(body, scale, 0.0)


def affine(x: Expr, scale: float, offset: float) -> Expr:
    """`scale · x + offset`, with what is inside taken together."""
    match x:
        case Scalar(value):
            return Scalar(scale * value + offset)
        case Affine(inner, s, o):
            return affine(inner, scale * s, scale * o + offset)
    if scale == 0:
        return Scalar(offset)
    return x if (scale, offset) == (1.0, 0.0) else Affine(x, scale, offset)


def _rule(node: Node) -> Node:
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
    return node


def _pointwise(op: Op, args: tuple[Expr, ...]) -> Expr:
    """Degrees lie in [0, 1], so that 0 and 1 decide some operations alone."""
    match op, args:
        case Op.MINIMUM, (Scalar(a), Scalar(b)):
            return Scalar(min(a, b))
        case Op.MAXIMUM, (Scalar(a), Scalar(b)):
            return Scalar(max(a, b))
        case Op.POSITIVE, (Scalar(a), Scalar(b)):
            return Scalar(max(0.0, a + b))
        case Op.GODEL_NOT, (Scalar(a),):
            return Scalar(float(a == 0))
    return Pointwise(op, args)
