"""Moves of all tracks of a kind; tracks that are not tied to each other move at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.logic.parts import predicates_in
from fotltn.posterior.above import PriorBelow
from fotltn.posterior.best_tracks import best_tracks
from fotltn.posterior.chain import Chain
from fotltn.posterior.choices import choices
from fotltn.posterior.colours import Colour, Colouring, Coupling
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.patterns import Bit, Contacts, Patterns
from fotltn.posterior.points import worth_of_letters
from fotltn.posterior.prior import Prior, PriorTables, as_number, groups
from fotltn.posterior.rows import Bindings, RowTruth, all_rows, at_index, put
from fotltn.posterior.shared_worlds import Randomness, uniform
from fotltn.posterior.spans import presence, spans_of
from fotltn.posterior.track_kind import Factor, TrackKind
from fotltn.posterior.track_weights import Gain, Weights
from fotltn.semantics.tables import within

#: The cost of a broken cell of a hard axiom that ties tracks, as a logarithm.
HARD = 60.0

#: The cost of a true fact of an absent entity, as a logarithm, unless a hard axiom demands it.
ABSENT = 30.0

#: The share of tracks that move in a world whose hard ties have just become firm.
_LAZY = 0.25

Worlds = dict[str, Tensor]


class Mover:
    """Draws the tracks of a kind, given all other facts."""

    def __init__(
        self, kind: TrackKind, row_truth: RowTruth, evidence: LabelEvidence, worlds: int,
        shared: Collection[tuple[str, ...]], tables: PriorTables, scales: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Find the tracks that can be drawn at once."""
        self.scales = scales  # of learned weights of axioms
        self.kind, self.row_truth, self.evidence, self.worlds = kind, row_truth, evidence, worlds
        self.device = row_truth.tables.lengths.device
        self.rows = all_rows(row_truth.tables, kind.axes)
        self.lengths = row_truth.lengths(self.rows)
        self.symbols = torch.tensor(kind.shape.conditions, device=self.device)
        self._static_bits = torch.tensor(kind.shape.static, dtype=torch.int64, device=self.device)
        fixed = [n for n, f in enumerate(kind.conditions) if not row_truth.varies(f)]
        stated = [n for n in fixed if predicates_in(kind.conditions[n])] + [*kind.above]
        members = groups(kind, static=False)
        alone = [bit for names, bits in members if names not in shared for bit in bits]
        free = choices(kind, members, alone, [*fixed, *kind.above])
        self.chain = Chain(kind.product, free.codes, self.device)
        self.letters = self.chain.letters
        said: dict[str, list[tuple[str, c.Formula, float]]] = {"": []}  # "": not learned
        for one in kind.pointwise:
            said.setdefault(one[0] if one[0] in scales else "", []).append(one)
        self._worths = {
            axiom: worth_of_letters(some, kind.moving, self.letters, row_truth, self.rows)
            for axiom, some in said.items()
        }
        self._weigh_points()
        costly = {axiom for costs in kind.soft.values() for axiom in costs}
        self._learns = bool((costly | {*said}) & {*scales})
        part = self.rows.trace // (row_truth.tables.batch // evidence.parts)
        self.prior = Prior(
            kind, stated, shared, tables, free, self.chain, part, evidence.parts,
            late=self.spans is not None or self._there is not None,
        )  # fmt: skip
        self._first_case = (part * self.prior.conditions).unsqueeze(-1)  # of the track's part
        self._part = part
        self.contacts = Contacts(row_truth, kind.moving)
        colouring = Colouring(
            kind, self.rows, row_truth, evidence, self.contacts, self._weights
        )  # fmt: skip
        self.colours = colouring.colours(
            self.lengths > 0 if self.spans is None else self.spans.lengths > 0
        )  # fmt: skip
        self._weighed: dict[int, Tensor] = {}
        self.firm = False  # whether hard ties outweigh all other evidence about a track
        self.lazy = False  # whether most tracks stay as they are
        self._force = torch.ones(self.tracks, dtype=torch.float64, device=self.device)
        self.stale = True  # whether learned numbers have changed since the last move
        self.movers: Sequence[Mover] = ()  # of all kinds, to find those below

    @property
    def tracks(self) -> int:
        """The number of tracks."""
        return len(self.rows)

    @property
    def reads(self) -> frozenset[str]:
        """The predicates on which the density of tracks depends."""
        kind = self.kind
        return kind.moving.names | predicates_in(*kind.helping.values(), *kind.conditions)

    def _weigh_points(self) -> None:
        """Compute the worth of letters by soft axioms, and spans; again if weights change."""
        scaled = [self.scales.get(axiom, 1.0) * worth for axiom, worth in self._worths.items()]
        self._points = torch.stack(scaled).sum(0) if len(scaled) > 1 else scaled[0]
        self.spans = spans_of(
            self.kind, self.chain, self.row_truth, self.rows, self._points,
            lambda: self._cases({})[0], self._costs(),
        )  # fmt: skip
        self._there = None  # where tracks are present, if they are drawn beyond that
        if self.spans is None:
            places = [*self.rows.places.values()]
            self._there = presence(
                self.row_truth, self.kind.moving.sorts, self.rows.trace, places
            )  # fmt: skip

    def _costs(self) -> dict[int, float]:
        """The costs of bits that are false."""
        return {
            bit: sum(cost * self.scales.get(axiom, 1.0) for axiom, cost in costs.items())
            for bit, costs in self.kind.soft.items()
        }

    def _drawn(self, worlds: Worlds) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The input of the prior: edges, conditions, presence of tracks, and static values."""
        bits = self.read(worlds, torch.arange(self.tracks, device=self.device))
        static = as_number(bits[:, :, 0], self.kind.shape.static)
        conditions = self._cases(worlds)
        edges = self.chain.walk(bits, static, conditions)
        inside, at = within(self.lengths, self.row_truth.times), self._weighed_by(conditions)
        if self.spans is not None:
            inside = self.spans.there(self.row_truth.times)
        elif self._there is not None:
            inside = inside & self._there
            at = torch.where(self._there, at, 0)
        return edges, at.permute(2, 1, 0), inside.T, static

    def _weighed_by(self, conditions: Tensor) -> Tensor:
        """The numbers of conditions, separate for parts, where tracks begin late, or are absent."""
        if self.spans is not None:
            conditions = conditions + self.spans.late(self.row_truth.times) * len(self.symbols)
        if self._there is None:
            return conditions + self._first_case
        before = torch.nn.functional.pad(self._there[:, :-1], (1, 0), value=True)
        weighed = conditions + (self._there & ~before) * len(self.symbols) + self._first_case
        absent = conditions + self.evidence.parts * self.prior.conditions
        return torch.where(self._there, weighed, absent)

    # --- where bits are ---

    def cells(self, bit: Bit, tracks: Tensor) -> tuple[Tensor, ...]:
        """The places of a bit in the table of its predicate: trace and arguments."""
        places = [self.rows.places[axis][tracks] for axis in self.kind.axes]
        trace = self.rows.trace[tracks]
        args = [
            places[slot.position]
            if slot.position is not None
            else torch.full_like(trace, slot.number)
            for slot in bit.slots
        ]
        return (trace, *args)

    def read(self, worlds: Worlds, tracks: Tensor) -> Tensor:
        """The bits of tracks, with axes (world, track, time, bit)."""
        bits = []
        for bit in self.kind.moving.bits:
            table = at_index(worlds[bit.predicate], *self.cells(bit, tracks))
            bits.append(table.expand(-1, -1, self.row_truth.tables.horizon))
        return torch.stack(bits, -1)

    def write(self, worlds: Worlds, tracks: Tensor, bits: Tensor) -> None:
        """Put the bits of tracks into the tables."""
        for number, bit in enumerate(self.kind.moving.bits):
            value = bits[..., number]
            value = value[..., :1] if bit.static else value
            put(worlds[bit.predicate], value, *self.cells(bit, tracks))

    # --- one move ---

    def odds(self) -> Tensor:
        """The log-odds of bits, with axes (track, time, bit)."""
        horizon = self.row_truth.tables.horizon
        every = torch.arange(self.tracks, device=self.device)
        inside = within(self.lengths, self.row_truth.times)
        columns, costs = [], self._costs()
        for number, bit in enumerate(self.kind.moving.bits):
            if number in costs:
                columns.append(inside.to(torch.float64) * costs[number])
                continue
            if bit.predicate in self.kind.helping:
                columns.append(torch.zeros_like(inside, dtype=torch.float64))
                continue
            cells = self.cells(bit, every)
            value = self._table(bit.predicate)[cells]
            there = None
            if self.spans is None and number < self.kind.free:
                there = presence(self.row_truth, bit.sorts, cells[0], cells[1:])
            if there is not None:
                there = there.any(-1, keepdim=True) if bit.static else there
                value = torch.where(there | ~inside[:, : value.shape[-1]], value, -ABSENT)
            if bit.static:
                value = torch.nn.functional.pad(value[:, :1], (0, horizon - 1))
            columns.append(value)
        return torch.stack(columns, -1)

    def _table(self, name: str) -> Tensor:
        """The log-odds of all cells of a predicate."""
        tables = self.row_truth.tables
        decl = tables.signature.predicates[name]
        sizes = (tables.sizes[s] for s in decl.sorts)
        shape = (tables.batch, *sizes, 1 if decl.static else tables.horizon)
        return self.evidence.odds(name, shape, self.device)

    def refresh(self) -> None:
        """Take over learned numbers."""
        self.stale = False
        if self._learns:
            self._weigh_points()
        odds = self.odds()
        dynamic = self.letters.to(torch.float64)
        static = list(self.kind.shape.static)
        self._evidence = odds.index_fill(-1, self._static_bits, 0.0) @ dynamic.T + self._points
        values = torch.arange(1 << len(static), device=self.device)
        by_value = odds.new_zeros(self.tracks, 1 << len(static))
        for place, bit in enumerate(static):
            by_value += odds[:, 0, bit].unsqueeze(-1) * (values >> place & 1)
        self._static = by_value + self.prior.static[self._part]
        # One block for each part, another where tracks begin late, and one where they are absent.
        by_edge = self._by_edge().split(len(self.symbols))
        self._moves = torch.cat([self.chain.moves(part.T) for part in by_edge], 1)
        weights: dict[int, Tensor] = {}
        couplings = [one for colour in self.colours for one in colour.couplings]
        for one in couplings:
            if id(one.factor) not in weights:
                weights[id(one.factor)] = self._weights(one.factor, one.cells.rows)
        if self.firm:
            spread = self._moves.amax() - self._moves.amin()
            most = odds.abs().sum((1, 2)) + spread * self.lengths
            for one in couplings:
                if not one.factor.hard:
                    worth = weights[id(one.factor)].abs().sum(-1)[one.cells.row]
                    if one.factor.below is not None:
                        table = self.movers[one.factor.below.kind].prior.by_edge()
                        worth = worth * (table.amax() - table.amin())
                    most.index_add_(0, one.cells.track, worth)
            self._force = 1.0 + most / HARD
        for one in couplings:
            weighed = weights[id(one.factor)][one.cells.row, one.cells.time]
            if one.factor.hard:
                weighed = weighed * self._force[one.cells.track]
            self._weighed[id(one)] = weighed

    def _by_edge(self) -> Tensor:
        """The log-probabilities of edges by the prior; 0 where tracks are absent."""
        by_edge = self.prior.by_edge()
        absent = 0 if self._there is None else len(self.symbols)
        return torch.nn.functional.pad(by_edge, (0, 0, 0, absent))

    def _words(self, worlds: Mapping[str, Tensor]) -> Tensor:
        """The values of conditions as bits of a number, with axes (world, track, time)."""
        horizon = self.row_truth.tables.horizon
        total = torch.zeros(1, self.tracks, horizon, dtype=torch.int64, device=self.device)
        for place, condition in enumerate(self.kind.conditions):
            truth = self.row_truth.truth(condition, self.rows, worlds)
            total = total + (truth.to(torch.int64) << place)
        return total

    def _cases(self, worlds: Mapping[str, Tensor]) -> Tensor:
        """The number of the joint value of all conditions, with axes (world, track, time)."""
        numbers = torch.searchsorted(self.symbols, self._words(worlds).contiguous())
        return numbers.clamp_max(len(self.symbols) - 1)

    def help(self, worlds: Worlds) -> None:
        """Compute helping bits from the other tables."""
        for name, formula in self.kind.helping.items():
            truth = self.row_truth.truth(formula, self.rows, worlds)
            tables, count = self.row_truth.tables, len(worlds[self.kind.moving.bits[0].predicate])
            shape = (*[tables.sizes[s] for s in self.kind.moving.sorts],)
            full = truth.expand(count, self.tracks, tables.horizon)
            worlds[name] = full.reshape(count, tables.batch, *shape, tables.horizon).clone()

    def density(self, worlds: Worlds, names: Collection[tuple[str, ...]]) -> Tensor:
        """The log-probability of some groups by the prior, with axes (world, trace)."""
        by_track = self.density_of_tracks(worlds, names)
        total = by_track.new_zeros(len(by_track), self.row_truth.tables.batch)
        return total.index_add_(1, self.rows.trace, by_track)

    def density_of_tracks(self, worlds: Worlds, names: Collection[tuple[str, ...]]) -> Tensor:
        """The log-probability of some groups by the prior, with axes (world, track)."""
        self.help(worlds)
        return self.prior.density(*self._drawn(worlds), names)

    def prior_below(self, worlds: Worlds) -> PriorBelow:
        """The prior of these tracks, for draws of tracks above."""
        self.help(worlds)
        words = self._words(worlds)
        return PriorBelow(
            self._by_edge(), self._drawn(worlds)[0], words, self.symbols,
            self._weighed_by(torch.zeros_like(words[:1]))[0],
        )  # fmt: skip

    def learn(self, worlds: Worlds, share: float, names: Collection[tuple[str, ...]]) -> None:
        """Move the prior of some groups towards these worlds."""
        self.prior.learn(*self._drawn(worlds), share, names)

    def prepared(self, worlds: Worlds) -> Tensor:
        """Take over what was learned, and return the numbers of conditions for draws."""
        if self.stale:
            self.refresh()
        self.help(worlds)
        return self._weighed_by(self._cases(worlds))

    def move(self, worlds: Worlds, generator: Randomness | None, heat: float) -> None:
        """Draw every track once.

        Args:
            worlds: the tables, which the move changes.
            generator: the source of random numbers; None if each track is to become as probable
                as it can be, given all others.
            heat: the strength of ties, from 0 to 1.
        """
        conditions = self.prepared(worlds)
        held: dict[object, Tensor] = {}
        for colour in self.colours:
            self._move(colour, worlds, conditions, held, generator, heat)

    def draw_anew(
        self, colour: Colour, worlds: Worlds, conditions: Tensor, held: dict[object, Tensor],
        generator: Randomness | None, heat: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Draw the tracks of a colour, given all other facts, without changing the tables.

        Returns:
            The bits, with axes (world, track, time, bit), and the logarithm of the total weight of
            all draws, with axes (world, track).
        """
        tracks = colour.tracks
        gains, digits = self._gains(colour, worlds, held, heat)
        weights = Weights(
            self._evidence[tracks], self._static[tracks], self._moves, conditions[:, tracks],
            self.lengths[tracks], gains,
        )  # fmt: skip
        if self.spans is not None:
            weights = self.spans.within(weights, tracks)
        if generator is None:
            drawn = best_tracks(self.chain, weights, digits, self.worlds)
        else:
            drawn = self.chain.draw(weights, digits, generator, self.worlds)
        letters, static, totals = drawn
        bits = self.letters[letters]
        if self.spans is None:  # nothing is true beyond the end
            bits &= within(self.lengths[tracks], self.row_truth.times).unsqueeze(-1)
        else:
            bits = self.spans.spread(bits, tracks, self.row_truth.tables.horizon)
        for place, number in enumerate(self.kind.shape.static):
            bits[..., number] = (static >> place & 1).bool().unsqueeze(-1)
        return bits, totals

    def _move(
        self, colour: Colour, worlds: Worlds, conditions: Tensor, held: dict[object, Tensor],
        generator: Randomness | None, heat: float,
    ) -> None:  # fmt: skip
        tracks = colour.tracks
        bits, totals = self.draw_anew(colour, worlds, conditions, held, generator, heat)
        old = self.read(worlds, tracks)
        possible = totals > -torch.inf
        tested = [one for one in colour.couplings if one.window is None]
        if self.lazy and generator is not None:  # so that the first track does not always give way
            draw = uniform(possible.shape, generator, world=0, device=self.device)
            possible &= draw < _LAZY
        bits = torch.where(possible[..., None, None], bits, old)
        if not tested:
            self.write(worlds, tracks, bits)
            return
        before = self._tested(tested, worlds, len(tracks))
        before = torch.where(self._obeys(old, tracks, worlds), before, -torch.inf)
        self.write(worlds, tracks, bits)
        after = self._tested(tested, worlds, len(tracks))
        refused = after < before
        if generator is not None:
            draw = uniform(after.shape, generator, world=0, dtype=after.dtype, device=self.device)
            refused = draw.log() > heat * (after - before)
        self.write(worlds, tracks, torch.where(refused[..., None, None], old, bits))

    def _obeys(self, bits: Tensor, tracks: Tensor, worlds: Worlds) -> Tensor:
        """Whether tracks obey the axioms of their automaton, with axes (world, track)."""
        static = as_number(bits[:, :, 0], self.kind.shape.static)
        conditions, lengths = self._cases(worlds)[:, tracks], self.lengths[tracks]
        changing = bits.index_fill(-1, self._static_bits, False)
        return self.chain.accepts_tracks(changing, static, conditions, lengths)

    def _weights(self, factor: Factor, rows: Bindings) -> Tensor:
        """The worth of a true formula in each row, with axes (row, time)."""
        if factor.labelled is not None:
            table = self._table(factor.labelled.predicate)
            args = [self.row_truth.numbers(t, rows)[:, 0] for t in factor.labelled.args]
            value = table[(rows.trace, *args)]
            if value.shape[-1] < len(self.row_truth.times):
                value = torch.nn.functional.pad(value, (0, len(self.row_truth.times) - 1))
            return value
        inside = within(self.row_truth.lengths(rows), self.row_truth.times)
        scale = self.scales.get(factor.axiom, 1.0)
        cost = HARD if factor.weight is None else scale * factor.weight
        return inside.to(torch.float64) * cost

    def _gains(
        self, colour: Colour, worlds: Worlds, held: dict[object, Tensor], heat: float
    ) -> tuple[list[Gain], list[Tensor]]:
        gains: dict[tuple[int, int, int], Tensor] = {}
        patterns: dict[object, Patterns] = {}
        priors: dict[int, PriorBelow] = {}
        static = self.kind.shape.static
        times, tracks = len(self.row_truth.times), len(colour.tracks)
        for coupling in colour.couplings:
            cells, sight = coupling.cells, coupling.factor.span
            if coupling.window is None or not len(cells):
                continue
            assert sight is not None
            window, bits = coupling.window
            key = (bits, sight)
            if key not in patterns:
                patterns[key] = Patterns(self.contacts, worlds, held, static, bits, sight)
            truth = patterns[key].truth
            base, points = 1 << len(bits), max(0, sight.high - sight.low + 1)
            latest = sight.high if points else 0
            shape = (1 << len(static), *[base] * points)
            if (below := coupling.factor.below) is None:
                worth, strength = truth(coupling.factor.formula, cells), heat
            else:
                if below.kind not in priors:
                    priors[below.kind] = self.movers[below.kind].prior_below(worlds)
                strength = 1.0  # a prior counts in full from the first sweep
                worth = priors[below.kind].of_cells(cells, {
                    n: truth(formula, cells)
                    for n, formula in zip(below.conditions, below.formulas, strict=True)
                })  # fmt: skip
            weight = strength * self._weighed[id(coupling)]
            full = worth.expand(-1, len(cells), *shape).reshape(len(worth), len(cells), -1)
            name = (window, max(1, points), latest)
            length = times + max(0, latest)
            if name not in gains:
                gains[name] = torch.zeros(
                    tracks * length, full.shape[-1], self.worlds, dtype=torch.float64,
                    device=self.device,
                )  # fmt: skip
            index = coupling.place * length + cells.time + latest
            good = cells.time + latest >= 0
            value = full.permute(1, 2, 0) * (weight * good)[:, None, None]
            gains[name].index_add_(0, index.clamp_min(0), value.expand(-1, -1, self.worlds))
        result, digits = [], []
        for (window, size, latest), values in gains.items():
            bits = self.kind.shape.windows[window][0]
            length = times + max(0, latest)
            shaped = values.view(tracks, length, -1, self.worlds).permute(3, 0, 1, 2)
            result.append(Gain(shaped, window, size, 1 << len(bits)))
            digits.append(as_number(self.letters, bits))
        return result, digits

    def _tested(self, couplings: Sequence[Coupling], worlds: Worlds, tracks: int) -> Tensor:
        """The worth of each track by factors that test draws, with axes (world, track)."""
        total = torch.zeros(self.worlds, tracks, dtype=torch.float64, device=self.device)
        for coupling in couplings:
            cells, factor = coupling.cells, coupling.factor
            if factor.below is not None:
                below = self.movers[factor.below.kind]
                value = below.density_of_tracks(worlds, below.prior.names)[:, cells.row]
                total.index_add_(1, coupling.place, value)
                continue
            truth = self.row_truth.truth(factor.formula, cells.rows, worlds)
            truth = truth.expand(self.worlds, len(cells.rows), len(self.row_truth.times))
            value = (truth * self._weights(factor, cells.rows)).sum(-1)[:, cells.row]
            if factor.hard:
                value = value * self._force[cells.track]
            total.index_add_(1, coupling.place, value)
        return total
