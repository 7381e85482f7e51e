"""A step over few traces in blocks of bindings, which several processes share.

A block has some rows of each learned table, of all traces: the rows whose first argument is in a
range of entities. It also has the part of each axiom whose first variable is in such a range
(`fotltn.bindings`), and some labelled facts. A step has several stages. Blocks compute the rows of
networks, and all processes exchange rows, so each has the tables. From these, blocks compute the
rows of definitions, one definition after the other. Then blocks give numbers of axioms and errors
of facts, as blocks of traces do. The backward pass has the same stages in reverse: slopes by tables
are added over all blocks, and each block continues with the slopes of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import torch
from torch import Tensor

from fotltn.bindings import BlockedFormulas
from fotltn.grounding.labels import Labels
from fotltn.learn.blocks import SharedSlopes, TraceBlocks
from fotltn.learn.objective import losses, prior_loss
from fotltn.learn.row_exchange import BlockRows, RowExchange
from fotltn.networks.parts import DataPart
from fotltn.networks.rows import DefinitionRows, by_rows, definition_rows, shares_bindings
from fotltn.semantics.tables import Tables
from fotltn.sharing import ranges


@dataclass(slots=True, eq=False)
class _Made:
    """The tables of a step.

    Args:
        tables: all tables. Learned ones are leaves, whose gradients stop there.
        leaves: the learned tables.
        everywhere: tables that each process computes, with gradients.
        stages: the rows of the blocks of this process: first those of networks, then those of
            each definition.
    """

    tables: Tables
    leaves: dict[str, Tensor] = field(default_factory=dict)
    everywhere: dict[str, Tensor] = field(default_factory=dict)
    stages: list[dict[int, BlockRows]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _BlockSums:
    """The results of a block.

    Args:
        numbers: the numbers of axioms, shape (axiom, trace).
        counts: the counts of their bindings, of the same shape.
        errors: the sums of the errors of labelled facts, by predicate.
        stated: the counts of labelled facts, by predicate.
    """

    numbers: Tensor
    counts: Tensor
    errors: Tensor
    stated: list[int]

    def flat(self) -> Tensor:
        """Return all numbers in a row."""
        stated = torch.tensor(self.stated, dtype=torch.float64, device=self.errors.device)
        parts = (self.numbers.detach(), self.counts, self.errors.detach(), stated)
        return torch.cat([part.reshape(-1) for part in parts])


class BindingBlocks(TraceBlocks):
    """The forward and backward pass in blocks: of bindings if there are fewer traces than blocks.

    Args:
        task: the task.
        modules: all that is learned.
        flips: the rate of flipped labels.
        ranks: this process among others.
        common: PyTorch's own generators, from which networks draw.
    """

    _exchange: RowExchange
    _definitions: list[DefinitionRows]

    def forget(self) -> None:
        """Drop what was derived from the data, because the data have changed."""
        super().forget()
        self._exchange = RowExchange(self.ranks, self._count)
        self._definitions = definition_rows(self.task.grounding)

    def forth_and_back(
        self, labels: Labels, epoch: float, part: DataPart | None, total: int
    ) -> tuple[list[float], Tensor | None] | None:
        """The losses and the values of axioms, with gradients left in the weights."""
        if not self._has_few_traces(part):
            return super().forth_and_back(labels, epoch, part, total)
        objective = self.task.objective
        made = self._tables()
        blocked = self._blocked(epoch) if self._names else []
        sums = {
            number: self._sums_of(number, made, labels, epoch, blocked) for number in self._mine
        }
        numbers, counts, errors, stated = self._all_sums(sums, labels, blocked)
        numbers.requires_grad_()
        errors.requires_grad_()
        facts = self._facts_together(labels, errors, stated, epoch)
        prior = prior_loss(objective, self.task.grounding.parameters(), total)
        axioms = None
        if blocked:
            values = self._values(numbers, counts, made.tables, blocked)
            axioms = self.task.axioms.together(objective, values, epoch)
        step = losses(objective, facts, axioms, epoch, prior)
        if not step.total.requires_grad:
            return None
        sources = [numbers, errors, *self.learned]
        pulls = torch.autograd.grad(step.total, sources, allow_unused=True)
        self._way_back(made, sums, pulls[:2], pulls[2:])
        shown = values.detach() if blocked else None
        if shown is not None and self._logs:
            shown = shown.exp()
        return step.stacked().tolist(), shown

    @torch.no_grad()
    def fact_loss(self, labels: Labels, epoch: float) -> Tensor:
        """Return the loss of only the labelled facts."""
        if not self._has_few_traces(None):
            return super().fact_loss(labels, epoch)
        made = self._tables()
        sums = {number: self._sums_of(number, made, labels, epoch, []) for number in self._mine}
        _, _, errors, stated = self._all_sums(sums, labels, [])
        return self._facts_together(labels, errors, stated, epoch)

    # --- blocks -----------------------------------------------------------------------------------

    def _has_few_traces(self, part: DataPart | None) -> bool:
        return part is None and shares_bindings(self.task.grounding, self._count)

    @property
    def _count(self) -> int:
        return self.task.training.blocks or 1

    @property
    def _mine(self) -> range:
        """The blocks of this process."""
        return self.ranks.shares(self._count)[self.ranks.number]

    def _rows(self, name: str, number: int) -> range:
        """Return the rows of a table in a block; a table without rows is in the first block."""
        if name in self._undivided:
            return range(number == 0)
        grounding = self.task.grounding
        decl = grounding.signature.predicates.get(name) or grounding.signature.functions[name]
        return ranges(grounding.fixed.sizes[decl.sorts[0]], self._count)[number]

    @property
    def _undivided(self) -> set[str]:
        """Return the definitions that the first block computes as a whole."""
        return {one.name for one in self._definitions if one.formula is None}

    # --- tables -----------------------------------------------------------------------------------

    def _tables(self) -> _Made:
        """Compute all tables, each process some rows."""
        grounding = self.task.grounding
        made = _Made(grounding.fixed)
        seen = grounding.seen()
        calls = {call: by_rows(call, grounding) for call in grounding.calls}
        with self.drawing() as draw, self.unchanging():
            draw(self._count)
            made.everywhere = grounding.free_tables()
            for call in (call for call, apart in calls.items() if not apart):
                made.everywhere |= grounding.outputs(call, seen)
            everywhere = {n: (t, t.requires_grad) for n, t in made.everywhere.items()}
            of_networks: dict[int, BlockRows] = {}
            for number in self._mine:
                draw(number)
                of_networks[number] = {}
                for call in (call for call, apart in calls.items() if apart):
                    rows = self._rows(call.names[0], number)
                    if len(rows):
                        of_networks[number] |= grounding.outputs(call, seen, rows=rows)
        made.stages.append(of_networks)
        names = [name for call, apart in calls.items() if apart for name in call.names]
        self._put(made, {**everywhere, **self._from_rows(names, of_networks)})
        for one in self._definitions:
            rows_by_block = {n: self._rows_of(one, n, made.tables) for n in self._mine}
            made.stages.append(rows_by_block)
            self._put(made, self._from_rows([one.name], rows_by_block))
        return made

    def _put(self, made: _Made, tables: Mapping[str, tuple[Tensor, bool]]) -> None:
        """Add tables to those of a step, as leaves if they are learned."""
        functions = self.task.grounding.signature.functions
        leaves = {}
        for name, (table, learned) in tables.items():
            table = table.squeeze(1) if name in self._undivided else table
            leaves[name] = table.detach().requires_grad_(learned)
        made.leaves |= {n: t for n, t in leaves.items() if t.requires_grad}
        made.tables = replace(
            made.tables,
            # Computed tables come first: they determine the precision of all tables.
            predicates={
                **{n: t for n, t in leaves.items() if n not in functions}, **made.tables.predicates
            },
            functions={
                **made.tables.functions, **{n: t for n, t in leaves.items() if n in functions}
            },
        )  # fmt: skip

    def _from_rows(
        self, names: Sequence[str], mine: Mapping[int, BlockRows]
    ) -> dict[str, tuple[Tensor, bool]]:
        """Join the rows of all blocks to tables; also return which tables are learned."""
        sizes = {n: [len(self._rows(n, b)) for b in range(self._count)] for n in names}
        tables = self._exchange(sizes, mine, self.task.grounding.fixed.lengths.device)
        return {n: tables.get(n) or (self._without_entities(n), False) for n in names}

    def _without_entities(self, name: str) -> Tensor:
        """Return the table of a symbol over a sort without entities."""
        grounding = self.task.grounding
        decl = grounding.signature.predicates.get(name) or grounding.signature.functions[name]
        like = next(grounding.parameters())
        sizes = [grounding.fixed.sizes[sort] for sort in decl.sorts]
        return like.new_zeros(1, *sizes, 1)

    # --- definitions ------------------------------------------------------------------------------

    def _rows_of(self, one: DefinitionRows, number: int, tables: Tables) -> BlockRows:
        rows, grounding = self._rows(one.name, number), self.task.grounding
        if not len(rows):
            return {}
        return {one.name: one.of(rows, tables, grounding, grounding.fixed, number)}

    # --- results of blocks ------------------------------------------------------------------------

    def _blocked(self, epoch: float) -> list[BlockedFormulas]:
        return self.task.axioms.blocked(self._count, self.task.grounding.fixed, epoch)

    def _sums_of(
        self,
        number: int,
        made: _Made,
        labels: Labels,
        epoch: float,
        blocked: Sequence[BlockedFormulas],
    ) -> _BlockSums:
        rows = {n: ranges(len(t), self._count)[number] for n, t in labels.truth.items()}
        some = replace(
            labels,
            index={n: i[:, rows[n].start : rows[n].stop] for n, i in labels.index.items()},
            truth={n: t[rows[n].start : rows[n].stop] for n, t in labels.truth.items()},
        )
        errors, stated = self.errors(some, made.tables, epoch)
        nothing = errors.new_zeros(0, made.tables.batch)
        of_axioms = [one.of(number, made.tables) for one in blocked]
        return _BlockSums(
            torch.cat([nothing, *(numbers for numbers, _ in of_axioms)]),
            torch.cat([nothing, *(counts for _, counts in of_axioms)]),
            errors, stated,
        )  # fmt: skip

    def _all_sums(
        self, sums: Mapping[int, _BlockSums], labels: Labels, blocked: Sequence[BlockedFormulas]
    ) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """Return numbers and counts of axioms, and errors and counts of facts by predicate.

        Numbers and counts of axioms have shape (block, axiom, trace).
        """
        axioms, names = sum(len(one.formulas) for one in blocked), len(labels.index)
        fixed = self.task.grounding.fixed
        cells = axioms * fixed.batch
        width = 2 * (cells + names)
        nothing = torch.zeros(0, dtype=torch.float64, device=fixed.lengths.device)
        flat = torch.cat([nothing, *(one.flat() for one in sums.values())])
        lengths = [width * len(share) for share in self.ranks.shares(self._count)]
        every = torch.cat(self.ranks.gathered(flat, lengths)).reshape(self._count, width)
        numbers, counts, errors, stated = every.split([cells, cells, names, names], 1)
        shape = (self._count, axioms, fixed.batch)
        return (
            numbers.reshape(shape).clone(), counts.reshape(shape), errors.sum(0),
            [*map(int, stated.sum(0).tolist())],
        )  # fmt: skip

    def _values(
        self, numbers: Tensor, counts: Tensor, tables: Tables, blocked: Sequence[BlockedFormulas]
    ) -> Tensor:
        """The values of axioms in the order of the theory, shape (axiom, trace)."""
        sizes = [len(one.formulas) for one in blocked]
        parts = zip(blocked, numbers.split(sizes, 1), counts.split(sizes, 1), strict=True)
        rows = chain(*(one.together(of_one, counted, tables) for one, of_one, counted in parts))
        by_name = dict(zip(chain(*(one.formulas for one in blocked)), rows, strict=True))
        values = torch.stack([by_name[name] for name in self._names])
        return values.exp() if self.task.axioms.semantics.log_space and not self._logs else values

    # --- and back ---------------------------------------------------------------------------------

    def _way_back(
        self,
        made: _Made,
        sums: Mapping[int, _BlockSums],
        pulls: Sequence[Tensor | None],
        direct: Sequence[Tensor | None],
    ) -> None:
        """Leave gradients in the weights.

        Args:
            made: the tables.
            sums: the results of the blocks of this process.
            pulls: the slopes of the loss by numbers of axioms and errors of facts, of all blocks.
            direct: its slopes by weights that no block uses.
        """
        of_networks = {id(weight) for weight in self.task.grounding.parameters()}
        others = [weight for weight in self.learned if id(weight) not in of_networks]
        slopes = self._slopes(self._ordered(made.leaves, made), others)
        for number, of_block in sums.items():
            pull = None if pulls[0] is None else pulls[0][number]
            slopes.add(number, [(of_block.numbers, pull), (of_block.errors, pulls[1])])
        every = slopes.total()
        by_leaf = dict(zip(self._ordered(made.leaves, made), every, strict=False))
        by_weight = {id(w): slope for w, slope in zip(others, every[len(by_leaf) :], strict=True)}
        of_networks_rows, *of_definitions = made.stages
        for one, rows in reversed([*zip(self._definitions, of_definitions, strict=True)]):
            inputs = self._ordered([n for n in made.leaves if n in one.inputs], made)
            if by_leaf.get(one.name) is not None and inputs:
                further = self._further(rows, by_leaf, self._slopes(inputs))
                for name, slope in zip(inputs, further, strict=True):
                    by_leaf[name] = _plus(by_leaf[name], slope)
        self.leave(
            self._further(of_networks_rows, by_leaf, self._slopes({}, self.learned)),
            self._of_everywhere(made, by_leaf),
            [by_weight.get(id(weight)) for weight in self.learned],
            direct,
        )

    def _ordered(self, names: Iterable[str], made: _Made) -> dict[str, tuple[Tensor, bool]]:
        """Return the leaves, and whether a process needs only its own rows; these come first."""
        every_row = {*made.everywhere, *self._undivided}
        leaves = {name: (made.leaves[name], name not in every_row) for name in names}
        return dict(sorted(leaves.items(), key=lambda item: not item[1][1]))

    def _slopes(
        self, leaves: Mapping[str, tuple[Tensor, bool]], others: Sequence[Tensor] = ()
    ) -> SharedSlopes:
        rows = [
            [self._rows_of_share(name, share) for share in self.ranks.shares(self._count)]
            for name, (_, by_rows) in leaves.items()
            if by_rows
        ]
        wanted = [*(leaf for leaf, _ in leaves.values()), *others]
        return SharedSlopes(wanted, self.ranks, self.ranks.shares(self._count), rows)

    def _rows_of_share(self, name: str, share: range) -> range:
        """The rows of a table that a process has."""
        if not share:
            return range(0)
        return range(self._rows(name, share[0]).start, self._rows(name, share[-1]).stop)

    def _further(
        self,
        rows: Mapping[int, BlockRows],
        by_table: Mapping[str, Tensor | None],
        slopes: SharedSlopes,
    ) -> list[Tensor | None]:
        """Return the slopes by the inputs of rows, given the slopes by their tables."""
        for number, of_block in rows.items():
            pairs = [(some, self._of_rows(n, number, by_table)) for n, some in of_block.items()]
            slopes.add(number, pairs, again=True)
        return slopes.total()

    def _of_rows(
        self, name: str, number: int, by_table: Mapping[str, Tensor | None]
    ) -> Tensor | None:
        """The slope by the rows of a block."""
        slope = by_table.get(name)
        if slope is None:
            return None
        if name in self._undivided:
            return slope.unsqueeze(1)
        rows, first = self._rows(name, number), 0
        if self.ranks.count > 1:  # this process has the slopes of its rows
            first = self._rows(name, self._mine[0]).start
        return slope.narrow(1, rows.start - first, len(rows))

    def _of_everywhere(
        self, made: _Made, by_leaf: Mapping[str, Tensor | None]
    ) -> Sequence[Tensor | None]:
        """The slopes by weights of the tables that each process computes."""
        pairs = [
            (table, slope.to(table.dtype))
            for name, table in made.everywhere.items()
            if (slope := by_leaf.get(name)) is not None and table.requires_grad
        ]
        if not pairs:
            return [None] * len(self.learned)
        outputs, pulls = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, self.learned, pulls, allow_unused=True)


def _plus(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
