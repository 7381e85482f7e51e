"""The product of a track: one automaton for all its axioms and memories, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fotltn.errors import LimitError
from fotltn.posterior.automata import Flags, MinimalAutomaton, Numbers, live, merged

#: The most steps that are tried: states times letters times conditions.
MOST_STEPS = 30_000_000
#: The most values of a track at a time point; states hold the last one, so ways are squares.
MOST_LETTERS = 512
#: The most states of the product, after equal ones are merged.
MOST_STATES = 4_000


@dataclass(frozen=True, slots=True)
class Part:
    """An automaton that reads some bits of a track, and some conditions.

    Args:
        machine: the automaton.
        columns: for each of its letters, the number of a bit; or the number of a condition, plus
            the number of bits.
    """

    machine: MinimalAutomaton
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The bits, windows and conditions of a product.

    Args:
        bits: the number of bits.
        static: the static bits.
        remembered: the bits whose last values a state holds.
        windows: bits, and for how many earlier time points a state holds their values.
        conditions: the joint values that conditions may have, each as bits, sorted.
        laws: the parts whose states are kept distinct, unless that takes too many states.
    """

    bits: int
    static: tuple[int, ...]
    remembered: tuple[int, ...]
    windows: tuple[tuple[tuple[int, ...], int], ...]
    conditions: tuple[int, ...]
    laws: tuple[int, ...] = ()


def laws_of(parts: Sequence[Part], free: int, bits: int) -> tuple[int, ...]:
    """The parts that read only free bits and conditions, so that they know only the past."""
    return tuple(
        n for n, part in enumerate(parts)
        if all(column < free or column >= bits for column in part.columns)
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrackAutomaton:
    """A deterministic automaton over the values of a track's bits.

    Args:
        letters: the values of all bits of each letter, with axes (letter, bit); static bits are 0.
        letter: the letter of each way on, with axes (state, way).
        next: the state that a way leads to, with axes (condition, state, way); the number of
            states if it leads nowhere.
        accepts: whether a trace may end in a state.
        starts: the first state for each value of the static bits, or -1.
        statics: the value of the static bits of each state.
        last: the remembered bits of each state at the last time point, or -1 at the start.
        before: for each window, its bits at earlier time points, as digits, the latest lowest.
        laws: the states of the laws in each state, with axes (state, part); without parts if that
            took too many states.
    """

    letters: Flags
    letter: Numbers
    next: Numbers
    accepts: Flags
    starts: Numbers
    statics: Numbers
    last: Numbers
    before: tuple[Numbers, ...]
    laws: Numbers

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.letter)


def product(parts: Sequence[Part], shape: Shape) -> TrackAutomaton:
    """Build the product of some parts.

    Raises:
        LimitError: there are too many states.
    """
    return _ProductSearch(parts, shape).run()


class _ProductSearch:
    def __init__(self, parts: Sequence[Part], shape: Shape) -> None:
        self.parts, self.shape, self.laws = parts, shape, shape.laws
        self.dynamic = [b for b in range(shape.bits) if b not in shape.static]
        values, conditions = 1 << len(self.dynamic), len(shape.conditions)
        if (values << len(shape.static)) * conditions > MOST_STEPS:
            raise LimitError(
                f"a track has {len(self.dynamic)} predicates that change, and {conditions:,} "
                "conditions"
            )
        self.conditions = conditions
        static_values = 1 << len(shape.static)
        numbers = np.arange(values)
        self.bits = np.zeros((values, shape.bits), dtype=bool)
        for place, bit in enumerate(self.dynamic):
            self.bits[:, bit] = numbers >> place & 1
        # The word that every part reads, with axes (value of static bits, letter, condition).
        known = np.array(shape.conditions, dtype=np.int64)
        self.read: list[Numbers] = []
        possible: Flags = np.ones((static_values, values, conditions), dtype=bool)
        for part in parts:
            word = np.zeros((static_values, values, conditions), dtype=np.int64)
            for place, column in enumerate(part.columns):
                if column >= shape.bits:
                    truth = (known >> (column - shape.bits) & 1)[None, None, :]
                elif column in shape.static:
                    which = shape.static.index(column)
                    truth = (np.arange(static_values) >> which & 1)[:, None, None]
                else:
                    truth = self.bits[:, column].astype(np.int64)[None, :, None]
                word |= truth << place
            self.read.append(word)
            alive = part.machine.live[part.machine.next].any(0)  # by word, from any state
            possible &= np.asarray(alive)[word]
        # Letters that no state allows are left out.
        chosen = np.flatnonzero(possible.any(axis=(0, 2)))
        if len(chosen) > MOST_LETTERS:
            raise LimitError(f"a track has {len(chosen):,} letters")
        self.bits = self.bits[chosen]
        self.read = [word[:, chosen] for word in self.read]
        self.last = _word(self.bits, shape.remembered)
        self.digits = [_word(self.bits, bits) for bits, _ in shape.windows]

    def run(self) -> TrackAutomaton:
        """Search from the first states, and merge equal states."""
        shape = self.shape
        count, letters = 1 << len(shape.static), len(self.bits)
        columns = len(self.parts) + 2 + len(shape.windows)
        first = np.zeros((count, columns), dtype=np.int64)
        first[:, -1 - len(shape.windows)] = -1  # no last values yet
        first[:, len(self.parts)] = np.arange(count)
        numbers = {row.tobytes(): n for n, row in enumerate(first)}
        states, tables, done = [first], [], 0
        while done < len(numbers):
            frontier = np.concatenate(states)[done:]
            states = [np.concatenate(states)]
            width = letters * self.conditions
            if len(numbers) * width > MOST_STEPS:
                raise LimitError(f"a track has more than {len(numbers):,} states")
            at_once = max(1, 2_000_000 // max(1, width * columns))
            for start in range(0, len(frontier), at_once):
                chunk = frontier[start : start + at_once]
                after, alive = self._step(chunk)
                table = np.full(alive.shape, -1, dtype=np.int64)
                rows = after[alive]
                if len(rows):
                    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
                    ids = np.empty(len(unique), dtype=np.int64)
                    fresh = []
                    for place, row in enumerate(unique):
                        key = row.tobytes()
                        if key not in numbers:
                            numbers[key] = len(numbers)
                            fresh.append(row)
                        ids[place] = numbers[key]
                    if fresh:
                        states.append(np.stack(fresh))
                    table[alive] = ids[inverse.reshape(-1)]
                tables.append(table)
                done += len(chunk)
        every = np.concatenate(states)
        return self._small(every, np.concatenate(tables), count)

    def _step(self, states: Numbers) -> tuple[Numbers, Flags]:
        """The states after every letter and condition, and whether they are live."""
        shape, size = self.shape, len(self.parts)
        statics = states[:, size]
        grid = (len(states), len(self.bits), self.conditions)
        after = np.empty((*grid, states.shape[1]), dtype=np.int64)
        alive = np.ones(grid, dtype=bool)
        for place, (part, word) in enumerate(zip(self.parts, self.read, strict=True)):
            following = part.machine.next[states[:, place, None, None], word[statics]]
            after[..., place] = following
            alive &= part.machine.live[following]
        after[..., size] = statics[:, None, None]
        after[..., size + 1] = self.last[None, :, None]
        for place, (bits, length) in enumerate(shape.windows):
            base = 1 << len(bits)
            old = states[:, size + 2 + place, None]
            moved = (old * base + self.digits[place][None, :]) % base**length
            after[..., size + 2 + place] = moved[:, :, None]
        return after, alive

    def _small(self, states: Numbers, table: Numbers, starts: int) -> TrackAutomaton:
        size = len(self.parts)
        accepts = np.ones(len(states), dtype=bool)
        for place, part in enumerate(self.parts):
            accepts &= part.machine.accepts[states[:, place]]
        accepts[:starts] = False  # a trace has at least one time point
        flat = table.reshape(len(states), -1)
        nowhere = len(states)
        flat = np.where(flat < 0, nowhere, flat)
        flat = np.concatenate([flat, np.full((1, flat.shape[1]), nowhere)])
        good = live(flat, np.append(accepts, False))
        flat = np.where(good[flat], flat, nowhere)
        tells = np.concatenate([states[:, size:], states[:, list(self.laws)]], axis=1)
        tells = np.concatenate([tells, np.full((1, tells.shape[1]), -2)])
        outputs = np.concatenate([tells, np.append(accepts, False)[:, None]], axis=1)
        outputs[~good] = -2
        classes = merged(flat, outputs)
        firsts = np.unique(classes, return_index=True)[1]
        alive = firsts[good[firsts]]
        if len(alive) > MOST_STATES and self.laws:
            self.laws = ()
            return self._small(states, table, starts)
        if len(alive) > MOST_STATES:
            raise LimitError(f"a track has {len(alive):,} states, more than {MOST_STATES:,}")
        renumbered = np.full(len(firsts), len(alive))
        renumbered[classes[alive]] = np.arange(len(alive))
        steps = renumbered[classes[flat[alive]]].reshape(
            len(alive), len(self.bits), self.conditions
        )
        first = renumbered[classes[:starts]]
        return self._edges(
            states[alive], steps, accepts[alive], np.where(first == len(alive), -1, first)
        )

    def _edges(
        self, states: Numbers, steps: Numbers, accepts: Flags, starts: Numbers
    ) -> TrackAutomaton:
        size, count = len(self.parts), len(states)
        open_ways = (steps < count).any(2)
        ways = max(1, int(open_ways.sum(1).max())) if count else 1
        order = np.argsort(~open_ways, axis=1, kind="stable")[:, :ways]
        following = np.take_along_axis(steps, order[:, :, None], axis=1)
        real = np.take_along_axis(open_ways, order, axis=1)
        following = np.where(real[:, :, None], following, count)
        return TrackAutomaton(
            self.bits, order, following.transpose(2, 0, 1).copy(), accepts, starts,
            states[:, size], states[:, size + 1],
            tuple(states[:, size + 2 + n] for n in range(len(self.shape.windows))),
            states[:, list(self.laws)],
        )  # fmt: skip


def _word(bits: Flags, columns: Sequence[int]) -> Numbers:
    """Some bits of each letter, as a number."""
    word = np.zeros(len(bits), dtype=np.int64)
    for place, column in enumerate(columns):
        word |= bits[:, column].astype(np.int64) << place
    return word
