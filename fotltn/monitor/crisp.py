"""Verdicts: what is certain of each axiom, whatever comes, and what it would be at the end.

Each binding of a leaf is a state of an automaton. All of them, of all axioms, are one array; a step
looks up the letters of all, and then the next states of all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fotltn.errors import LimitError
from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.automaton import Automaton
from fotltn.monitor.cells import Columns, Letters, is_plain
from fotltn.monitor.domain import Array, Kind
from fotltn.monitor.normal import Leaf, Outer
from fotltn.monitor.reader import Axes, Reader, Stretch
from fotltn.monitor.skeleton import Skeleton, skeleton
from fotltn.monitor.strangers import noticed, tells_apart
from fotltn.monitor.table import Table
from fotltn.monitor.verdicts import walk

_MOST_NOTICED = 4  # kinds of strangers that an axiom may notice

World = frozenset[Kind]


@dataclass(slots=True)
class Part:
    """The states of a leaf in a world, one for each binding.

    Args:
        leaf: the leaf.
        skeleton: of the leaf.
        number: of its automaton in the table.
        reader: what its letters are read by.
        start, stop: its places in the array of all states.
    """

    leaf: Leaf
    skeleton: Skeleton
    number: int
    reader: Reader
    start: int = 0
    stop: int = 0


@dataclass(slots=True)
class Axiom:
    """An axiom that automata follow.

    Args:
        name: of the axiom.
        tree: its outer quantifiers, down to leaves.
        kinds: the strangers that matter inside of time. There is a world for each set of them:
            those who will still come.
        parts: the states of each leaf in each world.
        readers: of the worlds.
    """

    name: str
    tree: Outer
    kinds: tuple[Kind, ...]
    parts: dict[tuple[World, int], Part] = field(default_factory=dict)
    readers: dict[World, Reader] = field(default_factory=dict)

    @property
    def worlds(self) -> list[World]:
        """All sets of strangers that matter, the empty one first."""
        sizes = range(len(self.kinds) + 1)
        return [frozenset(w) for n in sizes for w in itertools.combinations(self.kinds, n)]


class Crisp:
    """The states of all axioms that automata can follow."""

    def __init__(
        self,
        signature: Signature,
        columns: Columns,
        relations: Mapping[str, Array],
        table: Table | None = None,
    ) -> None:
        """No axioms yet; the table may be that of another monitor."""
        self.signature, self.domain, self.relations = signature, columns.domain, relations
        self.letters = Letters(columns, relations)
        self.parts: list[Part] = []
        self.read: list[tuple[Part, c.Formula]] = []  # letters that are no cells
        self.table = Table() if table is None else table
        self.table.users.add(self)
        self.plain = Reader(self.domain, relations)
        self.axioms: list[Axiom] = []
        self.rows: Array = np.zeros(0, dtype=np.intp)

    def add(self, name: str, tree: Outer) -> None:
        """Follow an axiom, too.

        Raises:
            LimitError: it has too many letters, or notices too much; nothing is added.
        """
        leaves = [n for n in walk(tree) if isinstance(n, Leaf)]
        kinds = self._noticed(leaves)
        axiom = Axiom(name, tree, tuple(sorted(kinds, key=lambda k: (k.sort, sorted(k.marks)))))
        made = [skeleton(leaf.formula, self.signature) for leaf in leaves]
        for world in axiom.worlds:
            reader = Reader(self.domain, self.relations, world) if kinds else self.plain
            axiom.readers[world] = reader
            for number, (leaf, bones) in enumerate(zip(leaves, made, strict=True)):
                automaton = self.table.add(Automaton(bones))
                part = axiom.parts[world, number] = Part(leaf, bones, automaton, reader)
                self.parts.append(part)
                for formula in bones.letters:
                    if not is_plain(formula):
                        reader.add(formula)
                        self.read.append((part, formula))
        self.axioms.append(axiom)

    def _noticed(self, leaves: Iterable[Leaf]) -> set[Kind]:
        kinds = [k for sort in self.domain.names for k in self.domain.kinds(sort)]
        found: set[Kind] = set()
        for leaf in leaves:
            own = noticed(leaf.formula, kinds, self.signature)
            if any(tells_apart(leaf.formula, k.sort) for k in own):
                raise LimitError("it counts entities, of which more may come")
            found |= own
        if len(found) > _MOST_NOTICED:
            raise LimitError("too many kinds of entities may come that would change its past")
        return found

    @property
    def readers(self) -> list[Reader]:
        """All readers."""
        own = [r for axiom in self.axioms if axiom.kinds for r in axiom.readers.values()]
        return [self.plain, *own]

    # --- steps --------------------------------------------------------------------------------

    def begin(self, fixed: Stretch) -> dict[str, str]:
        """The states before the first step, from what is static.

        Returns:
            The axioms that turn out to have too many states, with the reason; they are dropped.
        """
        rows: list[Array] = []
        dropped: dict[str, str] = {}
        for axiom in self.axioms:
            try:
                rows += self._first(axiom, fixed)
            except LimitError as error:
                dropped[axiom.name] = error.diagnostics[0].message
        self.axioms = [a for a in self.axioms if a.name not in dropped]
        left = {id(p) for a in self.axioms for p in a.parts.values()}
        self.parts = [p for p in self.parts if id(p) in left]
        self.read = [(p, f) for p, f in self.read if id(p) in left]
        self.adopt(rows)
        return dropped

    def _first(self, axiom: Axiom, fixed: Stretch) -> list[Array]:
        rows = []
        for (world, _), part in axiom.parts.items():
            reader = Reader(self.domain, self.relations, world)
            for formula in part.skeleton.statics:
                reader.add(formula)
            reader.read(fixed)
            bits = np.zeros(self.shape(part.leaf.axes), dtype=np.intp)
            for place, formula in enumerate(part.skeleton.statics):
                bits += self._value(reader, formula, part.leaf.axes)[0].astype(np.intp) << place
            rows.append(self._starts(part, bits))
        return rows

    def run(self, stretch: Stretch, cells: Array) -> Array:
        """The states after each step, with axes (step, place)."""
        for reader in self.readers:
            reader.read(stretch)
        if self.read:
            cells = np.concatenate([cells, self._others(stretch.count)], axis=1)
        self.table.tidy()
        found = self.table.run(self.rows, self.letters.read(cells))
        self.rows = found[-1].copy()
        return found

    def _others(self, count: int) -> Array:
        """The letters that are no cells, with axes (step, place)."""
        found = []
        for part, formula in self.read:
            value = self._value(part.reader, formula, part.leaf.axes)
            value = np.broadcast_to(value, (count, *value.shape[1:]))
            found.append(value.reshape(count, -1))
        return np.concatenate(found, axis=1)

    def grown(self, kind: Kind) -> list[Array]:
        """The states with one more entity, who is as a stranger of that kind was.

        They are for `adopt`, once the entity has its number.
        """
        rows = []
        grown = {id(reader): reader.grown(kind) for reader in self.readers}
        self.plain.adopt(grown[id(self.plain)])
        for axiom in self.axioms:
            more = {kind} & set(axiom.kinds)
            for (world, number), part in axiom.parts.items():
                origin = axiom.parts[world | more, number]
                old = self.rows[origin.start : origin.stop].reshape(self.shape(part.leaf.axes))
                rows.append(self.domain.grown(old, part.leaf.axes, kind))
            if axiom.kinds:
                for world, reader in axiom.readers.items():
                    reader.adopt(grown[id(axiom.readers[world | more])])
        return rows

    def adopt(self, rows: Sequence[Array]) -> None:
        """Put the states of all parts into one array, and find their letters."""
        start = 0
        for part, own in zip(self.parts, rows, strict=True):
            part.start, part.stop = start, start + own.size
            start = part.stop
        self.letters.renew((p.skeleton, p.leaf.axes) for p in self.parts)
        flat = [own.reshape(-1) for own in rows]
        self.rows = np.concatenate(flat) if flat else np.zeros(0, dtype=np.intp)

    def _starts(self, part: Part, bits: Array) -> Array:
        found = np.zeros(bits.shape, dtype=np.intp)
        for value in np.unique(bits).tolist():
            found[bits == value] = self.table.start(part.number, value)
        return found

    def _value(self, reader: Reader, formula: c.Formula, axes: Axes) -> Array:
        """The truth of a formula for all bindings of axes, with axes (step, axes …)."""
        slot = reader.slots[formula]
        value, own = reader.values[slot], reader.axes[slot]
        order = [0, *(1 + own.index(a) for a in axes if a in own)]
        index = (slice(None), *(slice(None) if a in own else None for a in axes))
        found = value.transpose(order)[index]
        return np.broadcast_to(found, (len(found), *self.shape(axes)))

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """The sizes of axes, with strangers."""
        return tuple(
            self.domain.size(str(a.sort)) if a.relation is None else len(self.relations[a.relation])
            for a in axes
        )
