"""What other formulas become as one track takes every value within a window, the rest held fixed.

A pair is a binding of a formula, a row, and a track that it depends on. The truth of the formula is
computed for every pattern of the track's bits around the point: with an axis for the static bits,
one for each point of the window, and all that is fixed beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.posterior.clauses import is_node, number_of, predicates
from fotltn.posterior.rows import Bindings, RowTruth, counts
from fotltn.semantics.crisp import moved


class Slot(NamedTuple):
    """An argument of a bit's predicate: an argument of the track, or a certain entity."""

    position: int | None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Bit:
    """A predicate of a track.

    Args:
        predicate: its name.
        slots: its arguments.
        sorts: their sorts.
        static: whether it does not change.
    """

    predicate: str
    slots: tuple[Slot, ...]
    sorts: tuple[str, ...]
    static: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """How far a formula sees the bits of tracks, from its present: points and bits.

    Args:
        low: the earliest offset; above `high` if it sees nothing that changes.
        high: the latest.
    """

    low: int
    high: int


class Moving:
    """Which atoms are of tracks of a kind."""

    def __init__(self, bits: Sequence[Bit], sorts: tuple[str, ...]) -> None:
        """Tracks with these bits, whose arguments have these sorts."""
        self.bits, self.sorts = tuple(bits), sorts
        self.names = frozenset(bit.predicate for bit in bits)
        self._inside: dict[c.Core, bool] = {}

    def inside(self, node: c.Core) -> bool:
        """Whether a formula has such atoms."""
        if node not in self._inside:
            self._inside[node] = bool(predicates(node) & self.names)
        return self._inside[node]

    def bit(self, atom: c.Atom) -> tuple[int, tuple[c.Term, ...]] | None:
        """The bit of an atom, and the terms for the track's arguments; None if there is none."""
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
    """How far a formula sees what changes; None if without bounds, or beyond `most` points."""
    spans: list[tuple[int, int]] = []
    stack: list[tuple[c.Formula, int, int]] = [(node, 0, 0)]
    while stack:
        part, low, high = stack.pop()
        if not moving.inside(part):
            continue
        if high - low > most:
            return None
        match is_node(part):
            case c.Atom() as atom:
                hit = moving.bit(atom)
                if hit is None:
                    return None
                if not moving.bits[hit[0]].static:
                    spans.append((low, high))
            case c.Not(arg):
                stack.append((arg, low, high))
            case c.And(left, right) | c.Or(left, right):
                stack += [(left, low, high), (right, low, high)]
            case c.Quantifier(_, _, _, body):
                stack.append((body, low, high))
            case c.Shift(arg, steps, past):
                by = -steps if past else steps
                stack.append((arg, low + by, high + by))
            case c.Until(_, left, right, window, past):
                if window.high is None:
                    return None
                near, far = (-window.high, 0) if past else (0, window.high)
                stack += [(left, low + near, high + far), (right, low + near, high + far)]
            case c.Truth() | c.Edge() | c.Equal() | c.Compare():
                pass
            case c.Implies() | c.Aggregate():
                raise AssertionError(part)
            case never:
                assert_never(never)
    if not spans:
        return Sight(0, -1)
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    return Sight(low, high) if high - low < most else None


@dataclass(slots=True, eq=False)
class TrackPairs:
    """Bindings of a formula with the tracks that they depend on.

    Args:
        rows: the rows.
        at: the row of each pair.
        track: its track.
        parent: the pair above, of those beneath a quantifier.
        below: the pairs beneath quantifiers.
        match: for each atom of tracks, which pairs have their own track in it.
    """

    rows: Bindings
    at: Tensor
    track: Tensor
    parent: Tensor | None = None
    below: dict[c.Core, TrackPairs] = field(default_factory=dict)
    match: dict[c.Core, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.at.shape[0]


class Contacts:
    """Finds which tracks a formula depends on."""

    def __init__(self, circuit: RowTruth, moving: Moving) -> None:
        """For tracks of one kind."""
        self.circuit, self.moving = circuit, moving
        self.sizes = [circuit.tables.sizes[s] for s in moving.sorts]

    def track(self, terms: Sequence[c.Term], rows: Bindings) -> Tensor:
        """The number of the track of terms, by row."""
        number = rows.trace
        for term, size in zip(terms, self.sizes, strict=True):
            number = number * size + self.circuit.numbers(term, rows)[:, 0]
        return number

    def of(self, node: c.Formula, rows: Bindings) -> tuple[Tensor, Tensor]:
        """Bindings and tracks that touch, each once."""
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
                hits.append(torch.stack([origin, self.track(hit[1], here)]))
            elif isinstance(part, c.Quantifier):
                inner = self.circuit.beneath(part, here)
                assert inner.parent is not None
                stack.append((part.body, inner, origin[inner.parent]))
            else:
                stack += [(p, here, origin) for p in _formulas(part)]
        if not hits:
            empty = rows.trace[:0]
            return empty, empty
        pairs = torch.unique(torch.cat(hits, 1), dim=1)
        return pairs[0], pairs[1]

    def pairs(self, node: c.Formula, rows: Bindings, at: Tensor, track: Tensor) -> TrackPairs:
        """Some pairs of a formula, with those beneath its quantifiers."""
        pairs = TrackPairs(rows, at, track)
        stack: list[tuple[c.Formula, TrackPairs]] = [(node, pairs)]
        while stack:
            part, here = stack.pop()
            if not self.moving.inside(part):
                continue
            if isinstance(part, c.Atom):
                hit = self.moving.bit(part)
                assert hit is not None
                here.match[part] = self.track(hit[1], here.rows)[here.at] == here.track
            elif isinstance(part, c.Quantifier):
                if part not in here.below:
                    here.below[part] = self._beneath(part, here)
                stack.append((part.body, here.below[part]))
            else:
                stack += [(p, here) for p in _formulas(part)]
        return pairs

    def _beneath(self, node: c.Quantifier, pairs: TrackPairs) -> TrackPairs:
        """Bindings beneath that touch the same track as the pair above."""
        inner = self.circuit.beneath(node, pairs.rows)
        assert inner.parent is not None
        child, track = self.of(node.body, inner)
        # A pair above, (row, track), has the pairs beneath with that row as parent, and that track.
        most = 1
        for tensor in (pairs.track, track):
            if tensor.numel():
                most = max(most, int(tensor.max()) + 1)
        keys = pairs.at * most + pairs.track
        order = torch.argsort(keys)
        wanted = inner.parent[child] * most + track
        if not keys.numel():
            empty = pairs.at[:0]
            return TrackPairs(inner, empty, empty, empty)
        place = torch.searchsorted(keys[order], wanted).clamp_max(keys.shape[0] - 1)
        hit = keys[order][place] == wanted
        return TrackPairs(inner, child[hit], track[hit], order[place[hit]])


def _formulas(node: c.Formula) -> list[c.Formula]:
    match is_node(node):
        case c.Not(arg) | c.Shift(arg):
            return [arg]
        case c.And(left, right) | c.Or(left, right) | c.Until(_, left, right):
            return [left, right]
        case c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Quantifier():
            return []
        case c.Implies() | c.Aggregate():
            raise AssertionError(node)
        case never:
            assert_never(never)


class Patterns:
    """The truth of formulas under every pattern of a track.

    It has axes (world, pair, static bits, a point of the window …, time), each perhaps of size one.
    """

    def __init__(
        self, circuit: RowTruth, moving: Moving, worlds: Mapping[str, Tensor],
        static: Sequence[int], window: Sequence[int], span: Sight,
    ) -> None:  # fmt: skip
        """For patterns of the static bits, and of the window's bits at the offsets of the span."""
        self.circuit, self.moving, self.worlds = circuit, moving, worlds
        self.static, self.window, self.span = list(static), list(window), span
        self.points = max(0, span.high - span.low + 1)
        self.memo: dict[object, Tensor] = {}
        self.fixed: dict[object, Tensor] = {}

    def truth(self, node: c.Formula, pairs: TrackPairs, offset: int = 0) -> Tensor:
        """The truth of a formula at the point that lies `offset` ahead."""
        key = (node, id(pairs), offset)
        if key not in self.memo:
            self.memo[key] = (
                self._value(node, pairs, offset)
                if self.moving.inside(node)
                else self._held(node, pairs, offset)
            )
        return self.memo[key]

    def _held(self, node: c.Formula, pairs: TrackPairs, offset: int) -> Tensor:
        """The truth of a formula in the present worlds."""
        value = self.circuit._truth(node, pairs.rows, self.worlds, self.fixed)
        if value.shape[1] > 1 or len(pairs.rows) == 1:
            value = value.expand(value.shape[0], len(pairs.rows), value.shape[2])[:, pairs.at]
        return self._placed(value, offset)

    def _placed(self, value: Tensor, offset: int) -> Tensor:
        if offset and value.shape[-1] > 1:
            value = moved(value, abs(offset), offset < 0)
        return value.reshape(*value.shape[:2], *[1] * (1 + self.points), value.shape[-1])

    def _bit(self, number: int, offset: int) -> Tensor:
        """A bit of the track, along the axis of its values."""
        bit = self.moving.bits[number]
        axis = 0 if bit.static else 1 + offset - self.span.low
        within = self.static if bit.static else self.window
        values = torch.arange(1 << len(within), device=self.circuit.times.device)
        truth = (values >> within.index(number) & 1).bool()
        shape = [1] * (1 + self.points)
        shape[axis] = -1
        return truth.reshape(1, 1, *shape, 1)

    def _inside(self, pairs: TrackPairs, offset: int) -> Tensor:
        """Whether the point `offset` ahead is a point of the trace."""
        key = ("inside", id(pairs), offset)
        if key not in self.memo:
            there = self.circuit.times + offset
            lengths = self.circuit.lengths(pairs.rows)[pairs.at].unsqueeze(-1)
            value = ((there >= 0) & (there < lengths)).unsqueeze(0)
            self.memo[key] = value.reshape(1, len(pairs), *[1] * (1 + self.points), len(there))
        return self.memo[key]

    def _value(self, node: c.Formula, pairs: TrackPairs, offset: int) -> Tensor:
        match is_node(node):
            case c.Atom() as atom:
                hit = self.moving.bit(atom)
                assert hit is not None
                match = pairs.match[atom]
                if bool(match.all()):
                    return self._bit(hit[0], offset)
                held = self._held(atom, pairs, offset)
                if not bool(match.any()):
                    return held
                shape = (1, -1, *[1] * (1 + self.points), 1)
                return torch.where(match.reshape(shape), self._bit(hit[0], offset), held)
            case c.Not(arg):
                return ~self.truth(arg, pairs, offset)
            case c.And(left, right):
                return self.truth(left, pairs, offset) & self.truth(right, pairs, offset)
            case c.Or(left, right):
                return self.truth(left, pairs, offset) | self.truth(right, pairs, offset)
            case c.Quantifier() as quantifier:
                return self._quantified(quantifier, pairs, offset)
            case c.Shift(arg, steps, past, weak):
                there = offset - steps if past else offset + steps
                inside = self._inside(pairs, there)
                value = self.truth(arg, pairs, there)
                return value | ~inside if weak else value & inside
            case c.Until(dual, left, right, window, past):
                assert window.high is not None
                return self._until(dual, left, right, window, past, pairs, offset)
            case c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Implies() | c.Aggregate():
                raise AssertionError(node)
            case never:
                assert_never(never)

    def _quantified(self, node: c.Quantifier, pairs: TrackPairs, offset: int) -> Tensor:
        """A witness among rows that do not touch the track, or one that does."""
        inner, below = self.circuit.beneath(node, pairs.rows), pairs.below[node]
        assert inner.parent is not None
        assert below.parent is not None
        key = (node, id(pairs), "rest")
        if key not in self.memo:
            now = self.circuit._truth(node.body, inner, self.worlds, self.fixed)
            now = ~now if node.universal else now
            total = counts(now, inner.parent, len(pairs.rows))[:, pairs.at]
            spread = now.expand(now.shape[0], len(inner), now.shape[2])[:, below.at]
            self.memo[key] = (total - counts(spread, below.parent, len(pairs))) > 0
        rest = self._placed(self.memo[key], offset)
        value = self.truth(node.body, below, offset)
        mine = counts(~value if node.universal else value, below.parent, len(pairs)) > 0
        return ~(rest | mine) if node.universal else rest | mine

    def _until(
        self, dual: bool, left: c.Formula, right: c.Formula, window: c.Window, past: bool,
        pairs: TrackPairs, offset: int,
    ) -> Tensor:  # fmt: skip
        assert window.high is not None
        sign = -1 if past else 1
        reached: Tensor | None = None
        for ahead in range(window.high, -1, -1):
            there = offset + sign * ahead
            a, b = self.truth(left, pairs, there), self.truth(right, pairs, there)
            if dual:
                a, b = ~a, ~b
            onward = None if reached is None else a & reached
            here = b if ahead >= window.low else None
            both = [x for x in (onward, here) if x is not None]
            reached = (both[0] if len(both) == 1 else both[0] | both[1]) & self._inside(
                pairs, there
            )
        assert reached is not None
        return ~reached if dual else reached
