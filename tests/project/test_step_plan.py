"""What `fotltn plan` says of a step is what a step takes."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from fotltn.learn.fit import fit
from fotltn.learn.ranks import Ranks
from fotltn.project.build import Built, build, build_from_disk
from fotltn.project.config import read_config
from fotltn.project.prepare import prepare
from fotltn.project.step_plan import step_plan
from tests.learn.processes import together
from tests.project.many_traces import TOML, many_traces

IN_MEMORY = TOML.replace('prepared = "blocks"\n', "")
AT_ONCE = IN_MEMORY.partition("[training.batches]")[0]


def built(folder, toml=AT_ONCE) -> Built:
    return build(read_config(many_traces(folder, toml=toml)))


def sent(ranks: Ranks, folder, blocks=7) -> list[int]:  # noqa: ARG001
    """The bytes that this process tells the others by tensors, in each step."""
    task = build(read_config(folder)).task
    steps, tell, tell_one = [0], dist.all_gather, dist.gather

    def counted(rows, numbers):
        steps[-1] += numbers.nbytes
        return tell(rows, numbers)

    def counted_to_one(numbers, rows, dst):
        steps[-1] += numbers.nbytes
        return tell_one(numbers, rows, dst)

    dist.all_gather, dist.gather = counted, counted_to_one  # type: ignore[assignment]
    task = replace(task, training=replace(task.training, blocks=blocks, epochs=3, patience=None))
    fit(task, on_epoch=lambda _: steps.append(0))
    return steps[:-1]


@pytest.mark.parametrize("processes", [2, 3])
def test_as_many_bytes_are_sent(tmp_path, processes):
    made = built(tmp_path / "p", AT_ONCE)
    training = replace(made.task.training, blocks=7)
    plan = step_plan(replace(made, task=replace(made.task, training=training)))
    assert (plan.blocks, plan.traces, plan.axioms, plan.predicates) == (7, 8, 3, 1)
    expected = plan.of(processes).sent
    assert together(processes, tmp_path / "meet", sent, tmp_path / "p") == [[expected] * 3] * (
        processes
    )


def test_about_as_many_bytes_are_sent_by_blocks_of_bindings(tmp_path):
    """But for flags, of one number each."""
    made = built(tmp_path / "p", AT_ONCE)
    training = replace(made.task.training, blocks=20)
    plan = step_plan(replace(made, task=replace(made.task, training=training)))
    cells = made.task.grounding().predicate("Failed").numel()
    assert (plan.blocks, plan.traces, plan.cells) == (20, 8, cells)
    assert "20 blocks of bindings, which processes share:" in [*plan.explain()]
    expected = plan.of(2).sent
    for steps in together(2, tmp_path / "meet", sent, tmp_path / "p", 20):
        assert steps == pytest.approx([expected] * 3, abs=64)


@pytest.mark.parametrize(
    "more",
    ["", '[inputs.pump.encoder]\nkind = "gru"\nwidth = 5\n', "[inputs.hall]\nembedding = 3\n"],
)
def test_a_step_keeps_as_much_as_it_says(tmp_path, more):
    """Traces differ here, and the longest counts for all."""
    made = built(tmp_path / "p", AT_ONCE.replace("[predicates]", f"{more}\n[predicates]"))
    plan, task, storages = step_plan(made), made.task, {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        tables = task.grounding()
        ends = task.axioms.values(tables), task.labels
    del ends
    assert 0.3 * plan.saved < sum(storages.values()) < 3 * plan.saved + plan.data


def test_weights_and_data_are_counted(tmp_path):
    made = built(tmp_path / "p")
    plan, weights = step_plan(made), [*made.task.grounding.parameters()]
    assert plan.learned == sum(w.numel() for w in weights)
    assert plan.weights == 5 * 4 * plan.learned  # slopes, two of Adam, the best; in float32
    features = made.task.grounding.inputs["pump"].values
    assert isinstance(features, torch.Tensor)
    labels = made.world.labels
    stated = sum(t.nbytes for d in (labels.index, labels.truth) for t in d.values())
    assert plan.data > 2 * features.nbytes + stated
    assert plan.labels == labels.total


def test_what_steps_and_blocks_there_are(tmp_path):
    plan = step_plan(built(tmp_path / "p", IN_MEMORY))
    assert (plan.traces, plan.steps, plan.blocks, plan.from_disk) == (3, 3, 3, 0)
    assert [one.processes for one in plan.table()] == [1, 2, 3]
    assert [one.blocks for one in plan.table()] == [3, 2, 1]
    assert [one.share for one in plan.table()] == pytest.approx([1, 2 / 3, 1 / 3])
    by_entities = IN_MEMORY.partition("[training.batches]")[0].replace('local = ["pump"]\n', "")
    by_entities += '[training.batches]\nby = "entities"\nsort = "pump"\nsize = 6\n'
    drawn = step_plan(built(tmp_path / "q", by_entities))
    assert (drawn.traces, drawn.steps) == (8, 4)
    assert (
        drawn.saved
        < step_plan(built(tmp_path / "r", AT_ONCE.replace('local = ["pump"]\n', ""))).saved
    )


def test_data_on_disk(tmp_path):
    config = read_config(many_traces(tmp_path / "p"))
    prepare(config, tmp_path / "p" / "blocks")
    plan = step_plan(build_from_disk(config), timed=True)
    assert (plan.traces, plan.steps, plan.from_disk) == (3, 3, 3)
    assert plan.seconds is not None
    assert plan.seconds > 0
    assert "data: from disk, 3 blocks, one in memory at a time" in [*plan.explain()]
    assert plan.data < step_plan(built(tmp_path / "q", IN_MEMORY)).data
