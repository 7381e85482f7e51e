"""Every listed law is proven on random values; every unlisted one has a counterexample."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import fotltn
from fotltn.semantics.config import (
    GODEL,
    GODEL_RESIDUAL,
    LUKASIEWICZ,
    PRODUCT,
    SEMANTICS,
    STABLE_PRODUCT,
    Fold,
    Implication,
    Negation,
    PMean,
    Semantics,
    TConorm,
    TNorm,
)
from fotltn.semantics.laws import Law, laws
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.helpers import evaluate

FOLDS: Any = {"exists": Fold(), "forall": Fold(), "eventually": Fold(), "always": Fold()}
GRID: dict[str, Semantics] = {name: s for name, s in SEMANTICS.items() if not s.boolean} | {
    "product p=1": STABLE_PRODUCT.with_p(1),
    "product p=2": STABLE_PRODUCT.with_p(2),
    "product p=inf": STABLE_PRODUCT.with_p(math.inf),
    "product p=inf eps": replace(STABLE_PRODUCT.with_p(math.inf), epsilon=0.01),
    "product eps": replace(STABLE_PRODUCT, epsilon=0.01),
    "product p=1 eps": replace(STABLE_PRODUCT.with_p(1), epsilon=0.01),
    "product fold eps": replace(PRODUCT, epsilon=0.01),
    "mixed p": replace(STABLE_PRODUCT, always=PMean(2), exists=PMean(3)),
    "fold exists": replace(STABLE_PRODUCT, exists=Fold()),
    "fold time": replace(STABLE_PRODUCT, always=Fold(), eventually=Fold()),
    "min/max p=3": GODEL.with_p(3),
    "min/max eps": replace(GODEL, epsilon=0.01),
    "min/max folds": replace(GODEL, **FOLDS),
    "min/max mixed": replace(GODEL, exists=Fold(), always=Fold()),
    "min/max goguen": replace(GODEL, implication=Implication.GOGUEN),
    "godel negation only": replace(GODEL, negation=Negation.GODEL),
    "godel residual folds": replace(GODEL_RESIDUAL, **FOLDS),
    "godel negation, product": replace(STABLE_PRODUCT, negation=Negation.GODEL),
    "godel negation, product eps": replace(STABLE_PRODUCT, negation=Negation.GODEL, epsilon=0.01),
    "lukasiewicz p=2": LUKASIEWICZ.with_p(2),
    "lukasiewicz folds": replace(LUKASIEWICZ, **FOLDS),
    "lukasiewicz, godel negation": replace(LUKASIEWICZ, negation=Negation.GODEL),
    "product with maximum": replace(STABLE_PRODUCT, disjunction=TConorm.MAXIMUM),
    "minimum with sum": replace(STABLE_PRODUCT, conjunction=TNorm.MINIMUM),
    "product, kleene-dienes": replace(STABLE_PRODUCT, implication=Implication.KLEENE_DIENES),
    "product, goguen": replace(STABLE_PRODUCT, implication=Implication.GOGUEN),
    "product, goguen eps": replace(STABLE_PRODUCT, implication=Implication.GOGUEN, epsilon=0.01),
}
TRIES = 24
THEORY = parse_theory(
    "sort s\npredicate a, b, c, g\npredicate P(s), Q(s)\npredicate R2(s, s)", source="laws.fot"
)


def tables(seed: int) -> dict[str, torch.Tensor]:
    """Random degrees; every third draw has many exact 0 and 1, where negations jump."""
    rng = torch.Generator().manual_seed(seed)
    shapes = {"a": (5,), "b": (5,), "c": (5,), "g": (5,), "P": (3, 5), "Q": (3, 5), "R2": (3, 3, 5)}
    degrees = {
        n: torch.rand(shape, generator=rng, dtype=torch.float64) for n, shape in shapes.items()
    }
    if seed % 3 == 0:
        degrees = {n: torch.where(t < 0.5, (t < 0.25).double(), t) for n, t in degrees.items()}
    return degrees


DRAWS = [tables(seed) for seed in range(TRIES)]
#: All draws at once, each as a trace.
TOGETHER = fotltn.tables(
    THEORY,
    {name: torch.stack([draw[name] for draw in DRAWS]) for name in DRAWS[0]},
    lengths=[5] * TRIES,
)
#: The sides of laws; of some sides there are several laws.
SIDES = {text: parse_formula(text) for law in Law for text in (law.value.left, law.value.right)}


def sides(data: Tables, semantics: Semantics) -> dict[str, torch.Tensor]:
    """The value of each side of a law, at all points."""
    return {
        text: evaluate(formula, data, semantics=semantics, at="all")
        for text, formula in SIDES.items()
    }


@pytest.mark.parametrize("name", GRID)
def test_laws_hold_exactly_where_they_are_listed(name):
    semantics = GRID[name]
    tolerance, apart = (1e-7, 1e-4) if semantics.log_space else (1e-12, 1e-9)
    listed = laws(semantics)
    values = sides(TOGETHER, semantics)
    for law in Law:
        furthest = float((values[law.value.left] - values[law.value.right]).abs().max())
        if law in listed:
            assert furthest <= tolerance, f"{law} is listed but off by {furthest:.2g}"
        else:
            assert furthest > apart, f"{law} is not listed, but no counterexample was found"


def test_the_papers_list():
    """The laws that were found to hold, and not to hold, in the paper's semantics."""
    broken = {
        Law.IDEMPOTENCE, Law.DISTRIBUTIVITY, Law.EXCLUDED_MIDDLE, Law.FORALL_EVENTUALLY,
        Law.FORALL_DISTRIBUTES, Law.FORALL_AND, Law.EXISTS_OR, Law.ALWAYS_IDEMPOTENT,
        Law.EVENTUALLY_IDEMPOTENT, Law.EXPAND_UNTIL, Law.EXPAND_ALWAYS,
    }  # fmt: skip
    assert laws(STABLE_PRODUCT) == frozenset(Law) - broken


def test_boolean_truth_obeys_all_but_one():
    crisp = SEMANTICS["crisp"]
    assert frozenset(Law) - laws(crisp) == {Law.FORALL_EVENTUALLY}
    values: Any = {"P": [[1.0, 0.0], [0.0, 1.0]]}
    each, together = Law.FORALL_EVENTUALLY.value.left, Law.FORALL_EVENTUALLY.value.right
    assert evaluate(each, values, semantics=crisp)
    assert not evaluate(together, values, semantics=crisp)
    certain = {name: TOGETHER.predicate(name).round() for name in TOGETHER.predicates}
    truths = sides(replace(TOGETHER, predicates=certain), crisp)
    for law in laws(crisp):
        assert torch.equal(truths[law.value.left], truths[law.value.right])
