"""The behaviour of patients and nurses of a ward, as Markov chains with few states.

A state remembers enough of the past that the log-likelihood of a time point depends only on the
state at that time point, and on what all others do. Tracks given evidence can therefore be drawn
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from reproduction.ward.world import (
    CARE,
    COMES,
    FALLS_ILL,
    ILL_AT_FIRST,
    LEAVES,
    PAUSE,
    RECOVERS,
    REST,
    RESTS,
    WELL,
    WINDOW,
)

Array = np.ndarray[Any, Any]

# The states of a nurse: ready to rest; in the first, second … time point of a rest; in the first,
# second … time point after it, in which no other rest begins.
READY, RESTING, PAUSING = 0, 1, REST.stop
NURSE_STATES = PAUSING + PAUSE


class State(NamedTuple):
    """A state of a patient.

    Args:
        kind: "well", "falls" ill at this time point, "waits" for a nurse since then, "left" by a
            nurse, or "tended".
        points: for how many time points, counted only as far as it matters.
        nurse: the nurse who tends.
        gap: for a patient tended for one time point, how long nobody tended them before.
        recovered: whether the patient has recovered earlier or at this time point.
    """

    kind: str
    points: int
    nurse: int
    gap: int
    recovered: bool


@dataclass(frozen=True, slots=True, eq=False)
class PatientChain:
    """The states of a patient, with their initial and transition probabilities.

    These probabilities assume that a nurse who may come does not go elsewhere, and that a patient
    may always stay alone; the gain of the states corrects for both.
    """

    states: tuple[State, ...]
    initial: Array
    transition: Array

    def where(self, *kinds: str) -> Array:
        """Return which states are of some kinds."""
        return np.array([state.kind in kinds for state in self.states])

    def column(self, name: str) -> Array:
        """Return a field of all states."""
        return np.array([getattr(state, name) for state in self.states])


def patient_chain(nurses: int) -> PatientChain:
    """Build the chain of a patient with this many nurses."""
    states = [State("well", WELL, -1, 0, False)]
    states += [State("well", points, -1, 0, True) for points in range(1, WELL + 1)]
    for recovered in (False, True):
        states += [State(kind, 1, -1, 0, recovered) for kind in ("falls", "waits")]
        states += [State("left", points, -1, 0, recovered) for points in range(1, WINDOW + 1)]
        for nurse in range(nurses):
            gaps = range(1, WINDOW + 1)
            states += [State("tended", 1, nurse, gap, recovered) for gap in gaps]
            longer = range(2, CARE.stop)
            states += [State("tended", points, nurse, 0, recovered) for points in longer]
    number = {state: i for i, state in enumerate(states)}
    table = np.zeros((len(states), len(states)))
    for state, i in number.items():
        for after, probability in _after(state, nurses):
            table[i, number[after]] += probability
    initial = np.zeros(len(states))
    initial[number[State("falls", 1, -1, 0, False)]] = ILL_AT_FIRST
    initial[number[State("well", WELL, -1, 0, False)]] = 1 - ILL_AT_FIRST
    return PatientChain(tuple(states), initial, table)


def _after(state: State, nurses: int) -> list[tuple[State, float]]:
    """Return what may follow a state, as if all nurses could come and nobody had to."""
    recovered = state.recovered
    left = State("left", 1, -1, 0, recovered)
    match state.kind:
        case "well":
            falls = FALLS_ILL if state.points == WELL else 0.0
            after = state._replace(points=min(state.points + 1, WELL))
            return [(State("falls", 1, -1, 0, recovered), falls), (after, 1 - falls)]
        case "falls" | "waits" | "left":
            gap = state.points if state.kind == "left" else WINDOW
            comes = [(State("tended", 1, n, gap, recovered), COMES) for n in range(nurses)]
            waits = State("waits", 1, -1, 0, recovered)
            longer = state._replace(points=min(state.points + 1, WINDOW))
            return [*comes, (longer if state.kind == "left" else waits, 1.0)]
        case _:
            longer = state._replace(points=state.points + 1, gap=0)
            if state.points < CARE.start:
                return [(longer, 1.0)]
            leaves = LEAVES if state.points < CARE.stop - 1 else 1.0
            moves = [(State("well", 1, -1, 0, True), RECOVERS), (left, (1 - RECOVERS) * leaves)]
            return moves + [(longer, (1 - RECOVERS) * (1 - leaves))] * (leaves < 1)


def nurse_chain() -> tuple[Array, Array]:
    """Return the initial states and transitions of a nurse; the gain decides on staying ready."""
    table = np.zeros((NURSE_STATES, NURSE_STATES))
    for state in (READY, NURSE_STATES - 1):
        table[state, [READY, RESTING]] = 1.0, RESTS
    for points in range(1, REST.stop):
        ends = 1 / (REST.stop - points) if points >= REST.start else 0.0
        table[RESTING + points - 1, PAUSING] = ends
        if points < REST.stop - 1:
            table[RESTING + points - 1, RESTING + points] = 1 - ends
    for state in range(PAUSING, NURSE_STATES - 1):
        table[state, state + 1] = 1.0
    return table[READY], table


def phases(rests: Array) -> Array:
    """Return the states of nurses from when they rest, shape (trace, nurse, time)."""
    result = np.zeros(rests.shape, dtype=np.int64)
    for trace, nurse in product(*map(range, rests.shape[:2])):
        state = READY
        for point, resting in enumerate(rests[trace, nurse]):
            if resting:
                state = state + 1 if RESTING <= state < PAUSING else RESTING
            elif state >= RESTING:
                state = max(state + 1, PAUSING) % NURSE_STATES
            result[trace, nurse, point] = state
    return result
