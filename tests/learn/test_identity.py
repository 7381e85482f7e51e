"""Tasks that differ in anything that can change a weight are different tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from fotltn import DataError
from fotltn.learn.fit import fit
from fotltn.learn.identity import differences, identity
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Logits, Network, mlp
from tests.learn import tasks

pytestmark = pytest.mark.reliability

HARD = tasks.THEORY.replace("axiom A1", "hard axiom A1")
SHAPE = (1, tasks.AGENTS, tasks.HORIZON)


def with_stop(stop: Any) -> Any:
    return tasks.task(epochs=4, ground=tasks.grounding(stop=stop))


def with_agents(**options: Any) -> Any:
    ground = tasks.grounding()
    seen = Embeddings(1, tasks.AGENTS, tasks.HORIZON, tasks.WIDTH, **options)
    made = Grounding(
        ground.signature,
        ground.fixed,
        {**ground._networks, **ground.defined},
        inputs={"agent": seen},
    )
    return tasks.task(epochs=4, ground=made)


class Own(nn.Module):
    """A network of someone's own, which counts how often it was used."""

    table: torch.Tensor

    def __init__(self, slope: float = 1.0, table: float = 0.0, frozen: bool = False) -> None:
        super().__init__()
        self.inner = mlp(tasks.WIDTH, (3,))
        self.inner[0].requires_grad_(not frozen)
        self.slope, self.calls = slope, 0
        self.seen: torch.Tensor | None = None
        self.register_buffer("table", torch.full((2,), table), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen = x.detach()
        logits: torch.Tensor = self.inner(x) * self.slope + self.table.sum()
        return logits


def with_given(**changes: Any) -> Any:
    ground = tasks.grounding()
    ground.fixed = replace(ground.fixed, **changes)
    return tasks.task(epochs=4, ground=ground)


def close(**changes: Any) -> dict[str, Any]:
    table: Any = tasks.given().predicates["Close"]
    return {"predicates": {"Close": replace(table, **changes)}}


def with_presence(last: bool) -> Any:
    ground = tasks.grounding()
    there = torch.ones(SHAPE, dtype=torch.bool)
    there[..., -1] = last
    made = Grounding(
        ground.signature,
        ground.fixed,
        {**ground._networks, **ground.defined},
        inputs=ground.inputs_by_sort,
        present={"agent": there},
    )
    return tasks.task(epochs=4, ground=made)


PAIRS: dict[str, tuple[Any, Any]] = {
    "scale of logits": (
        lambda: with_stop(Logits(SHAPE)), lambda: with_stop(Logits(SHAPE, scale=1)),
    ),
    "reach of logits": (
        lambda: with_stop(Logits(SHAPE, reach=2)), lambda: with_stop(Logits(SHAPE, reach=3)),
    ),
    "scale of embeddings": (lambda: with_agents(scale=1.0), lambda: with_agents(scale=2.0)),
    "reach of embeddings": (
        lambda: with_agents(time="smooth", reach=1.0),
        lambda: with_agents(time="smooth", reach=2.0),
    ),
    "a number of one's own network": (
        lambda: with_stop(Network(Own())), lambda: with_stop(Network(Own(slope=2.0))),
    ),
    "a buffer of one's own network": (
        lambda: with_stop(Network(Own())), lambda: with_stop(Network(Own(table=2.0))),
    ),
    "frozen weights": (
        lambda: with_stop(Network(Own())), lambda: with_stop(Network(Own(frozen=True))),
    ),
    "names of entities": (
        lambda: with_given(constants={"agent": {"ego": 0}}),
        lambda: with_given(constants={"agent": {"ego": 1}}),
    ),
    "the default of facts": (lambda: with_given(), lambda: with_given(**close(default=0.5))),
    "a hard axiom": (lambda: tasks.task(epochs=4), lambda: tasks.task(text=HARD, epochs=4)),
    "presence": (lambda: with_presence(True), lambda: with_presence(False)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_training_does_not_go_on_with_another_task(name, tmp_path):
    first, second = PAIRS[name]
    fit(first(), checkpoints=tmp_path, stop=lambda: True)
    other = second()
    before = tasks.weights(other)
    with pytest.raises(DataError, match="belong to another task or other settings"):
        fit(other, checkpoints=tmp_path)
    assert tasks.same(before, tasks.weights(other))
    assert fit(first(), checkpoints=tmp_path).finished


@pytest.mark.parametrize("again", [True, False], ids=["the same object", "made anew"])
def test_what_a_network_counts_for_itself_is_no_setting(tmp_path, again):
    task = with_stop(Network(Own()))
    fit(task, checkpoints=tmp_path, stop=lambda: True)
    other = task if again else with_stop(Network(Own()))
    assert fit(other, checkpoints=tmp_path).finished


def test_an_identity_is_plain_and_the_same_each_time():
    first, second = identity(with_stop(Network(Own()))), identity(with_stop(Network(Own())))
    assert first == second
    derived = with_stop(Network(Own()))
    derived.grounding.fixed.derived("anything", lambda: {"b", "a"})
    assert identity(derived) == first
    assert all(len(str(value)) <= 200 for value in first.values())


def test_checkpoints_that_name_their_task_in_another_way(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("fotltn.learn.fit._LAYOUT", 1)
        fit(tasks.task(), checkpoints=tmp_path, stop=lambda: True)
    with pytest.raises(DataError, match="written by another version of fotltn; finish with that"):
        fit(tasks.task(), checkpoints=tmp_path)
    assert any(tmp_path.glob("step-*"))


def test_what_was_read_is_not_read_again_until_it_changes(monkeypatch):
    from fotltn.learn import identity as module

    task = tasks.task(epochs=4, ground=tasks.grounding(stop=Network(Own())))
    digests = module.Digests()
    first = identity(task, digests)
    assert first == identity(task)
    tensors = []
    plain = module._digest

    def counted(value):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        return plain(value)

    monkeypatch.setattr(module, "_digest", counted)
    assert identity(task, digests) == first
    assert tensors == []
    task.grounding.fixed.lengths.add_(1)
    changed = identity(task, digests)
    assert changed != first
    assert len(tensors) == 1
    assert changed == identity(task)


def test_without_checkpoints_nothing_is_read(monkeypatch):
    from fotltn.learn import fit as module

    monkeypatch.setattr(module, "identity", lambda *_: pytest.fail("read"))
    fit(tasks.task(epochs=2))


def test_a_checkpoint_from_before_absence_meant_no_point_is_refused_by_name():
    """Nothing is asked of tasks in which nobody comes or goes."""
    plain = tasks.task(epochs=4)
    assert not [name for name in identity(plain) if "absent" in name or "stated" in name]
    ground = plain.grounding
    there = torch.ones(SHAPE, dtype=torch.bool)
    there[..., -1] = False
    ground.fixed = replace(ground.fixed, present={"agent": there})
    ours = identity(plain)
    theirs = {name: value for name, value in ours.items() if "absent entities" not in name}
    assert "absent entities: nothing there" in differences(theirs, ours)
