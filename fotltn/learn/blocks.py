"""A step in blocks of traces, which any number of processes share, to the same bits.

The results of a block depend only on its traces: the values of axioms on each trace, and for each
predicate the sum of the errors of its labelled facts. All processes get these results, and compute
the same loss and slopes. Then each goes back through its own blocks, and gradients are added in
pairs along one tree over all blocks, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fotltn.errors import DataError
from fotltn.grounding.labels import Labels
from fotltn.learn.objective import fact_errors, facts_together, losses, prior_loss
from fotltn.learn.optimizer_state import generator_states, restore_generators
from fotltn.learn.ranks import Ranks
from fotltn.learn.task import Task
from fotltn.networks.parts import DataPart
from fotltn.networks.parts import part as part_of
from fotltn.semantics.tables import Tables

#: The number of blocks by default if several processes train.
BLOCKS = 16


class PairwiseSum:
    """A sum over consecutive blocks, in pairs along a tree that depends only on their numbers.

    A part of the tree begins at a multiple of its size, which is a power of 2. The sum of a range
    of blocks is kept as the largest such parts of it. To add the parts of all ranges, in order,
    takes the same additions as to add all blocks.
    """

    def __init__(self) -> None:
        """Nothing is added yet."""
        self.parts: list[tuple[int, int, Tensor]] = []

    def add(self, start: int, size: int, total: Tensor) -> None:
        """Add a part of the tree; a block is a part of size 1."""
        while self.parts and start // size % 2 and self.parts[-1][:2] == (start - size, size):
            start, _, left = self.parts.pop()
            size, total = 2 * size, left + total
        self.parts.append((start, size, total))

    def total(self) -> Tensor:
        """Return the sum, once all blocks are added."""
        *others, (_, _, total) = self.parts
        for _, _, left in reversed(others):
            total = left + total
        return total


def tree_parts(blocks: range) -> list[tuple[int, int]]:
    """Return the starts and sizes of the largest parts of the tree in a range of blocks.

    >>> tree_parts(range(5, 8))
    [(5, 1), (6, 2)]
    """
    tree, nothing = PairwiseSum(), torch.zeros(0)
    for number in blocks:
        tree.add(number, 1, nothing)
    return [(start, size) for start, size, _ in tree.parts]


class SharedSlopes:
    """Slopes by some tensors, added over all blocks along their tree, in float64.

    Args:
        wanted: the tensors.
        ranks: this process among others.
        shares: the blocks of each process.
        rows: for each of the first tensors, the rows that each process needs, along the second
            axis; all of the others.
    """

    def __init__(
        self,
        wanted: Sequence[Tensor],
        ranks: Ranks,
        shares: Sequence[range],
        rows: Sequence[Sequence[range]] = (),
    ) -> None:
        """Nothing is added yet."""
        self.wanted, self.ranks, self.shares, self.rows = wanted, ranks, shares, rows
        self.tree = PairwiseSum()
        self.device = wanted[0].device

    def add(
        self, number: int, pairs: Sequence[tuple[Tensor, Tensor | None]], *, again: bool = False
    ) -> None:
        """Add the slopes of a block: outputs, each with the slope of the loss by it.

        Blocks come in order. Set `again` if others share a part of the backward pass.
        """
        some = [(o, pull.to(o.dtype)) for o, pull in pairs if pull is not None and o.requires_grad]
        slopes: Sequence[Tensor | None] = [None] * len(self.wanted)
        if some:
            outputs, pulls = zip(*some, strict=True)
            slopes = torch.autograd.grad(
                outputs, self.wanted, pulls, retain_graph=again, allow_unused=True
            )
        self.tree.add(number, 1, self._flat(slopes))

    def total(self) -> list[Tensor | None]:
        """The slopes by each tensor, or its rows here; None if no block reaches it."""
        shapes = self._shapes(self.ranks.number)
        sizes = [math.prod(shape) for shape in shapes]
        *parts, reached = self._added().split([*sizes, len(self.wanted)])
        return [
            part.reshape(shape) if met else None
            for part, shape, met in zip(parts, shapes, reached.tolist(), strict=True)
        ]

    def _shapes(self, number: int) -> list[tuple[int, ...]]:
        """The shapes of the slopes that a process needs."""
        shapes = [tuple(one.shape) for one in self.wanted]
        if self.ranks.count > 1:
            for place, rows in enumerate(self.rows):
                shapes[place] = (shapes[place][0], len(rows[number]), *shapes[place][2:])
        return shapes

    def _for(self, number: int, flat: Tensor) -> Tensor:
        """Of all slopes in a row, those that a process needs."""
        *parts, reached = flat.split([*(o.numel() for o in self.wanted), len(self.wanted)])
        for place, rows in enumerate(self.rows):
            of_rows = parts[place].reshape(self.wanted[place].shape)
            some = of_rows.narrow(1, rows[number].start, len(rows[number]))
            parts[place] = some.reshape(-1)
        return torch.cat([*parts, reached])

    def _flat(self, slopes: Sequence[Tensor | None]) -> Tensor:
        """Return all slopes in a row, then, for each tensor, whether it has a slope."""
        parts = [
            torch.zeros(one.numel(), dtype=torch.float64, device=self.device)
            if slope is None
            else slope.reshape(-1).double()
            for one, slope in zip(self.wanted, slopes, strict=True)
        ]
        reached = [slope is not None for slope in slopes]
        return torch.cat([*parts, torch.tensor(reached, dtype=torch.float64, device=self.device)])

    def _added(self) -> Tensor:
        """The slopes of all blocks, along their tree."""
        if self.ranks.count == 1:
            return self.tree.total()
        nothing = torch.zeros(0, dtype=torch.float64, device=self.device)
        mine = [total for _, _, total in self.tree.parts]
        parts = [tree_parts(share) for share in self.shares]
        widths = [
            sum(map(math.prod, self._shapes(number))) + len(self.wanted)
            for number in range(self.ranks.count)
        ]
        width = widths[self.ranks.number]
        if self.rows:
            told = [
                torch.cat([nothing, *(self._for(n, one) for one in mine)])
                for n in range(len(widths))
            ]
            lengths = [[width * len(of_rank) for width in widths] for of_rank in parts]
            every = self.ranks.exchanged(told, lengths)
        else:
            flat = torch.cat([nothing, *mine])
            every = self.ranks.gathered(flat, [width * len(of_rank) for of_rank in parts])
        of_all = PairwiseSum()
        for of_rank, numbers in zip(parts, every, strict=True):
            for (start, size), total in zip(of_rank, numbers.split(width), strict=False):
                of_all.add(start, size, total)
        return of_all.total()


def numbers_of_block(axioms: int, traces: int, predicates: int) -> int:
    """Return how many numbers a block gives: values of axioms, errors and counts of facts."""
    return axioms * traces + 2 * predicates


@dataclass(frozen=True, slots=True, eq=False)
class CutPart:
    """A part of the data in blocks.

    Args:
        traces: the number of traces of each block.
        shares: the blocks of each process.
        parts: the data of the blocks of this process.
        labels: for each set of labels, by its id, the labels of each part.
    """

    traces: tuple[int, ...]
    shares: list[range]
    parts: list[DataPart]
    labels: dict[int, list[Labels]] = field(default_factory=dict)

    def of(self, labels: Labels) -> list[Labels]:
        """The labels of each block of this process."""
        if id(labels) not in self.labels:
            self.labels[id(labels)] = [part.labels(labels) for part in self.parts]
        return self.labels[id(labels)]


class TraceBlocks:
    """The forward and backward pass over the blocks of traces of this process.

    Args:
        task: the task.
        modules: all that is learned.
        flips: the rate of flipped labels.
        ranks: this process among others.
        common: PyTorch's own generators, from which networks draw.
    """

    def __init__(
        self,
        task: Task,
        modules: nn.Module,
        flips: Callable[[], Tensor | float],
        ranks: Ranks,
        common: Mapping[str, torch.Generator],
    ) -> None:
        """Nothing is cut yet."""
        self.task, self.modules, self.flips = task, modules, flips
        self.ranks, self.common = ranks, common
        self.learned = [p for p in modules.parameters() if p.requires_grad]
        self.forget()

    def forget(self) -> None:
        """Drop what was derived from the data, because the data have changed."""
        self.cuts: dict[int, CutPart] = {}

    def forth_and_back(
        self, labels: Labels, epoch: float, part: DataPart | None, total: int
    ) -> tuple[list[float], Tensor | None] | None:
        """The losses and the values of axioms, with gradients left in the weights.

        A prior counts as one of the `total` labelled facts. A part without anything to learn from
        leaves no gradients.
        """
        cut, objective = self._cut(part), self.task.objective
        sums = self._sums(cut, labels, epoch)
        values, errors, counts = self._gathered(cut, labels, sums)
        values.requires_grad_()
        errors.requires_grad_()
        facts = self._facts_together(labels, errors, counts, epoch)
        prior = prior_loss(objective, self.task.grounding.parameters(), total)
        axioms = self.task.axioms.together(objective, values, epoch) if len(values) else None
        step = losses(objective, facts, axioms, epoch, prior)
        if not step.total.requires_grad:
            return None
        sources = [values, errors, *self.learned]
        pulls = torch.autograd.grad(step.total, sources, allow_unused=True)
        self._go_back(cut, sums, pulls[:2], pulls[2:])
        shown = values.detach()
        shown = shown.exp() if self._logs else shown
        return step.stacked().tolist(), shown if len(values) else None

    @torch.no_grad()
    def fact_loss(self, labels: Labels, epoch: float) -> Tensor:
        """Return the loss of only the labelled facts."""
        cut = self._cut(None)
        sums = self._sums(cut, labels, epoch, axioms=False)
        _, errors, counts = self._gathered(cut, labels, sums, axioms=False)
        return self._facts_together(labels, errors, counts, epoch)

    @property
    def _logs(self) -> bool:
        return self.task.axioms.by_logs(self.task.objective)

    def _cut(self, part: DataPart | None) -> CutPart:
        """Return the blocks of a part, or of all data; those of a part that returns are kept."""
        key = 0 if part is None else part.key
        if key is not None and key in self.cuts:
            return self.cuts[key]
        grounding = self.task.grounding
        traces = None if part is None else part.traces
        if traces is None:
            fixed = grounding.fixed
            traces = torch.arange(fixed.batch, device=fixed.lengths.device)
        blocks = traces.tensor_split(min(len(traces), self.task.training.blocks or 1))
        shares = self.ranks.shares(len(blocks))
        entities = {} if part is None else part.entities
        parts = [
            part_of(
                grounding.fixed, grounding.signature, traces=blocks[number], entities=entities,
                again=key is not None,
            )
            for number in shares[self.ranks.number]
        ]  # fmt: skip
        cut = CutPart(tuple(map(len, blocks)), shares, parts)
        if key is not None:
            self.cuts[key] = cut
        return cut

    # --- there ------------------------------------------------------------------------------------

    def _sums(
        self, cut: CutPart, labels: Labels, epoch: float, *, axioms: bool = True
    ) -> list[tuple[Tensor, Tensor, list[int]]]:
        """Return for each block here: values of axioms, errors and counts of facts by predicate.

        Networks draw random numbers by step and block, whichever process has the block.
        """
        sums = []
        blocks = zip(cut.shares[self.ranks.number], cut.parts, cut.of(labels), strict=True)
        with self.drawing() as draw:
            for number, part, stated in blocks:
                draw(number)
                sums.append(self.block(part, stated, epoch, axioms=axioms))
        return sums

    @contextmanager
    def drawing(self) -> Iterator[Callable[[int], None]]:
        """Draw random numbers by step and block; the yielded function begins a block."""
        seed = int(torch.randint(2**62, (), device="cpu"))
        states = generator_states(self.common)

        def draw(number: int) -> None:
            for generator in self.common.values():
                generator.manual_seed(seed + number)

        try:
            yield draw
        finally:
            restore_generators(self.common, states)

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Refuse networks that keep statistics of their inputs.

        Raises:
            DataError: the statistics of a network have changed.
        """
        before = {name: buffer._version for name, buffer in self.modules.named_buffers()}
        yield
        for name, buffer in self.modules.named_buffers():
            if self.modules.training and before.get(name) != buffer._version:
                raise DataError(
                    f"'{name}' changes with what a network sees in training, and each block "
                    "would see other numbers",
                    hint="use layers that keep no such numbers (LayerNorm, not BatchNorm), or "
                    "train in one process, without blocks",
                )

    def block(
        self, part: DataPart, labels: Labels, epoch: float, *, axioms: bool
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Return for a block: values of axioms, and errors and counts of facts by predicate."""
        task = self.task
        with self.unchanging():
            tables = task.grounding(part)
        errors, counts = self.errors(labels, tables, epoch)
        if not axioms or not self._names:
            return errors.new_zeros(0, len(part.fixed.lengths)), errors, counts
        values = task.axioms.values(tables, epoch=epoch, key=part.key, log=self._logs)
        return values, errors, counts

    def errors(self, labels: Labels, tables: Tables, epoch: float) -> tuple[Tensor, list[int]]:
        """Return by predicate the sum of the errors of its labelled facts, and their number."""
        each = fact_errors(self.task.objective, labels, tables, epoch, self.flips())
        zero = torch.zeros((), dtype=torch.float64, device=tables.lengths.device)
        sums = [each[n].double().sum() if n in each else zero for n in labels.index]
        errors = torch.stack(sums) if sums else zero.new_zeros(0)
        counts = [len(each[n]) if n in each else 0 for n in labels.index]
        return errors, counts

    @property
    def _names(self) -> tuple[str, ...]:
        """The axioms that the loss has."""
        return () if self.task.objective.axioms == "none" else self.task.axioms.names

    def _gathered(
        self,
        cut: CutPart,
        labels: Labels,
        sums: Sequence[tuple[Tensor, Tensor, list[int]]],
        *,
        axioms: bool = True,
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Return for all blocks: values (axiom, trace), errors and counts of facts by predicate.

        Numbers of facts are summed as floats, exactly.
        """
        rows, names = len(self._names) if axioms else 0, len(labels.index)
        sizes = [numbers_of_block(rows, traces, names) for traces in cut.traces]
        device = self.task.grounding.fixed.lengths.device
        flat = [torch.zeros(0, dtype=torch.float64, device=device)]
        for values, errors, counts in sums:
            flat += [values.detach().double().reshape(-1), errors.detach()]
            flat.append(torch.tensor(counts, dtype=torch.float64, device=device))
        lengths = [sum(sizes[number] for number in share) for share in cut.shares]
        every = torch.cat(self.ranks.gathered(torch.cat(flat), lengths)).split(sizes)
        of_axioms = [
            one[: rows * traces].reshape(rows, traces)
            for one, traces in zip(every, cut.traces, strict=True)
        ]
        errors, counted = (
            torch.stack(
                [one[rows * traces :] for one, traces in zip(every, cut.traces, strict=True)]
            )
            .sum(0)
            .split([names, names])
        )
        return torch.cat(of_axioms, 1), errors.clone(), [*map(int, counted.tolist())]

    def _facts_together(
        self, labels: Labels, errors: Tensor, counts: Sequence[int], epoch: float
    ) -> Tensor:
        stated = {n: c for n, c in zip(labels.index, counts, strict=True) if c}
        places = {name: place for place, name in enumerate(labels.index)}
        means = {name: errors[places[name]] / count for name, count in stated.items()}
        loss = facts_together(self.task.objective, means, stated, epoch)
        return errors.new_zeros(()) if loss is None else loss

    # --- and back ---------------------------------------------------------------------------------

    def _go_back(
        self,
        cut: CutPart,
        sums: Sequence[tuple[Tensor, Tensor, list[int]]],
        pulls: Sequence[Tensor | None],
        direct: Sequence[Tensor | None],
    ) -> None:
        """Leave gradients in the weights.

        Args:
            cut: the blocks.
            sums: the results of the blocks of this process.
            pulls: the slopes of the loss by values of axioms and by errors of facts, of all blocks.
            direct: its slopes by weights that no block uses.
        """
        mine = cut.shares[self.ranks.number]
        slopes = SharedSlopes(self.learned, self.ranks, cut.shares)
        begins = [sum(cut.traces[:number]) for number in mine]
        for number, begin, (values, errors, _) in zip(mine, begins, sums, strict=True):
            of_block = None if pulls[0] is None else pulls[0][:, begin : begin + values.shape[1]]
            slopes.add(number, [(values, of_block), (errors, pulls[1])])
        self.leave(slopes.total(), direct)

    def leave(self, *parts: Sequence[Tensor | None]) -> None:
        """Leave gradients in the weights, each the sum of some parts."""
        for weight, *of_weight in zip(self.learned, *parts, strict=True):
            some = [part.double() for part in of_weight if part is not None]
            weight.grad = sum(some[1:], some[0]).to(weight.dtype) if some else None
