"""The recipe on the paper's scenes, in small."""

from dataclasses import replace

import pytest
import torch

from fotltn.learn.objective import RECIPE, axiom_loss, fact_loss, losses, prior_loss
from fotltn.learn.satisfaction import Axioms
from fotltn.semantics.config import WITNESS
from reproduction.paper.many import batch
from reproduction.paper.protocol import READING, Run
from reproduction.recipe.recipe import Ready, Recipe, likelihood, loss, run_recipe
from reproduction.report.records import record

SHORT = replace(Recipe(), epochs=25)
RUNS = [Run("CarPed35K", "Recipe", 0.1, r) for r in range(2)]


def test_few_steps_already_learn_and_decisions_obey():
    (found,) = run_recipe(RUNS[:1], SHORT)
    (free,) = run_recipe(RUNS[:1], replace(SHORT, defined=False))
    assert found["pr_auc"] > free["pr_auc"] + 0.1
    assert found["pr_auc"] > 0.9
    broken = {n for n, rate in found["violations"].items() if rate > 0}
    assert broken <= {"A2", "A8", "A13"}
    assert record(found).method == "Recipe"


def test_runs_do_not_depend_on_each_other():
    both = run_recipe(RUNS, SHORT)
    (alone,) = run_recipe(RUNS[1:], SHORT)
    assert both[1]["pr_auc"] == pytest.approx(alone["pr_auc"], abs=1e-4)
    assert both[0]["pr_auc"] != both[1]["pr_auc"]


def test_the_likelihood_of_wrong_labels():
    degrees, truth = torch.tensor([0.9, 0.2]), torch.tensor([1.0, 1.0])
    expected = -torch.log(torch.tensor([0.9 * 0.9 + 0.1 * 0.1, 0.9 * 0.2 + 0.1 * 0.8]))
    torch.testing.assert_close(likelihood(degrees, truth, 0.1), expected)


def test_held_back_facts_are_training_facts():
    (found,) = run_recipe(RUNS[:1], replace(SHORT, epochs=2), setting=replace(READING, holdout=0.2))
    assert found["setting"]["holdout"] == 0.2


def test_the_loss_is_that_of_the_preset():
    """What the batched runs minimise is what a project with the recipe's preset minimises."""
    run, recipe = RUNS[0], replace(Recipe(), epochs=1)
    work = batch([run], READING, "cpu")
    ready = Ready(recipe, work.world.theory, work.base, [run.seed]).to(work.dtype)
    with torch.no_grad():
        for number, parameter in enumerate(ready.parameters()):
            parameter.normal_(0.0, 1.0, generator=torch.Generator().manual_seed(number))
    own = loss(ready, work)
    own.sum().backward()
    slopes = [p.grad.clone() for p in ready.parameters() if p.grad is not None]
    ready.zero_grad()
    train = work.trains[0]
    model = ready.tables()
    values = Axioms(work.world.theory, WITNESS).values(model)
    objective = replace(RECIPE, flips=recipe.flips)
    whole = losses(
        objective,
        fact_loss(objective, train, model, 0, objective.flips),
        axiom_loss(objective, values, torch.ones(len(values)), 0),
        0,
        prior_loss(objective, ready.parameters(), train.total),
    )
    (train.total * whole.total).backward()
    assert own.item() == pytest.approx(train.total * whole.total.item(), rel=1e-4)
    expected = [p.grad for p in ready.parameters() if p.grad is not None]
    assert len(slopes) == len(expected) > 3
    for found, wanted in zip(slopes, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("more", [{"trust": 0.1}, {"extra": ("forall x. G !Crossing(x)",)}])
def test_trust_and_additional_axioms_change_what_is_learned(more):
    short = replace(Recipe(), epochs=5)
    (plain,) = run_recipe(RUNS[:1], short)
    (other,) = run_recipe(RUNS[:1], replace(short, extra_weight=5.0, **more))
    assert plain["pr_auc"] != other["pr_auc"]


def test_several_recipes_are_averaged():
    short = replace(Recipe(), epochs=5)
    (one,) = run_recipe(RUNS[:1], short)
    (same,) = run_recipe(RUNS[:1], short, short)
    (mixed,) = run_recipe(RUNS[:1], short, replace(short, reach=0.0))
    assert same["pr_auc"] == pytest.approx(one["pr_auc"], abs=1e-6)
    assert mixed["pr_auc"] != pytest.approx(one["pr_auc"], abs=1e-6)
