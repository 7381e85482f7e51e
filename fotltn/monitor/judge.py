"""Turn the states of automata into verdicts, for many steps and axioms at once.

The knowledge about a formula is a set of bits of `Flag`. For ∧ and ∀, the bits LOST, NOT_END and
NOT_SURE of the parts are joined by or; for ∨ and ∃, the bits of the negations. Most axioms are one
leaf under quantifiers of one kind, so one look-up joins all their bindings. Other axioms are
computed part by part.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.crisp import Crisp, FollowedAxiom, Strangers
from fotltn.monitor.domain import Array, Axes, aligner
from fotltn.monitor.table import Flag
from fotltn.tree import postorder

#: Verdicts as numbers. The first two are open, with the truth if the trace ended now.
FALSE_NOW, TRUE_NOW, SURE, LOST = range(4)

_EVERY = 63
_STRANGER = Flag.NOT_SURE | Flag.NOT_LOST  # strangers are not present, but may come


def _completed(bits: int, universal: bool) -> int:
    """Return all flags of ∀ (or ∃), given the bits that are joined by or."""
    half = bits & 7 if universal else bits >> 3
    return half | (half ^ 7) << 3 if universal else half << 3 | half ^ 7


_COMPLETED = np.array(
    [[_completed(bits, universal) for bits in range(64)] for universal in (False, True)],
    dtype=np.uint8,
)


def _code(flags: int) -> int:
    if flags & Flag.NOT_SURE and flags & Flag.NOT_LOST:
        return TRUE_NOW if flags & Flag.END else FALSE_NOW
    return LOST if flags & Flag.NOT_SURE else SURE


_CODES = np.array([_code(flags) for flags in range(64)], dtype=np.int8)
_FLAT_CODES = _CODES[_COMPLETED].reshape(-1)  # for ∃, then for ∀

Known = dict[c.Core, tuple[Axes, Array]]


class Judge:
    """Verdicts on the axioms that automata follow."""

    def __init__(self, crisp: Crisp, signature: Signature) -> None:
        """Prepare; call `renew` before judging."""
        self.crisp, self.domain, self.signature = crisp, crisp.domain, signature
        self.flat: list[int] = []
        self.rest: list[int] = []
        self.masks: Array = np.zeros(0, dtype=np.uint8)
        self.starts: list[int] = []
        self.kinds: Array = np.zeros(0, dtype=np.uint8)
        self.settled: dict[int, int] = {}

    def renew(self) -> None:
        """Find the places of each axiom among the live ones; call this when these change."""
        live = self.crisp.live
        known: Array = self.crisp.table.flags[self.crisp.rows]
        known[live] = 0  # each step gives these
        self.flat, self.rest, self.starts, self.settled = [], [], [], {}
        self.masks = np.zeros(len(live), dtype=np.uint8)
        kinds: list[int] = []
        for number, axiom in enumerate(self.crisp.axioms):
            if axiom.decided:
                continue
            universal = _one_kind(axiom)
            if universal is None:
                self.rest.append(number)
                continue
            part = axiom.parts[frozenset(), 0]
            mask = np.where(self.domain.present(part.axes), _EVERY, int(_STRANGER)).reshape(-1)
            certain = int(np.bitwise_or.reduce(known[part.start : part.stop] & mask))
            first, stop = np.searchsorted(live, [part.start, part.stop]).tolist()
            if first == stop:
                self.settled[number] = int(_FLAT_CODES[certain | 64 * universal])
                continue
            self.masks[first:stop] = mask[live[first:stop] - part.start]
            self.flat.append(number)
            self.starts.append(first)
            kinds.append(certain | 64 * universal)
        self.kinds = np.array(kinds, dtype=np.uint8)

    def flags(self, rows: Array, left: Sequence[int] | None = None) -> Array:
        """Return the flags of states, with axes (step, live place).

        Args:
            rows: the states of live places after each step.
            left: the number of steps still to come after each step, if it is known.
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
        """Return the verdict of each axiom after each step, as numbers with axes (step, axiom)."""
        codes = np.zeros((len(flags), len(self.crisp.axioms)), dtype=np.int8)
        codes[:, list(self.settled)] = list(self.settled.values())
        if self.flat:
            joined = np.bitwise_or.reduceat(flags & self.masks, self.starts, axis=1) | self.kinds
            codes[:, self.flat] = _FLAT_CODES[joined]
        every = self._every(flags) if self.rest else flags
        for number in self.rest:
            axiom = self.crisp.axioms[number]
            first, *others = (
                self._known(axiom, world, every)[axiom.tree][1] for world in axiom.worlds
            )
            for other in others:  # only what holds in all worlds is certain
                first = first | other & _STRANGER
            codes[:, number] = _CODES[first]
        return codes

    def _every(self, flags: Array) -> Array:
        """Return the flags of all places, given the flags of live places."""
        every = np.tile(self.crisp.table.flags[self.crisp.rows], (len(flags), 1))
        every[:, self.crisp.live] = flags
        return every

    def _known(self, axiom: FollowedAxiom, world: Strangers, flags: Array) -> Known:
        """Return the flags of each part of an axiom, with axes (step, named axes …)."""
        known: Known = {}
        for node in postorder(axiom.tree):
            match c.closed(node):
                case c.Atom(number):
                    part = axiom.parts[world, int(number)]
                    shape = (len(flags), *self.domain.shape(part.axes))
                    known[node] = part.axes, flags[:, part.start : part.stop].reshape(shape)
                case c.And(left, right) | c.Or(left, right):
                    axes = tuple(dict.fromkeys((*known[left][0], *known[right][0])))
                    a, b = (aligner(known[n][0], axes)(known[n][1]) for n in (left, right))
                    known[node] = axes, _COMPLETED[int(isinstance(node, c.And))][a | b]
                case c.Quantifier(universal, bound, _, body):
                    inner, bits = known[body]
                    axes = tuple(a for a in inner if a not in bound)
                    counts = np.where(self.domain.present(bound), _EVERY, int(_STRANGER))
                    bits = aligner(inner, (*axes, *bound))(bits) & counts
                    dims = tuple(range(1 + len(axes), bits.ndim))
                    known[node] = axes, _COMPLETED[int(universal)][np.bitwise_or.reduce(bits, dims)]
                case (
                    c.Truth() | c.Edge() | c.Equal() | c.Compare() | c.Not() | c.Implies()
                    | c.Shift() | c.Aggregate() | c.Until()
                ):  # fmt: skip
                    raise AssertionError(node)  # parts of leaves
                case never:
                    assert_never(never)
        return known

    def blame(self, axiom: FollowedAxiom, flags: Array, *, ended: bool) -> dict[str, str]:
        """Return the first binding of the outermost universal quantifiers that breaks an axiom.

        Args:
            axiom: the axiom.
            flags: the flags of live places at one step.
            ended: whether the trace ends there.
        """
        known = self._known(axiom, frozenset(), self._every(flags[None]))
        places: dict[c.Axis, int] = {}

        def broken(node: c.Formula) -> tuple[Axes, Array]:
            axes, bits = known[node]
            free = tuple(a for a in axes if a not in places)
            index = (0, *(places.get(a, slice(None)) for a in axes))
            return free, bits[index] & (Flag.NOT_END if ended else Flag.LOST) != 0

        node = axiom.tree
        while True:
            match c.closed(node):
                case c.And(left, right):
                    node = left if bool(broken(left)[1].any()) else right
                case c.Quantifier(True, _, _, body):
                    free, wrong = broken(body)
                    wrong = wrong & self.domain.present(free)
                    if not wrong.any():  # no present entity breaks it
                        return self._named(places)
                    places.update(zip(free, np.argwhere(wrong)[0].tolist(), strict=True))
                    node = body
                case (
                    c.Truth() | c.Edge() | c.Atom() | c.Equal() | c.Compare() | c.Not() | c.Or()
                    | c.Implies() | c.Quantifier() | c.Shift() | c.Aggregate() | c.Until()
                ):  # fmt: skip
                    return self._named(places)
                case never:
                    assert_never(never)

    def _named(self, places: Mapping[c.Axis, int]) -> dict[str, str]:
        """Return a binding with names instead of numbers."""
        binding = {}
        for axis, number in places.items():
            if axis.relation is None:
                binding[axis.name] = self.domain.name(str(axis.sort), number)
                continue
            sorts = self.signature.relations[axis.relation].sorts
            numbers = self.domain.relations[axis.relation][number].tolist()
            for variable, sort, entity in zip(axis.name.split(","), sorts, numbers, strict=True):
                binding[variable] = self.domain.name(sort, entity)
        return binding


def _one_kind(axiom: FollowedAxiom) -> bool | None:
    """Return whether the quantifiers of an axiom are ∀; None if they differ.

    Also None if the axiom has several leaves, or if a quantifier binds no variable of its leaf.
    """
    node, bound = axiom.tree, set[c.Axis]()
    kinds: set[bool] = set()
    while isinstance(node, c.Quantifier):
        kinds.add(node.universal)
        bound |= set(node.axes)
        node = node.body
    if len(kinds) > 1 or axiom.kinds or not isinstance(node, c.Atom):
        return None
    return kinds != {False} if bound <= set(axiom.parts[frozenset(), 0].axes) else None
