"""The cells of a leaf that are open: asked something that has not come yet.

What a cell waits for is a function of promises, as in `automaton`. It changes when something is
stated of its entities, or when time runs out. So a binding is looked at when one of its letters is
true, or when it is due. Between these, the cells of a binding sleep.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fotltn.monitor.ahead import surely
from fotltn.monitor.automaton import Automaton
from fotltn.monitor.conditions import Choice, Condition, Conditions, picker
from fotltn.monitor.events import Reason
from fotltn.monitor.leaves import Leaf, WatchedAxiom, conjunction
from fotltn.monitor.obligations import TRUE, Function, Promise
from fotltn.monitor.roster import Key, Roster
from fotltn.monitor.wording import told_of

#: Points in time, as ranges that do not touch: first, and the one after the last.
Ranges = list[list[int]]

_MOST_KNOWN = 100_000  # transitions that are remembered


@dataclass(slots=True)
class OpenCells:
    """The open cells of a binding.

    Args:
        asof: the last step that they know of.
        quiet: the letters of a step at which nothing is stated of the binding.
        waiting: the times of cells, by what they wait for.
    """

    asof: int
    quiet: int
    waiting: dict[Function, Ranges] = field(default_factory=dict)


class Outcome(NamedTuple):
    """Cells of a binding that were settled at a step."""

    key: Key
    times: Ranges
    step: int
    good: bool
    letter: int | None


class LeafWatch:
    """A leaf, and all its open cells."""

    def __init__(self, leaf: Leaf, axiom: WatchedAxiom, conditions: Conditions) -> None:
        """No cell is open."""
        self.leaf, self.axiom = leaf, axiom
        self.when = Choice(conjunction(leaf.when), leaf.axes, conditions)
        self.open: dict[Key, OpenCells] = {}
        self.every = False  # tell of cells that end well, too
        self._asking = [told_of(part, leaf.axes) for part in leaf.when]
        if leaf.must is None:
            return
        self._asked = told_of(leaf.source, leaf.axes)
        self._answers = [told_of(part, leaf.axes) for part in leaf.must.letters]
        self.letters = [Choice(f, leaf.axes, conditions) for f in leaf.must.letters]
        self.automaton = Automaton(leaf.must)
        self.restless = any(choice.restless for choice in self.letters)
        moving = {one for choice in self.letters for one in choice.conditions if not one.fixed}
        self.sleepers: list[tuple[Condition, Callable[[Key], Key], dict[Key, set[Key]]]] = [
            (condition, picker(leaf.axes, condition.axes), {}) for condition in moving
        ]
        self.due: list[tuple[int, Key]] = []
        self._points: dict[int, object] = {}
        self._next: dict[tuple[Function, int], Function] = {}
        self._first: dict[int, Function] = {}
        self._fate: dict[tuple[Function, int], tuple[int, bool] | None] = {}

    # --- steps ---------------------------------------------------------------------------------

    def run(self, roster: Roster) -> Iterator[Outcome]:
        """Go on by a batch of steps: what is settled in it, binding by binding."""
        asked = self._cells(roster)
        if self.leaf.must is None:
            for key, bits in asked.items():
                for step in _steps(bits):
                    time = roster.start + step
                    yield Outcome(key, [[time, time + 1]], time, False, None)
            return
        for key in self._woken(roster) | asked.keys():
            yield from self._follow(key, asked.get(key, 0), roster)

    def _cells(self, roster: Roster) -> dict[Key, int]:
        """The cells of a batch that are asked something."""
        start, stop = roster.start, roster.start + roster.count
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

    def _woken(self, roster: Roster) -> set[Key]:
        """The bindings with open cells of which something is stated, or which are due."""
        if not self.open:
            return set()
        if self.restless or any(condition.base for condition, _, _ in self.sleepers):
            return set(self.open)
        woken: set[Key] = set()
        for condition, _, index in self.sleepers:
            few, many = (
                (index, condition.rows)
                if len(index) < len(condition.rows)
                else (condition.rows, index)
            )
            for part in few:
                if part in many:
                    woken |= index[part]
        stop = roster.start + roster.count
        while self.due and self.due[0][0] < stop:
            key = heapq.heappop(self.due)[1]
            if key in self.open:
                woken.add(key)
        return woken

    def _follow(self, key: Key, asked: int, roster: Roster) -> Iterator[Outcome]:
        """Take the cells of a binding through a batch."""
        start, full = roster.start, roster.full
        letters = [choice.at(key, roster) for choice in self.letters]
        if asked and roster.count > 1 and not self.every:
            asked &= ~surely(self.automaton, letters, roster.count)
        cells = self.open.get(key)
        if cells is None:
            if not asked:
                return
            cells = OpenCells(start - 1, self._quiet(key, roster))
        told = full if self.restless else asked
        for place, bits in enumerate(letters):
            told |= bits ^ full if cells.quiet >> place & 1 else bits
        done = 0
        while steps := (told if cells.waiting else asked) >> done:
            step = done + (steps & -steps).bit_length() - 1
            done, now = step + 1, start + step
            letter = sum((bits >> step & 1) << place for place, bits in enumerate(letters))
            yield from self._sleep(key, cells, now - 1)
            cells.asof = now
            waiting = [(self._after(f, letter), times) for f, times in cells.waiting.items()]
            if asked >> step & 1:
                waiting.append((self._begin(letter), [[now, now + 1]]))
            cells.waiting = {}
            for function, times in waiting:
                if function == TRUE or not function:
                    good = bool(function)
                    if not good or (self.every and times[0][0] < now):
                        yield Outcome(key, times, now, good, letter)
                else:
                    merge(cells.waiting, function, times)
        yield from self._sleep(key, cells, start + roster.count - 1)
        self._store(key, cells)

    def _sleep(self, key: Key, cells: OpenCells, until: int) -> Iterator[Outcome]:
        """Go on to a step, if nothing is stated on the way."""
        gap = until - cells.asof
        if gap <= 0:
            return
        waiting: dict[Function, Ranges] = {}
        for function, times in cells.waiting.items():
            fate = self.fate(function, cells.quiet)
            if fate is not None and fate[0] <= gap:
                if not fate[1] or self.every:
                    yield Outcome(key, times, cells.asof + fate[0], fate[1], cells.quiet)
                continue
            for _ in range(gap):
                later = self._after(function, cells.quiet)
                if later == function:
                    break
                function = later
            merge(waiting, function, times)
        cells.waiting, cells.asof = waiting, until

    def _store(self, key: Key, cells: OpenCells) -> None:
        """Keep the cells of a binding that are still open."""
        known = key in self.open
        if cells.waiting:
            self.open[key] = cells
            fates = [self.fate(function, cells.quiet) for function in cells.waiting]
            steps = [fate[0] for fate in fates if fate is not None]
            if steps:
                heapq.heappush(self.due, (cells.asof + min(steps), key))
            if not known:
                for _, pick, index in self.sleepers:
                    index.setdefault(pick(key), set()).add(key)
        elif known:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Let go of the open cells of a binding."""
        del self.open[key]
        for _, pick, index in self.sleepers:
            part = pick(key)
            index[part].discard(key)
            if not index[part]:
                del index[part]

    def adopt(self, key: Key, cells: OpenCells) -> None:
        """Go on with open cells that another watch had."""
        self._store(key, cells)

    # --- the end -------------------------------------------------------------------------------

    def finish(self, last: int, *, final: bool) -> Iterator[Outcome]:
        """The open cells that are false if the trace ends; bad are those that no step could help.

        Args:
            last: the last step.
            final: whether all of them are bad.
        """
        for key, cells in self.open.items():
            yield from self._sleep(key, cells, last)
            for function, times in cells.waiting.items():
                if not self._ends(function, final=True):
                    hope = not final and self._ends(function, final=False)
                    yield Outcome(key, times, last, hope, None)

    def _ends(self, function: Function, *, final: bool) -> bool:
        """Whether what is waited for is true at the end; unless it is final, with hope for more."""

        def true(promise: Promise) -> bool:
            node, _ = self.automaton.nodes[promise.number]
            if final or node in self.leaf.final:
                return bool(getattr(node, "weak", False) or getattr(node, "dual", False))
            return True

        return any(all(map(true, term)) for term in function)

    # --- in words ------------------------------------------------------------------------------

    def needs(self, key: Key) -> str:
        """What the cells of a binding wait for."""
        text, truth = self._asked
        return text(key) if truth else f"!({text(key)})"

    def because(self, key: Key, time: int, step: int, letter: int | None) -> tuple[Reason, ...]:
        """Why a cell is violated: what asked at its time, and what came at the last step."""
        evidence = [Reason(text(key), time, truth) for text, truth in self._asking]
        if self.leaf.must is None:
            return tuple(evidence)
        text, truth = self._asked
        evidence.append(Reason(text(key), time, not truth))
        if letter is not None:
            for place, (text, truth) in enumerate(self._answers):
                evidence.append(Reason(text(key), step, (letter >> place & 1 == 1) == truth))
        return tuple(evidence)

    # --- what is waited for --------------------------------------------------------------------

    def _quiet(self, key: Key, roster: Roster) -> int:
        rest = [choice.at(key, roster, rest=True) for choice in self.letters]
        return sum((bits & 1) << place for place, bits in enumerate(rest))

    def _begin(self, letter: int) -> Function:
        """What a cell waits for after its own step."""
        if letter not in self._first:
            self._first[letter] = self.automaton.point(letter).values[-1].rest
        return self._first[letter]

    def _after(self, function: Function, letter: int) -> Function:
        """What is waited for after one more step."""
        known = self._next.get((function, letter))
        if known is None:
            if len(self._next) > _MOST_KNOWN:
                self._next, self._fate, self._points = {}, {}, {}
            point = self._points.get(letter)
            if point is None:
                point = self._points[letter] = self.automaton.point(letter)
            known = self._next[function, letter] = point.progress(function).rest  # type: ignore[attr-defined]
        return known

    def fate(self, function: Function, quiet: int) -> tuple[int, bool] | None:
        """After how many quiet steps it is settled, and how; None if it is not."""
        path: list[Function] = []
        seen: set[Function] = set()
        end: tuple[int, bool] | None = None
        while True:
            if function == TRUE or not function:
                end = (0, bool(function))
                break
            if (function, quiet) in self._fate:
                end = self._fate[function, quiet]
                break
            if function in seen:
                break
            seen.add(function)
            path.append(function)
            function = self._after(function, quiet)
        for one in reversed(path):
            end = None if end is None else (end[0] + 1, end[1])
            self._fate[one, quiet] = end
        return end


@dataclass(slots=True)
class AxiomWatch:
    """An axiom with its leaves, and how often it was violated.

    Args:
        shape: the axiom by its cells.
        leaves: what it says of them.
        told: of bindings with open cells, the times of cells that were told; only where a cell
            may be violated in several ways.
        violations: how many there were.
        recent: the steps of the last ones, with how many there were.
    """

    shape: WatchedAxiom
    leaves: list[LeafWatch]
    told: dict[Key, set[int]] = field(default_factory=dict)
    violations: int = 0
    recent: deque[tuple[int, int]] = field(default_factory=deque)
    last: int | None = None

    @property
    def many(self) -> bool:
        """Whether a cell may be violated in several ways."""
        return len(self.leaves) > 1 or self.leaves[0].leaf.axes != self.shape.axes


def _steps(bits: int) -> Iterator[int]:
    """The places of bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def merge(waiting: dict[Function, Ranges], function: Function, times: Ranges) -> None:
    """Add times to those that wait for the same."""
    known = waiting.setdefault(function, times)
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
    waiting[function] = joined
