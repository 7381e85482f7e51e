"""The transitions of many automata in one flat table: a step of all of them is one look-up.

A row has an entry for each combination of letters; its place stands for a state. Row 0 is not a
state: entries that are not known yet lead there, and no entry leads away. Rows are made when they
are first needed. If there are too many, those that are not in use are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from fotltn.errors import LimitError
from fotltn.monitor.automaton import Automaton, AutomatonState
from fotltn.monitor.domain import Array
from fotltn.monitor.obligations import TRUE

Places = np.ndarray[Any, np.dtype[np.intp]]

#: The most transitions that are tried in advance, to find states whose verdict is certain.
TRIED = 3000

#: With more entries than this, rows that are not in use are dropped.
MOST_ENTRIES = 1 << 22

#: The most steps before the horizon that are looked at.
MOST_LEFT = 4096

#: The number of steps between two searches for unknown transitions.
_STRETCH = 32


class Flag:
    """Bits for a row: false whatever comes, true if the trace ends, true whatever comes.

    The negation of each has its own bit, so that bits can be joined by or.
    """

    LOST = 1
    NOT_END = 2
    NOT_SURE = 4
    NOT_LOST = 8
    END = 16
    SURE = 32


class User(Protocol):
    """Anything that keeps rows of a table."""

    rows: Places


class TransitionTable:
    """The rows of automata. Several monitors of a theory may share a table.

    Attributes:
        entries: the next row, at the place of a row plus the number of its letters.
        flags: for each row, bits of `Flag`.
    """

    def __init__(self, *, tried: int = TRIED, most: int = MOST_ENTRIES) -> None:
        """Start without automata."""
        self.tried, self.most = tried, most
        self.entries: Places = np.zeros(1024, dtype=np.intp)
        self.flags = np.zeros(1024, dtype=np.uint8)
        self.automata: list[Automaton] = []
        self.rows: dict[tuple[int, AutomatonState], int] = {}
        self.states: dict[int, tuple[int, AutomatonState]] = {}
        self.explored: set[int] = set()
        self.users: WeakSet[User] = WeakSet()
        self.used = 1
        self._partial: set[int] = set()  # automata of which not all transitions were tried
        self._aheads: dict[int, tuple[Ahead, dict[int, int]]] = {}
        self._hoped: dict[tuple[int, AutomatonState, bool], AutomatonState] = {}

    def add(self, automaton: Automaton) -> int:
        """Return the number of an automaton; automata that work alike share a number."""
        for number, known in enumerate(self.automata):
            if known.skeleton.works_like(automaton.skeleton):
                return number
        self.automata.append(automaton)
        self.used = max(self.used, self._width(len(self.automata) - 1))  # row 0 is wide enough
        self._room(self.used)
        return len(self.automata) - 1

    def start(self, number: int, statics: int) -> int:
        """Return the row of the state before the first step."""
        state = self.automata[number].start(statics)
        if (number, state) not in self.rows:
            self._explore(number, state)
        return self.rows[number, state]

    def run(self, start: Places, letters: Places) -> Places:
        """Return the rows after each step, with axes (step, place).

        Args:
            start: the row of each place before the first step.
            letters: the letters of each step, with axes (step, place).
        """
        rows: Places = np.empty(letters.shape, dtype=np.intp)
        here, done, count = start, 0, len(letters)
        while done < count:
            stop = min(count, done + _STRETCH)
            for t in range(done, stop):
                self.entries.take(here + letters[t], out=rows[t], mode="clip")
                here = rows[t]
            if here.size and not here.all():
                stop = done + int((rows[done:stop] == 0).any(1).argmax())
                here = rows[stop - 1] if stop else start
                self._learn(here, letters[stop])
            done = stop
        return rows

    def _learn(self, rows: Places, letters: Places) -> None:
        places = rows + letters
        for place in np.unique(places[self.entries[places] == 0]).tolist():
            at = int((places == place).argmax())
            self._transition(int(rows[at]), int(letters[at]))

    def _transition(self, row: int, letter: int) -> int:
        number, state = self.states[row]
        after = self.row(number, self.automata[number].next(state, letter))
        self.entries[row + letter] = after
        self._decide(after, int(self.flags[row]) & (Flag.SURE | Flag.LOST))
        return after

    def _width(self, number: int) -> int:
        return 1 << len(self.automata[number].skeleton.letters)

    def after(self, row: int, letter: int) -> int:
        """Return the row after a step with some letters."""
        return int(self.entries[row + letter]) or self._transition(row, letter)

    def row(self, number: int, state: AutomatonState) -> int:
        """Return the row of a state; make one if it is new."""
        key = (number, state)
        if key in self.rows:
            return self.rows[key]
        row, width = self.used, self._width(number)
        self._room(row + width)
        self.entries[row : row + width] = 0
        self.used += width
        self.rows[key], self.states[row] = row, key
        self.flags[row] = (Flag.END if state.end else Flag.NOT_END) | Flag.NOT_SURE | Flag.NOT_LOST
        if state.started and state.end and state.rest == TRUE:
            self._decide(row, Flag.SURE)
        if state.started and not state.end and not state.rest:
            self._decide(row, Flag.LOST)
        return row

    def _decide(self, row: int, certain: int) -> None:
        """Note that a row is sure or lost."""
        self.flags[row] = _decided(int(self.flags[row]), certain)

    def _room(self, size: int) -> None:
        if size > len(self.entries):
            more = max(size, 2 * len(self.entries)) - len(self.entries)
            self.entries = np.pad(self.entries, (0, more))
            self.flags = np.pad(self.flags, (0, more))

    def _explore(self, number: int, first: AutomatonState) -> None:
        """Try all letters from a state on, up to a limit, and find the rows that are certain."""
        width = self._width(number)
        order = [self.row(number, first)]
        before: dict[int, set[int]] = {order[0]: set()}
        tried = 0
        open_ends: set[int] = set()
        for row in order:  # the list grows during the loop
            tried += width
            if tried > self.tried:
                open_ends.add(row)
                continue
            for letter in range(width):
                after = self.after(row, letter)
                if after not in before:
                    before[after] = set()
                    order.append(after)
                before[after].add(row)
        started = order[1:]
        self.explored.update(order)
        self._aheads.pop(number, None)
        if open_ends:
            self._partial.add(number)
        good = _back(before, open_ends | {r for r in started if self.flags[r] & Flag.END})
        bad = _back(before, open_ends | {r for r in started if self.flags[r] & Flag.NOT_END})
        for row in started:
            self._decide(row, (row not in bad) * Flag.SURE | (row not in good) * Flag.LOST)

    def contradicts(self, number: int) -> bool:
        """Return whether an automaton has a lost row whose demand is not false."""
        return any(
            self.flags[row] & Flag.LOST and self.states[row][1].rest
            for row in self.explored
            if self.states[row][0] == number
        )

    # --- with a known number of steps left ----------------------------------------------------

    def level(self, left: int) -> tuple[int | None, ...]:
        """Return a key for a number of steps left: equal keys mean equal flags.

        An automaton of which not all transitions were tried has another key for each number.
        """
        return tuple(
            -left if number in self._partial else self._ahead(number)[0].level(left)
            for number in range(len(self.automata))
        )

    def within(self, rows: Places, left: int) -> Array:
        """Return the flags of rows if `left` steps are left, at least one."""
        distinct, places = np.unique(rows, return_inverse=True)
        flags = self.flags[distinct]
        for place, row in enumerate(distinct.tolist()):
            flags[place] = _decided(int(flags[place]), self._certain(row, left))
        return flags[places].reshape(rows.shape)

    def _ahead(self, number: int) -> tuple[Ahead, dict[int, int]]:
        """Return how the tried rows of an automaton may end, and the number of each row there."""
        if number not in self._aheads:
            width = self._width(number)
            rows = sorted(r for r in self.explored if self.states[r][0] == number)
            places = {row: place for place, row in enumerate(rows)}
            after = self.entries[np.array(rows, dtype=np.intp)[:, None] + np.arange(width)]
            numbers = np.vectorize(lambda row: places.get(row, -1), otypes=[np.intp])(after)
            self._aheads[number] = Ahead(numbers, self.flags[rows] & Flag.END != 0), places
        return self._aheads[number]

    def certain(self, row: int, left: int | None = None) -> bool | None:
        """Return whether a row will end true, if that is certain; `left` is None if unknown."""
        flags = int(self.flags[row])
        if not flags & (Flag.SURE | Flag.LOST) and left is not None:
            flags = self._certain(row, left)
        return True if flags & Flag.SURE else False if flags & Flag.LOST else None

    def settles(self, row: int, left: int) -> tuple[int, bool | None]:
        """Return when a row that steps do not change becomes certain, and how it ends."""
        number, _ = self.states[row]
        if number in self._partial:  # the exact number would take long to find
            return (left, self.certain(row, 0))
        ahead, _ = self._ahead(number)
        tried: set[int | None] = set()
        later = left - 1
        while later > 0:
            level = ahead.level(later)
            if level is None:
                later = MOST_LEFT
            elif level in tried:
                later = ahead.first - 1
            elif (good := self.certain(row, later)) is not None:
                return left - later, good
            else:
                tried.add(level)
                later -= 1
        return left, self.certain(row, 0)

    def _certain(self, row: int, left: int) -> int:
        """Return whether a row is sure or lost if `left` steps are left, as a bit of `Flag`."""
        if left == 0:
            return Flag.SURE if self.flags[row] & Flag.END else Flag.LOST
        number, state = self.states[row]
        ahead, places = self._ahead(number)
        certain = ahead.certain(places[row], left) if row in places else 0
        if certain or left > MOST_LEFT or number not in self._partial:
            return certain
        sure, lost = (
            self._ends(number, state, left, False),
            not self._ends(number, state, left, True),
        )
        return sure * Flag.SURE | lost * Flag.LOST

    def _ends(self, number: int, state: AutomatonState, left: int, hope: bool) -> bool:
        """Return whether a state ends true if all steps are as good (`hope`) or bad as can be."""
        for _ in range(left):
            key = (number, state, hope)
            if key not in self._hoped:
                try:
                    self._hoped[key] = self.automata[number].next(state, hope)
                except LimitError:  # the demand has too many terms
                    return hope
            if self._hoped[key] == state:
                break
            state = self._hoped[key]
        return state.end

    def tidy(self) -> None:
        """If there are too many rows, drop those that no user keeps and that were not tried."""
        if self.used <= self.most:
            return
        here = {row for user in self.users for row in np.unique(user.rows).tolist()}
        states = {row: self.states[row] for row in here | self.explored}
        tried = {r: self.entries[r : r + self._width(states[r][0])].tolist() for r in self.explored}
        flags = self.flags.copy()
        self.rows, self.states = {}, {}
        self.used = max(self._width(n) for n in range(len(self.automata)))
        self.entries[:] = 0
        self._aheads, self._hoped = {}, {}
        moved = {}
        for row, (number, state) in states.items():
            moved[row] = self.row(number, state)
            self.flags[moved[row]] = flags[row]
        for row, after in tried.items():
            place = moved[row]
            self.entries[place : place + len(after)] = [moved.get(other, 0) for other in after]
        self.explored = {moved[row] for row in self.explored}
        for user in self.users:
            user.rows = np.array([moved[row] for row in user.rows.tolist()], dtype=np.intp)


def _back(before: dict[int, set[int]], goals: Iterable[int]) -> set[int]:
    """Return all rows from which a goal can be reached."""
    reaching = set(goals)
    stack = list(reaching)
    while stack:
        for row in before[stack.pop()]:
            if row not in reaching:
                reaching.add(row)
                stack.append(row)
    return reaching


def _decided(flags: int, certain: int) -> int:
    """Return flags with the bits of a row that is also sure or lost."""
    doubts = (certain & Flag.SURE) >> 3 | (certain & Flag.LOST) << 3  # a negation is 3 bits away
    return (flags | certain) & ~doubts


class Ahead:
    """How the states of an automaton may end if the number of steps left is known.

    This is computed backwards from the end. A state may end true after k steps if some letter leads
    to a state that may end true after k - 1. A level says how all states may end after k steps;
    levels soon repeat.

    Args:
        after: for each state and letter, the number of the next state; -1 if it was not tried.
        end: whether a state is true if the trace ends there.
    """

    def __init__(self, after: Array, end: Array) -> None:
        """Compute the level of the end. One more state, which may end in any way, is for `-1`."""
        self._after = np.vstack([after, np.full((1, after.shape[1]), -1)])
        self._levels = [(np.append(end, True), np.append(~end, True))]
        self._seen = {self._key(self._levels[0]): 0}
        self._period = 0  # the number of levels that repeat, once it is known
        self.first = 0  # the first of them

    def level(self, left: int) -> int | None:
        """Return the number of the level for `left` steps; None if there are too many levels."""
        while not self._period and len(self._levels) <= min(left, MOST_LEFT):
            good, bad = (ends[self._after].any(1) for ends in self._levels[-1])
            good[-1] = bad[-1] = True
            key = self._key((good, bad))
            if key in self._seen:
                self.first = self._seen[key]
                self._period = len(self._levels) - self.first
                break
            self._seen[key] = len(self._levels)
            self._levels.append((good, bad))
        if left < len(self._levels):
            return left
        return self.first + (left - self.first) % self._period if self._period else None

    def certain(self, state: int, left: int) -> int:
        """Return whether a state is sure or lost if `left` steps are left, as a bit of `Flag`."""
        level = self.level(left)
        if level is None:
            return 0
        good, bad = self._levels[level]
        return (not bad[state]) * Flag.SURE | (not good[state]) * Flag.LOST

    @staticmethod
    def _key(level: tuple[Array, Array]) -> bytes:
        return np.packbits(np.concatenate(level)).tobytes()
