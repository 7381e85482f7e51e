"""The loss, against the paper's equations by brute force and against closed forms."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from fotltn import DataError
from fotltn.analysis.metrics import kb_sat, satisfaction
from fotltn.evaluation import axiom_values
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import flip
from fotltn.learn.objective import (
    FACTS_ONLY,
    PAPER,
    Flips,
    Objective,
    axiom_loss,
    fact_loss,
    losses,
    mean_error,
    predicted,
)
from fotltn.learn.schedule import Schedule, schedule
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from tests.learn import tasks


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def constant(value):
    return schedule(value, "number")


def world(seed=0, *, crisp=True, count=40):
    """Two predicates with labels, one of them static and the same in all traces."""
    rng = gen(seed)
    shapes = {"A": (2, 3, 5), "B": (1, 4, 3, 1)}
    tables = {n: torch.rand(s, generator=rng) for n, s in shapes.items()}
    model = Tables({"s": 3, "t": 4}, torch.tensor([5, 5]), 5, tables)
    index = {
        "A": torch.stack([torch.randint(0, n, (count,), generator=rng) for n in (2, 3, 5)]),
        "B": torch.stack([torch.randint(0, n, (count // 2,), generator=rng) for n in (2, 4, 3, 1)]),
    }
    truth = {n: torch.rand(i.shape[1], generator=rng) for n, i in index.items()}
    if crisp:
        truth = {n: t.round() for n, t in truth.items()}
    return model, Labels(index, truth, {"A": ("s",), "B": ("t", "s")})


def cells(model, labels, name):
    """Pairs of label and degree, read cell by cell."""
    for row, y in zip(labels.index[name].T.tolist(), labels.truth[name].tolist(), strict=True):
        trace, *args, time = row
        table = model.predicates[name]
        trace, time = min(trace, table.shape[0] - 1), min(time, table.shape[-1] - 1)
        yield y, table[(trace, *args, time)].item()


# --- the paper -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 4, 7.5])
@pytest.mark.parametrize("crisp", [True, False])
def test_the_objective_of_the_paper(p, crisp):
    """sat = 1 - (((1 - sat_sup)^p + (1 - sat_BK)^p) / 2)^(1/p), in plain Python."""
    model, labels = world(crisp=crisp)
    errors = [1 - (y * g + (1 - y) * (1 - g)) for n in "AB" for y, g in cells(model, labels, n)]
    sup = 1 - (sum(e**p for e in errors) / len(errors)) ** (1 / p)
    values = torch.rand(13, 1, generator=gen(1))
    bk = 1 - (sum((1 - v) ** p for v in values[:, 0].tolist()) / 13) ** (1 / p)
    expected = (((1 - sup) ** p + (1 - bk) ** p) / 2) ** (1 / p)

    objective = Objective(p=constant(p))
    facts = fact_loss(objective, labels, model, 0, 0.1)
    axioms = axiom_loss(objective, values, torch.ones(13), 0)
    found = losses(objective, facts, axioms, 0)
    assert facts.item() == pytest.approx(1 - sup, abs=1e-12)
    assert axioms.item() == pytest.approx(1 - bk, abs=1e-12)
    assert found.total.item() == pytest.approx(expected, abs=1e-12)
    assert axioms.item() == pytest.approx(1 - satisfaction(values[:, 0], p=p).value, abs=1e-12)


def test_the_papers_p_is_four_and_its_ablation_has_no_axioms():
    assert PAPER.p.at(0) == 4
    facts, axioms = torch.tensor(0.3), torch.tensor(0.6)
    found = losses(FACTS_ONLY, facts, axioms, 0)
    assert (found.total, found.axioms) == (facts, None)
    assert losses(PAPER, facts, None, 0).total is facts


def test_weights_and_exponents_of_predicates():
    model, labels = world()
    objective = Objective(
        p=constant(3), fact_p={"B": constant(6)}, fact_weights={"A": constant(0.5)}
    )
    total, weight = 0.0, 0.0
    for name, own, share in (("A", 3, 0.5), ("B", 6, 1.0)):
        errors = [abs(y - g) for y, g in cells(model, labels, name)]
        mean = (sum(e**own for e in errors) / len(errors)) ** (1 / own)
        total += share * len(errors) * mean**3
        weight += share * len(errors)
    expected = (total / weight) ** (1 / 3)
    assert fact_loss(objective, labels, model, 0, 0.1).item() == pytest.approx(expected)
    without = replace(objective, fact_weights={"A": constant(0)})
    errors = [abs(y - g) for y, g in cells(model, labels, "B")]
    expected = (sum(e**6 for e in errors) / len(errors)) ** (1 / 6)
    assert fact_loss(without, labels, model, 0, 0.1).item() == pytest.approx(expected)


def test_weights_of_axioms_follow_the_epochs():
    values = torch.tensor([[0.9, 0.7], [0.2, 0.4]])
    found = tasks.task(text=tasks.THEORY)
    moving = {"A1": Schedule(((0.0, 0.0), (10.0, 5.0)))}
    assert found.axioms.weights(moving, 4) == (2, 1, 2)  # A2 and A3 as the theory says
    for weights in ([1.0, 1.0], [3.0, 0.5], [0.0, 1.0]):
        powers = sum(
            w * (1 - v) ** 4 for w, row in zip(weights, values.tolist(), strict=True) for v in row
        )
        expected = (powers / (2 * sum(weights))) ** 0.25
        own = axiom_loss(PAPER, values, torch.tensor(weights), 0)
        assert own.item() == pytest.approx(expected)
    assert axiom_loss(PAPER, values, torch.zeros(2), 0).item() == 0


def test_axioms_by_logarithms_and_losses_added():
    values = torch.rand(3, 2, generator=gen())
    weights = torch.tensor([1.0, 2.0, 0.0])
    objective = Objective(
        facts="cross-entropy", axioms="log", together="sum", weight=Schedule(((0, 0), (10, 5)))
    )
    found = axiom_loss(objective, values, weights, 0)
    by_hand = [
        -w * math.log(v) for w, row in zip([1, 2, 0], values.tolist(), strict=True) for v in row
    ]
    assert found.item() == pytest.approx(sum(by_hand) / 6)
    assert axiom_loss(objective, values.log(), weights, 0, logs=True).item() == pytest.approx(
        found.item()
    )
    deep = torch.full((3, 2), -5000.0)
    assert axiom_loss(objective, deep, weights, 0, logs=True).item() == pytest.approx(5000)
    both = losses(objective, torch.tensor(0.25), found, 4)
    assert both.total.item() == pytest.approx(0.25 + 2 * found.item())


# --- several traces --------------------------------------------------------------------------


@pytest.mark.parametrize("p", [4.0, 2.0])
def test_traces_count_like_axioms_and_as_an_audit_counts_them(p):
    semantics = STABLE_PRODUCT.with_p(p)
    found = tasks.task(3, semantics=semantics, ground=tasks.grounding(3, lengths=[8, 3, 5]))
    model = found.grounding()
    values = found.axioms.values(model)
    assert values.shape == (3, 3)
    weights = torch.tensor(found.axioms.weights({}, 0))
    own = axiom_loss(Objective(p=constant(p)), values, weights, 0).item()
    theory = found.axioms.theory
    formulas = {a.name: a.formula for a in theory.axioms}
    each = axiom_values(formulas, model, semantics)
    audited = satisfaction(
        {n: v.item() for n, v in each.items()},
        p=p,
        weights={a.name: a.weight for a in theory.axioms},
    )
    assert own == pytest.approx(1 - audited.value, abs=1e-12)
    other = axiom_loss(Objective(p=constant(p + 3)), values, weights, 0).item()
    assert other > own + 1e-3
    assert kb_sat([1.0]).value == 1


# --- likelihoods -----------------------------------------------------------------------------


def test_cross_entropy():
    for crisp in (True, False):
        model, labels = world(crisp=crisp)
        objective = Objective(facts="cross-entropy", together="sum")
        pairs = [pair for n in "AB" for pair in cells(model, labels, n)]
        y, g = (torch.tensor(column) for column in zip(*pairs, strict=True))
        expected = functional.binary_cross_entropy(g, y)
        found = fact_loss(objective, labels, model, 0, 0.1)
        assert found.item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.49])
def test_the_likelihood_of_flipped_labels(rate):
    model, labels = world()
    objective = Objective(facts="noise-aware", together="sum", flips=rate)
    total, count = 0.0, 0
    for name in "AB":
        for y, g in cells(model, labels, name):
            seen = (1 - rate) * g + rate * (1 - g)
            total -= math.log(seen if y == 1 else 1 - seen)
            count += 1
    found = fact_loss(objective, labels, model, 0, rate)
    assert found.item() == pytest.approx(total / count)


def test_a_learned_rate_of_flips_is_the_true_one():
    """Degrees are known and right, and the labels flipped: only the rate can explain that."""
    truth = (torch.rand(20_000, generator=gen()) < 0.4).double()
    index = torch.stack([torch.zeros(20_000), torch.arange(20_000.0), torch.zeros(20_000)]).long()
    clean = Labels({"A": index}, {"A": truth}, {"A": ("s",)})
    noisy, mask = flip(clean, 0.17, 1)
    model = Tables({"s": 20_000}, torch.tensor([1]), 1, {"A": truth.reshape(1, -1, 1)})
    objective = Objective(facts="noise-aware", together="sum", learn_flips=True, flips=0.05)
    rate = Flips(0.05)
    assert rate().item() == pytest.approx(0.05, abs=1e-6)
    optimiser = torch.optim.Adam(rate.parameters(), lr=0.05)
    for _ in range(300):
        optimiser.zero_grad()
        fact_loss(objective, noisy, model, 0, rate()).backward()
        optimiser.step()
    assert rate().item() == pytest.approx(float(mask["A"].double().mean()), abs=1e-3)
    assert rate().item() == pytest.approx(0.17, abs=0.01)


# --- gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_where_all_is_satisfied_the_loss_is_zero_and_its_slope_finite(p):
    model, labels = world()
    tables = {n: t.clone().requires_grad_() for n, t in model.predicates.items()}
    perfect = replace(model, predicates=tables)
    agree = {n: v.detach() for n, v in predicted(labels, perfect).items()}
    objective = Objective(p=constant(p), fact_p={"B": constant(p + 1)})
    values: Any = torch.ones(3, 2, requires_grad=True)
    ones = Labels(labels.index, {n: torch.ones_like(a) for n, a in agree.items()}, labels.sorts)
    full = replace(
        model, predicates={n: torch.ones_like(t).requires_grad_() for n, t in tables.items()}
    )
    facts = fact_loss(objective, ones, full, 0, 0.1)
    axioms = axiom_loss(objective, values, torch.ones(3), 0)
    found = losses(objective, facts, axioms, 0)
    assert found.total.item() == 0
    found.total.backward()
    assert values.grad.isfinite().all()
    assert all(t.grad.isfinite().all() for t in full.predicates.values())


@pytest.mark.parametrize("facts", ["satisfaction", "cross-entropy", "noise-aware"])
@pytest.mark.parametrize("degree", [0.0, 1e-20, 1.0])
def test_slopes_are_finite_where_all_is_wrong(facts, degree):
    objective = PAPER if facts == "satisfaction" else Objective(facts=facts, together="sum")
    index = torch.tensor([[0], [0], [0]])
    labels = Labels({"A": index}, {"A": torch.tensor([1.0 - round(degree)])}, {"A": ("s",)})
    table: Any = torch.full((1, 1, 1), degree).requires_grad_()
    model = Tables({"s": 1}, torch.tensor([1]), 1, {"A": table})
    found = fact_loss(objective, labels, model, 0, 0.1)
    found.backward()
    assert found.isfinite()
    assert table.grad.isfinite().all()


def test_a_confidently_wrong_network_is_still_pushed():
    """The slope of the cross-entropy with respect to a logit of -40 is that of one label."""
    logit: Any = torch.tensor([[[-40.0]]], requires_grad=True)
    labels = Labels({"A": torch.zeros(3, 1).long()}, {"A": torch.ones(1)}, {"A": ("s",)})
    model = Tables({"s": 1}, torch.tensor([1]), 1, {"A": torch.sigmoid(logit)})
    objective = Objective(facts="cross-entropy", together="sum")
    fact_loss(objective, labels, model, 0, 0.1).backward()
    assert logit.grad.item() == pytest.approx(-1)


def test_what_is_no_number_does_not_pass_for_satisfied():
    nan = torch.tensor([[0.5, math.nan]])
    assert mean_error(nan, torch.ones(1, 2), 4).isnan()
    labels = Labels({"A": torch.zeros(3, 1).long()}, {"A": torch.ones(1)}, {"A": ("s",)})
    model = Tables({"s": 1}, torch.tensor([1]), 1, {"A": torch.full((1, 1, 1), math.nan)})
    for objective in (
        PAPER,
        Objective(fact_p={"A": constant(2)}),
        Objective(facts="cross-entropy", together="sum"),
        Objective(facts="noise-aware", together="sum"),
    ):
        assert fact_loss(objective, labels, model, 0, 0.1).isnan()


def test_without_labels_the_loss_is_zero():
    model, labels = world()
    none = Labels({}, {})
    empty = labels.take({})
    for facts in ("satisfaction", "cross-entropy", "noise-aware"):
        objective = Objective(facts=facts, together="sum")
        assert fact_loss(objective, none, model, 0, 0.1).item() == 0
        assert fact_loss(objective, empty, model, 0, 0.1).item() == 0
    one = labels.take({"A": torch.ones(40, dtype=torch.bool)})
    whole = fact_loss(PAPER, one, model, 0, 0.1)
    assert whole.item() == fact_loss(PAPER, labels.only(["A"]), model, 0, 0.1).item()
    axioms = torch.tensor(0.5, dtype=torch.float64)
    zero = fact_loss(PAPER, none, model, 0, 0.1).float()
    assert losses(PAPER, zero, axioms, 0).total.item() == pytest.approx((0.5**4 / 2) ** 0.25)


def test_degrees_are_read_from_tables_of_facts_too():
    model, labels = world()
    table = model.predicates["A"]
    facts = sparse_table(torch.ones_like(table).nonzero().T, table.flatten(), table.shape)
    found = predicted(labels, replace(model, predicates={**model.predicates, "A": facts}))
    assert torch.equal(found["A"], predicted(labels, model)["A"])


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"facts": "cross-entropy"}, "together = 'sum'"),
        ({"axioms": "log"}, "together = 'sum'"),
        (
            {"facts": "likelihood"},
            "unknown loss 'likelihood' for facts; expected one of 'satisfaction'",
        ),
        ({"axioms": "logs"}, "unknown loss 'logs' for axioms"),
        ({"together": "product"}, "unknown loss 'product' for both together"),
        ({"facts": "noise-aware", "together": "sum", "flips": 0.5}, "above 0 and below 0.5"),
        ({"facts": "noise-aware", "together": "sum", "flips": 0.0}, "above 0 and below 0.5"),
        ({"learn_flips": True}, "only 'noise-aware' facts learn a rate of flips"),
        ({"p": constant(0.5)}, "at least 1, not 0.5"),
        ({"p": constant(math.inf)}, "finite"),
        ({"fact_p": {"A": constant(0)}}, "at least 1"),
        ({"weight": Schedule(((0.0, -1.0),))}, "weight .* at least 0, not -1"),
        ({"axiom_weights": {"A": constant(math.inf)}}, "finite"),
    ],
)
def test_objectives_that_make_no_sense(options, message):
    with pytest.raises(DataError, match=message):
        Objective(**options)


def test_an_objective_settles_when_its_last_schedule_does():
    assert Objective().settled == -math.inf
    moving = Schedule(((0.0, 1.0), (30.0, 2.0)))
    assert Objective(p=moving).settled == 30
    assert Objective(weight=moving, fact_p={"A": Schedule(((0.0, 1.0), (40.0, 2.0)))}).settled == 40
