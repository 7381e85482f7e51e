"""The states of axioms, from which a `Judge` reads verdicts.

Each binding of a leaf has a state of the leaf's automaton. One array holds the states of all
bindings of all axioms. A step looks up the letters of all bindings, and then their next states.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.parts import free_axes
from fotltn.logic.signature import Signature
from fotltn.monitor.automaton import Automaton
from fotltn.monitor.cells import Columns, Letters, is_plain
from fotltn.monitor.compile import Skeleton, skeleton
from fotltn.monitor.domain import Array, Axes, Stranger, aligner, ordered
from fotltn.monitor.outer import Outer
from fotltn.monitor.reader import Reader, Stretch
from fotltn.monitor.table import Flag, TransitionTable
from fotltn.monitor.unseen import noticed, tells_apart

_MOST_NOTICED = 4  # most kinds of strangers that an axiom may notice

Strangers = frozenset[Stranger]


@dataclass(slots=True)
class LeafStates:
    """The states of a leaf in a world, one for each binding.

    Args:
        axes: the free variables of the leaf.
        skeleton: the skeleton of the leaf.
        number: the number of its automaton in the table.
        reader: computes those letters that are not stated facts.
        start, stop: its first place in the array of all states, and the one after its last.
    """

    axes: Axes
    skeleton: Skeleton
    number: int
    reader: Reader
    start: int = 0
    stop: int = 0


@dataclass(slots=True)
class FollowedAxiom:
    """An axiom that automata follow.

    Args:
        name: the name of the axiom.
        tree: its outer quantifiers and connectives over leaves, which are atoms named by number.
        kinds: the kinds of strangers that quantifiers inside temporal operators notice. There is a
            world for each set of kinds: the kinds that will still come.
        parts: the states of each leaf in each world.
        readers: the reader of each world.
        decided: whether the verdict is certain, so that the axiom need not be followed.
    """

    name: str
    tree: c.Formula
    kinds: tuple[Stranger, ...]
    parts: dict[tuple[Strangers, int], LeafStates] = field(default_factory=dict)
    readers: dict[Strangers, Reader] = field(default_factory=dict)
    decided: bool = False

    @property
    def worlds(self) -> list[Strangers]:
        """All sets of kinds of strangers, the empty set first."""
        sizes = range(len(self.kinds) + 1)
        return [frozenset(w) for n in sizes for w in itertools.combinations(self.kinds, n)]


class Crisp:
    """The states of all axioms that automata can follow.

    Attributes:
        rows: the states of all bindings, as rows of the table.
        live: the places of bindings that may still change a verdict; only these are followed.
    """

    def __init__(
        self, signature: Signature, columns: Columns, table: TransitionTable | None = None
    ) -> None:
        """Start without axioms; another monitor may share its table."""
        self.signature, self.domain = signature, columns.domain
        self.letters = Letters(columns)
        self.read: list[tuple[LeafStates, c.Formula]] = []  # letters that are not stated facts
        self.table = TransitionTable() if table is None else table
        self.table.users.add(self)
        self.plain = Reader(self.domain)
        self.axioms: list[FollowedAxiom] = []
        self.rows: Array = np.zeros(0, dtype=np.intp)
        self.live: Array = np.zeros(0, dtype=np.intp)

    def add(self, name: str, outer: Outer) -> None:
        """Follow one more axiom.

        Raises:
            LimitError: the axiom has too many letters, or notices too many kinds of strangers.
                Then nothing is added.
        """
        kinds = self._noticed(outer.leaves)
        by_name = tuple(sorted(kinds, key=lambda k: (k.sort, sorted(k.marks))))
        axiom = FollowedAxiom(name, outer.tree, by_name)
        automata = [Automaton(skeleton(leaf, self.signature)) for leaf in outer.leaves]
        for world in axiom.worlds:
            reader = axiom.readers[world] = Reader(self.domain, world) if kinds else self.plain
            for number, (leaf, automaton) in enumerate(zip(outer.leaves, automata, strict=True)):
                bones, place = automaton.skeleton, self.table.add(automaton)
                part = LeafStates(ordered(free_axes(leaf)), bones, place, reader)
                axiom.parts[world, number] = part
                for formula in bones.letters:
                    if not is_plain(formula):
                        reader.add(formula)
                        self.read.append((part, formula))
        self.axioms.append(axiom)

    def _noticed(self, leaves: Iterable[c.Formula]) -> set[Stranger]:
        kinds = [k for sort in self.domain.names for k in self.domain.kinds(sort)]
        every: set[Stranger] = set()
        for leaf in leaves:
            of_leaf = noticed(leaf, kinds, self.signature)
            if any(tells_apart(leaf, k.sort) for k in of_leaf):
                raise LimitError("it counts entities, and more may come")
            every |= of_leaf
        if len(every) > _MOST_NOTICED:
            raise LimitError("too many kinds of late entities would change its past")
        return every

    @property
    def readers(self) -> list[Reader]:
        """The readers of all axioms and worlds."""
        worlds = [r for axiom in self.axioms if axiom.kinds for r in axiom.readers.values()]
        return [self.plain, *worlds]

    @property
    def parts(self) -> list[LeafStates]:
        """The states of all leaves, in the order of the array."""
        return [part for axiom in self.axioms for part in axiom.parts.values()]

    # --- steps --------------------------------------------------------------------------------

    def begin(self, fixed: Stretch) -> dict[str, str]:
        """Compute the states before the first step from the static facts.

        Returns:
            The axioms that turn out to have too many states, with the reason. They are dropped.
        """
        rows: list[Array] = []
        dropped: dict[str, str] = {}
        for axiom in self.axioms:
            try:
                rows += [self._first(p, world, fixed) for (world, _), p in axiom.parts.items()]
            except LimitError as error:
                dropped[axiom.name] = error.diagnostics[0].message
        self.axioms = [a for a in self.axioms if a.name not in dropped]
        left = {id(p) for p in self.parts}
        self.read = [(p, f) for p, f in self.read if id(p) in left]
        self.adopt(rows)
        return dropped

    def _first(self, part: LeafStates, world: Strangers, fixed: Stretch) -> Array:
        reader = Reader(self.domain, world)
        for formula in part.skeleton.statics:
            reader.add(formula)
        reader.read(fixed)
        bits = np.zeros((1, *self.domain.shape(part.axes)), dtype=np.intp)
        for place, formula in enumerate(part.skeleton.statics):
            bits += self._value(reader, formula, part.axes, 1).astype(np.intp) << place
        rows = np.zeros_like(bits)
        for value in np.unique(bits).tolist():
            rows[bits == value] = self.table.start(part.number, value)
        return rows

    def run(self, stretch: Stretch, cells: Array) -> Array:
        """Return the states of live places after each step, with axes (step, live place).

        Args:
            stretch: the steps.
            cells: their truth values, with axes (column, step).
        """
        for reader in self.readers:
            reader.read(stretch)
        others = [
            self._value(p.reader, f, p.axes, stretch.count).reshape(stretch.count, -1).T
            for p, f in self.read
        ]
        self.table.tidy()
        cells = np.concatenate([cells, *others]) if others else cells
        rows = self.table.run(self.rows[self.live], self.letters.read(cells))
        self.rows[self.live] = rows[-1]
        return rows

    def settle(self) -> bool:
        """Drop decided places if they are many, and return whether any were dropped."""
        certain = len(self.live) - np.count_nonzero(self._undecided()[self.live])
        if certain * 8 <= len(self.live):
            return False
        self._choose()
        return True

    def _undecided(self) -> Array:
        """Return which places may still change a verdict."""
        flags = self.table.flags[self.rows]
        undecided: Array = (flags & Flag.NOT_SURE != 0) & (flags & Flag.NOT_LOST != 0)
        for axiom in self.axioms:
            for part in axiom.parts.values() if axiom.decided else ():
                undecided[part.start : part.stop] = False
        return undecided

    def _choose(self) -> None:
        """Find the live places and their letters."""
        undecided = self._undecided()
        self.live = np.flatnonzero(undecided)
        self.letters.renew((p.skeleton, p.axes, undecided[p.start : p.stop]) for p in self.parts)

    def grown(self, kind: Stranger) -> list[Array]:
        """Return the states with one more entity, which takes over the state of a stranger.

        Pass them to `adopt` once the entity has its number.
        """
        rows = []
        grown = {id(reader): reader.grown(kind) for reader in self.readers}
        self.plain.adopt(grown[id(self.plain)])
        for axiom in self.axioms:
            more = {kind} & set(axiom.kinds)
            for (world, number), part in axiom.parts.items():
                origin = axiom.parts[world | more, number]
                old = self.rows[origin.start : origin.stop]
                shape = (1, *self.domain.shape(part.axes))
                rows.append(self.domain.grown(old.reshape(shape), part.axes, kind))
            if axiom.kinds:
                for world, reader in axiom.readers.items():
                    reader.adopt(grown[id(axiom.readers[world | more])])
        return rows

    def adopt(self, rows: Sequence[Array]) -> None:
        """Put the states of all leaves into one array, and find their letters."""
        start = 0
        for part, states in zip(self.parts, rows, strict=True):
            part.start, part.stop = start, start + states.size
            start = part.stop
        self.rows = np.concatenate([self.rows[:0], *(states.reshape(-1) for states in rows)])
        self._choose()

    def _value(self, reader: Reader, formula: c.Formula, axes: Axes, count: int) -> Array:
        """Return the truth of a formula for all bindings of axes, with axes (step, axes …)."""
        slot = reader.slots[formula]
        value = aligner(reader.axes[slot], axes)(reader.values[slot])
        return np.broadcast_to(value, (count, *self.domain.shape(axes)))
