"""Plans: what is chosen, what is refused, how it reads."""

from pathlib import Path

import pytest

from fotltn.algebra.lower import lower
from fotltn.algebra.passes import optimize
from fotltn.errors import LimitError
from fotltn.logic.check import check
from fotltn.plan.build import build
from fotltn.plan.cost import dense_cost
from fotltn.plan.plan import Route
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.project.scene import THEORY as FILE
from fotltn.semantics.config import GODEL, GOGUEN, LTN, STABLE_PRODUCT, WITNESS
from fotltn.syntax.load import load_theory

SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "carped_plan.txt"
THEORY = check(load_theory(FILE))
SIZES = Sizes({"agent": 200}, 150, sparse={"Close": Sparse(150_000, crisp=True)})


def plan_of(semantics=STABLE_PRODUCT, sizes=SIZES, names=None, at=0, **options):
    axioms = [a for a in THEORY.axioms if names is None or a.name in names]
    roots = {a.name: optimize(lower(a.formula, THEORY.signature, semantics, at=at)) for a in axioms}
    dense = {a.name: dense_cost(a.formula, sizes) for a in axioms}
    return build(roots, sizes, dense=dense, **options)


def routes(plan):
    return {step.route for step in plan.steps}


def test_the_plans_of_the_papers_axioms():
    """To renew the snapshot after a change that is meant: delete the file and run this once."""
    text = plan_of().explain() + "\n"
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(text, "utf-8")
    assert SNAPSHOT.read_text("utf-8") == text


def test_no_step_of_the_papers_axioms_is_as_large_as_pairs_times_time():
    cells = 200 * 200 * 150
    plan = plan_of()
    assert all(SIZES.of(step.node) <= 200 * 150 for step in plan.steps)
    assert plan.peak < cells * SIZES.width
    dense = sum(held for _, held in plan.dense.values())
    assert dense > 10 * plan.peak


def test_shared_parts_are_computed_once():
    nodes = [step.node for step in plan_of().steps]
    assert len(nodes) == len(set(nodes))
    alone = sum(len(plan_of(names={a.name}).steps) for a in THEORY.axioms)
    assert len(nodes) < alone


def test_only_the_first_point_is_computed_where_only_it_is_asked_for():
    (step,) = [s for s in plan_of(names={"A4"}).steps if s.route is Route.POINT]
    assert not step.node.timed
    assert Route.POINT not in routes(plan_of(names={"A4"}, at=None))


@pytest.mark.parametrize(("semantics", "route"), [
    (STABLE_PRODUCT, Route.SPARSE), (GODEL, Route.SUPPORT), (GOGUEN, Route.SUPPORT),
    (GODEL.with_p(3), Route.SUPPORT), (LTN, Route.DENSE),
])  # fmt: skip
def test_facts_are_walked_where_the_rest_is_a_constant(semantics, route):
    assert route in routes(plan_of(semantics, names={"A1"}))


def test_without_facts_a_sum_of_products_is_contracted():
    plan = plan_of(sizes=Sizes({"agent": 200}, 150), names={"A1"})
    assert Route.CONTRACTION in routes(plan)


def test_the_budget_is_kept_by_chunks_or_refused_with_the_bytes():
    big = Sizes({"agent": 3000}, 100)
    plan = plan_of(LTN, big, names={"A1"}, budget=200_000_000)
    assert Route.CHUNKED in routes(plan)
    assert plan.peak <= 200_000_000
    with pytest.raises(LimitError, match=r"needs [\d,]+ bytes.*budget of 1,000"):
        plan_of(LTN, big, names={"A1"}, budget=1000)


def test_a_reduction_inside_another_walks_facts_where_its_cells_would_not_fit():
    """A3: for each car and point a product over all pedestrians that are close."""
    big = Sizes({"agent": 1400}, 500, sparse={"Close": Sparse(24_500_000, crisp=True)})
    plan = plan_of(WITNESS.with_p(4), big, names={"A3"})
    assert Route.SUPPORT in routes(plan)
    assert Route.CHUNKED not in routes(plan)
    assert sum(step.flops for step in plan.steps) < 2e8
    tight = plan_of(WITNESS.with_p(4), big, names={"A3"}, budget=300_000_000)
    assert Route.CHUNKED in routes(tight)  # what facts hold does not fit either
    assert tight.peak <= 300_000_000


def test_explain_says_route_reason_and_costs():
    text = plan_of(names={"A1"}).explain()
    assert "sparse" in text
    assert "150,000 facts of Close instead of 6,000,000 cells" in text
    assert "dense:" in text
    assert "FLOPs" in text
    assert text.splitlines()[-1].startswith("17 steps, ")
