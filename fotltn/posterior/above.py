"""Priors that depend on tracks above: a rack without power explains why its servers are slow.

If a hard axiom ties tracks of two kinds, the kind with fewer tracks stands above the other. What
the axiom reads of the tracks above is then known to the prior of the tracks below, as given facts
are: values that follow from the tracks above are no choice, and cost nothing. The prior of a world
is thus that of the tracks above, times that of the tracks below given those above. A draw of a
track above counts what its values say about the tracks below.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fotltn.logic.defined import Definition
from fotltn.logic.parts import predicates_in
from fotltn.posterior.patterns import TrackCells
from fotltn.posterior.track_kind import TrackKind


def conditions_above(
    kinds: Sequence[TrackKind], tied: Collection[str], free: Collection[str],
    definitions: Mapping[str, Definition], sizes: Mapping[str, int],
) -> list[tuple[int, ...]]:  # fmt: skip
    """Find for each kind the conditions that its prior reads of tracks above.

    Args:
        kinds: the kinds of tracks.
        tied: the hard axioms that tie tracks, although tracks move one at a time.
        free: the predicates that are drawn.
        definitions: the defined predicates, each after those that it uses.
        sizes: the number of entities of each sort.
    """
    counts = [math.prod(sizes[sort] for sort in kind.moving.sorts) for kind in kinds]
    below: dict[str, int] = {}  # the most tracks of a kind that moves a predicate
    for kind, count in zip(kinds, counts, strict=True):
        for bit in kind.moving.bits[: kind.free]:
            below[bit.predicate] = max(count, below.get(bit.predicate, 0))
    result = []
    for kind, count in zip(kinds, counts, strict=True):
        bits = kind.shape.bits
        read = {
            column - bits
            for axiom, part in kind.parts if axiom in tied
            for column in part.columns if column >= bits
        }  # fmt: skip
        some = []
        for number in sorted(read):
            names = free_beneath(predicates_in(kind.conditions[number]), free, definitions)
            if names and all(below.get(name, 0) < count for name in names):
                some.append(number)
        result.append(tuple(some))
    return result


def free_beneath(
    names: Collection[str], free: Collection[str], definitions: Mapping[str, Definition]
) -> set[str]:
    """The predicates that are drawn among some predicates and those that define them."""
    every = {*names}
    for name, definition in reversed([*definitions.items()]):
        if name in every:
            every |= predicates_in(definition.formula)
    return every & {*free}


def only_now(kind: TrackKind, numbers: Collection[int]) -> bool:
    """Whether the states of a track do not depend on some conditions.

    Conditions then act only at their own time point, so that a window holds what the prior reads.
    """
    shape, product = kind.shape, kind.product
    columns = {shape.bits + number for number in numbers}
    laws = {*shape.laws[: product.laws.shape[1]]}
    for number, (_, part) in enumerate(kind.parts):
        if columns & {*part.columns} and number not in laws:
            return False
    mask = sum(1 << number for number in numbers)
    first: dict[int, np.ndarray[tuple[int, int], np.dtype[np.int64]]] = {}
    for word, after in zip(shape.conditions, product.next, strict=True):
        rest = word & ~mask
        if rest not in first:
            first[rest] = after.copy()
            continue
        known = first[rest]
        both = (known < product.states) & (after < product.states)
        if not np.array_equal(known[both], after[both]):
            return False
        np.minimum(known, after, out=known)  # a number beyond all states leads nowhere
    return True


@dataclass(frozen=True, slots=True, eq=False)
class PriorBelow:
    """The prior of the tracks of a kind in the present worlds, whatever tracks above may be.

    Args:
        table: the log-probabilities of edges, with axes (condition, edge).
        edges: the edges of tracks, with axes (time, track, world).
        words: the values of conditions, as bits of numbers, with axes (world, track, time).
        symbols: the values that conditions may have, sorted.
        first: the number of the first condition in the table, with axes (track, time).
    """

    table: Tensor
    edges: Tensor
    words: Tensor
    symbols: Tensor
    first: Tensor

    def of_cells(self, cells: TrackCells, truth: Mapping[int, Tensor]) -> Tensor:
        """The log-probability of the values of tracks at time points.

        Args:
            cells: the tracks, as rows, at time points.
            truth: the truth of some conditions, with axes (world, cell, pattern …).

        Returns:
            The log-probabilities, with the same axes.
        """
        row, time = cells.row, cells.time
        patterns = [1] * (next(iter(truth.values())).dim() - 2)
        mask = sum(1 << number for number in truth)
        word = (self.words[:, row, time] & ~mask).reshape(-1, len(cells), *patterns)
        for number, value in truth.items():
            word = word | value.to(torch.int64) << number
        case = torch.searchsorted(self.symbols, word).clamp_max(len(self.symbols) - 1)
        case += self.first[row, time].reshape(-1, *patterns)
        table = torch.nn.functional.pad(self.table, (0, 1))  # the last edge stands for none
        edges = self.edges[time, row].T.reshape(-1, len(cells), *patterns)
        return table[case, edges]
