"""Colours of tracks: tracks of one colour are not tied to each other, and move at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.posterior.clauses import decisive, interchangeable, number_of
from fotltn.posterior.evidence import LabelEvidence
from fotltn.posterior.patterns import Contacts, TrackCells
from fotltn.posterior.rows import Bindings, RowTruth, all_rows, atoms_of
from fotltn.posterior.track_kind import Factor, TrackKind
from fotltn.tree import children

#: A row that more tracks touch is not split into pairs of tracks.
_FEW = 64

#: Only this many cells or more are split by the atoms that have their track.
_MANY = 512


@dataclass(slots=True, eq=False)
class Coupling:
    """A factor, restricted to the tracks of one colour.

    Args:
        factor: the factor.
        cells: the cells in which it touches the tracks; only rows, if the factor tests draws.
        place: the place of each cell's track among the tracks of the colour.
        window: the window of the product, and its bits; None if the factor tests draws.
    """

    factor: Factor
    cells: TrackCells
    place: Tensor
    window: tuple[int, tuple[int, ...]] | None


@dataclass(slots=True, eq=False)
class Colour:
    """Tracks that no factor ties to each other."""

    tracks: Tensor
    couplings: list[Coupling]


def coloured(tracks: int, touched: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Choose a colour for each track; tracks that touch the same row have different colours."""
    number = torch.zeros(tracks, dtype=torch.int64)
    pairs = [torch.zeros(0, dtype=torch.int64)]
    crowds: list[list[int]] = [[] for _ in range(tracks)]  # rows that many tracks touch
    rows = 0
    for at, track in touched:
        at, order = torch.sort(at, stable=True)
        track = track[order]
        number += torch.bincount(track, minlength=tracks).cpu()
        _, place, count = torch.unique_consecutive(at, return_inverse=True, return_counts=True)
        few = count[place] <= _FEW
        pairs.append(_met(at[few], track[few], tracks).cpu())
        crowded = (~few).nonzero().squeeze(-1)
        for row, one in zip(place[crowded].tolist(), track[crowded].tolist(), strict=True):
            crowds[one].append(rows + row)
        rows += len(count)
    met: list[list[int]] = [[] for _ in range(tracks)]
    for pair in torch.cat(pairs).unique().tolist():
        one, other = divmod(pair, tracks)
        met[one].append(other)
        met[other].append(one)
    taken = dict.fromkeys((row for crowd in crowds for row in crowd), 0)
    colours = [0] * tracks  # as one bit each, once chosen
    for one in sorted(range(tracks), key=(-number).tolist().__getitem__):
        used = 0
        for other in met[one]:
            used |= colours[other]
        for row in crowds[one]:
            used |= taken[row]
        colours[one] = ~used & (used + 1)
        for row in crowds[one]:
            taken[row] |= colours[one]
    return torch.tensor([colour.bit_length() - 1 for colour in colours], dtype=torch.int64)


def _met(at: Tensor, track: Tensor, tracks: int) -> Tensor:
    """The pairs of tracks that touch the same row, as numbers; `at` is sorted."""
    pairs: list[Tensor] = [track[:0]]
    for ahead in range(1, _FEW):
        same = at[ahead:] == at[:-ahead]
        if not bool(same.any()):
            break
        pairs.append(torch.unique(track[:-ahead][same] * tracks + track[ahead:][same]))
    joined: Tensor = torch.unique(torch.cat(pairs))
    return joined


def apart(formula: c.Formula, cells: TrackCells, contacts: Contacts) -> list[TrackCells]:
    """Split cells such that an atom has the track of every cell of a part, or of no cell."""
    mixed, stack = [], [formula]
    while stack and len(cells) >= _MANY:
        node = stack.pop()
        if isinstance(node, c.Atom) and contacts.moving.inside(node):
            match = contacts.matches(node, cells)
            mixed += [match] if isinstance(match, Tensor) else []
        elif not isinstance(node, c.Quantifier):
            stack += [part for part in children(node) if isinstance(part, c.Formula)]
    if not mixed:
        return [cells]
    which = torch.unique(torch.stack(mixed), dim=1, return_inverse=True)[1]
    return [cells.take((which == n).nonzero().squeeze(-1)) for n in range(int(which.max()) + 1)]


class Colouring:
    """Finds the colours of the tracks of a kind.

    Args:
        kind: the kind.
        rows: its tracks.
        row_truth: the given facts.
        evidence: the labels.
        contacts: finds what tracks touch.
        weights: the worth of a true factor in some rows, with axes (row, time).
    """

    def __init__(
        self, kind: TrackKind, rows: Bindings, row_truth: RowTruth, evidence: LabelEvidence,
        contacts: Contacts, weights: Callable[[Factor, Bindings], Tensor],
    ) -> None:  # fmt: skip
        """Colour nothing yet."""
        self.kind, self.rows, self.row_truth, self.evidence = kind, rows, row_truth, evidence
        self.contacts, self._weights, self.device = contacts, weights, rows.trace.device

    def colours(self, there: Tensor) -> list[Colour]:
        """Return the colours of the tracks that are ever there."""
        touched = [self._touched(factor) for factor in self.kind.factors]
        colour = coloured(len(self.rows), [(row, track) for _, row, track in touched])
        colour = colour.to(self.device)
        result = []
        for number in range(int(colour.max()) + 1 if len(colour) else 0):
            tracks = ((colour == number) & there).nonzero().squeeze(-1)
            if not len(tracks):
                continue
            place = torch.full((len(self.rows),), -1, dtype=torch.int64, device=self.device)
            place[tracks] = torch.arange(len(tracks), device=self.device)
            couplings = []
            for factor, window, (cells, at, track) in zip(
                self.kind.factors, self.kind.windows, touched, strict=True
            ):
                mine = place[track] >= 0
                if bool(mine.any()):
                    some = cells.take(at[mine], track[mine])
                    parts = [some] if window is None else apart(factor.formula, some, self.contacts)
                    couplings += [Coupling(factor, p, place[p.track], window) for p in parts]
            result.append(Colour(tracks, couplings))
        return result

    def _touched(self, factor: Factor) -> tuple[TrackCells, Tensor, Tensor]:
        """The cells of a factor, and pairs of a cell and a track that touch."""
        rows = self._instances(factor)
        count = torch.arange(len(rows), device=self.device)
        if factor.span is None:
            cells = TrackCells(rows, count, torch.zeros_like(count), torch.full_like(count, -1))
            return (cells, *self._contacts(factor, rows))
        open_ones = self._weights(factor, rows) != 0
        if factor.labelled is None:
            for part in decisive(factor.formula, universal=True):
                if not self.row_truth.varies(part):
                    open_ones = open_ones & ~self.row_truth.truth(part, rows, {})[0]
        row, time = open_ones.nonzero().unbind(-1)
        cells = TrackCells(rows, row, time, torch.full_like(row, -1))
        return (cells, *self.contacts.of_cells(factor.formula, cells))

    def _instances(self, factor: Factor) -> Bindings:
        """The bindings of a factor that given facts leave open."""
        if factor.labelled is not None:
            return self._labelled(factor.labelled)
        if factor.below is not None:  # one row for each track below
            return all_rows(self.row_truth.tables, factor.axes)
        rows = self.row_truth.instances(factor.axes, factor.formula)
        if factor.weight is None:  # both orders of a pair say the same
            for one, other in itertools.combinations(factor.axes, 2):
                if interchangeable(factor.formula, one, other):
                    once = rows.places[one] <= rows.places[other]
                    rows = rows.take(once.nonzero().squeeze(-1))
        return rows

    def _labelled(self, atom: c.Atom) -> Bindings:
        """The bindings of an atom's variables that have labels."""
        name = atom.predicate
        if name in self.evidence.logits:
            return all_rows(
                self.row_truth.tables, [t.axis for t in atom.args if isinstance(t, c.Variable)]
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

    def _contacts(self, factor: Factor, rows: Bindings) -> tuple[Tensor, Tensor]:
        atoms = atoms_of(factor.formula, self.kind.moving.names)
        if all(self.kind.moving.bit(a) is not None for a in atoms):
            return self.contacts.of_rows(factor.formula, rows)
        every = torch.arange(len(self.rows), device=self.device)  # any track may touch
        trace = self.rows.trace
        hits = (rows.trace.unsqueeze(-1) == trace).nonzero()
        return hits[:, 0], every[hits[:, 1]]
