"""The behaviour of robots and parcels of deliveries, as Markov chains with few states.

A state remembers enough of the past that the log-likelihood of a time point depends only on the
state at that time point. Paths given evidence can therefore be drawn exactly, one time point after
another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reproduction.deliveries.world import (
    BREAKS,
    FAULTS,
    LOADS,
    PAUSE,
    UNLOADS,
    WINDOW,
    Given,
    ago,
    since_reset,
)

Array = np.ndarray[Any, Any]

# The states of a robot: it has had no fault yet; its fault is in its first, second … time point;
# the fault has been over for one, two … time points; it is ready for another. Two faults are so far
# apart that the state tells when the robot was faulty in the window of Alarm and Delayed.
_FIRST, _LONGEST = FAULTS.start, FAULTS.stop - 1
NEVER, ON, OFF, READY = 0, 1, 1 + _LONGEST, _LONGEST + PAUSE
ROBOT_STATES = READY + 1

# The states of a parcel: absent; waiting for one, two, or more time points; loaded at this time
# point after such a wait; moving since earlier; gone.
ABSENT, WAITS, LOADED, MOVES, GONE = 0, 1, 1 + WINDOW, 1 + 2 * WINDOW, 2 + 2 * WINDOW
PARCEL_STATES = GONE + 1

# Log-likelihoods that are further apart are treated as this far apart, so that the sum over
# reachable states is never 0.
_FARTHEST = 600.0


def draw_paths(gain: Tensor, initial: Tensor, transition: Tensor, draws: Tensor) -> Tensor:
    """Draw paths of Markov chains given evidence exactly: filter forwards, draw backwards.

    Args:
        gain: what a state adds to the log-likelihood, shape (unit, time, row, state).
        initial: the probabilities of states at the first time point.
        transition: the probabilities of states after a state, shape (unit or 1, time, state before,
            state after); the entry of the first time point is not used.
        draws: numbers in [0, 1), shape (unit, time, row).

    Returns:
        The states, shape (unit, time, row).
    """
    units, steps = gain.shape[:2]
    into = transition.expand(units, -1, -1, -1).unbind(1)
    likely = (gain - gain.amax(-1, keepdim=True)).clamp_(min=-_FARTHEST).exp_().unbind(1)
    belief = [initial * likely[0]]
    for point in range(1, steps):
        ahead = torch.bmm(belief[-1], into[point]).mul_(likely[point])
        belief.append(ahead.div_(ahead.sum(-1, keepdim=True)))
    states = [_pick(belief[-1], draws[:, -1])]
    for point in range(steps - 2, -1, -1):
        after = states[-1][..., None].expand_as(belief[point])
        weights = into[point + 1].transpose(1, 2).gather(1, after).mul_(belief[point])
        states.append(_pick(weights, draws[:, point]))
    return torch.stack(states[::-1], dim=1)


def _pick(weights: Tensor, draw: Tensor) -> Tensor:
    """Draw a position in the last axis in proportion to the weights."""
    below = weights.cumsum(-1)
    place = torch.searchsorted(below, draw[..., None] * below[..., -1:], right=True)
    return place[..., 0].clamp_(max=weights.shape[-1] - 1)


def robot_chain() -> tuple[Array, Array]:
    """Return the initial states and transitions of a worn robot, which may still have no fault."""
    table = np.zeros((ROBOT_STATES, ROBOT_STATES))
    for rest in (NEVER, READY):
        table[rest, [rest, ON]] = 1 - BREAKS, BREAKS
    for length in range(1, _LONGEST + 1):
        ends = 1 / (_LONGEST + 1 - length) if length >= _FIRST else 0.0
        table[ON + length - 1, OFF] = ends
        if length < _LONGEST:
            table[ON + length - 1, ON + length] = 1 - ends
    for state in range(OFF, READY):
        table[state, state + 1] = 1.0
    return table[NEVER], table


def parcel_chains(known: Given) -> tuple[Array, Array]:
    """Return initial states of parcels, and transitions, shape (parcel, time, before, after)."""
    _, parcels, _, steps = known.size
    begins = 1 / (steps - np.arange(steps))
    loads = LOADS * known.at[known.carrier, known.origin]
    unloads = UNLOADS * known.at[known.carrier, known.target]
    table = np.zeros((parcels, steps, PARCEL_STATES, PARCEL_STATES))
    table[..., ABSENT, ABSENT], table[..., ABSENT, WAITS] = 1 - begins, begins
    for k in range(WINDOW):
        table[..., WAITS + k, LOADED + k] = loads
        table[..., WAITS + k, WAITS + min(k + 1, WINDOW - 1)] = 1 - loads
    for state in range(LOADED, GONE):
        table[..., state, MOVES], table[..., state, GONE] = 1 - unloads, unloads
    table[..., GONE, GONE] = 1
    return table[0, 0, ABSENT], table


def was_faulty() -> Array:
    """Return whether a robot was faulty 0 to 3 time points ago, shape (state, time points ago)."""
    state, back = np.ogrid[:ROBOT_STATES, : WINDOW + 1]
    on = (state >= ON) & (state < OFF) & (back <= state - ON)
    over = (state >= OFF) & (state < READY) & (back > state - OFF)
    was: Array = on | over
    return was


def groups(apart: Array) -> list[Array]:
    """Divide units into few groups, in each of which all units are apart from each other."""
    collected: list[list[int]] = []
    for unit, row in enumerate(apart):
        for group in collected:
            if row[group].all():
                group.append(unit)
                break
        else:
            collected.append([unit])
    return [np.array(group) for group in collected]


def alarms_of(known: Given, was: Array) -> Array:
    """Return which alarms a robot causes, 0 or 1, shape (robot, time, state, station)."""
    there = ago(known.at) & since_reset(known.reset)[:, None]
    ways: Array = np.einsum("jrkt,sj->rtsk", there.astype(float), was.astype(float))
    return ways.clip(max=1.0)
