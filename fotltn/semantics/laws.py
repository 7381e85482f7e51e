"""The laws that a semantics obeys exactly; the optimiser may rewrite by no others.

A law is a pair of formulas that have the same value under every interpretation with non-empty
domains. Nearly all laws hold in two-valued logic. With graded truth most hold only in some
semantics, and `holds` says in which. A test proves every listed law and refutes every other one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from fotltn.arguments import public
from fotltn.semantics.config import (
    Aggregation,
    Fold,
    Implication,
    Negation,
    PMean,
    Semantics,
    TConorm,
    TNorm,
    semantics_of,
)

_DUALS = {
    (TNorm.PRODUCT, TConorm.PROBABILISTIC_SUM),
    (TNorm.MINIMUM, TConorm.MAXIMUM),
    (TNorm.LUKASIEWICZ, TConorm.LUKASIEWICZ),
}
_S_IMPLICATIONS = {
    (Implication.REICHENBACH, TConorm.PROBABILISTIC_SUM),
    (Implication.KLEENE_DIENES, TConorm.MAXIMUM),
    (Implication.LUKASIEWICZ, TConorm.LUKASIEWICZ),
}
_CURRIES = {
    (TNorm.PRODUCT, Implication.REICHENBACH),
    (TNorm.MINIMUM, Implication.KLEENE_DIENES),
    (TNorm.LUKASIEWICZ, Implication.LUKASIEWICZ),
    (TNorm.MINIMUM, Implication.GODEL),
    (TNorm.PRODUCT, Implication.GOGUEN),
}


def _standard(s: Semantics) -> bool:
    return s.negation is Negation.STANDARD


def _exact_and(s: Semantics) -> bool:
    """Whether ∧ is a t-norm, undisturbed by a projection."""
    return s.epsilon == 0 or s.conjunction is not TNorm.PRODUCT


def _exact_or(s: Semantics) -> bool:
    return s.epsilon == 0 or s.disjunction is not TConorm.PROBABILISTIC_SUM


def _de_morgan(s: Semantics) -> bool:
    return _standard(s) and (s.conjunction, s.disjunction) in _DUALS


def _godel_not_and(s: Semantics) -> bool:
    """Whether Gödel negation, which gives 0 or 1, agrees: ∧ must be 0 only where a part is 0."""
    divides = s.conjunction is not TNorm.LUKASIEWICZ
    return not _standard(s) and divides and _exact_and(s) and _exact_or(s)


def _godel_not_or(s: Semantics) -> bool:
    return not _standard(s) and _exact_and(s)


def _extreme(how: Aggregation, s: Semantics, universal: bool) -> bool:
    """Whether the aggregation is the exact minimum or maximum."""
    if isinstance(how, PMean):
        return math.isinf(how.p)
    return s.conjunction is TNorm.MINIMUM if universal else s.disjunction is TConorm.MAXIMUM


def _pure_mean(how: Aggregation, s: Semantics) -> bool:
    """Whether the aggregation is a p-mean without projections, including p = ∞."""
    return isinstance(how, PMean) and (s.epsilon == 0 or math.isinf(how.p))


def _pure(how: Aggregation, s: Semantics) -> bool:
    """Whether the aggregation can be done in steps."""
    return isinstance(how, Fold) or _pure_mean(how, s)


def _average(how: Aggregation) -> bool:
    return isinstance(how, PMean) and how.p == 1


def _dual_aggregation(existential: Aggregation, universal: Aggregation, s: Semantics) -> bool:
    """Whether ¬∀ = ∃¬; true of extremes also under Gödel negation, where both sides are 0 or 1."""
    extremes = _extreme(existential, s, False) and _extreme(universal, s, True)
    if not _standard(s):
        return extremes
    if isinstance(existential, Fold) and isinstance(universal, Fold):
        return _de_morgan(s)
    return existential == universal or extremes


def _one_kind(first: Aggregation, second: Aggregation, s: Semantics, universal: bool) -> bool:
    """Whether two aggregations of the same polarity can be swapped."""
    extreme = _extreme(first, s, universal) and _extreme(second, s, universal)
    return extreme or (first == second and (_pure(first, s) or _average(first)))


def _lattice(s: Semantics) -> bool:
    return s.conjunction is TNorm.MINIMUM and s.disjunction is TConorm.MAXIMUM


def _s_implication(s: Semantics) -> bool:
    return _standard(s) and (s.implication, s.disjunction) in _S_IMPLICATIONS


def _leaves(how: Aggregation, s: Semantics, universal: bool, multiplies: bool) -> bool:
    """Whether a degree can be moved out of an aggregation if the connective multiplies by it."""
    homogeneous = _pure_mean(how, s) and multiplies and s.epsilon == 0
    return homogeneous or _extreme(how, s, universal)


def _splits(how: Aggregation, s: Semantics) -> bool:
    """Whether a universal aggregation is the conjunction of its parts."""
    least = _extreme(how, s, True) and s.conjunction is TNorm.MINIMUM
    return (isinstance(how, Fold) and _exact_and(s)) or least


@dataclass(frozen=True, slots=True)
class Schema:
    """Two formulas, and a test for the semantics in which they have the same value."""

    left: str
    right: str
    holds: Callable[[Semantics], bool]


class Law(Enum):
    """A law, by name; a, b, c and g stand for any formulas that do not contain the variable y.

    `law.value` holds the two sides as text. Use `fotltn.laws` to see which laws a semantics obeys.

    >>> import fotltn as fot
    >>> law = fot.Law.CONTRAPOSITION
    >>> law.value.left, law.value.right, law in fot.laws("goguen")
    ('a -> b', '!b -> !a', False)
    """

    DOUBLE_NEGATION = Schema("!!a", "a", _standard)
    DE_MORGAN_AND = Schema("!(a & b)", "!a | !b", lambda s: _de_morgan(s) or _godel_not_and(s))
    DE_MORGAN_OR = Schema("!(a | b)", "!a & !b", lambda s: _de_morgan(s) or _godel_not_or(s))
    AND_COMMUTES = Schema("a & b", "b & a", lambda _: True)
    AND_ASSOCIATES = Schema("(a & b) & c", "a & (b & c)", _exact_and)
    OR_ASSOCIATES = Schema("(a | b) | c", "a | (b | c)", _exact_or)
    IMPLICATION = Schema("a -> b", "!a | b", _s_implication)
    CURRYING = Schema(
        "a & b -> c",
        "a -> b -> c",
        lambda s: (s.conjunction, s.implication) in _CURRIES and _exact_and(s),
    )
    CONTRAPOSITION = Schema(
        "a -> b",
        "!b -> !a",
        lambda s: _standard(s) and s.implication in dict(_S_IMPLICATIONS),
    )
    NOT_FORALL = Schema(
        "!(forall x. P(x))",
        "exists x. !P(x)",
        lambda s: _dual_aggregation(s.exists, s.forall, s),
    )
    NOT_ALWAYS = Schema("!G a", "F !a", lambda s: _dual_aggregation(s.eventually, s.always, s))
    WEAK_NEXT = Schema("WX a", "!X !a", _standard)
    EVENTUALLY_IS_UNTIL = Schema("F a", "true U a", _exact_and)
    MERGE_FORALL = Schema(
        "forall x. forall y. R2(x, y)", "forall x, y. R2(x, y)", lambda s: _pure(s.forall, s)
    )
    MERGE_EXISTS = Schema(
        "exists x. exists y. R2(x, y)", "exists x, y. R2(x, y)", lambda s: _pure(s.exists, s)
    )
    FORALL_ALWAYS = Schema(
        "forall x. G P(x)", "G forall x. P(x)", lambda s: _one_kind(s.forall, s.always, s, True)
    )
    EXISTS_EVENTUALLY = Schema(
        "exists x. F P(x)",
        "F exists x. P(x)",
        lambda s: _one_kind(s.exists, s.eventually, s, False),
    )
    NEXT_FORALL = Schema("X forall x. P(x)", "forall x. X P(x)", lambda _: True)
    NEXT_EXISTS = Schema(
        "X exists x. P(x)",
        "exists x. X P(x)",
        lambda s: _pure(s.exists, s),
    )
    NEXT_AND = Schema("X(a & b)", "X a & X b", _exact_and)
    EXISTS_AND = Schema(
        "exists y. g & P(y)",
        "g & exists y. P(y)",
        lambda s: _leaves(s.exists, s, False, s.conjunction is TNorm.PRODUCT),
    )
    FORALL_IMPLIES = Schema(
        "forall y. g -> P(y)",
        "g -> forall y. P(y)",
        lambda s: _leaves(s.forall, s, True, s.implication is Implication.REICHENBACH),
    )
    FORALL_OR = Schema(
        "forall y. g | P(y)",
        "g | forall y. P(y)",
        lambda s: _leaves(s.forall, s, True, s.disjunction is TConorm.PROBABILISTIC_SUM),
    )
    VACUOUS_FORALL = Schema(
        "forall y. g", "g", lambda s: _pure_mean(s.forall, s) or _extreme(s.forall, s, True)
    )
    # The semantics of the paper obeys none of the following laws.
    IDEMPOTENCE = Schema("a & a", "a", lambda s: s.conjunction is TNorm.MINIMUM)
    DISTRIBUTIVITY = Schema(
        "a & (b | c)", "(a & b) | (a & c)", lambda s: s.disjunction is TConorm.MAXIMUM
    )
    EXCLUDED_MIDDLE = Schema(
        "a | !a", "true", lambda s: s.disjunction is TConorm.LUKASIEWICZ and _standard(s)
    )
    FORALL_EVENTUALLY = Schema(
        "forall x. F P(x)",
        "F forall x. P(x)",
        lambda s: _average(s.forall) and _average(s.eventually) and s.epsilon == 0,
    )
    FORALL_DISTRIBUTES = Schema(
        "forall x. P(x) & Q(x)",
        "(forall x. P(x)) & (forall x. Q(x))",
        lambda s: _splits(s.forall, s),
    )
    FORALL_AND = Schema(
        "forall y. g & P(y)",
        "g & forall y. P(y)",
        lambda s: (
            _extreme(s.forall, s, True)
            or (_average(s.forall) and s.conjunction is TNorm.PRODUCT and s.epsilon == 0)
        ),
    )
    EXISTS_OR = Schema(
        "exists y. g | P(y)",
        "g | exists y. P(y)",
        lambda s: (
            _extreme(s.exists, s, False)
            or (
                _average(s.exists) and s.disjunction is TConorm.PROBABILISTIC_SUM and s.epsilon == 0
            )
        ),
    )
    ALWAYS_IDEMPOTENT = Schema("G G a", "G a", lambda s: _extreme(s.always, s, True))
    EVENTUALLY_IDEMPOTENT = Schema("F F a", "F a", lambda s: _extreme(s.eventually, s, False))
    EXPAND_UNTIL = Schema(
        "a U b",
        "b | (a & X(a U b))",
        lambda s: _lattice(s) and _extreme(s.eventually, s, False) and _extreme(s.always, s, True),
    )
    EXPAND_ALWAYS = Schema("G a", "a & WX G a", lambda s: _splits(s.always, s))

    def __repr__(self) -> str:
        return f"Law.{self.name}"


@public
def laws(semantics: str | Semantics) -> frozenset[Law]:
    """Return the laws that a semantics obeys exactly; Boolean truth obeys all but one.

    Use it to check whether two ways to write an axiom have the same value.

    Args:
        semantics: a semantics or its name.

    >>> Law.MERGE_FORALL in laws("stable-product"), Law.IDEMPOTENCE in laws("stable-product")
    (True, False)
    >>> Law.IDEMPOTENCE in laws("godel")
    True
    """
    meaning = semantics_of(semantics)
    if meaning.boolean:
        return frozenset(Law) - {Law.FORALL_EVENTUALLY}
    return frozenset(law for law in Law if law.value.holds(meaning))
