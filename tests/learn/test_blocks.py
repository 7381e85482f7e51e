"""Steps in blocks of traces: the same bits for any number of processes."""

import random
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.learn.blocks import PairwiseSum, tree_parts
from fotltn.learn.checkpoints import clear_checkpoints, latest_checkpoint
from fotltn.learn.fit import FitResult, fit
from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, Objective
from fotltn.learn.ranks import Ranks
from fotltn.learn.schedule import Schedule
from fotltn.networks.parts import Batches
from fotltn.networks.predicates import Logits, Network, mlp
from fotltn.semantics.config import GODEL, LOG_PRODUCT
from tests.learn import tasks
from tests.learn.processes import alone, start, together
from tests.patience import PATIENCE

TRACES, EPOCHS = 7, 2


def drawing():
    """A network that draws from PyTorch's own generator."""
    rng = torch.Generator().manual_seed(7)
    layers = [mlp(tasks.WIDTH, (6,), 6, generator=rng), nn.Dropout(0.5), mlp(6, (), generator=rng)]
    return Network(nn.Sequential(*layers))


def without_last_agent():
    """Labels that say nothing of one entity, and nothing at all in some traces."""
    known = tasks.labels(TRACES)
    return known.take({n: (i[1] < tasks.AGENTS - 1) & (i[0] > 2) for n, i in known.index.items()})


CASES: dict[str, dict[str, Any]] = {
    "paper": {"validation": 0.2},
    "recipe": {"objective": replace(RECIPE, learn_flips=True), "clip": 0.1},
    "drawn entities": {"batches": Batches("entities", 3, "agent"), "blocks": 3},
    "one block": {"blocks": 1},
    "more blocks than traces": {"blocks": 100},
    "parts of traces": {"batches": Batches("traces", 4), "blocks": 2},
    "an entity nowhere": {"known": without_last_agent()},
    "facts alone": {"objective": FACTS_ONLY, "known": without_last_agent()},
    "log": {"objective": Objective(axioms="log", facts="cross-entropy", together="sum"),
            "semantics": LOG_PRODUCT},
    "trust": {"objective": replace(RECIPE, trust=2.0)},
    "godel": {"semantics": GODEL},
    "exponents": {"objective": replace(PAPER, fact_p={"Stop": Schedule(((0.0, 2.0),))},
                                       fact_weights={"Run": Schedule(((0.0, 0.0),))})},
    "weight decay": {"options": {"weight_decay": 0.1}, "text": "sort agent\n" + "\n".join(
        line for line in tasks.THEORY.splitlines() if "predicate" in line)},
}  # fmt: skip


def task(name, blocks=5, networks=None):
    options = {"blocks": blocks, "epochs": EPOCHS, **CASES.get(name, {})}
    ground = tasks.grounding(TRACES, stop=networks)
    return tasks.task(TRACES, ground=ground, **options)


def trained(ranks: Ranks, names: tuple[str, ...], dtype=torch.float64) -> dict[str, Any]:  # noqa: ARG001
    """The losses, gradients of the last step and weights of each case."""
    outcomes = {}
    for name in names:
        made = task(name, networks=drawing() if name == "drawing" else None)
        made.grounding.to(dtype)
        outcome = fit(made)
        slopes = {n: p.grad for n, p in made.grounding.named_parameters() if p.grad is not None}
        outcomes[name] = (outcome, slopes, tasks.weights(made))
    return outcomes


def assert_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, (outcome, slopes, weights) in first.items():
        assert second[name][0] == outcome, name
        assert tasks.same(second[name][1], slopes), name
        assert tasks.same(second[name][2], weights), name


# --- one process ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_blocks_come_to_what_all_traces_at_once_do(name):
    """Up to rounding; parts of traces and drawn entities are the same parts."""
    blocked, plain = task(name), task(name)
    plain = replace(plain, training=replace(plain.training, blocks=None))
    first, second = fit(blocked), fit(plain)
    for one, other in zip(first.history, second.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-10)
        assert one.watched == pytest.approx(other.watched, rel=1e-10)
        assert one.values == pytest.approx(other.values, rel=1e-10)
    for key, weight in tasks.weights(plain).items():
        torch.testing.assert_close(tasks.weights(blocked)[key], weight, rtol=1e-7, atol=1e-9)
    if first.trust is not None:
        assert first.trust == pytest.approx(second.trust)


@pytest.mark.parametrize("blocks", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 20])
def test_a_tree_over_blocks_is_the_same_however_they_are_dealt(blocks, count):
    rng = torch.Generator().manual_seed(blocks)
    rows = torch.randn(blocks, 50, generator=rng) * 10 ** torch.randn(blocks, 1, generator=rng)
    whole, dealt = PairwiseSum(), PairwiseSum()
    for number in range(blocks):
        whole.add(number, 1, rows[number])
    seen = []
    for share in Ranks(0, count).shares(blocks):
        tree = PairwiseSum()
        for number in share:
            tree.add(number, 1, rows[number])
            seen.append(number)
        assert [part[:2] for part in tree.parts] == tree_parts(share)
        for part in tree.parts:
            dealt.add(*part)
    assert seen == list(range(blocks))
    assert torch.equal(whole.total(), dealt.total())
    torch.testing.assert_close(whole.total(), rows.sum(0))


def test_a_network_that_keeps_numbers_of_its_own_is_refused():
    with pytest.raises(DataError, match=r"norm\.\w+' changes with what a network sees"):
        fit(task("", networks=tasks.dropout()))


def test_a_network_that_draws_is_the_same_again():
    first, second = (fit(task("", networks=drawing())) for _ in range(2))
    assert first == second
    torch.rand(9)
    assert first == fit(task("", networks=drawing()))
    assert first != fit(task("", blocks=4, networks=drawing()))


def test_a_weight_that_nothing_reaches_has_no_slope():
    """So that an optimiser leaves it alone, as without blocks."""
    ground = tasks.grounding(TRACES, stop=Logits((TRACES, tasks.AGENTS, tasks.HORIZON)))
    known = tasks.labels(TRACES).only(["Run", "Car"])
    made = tasks.task(TRACES, ground=ground, known=known, objective=FACTS_ONLY, blocks=3, epochs=1)
    fit(made)
    reached = {n: p.grad is not None for n, p in made.grounding.named_parameters()}
    assert {n for n, yes in reached.items() if not yes} == {
        "networks.Stop.values",
        "networks.Stop.level",
    }


def test_a_number_of_blocks_that_makes_no_sense_is_refused():
    with pytest.raises(DataError, match="blocks must be a whole number of at least 1, not 0"):
        task("", blocks=0)


# --- several ----------------------------------------------------------------------------------

FEW = ("paper", "recipe", "an entity nowhere")


def test_several_processes_come_to_the_same_bits_as_one(tmp_path):
    """Three processes have five blocks: shares are uneven."""
    names = (*FEW, "drawing")
    expected = alone(trained, names)
    for outcome in together(3, tmp_path, trained, names):
        assert not isinstance(outcome, str), outcome
        assert_same(expected, outcome)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_any_number_of_processes_comes_to_the_same_bits(tmp_path, count):
    """Of one block, or two, most have nothing to do."""
    names = (*CASES, "drawing")
    expected = alone(trained, names)
    for outcome in together(count, tmp_path, trained, names):
        assert_same(expected, outcome)


@pytest.mark.slow
def test_single_precision_agrees(tmp_path):
    expected = alone(trained, FEW, torch.float32)
    for outcome in together(3, tmp_path, trained, FEW, torch.float32):
        for name, (_, _, weights) in outcome.items():
            for key, weight in weights.items():
                torch.testing.assert_close(weight, expected[name][2][key], rtol=0, atol=1e-6)


def other_tasks(ranks: Ranks) -> FitResult:
    return fit(tasks.task(TRACES, blocks=4, seed=0, epochs=2, rate=0.01 * (1 + ranks.number)))


@pytest.mark.slow
def test_processes_with_other_tasks_are_refused(tmp_path):
    said = together(2, tmp_path, other_tasks)
    assert all(
        "process 1 of 2 has another task than the first: training.rate: 0.01" in s for s in said
    )


# --- one of them is killed --------------------------------------------------------------------

KILLS, LONG = 20, 150


def long_task():
    return task("recipe", blocks=6, networks=drawing())


def resumed(ranks: Ranks, folder, epochs=LONG):
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / f"met-{ranks.number}").touch()
    made = long_task()
    made = replace(made, training=replace(made.training, epochs=epochs, patience=None))
    fit(made, checkpoints=folder, every=1)
    return tasks.weights(made)


def newest(folder):
    return max((path.name for path in folder.glob("step-*")), default="")


@pytest.mark.slow
def test_a_process_is_killed_at_random_moments_and_others_go_on_with_another_number(tmp_path):
    expected = alone(resumed, tmp_path / "alone" / "checkpoints")
    rng, folder = random.Random(0), tmp_path / "killed"
    steps: list[int] = []
    while len(steps) < KILLS:
        started = start(rng.randint(2, 4), tmp_path / "meet", resumed, folder)
        if len(steps) % 5:  # else perhaps before they have met
            before = newest(folder)
            while newest(folder) == before and all(one.is_alive() for one, _ in started):
                time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        met = [*tmp_path.glob("met-*")]
        victim, _ = rng.choice(started)
        victim.kill()
        for process, _ in started:
            process.join(PATIENCE if len(met) == len(started) else 1.0)
            if process.exitcode is None and len(met) < len(started):
                process.kill()  # as who starts them does: it waits for one that will not come
                process.join()
            assert process.exitcode is not None, "a process waits for one that was killed"
        for marker in tmp_path.glob("met-*"):
            marker.unlink()
        latest = latest_checkpoint(folder)
        assert latest.warnings == ()
        steps.append(0 if latest.checkpoint is None else latest.checkpoint.step)
        if steps[-1] == LONG:  # it was faster
            clear_checkpoints(folder)
    assert len(set(steps)) > 3
    assert any(steps)
    for weights in together(3, tmp_path / "meet", resumed, folder):
        assert tasks.same(weights, expected)
