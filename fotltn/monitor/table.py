"""Transitions of many automata in one flat table, so that a step of all of them is one look-up.

A state is the place of its row; a row has an entry for each letter. Row 0 is no state: an entry
that is not known yet leads there, and nothing leads away from it. Rows are made when they are first
needed, and forgotten if they are too many and none of those that count.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from fotltn.errors import LimitError
from fotltn.monitor.ahead import MOST_LEFT, Ahead
from fotltn.monitor.automaton import Automaton, State
from fotltn.monitor.promises import TRUE

Places = np.ndarray[Any, np.dtype[np.intp]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: Transitions that are tried in advance, to see which states cannot be left for better or worse.
TRIED = 3000

#: Entries of the table beyond which rows that are not in use are forgotten.
MOST_ENTRIES = 1 << 22

#: Transitions between two looks for unknown ones.
_STRETCH = 32


class Flag(IntFlag):
    """What is known of a row, with each fact and its negation, so that bits can be joined by or."""

    LOST = 1
    NOT_END = 2
    NOT_SURE = 4
    SURE = 8
    END = 16
    NOT_LOST = 32


class User(Protocol):
    """Somebody who is at rows of a table."""

    rows: Places


class Table:
    """Rows of automata, which several monitors of a theory may share.

    Attributes:
        end: for a row, whether the formula is true if the trace ends there.
        sure: whether it is true whatever comes.
        lost: whether it is false whatever comes.
        flags: all of that as bits, see `Flag`.
    """

    def __init__(self, *, tried: int = TRIED, most: int = MOST_ENTRIES) -> None:
        """A table with no automaton."""
        self.tried, self.most = tried, most
        self.entries: Places = np.zeros(1024, dtype=np.intp)
        self.end: Flags = np.zeros(1024, dtype=np.bool_)
        self.sure: Flags = np.zeros(1024, dtype=np.bool_)
        self.lost: Flags = np.zeros(1024, dtype=np.bool_)
        self.flags = np.zeros(1024, dtype=np.uint8)
        self.automata: list[Automaton] = []
        self.rows: dict[tuple[int, State], int] = {}
        self.states: dict[int, tuple[int, State]] = {}
        self.explored: set[int] = set()
        self.users: WeakSet[User] = WeakSet()
        self.used = 1
        self._partial: set[int] = set()  # automata that were not tried to their end
        self._aheads: dict[int, tuple[Ahead, dict[int, int]]] = {}
        self._hoped: dict[tuple[int, State, bool], State] = {}

    def add(self, automaton: Automaton) -> int:
        """The number of an automaton; one that works like another is the same."""
        for number, known in enumerate(self.automata):
            if known.skeleton.works_like(automaton.skeleton):
                return number
        self.automata.append(automaton)
        self.used = max(self.used, self._width(len(self.automata) - 1))  # row 0 is wide enough
        self._room(self.used)
        return len(self.automata) - 1

    def start(self, number: int, statics: int) -> int:
        """The row of a state before the first step."""
        state = self.automata[number].start(statics)
        if (number, state) not in self.rows:
            self._explore(number, state)
        return self.rows[number, state]

    def run(self, start: Places, letters: Places) -> Places:
        """The rows after each of several steps, from rows and letters with axes (step, place)."""
        found: Places = np.empty_like(letters)
        here, done, count = start, 0, len(letters)
        while done < count:
            stop = min(count, done + _STRETCH)
            for t in range(done, stop):
                self.entries.take(here + letters[t], out=found[t], mode="clip")
                here = found[t]
            if here.size and not here.all():
                stop = done + int((found[done:stop] == 0).any(1).argmax())
                here = found[stop - 1] if stop else start
                self._learn(here, letters[stop])
            done = stop
        return found

    def _learn(self, rows: Places, letters: Places) -> None:
        places = rows + letters
        for place in np.unique(places[self.entries[places] == 0]).tolist():
            at = int((places == place).argmax())
            self._transition(int(rows[at]), int(letters[at]))

    def _transition(self, row: int, letter: int) -> int:
        number, state = self.states[row]
        after = self._row(number, self.automata[number].next(state, letter))
        self.entries[row + letter] = after
        self._decide(after, self.sure[row], self.lost[row])
        return after

    def _width(self, number: int) -> int:
        return 1 << len(self.automata[number].skeleton.letters)

    def _row(self, number: int, state: State) -> int:
        """The row of a state; a new one is decided only if nothing is left of its formula."""
        key = (number, state)
        if key in self.rows:
            return self.rows[key]
        row, width = self.used, self._width(number)
        self._room(row + width)
        self.entries[row : row + width] = 0
        self.used += width
        self.rows[key], self.states[row] = row, key
        self.end[row] = state.end
        self.sure[row] = self.lost[row] = False
        sure = state.started and state.end and state.rest == TRUE
        self._decide(row, sure, state.started and not state.end and not state.rest)
        return row

    def _decide(self, row: int, sure: bool, lost: bool) -> None:
        """Note what is certain of a row, beside what is known already."""
        self.sure[row] |= sure
        self.lost[row] |= lost
        flags = Flag.SURE if self.sure[row] else Flag.NOT_SURE
        flags |= Flag.LOST if self.lost[row] else Flag.NOT_LOST
        self.flags[row] = flags | (Flag.END if self.end[row] else Flag.NOT_END)

    def _room(self, size: int) -> None:
        if size <= len(self.entries):
            return
        more = max(size, 2 * len(self.entries))
        for name in ("entries", "end", "sure", "lost", "flags"):
            old = getattr(self, name)
            new = np.zeros(more, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def _explore(self, number: int, first: State) -> None:
        """Try all letters from a state on, as far as that goes, and say what is decided."""
        width = self._width(number)
        order = [self._row(number, first)]
        before: dict[int, set[int]] = {order[0]: set()}
        tried = 0
        open_ends: set[int] = set()
        for row in order:  # grows while it is walked
            tried += width
            if tried > self.tried:
                open_ends.add(row)
                continue
            for letter in range(width):
                after = int(self.entries[row + letter]) or self._transition(row, letter)
                if after not in before:
                    before[after] = set()
                    order.append(after)
                before[after].add(row)
        started = order[1:]
        self.explored.update(order)
        self._aheads.pop(number, None)
        if open_ends:
            self._partial.add(number)
        good = _back(before, open_ends | {r for r in started if self.end[r]})
        bad = _back(before, open_ends | {r for r in started if not self.end[r]})
        for row in started:
            self._decide(row, row not in bad, row not in good)

    # --- with so many steps left --------------------------------------------------------------

    def level(self, left: int) -> tuple[int | None, ...]:
        """The number of steps left, as far as it matters to what rows are certain of.

        An automaton that was not tried to its end is asked anew for each number of steps.
        """
        return tuple(
            -left if number in self._partial else self._ahead(number)[0].level(left)
            for number in range(len(self.automata))
        )

    def within(self, rows: Places, left: int) -> Any:
        """The flags of rows if so many steps are left, at least one."""
        own, places = np.unique(rows, return_inverse=True)
        flags = self.flags[own]
        for place, row in enumerate(own.tolist()):
            sure, lost = self._certain(row, left)
            if sure:
                flags[place] = flags[place] & ~Flag.NOT_SURE | Flag.SURE
            if lost:
                flags[place] = flags[place] & ~Flag.NOT_LOST | Flag.LOST
        return flags[places].reshape(rows.shape)

    def _ahead(self, number: int) -> tuple[Ahead, dict[int, int]]:
        """How the rows of an automaton that were tried may end, and their places there."""
        if number not in self._aheads:
            width = self._width(number)
            rows = sorted(r for r in self.explored if self.states[r][0] == number)
            places = {row: place for place, row in enumerate(rows)}
            after = self.entries[np.array(rows, dtype=np.intp)[:, None] + np.arange(width)]
            numbers = np.vectorize(lambda row: places.get(row, -1), otypes=[np.intp])(after)
            self._aheads[number] = Ahead(numbers, self.end[rows]), places
        return self._aheads[number]

    def _certain(self, row: int, left: int) -> tuple[bool, bool]:
        number, state = self.states[row]
        ahead, places = self._ahead(number)
        sure, lost = ahead.certain(places[row], left) if row in places else (False, False)
        if sure or lost or left > MOST_LEFT or number not in self._partial:
            return sure, lost
        return self._ends(number, state, left, False), not self._ends(number, state, left, True)

    def _ends(self, number: int, state: State, left: int, hope: bool) -> bool:
        """Whether a state ends true if all steps are as good, or as bad, as can be."""
        for _ in range(left):
            key = (number, state, hope)
            if key not in self._hoped:
                try:
                    self._hoped[key] = self.automata[number].next(state, hope)
                except LimitError:  # too many ways to say
                    return hope
            if self._hoped[key] == state:
                break
            state = self._hoped[key]
        return state.end

    def tidy(self) -> None:
        """If there are too many rows, drop those that nobody is at, and that were not tried."""
        if self.used <= self.most:
            return
        here = {row for user in self.users for row in np.unique(user.rows).tolist()}
        kept = {row: self.states[row] for row in here | self.explored}
        sure = {row: bool(self.sure[row]) for row in kept}
        lost = {row: bool(self.lost[row]) for row in kept}
        self.rows, self.states = {}, {}
        self.used = max(self._width(n) for n in range(len(self.automata)))
        tried = {r: self.entries[r : r + self._width(kept[r][0])].tolist() for r in self.explored}
        self.entries[:] = 0
        self._aheads, self._hoped = {}, {}
        moved = {}
        for row, (number, state) in kept.items():
            moved[row] = self._row(number, state)
            self._decide(moved[row], sure[row], lost[row])
        for row, after in tried.items():
            place = moved[row]
            self.entries[place : place + len(after)] = [moved.get(other, 0) for other in after]
        self.explored = {moved[row] for row in self.explored}
        for user in self.users:
            user.rows = np.array([moved[row] for row in user.rows.tolist()], dtype=np.intp)


def _back(before: dict[int, set[int]], goals: Iterable[int]) -> set[int]:
    """All rows from which a goal can be reached."""
    found = set(goals)
    stack = list(found)
    while stack:
        for row in before[stack.pop()]:
            if row not in found:
                found.add(row)
                stack.append(row)
    return found
