"""The fewest facts of a circuit to flip so that it is true.

Every repair has to flip one of the facts that make the circuit false. So a search that tries each
of them in turn, and then looks again, misses none. It goes on to more flips only when all repairs
with fewer are ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from fotltn.analysis.explain.circuit import Circuit

_NONE: frozenset[int] = frozenset()

#: The weight of prices against the number of flips.
_LITTLE = 1e-9

#: The most facts for which the facts under each gate are computed.
_BITS = 4096


class SmallestRepair(NamedTuple):
    """The facts to flip; None if there is no repair or, if not `exact`, none was found."""

    flips: frozenset[int] | None
    exact: bool
    least: int


class _Gates(NamedTuple):
    """The gates with some facts flipped.

    Args:
        truth: the truth of each gate.
        least: the least number of flips that make each gate true.
        blame: for each false gate, a bound on how many facts make it false.
    """

    truth: list[bool]
    least: list[float]
    blame: list[float]


class Search:
    """Looks for the smallest repair of a circuit, within some effort."""

    def __init__(self, circuit: Circuit, effort: int) -> None:
        """Keep the gates that the root depends on."""
        self.circuit = circuit
        self.effort = effort
        self.order = _reachable(circuit)
        self.once = self._read_once()
        few = len(circuit.facts) <= _BITS and not self.once
        self.supports = self._supports() if few else None

    def run(self) -> SmallestRepair:
        """The smallest repair."""
        start = self._state(_NONE, _NONE)
        root = self.circuit.root
        if start.least[root] == math.inf:
            return SmallestRepair(None, True, 0)
        least = int(start.least[root])
        best = self._first()
        if best is not None and (len(best) == least or self.once):
            return SmallestRepair(best, True, len(best))
        most = len(self.circuit.facts) if best is None else len(best) - 1
        while least <= most:
            flips, cut = self._within(least)
            if flips is not None:
                return SmallestRepair(flips, True, len(flips))
            if self.effort <= 0:
                return SmallestRepair(best, False, least)
            if not cut:
                return SmallestRepair(None, True, 0)
            least += 1
        return SmallestRepair(best, True, 0 if best is None else len(best))

    # --- the state of the gates ---------------------------------------------------------------

    def _state(self, flips: frozenset[int], settled: frozenset[int]) -> _Gates:
        """Return the gates with some facts flipped; flipped and settled facts stay as they are."""
        gates, truths = self.circuit.gates, self.circuit.truths
        size = len(gates)
        truth, least, blame = [False] * size, [math.inf] * size, [0.0] * size
        self.effort -= len(self.order)
        for number in self.order:
            gate = gates[number]
            if gate.fact >= 0:
                holds = (truths[gate.fact] != (gate.fact in flips)) == gate.sign
                truth[number] = holds
                free = gate.fact not in flips and gate.fact not in settled
                least[number] = 0 if holds else (1 if free else math.inf)
                blame[number] = 1 if free else 0
            elif gate.all:
                truth[number] = all(truth[i] for i in gate.inputs)
                least[number] = 0 if truth[number] else self._all(gate.inputs, least)
                blame[number] = min((blame[i] for i in gate.inputs if not truth[i]), default=0)
            else:
                truth[number] = any(truth[i] for i in gate.inputs)
                least[number] = min((least[i] for i in gate.inputs), default=math.inf)
                blame[number] = sum(blame[i] for i in gate.inputs)
        return _Gates(truth, least, blame)

    def _all(self, inputs: tuple[int, ...], least: list[float]) -> float:
        """Return a bound for a gate of all inputs: flips of inputs that share no fact add up."""
        if self.once:
            return sum(least[i] for i in inputs)
        if self.supports is None:
            return max(least[i] for i in inputs)
        total, seen = 0.0, 0
        for number in sorted(inputs, key=lambda i: -least[i]):
            if not least[number]:
                break
            if not seen & self.supports[number]:
                total += least[number]
                seen |= self.supports[number]
        return total

    def _supports(self) -> list[int]:
        """The facts under each gate, as bits."""
        facts = [0] * len(self.circuit.gates)
        for number in self.order:
            gate = self.circuit.gates[number]
            facts[number] = 1 << gate.fact if gate.fact >= 0 else 0
            for i in gate.inputs:
                facts[number] |= facts[i]
        return facts

    def _read_once(self) -> bool:
        """Whether no fact is read twice, so that flips in one place have no effect elsewhere."""
        gates = [self.circuit.gates[number] for number in self.order]
        read = [i for gate in gates for i in gate.inputs]
        facts = [gate.fact for gate in gates if gate.fact >= 0]
        return len(read) == len(set(read)) and len(facts) == len(set(facts))

    # --- a first repair -----------------------------------------------------------------------

    def _first(self) -> frozenset[int] | None:
        """Return a repair: flip the cheapest facts, again and again, until the root is true."""
        flips = _NONE
        while True:
            state = self._state(flips, _NONE)
            if state.truth[self.circuit.root]:
                return flips
            chosen = self._cheapest(flips, state)
            if chosen is None or self.effort <= 0:
                return None
            flips = flips | chosen

    def _cheapest(self, flips: frozenset[int], state: _Gates) -> frozenset[int] | None:
        """The flips that cost least, as if no fact were read twice; None if none will do."""
        gates, price = self.circuit.gates, self.circuit.price
        cost = [math.inf] * len(gates)
        for number in self.order:
            gate = gates[number]
            if state.truth[number]:
                cost[number] = 0
            elif gate.fact >= 0:
                cost[number] = math.inf if gate.fact in flips else 1 + _LITTLE * price[gate.fact]
            elif gate.all:
                cost[number] = sum(cost[i] for i in gate.inputs)
            else:
                cost[number] = min((cost[i] for i in gate.inputs), default=math.inf)
        if cost[self.circuit.root] == math.inf:
            return None
        cheapest: set[int] = set()
        stack = [self.circuit.root]
        while stack:
            gate = gates[number := stack.pop()]
            if not cost[number]:
                continue
            if gate.fact >= 0:
                cheapest.add(gate.fact)
            elif gate.all:
                stack.extend(gate.inputs)
            else:
                stack.append(min(gate.inputs, key=lambda i: cost[i]))
        return frozenset(cheapest)

    # --- all repairs of a size ----------------------------------------------------------------

    def _within(self, most: int) -> tuple[frozenset[int] | None, bool]:
        """Return a repair within a number of flips, and whether there may be larger ones."""
        root = self.circuit.root
        stack = [(_NONE, _NONE)]
        cut = False
        while stack and self.effort > 0:
            flips, settled = stack.pop()
            state = self._state(flips, settled)
            if state.truth[root]:
                return flips, cut
            if state.least[root] == math.inf:
                continue
            if len(flips) + state.least[root] > most:
                cut = True
                continue
            tried = settled
            branches = []
            for fact in self._blamed(state, flips, settled):
                branches.append((flips | {fact}, tried))
                tried = tried | {fact}
            stack.extend(reversed(branches))
        return None, cut

    def _blamed(
        self, state: _Gates, flips: frozenset[int], settled: frozenset[int]
    ) -> Iterable[int]:
        """Return facts that make the root false; every repair flips one of them."""
        gates = self.circuit.gates
        blamed: dict[int, None] = {}
        stack = [self.circuit.root]
        seen = {self.circuit.root}
        while stack:
            gate = gates[stack.pop()]
            if gate.fact >= 0:
                if gate.fact not in flips and gate.fact not in settled:
                    blamed[gate.fact] = None
                continue
            below = list(gate.inputs)
            if gate.all:
                wrong = [i for i in below if not state.truth[i]]
                below = [min(wrong, key=lambda i: state.blame[i])]
            for i in below:
                if i not in seen:
                    seen.add(i)
                    stack.append(i)
        return sorted(blamed, key=lambda fact: self.circuit.price[fact])


def _reachable(circuit: Circuit) -> list[int]:
    """The gates that the root depends on, inputs first."""
    seen = {circuit.root}
    stack = [circuit.root]
    while stack:
        for i in circuit.gates[stack.pop()].inputs:
            if i not in seen:
                seen.add(i)
                stack.append(i)
    return sorted(seen)
