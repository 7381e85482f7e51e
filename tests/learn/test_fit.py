"""The training loop: what it ends with, and what it does when interrupted."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.evaluation import axiom_values
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import flip
from fotltn.learn.fit import _Fit, fit
from fotltn.learn.objective import FACTS_ONLY, Flips, Objective, fact_loss
from fotltn.learn.optimisers import OPTIMISERS
from fotltn.learn.optimizer_state import seeded
from fotltn.learn.schedule import Schedule
from fotltn.learn.steps import EpochStep
from fotltn.networks.parts import Batches
from fotltn.networks.predicates import Network
from fotltn.semantics.config import GODEL, LOG_PRODUCT, STABLE_PRODUCT
from tests.learn import tasks

SUM = Objective(facts="cross-entropy", axioms="log", together="sum")


def loss_of(task, epoch=0):
    """The training loss of the weights as they are."""
    run = _Fit(task)
    run.modules.eval()
    with torch.no_grad():
        return float(run.losses(epoch, EpochStep(None, run.steps.labels))[0].total)


# --- learning --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "objective",
    [
        Objective(),
        FACTS_ONLY,
        SUM,
        Objective(facts="noise-aware", together="sum"),
        Objective(facts="noise-aware", together="sum", learn_flips=True),
    ],
)
def test_the_loss_falls_and_facts_are_learned(objective):
    task = tasks.task(objective=objective, epochs=60, patience=None)
    before = loss_of(task)
    outcome = fit(task)
    assert outcome.finished
    assert outcome.reason == "all epochs are done"
    assert [e.number for e in outcome.history] == list(range(1, 61))
    assert outcome.history[0].loss == pytest.approx(before, abs=1e-12)
    assert loss_of(task) < 0.8 * before
    first, last = outcome.history[0], outcome.history[-1]
    assert last.facts < first.facts
    assert (last.axioms is None) == (objective.axioms == "none")
    assert set(last.values) == (set() if objective is FACTS_ONLY else {"A1", "A2", "A3"})
    assert (outcome.flips is None) == (not objective.learn_flips)
    assert not task.grounding.training


def test_axioms_alone_are_learned_from():
    task = tasks.task(known=Labels({}, {}), epochs=40)
    outcome = fit(task)
    assert outcome.history[-1].loss < 0.7 * outcome.history[0].loss
    assert outcome.history[-1].facts == 0


def test_learning_under_a_semantics_in_log_space():
    task = tasks.task(semantics=LOG_PRODUCT, objective=SUM, epochs=30)
    outcome = fit(task)
    assert outcome.history[-1].loss < 0.7 * outcome.history[0].loss
    assert all(0 <= v <= 1 for e in outcome.history for v in e.values.values())


def test_a_learned_rate_of_flips_is_told():
    truth = tasks.labels(share=1.0)
    noisy, mask = flip(truth, 0.2, 0)
    objective = Objective(facts="noise-aware", together="sum", learn_flips=True, axioms="none")
    outcome = fit(tasks.task(known=noisy, objective=objective, epochs=5, patience=None))
    assert outcome.flips is not None
    assert 0 < outcome.flips < 0.5
    assert outcome.flips != Flips(0.1)().item()
    assert sum(int(m.sum()) for m in mask.values()) > 0


def test_training_is_reproducible_by_seed():
    options: Any = {"batches": Batches("entities", 3, "agent"), "validation": 0.2, "epochs": 5}
    found: list[tuple[Any, Any]] = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(found))
        task = tasks.task(ground=tasks.grounding(stop=tasks.dropout()), **{**options, "seed": 0})
        task = replace(task, training=replace(task.training, seed=seed))
        outcome = fit(task)
        found.append((tasks.weights(task), outcome.history))
    assert tasks.same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert not tasks.same(found[0][0], found[2][0])


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    fit(tasks.task(ground=tasks.grounding(stop=tasks.dropout())))
    assert torch.equal(torch.rand(3), expected)
    first = tasks.task(ground=tasks.grounding(stop=tasks.dropout()))
    second = tasks.task(ground=tasks.grounding(stop=tasks.dropout()))
    fit(first)
    fit(second, stop=lambda: bool(torch.rand(5).sum() < 0))
    assert tasks.same(tasks.weights(first), tasks.weights(second))


def test_seeded_gives_a_generator_and_puts_pytorchs_own_back():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with seeded(1) as first:
        one = (torch.rand(3, generator=first), torch.rand(3))
    with seeded(1) as second:
        two = (torch.rand(3, generator=second), torch.rand(3))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert torch.equal(torch.rand(2), expected)


# --- when it ends, and with what -------------------------------------------------------------


def test_it_stops_when_the_training_loss_does_not_fall():
    task = tasks.task(epochs=500, patience=3, rate=2.0)
    outcome = fit(task)
    assert outcome.reason == "no improvement for 3 epochs"
    assert len(outcome.history) == outcome.best_epoch + 3 < 500
    watched = [e.watched for e in outcome.history]
    assert watched == [e.loss for e in outcome.history]
    assert watched[outcome.best_epoch - 1] == min(watched)
    assert [e.number for e in outcome.history if e.best][-1] == outcome.best_epoch
    assert loss_of(task) == pytest.approx(min(watched), abs=1e-12)


@pytest.mark.parametrize("batches", [None, Batches("traces", 1), Batches("entities", 4, "agent")])
def test_it_stops_when_facts_held_back_are_not_predicted_better(batches):
    task = tasks.task(2, epochs=500, patience=4, rate=0.3, validation=0.3, batches=batches)
    outcome = fit(task)
    assert outcome.reason == "no improvement for 4 epochs"
    watched = [e.watched for e in outcome.history]
    assert watched[outcome.best_epoch - 1] == min(watched)
    held = task.split()[1]
    with torch.no_grad():
        again = fact_loss(task.objective, held, task.grounding(), 0, 0.1)
    assert float(again) == pytest.approx(min(watched), abs=1e-12)


def test_an_improvement_has_to_be_more_than_the_tolerance():
    outcome = fit(tasks.task(epochs=50, patience=5, tolerance=10.0))
    assert len(outcome.history) == 6
    assert outcome.best_epoch == 1


def test_the_last_weights_can_be_kept_instead():
    best, last = (tasks.task(epochs=30, rate=2.0, keep_best=keep) for keep in (True, False))
    outcome = fit(best)
    assert outcome.best_epoch < len(outcome.history)
    assert fit(last).history == outcome.history
    assert loss_of(best) == pytest.approx(min(e.loss for e in outcome.history), abs=1e-12)
    assert not tasks.same(tasks.weights(best), tasks.weights(last))


def test_epochs_are_not_compared_while_the_objective_changes():
    """With a rising p the error rises, though everything gets better."""
    rising = Objective(p=Schedule(((0.0, 1.0), (20.0, 6.0))))
    task = tasks.task(objective=rising, epochs=40, patience=3)
    outcome = fit(task)
    assert len(outcome.history) > 21
    assert all(e.best for e in outcome.history[:20])
    assert outcome.best_epoch > 20
    later = [e.loss for e in outcome.history[20:]]
    assert loss_of(task, 99) == pytest.approx(min(later), abs=1e-12)
    watching = tasks.task(objective=rising, epochs=40, patience=None, validation=0.2)
    found = fit(watching)
    assert sum(e.best for e in found.history) < 40
    with torch.no_grad():
        again = fact_loss(rising, watching.split()[1], watching.grounding(), 99, 0.1)
    assert float(again) == pytest.approx(min(e.watched for e in found.history), abs=1e-12)


def test_weights_go_where_one_step_of_gradient_descent_goes():
    task, copy = tasks.task(epochs=1, optimiser="sgd", rate=0.1, keep_best=False), tasks.task()
    fit(task)
    run = _Fit(copy)
    run.losses(0, EpochStep(None, run.steps.labels))[0].total.backward()
    pairs = zip(task.grounding.parameters(), copy.grounding.parameters(), strict=True)
    for own, other in pairs:
        assert torch.allclose(own, other - 0.1 * other.grad, atol=1e-12)


def test_gradients_are_clipped():
    task = tasks.task(epochs=1, optimiser="sgd", rate=1.0, clip=1e-3, keep_best=False)
    before = tasks.weights(task)
    fit(task)
    after = tasks.weights(task)
    norm = math.sqrt(sum(float(((after[n] - before[n]) ** 2).sum()) for n in before))
    assert norm == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_optimiser_takes_steps_and_goes_on(optimiser, tmp_path):
    whole = tasks.task(optimiser=optimiser, rate=0.01, epochs=4, keep_best=False)
    before = tasks.weights(whole)
    fit(whole)
    assert not tasks.same(before, tasks.weights(whole))
    halves = tasks.task(optimiser=optimiser, rate=0.01, epochs=4, keep_best=False)
    calls = iter([False, True])
    fit(halves, checkpoints=tmp_path, stop=lambda: next(calls))
    halves = tasks.task(optimiser=optimiser, rate=0.01, epochs=4, keep_best=False, seed=8)
    halves = replace(halves, training=whole.training)
    fit(halves, checkpoints=tmp_path)
    assert tasks.same(tasks.weights(halves), tasks.weights(whole))


def test_options_of_an_optimiser():
    fit(tasks.task(epochs=1, options={"weight_decay": 0.1}))
    with pytest.raises(DataError, match=r"the optimiser 'adam': .*betass"):
        fit(tasks.task(options={"betass": 1}))
    with pytest.raises(DataError, match="the optimiser 'sgd': Invalid momentum"):
        fit(tasks.task(optimiser="sgd", options={"momentum": -1.0}))


# --- parts -----------------------------------------------------------------------------------


def test_values_over_all_traces_are_those_of_an_audit():
    """With a rate of almost nothing, all steps of an epoch see the same weights."""
    for semantics in (STABLE_PRODUCT, GODEL):
        for batches in (None, Batches("traces", 1), Batches("traces", 2)):
            task = tasks.task(3, epochs=1, rate=1e-300, batches=batches, semantics=semantics)
            (epoch,) = fit(task).history
            theory = task.axioms.theory
            formulas = {a.name: a.formula for a in theory.axioms}
            with torch.no_grad():
                model = task.grounding()
                found = axiom_values(formulas, model, semantics)
            for name, value in found.items():
                assert epoch.values[name] == pytest.approx(float(value), abs=1e-9)


@pytest.mark.parametrize("batches", [Batches("traces", 2), Batches("entities", 3, "agent")])
def test_learning_by_parts(batches):
    task = tasks.task(5, batches=batches, epochs=25, patience=None)
    before = loss_of(task)
    outcome = fit(task)
    assert loss_of(task) < 0.9 * before
    assert all(set(e.values) == {"A1", "A2", "A3"} for e in outcome.history)


def test_parts_without_labels_are_passed_over():
    """Facts of one trace only, and no axioms: other traces have nothing to learn from."""
    index = torch.tensor([[1, 1], [0, 2], [3, 4]])
    known = Labels({"Stop": index}, {"Stop": torch.tensor([1.0, 0.0])}, {"Stop": ("agent",)})
    task = tasks.task(3, known=known, objective=FACTS_ONLY, batches=Batches("traces", 1), epochs=20)
    outcome = fit(task)
    assert outcome.history[-1].loss < 0.5 * outcome.history[0].loss
    rare = tasks.task(
        3, known=known, objective=FACTS_ONLY, batches=Batches("entities", 1, "agent"), epochs=500
    )
    with pytest.raises(DataError, match=r"no part of epoch \d+ has a labelled fact"):
        fit(rare)


# --- errors ----------------------------------------------------------------------------------


class Later(nn.Module):
    """Fine for some epochs, then no number."""

    def __init__(self, good, *, only_eval=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(tasks.WIDTH))
        self.calls, self.good, self.only_eval = 0, good, only_eval

    def forward(self, x):
        broken = self.calls >= self.good and not (self.only_eval and self.training)
        self.calls += not (self.only_eval and self.training)
        return x @ self.weight * (torch.nan if broken else 1.0)


@pytest.mark.parametrize("objective", [Objective(), FACTS_ONLY, SUM])
def test_what_is_no_number_is_an_error_that_names_the_epoch(objective):
    task = tasks.task(ground=tasks.grounding(stop=Network(Later(2))), objective=objective)
    with pytest.raises(DataError, match="the loss of epoch 3 is nan: a network returns"):
        fit(task)
    for name, weight in task.grounding.named_parameters():
        assert weight.isfinite().all(), name


def test_the_watched_loss_must_be_a_number_too():
    ground = tasks.grounding(stop=Network(Later(3, only_eval=True)))
    with pytest.raises(DataError, match="the loss of epoch 4 is nan"):
        fit(tasks.task(ground=ground, validation=0.2))


def test_there_must_be_something_to_change():
    ground = tasks.grounding()
    ground.requires_grad_(False)
    with pytest.raises(DataError, match="nothing can be learned"):
        fit(tasks.task(ground=ground))


def test_checkpoints_are_some_epochs_apart(tmp_path):
    with pytest.raises(DataError, match="at least one epoch"):
        fit(tasks.task(), checkpoints=tmp_path, every=0)
