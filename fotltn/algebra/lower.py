"""Lower core formulas to expressions: each operator of a semantics, written as arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from fotltn.algebra import expr as e
from fotltn.logic import core as c
from fotltn.logic.parts import changes, conjuncts
from fotltn.logic.signature import Signature
from fotltn.semantics.config import (
    Aggregation,
    Fold,
    Implication,
    Negation,
    PMean,
    Semantics,
    TConorm,
    TNorm,
)
from fotltn.tree import fold

Reducer = Callable[[e.Reduction, e.Expr], e.Expr]

_FOLDS = {
    TNorm.PRODUCT: e.Reduction.PRODUCT,
    TNorm.MINIMUM: e.Reduction.MINIMUM,
    TNorm.LUKASIEWICZ: e.Reduction.SUM,
}
_DUAL = {
    TConorm.PROBABILISTIC_SUM: TNorm.PRODUCT,
    TConorm.MAXIMUM: TNorm.MINIMUM,
    TConorm.LUKASIEWICZ: TNorm.LUKASIEWICZ,
}


def lower(
    formula: c.Formula, signature: Signature, semantics: Semantics, *, at: int | None = None
) -> e.Expr:
    """Return the expression of a formula at one time point, or at all of them for `at=None`.

    In log space a formula is not split up, because logarithms of degrees are not sums of products.
    """
    if semantics.log_space:
        return by_equations(formula, at)
    lowering = _Lowering(signature, semantics)

    def visit(node: c.Core, below: list[e.Expr | None]) -> e.Expr | None:
        parts = [part for part in below if part is not None]
        return lowering.formula(c.closed(node), parts) if isinstance(node, c.Formula) else None

    lowered = fold(formula, visit)
    assert lowered is not None
    return lowered if at is None else e.At(lowered, at)


def by_equations(formula: c.Formula, at: int | None) -> e.Expr:
    """Wrap a formula that is not split up, but evaluated by the equations of its semantics."""
    data = e.Data(formula, temporal=True)
    return data if at is None else e.At(data, at)


def complement(x: e.Expr) -> e.Expr:
    """Return `1 - x`."""
    return e.Affine(x, -1.0, 1.0)


class _Lowering:
    def __init__(self, signature: Signature, semantics: Semantics) -> None:
        self.signature = signature
        self.s = semantics

    def formula(self, node: c.AnyFormula, parts: list[e.Expr]) -> e.Expr:
        match node:
            case c.Truth(value):
                return e.Scalar(float(value))
            case c.Atom(name, args):
                temporal = not self.signature.predicates[name].static
                return e.TableLeaf(name, args, temporal or self.changes(*args))
            case c.Edge():
                return e.Data(node, temporal=True)
            case c.Equal(left, right) | c.Compare(_, left, right):
                return e.Data(node, self.changes(left, right))
            case c.Not():
                return self.negate(parts[0])
            case c.And():
                return self.conjoin(*parts)
            case c.Or():
                return self.disjoin(*parts)
            case c.Implies():
                return self.imply(*parts)
            case c.Quantifier(universal, axes, guard):
                how = self.s.forall if universal else self.s.exists
                still = guard is not None and not self.changes(guard)
                body = parts[-1]
                return self.aggregate(
                    how, universal, body, lambda k, x: e.Reduce(k, axes, False, x, guard, still)
                )
            case c.Shift(_, steps, past, weak):
                return e.TimeShift(parts[0], steps, past, float(weak))
            case c.Aggregate(universal, _, window, past, guard):
                how = self.s.always if universal else self.s.eventually
                counts = None if guard is None else self.crisp(guard)
                return self.aggregate(
                    how, universal, parts[0], lambda k, x: _scan(k, x, window, past, counts)
                )
            case c.Until(dual, _, _, window, past):
                a, b = (self.negate(p) for p in parts) if dual else parts
                reached = e.Pairs(a, b, window, past, self.s)
                return self.negate(reached) if dual else reached
            case _:
                assert_never(node)

    def changes(self, *roots: c.Core) -> bool:
        """Whether any of the formulas or terms depends on time."""
        return changes(self.signature, *roots)

    def crisp(self, guard: c.Formula) -> e.Expr:
        """Return a guard as 1 or 0; each part apart, because parts depend on few variables."""
        parts = tuple(e.Data(part, self.changes(part), crisp=True) for part in conjuncts(guard))
        return parts[0] if len(parts) == 1 else e.Product(parts)

    def low(self, x: e.Expr) -> e.Expr:
        """Apply π₀, which keeps degrees away from 0."""
        epsilon = self.s.epsilon
        return x if epsilon == 0 else e.Affine(x, 1 - epsilon, epsilon)

    def high(self, x: e.Expr) -> e.Expr:
        """Apply π₁, which keeps degrees away from 1."""
        epsilon = self.s.epsilon
        return x if epsilon == 0 else e.Affine(x, 1 - epsilon, 0.0)

    def negate(self, x: e.Expr) -> e.Expr:
        match self.s.negation:
            case Negation.STANDARD:
                return complement(x)
            case Negation.GODEL:
                return e.Pointwise(e.Op.GODEL_NOT, (x,))

    def conjoin(self, x: e.Expr, y: e.Expr) -> e.Expr:
        match self.s.conjunction:
            case TNorm.PRODUCT:
                return e.Product((self.low(x), self.low(y)))
            case TNorm.MINIMUM:
                return e.Pointwise(e.Op.MINIMUM, (x, y))
            case TNorm.LUKASIEWICZ:
                return e.Pointwise(e.Op.POSITIVE, (x, e.Affine(y, 1.0, -1.0)))

    def disjoin(self, x: e.Expr, y: e.Expr) -> e.Expr:
        match self.s.disjunction:
            case TConorm.PROBABILISTIC_SUM:
                return complement(e.Product((complement(self.high(x)), complement(self.high(y)))))
            case TConorm.MAXIMUM:
                return e.Pointwise(e.Op.MAXIMUM, (x, y))
            case TConorm.LUKASIEWICZ:
                return complement(
                    e.Pointwise(e.Op.POSITIVE, (complement(x), e.Affine(y, -1.0, 0.0)))
                )

    def imply(self, x: e.Expr, y: e.Expr) -> e.Expr:
        match self.s.implication:
            case Implication.REICHENBACH:
                return complement(e.Product((self.low(x), complement(self.high(y)))))
            case Implication.KLEENE_DIENES:
                return e.Pointwise(e.Op.MAXIMUM, (complement(x), y))
            case Implication.LUKASIEWICZ:
                return complement(e.Pointwise(e.Op.POSITIVE, (x, e.Affine(y, -1.0, 0.0))))
            case Implication.GODEL:
                return e.Pointwise(e.Op.GODEL_IMPLIES, (x, y))
            case Implication.GOGUEN:
                return e.Pointwise(e.Op.GOGUEN, (self.low(x), y))

    def aggregate(self, how: Aggregation, universal: bool, x: e.Expr, reduce: Reducer) -> e.Expr:
        """Build ⊗ or ⊕ with `reduce(kind, x)`, a quantifier's or temporal operator's reduction."""
        match how:
            case PMean(p) if p == float("inf"):
                return reduce(e.Reduction.MINIMUM if universal else e.Reduction.MAXIMUM, x)
            case PMean(p):
                inner = complement(self.high(x)) if universal else self.low(x)
                mean = reduce(e.Reduction.MEAN, inner if p == 1 else e.Power(inner, p))
                mean = mean if p == 1 else e.Root(mean, p)
                return complement(mean) if universal else mean
            case Fold() if universal:
                return self.fold(self.s.conjunction, x, reduce)
            case Fold() if self.s.disjunction is TConorm.MAXIMUM:
                return reduce(e.Reduction.MAXIMUM, x)
            case Fold():
                return complement(self.fold(_DUAL[self.s.disjunction], complement(x), reduce))
            case _:
                assert_never(how)

    def fold(self, norm: TNorm, x: e.Expr, reduce: Reducer) -> e.Expr:
        if norm is not TNorm.LUKASIEWICZ:
            return reduce(_FOLDS[norm], x)
        lost = reduce(e.Reduction.SUM, complement(x))
        return e.Pointwise(e.Op.POSITIVE, (complement(lost), e.Scalar(0.0)))


def _scan(
    kind: e.Reduction, x: e.Expr, window: c.Window, past: bool, counts: e.Expr | None
) -> e.Expr:
    """Reduce over a window; only over the points that count, if that is given, as 1 or 0."""
    if counts is None:
        return e.Scan(kind, x, window, past)
    weighed = e.Product((counts, x))
    match kind:
        case e.Reduction.MEAN:
            total = e.Scan(e.Reduction.SUM, weighed, window, past)
            return e.Pointwise(e.Op.RATIO, (total, e.Scan(e.Reduction.SUM, counts, window, past)))
        case e.Reduction.SUM | e.Reduction.MAXIMUM:
            return e.Scan(kind, weighed, window, past)
        case e.Reduction.PRODUCT | e.Reduction.MINIMUM:
            others = e.Pointwise(e.Op.PLUS, (weighed, complement(counts)))
            return e.Scan(kind, others, window, past)
        case _:
            assert_never(kind)
