"""Core formulas to expressions: each operator of a semantics, written out as arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from fotltn.algebra.expr import (
    Affine,
    At,
    Data,
    Expr,
    Op,
    Pairs,
    Pointwise,
    Power,
    Product,
    Reduce,
    Reduction,
    Root,
    Scalar,
    Scan,
    TableLeaf,
    TimeShift,
)
from fotltn.logic import core as c
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
from fotltn.tree import fold, postorder

Reducer = Callable[[Reduction, Expr], Expr]

_FOLDS = {
    TNorm.PRODUCT: Reduction.PRODUCT,
    TNorm.MINIMUM: Reduction.MINIMUM,
    TNorm.LUKASIEWICZ: Reduction.SUM,
}
_DUAL = {
    TConorm.PROBABILISTIC_SUM: TNorm.PRODUCT,
    TConorm.MAXIMUM: TNorm.MINIMUM,
    TConorm.LUKASIEWICZ: TNorm.LUKASIEWICZ,
}


def lower(
    formula: c.Formula, signature: Signature, semantics: Semantics, *, at: int | None = None
) -> Expr:
    """The expression of a formula at one time point, or (`at=None`) at all.

    Logarithms of degrees are no sums of products: in log space a formula stays whole.
    """
    if semantics.log_space:
        return by_equations(formula, at)
    lowering = _Lowering(signature, semantics)

    def visit(node: c.Core, below: list[Expr | None]) -> Expr | None:
        return lowering.formula(node, below) if isinstance(node, c.Formula) else None

    found = fold(formula, visit)
    assert found is not None
    return found if at is None else At(found, at)


def by_equations(formula: c.Formula, at: int | None) -> Expr:
    """A formula that stays whole, and is evaluated by the equations of its semantics."""
    whole = Data(formula, temporal=True)
    return whole if at is None else At(whole, at)


def complement(x: Expr) -> Expr:
    """`1 - x`."""
    return Affine(x, -1.0, 1.0)


class _Lowering:
    def __init__(self, signature: Signature, semantics: Semantics) -> None:
        self.signature = signature
        self.s = semantics

    def formula(self, node: c.Formula, below: list[Expr | None]) -> Expr:
        parts = [b for b in below if b is not None]
        match node:
            case c.Truth(value):
                return Scalar(float(value))
            case c.Atom(name, args):
                temporal = not self.signature.predicates[name].static
                return TableLeaf(name, args, temporal or _moving(args, self.signature))
            case c.Edge():
                return Data(node, temporal=True)
            case c.Equal(left, right) | c.Compare(_, left, right):
                return Data(node, _moving((left, right), self.signature))
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
                still = guard is not None and _still(guard, self.signature)
                return self.aggregate(
                    how, universal, parts[-1], lambda k, x: Reduce(k, axes, False, x, guard, still)
                )
            case c.Shift(_, steps, past, weak):
                return TimeShift(parts[0], steps, past, float(weak))
            case c.Aggregate(universal, _, window, past):
                how = self.s.always if universal else self.s.eventually
                return self.aggregate(
                    how, universal, parts[0], lambda k, x: Scan(k, x, window, past)
                )
            case c.Until(dual, _, _, window, past):
                a, b = (self.negate(p) for p in parts) if dual else parts
                found = Pairs(a, b, window, past, self.s)
                return self.negate(found) if dual else found
        raise AssertionError(node)

    def low(self, x: Expr) -> Expr:
        """π₀, away from 0."""
        e = self.s.epsilon
        return x if e == 0 else Affine(x, 1 - e, e)

    def high(self, x: Expr) -> Expr:
        """π₁, away from 1."""
        e = self.s.epsilon
        return x if e == 0 else Affine(x, 1 - e, 0.0)

    def negate(self, x: Expr) -> Expr:
        match self.s.negation:
            case Negation.STANDARD:
                return complement(x)
            case Negation.GODEL:
                return Pointwise(Op.GODEL_NOT, (x,))

    def conjoin(self, x: Expr, y: Expr) -> Expr:
        match self.s.conjunction:
            case TNorm.PRODUCT:
                return Product((self.low(x), self.low(y)))
            case TNorm.MINIMUM:
                return Pointwise(Op.MINIMUM, (x, y))
            case TNorm.LUKASIEWICZ:
                return Pointwise(Op.POSITIVE, (x, Affine(y, 1.0, -1.0)))

    def disjoin(self, x: Expr, y: Expr) -> Expr:
        match self.s.disjunction:
            case TConorm.PROBABILISTIC_SUM:
                return complement(Product((complement(self.high(x)), complement(self.high(y)))))
            case TConorm.MAXIMUM:
                return Pointwise(Op.MAXIMUM, (x, y))
            case TConorm.LUKASIEWICZ:
                return complement(Pointwise(Op.POSITIVE, (complement(x), Affine(y, -1.0, 0.0))))

    def imply(self, x: Expr, y: Expr) -> Expr:
        match self.s.implication:
            case Implication.REICHENBACH:
                return complement(Product((self.low(x), complement(self.high(y)))))
            case Implication.KLEENE_DIENES:
                return Pointwise(Op.MAXIMUM, (complement(x), y))
            case Implication.LUKASIEWICZ:
                return complement(Pointwise(Op.POSITIVE, (x, Affine(y, -1.0, 0.0))))
            case Implication.GODEL:
                return Pointwise(Op.GODEL_IMPLIES, (x, y))
            case Implication.GOGUEN:
                return Pointwise(Op.GOGUEN, (self.low(x), y))

    def aggregate(self, how: Aggregation, universal: bool, x: Expr, reduce: Reducer) -> Expr:
        """⊗ or ⊕ by `reduce(kind, x)`, which is a quantifier's or a temporal operator's."""
        match how:
            case PMean(p) if p == float("inf"):
                return reduce(Reduction.MINIMUM if universal else Reduction.MAXIMUM, x)
            case PMean(p):
                inner = complement(self.high(x)) if universal else self.low(x)
                mean = (
                    reduce(Reduction.MEAN, inner)
                    if p == 1
                    else Root(reduce(Reduction.MEAN, Power(inner, p)), p)
                )
                return complement(mean) if universal else mean
            case Fold() if universal:
                return self.fold(self.s.conjunction, x, reduce)
            case Fold() if self.s.disjunction is TConorm.MAXIMUM:
                return reduce(Reduction.MAXIMUM, x)
            case Fold():
                return complement(self.fold(_DUAL[self.s.disjunction], complement(x), reduce))
        raise AssertionError(how)

    def fold(self, norm: TNorm, x: Expr, reduce: Reducer) -> Expr:
        if norm is not TNorm.LUKASIEWICZ:
            return reduce(_FOLDS[norm], x)
        lost = reduce(Reduction.SUM, complement(x))
        return Pointwise(Op.POSITIVE, (complement(lost), Scalar(0.0)))


def _moving(terms: tuple[c.Term, ...], signature: Signature) -> bool:
    """Whether terms apply a function that changes over time."""
    return any(
        isinstance(n, c.Apply) and not signature.functions[n.function].static
        for term in terms
        for n in _nodes(term)
    )


def _still(guard: c.Formula, signature: Signature) -> bool:
    """Whether a guard is the same at all time points."""
    return not any(
        isinstance(n, c.Edge | c.Shift | c.Aggregate | c.Until)
        or (isinstance(n, c.Atom) and not signature.predicates[n.predicate].static)
        or (isinstance(n, c.Apply) and not signature.functions[n.function].static)
        for n in postorder(guard)
    )


def _nodes(term: c.Term) -> list[c.Core]:
    return list(postorder(term))
