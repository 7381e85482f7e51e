"""A project's prepared data: each block is a separate world, and one is in memory at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as parquet
import torch
from torch import Tensor

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.grounding.prepared import PreparedData, read_prepared
from fotltn.grounding.split import split
from fotltn.learn import folders
from fotltn.learn.locks import locked
from fotltn.learn.steps import StreamedBlock
from fotltn.learn.store import resolved
from fotltn.logic.check import CheckedTheory
from fotltn.networks.encoders import Centring
from fotltn.networks.grounding import Grounding, LaidData
from fotltn.project.config import Config
from fotltn.project.data_config import with_categories
from fotltn.project.prepare import prepared_with
from fotltn.project.seen import counted_rows, seen_of
from fotltn.project.world import NOTHING, InMemory, World, parts_of, read_theory, world_of
from fotltn.syntax.theory import Theory

#: The number of rows, over all blocks, from which quantiles of features are taken.
_SAMPLE = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class DiskWorlds:
    """The blocks of prepared data, each with the labels that the project's settings draw.

    Args:
        config: the project, with the categories in the data.
        source: its theory.
        theory: the checked theory.
        prepared: the folder.
        parts: for each block, its traces for each part, if a table assigns them.
    """

    config: Config
    source: Theory
    theory: CheckedTheory
    prepared: PreparedData
    parts: tuple[Mapping[str, tuple[int, ...]], ...]

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.prepared.traces)

    def world(self, number: int) -> World:
        """Return the world of a block.

        Raises:
            DataError: the block cannot be read, or does not fit the project.
        """
        config = self.config
        facts, features = self.prepared.read(
            number, self.theory.signature, dtype=getattr(torch, config.dtype),
            clock=config.data.timing,
        )  # fmt: skip
        plain = {sort: replace(of, categories={}) for sort, of in features.items()}
        return world_of(
            config, self.source, self.theory, facts, plain, self.parts[number], seed=number,
            warned=number > 0,
        )  # fmt: skip


def disk_worlds(config: Config, more: InMemory = NOTHING, folder: Path | None = None) -> DiskWorlds:
    """Open the prepared data of a project, or a folder prepared with other settings.

    Raises:
        FotError: there are no prepared data, they were prepared with other settings, or the project
            needs something that blocks cannot provide.
    """
    _refuse(config)
    source, theory = read_theory(config, more)
    prepared = read_prepared(_where(folder or config.prepared_path()), theory.signature)
    if folder is None and prepared.settings and prepared.settings != prepared_with(config, source):
        raise config.error(
            ("data", "prepared"),
            f"the data at '{prepared.folder}' were prepared with other declarations, or another "
            "[data]",
            "prepare them again with `fotltn prepare`",
        )
    shared = config.data.by == "entities" and config.data.train < 1
    if shared and config.data.sort not in prepared.room:
        raise config.error(
            ("data", "by"),
            "entities that all traces share would be drawn separately in each block",
            'set by = "traces", or [data.split]; or make the sort local',
        )
    config = replace(config, data=with_categories(config.data, prepared.features))
    return DiskWorlds(config, source, theory, prepared, _parts(config, prepared))


def _where(path: Path) -> Path:
    """Return the folder, or the copy left by a preparation that was killed while replacing it."""
    target = resolved(path)
    with locked(target.parent, exclusive=False):
        return next(iter(folders.present(target)), target)


def _refuse(config: Config) -> None:
    batches, training = config.training.batches, config.training
    if config.method == "posterior":
        raise config.error(
            ("method",), "worlds can be sampled only of data in memory", 'method = "gradient"'
        )
    if batches is not None and batches.by == "entities":
        text = "prepared data are cut by traces"
        raise config.error(("training", "batches", "by"), text, 'by = "traces"')
    if config.compile:
        text = "every block from disk would need its own compiled plan"
        raise config.error(("machine", "compile"), text, "compile = false")
    if training.thresholds != "half":
        text = "thresholds can be chosen only on facts in memory"
        raise config.error(("training", "thresholds"), text, 'thresholds = "half"')
    if config.objective.trust is not None:
        text = "trust in axioms can be learned only over all data at once"
        raise config.error(("objective", "trust"), text, "leave it out")


def _parts(config: Config, prepared: PreparedData) -> tuple[dict[str, tuple[int, ...]], ...]:
    """Return the traces for each part, by block."""
    if config.data.split is None:
        return tuple({} for _ in prepared.traces)
    names: list[str] = []
    for number in range(len(prepared.traces)):
        path = prepared.block(number) / "traces.parquet"
        names += parquet.read_table(path, columns=["name"]).column(0).to_pylist()
    starts = [sum(prepared.traces[:number]) for number in range(len(prepared.traces))]
    every = {part: set(traces) for part, traces in parts_of(config, names).items()}
    return tuple(
        {part: tuple(i for i in range(count) if start + i in of) for part, of in every.items()}
        for start, count in zip(starts, prepared.traces, strict=True)
    )


# --- for training -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class DiskStream:
    """The blocks for training, with networks built for the first block.

    Args:
        worlds: the blocks.
        config: the project, with the inputs of networks settled.
        grounding: the networks.
        total: the number of labelled facts to learn from.
        watches: whether some labelled facts are for validation.
    """

    worlds: DiskWorlds
    config: Config
    grounding: Grounding
    total: int
    watches: bool

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return self.worlds.count

    def read(self, number: int) -> StreamedBlock:
        """Read a block."""
        world = self.worlds.world(number)
        data = laid_over(self.grounding, self.config, world)
        labels, watched = watched_apart(self.config, world, number)
        return StreamedBlock(data, labels, watched)


def laid_over(grounding: Grounding, config: Config, world: World) -> LaidData:
    """Return a block as networks need it."""
    device = grounding.fixed.lengths.device
    inputs = grounding.inputs_by_sort
    seen = {sort: seen_of(sort, config.inputs[sort], world).to(device) for sort in inputs}
    return grounding.over(world.fixed, seen)


def watched_apart(config: Config, world: World, number: int) -> tuple[Labels, Labels | None]:
    """Return the labels of a block for learning and those for validation."""
    share = config.training.validation
    if world.watched is not None or share == 0:
        return world.labels, world.watched
    return split(world.labels, 1 - share, by="facts", seed=config.training.seed + number)


@dataclass(slots=True)
class _Moments:
    """For columns of numbers: the count, the mean, and the squared distances to the mean.

    Blocks are added one after another, so the result depends only on their order.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    rows: list[Tensor] = field(default_factory=list)

    def add(self, values: Tensor, sample: int) -> None:
        """Add rows without NaN, and keep some of them, evenly spaced."""
        if not len(values):
            return
        known = ~values.isnan()
        numbers = values.double().masked_fill(~known, 0.0)
        count = known.sum(0).double()
        mean = numbers.sum(0) / count.clamp(min=1)
        squares = (numbers - mean).masked_fill(~known, 0.0).square().sum(0)
        total = self.count + count
        apart = mean - self.mean
        share = count / total.clamp(min=1)
        self.squares = self.squares + squares + apart.square() * self.count * share
        self.mean = self.mean + apart * share
        self.count = total
        if sample:
            self.rows.append(values[:: max(1, len(values) // sample)].clone())

    def centring(self) -> Centring:
        """Return the mean and the spread; 0 and 1 for a column without numbers."""
        spread = (self.squares / self.count.clamp(min=1)).sqrt()
        spread = torch.where(self.count > 0, spread, torch.ones_like(spread))
        return Centring(self.mean, spread, torch.cat(self.rows) if self.rows else None)


def centred(worlds: DiskWorlds, config: Config, first: World) -> tuple[World, int, bool]:
    """Return the first world with the means and spreads of all blocks, and what is labelled.

    That is the number of labels to learn from, and whether there are labels to watch.
    """
    moments: dict[str, _Moments] = {}
    total, watches = 0, False
    for number in range(worlds.count):
        world = first if number == 0 else worlds.world(number)
        learned, watched = watched_apart(config, world, number)
        total += learned.total
        watches |= watched is not None and watched.total > 0
        for sort, how in config.inputs.items():
            seen = seen_of(sort, how, world)
            if seen.values is None:
                continue
            nothing = torch.zeros(seen.values.shape[-1], dtype=torch.float64)
            of_sort = moments.setdefault(sort, _Moments(nothing, nothing, nothing))
            sample = -(-_SAMPLE // worlds.count) if how.bins else 0
            of_sort.add(counted_rows(sort, world, seen), sample)
    if not total and not worlds.theory.axioms:
        raise DataError("no block has a labelled fact to learn from, and there are no axioms")
    centring = {sort: of.centring() for sort, of in moments.items()}
    return replace(first, centring=centring), total, watches
