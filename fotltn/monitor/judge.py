"""From the states of automata to what is certain of each axiom, for many steps and axioms at once.

Most axioms are a leaf under quantifiers of one kind. What is known of all their bindings is joined
by one look-up. The others are put together part by part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from fotltn.logic import core as c
from fotltn.monitor.crisp import Axiom, Crisp, World
from fotltn.monitor.domain import Array
from fotltn.monitor.normal import Leaf, Outer, Over
from fotltn.monitor.table import Flag
from fotltn.monitor.verdicts import Found, Outcome

#: What is known of an axiom as a number; the first two are open, and what it would be at the end.
FALSE_NOW, TRUE_NOW, SURE, LOST = range(4)

_UNIVERSAL = Flag.LOST | Flag.NOT_END | Flag.NOT_SURE
_EXISTENTIAL = Flag.SURE | Flag.END | Flag.NOT_LOST
_SOME = 64  # a further bit, for axioms under ∃


def _meaning(bits: int) -> int:
    """What joined flags say."""
    if bits & _SOME:
        if bits & Flag.SURE:
            return SURE
        return int(bool(bits & Flag.END)) if bits & Flag.NOT_LOST else LOST
    if bits & Flag.LOST:
        return LOST
    return int(not bits & Flag.NOT_END) if bits & Flag.NOT_SURE else SURE


_MEANING = np.array([_meaning(bits) for bits in range(2 * _SOME)], dtype=np.int8)


class Judge:
    """Verdicts on the axioms that automata follow."""

    def __init__(self, crisp: Crisp, outcome: Outcome) -> None:
        """Nothing is judged before the first `renew`."""
        self.crisp, self.outcome = crisp, outcome
        self.flat: list[int] = []
        self.rest: list[int] = []
        self.places: Array = np.zeros(0, dtype=np.intp)
        self.masks: Array = np.zeros(0, dtype=np.uint8)
        self.starts: Array = np.zeros(0, dtype=np.intp)
        self.kinds: Array = np.zeros(0, dtype=np.uint8)

    def renew(self) -> None:
        """Find out where the states of axioms are, when there are more entities."""
        self.flat, self.rest = [], []
        places, masks, starts, kinds, count = [], [], [], [], 0
        for number, axiom in enumerate(self.crisp.axioms):
            flat = self._flat(axiom) if len(self.crisp.rows) else None
            if flat is None:
                self.rest.append(number)
                continue
            universal, mask = flat
            part = axiom.parts[frozenset(), 0]
            # One more place, of which nothing counts, so that no axiom is without places.
            places.append(np.append(np.arange(part.start, part.stop), 0))
            masks.append(np.append(mask, 0))
            self.flat.append(number)
            kinds.append(0 if universal else _SOME)
            starts.append(count)
            count += len(mask) + 1
        if places:
            self.places, self.masks = np.concatenate(places), np.concatenate(masks)
            self.masks = self.masks.astype(np.uint8)
            self.starts = np.array(starts)
            self.kinds = np.array(kinds, dtype=np.uint8)

    def _flat(self, axiom: Axiom) -> tuple[bool, Array] | None:
        """The kind of an axiom's quantifiers, and what counts of each binding, if all are alike."""
        node: Outer = axiom.tree
        universal: bool | None = None
        bound: list[c.Axis] = []
        while isinstance(node, Over):
            if universal not in (None, node.universal):
                return None
            universal = node.universal
            bound += node.axes
            node = node.body
        if axiom.kinds or not isinstance(node, Leaf) or not set(bound) <= set(node.axes):
            return None
        shape = self.crisp.shape(node.axes)
        here = np.ones(shape, dtype=np.bool_)
        for dim, axis in enumerate(node.axes):
            if axis.sort is not None:
                hidden = [slice(None)] * dim
                here[(*hidden, slice(0, self.crisp.domain.strangers(axis.sort)))] = False
        some = universal is False
        every = _EXISTENTIAL if some else _UNIVERSAL
        stranger = Flag.NOT_LOST if some else Flag.NOT_SURE
        return not some, np.where(here, int(every), int(stranger)).reshape(-1)

    def flags(self, rows: Array, left: Sequence[int] | None = None) -> Array:
        """What is known of states, as bits with axes (step, place).

        Args:
            rows: the states after each step.
            left: how many steps come after each, if that is known.
        """
        table = self.crisp.table
        flags: Array = table.flags.take(rows)
        levels = [table.level(n) if n else () for n in left or ()]
        start = 0
        for level, same in itertools.groupby(levels):
            stop = start + len(list(same))
            if left and level:
                flags[start:stop] = table.within(rows[start:stop], left[start])
            start = stop
        return flags

    def codes(self, flags: Array) -> Array:
        """What is known of each axiom after each step, as numbers with axes (step, axiom)."""
        found = np.zeros((len(flags), len(self.crisp.axioms)), dtype=np.int8)
        if self.flat:
            counted = flags.take(self.places, axis=1) & self.masks
            joined = np.bitwise_or.reduceat(counted, self.starts, axis=1) | self.kinds
            found[:, self.flat] = _MEANING[joined]
        for number in self.rest:
            whole = self.found(self.crisp.axioms[number], flags)[-1]
            found[:, number] = np.where(whole.sure, SURE, np.where(whole.lost, LOST, whole.end))
        return found

    def found(self, axiom: Axiom, flags: Array) -> list[Found]:
        """What is known of each part of an axiom, the whole last; of that, in all worlds."""
        found, *others = (
            self.outcome.whole(axiom.tree, self._leaf(axiom, world, flags))
            for world in axiom.worlds
        )
        for other in others:
            whole = found[-1]
            found[-1] = whole._replace(
                sure=whole.sure & other[-1].sure, lost=whole.lost & other[-1].lost
            )
        return found

    def blame(self, axiom: Axiom, flags: Array, *, ended: bool) -> dict[str, str]:
        """The first binding that breaks an axiom, at one step."""
        return self.outcome.blame(axiom.tree, self.found(axiom, flags[None]), ended=ended)

    def _leaf(self, axiom: Axiom, world: World, flags: Array) -> Callable[[int, Leaf], Found]:
        def read(number: int, leaf: Leaf) -> Found:
            part = axiom.parts[world, number]
            own = flags[:, part.start : part.stop]
            own = own.reshape(len(flags), *self.crisp.shape(leaf.axes))
            bits = (own & flag != 0 for flag in (Flag.SURE, Flag.LOST, Flag.END))
            return Found(leaf.axes, *bits)

        return read
