"""Colours of tracks: tracks of one colour are not tied to each other, and move at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.logic import core as c
from fotltn.posterior.kinds import Factor
from fotltn.posterior.patterns import Contacts, TrackCells
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
