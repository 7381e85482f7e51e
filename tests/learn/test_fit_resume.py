"""Training that is interrupted, and goes on."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from fotltn import DataError
from fotltn.grounding.split import flip
from fotltn.learn import fit as training
from fotltn.learn.checkpoints import clear_checkpoints, latest_checkpoint
from fotltn.learn.fit import Epoch, _Fit, fit
from fotltn.learn.objective import FACTS_ONLY, Objective
from fotltn.learn.optimizer_state import flatten, unflatten
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Training
from fotltn.networks.parts import Batches
from fotltn.networks.predicates import Logits, Network, mlp
from fotltn.semantics.config import GODEL, STABLE_PRODUCT
from tests.learn import tasks
from tests.learn.test_fit import loss_of


def step(folder):
    """The number of epochs after which the latest checkpoint was written."""
    latest = latest_checkpoint(folder).checkpoint
    return None if latest is None else latest.step


SETTINGS: dict[str, Any] = {
    "plain": {},
    "watching": {"validation": 0.3, "patience": 8},
    "traces": {"batches": Batches("traces", 2), "traces": 5},
    "entities": {"batches": Batches("entities", 3, "agent"), "clip": 0.1},
    "flips": {"objective": Objective(facts="noise-aware", together="sum", learn_flips=True)},
    "moving": {"objective": Objective(p=Schedule(((0.0, 1.0), (6.0, 4.0))))},
    "dropout": {"dropout": True},
    "last": {"keep_best": False, "rate": 2.0},
}


def made(traces=1, dropout=False, **options):
    """The same task each time, with initial weights of its own."""
    ground = tasks.grounding(traces, stop=tasks.dropout() if dropout else None)
    return tasks.task(traces, ground=ground, epochs=9, **options)


@cache
def undisturbed(name):
    """How a run ends that is not stopped, and its weights."""
    task = made(**SETTINGS[name])
    return fit(task), tasks.weights(task)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("after", [1, 4, 8])
def test_a_run_that_is_stopped_and_goes_on_ends_as_if_it_were_not(name, after, tmp_path):
    expected, weights = undisturbed(name)
    told: list[Epoch] = []
    first = made(**SETTINGS[name])
    stopped = fit(first, checkpoints=tmp_path, every=100, stop=lambda: len(told) == after,
                  on_epoch=told.append)  # fmt: skip
    assert (stopped.finished, stopped.reason) == (False, "stopped")
    assert len(stopped.history) == after
    torch.rand(99)
    second = made(**SETTINGS[name])
    with torch.no_grad():
        for weight in second.grounding.parameters():
            weight.add_(1.0)
    told.clear()
    outcome = fit(second, checkpoints=tmp_path, on_epoch=told.append, on_resume=told.extend)
    assert tasks.same(tasks.weights(second), weights)
    assert outcome == expected
    assert tuple(told) == expected.history


def test_the_same_task_can_go_on_too(tmp_path):
    whole, halves = made(dropout=True), made(dropout=True)
    fit(whole)
    fit(halves, checkpoints=tmp_path, stop=lambda: True)
    assert not halves.grounding.training
    fit(halves, checkpoints=tmp_path)
    assert tasks.same(tasks.weights(halves), tasks.weights(whole))


def test_stopping_leaves_the_best_weights():
    task = tasks.task(epochs=50, rate=2.0)
    told: list[Epoch] = []
    outcome = fit(task, on_epoch=told.append, stop=lambda: len(told) == 20)
    assert len(outcome.history) == 20
    assert outcome.best_epoch < 20
    assert loss_of(task) == pytest.approx(min(e.loss for e in outcome.history), abs=1e-12)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_interrupted_run_can_be_finished(name, tmp_path):
    told: list[Epoch] = []
    first = made(**SETTINGS[name])
    stopped = fit(first, checkpoints=tmp_path, stop=lambda: len(told) == 4, on_epoch=told.append)
    second = made(**SETTINGS[name])
    ended = fit(second, checkpoints=tmp_path, finish=True, stop=lambda: pytest.fail("no epoch"))
    assert (ended.finished, ended.reason) == (True, "ended early after epoch 4 of 9")
    assert (ended.history, ended.best_epoch) == (stopped.history, stopped.best_epoch)
    assert tasks.same(tasks.weights(second), tasks.weights(first))
    assert fit(made(**SETTINGS[name]), checkpoints=tmp_path).history == undisturbed(name)[0].history


def test_without_an_epoch_there_is_nothing_to_finish(tmp_path):
    with pytest.raises(DataError, match="there is nothing to finish: no epoch is done"):
        fit(made(), checkpoints=tmp_path, finish=True)


def test_a_run_that_ended_is_not_trained_again(tmp_path):
    task = made()
    first = fit(task, checkpoints=tmp_path, every=100)
    assert step(tmp_path) == 9
    again = made(dropout=False)
    second = fit(again, checkpoints=tmp_path, stop=lambda: pytest.fail("there is no epoch left"))
    assert second == first
    assert tasks.same(tasks.weights(again), tasks.weights(task))
    clear_checkpoints(tmp_path)
    assert step(tmp_path) is None
    assert fit(made(), checkpoints=tmp_path) == first


@pytest.mark.parametrize(("share", "written"), [(0, [2, 4, 6, 7]), (1e9, [2, 7])])
def test_checkpoints_take_a_small_share_of_the_time(share, written, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "EVERY", 2)
    monkeypatch.setattr(training, "SHARE", share)
    steps = []
    write = training._Fit.save

    def save(run, folder):
        steps.append(run.progress.epoch)
        write(run, folder)

    monkeypatch.setattr(training._Fit, "save", save)
    fit(tasks.task(epochs=7), checkpoints=tmp_path)
    assert steps == written


def test_two_networks_that_share_weights_go_on(tmp_path):
    def shared():
        ground = tasks.grounding()
        run, stop = (ground._networks[n] for n in ("Run", "Stop"))
        run.module = stop.module
        return tasks.task(ground=ground, epochs=6)

    whole = shared()
    fit(whole)
    calls = iter([False, True])
    fit(shared(), checkpoints=tmp_path, stop=lambda: next(calls))
    again = shared()
    fit(again, checkpoints=tmp_path)
    assert tasks.same(tasks.weights(again), tasks.weights(whole))


OTHERS = {
    "rate": lambda: made(rate=0.01),
    "epochs": lambda: replace(made(), training=Training(epochs=10, rate=0.05)),
    "labels": lambda: made(known=tasks.labels(seed=8)),
    "a label": lambda: made(known=flip(tasks.labels(), 0.05, 3)[0]),
    "objective": lambda: made(objective=FACTS_ONLY),
    "semantics": lambda: made(semantics=GODEL),
    "axiom": lambda: made(text=tasks.THEORY.replace("Stop(x) | Run(x)", "Run(x) | Stop(x)")),
    "weight": lambda: made(text=tasks.THEORY.replace("weight 2", "weight 3")),
    "p": lambda: replace(
        made(), axioms=Axioms(tasks.theory(), STABLE_PRODUCT, {"A1": Schedule(((0.0, 2.0),))})
    ),
    "network": lambda: tasks.task(
        epochs=9, ground=tasks.grounding(stop=Network(mlp(tasks.WIDTH, (6,), activation="tanh")))
    ),
    "logits": lambda: tasks.task(epochs=9, ground=tasks.grounding(stop=Logits((1, 6, 8)))),
    "definition": lambda: tasks.task(
        epochs=9, ground=tasks.grounding(near="exists y. Close(y, x) & Car(y)")
    ),
    "watched": lambda: made(watched=tasks.labels(seed=8)),
    "data": lambda: tasks.task(epochs=9, ground=other_facts()),
    "precision": lambda: tasks.task(epochs=9, ground=tasks.grounding().float()),
}


def other_facts():
    ground = tasks.grounding()
    close: Any = ground.fixed.predicates["Close"]
    changed = replace(close, index=close.index.roll(1, 0))
    ground.fixed = replace(ground.fixed, predicates={"Close": changed})
    return ground


@pytest.mark.parametrize("name", OTHERS)
def test_checkpoints_of_another_task_are_refused(name, tmp_path):
    fit(made(), checkpoints=tmp_path, stop=lambda: True)
    other = OTHERS[name]()
    before = tasks.weights(other)
    with pytest.raises(DataError, match=r"^error: the checkpoints in .* belong to another task"):
        fit(other, checkpoints=tmp_path)
    assert tasks.same(before, tasks.weights(other))
    assert fit(made(), checkpoints=tmp_path).finished


def test_numbers_that_json_does_not_have_survive(tmp_path):
    task = made(objective=Objective(p=Schedule(((0.0, 1.0), (50.0, 4.0)))))
    run = _Fit(task)
    run.epoch()
    assert run.progress.best == math.inf  # the objective still changes
    values = dict.fromkeys(run.progress.history[0].values, -math.inf)
    run.progress.history.append(Epoch(2, math.nan, 0.1, None, values, math.inf, False))
    run.save(tmp_path)
    again = _Fit(task)
    again.resume(latest_checkpoint(tmp_path))
    assert repr(again.progress) == repr(run.progress)
    tensors, document = flatten({"a": math.nan})
    assert math.isnan(unflatten(document, tensors)["a"])


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
    whole = made()
    expected = fit(whole)
    fit(made(), checkpoints=tmp_path, every=2, stop=lambda: False)
    latest = latest_checkpoint(tmp_path).checkpoint
    assert latest is not None
    (latest.path / "weights.safetensors").write_bytes(b"")
    again = made()
    outcome = fit(again, checkpoints=tmp_path)
    assert outcome.warnings
    assert outcome.history == expected.history
    assert tasks.same(tasks.weights(again), tasks.weights(whole))
