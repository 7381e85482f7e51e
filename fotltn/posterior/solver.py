"""A solver that decides whether clauses of literals can all be true; it learns from conflicts.

A literal is a number: `2 * variable` if the variable is true, and `2 * variable + 1` if it is
false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush


class Solver:
    """Clauses over variables, which are numbered from 0.

    Attributes:
        model: the values of all variables, after a search that succeeded.
        core: assumptions that cannot all be true, after a search that failed.
    """

    def __init__(self) -> None:
        """Begin without clauses."""
        self.model: list[bool] = []
        self.core: set[int] = set()
        self._possible = True
        self._watches: list[list[list[int]]] = []
        self._value: list[bool | None] = []  # by literal
        self._level: list[int] = []
        self._reason: list[list[int] | None] = []
        self._phase: list[bool] = []
        self._activity: list[float] = []
        self._heap: list[tuple[float, int]] = []
        self._trail: list[int] = []
        self._limits: list[int] = []
        self._head = 0
        self._bump = 1.0

    def variable(self, phase: bool) -> int:
        """Make a variable; return its true literal. `phase` is the value that is tried first."""
        number = len(self._level)
        self._watches += [[], []]
        self._value += [None, None]
        self._level.append(0)
        self._reason.append(None)
        self._phase.append(phase)
        self._activity.append(0.0)
        heappush(self._heap, (0.0, number))
        return 2 * number

    def add(self, literals: Iterable[int]) -> None:
        """Add a clause: one of these literals must be true."""
        self._cancel(0)
        clause = list(dict.fromkeys(literals))
        if any(one ^ 1 in clause for one in clause):
            return
        clause = [one for one in clause if self._value[one] is not False]
        if any(self._value[one] for one in clause):
            return
        if not clause:
            self._possible = False
        elif len(clause) == 1:
            self._set(clause[0], None)
            self._possible &= self._propagate() is None
        else:
            self._attach(clause)

    def solve(self, assumptions: Sequence[int], effort: int) -> bool | None:
        """Whether all clauses can be true, with all assumptions; None if that takes too long.

        Args:
            assumptions: literals.
            effort: the most conflicts of the search.
        """
        self._cancel(0)
        self.core = set()
        if not self._possible:
            return False
        conflicts = 0
        while True:
            conflict = self._propagate()
            if conflict is not None:
                if not self._limits:
                    self._possible = False
                    return False
                conflicts += 1
                if conflicts > effort:
                    return None
                self._learn(conflict)
            elif len(self._limits) < len(assumptions):
                wanted = assumptions[len(self._limits)]
                if self._value[wanted] is False:
                    self.core = self._blamed(wanted)
                    return False
                self._limits.append(len(self._trail))
                if self._value[wanted] is None:
                    self._set(wanted, None)
            else:
                number = self._next()
                if number is None:
                    self.model = [bool(self._value[2 * n]) for n in range(len(self._level))]
                    return True
                self._limits.append(len(self._trail))
                self._set(2 * number + (not self._phase[number]), None)

    # --- values ---

    def _attach(self, clause: list[int]) -> None:
        self._watches[clause[0]].append(clause)
        self._watches[clause[1]].append(clause)

    def _set(self, literal: int, reason: list[int] | None) -> None:
        self._value[literal], self._value[literal ^ 1] = True, False
        self._level[literal >> 1] = len(self._limits)
        self._reason[literal >> 1] = reason
        self._trail.append(literal)

    def _cancel(self, level: int) -> None:
        if len(self._limits) <= level:
            return
        start = self._limits[level]
        for literal in self._trail[start:]:
            number = literal >> 1
            self._value[literal] = self._value[literal ^ 1] = None
            self._phase[number] = not literal & 1
            heappush(self._heap, (-self._activity[number], number))
        del self._trail[start:], self._limits[level:]
        self._head = start

    def _propagate(self) -> list[int] | None:
        """Set literals that follow; return a clause that became false, if any."""
        value, watches = self._value, self._watches
        while self._head < len(self._trail):
            false = self._trail[self._head] ^ 1
            self._head += 1
            watching, watches[false] = watches[false], []
            for place, clause in enumerate(watching):
                if clause[0] == false:
                    clause[0], clause[1] = clause[1], false
                first = clause[0]
                if value[first]:
                    watches[false].append(clause)
                    continue
                for other in range(2, len(clause)):
                    if value[clause[other]] is not False:
                        clause[1], clause[other] = clause[other], false
                        watches[clause[1]].append(clause)
                        break
                else:
                    watches[false].append(clause)
                    if value[first] is False:
                        watches[false] += watching[place + 1 :]
                        self._head = len(self._trail)
                        return clause
                    self._set(first, clause)
        return None

    def _next(self) -> int | None:
        """The variable to decide next: the one in most conflicts, if any is open."""
        while self._heap:
            _, number = heappop(self._heap)
            if self._value[2 * number] is None:
                return number
        return None

    # --- conflicts ---

    def _learn(self, conflict: list[int]) -> None:
        """Add the clause that a conflict teaches, and go back to where it sets a literal."""
        seen: set[int] = set()
        learned: list[int] = []
        place, open_, reason = len(self._trail), 0, conflict
        pivot: int | None = None
        while True:
            for literal in reason:
                number = literal >> 1
                if literal != pivot and number not in seen and self._level[number]:
                    seen.add(number)
                    self._raise(number)
                    if self._level[number] == len(self._limits):
                        open_ += 1
                    else:
                        learned.append(literal)
            while True:
                place -= 1
                pivot = self._trail[place]
                if pivot >> 1 in seen:
                    break
            open_ -= 1
            if not open_:
                break
            reason = self._reason[pivot >> 1] or []
        self._bump /= 0.95
        learned.sort(key=lambda one: -self._level[one >> 1])
        clause = [pivot ^ 1, *learned]
        self._cancel(self._level[learned[0] >> 1] if learned else 0)
        if len(clause) > 1:
            self._attach(clause)
            self._set(clause[0], clause)
        else:
            self._set(clause[0], None)

    def _raise(self, number: int) -> None:
        self._activity[number] += self._bump
        if self._activity[number] > 1e100:
            self._activity = [a * 1e-100 for a in self._activity]
            self._bump *= 1e-100
        if self._value[2 * number] is None:
            heappush(self._heap, (-self._activity[number], number))

    def _blamed(self, wanted: int) -> set[int]:
        """The assumptions that contradict an assumption, with that assumption."""
        core, stack, seen = {wanted}, [wanted ^ 1], set[int]()
        while stack:
            literal = stack.pop()
            number = literal >> 1
            if number in seen or not self._level[number]:
                continue
            seen.add(number)
            reason = self._reason[number]
            if reason is None:
                core.add(literal)
            else:
                stack += [one ^ 1 for one in reason if one != literal]
        return core
