"""The learned prior of tracks: how values follow each other in time.

The next values of a track depend on its last values, on the memories of its axioms (such as how
long something has been true), on whether its axioms leave a choice, on given facts, and, for a
relation, on the other values of the track.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.posterior.chain import Chain
from fotltn.posterior.choices import Choices
from fotltn.posterior.clauses import number_of
from fotltn.posterior.track_kind import TrackKind
from fotltn.tree import postorder

#: The least probability, so that its logarithm is finite.
_LEAST = 1e-12

#: The strengths, in steps, of the priors that nothing changes and that conditions do not matter.
_STEPS, _POOLED = 1.0, 8.0

#: At most so many predicates of a tuple of arguments have a joint prior.
TOGETHER = 4

#: The most conditions that a prior depends on.
_MOST_CONDITIONS = 3

#: The most other bits of a track that the prior of a relation depends on.
_MOST_BESIDE = 2

#: With more values of static bits, the prior does not depend on static bits.
_MOST_STATIC = 8


@dataclass(slots=True, eq=False)
class Group:
    """Free bits of one tuple of arguments, whose values have a joint prior.

    Args:
        names: the predicates; groups with the same names share a prior.
        bits: the numbers of the bits.
        conditions: the conditions that the prior depends on.
        statics: the number of values of static bits that the prior distinguishes.
        beside: bits of the track's own arguments on whose last values the prior also depends, for a
            relation to a fixed entity.
        memories: the number of memories of axioms that the prior distinguishes.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    conditions: tuple[int, ...] = ()
    statics: int = 1
    beside: tuple[int, ...] = ()
    memories: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """The number of joint values of conditions, static bits and bits beside; of memories."""
        return self.statics << len(self.conditions) << len(self.beside), self.memories

    @property
    def number(self) -> int:
        """The number of tables; the last one is for values without a choice."""
        number, memories = self.shape
        return number * memories + 1


@dataclass(slots=True, eq=False)
class PriorTables:
    """The learned log-probabilities of all groups, by the names of their predicates.

    The tables of parts that learn separately follow each other.

    Args:
        initial: of first values, with axes (table, value).
        moves: of values given the values before, with axes (table, before, value).
        static: of the values of static predicates.
    """

    initial: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    moves: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    static: dict[tuple[str, ...], Tensor] = field(default_factory=dict)


def groups(kind: TrackKind, *, static: bool) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The names and bits of each group of a kind: of static bits, or of free changing ones."""
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
    """The given conditions that the prior of a bit depends on.

    They are about the arguments of the bit alone; for a relation to a fixed entity, about that
    entity. The bits of other entities have the same conditions, in the same order.
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
    """The numbered entities of a formula."""
    return {
        (node.sort, number)
        for node in postorder(formula)
        if isinstance(node, c.Constant) and (number := number_of(node)) is not None
    }


def as_number(letters: Tensor, bits: Sequence[int]) -> Tensor:
    """Some bits of letters as a number; the last axis of letters is that of bits."""
    value = torch.zeros(letters.shape[:-1], dtype=torch.int64, device=letters.device)
    for place, bit in enumerate(bits):
        value |= letters[..., bit].to(torch.int64) << place
    return value


def chosen_bits(values: Tensor, order: Sequence[int], bits: Sequence[int]) -> Tensor:
    """Some bits as a number, taken from numbers that hold the bits of `order`."""
    some = torch.zeros_like(values)
    for place, bit in enumerate(bits):
        some |= (values >> order.index(bit) & 1) << place
    return some


class Prior:
    """The prior of a kind: how values follow each other in time, and how frequent static ones are.

    Attributes:
        groups: the groups of the kind.
        tables: the learned tables, which other kinds may share.
    """

    def __init__(
        self, kind: TrackKind, usable: Collection[int], shared: Collection[tuple[str, ...]],
        tables: PriorTables, choices: Choices, chain: Chain, part: Tensor, parts: int, *,
        late: bool,
    ) -> None:  # fmt: skip
        """Make a prior, which depends on conditions except for groups that several kinds share.

        Args:
            kind: the kind of tracks.
            usable: the conditions that the prior may depend on.
            shared: the groups that several kinds share.
            tables: the learned tables.
            choices: the memories of axioms, and values without a choice.
            chain: the edges of tracks.
            part: the part of each track; parts learn separately.
            parts: the number of parts.
            late: whether tracks may begin later than their traces.
        """
        self.kind, self.device, self.tables = kind, chain.device, tables
        self.chain, self.choices, self._part, self._parts = chain, choices, part, parts
        static = 1 << len(kind.shape.static)
        several = static if static <= _MOST_STATIC else 1
        self.groups = []
        for number, (names, bits) in enumerate(groups(kind, static=False)):
            group = Group(names, bits)
            if names not in shared:
                group = Group(
                    names, bits, told_apart(kind, bits[0], usable), several,
                    self._beside(bits[0]), choices.memories[number],
                )  # fmt: skip
            self.groups.append(group)
        #: The number of conditions in a part; twice as many where tracks may begin late.
        self.conditions = len(kind.shape.conditions) << late
        self._cells = [self._cell(number, late=late) for number in range(len(self.groups))]
        self.static_groups = groups(kind, static=True)
        for group in self.groups:
            if group.names in tables.moves:
                continue
            size = 1 << len(group.bits)
            number = parts * group.number
            start = torch.full((number, size), 1.0 / size, dtype=torch.float64)
            stay = torch.full((size, size), 0.1 / max(1, size - 1), dtype=torch.float64)
            stay.fill_diagonal_(0.9)
            tables.initial[group.names] = start.log().to(self.device)
            moves = stay.repeat(number, 1, 1)
            tables.moves[group.names] = moves.log().to(self.device)
        for names, bits in self.static_groups:
            start = torch.zeros(parts << len(bits), dtype=torch.float64, device=self.device)
            tables.static.setdefault(names, start)

    def _beside(self, bit: int) -> tuple[int, ...]:
        """The bits of the track's own arguments, if a bit is also about a fixed entity."""
        bits = self.kind.moving.bits[: self.kind.free]
        if all(slot.position is not None for slot in bits[bit].slots):
            return ()
        mine = [
            n for n, one in enumerate(bits)
            if not one.static and all(slot.position is not None for slot in one.slots)
        ]  # fmt: skip
        return tuple(mine[:_MOST_BESIDE])

    @property
    def static(self) -> Tensor:
        """The log-probabilities of the values of all static bits, with axes (part, value)."""
        values = torch.arange(1 << len(self.kind.shape.static), device=self.device)
        total = torch.zeros(self._parts, len(values), dtype=torch.float64, device=self.device)
        for names, bits in self.static_groups:
            known = self.tables.static[names].reshape(self._parts, -1)
            total += known[:, chosen_bits(values, self.kind.shape.static, bits)]
        return total

    @property
    def names(self) -> set[tuple[str, ...]]:
        """The names of all groups."""
        return {g.names for g in self.groups} | {names for names, _ in self.static_groups}

    def _cell(self, number: int, *, late: bool) -> Tensor:
        """The places of edges in the tables of a group, with axes (condition, edge).

        Places of first values come before those of later ones. If tracks may begin late, conditions
        are repeated, for the time points at which a track begins, in any state.
        """
        group, chain = self.groups[number], self.chain
        remembered, size = self.kind.shape.remembered, 1 << len(group.bits)
        last = chain.last[chain.source]
        now = as_number(chain.letters[chain.letter], group.bits)
        order = range(len(self.kind.conditions))
        words = torch.tensor(self.kind.shape.conditions, device=self.device)
        told = chosen_bits(words, order, group.conditions).unsqueeze(-1) * group.statics
        if group.statics > 1:
            told = told + chain.statics[chain.source]
        memory: Tensor | int = 0
        if group.memories > 1:
            memory = chain.in_order(self.choices.states[number])[chain.source]
        forced, cells = (chain.code.T >> number & 1).bool(), []
        begins = [last < 0, torch.ones_like(last, dtype=torch.bool)]
        for begun in begins if late else begins[:1]:
            old = torch.where(begun, 0, last)
            beside = chosen_bits(old, remembered, group.beside)
            where = ((told << len(group.beside)) + beside) * group.memories + memory
            where = torch.where(forced, group.number - 1, where)
            before = chosen_bits(old, remembered, group.bits)
            follows = group.number * size + (where * size + before) * size + now
            cells.append(torch.where(begun, where * size + now, follows))
        return torch.cat(cells)

    def _spoken(self, number: int) -> Tensor:
        """The log-probabilities of edges by the tables of a group; see `by_edge`."""
        names = self.groups[number].names
        tables = self.tables.initial[names], self.tables.moves[names]
        both = torch.cat([table.reshape(self._parts, -1) for table in tables], 1)
        return both[:, self._cells[number]].flatten(0, 1)

    def by_edge(self) -> Tensor:
        """The log-probabilities of edges, with axes (condition, edge); see `_cell`.

        The conditions of parts follow each other.
        """
        shape = (self._parts * self.conditions, len(self.chain.source))
        total = torch.zeros(shape, dtype=torch.float64, device=self.device)
        for number in range(len(self.groups)):
            total += self._spoken(number)
        return total

    def density(
        self, edges: Tensor, at: Tensor, inside: Tensor, static: Tensor,
        names: Collection[tuple[str, ...]],
    ) -> Tensor:  # fmt: skip
        """The log-probability of each track, with axes (world, track).

        For the arguments, see `learn`.
        """
        total = torch.zeros(static.shape, dtype=torch.float64, device=self.device)
        for known, bits in self.static_groups:
            if known in names:
                values = chosen_bits(static, self.kind.shape.static, bits)
                total += self.tables.static[known][values + (self._part << len(bits))]
        for number, group in enumerate(self.groups):
            if group.names in names:
                spoken = torch.nn.functional.pad(self._spoken(number), (0, 1))
                total += (spoken[at, edges] * inside.unsqueeze(-1)).sum(0).T
        return total

    def learn(
        self, edges: Tensor, at: Tensor, inside: Tensor, static: Tensor, share: float,
        only: Collection[tuple[str, ...]],
    ) -> None:  # fmt: skip
        """Move the tables towards the frequencies of values where there is a choice.

        Args:
            edges: the edges of tracks, with axes (time, track, world).
            at: the number of the condition among those of all parts, with the same axes; the axis
                of worlds may have size one.
            inside: whether tracks are present, with axes (time, track).
            static: values of static bits, with axes (world, track).
            share: how far to move, from 0 to 1.
            only: the groups that learn.
        """
        worlds, number = edges.shape[-1], len(self.chain.source)
        inside = inside.unsqueeze(-1) & (edges < number)
        places, times = torch.unique((at * number + edges)[inside], return_counts=True)
        totals: dict[tuple[str, ...], tuple[Group, Tensor]] = {}
        for cells, group in zip(self._cells, self.groups, strict=True):
            if group.names in only:
                size = 1 << len(group.bits)
                width = group.number * size * (1 + size)
                nothing = torch.zeros(self._parts * width, device=self.device)
                total = totals.get(group.names, (group, nothing.double()))[1]
                part = places // cells.numel()
                spoken = cells.flatten()[places % cells.numel()] + part * width
                totals[group.names] = group, total.index_add(0, spoken, times.double() / worlds)
        tables = self.tables
        for names, (group, total) in totals.items():
            size = 1 << len(names)
            shape = (self._parts, group.number)
            sizes = [group.number * size, group.number * size**2]
            began, went = total.reshape(self._parts, -1).split(sizes, 1)
            stay = torch.eye(size, dtype=torch.float64, device=self.device)
            began = _shares(began.reshape(*shape, size), group, None)
            went = _shares(went.reshape(*shape, size, size), group, stay)
            tables.initial[names] = _moved(tables.initial[names], began, share)
            tables.moves[names] = _moved(tables.moves[names], went, share)
        sums: dict[tuple[str, ...], Tensor] = {}
        for names, bits in self.static_groups:
            if names not in only:
                continue
            values = chosen_bits(static, self.kind.shape.static, bits) + (self._part << len(bits))
            number = self._parts << len(bits)
            count = torch.bincount(values.reshape(-1), minlength=number).double() / worlds
            sums[names] = sums[names] + count if names in sums else count
        for names, count in sums.items():
            by_part = count.reshape(self._parts, -1) + 1.0
            wanted = by_part / by_part.sum(-1, keepdim=True)
            tables.static[names] = _moved(tables.static[names], wanted, share)


def _shares(count: Tensor, group: Group, stay: Tensor | None) -> Tensor:
    """Shares of values, by part and table; in the last table, without a choice, they are 1.

    Shares over all tables are drawn to no change, shares of a memory to those over all, and shares
    of a condition to those of its memory.
    """
    size, tables = count.shape[-1], count[:, :-1]
    count = tables.unflatten(1, group.shape)  # part, condition, memory, …
    start = torch.full_like(count[0, 0, 0], 1.0 / size)
    if stay is not None:
        start = 0.9 * stay + 0.1 / size
    shares = _drawn_to(count.sum((1, 2), keepdim=True), start, _STEPS)
    shares = _drawn_to(count.sum(1, keepdim=True), shares, _POOLED)
    shares = _drawn_to(count, shares, _POOLED).reshape(tables.shape)
    return torch.cat([shares, torch.ones_like(shares[:, :1])], 1)


def _drawn_to(count: Tensor, shares: Tensor, weight: float) -> Tensor:
    return (count + weight * shares) / (count.sum(-1, keepdim=True) + weight)


def _moved(old: Tensor, target: Tensor, share: float) -> Tensor:
    """Move log-probabilities towards target shares, which have an axis of parts."""
    wanted = target.reshape(old.shape)
    return ((1 - share) * old.exp() + share * wanted).clamp_min(_LEAST).log()
