"""What labels and the past say: noise of labels, and a Markov prior of tracks. Both are learned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.logic import core as c
from fotltn.posterior.clauses import number_of
from fotltn.posterior.kinds import TrackKind
from fotltn.posterior.rows import at_index
from fotltn.tree import postorder

#: A probability is at least this, so that a logarithm is a number.
_LEAST = 1e-12

#: What is believed of noise before labels are seen, and how many labels that is worth.
_NOISE, _NOISE_WEIGHT = 0.1, 10.0

#: How many steps it is worth to believe that nothing changes, and that conditions do not matter.
_STEPS, _POOLED = 1.0, 8.0

#: So many predicates of a tuple follow each other as one.
TOGETHER = 4

#: The most conditions that a prior tells apart.
_MOST_CONDITIONS = 3

#: The most bits beside a relation whose last values a prior tells apart.
_MOST_BESIDE = 2

#: With more values of static bits, tracks that differ in these follow the same prior.
_MOST_STATIC = 8


class NoiseRates(NamedTuple):
    """How probable it is that a label is wrong: of a true fact, and of a false one."""

    missed: float
    invented: float


@dataclass(slots=True)
class LabelEvidence:
    """Labels, and how far they are to be trusted.

    Args:
        labels: the labels.
        rates: for each predicate how often they are wrong.
        learned: the predicates whose rates are learned.
        logits: what networks say of cells, as logarithms of odds, by predicate.
    """

    labels: Labels
    rates: dict[str, NoiseRates]
    learned: frozenset[str] = frozenset()
    logits: Mapping[str, Tensor] = field(default_factory=dict)

    def odds(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """The logarithms of the odds of all cells of a predicate."""
        table = torch.zeros(*shape, dtype=torch.float64, device=device)
        if name in self.labels.index and self.labels.truth[name].numel():
            index = tuple(self.labels.index[name].to(device))
            table.index_put_(index, self.by_label(name).to(device), accumulate=True)
        if name in self.logits:
            table = table + self.logits[name].to(table)
        return table

    def by_label(self, name: str) -> Tensor:
        """The logarithm of the odds that each label of a predicate gives."""
        degree = self.labels.truth[name].to(torch.float64)
        missed, invented = self.rates[name]
        if_true = degree * (1 - missed) + (1 - degree) * missed
        if_false = degree * invented + (1 - degree) * (1 - invented)
        return if_true.clamp_min(_LEAST).log() - if_false.clamp_min(_LEAST).log()

    def learn(self, worlds: Mapping[str, Tensor], share: float) -> None:
        """Move learned rates towards those of the labels in these worlds."""
        for name in self.learned:
            if not self.labels.truth[name].numel():
                continue
            truth = at_index(worlds[name], *self.labels.index[name].to(worlds[name].device))
            truth = truth.to(torch.float64).mean(0).cpu()
            degree = self.labels.truth[name].to(torch.float64)
            start = _NOISE * _NOISE_WEIGHT
            missed = (start + float((truth * (1 - degree)).sum())) / (
                _NOISE_WEIGHT + float(truth.sum())
            )
            invented = (start + float(((1 - truth) * degree).sum())) / (
                _NOISE_WEIGHT + float((1 - truth).sum())
            )
            old = self.rates[name]
            self.rates[name] = NoiseRates(
                old.missed + share * (min(missed, 0.49) - old.missed),
                old.invented + share * (min(invented, 0.49) - old.invented),
            )


@dataclass(slots=True, eq=False)
class Group:
    """Free bits of one tuple of arguments, whose values follow each other.

    Args:
        names: the predicates that change; groups with the same names share what is learned.
        bits: their numbers.
        conditions: the conditions that are told apart.
        statics: how many values of static bits are told apart.
        beside: bits of the track's own arguments, whose last values are told apart, too: a relation
            to a certain entity goes by what the track itself was.
        values: for each case of conditions the value of those, as bits.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    conditions: tuple[int, ...]
    statics: int
    beside: tuple[int, ...] = ()
    values: Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.int64))

    @property
    def number(self) -> int:
        """How many tables there are, by condition, static bits and bits beside."""
        return self.statics << len(self.conditions) << len(self.beside)

    def where(self, case: Tensor, static: Tensor, beside: Tensor) -> Tensor:
        """The number of the table for a case of conditions, static bits, and bits beside."""
        value = self.values[case] * self.statics
        value = value + static if self.statics > 1 else value + torch.zeros_like(static)
        return (value << len(self.beside)) + beside


@dataclass(slots=True, eq=False)
class PriorTables:
    """What is learned of all groups, by their names, as logarithms.

    Args:
        initial: of first values, with axes (condition, value).
        moves: of values by the one before, with axes (condition, before, value).
        static: of the values of static predicates.
    """

    initial: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    moves: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    static: dict[tuple[str, ...], Tensor] = field(default_factory=dict)


def groups(kind: TrackKind, *, static: bool) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The names and bits of each tuple of arguments: static ones, or free ones that change."""
    by_slots: dict[tuple[object, ...], list[int]] = {}
    for number in range(len(kind.moving.bits) if static else kind.free):
        bit = kind.moving.bits[number]
        if bit.static is static:
            by_slots.setdefault((bit.sorts, bit.slots), []).append(number)
    parts = [
        part
        for bits in by_slots.values()
        for part in ([bits] if len(bits) <= TOGETHER else [[b] for b in bits])
    ]
    return [(tuple(kind.moving.bits[b].predicate for b in part), tuple(part)) for part in parts]


def told_apart(kind: TrackKind, bit: int, usable: Collection[int]) -> tuple[int, ...]:
    """The conditions that the prior of a bit tells apart, of those that are given.

    They are given, and about the arguments of the bit alone: of a relation to a certain entity,
    about that one. For other entities they are the same, in the same order.
    """
    entities = {
        (sort, slot.number)
        for sort, slot in zip(kind.moving.bits[bit].sorts, kind.moving.bits[bit].slots, strict=True)
        if slot.position is None
    }
    return tuple(
        number
        for number, formula in enumerate(kind.conditions)
        if number in usable and _entities(formula) == entities
    )[:_MOST_CONDITIONS]


def _entities(formula: c.Formula) -> set[tuple[str, int]]:
    """The entities that are named in a formula by number."""
    return {
        (node.sort, number)
        for node in postorder(formula)
        if isinstance(node, c.Constant) and (number := number_of(node)) is not None
    }


def as_number(letters: Tensor, bits: Sequence[int]) -> Tensor:
    """Some bits as a number, of letters with a last axis for bits."""
    value = torch.zeros(letters.shape[:-1], dtype=torch.int64, device=letters.device)
    for place, bit in enumerate(bits):
        value |= letters[..., bit].to(torch.int64) << place
    return value


def chosen_bits(values: Tensor, order: Sequence[int], bits: Sequence[int]) -> Tensor:
    """Some bits as a number, of numbers that hold the bits of `order`."""
    some = torch.zeros_like(values)
    for place, bit in enumerate(bits):
        some |= (values >> order.index(bit) & 1) << place
    return some


class Prior:
    """How values follow each other in time, by condition; and how frequent static ones are.

    Attributes:
        groups: the groups of a kind.
        tables: what is learned, which others may share.
    """

    def __init__(
        self, kind: TrackKind, usable: Collection[int], shared: Collection[tuple[str, ...]],
        tables: PriorTables, device: torch.device,
    ) -> None:  # fmt: skip
        """A prior that tells conditions apart, but for groups that several kinds share.

        Args:
            kind: the kind of tracks.
            usable: the conditions that may be told apart.
            shared: the groups that several kinds share.
            tables: what is learned.
            device: where to compute.
        """
        self.kind, self.device, self.tables = kind, device, tables
        static = 1 << len(kind.shape.static)
        several = static if static <= _MOST_STATIC else 1
        self.groups = []
        for names, bits in groups(kind, static=False):
            apart = () if names in shared else told_apart(kind, bits[0], usable)
            statics = 1 if names in shared else several
            beside = () if names in shared else self._beside(bits[0])
            self.groups.append(Group(names, bits, apart, statics, beside))
        self.conditions = sorted({number for group in self.groups for number in group.conditions})
        self.cases = torch.zeros(1, dtype=torch.int64, device=device)
        self.static_groups = groups(kind, static=True)
        for group in self.groups:
            if group.names in tables.moves:
                continue
            size = 1 << len(group.bits)
            number = group.number
            start = torch.full((number, size), 1.0 / size, dtype=torch.float64)
            stay = torch.full((size, size), 0.1 / max(1, size - 1), dtype=torch.float64)
            stay.fill_diagonal_(0.9)
            tables.initial[group.names] = start.log().to(device)
            moves = stay.expand(number, size, size)
            tables.moves[group.names] = moves.log().to(device)
        for names, bits in self.static_groups:
            start = torch.zeros(1 << len(bits), dtype=torch.float64, device=device)
            tables.static.setdefault(names, start)

    def _beside(self, bit: int) -> tuple[int, ...]:
        """The bits of the track's own arguments, for one that is about another entity as well."""
        bits = self.kind.moving.bits[: self.kind.free]
        if all(slot.position is not None for slot in bits[bit].slots):
            return ()
        mine = [
            n for n, one in enumerate(bits)
            if not one.static and all(slot.position is not None for slot in one.slots)
        ]  # fmt: skip
        return tuple(mine[:_MOST_BESIDE])

    def look(self, words: Tensor) -> Tensor:
        """Which cases of conditions there are; the number of the case of each track and point.

        Args:
            words: the conditions of the prior, as bits, with axes (track, time).
        """
        at: Tensor
        self.cases, at = torch.unique(words, return_inverse=True)
        for group in self.groups:
            group.values = torch.zeros_like(self.cases)
            for place, number in enumerate(group.conditions):
                group.values |= (self.cases >> self.conditions.index(number) & 1) << place
        return at

    def case_of(self, words: Tensor) -> Tensor:
        """The number of the case of values of all conditions, as bits; 0 for those not seen."""
        chosen = torch.zeros_like(words)
        for place, number in enumerate(self.conditions):
            chosen |= (words >> number & 1) << place
        at = torch.searchsorted(self.cases, chosen).clamp_max(len(self.cases) - 1)
        return torch.where(self.cases[at] == chosen, at, 0)

    @property
    def static(self) -> Tensor:
        """Logarithms of all static bits, by value."""
        values = torch.arange(1 << len(self.kind.shape.static), device=self.device)
        total = torch.zeros(values.shape, dtype=torch.float64, device=self.device)
        for names, bits in self.static_groups:
            total = (
                total + self.tables.static[names][chosen_bits(values, self.kind.shape.static, bits)]
            )
        return total

    @property
    def names(self) -> set[tuple[str, ...]]:
        """The names of all groups."""
        return {g.names for g in self.groups} | {names for names, _ in self.static_groups}

    def by_step(self, letters: Tensor, last: Tensor, static: Tensor) -> Tensor:
        """Logarithms of steps, with axes (case of conditions, step).

        Args:
            letters: the bits of each step.
            last: the remembered bits before it, or -1 at the start.
            static: the values of the static bits.
        """
        at = torch.arange(len(self.cases), device=self.device).unsqueeze(-1)
        total = torch.zeros(len(self.cases), len(last), dtype=torch.float64, device=self.device)
        started, remembered = last >= 0, self.kind.shape.remembered
        for group in self.groups:
            now = as_number(letters, group.bits)
            before = chosen_bits(last.clamp_min(0), remembered, group.bits)
            where = group.where(
                at, static, chosen_bits(last.clamp_min(0), remembered, group.beside)
            )
            moves = self.tables.moves[group.names][where, before, now]
            initial = self.tables.initial[group.names][where, now]
            total = total + torch.where(started, moves, initial)
        return total

    def _where(self, group: Group, at: Tensor, static: Tensor, drawn: Tensor) -> Tensor:
        """The numbers of a group's tables; at the first point, as after nothing."""
        beside = torch.nn.functional.pad(as_number(drawn, group.beside)[..., :-1], (1, 0))
        return group.where(at, static.unsqueeze(-1), beside)

    def density(
        self, drawn: Tensor, static: Tensor, at: Tensor, lengths: Tensor,
        names: Collection[tuple[str, ...]],
    ) -> Tensor:  # fmt: skip
        """The logarithm of how likely tracks are in each world; for the arguments, see `learn`."""
        inside = torch.arange(drawn.shape[2], device=self.device) < lengths.unsqueeze(-1)
        total = torch.zeros(len(drawn), dtype=torch.float64, device=self.device)
        for known, bits in self.static_groups:
            if known in names:
                total += self.tables.static[known][
                    chosen_bits(static, self.kind.shape.static, bits)
                ].sum(1)
        for group in self.groups:
            if group.names not in names:
                continue
            where = self._where(group, at, static, drawn)
            value = as_number(drawn, group.bits)
            first = self.tables.initial[group.names][where[..., 0], value[..., 0]]
            total = total + first.sum(1)
            moves = self.tables.moves[group.names]
            steps = moves[where[..., 1:], value[..., :-1], value[..., 1:]]
            total = total + (steps * inside[:, 1:]).sum((1, 2))
        return total

    def learn(
        self, drawn: Tensor, static: Tensor, at: Tensor, lengths: Tensor, share: float,
        only: Collection[tuple[str, ...]],
    ) -> None:  # fmt: skip
        """Move towards how often values follow each other.

        Args:
            drawn: bits, with axes (world, track, time, bit).
            static: values of static bits, with axes (world, track).
            at: the case of conditions, with axes (track, time).
            lengths: the number of points of each track.
            share: how far to move.
            only: the groups that learn.
        """
        times = torch.arange(drawn.shape[2], device=self.device)
        inside = times < lengths.unsqueeze(-1)
        worlds = drawn.shape[0]
        totals: dict[tuple[str, ...], tuple[Tensor, Tensor]] = {}
        for group in self.groups:
            if group.names not in only:
                continue
            size, number = 1 << len(group.bits), group.number
            where = self._where(group, at, static, drawn)
            value = as_number(drawn, group.bits)
            first = where[..., 0] * size + value[..., 0]
            begins = torch.bincount(first.reshape(-1), minlength=number * size)
            steps = (where[..., 1:] * size + value[..., :-1]) * size + value[..., 1:]
            steps = steps[:, inside[:, 1:]].reshape(-1)
            follows = torch.bincount(steps, minlength=number * size * size)
            old = totals.get(group.names)
            pair = (begins / worlds, follows / worlds)
            totals[group.names] = pair if old is None else (old[0] + pair[0], old[1] + pair[1])
        for names, (begins, follows) in totals.items():
            size = 1 << len(names)
            began = _pooled(begins.reshape(-1, size).double(), None)
            stay = torch.eye(size, dtype=torch.float64, device=self.device)
            went = _pooled(follows.reshape(-1, size, size).double(), stay)
            tables = self.tables
            tables.initial[names] = _moved(tables.initial[names], began, share)
            tables.moves[names] = _moved(tables.moves[names], went, share)
        sums: dict[tuple[str, ...], Tensor] = {}
        for names, bits in self.static_groups:
            if names not in only:
                continue
            values = chosen_bits(static, self.kind.shape.static, bits).reshape(-1)
            count = torch.bincount(values, minlength=1 << len(bits)).double() / worlds
            sums[names] = sums[names] + count if names in sums else count
        for names, count in sums.items():
            wanted = (count + 1.0) / (count.sum() + len(count))
            self.tables.static[names] = _moved(self.tables.static[names], wanted, share)


def _pooled(count: Tensor, stay: Tensor | None) -> Tensor:
    """Shares by condition, drawn to those of all conditions, and these to no change."""
    size = count.shape[-1]
    start = torch.full_like(count[0], 1.0 / size)
    if stay is not None:
        start = 0.9 * stay + 0.1 / size
    everywhere = count.sum(0)
    shares = (everywhere + _STEPS * start) / (everywhere.sum(-1, keepdim=True) + _STEPS)
    return (count + _POOLED * shares) / (count.sum(-1, keepdim=True) + _POOLED)


def _moved(old: Tensor, target: Tensor, share: float) -> Tensor:
    return ((1 - share) * old.exp() + share * target).clamp_min(_LEAST).log()
