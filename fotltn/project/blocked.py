"""A model, or a project before training, over all blocks of prepared data, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from fotltn.analysis.blocked_view import BlockedView
from fotltn.analysis.metrics import Report
from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.grounding.clock import Clock
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.prepared import MANIFEST, read_prepared
from fotltn.logic.check import CheckedTheory
from fotltn.project.apply import other_features
from fotltn.project.build import completed, meaning, placed_networks
from fotltn.project.config import Config
from fotltn.project.disk import DiskWorlds, disk_worlds, laid_over
from fotltn.project.model import Model
from fotltn.project.scored import ScoredFacts, joined_facts, scored_facts
from fotltn.project.world import InMemory
from fotltn.semantics.tables import Tables
from fotltn.sharing import one_by_one, sharers


def is_prepared(path: Path) -> bool:
    """Return whether a folder holds prepared data."""
    return os.path.isfile(path / MANIFEST)


@dataclass(frozen=True, slots=True, eq=False)
class BlockedModel:
    """Networks, and the blocks of prepared data that they run on.

    Args:
        model: the networks, over the first block.
        worlds: the blocks.
        trained: whether the networks are trained; if not, questions are about the stated facts.
        tests: whether all labels are for testing, because the networks have not seen these data.
    """

    model: Model
    worlds: DiskWorlds
    trained: bool = True
    tests: bool = False

    @property
    def theory(self) -> CheckedTheory:
        """The theory."""
        return self.model.theory

    def over(self, number: int) -> Model:
        """Return the model over a block; a model over another block is no longer valid then."""
        world = self.worlds.world(number)
        world = world.unseen() if self.tests else world
        grounding = self.model.grounding
        grounding.put_over(laid_over(grounding, self.model.config, world))
        return replace(self.model, world=world, _tables=None)

    def view(self) -> BlockedView:
        """The theory over the predictions in all blocks; before training, over the stated facts."""
        model, prepared = self.model, self.worlds.prepared
        learned, stated = model.grounding.open, prepared.symbols()
        decisions = model.grounding.decisions(dict(model.thresholds)) if self.trained else None
        how = model.view(replace(model.grounding.fixed, decisions=decisions))

        def read(number: int) -> tuple[View, Tables]:
            one = self.over(number)
            return one.view(None if self.trained else one.truth), one.truth

        return BlockedView(
            how, prepared.traces, read, not self.trained or bool(stated & {*learned}), self._parts()
        )

    def _parts(self) -> dict[str, tuple[int, ...]]:
        """The traces for each part, numbered over all blocks, if a table assigns them."""
        parts: dict[str, tuple[int, ...]] = {}
        start = 0
        for count, of_block in zip(self.worlds.prepared.traces, self.worlds.parts, strict=True):
            for name, traces in of_block.items():
                parts[name] = (*parts.get(name, ()), *(start + trace for trace in traces))
            start += count
        return parts

    def predictions(
        self, predicates: Sequence[str] | None = None, *, decide: bool = False, wide: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the degrees of predicates as tables of facts, block by block, as for a model.

        Processes that share work compute one block each at a time, and all receive all results.
        """
        for start in range(0, self.worlds.count, sharers()):
            numbers = range(start, min(start + sharers(), self.worlds.count))

            def told(place: int, numbers: range = numbers) -> pa.Table:
                model = self.over(numbers[place])
                return model.predictions(predicates, decide=decide, named=True, wide=wide)

            yield from one_by_one(f"predictions of blocks from {start}", len(numbers), told)

    def metrics(self, threshold: float | None = None) -> Report | None:
        """Measure how good predictions of test facts are; None if there are no test facts."""

        def scored(number: int) -> ScoredFacts | None:
            model = self.over(number)
            labels = model.world.test
            if labels is None or not labels.total:
                return None
            return scored_facts(model.tables, labels, threshold)

        count = self.worlds.count
        parts = one_by_one(f"scores of {count} blocks", count, scored)
        told = [part for part in parts if part is not None]
        return joined_facts(told).report() if told else None


# --- making one -------------------------------------------------------------------------------


def facts_on_disk(theory: CheckedTheory, folder: Path, clock: Clock | None = None) -> BlockedView:
    """Load a theory over prepared facts, as stated.

    Raises:
        DataError: there are no prepared data, or they are about other symbols.
    """
    signature = theory.signature
    prepared = read_prepared(folder, signature)

    def read(number: int) -> tuple[View, Tables]:
        facts, features = prepared.read(number, signature, clock=clock)
        tables = tables_of_facts(facts, signature, sparse=True)
        tables = replace(tables, inputs=features, single=False)
        return View(tables, theory=theory), tables

    first, _ = read(0)
    return BlockedView(first, prepared.traces, read)


def project_on_disk(config: Config) -> BlockedModel:
    """Load a project before training, over its prepared data.

    Raises:
        FotError: there are no prepared data, or the project is wrong.
    """
    worlds = disk_worlds(config)
    first = worlds.world(0)
    config = completed(replace(worlds.config, method="gradient"), first)
    grounding = placed_networks(config, first)
    model = Model(config, first, grounding, meaning(config))
    return BlockedModel(model, worlds, trained=False)


def model_on_disk(model: Model, config: Config) -> BlockedModel:
    """Load a model over the prepared data of its project.

    Raises:
        FotError: there are no prepared data, or they were prepared with other settings.
    """
    both = replace(
        model.config, folder=config.folder, roots=config.roots, source=config.source,
        data=config.data,
    )  # fmt: skip
    worlds = disk_worlds(both, InMemory(model.world.source))
    _check_fit(model, worlds)
    return BlockedModel(model, worlds)


def model_over_blocks(model: Model, folder: Path) -> BlockedModel:
    """Load a model over other prepared data, in which all labels are for testing.

    Raises:
        FotError: the data do not fit the model.
    """
    plain = replace(model.config.data.undrawn(), prepared=str(folder))
    worlds = disk_worlds(
        replace(model.config, data=plain), InMemory(model.world.source), folder=folder
    )
    _check_fit(model, worlds)
    return BlockedModel(model, worlds, tests=True)


def _check_fit(model: Model, worlds: DiskWorlds) -> None:
    """Raise an error if shared entities or features differ from those of the networks."""
    prepared = worlds.prepared
    for sort, names in model.facts.entities.items():
        if prepared.entities.get(sort) != names:
            _refuse(f"the model knows other entities of '{sort}' than the prepared data have")
    if odd := other_features(model.world, prepared.features, "the prepared data"):
        _refuse(odd)


def _refuse(text: str) -> None:
    raise DataError(text, hint="train on these data; or use --data with the tables themselves")
