"""Truth of formulas for every value of one track within a window, with all other tracks fixed.

A cell is a binding of a formula, a time point, and a track that the formula depends on there. The
truth of the formula is computed for every pattern of the track's bits around the time point, with
an axis for the static bits and one for each time point of the window. Beneath quantifiers, only the
bindings have cells that given facts leave open at the time point, so that the cost follows the
facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_
from typing import NamedTuple, assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.logic.span import HERE, TimeSpan, operands
from fotltn.posterior.clauses import decisive, is_node, number_of, pieces
from fotltn.posterior.rows import Bindings, RowTruth, some_beneath
from fotltn.semantics.tables import within


class Slot(NamedTuple):
    """An argument of the predicate of a bit: an argument of the track, or a fixed entity."""

    position: int | None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Bit:
    """A predicate of a track.

    Args:
        predicate: its name.
        slots: its arguments.
        sorts: their sorts.
        static: whether it is static.
    """

    predicate: str
    slots: tuple[Slot, ...]
    sorts: tuple[str, ...]
    static: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """The time points at which a formula sees bits of tracks, as offsets from its own.

    Args:
        low: the earliest offset; above `high` if it sees only static bits.
        high: the latest offset.
    """

    low: int
    high: int


class Moving:
    """The bits of a kind of track, and the atoms that belong to them."""

    def __init__(self, bits: Sequence[Bit], sorts: tuple[str, ...]) -> None:
        """Describe tracks with these bits, whose arguments have these sorts."""
        self.bits, self.sorts = tuple(bits), sorts
        self.names = frozenset(bit.predicate for bit in bits)
        self._inside: dict[c.Core, bool] = {}

    def inside(self, node: c.Core) -> bool:
        """Whether a formula has atoms of these tracks."""
        if node not in self._inside:
            self._inside[node] = bool(predicates_in(node) & self.names)
        return self._inside[node]

    def bit(self, atom: c.Atom) -> tuple[int, tuple[c.Term, ...]] | None:
        """The bit of an atom, and the terms for the track's arguments; None if it has no bit."""
        for number, bit in enumerate(self.bits):
            if bit.predicate != atom.predicate:
                continue
            terms: dict[int, c.Term] = {}
            for slot, term in zip(bit.slots, atom.args, strict=True):
                if slot.position is not None:
                    terms[slot.position] = term
                elif not isinstance(term, c.Constant) or number_of(term) != slot.number:
                    break
            else:
                return number, tuple(terms[n] for n in range(len(self.sorts)))
        return None


def reach(node: c.Formula, moving: Moving, most: int) -> Sight | None:
    """How far a formula sees changing bits; None if unbounded, or beyond `most` time points."""
    seen: list[tuple[int, int]] = []
    waiting = [(node, HERE)]
    while waiting:
        part, span = waiting.pop()
        if not moving.inside(part):
            continue
        low, high = span
        if low is None or high is None or high - low > most:
            return None
        if isinstance(part, c.Atom):
            hit = moving.bit(part)
            if hit is None:
                return None
            if not moving.bits[hit[0]].static:
                seen.append((low, high))
        waiting += operands(part, span)
    if not seen:
        return Sight(0, -1)
    first, last = min(low for low, _ in seen), max(high for _, high in seen)
    return Sight(first, last) if last - first < most else None


@dataclass(slots=True, eq=False)
class TrackCells:
    """Rows of a formula at time points, with the tracks that they depend on.

    Args:
        rows: the rows.
        row: the row of each cell.
        time: the time point of each cell.
        track: the track of each cell; -1 before it is chosen.
        parent: the cell above each cell, for cells beneath a quantifier.
        below: the cells beneath quantifiers, by quantifier and offset: those that touch the track
            of the cell above, and the others.
        match: for each atom of tracks, the cells whose track the atom is about.
        cache: truth that is the same in all worlds, by formula and offset.
    """

    rows: Bindings
    row: Tensor
    time: Tensor
    track: Tensor
    parent: Tensor | None = None
    below: dict[tuple[c.Core, int], tuple[TrackCells, TrackCells]] = field(default_factory=dict)
    match: dict[c.Core, Tensor | bool] = field(default_factory=dict)
    cache: dict[tuple[c.Core, int], Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.row.shape[0]

    def take(self, index: Tensor, track: Tensor | None = None) -> TrackCells:
        """Take some cells; `track` replaces their tracks."""
        chosen = self.track[index] if track is None else track
        parent = None if self.parent is None else self.parent[index]
        return TrackCells(self.rows, self.row[index], self.time[index], chosen, parent)


class Contacts:
    """Finds which tracks a formula depends on, and where."""

    def __init__(self, row_truth: RowTruth, moving: Moving) -> None:
        """Prepare for tracks of one kind."""
        self.row_truth, self.moving = row_truth, moving
        self.sizes = [row_truth.tables.sizes[s] for s in moving.sorts]
        self._open: dict[int, tuple[Bindings, Tensor]] = {}

    def tracks(self, terms: Sequence[c.Term], rows: Bindings) -> Tensor:
        """The number of the track of terms, with axes (row, time), or one time point."""
        number = rows.trace.unsqueeze(-1)
        for term, size in zip(terms, self.sizes, strict=True):
            number = number * size + self.row_truth.numbers(term, rows)
        return number

    def track(self, terms: Sequence[c.Term], rows: Bindings) -> Tensor:
        """The number of the track of each row, for terms that do not change."""
        return self.tracks(terms, rows)[:, 0]

    def of_rows(self, node: c.Formula, rows: Bindings) -> tuple[Tensor, Tensor]:
        """Find pairs of a row and a track that touch at any time point, each once."""
        hits: list[Tensor] = []
        stack: list[tuple[c.Formula, Bindings, Tensor]] = [
            (node, rows, torch.arange(len(rows), device=rows.trace.device))
        ]
        while stack:
            part, here, origin = stack.pop()
            if not self.moving.inside(part) or not len(here):
                continue
            if isinstance(part, c.Atom):
                hit = self.moving.bit(part)
                assert hit is not None
                track = self.tracks(hit[1], here)
                hits.append(torch.stack([origin.repeat_interleave(track.shape[1]), track.view(-1)]))
            elif isinstance(part, c.Quantifier):
                inner = self.row_truth.beneath(part, here)
                assert inner.parent is not None
                stack.append((part.body, inner, origin[inner.parent]))
            else:
                stack += [(p, here, origin) for p, _ in _steps(part, 0)]
        return _unique(hits, rows.trace)

    def of_cells(self, node: c.Formula, cells: TrackCells) -> tuple[Tensor, Tensor]:
        """Find pairs of a cell and a track that touch, each once."""
        hits: list[Tensor] = []
        stack: list[tuple[c.Formula, TrackCells, int, Tensor]] = [
            (node, cells, 0, torch.arange(len(cells), device=cells.row.device))
        ]
        # Cells are kept alive, because the id of a deleted object can be used again.
        seen: dict[tuple[c.Core, int, int], TrackCells] = {}
        while stack:
            part, here, offset, origin = stack.pop()
            key = (part, offset, id(here))
            if not self.moving.inside(part) or not len(here) or key in seen:
                continue
            seen[key] = here
            if isinstance(part, c.Atom):
                hit = self.moving.bit(part)
                assert hit is not None
                hits.append(torch.stack([origin, self.track(hit[1], here.rows)[here.row]]))
            elif isinstance(part, c.Quantifier):
                inner = self._beneath(part, here, offset)
                assert inner.parent is not None
                stack.append((part.body, inner, offset, origin[inner.parent]))
            else:
                stack += [(p, here, there, origin) for p, there in _steps(part, offset)]
        return _unique(hits, cells.row)

    def open_at(self, node: c.Quantifier, inner: Bindings) -> Tensor:
        """The time points at which given facts leave rows beneath a quantifier open."""
        if id(inner) not in self._open:
            value = within(self.row_truth.lengths(inner), self.row_truth.times)
            for part in decisive(node.body, node.universal):
                if not self.row_truth.varies(part):
                    truth = self.row_truth.truth(part, inner, {})[0]
                    value = value & (~truth if node.universal else truth)
            self._open[id(inner)] = (inner, value)
        return self._open[id(inner)][1]

    def _beneath(self, node: c.Quantifier, cells: TrackCells, offset: int) -> TrackCells:
        """The cells beneath a quantifier that are open at the time point `offset` ahead."""
        inner = self.row_truth.beneath(node, cells.rows)
        parent = inner.parent
        assert parent is not None
        number = torch.bincount(parent, minlength=len(cells.rows))
        first = number.cumsum(0) - number
        there = cells.time + offset
        good = (there >= 0) & (there < len(self.row_truth.times))
        times = torch.where(good, number[cells.row], 0)
        above = torch.arange(len(cells), device=parent.device).repeat_interleave(times)
        begin = times.cumsum(0) - times
        place = torch.arange(len(above), device=parent.device) - begin[above]
        row = first[cells.row[above]] + place
        chosen = self.open_at(node, inner)[row, there[above]]
        above, row = above[chosen], row[chosen]
        return TrackCells(inner, row, cells.time[above], cells.track[above], above)

    def beneath(
        self, node: c.Quantifier, cells: TrackCells, offset: int
    ) -> tuple[TrackCells, TrackCells]:
        """The open cells that touch the track of the cell above, and the other open cells."""
        key = (node, offset)
        if key not in cells.below:
            inner = self._beneath(node, cells, offset)
            # The inner formula is read at the same offset, which its cells do not store.
            at, track = self.of_cells(_ahead(node.body, offset), inner)
            mine = torch.zeros(len(inner), dtype=torch.bool, device=inner.row.device)
            mine[at[track == inner.track[at]]] = True
            cells.below[key] = (
                inner.take(mine.nonzero().squeeze(-1)),
                inner.take((~mine).nonzero().squeeze(-1)),
            )
        return cells.below[key]

    def matches(self, atom: c.Atom, cells: TrackCells) -> Tensor | bool:
        """The cells whose track an atom is about; True or False for all or none."""
        if atom not in cells.match:
            hit = self.moving.bit(atom)
            assert hit is not None
            same = self.track(hit[1], cells.rows)[cells.row] == cells.track
            every = bool(same.all())
            cells.match[atom] = every if every or not bool(same.any()) else same
        return cells.match[atom]


def _ahead(node: c.Formula, offset: int) -> c.Formula:
    """A formula that reads another one at the time point `offset` ahead."""
    if offset == 0:
        return node
    return c.Shift(node, abs(offset), past=offset < 0, weak=False)


def _unique(hits: list[Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
    if not hits:
        return like[:0], like[:0]
    joined = torch.cat(hits, 1)
    most = 1 + (int(joined[1].max()) if joined.shape[1] else 0)
    keys = torch.unique(joined[0] * most + joined[1])
    return keys // most, keys % most


def _steps(node: c.Formula, offset: int) -> Iterator[tuple[c.Formula, int]]:
    """The parts of a formula, with every offset at which they are read.

    A part that is read without bounds has one offset; callers then ignore offsets.
    """
    for part, (low, high) in operands(node, TimeSpan(offset, offset)):
        if low is None or high is None:
            yield part, offset
        else:
            yield from ((part, there) for there in range(low, high + 1))


class Patterns:
    """The truth of formulas for every pattern of a track.

    Its axes are (world, cell, static bits, a time point of the window …); each may have size one.
    """

    def __init__(
        self, contacts: Contacts, worlds: Mapping[str, Tensor], held: dict[object, Tensor],
        static: Sequence[int], window: Sequence[int], span: Sight,
    ) -> None:  # fmt: skip
        """Prepare patterns of the static bits, and of the window's bits at the offsets of the span.

        `held` keeps the truth of formulas that no track of the kind changes.
        """
        self.contacts, self.worlds, self.held = contacts, worlds, held
        self.row_truth, self.moving = contacts.row_truth, contacts.moving
        self.static, self.window, self.span = list(static), list(window), span
        self.points = max(0, span.high - span.low + 1)
        self.memo: dict[object, Tensor] = {}

    def truth(self, node: c.Formula, cells: TrackCells, offset: int = 0) -> Tensor:
        """The truth of a formula at the time point `offset` ahead."""
        key = (node, id(cells), offset)
        if key not in self.memo:
            self.memo[key] = (
                self._value(node, cells, offset)
                if self.moving.inside(node)
                else self._fixed(node, cells, offset)
            )
        return self.memo[key]

    def _fixed(self, node: c.Formula, cells: TrackCells, offset: int) -> Tensor:
        """The truth of a formula that no track of the kind changes."""
        if (node, offset) in cells.cache:
            return cells.cache[node, offset]
        key = (node, id(cells.rows))
        if key not in self.held:
            self.held[key] = self.row_truth.truth(node, cells.rows, self.worlds)
        full = self.held[key]
        row = cells.row if full.shape[1] > 1 else torch.zeros_like(cells.row)
        place = row * full.shape[2] + self._time(cells, offset, full.shape[2])
        value = self._wide(_taken(full, place))
        if not self.row_truth.varies(node):
            cells.cache[node, offset] = value
        return value

    def _time(self, cells: TrackCells, offset: int, times: int) -> Tensor:
        return (cells.time + offset).clamp(0, times - 1)

    def _wide(self, value: Tensor) -> Tensor:
        return value.reshape(*value.shape, *[1] * (1 + self.points))

    def _present(self, atom: c.Atom, cells: TrackCells, offset: int) -> Tensor:
        """The truth of an atom of tracks in the present worlds."""
        table = self.worlds[atom.predicate]
        if (atom, offset) not in cells.cache:
            place = cells.rows.trace[cells.row]
            for term, size in zip(atom.args, table.shape[2:-1], strict=True):
                place = place * size + self.row_truth.numbers(term, cells.rows)[cells.row, 0]
            time = self._time(cells, offset, table.shape[-1])
            cells.cache[atom, offset] = place * table.shape[-1] + time
        return self._wide(_taken(table, cells.cache[atom, offset]))

    def _bit(self, number: int, offset: int) -> Tensor:
        """The values of a bit of the track, along its axis."""
        bit = self.moving.bits[number]
        axis = 0 if bit.static else 1 + offset - self.span.low
        among = self.static if bit.static else self.window
        values = torch.arange(1 << len(among), device=self.row_truth.times.device)
        truth = (values >> among.index(number) & 1).bool()
        shape = [1] * (1 + self.points)
        shape[axis] = -1
        return truth.reshape(1, 1, *shape)

    def _inside(self, cells: TrackCells, offset: int) -> Tensor:
        """Whether the time point `offset` ahead lies in the trace."""
        key = (_INSIDE, offset)
        if key not in cells.cache:
            there = cells.time + offset
            lengths = self.row_truth.lengths(cells.rows)[cells.row]
            cells.cache[key] = self._wide(((there >= 0) & (there < lengths)).unsqueeze(0))
        return cells.cache[key]

    def _value(self, node: c.Formula, cells: TrackCells, offset: int) -> Tensor:
        match is_node(node):
            case c.Atom() as atom:
                hit = self.moving.bit(atom)
                assert hit is not None
                match = self.contacts.matches(atom, cells)
                if match is True:
                    return self._bit(hit[0], offset)
                present = self._present(atom, cells, offset)
                if match is False:
                    return present
                return torch.where(
                    self._wide(match.unsqueeze(0)), self._bit(hit[0], offset), present
                )
            case c.Not(arg):
                return ~self.truth(arg, cells, offset)
            case c.And() | c.Or() as joined:
                kind, join = (c.And, and_) if isinstance(joined, c.And) else (c.Or, or_)
                parts = pieces(joined, kind)
                return reduce(join, (self.truth(part, cells, offset) for part in parts))
            case c.Quantifier() as quantifier:
                return self._quantified(quantifier, cells, offset)
            case c.Shift(arg, steps, past, weak):
                there = offset - steps if past else offset + steps
                inside = self._inside(cells, there)
                value = self.truth(arg, cells, there)
                return value | ~inside if weak else value & inside
            case c.Until() as until:
                return self._until(until, cells, offset)
            case c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Aggregate():
                raise AssertionError(node)
            case never:
                assert_never(never)

    def _quantified(self, node: c.Quantifier, cells: TrackCells, offset: int) -> Tensor:
        """Whether a binding that touches the track, or one that does not, is a witness."""
        total: Tensor | None = None
        for part in self.contacts.beneath(node, cells, offset):
            if len(part):
                assert part.parent is not None
                value = self.truth(node.body, part, offset)
                hits = some_beneath(~value if node.universal else value, part.parent, len(cells))
                total = hits if total is None else total | hits
        if total is None:
            shape = (1, 1, *[1] * (1 + self.points))
            return torch.full(shape, node.universal, device=cells.row.device)
        return ~total if node.universal else total

    def _until(self, node: c.Until, cells: TrackCells, offset: int) -> Tensor:
        assert node.window.high is not None
        sign = -1 if node.past else 1
        reached: Tensor | None = None
        for ahead in range(node.window.high, -1, -1):
            there = offset + sign * ahead
            ways = []
            if reached is not None:
                left = self.truth(node.left, cells, there)
                ways.append((~left if node.dual else left) & reached)
            if ahead >= node.window.low:
                right = self.truth(node.right, cells, there)
                ways.append(~right if node.dual else right)
            reached = reduce(or_, ways) & self._inside(cells, there)
        assert reached is not None
        return ~reached if node.dual else reached


def _taken(table: Tensor, place: Tensor) -> Tensor:
    """Take cells of tables (world, …) by one number for all other axes; axes (world, cell)."""
    return table.flatten(1).gather(1, place.expand(table.shape[0], -1))


#: The key for "inside the trace" in a cache; no formula has this atom.
_INSIDE = c.Atom("·", ())
