"""The cost of a training step, in one process and in each of several.

The formulas are those of docs/scale.md. To know how much a step stores for the backward pass, the
longest trace is evaluated; a step stores as much for each of its traces.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fotltn.format import count, duration, share, size
from fotltn.learn.blocks import BLOCKS, TraceBlocks, numbers_of_block, tree_parts
from fotltn.learn.fit import fit
from fotltn.learn.identity import Digests, leaves
from fotltn.learn.optimisers import make_optimiser, plain_step, without_compiler
from fotltn.learn.progress import Epoch
from fotltn.learn.ranks import ALONE
from fotltn.learn.steps import DataStream, StreamedBlock
from fotltn.learn.task import Task
from fotltn.networks.encoders import FeatureInputs
from fotltn.networks.parts import part, parts
from fotltn.networks.rows import shares_bindings
from fotltn.project.build import Built
from fotltn.semantics.tables import table_shape
from fotltn.sharing import ranges
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

_EXACT = 8  # bytes of a number that processes send each other
_FEW = 2  # blocks from disk that are timed


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """The most that one of several processes needs for a step.

    Args:
        processes: the number of processes.
        blocks: the number of blocks that it computes.
        share: its share of the time that a single process needs.
        memory: the bytes that it holds.
        sent: the bytes that it sends to the others.
    """

    processes: int
    blocks: int
    share: float
    memory: int
    sent: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The cost of a step.

    Args:
        traces: the number of traces in a step.
        steps: the number of steps in an epoch.
        blocks: the number of blocks that processes can share in a step.
        from_disk: the number of blocks on disk, one in memory at a time; 0 if all data are in
            memory.
        axioms: the number of axioms in the loss.
        predicates: the number of predicates with labels.
        labels: the number of labelled facts in memory.
        learned: the number of learned numbers.
        tensors: the number of tensors that hold them.
        data: the bytes of data in memory.
        weights: the bytes of learned numbers, gradients, optimiser state and best weights.
        saved: the bytes that a step stores for the backward pass.
        cells: the number of cells of learned tables, if blocks are of bindings; processes send
            their rows and gradients.
        width: the bytes of a cell.
        seconds: the time of a step, if it was measured.
    """

    traces: int
    steps: int
    blocks: int
    from_disk: int
    axioms: int
    predicates: int
    labels: int
    learned: int
    tensors: int
    data: int
    weights: int
    saved: int
    cells: int = 0
    width: int = _EXACT
    seconds: float | None = None

    @property
    def by_bindings(self) -> bool:
        """Whether blocks are of bindings, because there are fewer traces."""
        return self.cells > 0

    def of(self, processes: int) -> ProcessPlan:
        """Return the cost of the most loaded of several processes."""
        shares = ranges(self.blocks, processes)
        most = max(map(len, shares))
        memory = self.data + self.weights + self.saved * most // self.blocks
        if processes == 1:
            return ProcessPlan(1, most, 1.0, memory, 0)
        each, more = divmod(self.traces, self.blocks)
        traces = [each + (number < more) for number in range(self.blocks)]
        values = max(
            sum(numbers_of_block(self.axioms, traces[b], self.predicates) for b in blocks)
            for blocks in shares
        )
        if self.by_bindings:
            values = 2 * most * (self.axioms * self.traces + self.predicates)
        row = self.learned + self.tensors
        sums = max(len(tree_parts(blocks)) for blocks in shares)
        depth = math.ceil(math.log2(max(2, self.blocks)))
        # Slopes by weights come from all processes; those by tables, for the rows of a process.
        tree = _EXACT * (row * (depth + processes * sums) + self.cells * (depth + sums))
        sent = _EXACT * (values + (row + self.cells) * sums)
        sent += self.width * self.cells * most // self.blocks
        return ProcessPlan(processes, most, most / self.blocks, memory + tree, sent)

    def table(self) -> list[ProcessPlan]:
        """Return the costs for 1, 2, 4 and more processes, up to one per block."""
        numbers = {*(2**n for n in range(self.blocks.bit_length())), self.blocks}
        return [self.of(number) for number in sorted(numbers)]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {**asdict(self), "processes": [asdict(one) for one in self.table()]}

    def explain(self) -> Iterator[str]:
        """Return the plan as text."""
        yield (
            f"a step: {count(self.traces)} {'trace' if self.traces == 1 else 'traces'}; an epoch: "
            f"{count(self.steps)} {'step' if self.steps == 1 else 'steps'}"
        )
        if self.from_disk:
            yield f"data: from disk, {count(self.from_disk)} blocks, one in memory at a time"
        yield f"data in memory: {size(self.data)}, {count(self.labels)} labelled facts"
        weights = f"{size(self.weights)} with gradients and optimiser"
        yield f"learned: {count(self.learned)} numbers, {weights}"
        yield f"stored for the backward pass: {size(self.saved)}"
        if self.seconds is not None:
            yield f"a step takes about {duration(self.seconds)} on this machine, in one process"
        yield ""
        if self.blocks == 1:
            yield "processes: one; a step over a part of one trace is not shared"
            return
        what = "bindings" if self.by_bindings else "traces"
        yield f"{self.blocks} blocks of {what}, which processes share:"
        yield "processes  blocks each  time of a step  memory of each  sent by each"
        for one in self.table():
            time = share(one.share)
            if self.seconds is not None:
                time = duration(self.seconds * one.share)
            yield (
                f"{one.processes:>9}  {one.blocks:>11}  {time:>14}  {size(one.memory):>14}  "
                f"{size(one.sent):>12}"
            )


def step_plan(built: Built, *, timed: bool = False) -> StepPlan:
    """Return the cost of a training step of a project.

    Args:
        built: the project.
        timed: train for a few steps, and measure the time.
    """
    task = built.task
    training, fixed = task.training, task.grounding.fixed
    batches, batch, stream = training.batches, fixed.batch, task.stream
    traces, steps = batch, 1  # of one block, if the data are on disk
    if batches is not None and batches.sort is not None:
        steps = max(1, round(fixed.sizes[batches.sort] / batches.size))
    elif batches is not None:
        steps = -(-batch // batches.size)
        traces = -(-batch // steps)
    learned = [p for p in task.grounding.parameters() if p.requires_grad]
    numbers = sum(p.numel() for p in learned)
    held = sum(p.nbytes for p in learned)
    copies = 2 + _state_numbers(task) + training.keep_best
    axioms = () if task.objective.axioms == "none" else task.axioms.names
    blocks, cells = training.blocks or BLOCKS, 0
    at_once = batches is None or (stream is not None and batch <= batches.size)
    grounding = task.grounding
    if at_once and shares_bindings(grounding, blocks):
        declared: dict[str, PredicateDecl | FunctionDecl] = {}
        declared |= {**grounding.signature.predicates, **grounding.signature.functions}
        names = [*grounding.open, *(call.names[0] for call in grounding.calls if call.function)]
        cells = sum(math.prod(table_shape(fixed, declared[name])) for name in names)
    made = StepPlan(
        traces, steps * (1 if stream is None else stream.count),
        blocks if cells else min(traces, blocks), 0 if stream is None else stream.count,
        len(axioms), len(task.labels.index), task.labels.total, numbers, len(learned),
        _data_bytes(task), round(held * copies), _saved(task) * traces, cells,
        max((p.element_size() for p in learned), default=_EXACT),
    )  # fmt: skip
    return replace(made, seconds=_seconds(task) / steps) if timed else made


def _state_numbers(task: Task) -> float:
    """Return how many numbers the optimiser stores per learned number."""
    one = nn.Parameter(torch.zeros(64))
    one.grad = torch.zeros_like(one)
    training = task.training
    with without_compiler():
        optimiser = make_optimiser(training.optimiser, [one], training.rate, training.options)
        plain_step(optimiser)()
    held = [t for t in optimiser.state[one].values() if isinstance(t, Tensor)]
    return sum(t.numel() for t in held if t.dim()) / one.numel()


class _Bytes(Digests):
    """Counts the bytes of tensors, each tensor once."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, int] = {}

    def of(self, value: Tensor | np.ndarray[Any, Any]) -> str:
        """Count a tensor."""
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            self.storages[storage.data_ptr()] = storage.nbytes()
        return ""


def _data_bytes(task: Task) -> int:
    """Return the bytes of a task's data, with features as networks see them."""
    features = [m for m in task.grounding.modules() if isinstance(m, FeatureInputs)]
    return sum(_storages(task).values()) + sum(m.values.nbytes for m in features)


def _storages(task: Task) -> dict[int, int]:
    """Return the storages of a task's data, and their bytes."""
    counted = _Bytes()
    leaves(task, counted)
    return counted.storages


def _saved(task: Task) -> int:
    """Return the bytes that the longest trace stores for the backward pass."""
    grounding = task.grounding
    fixed, signature = grounding.fixed, grounding.signature
    generator = torch.Generator().manual_seed(0)
    step = next(parts(task.training.batches, fixed, signature, {}, generator, again=False))
    longest = fixed.lengths.argmax().reshape(1)
    entities = {} if step is None else step.entities
    one = part(fixed, signature, traces=longest, entities=entities, again=False)
    before = {*_storages(task), *(p.untyped_storage().data_ptr() for p in grounding.parameters())}
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in before:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    blocks = TraceBlocks(task, nn.ModuleDict(), lambda: task.objective.flips, ALONE, {})
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        ends = blocks.block(one, one.labels(task.labels), 0.0, axioms=True)
    del ends
    return sum(storages.values())


class _FewBlocks:
    """The first blocks of a stream."""

    def __init__(self, stream: DataStream) -> None:
        self.stream = stream
        self.count, self.total, self.watches = min(_FEW, stream.count), stream.total, False

    def read(self, number: int) -> StreamedBlock:
        """Read a block."""
        return self.stream.read(number)


def _seconds(task: Task) -> float:
    """Measure a pass over the data in memory: the shortest time, after one to warm up."""
    stream = None if task.stream is None else _FewBlocks(task.stream)
    training = replace(task.training, epochs=4, patience=None, validation=0.0, blocks=None)
    stamps = [time.perf_counter()]

    def note(_: Epoch) -> None:
        stamps.append(time.perf_counter())

    fit(replace(task, training=training, stream=stream, watched=None), on_epoch=note)
    epochs = [late - early for early, late in itertools.pairwise(stamps[1:])]
    return min(epochs) / (1 if stream is None else stream.count)
