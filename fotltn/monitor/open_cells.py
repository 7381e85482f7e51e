"""The open cells of a leaf: cells whose condition was true and whose demand is not decided yet.

The demand of a cell is a row of a `TransitionTable`. It changes when a fact about the cell's
entities is stated, or when time runs out. So a binding is updated when one of its letters is true,
or when one of its cells is due. Otherwise its cells sleep.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fotltn.monitor.ahead import surely
from fotltn.monitor.automaton import Automaton, AutomatonState
from fotltn.monitor.choices import Choice, Sleepers
from fotltn.monitor.conditions import Conditions
from fotltn.monitor.events import Reason
from fotltn.monitor.leaves import Leaf, WatchedAxiom
from fotltn.monitor.obligations import Function, Promise
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.table import Places, TransitionTable
from fotltn.monitor.wording import told_of

#: Time points as ranges that do not touch: the first point, and the one after the last.
Ranges = list[list[int]]

_FEW_LETTERS = 3  # up to this number, all combinations of letters are tried
_MOST_KNOWN = 100_000  # most fates to remember


@dataclass(slots=True)
class OpenCells:
    """The open cells of a binding.

    Args:
        asof: the last step that the demands take into account.
        quiet: the letters of a step without facts about the binding.
        waiting: the times of cells by the row of their demand.
    """

    asof: int
    quiet: int
    waiting: dict[int, Ranges] = field(default_factory=dict)


class Outcome(NamedTuple):
    """Cells of a binding that were decided at a step."""

    key: Key
    times: Ranges
    step: int
    good: bool
    letter: int | None


class LeafWatch:
    """A leaf with all its open cells."""

    def __init__(
        self,
        leaf: Leaf,
        axiom: WatchedAxiom,
        conditions: Conditions,
        roster: Roster,
        table: TransitionTable,
        horizon: int | None = None,
    ) -> None:
        """Start without open cells.

        Args:
            leaf: the leaf.
            axiom: the axiom of the leaf.
            conditions: where the parts of formulas are looked up.
            roster: the entities and facts.
            table: the table whose rows are demands.
            horizon: the number of steps of the trace, if it is known.
        """
        self.leaf, self.axiom, self.roster = leaf, axiom, roster
        self.table, self.horizon = table, horizon
        self.when = Choice(leaf.condition, leaf.axes, conditions)
        self.every = False  # also report cells that become true
        self._open: dict[Key, OpenCells] = {}
        self._asking = [told_of(part, leaf.axes) for part in leaf.when]
        # Cells of the last step that the next step decides: bindings by demand.
        self._brief: dict[int, Set[Key]] = {}
        self._brief_time = -1
        self.letters: list[Choice] = []
        if leaf.must is None:
            return
        self._asked = told_of(leaf.source, leaf.axes)
        self._answers = [told_of(part, leaf.axes) for part in leaf.must.letters]
        self.letters = [Choice(f, leaf.axes, conditions) for f in leaf.must.letters]
        self.automaton = Automaton(leaf.must)
        self.number = table.add(self.automaton)
        self.start = table.start(self.number, 0)
        table.users.add(self)
        self.sleepers = Sleepers(self.letters, leaf.axes)
        self.due: list[tuple[int, Key]] = []
        self._forget()

    def _forget(self) -> None:
        """Forget results of the table."""
        self._next: dict[int, int] = {}
        self._sure: dict[int, bool | None] = {}
        self._is_brief: dict[int, bool] = {}
        self._fate: dict[tuple[int, int, int | None], tuple[int, bool | None] | None] = {}

    @property
    def open(self) -> dict[Key, OpenCells]:
        """The open cells of each binding."""
        brief, self._brief = self._brief, {}
        for row, keys in brief.items():
            for key in keys:
                self._wait(key, row, self._brief_time)
        return self._open

    # --- a user of the table -------------------------------------------------------------------

    @property
    def rows(self) -> Places:
        """The rows of the demands of all cells, after the row before a cell's first step."""
        here = {row for cells in self.open.values() for row in cells.waiting}
        return np.array([self.start, *sorted(here)], dtype=np.intp)

    @rows.setter
    def rows(self, places: Places) -> None:
        """Take over the new places of these rows."""
        moved = dict(zip(self.rows.tolist(), places.tolist(), strict=True))
        self.start = moved[self.start]
        for cells in self._open.values():
            cells.waiting = {moved[row]: times for row, times in cells.waiting.items()}
        self._forget()

    # --- steps ---------------------------------------------------------------------------------

    def run(self) -> Iterable[Outcome]:
        """Process a batch of steps, and return the cells that it decides."""
        if self.roster.count == 1:
            return self._single()
        asked = self._cells()
        if self.leaf.must is None:
            return self._at_once(asked)
        return self._batch(asked) if asked or self.open else ()

    def _cells(self) -> Mapping[Key, int]:
        """Return the cells of a batch whose condition is true: steps as bits, by binding."""
        roster = self.roster
        start, stop = roster.start, roster.now
        first, last = self.axiom.first, self.axiom.last
        if first >= stop or (last is not None and last < start):
            return {}
        rows = self.when.rows(roster)
        if first <= start and (last is None or last >= stop - 1):
            return rows
        mask = roster.full & -1 << max(first - start, 0)
        if last is not None:
            mask &= (1 << last + 1 - start) - 1
        return {key: bits & mask for key, bits in rows.items() if bits & mask}

    def _at_once(self, asked: Mapping[Key, int]) -> Iterator[Outcome]:
        for key, bits in asked.items():
            for step in _steps(bits):
                time = self.roster.start + step
                yield Outcome(key, [[time, time + 1]], time, False, None)

    def _batch(self, asked: Mapping[Key, int]) -> Iterator[Outcome]:
        """Take each binding through all steps of a batch."""
        keys = self.sleepers.woken(self.open) if self.open else set()
        for key in keys.union(self._overdue(self.roster.now - 1), asked):
            yield from self._follow(key, asked.get(key, 0))

    def _overdue(self, last: int) -> Iterator[Key]:
        """Yield the bindings that are due by a step."""
        while self.due and self.due[0][0] <= last:
            key = heapq.heappop(self.due)[1]
            if key in self._open:
                yield key

    def _follow(self, key: Key, asked: int) -> Iterator[Outcome]:
        """Take the cells of a binding through a batch."""
        roster = self.roster
        start, full = roster.start, roster.full
        letters = [choice.at(key, roster) for choice in self.letters]
        if asked and not self.every:
            asked &= ~surely(self.automaton, letters, roster.count)
        cells = self._open.get(key)
        if cells is None:
            if not asked:
                return
            cells = OpenCells(start - 1, self._quiet(key))
        told = full if self.sleepers.restless else asked
        for place, bits in enumerate(letters):
            told |= bits ^ full if cells.quiet >> place & 1 else bits
        done = 0
        while steps := (told if cells.waiting else asked) >> done:
            step = done + (steps & -steps).bit_length() - 1
            done = step + 1
            letter = sum((bits >> step & 1) << place for place, bits in enumerate(letters))
            yield from self._step(key, cells, letter, start + step, asked >> step & 1 == 1)
        yield from self._sleep(key, cells, start + roster.count - 1)
        self._store(key, cells)

    def _step(
        self, key: Key, cells: OpenCells, letter: int, now: int, asked: bool
    ) -> Iterator[Outcome]:
        """Take the cells of a binding through a step with given letters."""
        if cells.waiting:
            yield from self._sleep(key, cells, now - 1)
        cells.asof = now
        waiting = [(self._after(row, letter), times) for row, times in cells.waiting.items()]
        if asked:
            waiting.append((self._after(self.start, letter), [[now, now + 1]]))
        cells.waiting = {}
        for row, times in waiting:
            good = self._certain(row, now)
            if good is None:
                merge(cells.waiting, row, times)
            elif not good or (self.every and times[0][0] < now):
                yield Outcome(key, times, now, good, letter)

    def _sleep(self, key: Key, cells: OpenCells, until: int) -> Iterator[Outcome]:
        """Go on to a step without facts on the way."""
        gap = until - cells.asof
        if gap <= 0:
            return
        waiting: dict[int, Ranges] = {}
        for row, times in cells.waiting.items():
            fate = self.fate(row, cells.quiet, cells.asof)
            if fate is not None and fate[0] <= gap and fate[1] is not None:
                if not fate[1] or self.every:
                    yield Outcome(key, times, cells.asof + fate[0], fate[1], cells.quiet)
                continue
            for _ in range(gap):
                later = self._after(row, cells.quiet)
                if later == row:
                    break
                row = later
            merge(waiting, row, times)
        cells.waiting, cells.asof = waiting, until

    def _store(self, key: Key, cells: OpenCells) -> None:
        """Keep the cells of a binding that are still open."""
        known = key in self._open
        if cells.waiting:
            self._open[key] = cells
            fates = [self.fate(row, cells.quiet, cells.asof) for row in cells.waiting]
            steps = [fate[0] for fate in fates if fate is not None]
            if steps:
                heapq.heappush(self.due, (cells.asof + min(steps), key))
            if not known:
                self.sleepers.add(key)
        elif known:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Drop the open cells of a binding."""
        del self._open[key]
        self.sleepers.discard(key)

    # --- one step ------------------------------------------------------------------------------

    def _single(self) -> Iterable[Outcome]:
        """Process a batch of one step; bindings with the same letters go together."""
        now, axiom = self.roster.start, self.axiom
        asked: Set[Key] = frozenset()
        if axiom.first <= now and (axiom.last is None or now <= axiom.last):
            asked = self.when.true(self.roster)
        if self.leaf.must is None:
            return [Outcome(key, [[now, now + 1]], now, False, None) for key in asked]
        if not (asked or self._brief or self._open):
            return ()
        outcomes: list[Outcome] = []
        brief, self._brief, time = self._brief, {}, self._brief_time
        self._brief_time = now
        for row, keys in brief.items():
            for letter, some in self._split(keys):
                good = self._certain(self._after(row, letter), now)
                if not good or self.every:
                    times = [[time, time + 1]]
                    outcomes += [Outcome(key, times, now, bool(good), letter) for key in some]
        if self._open:
            for key in self.sleepers.woken(self._open).union(self._overdue(now)):
                ((letter, _),) = self._split({key})
                cells = self._open[key]
                outcomes += self._step(key, cells, letter, now, False)
                self._store(key, cells)
        for letter, some in self._split(asked):
            row = self._after(self.start, letter)
            good = self._certain(row, now)
            if good is None and self._settled_next(row):
                self._brief[row] = self._brief.get(row, frozenset()) | some
            elif good is None:
                for key in some:
                    self._wait(key, row, now)
            elif not good:
                outcomes += [Outcome(key, [[now, now + 1]], now, False, letter) for key in some]
        return outcomes

    def _split(self, keys: Set[Key]) -> list[tuple[int, Set[Key]]]:
        """Return the bindings by their letters at a single step."""
        parts = [(0, keys)] if keys else []
        for place, choice in enumerate(self.letters):
            split: list[tuple[int, Set[Key]]] = []
            for letter, some in parts:
                true = choice.among(some, self.roster)
                if true:
                    split.append((letter | 1 << place, true))
                if len(true) < len(some):
                    split.append((letter, some - true if true else some))
            parts = split
        return parts

    def _wait(self, key: Key, row: int, now: int) -> None:
        """Add an open cell of this step to those of its binding."""
        cells = self._open.get(key)
        if cells is None:
            cells = OpenCells(now, self._quiet(key))
        elif cells.asof < now:  # there was no fact since, and nothing was due
            for _ in self._sleep(key, cells, now):
                pass
        if row in cells.waiting:  # the binding has this demand; its due step stays
            merge(cells.waiting, row, [[now, now + 1]])
            return
        cells.waiting[row] = [[now, now + 1]]
        self._store(key, cells)

    def _settled_next(self, row: int) -> bool:
        """Return whether the next step decides a cell, whatever it brings."""
        brief = self._is_brief.get(row)
        if brief is None:
            count = len(self.letters)
            brief = count <= _FEW_LETTERS and all(
                self._flagged(self._after(row, letter)) is not None for letter in range(1 << count)
            )
            self._is_brief[row] = brief
        return brief

    # --- the end -------------------------------------------------------------------------------

    def finish(self, last: int, *, final: bool) -> Iterator[Outcome]:
        """Yield the open cells that are false if the trace ends with the step `last`.

        Cells that a further step could make true are good outcomes, unless the end is final.
        """
        for key, cells in self.open.items():
            yield from self._sleep(key, cells, last)
            for row, times in cells.waiting.items():
                function = self.function(row)
                if not self._ends(function, final=True):
                    hope = not final and self._ends(function, final=False)
                    yield Outcome(key, times, last, hope, None)

    def _ends(self, function: Function, *, final: bool) -> bool:
        """Return whether a demand is true at the end or, if not final, could become true later."""

        def true(promise: Promise) -> bool:
            node, _ = self.automaton.nodes[promise.number]
            if final or node in self.leaf.final:
                return bool(getattr(node, "weak", False) or getattr(node, "dual", False))
            return True

        return any(all(map(true, term)) for term in function)

    def tells_more(self) -> bool:
        """Return whether the demand may become impossible before one of its parts does."""
        return self.leaf.must is not None and self.table.contradicts(self.number)

    # --- in words ------------------------------------------------------------------------------

    def needs(self, key: Key) -> str:
        """Return the demand of a binding as text."""
        text, truth = self._asked
        return text(key) if truth else f"!({text(key)})"

    def because(self, key: Key, time: int, step: int, letter: int | None) -> tuple[Reason, ...]:
        """Return why a cell is violated: its condition at its time, and the letters at a step."""
        evidence = [Reason(text(key), time, truth) for text, truth in self._asking]
        if self.leaf.must is None:
            return tuple(evidence)
        text, truth = self._asked
        evidence.append(Reason(text(key), time, not truth))
        if letter is not None:
            for place, (text, truth) in enumerate(self._answers):
                evidence.append(Reason(text(key), step, (letter >> place & 1 == 1) == truth))
        return tuple(evidence)

    # --- demands -------------------------------------------------------------------------------

    def due_if_quiet(self, row: int, cells: OpenCells) -> tuple[int, bool | None] | None:
        """Return when and how a cell is decided if no facts come; None if that is not known."""
        fate = None if self.sleepers.restless else self.fate(row, cells.quiet, cells.asof)
        return None if fate is None or fate[1] is None else fate

    def function(self, row: int) -> Function:
        """Return the demand of a row."""
        return self.table.states[row][1].rest

    def adopt(
        self, key: Key, asof: int, quiet: int, waiting: Iterable[tuple[Function, Ranges]]
    ) -> None:
        """Take over open cells of another watch."""
        cells = OpenCells(asof, quiet)
        for function, times in waiting:
            end = self._ends(function, final=True)
            state = AutomatonState(0, True, end, function, ())
            cells.waiting[self.table.row(self.number, state)] = times
        self._store(key, cells)

    def _quiet(self, key: Key) -> int:
        rest = [choice.at(key, self.roster, rest=True) for choice in self.letters]
        return sum((bits & 1) << place for place, bits in enumerate(rest))

    def _after(self, row: int, letter: int) -> int:
        """Return the row after one more step."""
        after = self._next.get(row + letter)
        if after is None:
            after = self._next[row + letter] = self.table.after(row, letter)
        return after

    def _flagged(self, row: int) -> bool | None:
        """Return whether a demand will come true, if that is certain for traces of any length."""
        if row not in self._sure:
            self._sure[row] = self.table.certain(row)
        return self._sure[row]

    def _certain(self, row: int, now: int) -> bool | None:
        """Return whether a demand after a step will come true, if that is certain."""
        certain = self._flagged(row)
        if certain is None and self.horizon is not None:
            return self.table.certain(row, self.horizon - 1 - now)
        return certain

    def fate(self, row: int, quiet: int, now: int) -> tuple[int, bool | None] | None:
        """Return after how many quiet steps a demand is decided, and how; None if never.

        If only a far horizon decides it, the search may be too long. Then the number is that of
        steps after which it is still open, and how is None.
        """
        path: list[tuple[int, int, int | None]] = []
        seen: set[int] = set()
        end: tuple[int, bool | None] | None = None
        if len(self._fate) > _MOST_KNOWN:
            self._fate = {}
        while True:
            good = self._certain(row, now)
            left = None if self.horizon is None else self.horizon - 1 - now
            here = (row, quiet, left)
            if good is not None:
                end = (0, good)
            elif here in self._fate:
                end = self._fate[here]
            elif row in seen:
                end = None if left is None else (0, None)
            elif left is not None and self._after(row, quiet) == row:
                end = self._fate[here] = self.table.settles(row, left)
            else:
                path.append(here)
                seen.add(row)
                row, now = self._after(row, quiet), now + 1
                continue
            break
        for here in reversed(path):
            end = None if end is None else (end[0] + 1, end[1])
            self._fate[here] = end
        return end


def _steps(bits: int) -> Iterator[int]:
    """Yield the places of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def merge(waiting: dict[int, Ranges], row: int, times: Ranges) -> None:
    """Add the times of cells to those with the same demand."""
    known = waiting.setdefault(row, times)
    if known is times:
        return
    if len(times) == 1 and known[-1][0] <= times[0][0]:
        first, stop = times[0]
        if first <= known[-1][1]:
            known[-1][1] = max(known[-1][1], stop)
        else:
            known.append([first, stop])
        return
    joined: Ranges = []
    for first, stop in sorted([*known, *times]):
        if joined and joined[-1][1] >= first:
            joined[-1][1] = max(joined[-1][1], stop)
        else:
            joined.append([first, stop])
    waiting[row] = joined
