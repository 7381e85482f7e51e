"""Moves all tracks of a kind, those that nothing ties to each other at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.posterior.chain import Chain, Gain, Weights
from fotltn.posterior.clauses import free_axes, number_of
from fotltn.posterior.evidence import LabelEvidence, Prior, PriorTables
from fotltn.posterior.kinds import Factor, Kind
from fotltn.posterior.patterns import Bit, Contacts, Patterns, TrackPairs
from fotltn.posterior.rows import Bindings, RowTruth, all_rows, at_index, atoms_of, put
from fotltn.semantics.tables import within

#: What it costs to break a hard axiom that ties tracks, as a logarithm.
HARD = 60.0

#: The most conditions that a prior tells apart, as bits.
_PRIOR_BITS = 3

#: A track that weighs less than this, as a logarithm, cannot be.
_IMPOSSIBLE = -600.0

Worlds = dict[str, Tensor]


@dataclass(slots=True, eq=False)
class Coupling:
    """A factor, on the tracks of one colour.

    Args:
        factor: the factor.
        pairs: its rows with their tracks, by the tracks' places among those of the colour.
        place: the place of each pair's track.
        window: the window of the product, and its bits; None if draws are tested by the factor.
    """

    factor: Factor
    pairs: TrackPairs
    place: Tensor
    window: tuple[int, tuple[int, ...]] | None


@dataclass(slots=True, eq=False)
class Colour:
    """Tracks that no factor ties to each other."""

    tracks: Tensor
    couplings: list[Coupling]


class Mover:
    """Draws the tracks of a kind, given all else."""

    def __init__(
        self, kind: Kind, circuit: RowTruth, evidence: LabelEvidence, worlds: int,
        shared: Collection[tuple[str, ...]], tables: PriorTables,
    ) -> None:  # fmt: skip
        """Find out which tracks can be drawn at once."""
        self.kind, self.circuit, self.evidence, self.worlds = kind, circuit, evidence, worlds
        self.device = circuit.tables.lengths.device
        self.rows = all_rows(circuit.tables, kind.axes)
        self.lengths = circuit.lengths(self.rows)
        self.chain = Chain(kind.product, self.device)
        self.letters = torch.from_numpy(kind.product.letters).to(self.device)
        self.last = torch.from_numpy(kind.product.last).to(self.device)
        self.symbols = torch.tensor(kind.shape.conditions, device=self.device)
        self.fixed = [n for n, f in enumerate(kind.conditions) if not circuit.varies(f)]
        chosen = self.fixed[:_PRIOR_BITS]
        known = self._conditions(chosen, {})
        self.prior_at = known[0]
        self.prior = Prior(kind, 1 << len(chosen), shared, tables, self.device)
        self.colours = self._colours()

    @property
    def tracks(self) -> int:
        """How many there are."""
        return len(self.rows)

    # --- where bits are ---

    def cells(self, bit: Bit, tracks: Tensor) -> tuple[Tensor, ...]:
        """Where a bit of tracks is in the table of its predicate: trace and arguments."""
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
            bits.append(table.expand(-1, -1, self.circuit.tables.horizon))
        return torch.stack(bits, -1)

    def write(self, worlds: Worlds, tracks: Tensor, bits: Tensor) -> None:
        """Put the bits of tracks into the tables."""
        for number, bit in enumerate(self.kind.moving.bits):
            value = bits[..., number]
            put(
                worlds[bit.predicate],
                value[..., :1] if bit.static else value,
                *self.cells(bit, tracks),
            )

    # --- one move ---

    def odds(self, tracks: Tensor | slice = slice(None)) -> Tensor:
        """The logarithms of the odds of bits, with axes (track, time, bit)."""
        horizon = self.circuit.tables.horizon
        every = torch.arange(self.tracks, device=self.device)[tracks]
        inside = within(self.lengths[every], self.circuit.times)
        columns = []
        for number, bit in enumerate(self.kind.moving.bits):
            if number in self.kind.soft:
                cost = self.kind.soft[number][1]
                columns.append(inside.to(torch.float64) * cost)
                continue
            if bit.predicate in self.kind.helping:
                columns.append(torch.zeros_like(inside, dtype=torch.float64))
                continue
            value = self._table(bit.predicate)[self.cells(bit, every)]
            if bit.static:
                value = torch.nn.functional.pad(value[:, :1], (0, horizon - 1))
            columns.append(value)
        return torch.stack(columns, -1)

    def _table(self, name: str) -> Tensor:
        """The logarithms of the odds of all cells of a predicate."""
        tables = self.circuit.tables
        decl = tables.signature.predicates[name]
        sizes = (tables.sizes[s] for s in decl.sorts)
        shape = (tables.batch, *sizes, 1 if decl.static else tables.horizon)
        return self.evidence.odds(name, shape, self.device)

    def refresh(self) -> None:
        """Take over what has been learned."""
        odds = self.odds()
        dynamic = self.letters.to(torch.float64)
        static = list(self.kind.shape.static)
        if static:
            odds_now = odds.clone()
            odds_now[..., static] = 0.0
        else:
            odds_now = odds
        self._evidence = odds_now @ dynamic.T
        values = torch.arange(1 << len(static), device=self.device)
        by_value = torch.zeros(
            self.tracks, 1 << len(static), dtype=torch.float64, device=self.device
        )
        for place, bit in enumerate(static):
            by_value += odds[:, 0, bit].unsqueeze(-1) * (values >> place & 1)
        self._static = by_value + self.prior.static
        self._moves = self.prior.by_way(self.letters, self.chain.letter, self.last)

    def _conditions(self, numbers: Sequence[int], worlds: Mapping[str, Tensor]) -> Tensor:
        """Conditions as bits, with axes (world, track, time)."""
        horizon = self.circuit.tables.horizon
        total = torch.zeros(1, self.tracks, horizon, dtype=torch.int64, device=self.device)
        for place, number in enumerate(numbers):
            truth = self.circuit.truth(self.kind.conditions[number], self.rows, worlds)
            total = total + (truth.to(torch.int64) << place)
        return total

    def help(self, worlds: Worlds) -> None:
        """Compute helping bits and what is defined here from the bits that are free."""
        for name, formula in self.kind.helping.items():
            truth = self.circuit.truth(formula, self.rows, worlds)
            tables = self.circuit.tables
            shape = (*[tables.sizes[s] for s in self.kind.moving.sorts],)
            full = truth.expand(truth.shape[0], self.tracks, tables.horizon)
            worlds[name] = (
                full.expand(self.worlds, -1, -1)
                .reshape(self.worlds, tables.batch, *shape, tables.horizon)
                .clone()
            )

    def static_values(self, bits: Tensor) -> Tensor:
        """The values of static bits, of bits with axes (world, track, time, bit)."""
        values = torch.zeros(bits.shape[:2], dtype=torch.int64, device=self.device)
        for place, bit in enumerate(self.kind.shape.static):
            values |= bits[:, :, 0, bit].to(torch.int64) << place
        return values

    def density(self, worlds: Worlds, names: Collection[tuple[str, ...]]) -> Tensor:
        """The logarithm of how likely some groups of tracks are in each world, by the prior."""
        self.help(worlds)
        bits = self.read(worlds, torch.arange(self.tracks, device=self.device))
        return self.prior.density(
            bits, self.static_values(bits), self.prior_at, self.lengths, names
        )

    def learn(self, worlds: Worlds, share: float, names: Collection[tuple[str, ...]]) -> None:
        """Move the prior of some groups towards these worlds."""
        bits = self.read(worlds, torch.arange(self.tracks, device=self.device))
        values = self.static_values(bits)
        self.prior.learn(bits, values, self.prior_at, self.lengths, share, names)

    def move(self, worlds: Worlds, generator: torch.Generator, heat: float) -> None:
        """Draw every track once.

        Args:
            worlds: the tables, which are changed.
            generator: of random numbers.
            heat: how much ties count, from 0 to 1.
        """
        self.refresh()
        self.help(worlds)
        words = self._conditions(range(len(self.kind.conditions)), worlds)
        conditions = torch.searchsorted(self.symbols, words).clamp_max(len(self.symbols) - 1)
        for colour in self.colours:
            self._move(colour, worlds, conditions, generator, heat)

    def _move(
        self, colour: Colour, worlds: Worlds, conditions: Tensor, generator: torch.Generator,
        heat: float,
    ) -> None:  # fmt: skip
        tracks = colour.tracks
        gains, digits = self._gains(colour, worlds, heat)
        weights = Weights(
            self._evidence[tracks], self._static[tracks], self._moves, self.prior_at[tracks],
            conditions[:, tracks], self.lengths[tracks], gains,
        )  # fmt: skip
        letters, static, totals = self.chain.draw(weights, digits, generator, self.worlds)
        bits = self.letters[letters]
        for place, number in enumerate(self.kind.shape.static):
            bits[..., number] = (static >> place & 1).bool().unsqueeze(-1)
        old = self.read(worlds, tracks)
        possible = totals > _IMPOSSIBLE
        tested = [one for one in colour.couplings if one.window is None]
        bits = torch.where(possible[..., None, None], bits, old)
        if not tested:
            self.write(worlds, tracks, bits)
            return
        before = self._tested(tested, worlds, len(tracks))
        self.write(worlds, tracks, bits)
        after = self._tested(tested, worlds, len(tracks))
        draw = torch.rand(after.shape, dtype=torch.float64, generator=generator, device=self.device)
        refused = draw.log() > heat * (after - before)
        self.write(worlds, tracks, torch.where(refused[..., None, None], old, bits))

    def _weights(self, coupling: Coupling) -> Tensor:
        """What it is worth that the formula of each pair is true, with axes (pair, time)."""
        factor, pairs = coupling.factor, coupling.pairs
        rows, at = pairs.rows, pairs.at
        if factor.labelled is not None:
            table = self._table(factor.labelled.predicate)
            args = [self.circuit.numbers(t, rows)[at, 0] for t in factor.labelled.args]
            value = table[(rows.trace[at], *args)]
            if value.shape[-1] < len(self.circuit.times):
                value = torch.nn.functional.pad(value, (0, len(self.circuit.times) - 1))
            return value
        inside = within(self.circuit.lengths(rows)[at], self.circuit.times)
        return inside.to(torch.float64) * (HARD if factor.weight is None else factor.weight)

    def _gains(
        self, colour: Colour, worlds: Worlds, heat: float
    ) -> tuple[list[Gain], list[Tensor]]:
        gains: dict[tuple[int, int, int], Tensor] = {}
        patterns: dict[object, Patterns] = {}
        static = self.kind.shape.static
        times = self.circuit.tables.horizon
        for coupling in colour.couplings:
            if coupling.window is None or not len(coupling.pairs):
                continue
            window, bits = coupling.window
            span = coupling.factor.span
            assert span is not None
            key = (bits, span.low, span.high)
            if key not in patterns:
                patterns[key] = Patterns(self.circuit, self.kind.moving, worlds, static, bits, span)
            truth = patterns[key].truth(coupling.factor.formula, coupling.pairs)
            base, points = 1 << len(bits), max(0, span.high - span.low + 1)
            shape = (1 << len(static), *[base] * points)
            weight = heat * self._weights(coupling).reshape(1, -1, *[1] * len(shape), times)
            full = truth.expand(truth.shape[0], len(coupling.pairs), *shape, times) * weight
            total = torch.zeros(
                full.shape[0], len(colour.tracks), *shape, times, dtype=torch.float64,
                device=self.device,
            ).index_add_(1, coupling.place, full)  # fmt: skip
            flat = total.reshape(full.shape[0], len(colour.tracks), -1, times).transpose(2, 3)
            latest = span.high if points else 0
            placed = _placed(flat, latest)
            name = (window, max(1, points), latest)
            old = gains.get(name)
            gains[name] = placed if old is None else old + placed
        result, digits = [], []
        for (window, length, _), values in gains.items():
            bits = self.kind.shape.windows[window][0]
            base = 1 << len(bits)
            expanded = values.expand(self.worlds, *values.shape[1:])
            result.append(Gain(expanded, window, length, base))
            digits.append(self._digits(bits))
        return result, digits

    def _digits(self, bits: tuple[int, ...]) -> Tensor:
        word = torch.zeros(len(self.letters), dtype=torch.int64, device=self.device)
        for place, bit in enumerate(bits):
            word |= self.letters[:, bit].to(torch.int64) << place
        return word

    def _tested(self, couplings: Sequence[Coupling], worlds: Worlds, tracks: int) -> Tensor:
        """What factors that no window holds are worth to each track."""
        total = torch.zeros(self.worlds, tracks, dtype=torch.float64, device=self.device)
        for coupling in couplings:
            pairs = coupling.pairs
            truth = self.circuit.truth(coupling.factor.formula, pairs.rows, worlds)
            truth = truth.expand(self.worlds, len(pairs.rows), self.circuit.tables.horizon)
            value = (truth[:, pairs.at] * self._weights(coupling)).sum(-1)
            total.index_add_(1, coupling.place, value)
        return total

    # --- colours ---

    def _colours(self) -> list[Colour]:
        contacts = Contacts(self.circuit, self.kind.moving)
        touched: list[tuple[Bindings, Tensor, Tensor]] = []
        for factor in self.kind.factors:
            rows = self._instances(factor)
            touched.append((rows, *self._contacts(factor, rows, contacts)))
        colour = _coloured(self.tracks, [(at, track) for _, at, track in touched])
        result = []
        for number in range(int(colour.max()) + 1 if len(colour) else 0):
            tracks = (colour == number).nonzero().squeeze(-1)
            place = torch.full((self.tracks,), -1, dtype=torch.int64, device=self.device)
            place[tracks] = torch.arange(len(tracks), device=self.device)
            couplings = []
            for factor, window, (rows, at, track) in zip(
                self.kind.factors, self.kind.windows, touched, strict=True
            ):
                mine = place[track] >= 0
                if not bool(mine.any()):
                    continue
                used, where = torch.unique(at[mine], return_inverse=True)
                some = rows.take(used)
                if window is None:
                    pairs = TrackPairs(some, where, track[mine])
                else:
                    pairs = contacts.pairs(factor.formula, some, where, track[mine])
                couplings.append(Coupling(factor, pairs, place[track[mine]], window))
            result.append(Colour(tracks, couplings))
        return result

    def _instances(self, factor: Factor) -> Bindings:
        """The bindings of a factor that something depends on."""
        if factor.labelled is not None:
            return self._labelled(factor.labelled)
        axes = [a for a in factor.axes if a in free_axes(factor.formula)]
        return self.circuit.instances(axes, factor.formula)

    def _labelled(self, atom: c.Atom) -> Bindings:
        """The bindings of an atom's variables that have labels."""
        name = atom.predicate
        if name in self.evidence.logits:
            return all_rows(
                self.circuit.tables, [t.axis for t in atom.args if isinstance(t, c.Variable)]
            )
        index = self.evidence.labels.index[name][:-1].to(self.device)
        places: dict[c.Axis, int] = {}
        for place, term in enumerate(atom.args, start=1):
            if isinstance(term, c.Variable):
                places[term.axis] = place
            elif isinstance(term, c.Constant):
                index = index[:, index[place] == number_of(term)]
        unique = torch.unique(index[[0, *places.values()]], dim=1)
        return Bindings(unique[0], dict(zip(places, unique[1:], strict=True)))

    def _contacts(
        self, factor: Factor, rows: Bindings, contacts: Contacts
    ) -> tuple[Tensor, Tensor]:
        if factor.span is not None or all(
            contacts.moving.bit(a) is not None for a in _atoms(factor.formula, contacts)
        ):
            return contacts.of(factor.formula, rows)
        every = torch.arange(self.tracks, device=self.device)  # nothing says which: all
        trace = self.rows.trace
        hits = (rows.trace.unsqueeze(-1) == trace).nonzero()
        return hits[:, 0], every[hits[:, 1]]


def _atoms(formula: c.Formula, contacts: Contacts) -> list[c.Atom]:
    return atoms_of(formula, contacts.moving.names)


def _placed(values: Tensor, latest: int) -> Tensor:
    """Values by the present, at the latest point that they see; the third axis is time."""
    if latest > 0:
        return torch.nn.functional.pad(values, (0, 0, latest, 0))
    if latest < 0:
        return torch.nn.functional.pad(values[:, :, -latest:], (0, 0, 0, -latest))
    return values


def _coloured(tracks: int, touched: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """A colour for each track, such that those that touch the same row differ."""
    instances: list[list[int]] = [[] for _ in range(tracks)]
    offset = 0
    for at, track in touched:
        for row, one in zip(at.tolist(), track.tolist(), strict=True):
            instances[one].append(offset + row)
        offset += int(at.max()) + 1 if at.numel() else 0
    taken = [0] * offset
    colours = torch.zeros(tracks, dtype=torch.int64)
    for one in sorted(range(tracks), key=lambda n: -len(instances[n])):
        used = 0
        for row in instances[one]:
            used |= taken[row]
        colour = (~used & (used + 1)).bit_length() - 1
        colours[one] = colour
        for row in instances[one]:
            taken[row] |= 1 << colour
    return colours if not touched else colours.to(touched[0][0].device)
