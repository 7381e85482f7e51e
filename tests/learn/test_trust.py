"""Trust in axioms: a factor of each weight, learned under a prior."""

import math
from dataclasses import replace

import pytest
import torch

from fotltn import DataError
from fotltn.learn.fit import fit
from fotltn.learn.objective import RECIPE, Objective, axiom_loss, doubted, factors
from fotltn.learn.task import Training
from tests.learn import tasks

LOG = Objective(facts="cross-entropy", axioms="log", together="sum")


@pytest.mark.parametrize("trust", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.7, 5.0])
def test_the_factor_is_the_best_one_under_the_prior(trust, missing):
    """The cost of a factor is written out, and all factors are tried."""
    factor = torch.linspace(-8, 1, 900_001, dtype=torch.float64).exp()
    cost = factor * missing + trust * (factor - 1 - factor.log())
    given = torch.tensor(missing, dtype=torch.float64)
    assert doubted(given, trust).item() == pytest.approx(cost.min().item(), abs=1e-8)
    assert factors(given, trust).item() == pytest.approx(factor[cost.argmin()].item(), abs=1e-4)


def test_the_slope_is_that_of_the_factor():
    missing = torch.tensor([0.1, 2.0], dtype=torch.float64, requires_grad=True)
    doubted(missing, 0.5).sum().backward()
    assert missing.grad is not None
    torch.testing.assert_close(missing.grad, factors(missing.detach(), 0.5))


def test_axioms_that_do_not_hold_count_less():
    values = torch.tensor([[0.99], [0.1]], dtype=torch.float64)
    weights = torch.ones(2, dtype=torch.float64)
    plain = axiom_loss(LOG, values, weights, 0)
    wary = axiom_loss(replace(LOG, trust=0.1), values, weights, 0)
    firm = axiom_loss(replace(LOG, trust=1e9), values, weights, 0)
    assert plain.item() == pytest.approx(-(math.log(0.99) + math.log(0.1)) / 2)
    assert wary < 0.25 * plain
    assert firm.item() == pytest.approx(plain.item(), rel=1e-6)


def test_training_says_how_far_axioms_are_trusted():
    task = replace(
        tasks.task(), objective=replace(LOG, trust=0.2), training=Training(epochs=3, seed=1)
    )
    found = fit(task).trust
    assert found is not None
    assert set(found) == set(task.axioms.names)
    values = task.axioms.values(task.grounding()).detach()
    expected = 0.2 / (0.2 - values.log().mean(-1))
    assert list(found.values()) == pytest.approx(expected.tolist(), rel=1e-4)
    assert fit(replace(tasks.task(), training=Training(epochs=2))).trust is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trust": 0.0}, "above 0"),
        ({"trust": math.inf}, "above 0"),
        ({"trust": 1.0, "axioms": "satisfaction"}, "'log'"),
    ],
)
def test_trust_that_makes_no_sense(wrong, message):
    with pytest.raises(DataError, match=message):
        replace(LOG, **wrong)


def test_the_recipe_trusts_fully():
    assert RECIPE.trust is None
