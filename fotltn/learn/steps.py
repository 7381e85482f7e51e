"""The steps of an epoch: all data at once, in parts, or block by block from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.learn.satisfaction import Axioms
from fotltn.networks.grounding import Grounding, LaidData
from fotltn.networks.parts import Batches, DataPart, parts


@dataclass(frozen=True, slots=True, eq=False)
class StreamedBlock:
    """Some traces from disk: the data for networks, and the labels to learn from and to watch."""

    data: LaidData
    labels: Labels
    watched: Labels | None


class DataStream(Protocol):
    """Blocks of traces on disk."""

    @property
    def count(self) -> int:
        """The number of blocks."""

    @property
    def total(self) -> int:
        """The number of labelled facts to learn from, in all blocks."""

    @property
    def watches(self) -> bool:
        """Whether some labelled facts are watched."""

    def read(self, number: int) -> StreamedBlock:
        """Read a block."""


class EpochStep(NamedTuple):
    """A part of the data, None for all current data, and the labels of all current data."""

    part: DataPart | None
    labels: Labels


class Steps:
    """Goes through the data, and keeps track of its position.

    Args:
        grounding: the networks; with a stream, they run on one block after another.
        batches: how to split the data.
        labels: the labels to learn from, for all data in memory.
        stream: data on disk.
        generator: draws the order.
        on_laid: called when networks switch to other data.
    """

    def __init__(
        self,
        grounding: Grounding,
        batches: Batches | None,
        labels: Labels,
        stream: DataStream | None,
        generator: torch.Generator,
        on_laid: Callable[[], None] = lambda: None,
    ) -> None:
        """Start before the first step."""
        self.grounding, self.batches, self.labels = grounding, batches, labels
        self.stream, self.generator, self.on_laid = stream, generator, on_laid
        self.first = None if stream is None else grounding.laid()
        self.order: list[int] = []  # the blocks of the epoch
        self.done = 0  # the number of finished blocks
        self._parts: dict[int, DataPart] = {}
        self._part_labels: dict[int, Labels] = {}
        self._largest: dict[int | None, int] = {}

    @property
    def total(self) -> int:
        """The number of labelled facts to learn from."""
        return self.labels.total if self.stream is None else self.stream.total

    def number(self, epochs: int) -> int:
        """Return a number for the position after some epochs, and some blocks of the next one."""
        return epochs if self.stream is None else epochs * self.stream.count + self.done

    def of_epoch(self) -> Iterator[EpochStep | None]:
        """Yield the remaining steps of an epoch; None between blocks from disk."""
        if self.stream is None:
            yield from self._of(self.labels)
            return
        if not self.order:
            self.order = torch.randperm(self.stream.count, generator=self.generator).tolist()
        for block in self._read(self.order[self.done :]):
            self._lay(block.data)
            self._parts, self._part_labels, self._largest = {}, {}, {}
            yield from self._of(block.labels)
            self.done += 1
            if self.done < len(self.order):
                yield None
        self.order, self.done = [], 0

    def _read(self, numbers: Iterable[int]) -> Iterator[StreamedBlock]:
        """Blocks from disk, each of which is read while the one before is learned from."""
        assert self.stream is not None
        with ThreadPoolExecutor(1) as reader:
            begun = (reader.submit(self.stream.read, number) for number in numbers)
            coming = next(begun, None)
            while coming is not None:
                block = coming.result()
                coming = next(begun, None)
                yield block

    def watched(self) -> Iterator[Labels]:
        """Yield the labels to watch of each block, with networks running on that block."""
        assert self.stream is not None
        for block in self._read(range(self.stream.count)):
            if block.watched is not None and block.watched.total:
                self._lay(block.data)
                yield block.watched

    def go_home(self) -> None:
        """Switch networks back to their first data."""
        if self.first is not None:
            self._lay(self.first)

    def _lay(self, data: LaidData) -> None:
        self.grounding.put_over(data)
        self.on_laid()

    def _of(self, labels: Labels) -> Iterator[EpochStep]:
        fixed, signature = self.grounding.fixed, self.grounding.signature
        batches, again = self.batches, self.stream is None
        if not again and batches is not None and fixed.batch <= batches.size:
            batches = None  # a block is one step
        for part in parts(batches, fixed, signature, self._parts, self.generator, again=again):
            yield EpochStep(part, labels)

    def labels_of(self, step: EpochStep) -> Labels:
        """Return the labels of a step, with the numbers of its part."""
        part, labels = step
        if part is None:
            return labels
        if part.key is None:
            return part.labels(labels)
        if part.key not in self._part_labels:
            self._part_labels[part.key] = part.labels(labels)
        return self._part_labels[part.key]

    def largest(self, part: DataPart | None, axioms: Axioms) -> int:
        """Return the size of a step on a part of the data: that of its largest table."""
        if part is not None and part.key is None:  # it is used once, and would be planned twice
            return self.grounding.largest(part)
        key = None if part is None else part.key
        if key not in self._largest:
            planned = axioms.largest(self.grounding.placeholders(part)) if axioms.names else 0
            self._largest[key] = max(self.grounding.largest(part), planned)
        return self._largest[key]

    # --- saving and resuming ------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Return the position in an epoch."""
        order = torch.tensor(self.order, dtype=torch.int64)
        return {"order": order, "done": torch.tensor(self.done)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Resume at a position."""
        if state:
            self.order, self.done = state["order"].tolist(), int(state["done"])
