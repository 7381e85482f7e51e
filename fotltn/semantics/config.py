"""The operators that give a formula its value, as plain data: nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fotltn.arguments import public
from fotltn.errors import DataError, SemanticsError, did_you_mean, listing, name_hint


class Negation(StrEnum):
    """How ¬ negates a degree."""

    STANDARD = "standard"  # 1 - u
    GODEL = "godel"  # 1 if u = 0 else 0


class TNorm(StrEnum):
    """How ∧ combines two degrees."""

    PRODUCT = "product"  # u v
    MINIMUM = "minimum"  # min(u, v)
    LUKASIEWICZ = "lukasiewicz"  # max(0, u + v - 1)


class TConorm(StrEnum):
    """How ∨ combines two degrees."""

    PROBABILISTIC_SUM = "probabilistic-sum"  # u + v - u v
    MAXIMUM = "maximum"  # max(u, v)
    LUKASIEWICZ = "lukasiewicz"  # min(1, u + v)


class Implication(StrEnum):
    """How → combines two degrees."""

    REICHENBACH = "reichenbach"  # 1 - u + u v
    KLEENE_DIENES = "kleene-dienes"  # max(1 - u, v)
    LUKASIEWICZ = "lukasiewicz"  # min(1, 1 - u + v)
    GODEL = "godel"  # 1 if u <= v else v
    GOGUEN = "goguen"  # 1 if u <= v else v / u


_CONNECTIVES: dict[str, type[StrEnum]] = {
    "negation": Negation, "conjunction": TNorm, "disjunction": TConorm, "implication": Implication,
}  # fmt: skip


@public
@dataclass(frozen=True, slots=True)
class PMean:
    """Aggregate by generalised means: of the degrees for ∃ and F, of their errors for ∀ and G.

    Use a larger `p` to let a few extreme degrees decide, a smaller one to let all degrees count.
    `p = 1` is the average; `p = inf` gives the exact maximum and minimum.

    >>> import fotltn as fot
    >>> strict = fot.Semantics("strict", always=fot.PMean(32))
    >>> degrees = {"a": [1.0, 1.0, 0.2]}
    >>> fot.evaluate("G a", degrees), fot.evaluate("G a", degrees, semantics=strict)
    (tensor(0.3921), tensor(0.2270))
    """

    p: float

    def __post_init__(self) -> None:
        """Raise an error for an exponent below 1: the mean would lie below the average."""
        if math.isnan(self.p) or self.p < 1:
            raise SemanticsError(f"p must be at least 1 (inf for the exact extreme), not {self.p}")


@dataclass(frozen=True, slots=True)
class Fold:
    """Aggregate by connectives: ∃ and F fold the t-conorm over all points, ∀ and G the t-norm.

    Use it for probabilities of independent events: with the product connectives, `G a` is the
    product of all degrees.

    >>> import fotltn as fot
    >>> product = fot.Semantics("mine", always=fot.Fold())
    >>> fot.evaluate("G a", {"a": [0.5, 0.5, 1.0]}, semantics=product)
    tensor(0.2500)
    """


Aggregation = PMean | Fold


@public
@dataclass(frozen=True, slots=True)
class Semantics:
    """The functions that compute each connective, quantifier and temporal operator.

    Most users pick a named semantics from `SEMANTICS`. Build one to change single operators.

    Args:
        name: the name in messages and reports.
        negation: a connective or its name.
        conjunction: a connective or its name.
        disjunction: a connective or its name.
        implication: a connective or its name.
        exists: the aggregation over entities for ∃.
        forall: the aggregation over entities for ∀.
        eventually: the aggregation over time for F; until and release use it together with
            `always`.
        always: the aggregation over time for G.
        epsilon: how far LTN's projections keep degrees from 0 and 1, before operators whose
            gradient vanishes or explodes there; 0 keeps degrees exact.
        log_space: compute with logarithms of degrees, so that long products do not underflow.
        equality_scale: α in the degree `exp(-α · distance)` of an equality.
        boolean: compute exact truth with true and false only; the operators above are then ignored.

    >>> import fotltn as fot
    >>> mine = fot.Semantics("mine", implication="goguen", forall=fot.PMean(8))
    >>> fot.evaluate("a -> b", {"a": [0.5], "b": [0.25]}, semantics=mine)
    tensor(0.5000)
    """

    name: str
    negation: Negation = Negation.STANDARD
    conjunction: TNorm = TNorm.PRODUCT
    disjunction: TConorm = TConorm.PROBABILISTIC_SUM
    implication: Implication = Implication.REICHENBACH
    exists: Aggregation = field(default=PMean(4.0))
    forall: Aggregation = field(default=PMean(4.0))
    eventually: Aggregation = field(default=PMean(4.0))
    always: Aggregation = field(default=PMean(4.0))
    epsilon: float = 0.0
    log_space: bool = False
    equality_scale: float = 1.0
    boolean: bool = False

    def __post_init__(self) -> None:
        """Look up connectives by name, and raise an error for combinations without a meaning."""
        for place, kind in _CONNECTIVES.items():
            word = str(getattr(self, place))
            if word not in list(kind):
                hint = did_you_mean(word, list(kind)) or f"available: {listing(list(kind))}"
                raise SemanticsError(f"unknown {place} '{word}'; {hint}")
            object.__setattr__(self, place, kind(word))
        if not 0 <= self.epsilon < 0.5:
            raise SemanticsError(f"epsilon must be at least 0 and below 0.5, not {self.epsilon}")
        if not (self.equality_scale > 0 and math.isfinite(self.equality_scale)):
            raise SemanticsError(f"equality_scale must be positive, not {self.equality_scale}")
        if self.log_space and not _has_log_form(self):
            raise SemanticsError(
                "log space needs the product t-norm, the probabilistic sum, Reichenbach "
                "implication, standard negation and no epsilon"
            )

    def with_p(self, p: float) -> Semantics:
        """Return this semantics with another p in every mean."""
        if self.boolean or not any(isinstance(a, PMean) for a in self.aggregations):
            raise SemanticsError(f"the semantics '{self.name}' has no p")
        mean = PMean(p)
        exists, forall, eventually, always = (
            mean if isinstance(a, PMean) else a for a in self.aggregations
        )
        return replace(self, exists=exists, forall=forall, eventually=eventually, always=always)

    @property
    def aggregations(self) -> tuple[Aggregation, Aggregation, Aggregation, Aggregation]:
        """The aggregations for ∃, ∀, F and G."""
        return self.exists, self.forall, self.eventually, self.always


def only_p(semantics: Semantics) -> float | None:
    """Return the exponent of all means; None if they have several, or truth has no degrees."""
    exponents = {a.p for a in semantics.aggregations if isinstance(a, PMean)}
    return exponents.pop() if len(exponents) == 1 and not semantics.boolean else None


def _has_log_form(s: Semantics) -> bool:
    return (
        s.negation is Negation.STANDARD
        and s.conjunction is TNorm.PRODUCT
        and s.disjunction is TConorm.PROBABILISTIC_SUM
        and s.implication is Implication.REICHENBACH
        and s.epsilon == 0
    )


def _every(name: str, aggregation: Aggregation, **options: object) -> Semantics:
    return Semantics(
        name,
        exists=aggregation,
        forall=aggregation,
        eventually=aggregation,
        always=aggregation,
        **options,  # type: ignore[arg-type]
    )


#: The semantics of the paper: product connectives, Reichenbach implication, p-means with p = 4.
STABLE_PRODUCT = Semantics("stable-product")

#: `STABLE_PRODUCT` with LTN's projections; values agree with LTNtorch's `stable=True`.
LTN = Semantics("ltn", epsilon=1e-4)

#: ∀ and G as in the paper; ∃ and F fold the probabilistic sum, so one witness suffices.
WITNESS = Semantics("witness", exists=Fold(), eventually=Fold())

#: Product connectives, also folded for quantifiers and time.
PRODUCT = _every("product", Fold())

#: `PRODUCT` in log space.
LOG_PRODUCT = _every("log-product", Fold(), log_space=True)

#: Minimum, maximum and 1 - u, so De Morgan's laws and a → b = ¬a ∨ b hold.
GODEL = _every(
    "godel",
    PMean(math.inf),
    conjunction=TNorm.MINIMUM,
    disjunction=TConorm.MAXIMUM,
    implication=Implication.KLEENE_DIENES,
)

#: Gödel logic proper: minimum and maximum with the residual implication and its negation.
GODEL_RESIDUAL = replace(
    GODEL, name="godel-residual", negation=Negation.GODEL, implication=Implication.GODEL
)

#: Łukasiewicz connectives, with infimum and supremum for quantifiers and time.
LUKASIEWICZ = _every(
    "lukasiewicz",
    PMean(math.inf),
    conjunction=TNorm.LUKASIEWICZ,
    disjunction=TConorm.LUKASIEWICZ,
    implication=Implication.LUKASIEWICZ,
)

#: Product connectives with their residual implication; infimum and supremum for the rest.
GOGUEN = _every("goguen", PMean(math.inf), implication=Implication.GOGUEN)

#: The exact Boolean truth of FO-LTLf.
CRISP = Semantics("crisp", boolean=True)

SEMANTICS: dict[str, Semantics] = {
    s.name: s
    for s in (
        STABLE_PRODUCT, LTN, WITNESS, PRODUCT, LOG_PRODUCT, GODEL, GODEL_RESIDUAL, LUKASIEWICZ,
        GOGUEN, CRISP,
    )
}  # fmt: skip
"""All named semantics by name; the argument `semantics=` accepts these names."""


def named(name: str) -> Semantics:
    """Return the semantics with this name.

    >>> named("godel").conjunction
    <TNorm.MINIMUM: 'minimum'>
    """
    if name in SEMANTICS:
        return SEMANTICS[name]
    hint = name_hint(name, SEMANTICS)
    raise SemanticsError(f"unknown semantics '{name}'; {hint}")


def semantics_of(semantics: str | Semantics, p: float | None = None) -> Semantics:
    """Return a semantics, looked up if given by name, with exponent `p` in all means if given."""
    meaning = named(semantics) if isinstance(semantics, str) else semantics
    return meaning if p is None else meaning.with_p(p)


def check_threshold(threshold: float | None, semantics: Semantics) -> None:
    """Raise an error for a threshold without effect, or one that makes everything true or false."""
    if threshold is None:
        return
    if not semantics.boolean:
        raise SemanticsError(f"a threshold needs the semantics 'crisp', not '{semantics.name}'")
    check_share(threshold)


def check_share(threshold: float | None) -> None:
    """Raise an error for a threshold that makes everything or nothing true."""
    if threshold is not None and not 0 < threshold <= 1:
        raise DataError(f"a threshold must be above 0 and at most 1, not {threshold}")
