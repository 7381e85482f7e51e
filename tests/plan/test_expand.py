"""Means written as sums of means: where an epsilon leaves no constant off the facts."""

import math
from dataclasses import replace

import pytest
import torch

from fotltn.algebra.expand import by_powers, off_facts
from fotltn.algebra.expr import Reduce, TableLeaf
from fotltn.algebra.lower import lower
from fotltn.algebra.passes import optimize
from fotltn.algebra.show import show
from fotltn.errors import FotError
from fotltn.logic.check import check_formula
from fotltn.plan import build as planner
from fotltn.plan.build import build
from fotltn.plan.plan import Route
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.semantics.config import LTN
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder
from tests import random_cases
from tests.algebra.test_passes import SIGNATURE
from tests.plan.test_engine import engine_value, gradients, reference_value
from tests.plan.test_plan import THEORY
from tests.random_cases import random_case

BIG = Sizes({"agent": 10_000}, 1000, sparse={"Close": Sparse(20_000_000, crisp=True)})
ROUGH = replace(LTN, epsilon=0.1)


def mean_of(text, semantics=LTN):
    formula = check_formula(parse_formula(text), SIGNATURE).formula
    root = optimize(lower(formula, SIGNATURE, semantics))
    return next(n for n in postorder(root) if isinstance(n, Reduce))


def plan_of(text, sizes=BIG, **options):
    formula = check_formula(parse_formula(text), THEORY.signature).formula
    root = optimize(lower(formula, THEORY.signature, LTN, at=0))
    return build({"f": root}, sizes, **options)


# --- before and after -----------------------------------------------------------------------------


def test_what_facts_add_is_told_from_the_rest():
    node = mean_of("exists y. B(y) & P(x, y)", ROUGH.with_p(2))
    assert show(node) == "mean[y]((0.9·(0.9·B(y) + 0.1) · (0.9·P(x, y) + 0.1) + 0.1)^2)"
    (leaf,) = [n for n in postorder(node) if isinstance(n, TableLeaf) and n.predicate == "P"]
    rest, more = off_facts(node, leaf)
    assert show(rest) == "mean[y]((0.081·B(y) + 0.109)^2)"
    assert show(more) == (
        "mean[y](excess((0.9·(0.9·B(y) + 0.1) · (0.9·P(x, y) + 0.1) + 0.1)^2, "
        "(0.081·B(y) + 0.109)^2))"
    )


def test_a_power_is_written_out():
    node = mean_of("exists x, y. A(x) & B(y)", ROUGH.with_p(2))
    found = by_powers(node)
    assert found is not None
    assert show(found)[5:-1].split(", ") == [
        "0.81·(mean[x]((0.9·A(x) + 0.1)^2)) · (mean[y]((0.9·B(y) + 0.1)^2))",
        "0.18·(mean[x](0.9·A(x) + 0.1)) · (mean[y](0.9·B(y) + 0.1))",
        "0.01",
    ]


@pytest.mark.parametrize(
    ("text", "semantics"),
    [
        ("exists x, y. A(x) & B(y)", LTN.with_p(2.5)),  # no whole power
        ("forall x, y. A(x) & B(y)", LTN),  # 1 - …: signs differ, digits would be lost
        ("exists x, y. P(x, y) & P(y, x)", LTN),  # all factors have all axes
        ("exists x, y. A(x) & B(y)", LTN.with_p(300)),  # more than 200 terms
    ],
)
def test_what_is_not_written_out(text, semantics):
    assert by_powers(mean_of(text, semantics)) is None


# --- values and gradients -------------------------------------------------------------------------


TEXTS = (
    "exists y. B(y) & P(x, y)",
    "G(forall x, y. A(x) & B(y) & P(x, y) -> X B(x))",
    "forall x, y. G(A(x) & B(y) & P(x, y) -> WX B(x))",
    "forall x. G(A(x) & !(exists y. D(y) & Q(x, y)) -> WX B(x))",
    "F(exists x, y. A(x) & N(x, y) & K(y))",
    "G(forall x, y. P(x, y) -> P(y, x))",
    "exists x, y, z. A(x) & B(y) & A(z) & rain",
    "forall x. (exists y. P(x, y) & K(y)) | exists y. B(y) & N(x, y)",
)
KINDS = (LTN, ROUGH, ROUGH.with_p(1), ROUGH.with_p(2), LTN.with_p(3), LTN.with_p(2.5))


def templates(seed):
    """A formula that can be expanded, on random data."""
    case = random_case(seed)
    text = TEXTS[seed % len(TEXTS)]
    checked = check_formula(parse_formula(text), random_cases.SIGNATURE)
    return replace(case, text=text, checked=checked)


@pytest.mark.parametrize(("draw", "least"), [(random_case, 2), (templates, 60)])
def test_values_and_gradients_are_those_of_the_reference(draw, least, monkeypatch):
    monkeypatch.setattr(planner, "WORTH", math.inf)
    taken = compared = 0
    for seed in range(50_000, 50_120):
        case = replace(draw(seed), semantics=KINDS[seed // 8 % len(KINDS)])
        try:
            expected = reference_value(case)
        except FotError:
            continue
        found, plan = engine_value(case)
        told = f"seed {seed}: {case.text} under {case.semantics} at {case.at}"
        same(found, expected, told)
        for mine, theirs in zip(gradients(found, case), gradients(expected, case), strict=True):
            same(mine, theirs, told)
        compared += 1
        taken += any(step.route is Route.EXPANDED for step in plan.steps)
    assert compared > 110
    assert taken > least


def same(found, expected, told):
    torch.testing.assert_close(
        found, expected, rtol=1e-9, atol=1e-11, equal_nan=True, msg=lambda m: f"{told}\n{m}"
    )


# --- plans ----------------------------------------------------------------------------------------

GUARD = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"


@pytest.mark.parametrize(
    "text",
    [
        f"G(forall x, y. {GUARD} -> WX Stop(x))",
        "forall x. G(Car(x) & !(exists y. Ped(y) & Crossing(y) & Close(x, y)) -> WX Run(x))",
        "G(forall x, y. Close(x, y) -> Close(y, x))",
    ],
)
def test_bindings_without_facts_are_counted_under_an_epsilon(text):
    plan = plan_of(text)
    cells = 10_000 * 1000 + 20_000_000
    assert Route.EXPANDED in {s.route for s in plan.steps}
    assert not {Route.DENSE, Route.CHUNKED} & {
        s.route for s in plan.steps if BIG.of(s.node) > cells
    }
    assert sum(s.flops for s in plan.steps) < 150 * cells
    assert plan.peak < 4 * 2**30


def test_a_root_between_the_means_leaves_one_value_a_pair():
    """Each pair of agents has its own mean over time: contractions at best, at small sizes."""
    small = Sizes({"agent": 200}, 150, sparse={"Close": Sparse(150_000, crisp=True)})
    text = f"forall x, y. G({GUARD} -> WX Stop(x))"
    plan = plan_of(text, small)
    assert {Route.EXPANDED, Route.CONTRACTION} <= {s.route for s in plan.steps}
    assert max(small.of(s.node) for s in plan.steps) == 200 * 200
    assert Route.CHUNKED in {s.route for s in plan_of(text).steps}


def test_nothing_is_expanded_where_that_costs_more():
    tiny = Sizes({"agent": 3}, 4)
    assert Route.EXPANDED not in {s.route for s in plan_of("forall x, y. G(Close(x, y))").steps}
    text = f"G(forall x, y. {GUARD} -> WX Stop(x))"
    assert Route.EXPANDED not in {s.route for s in plan_of(text, tiny).steps}
