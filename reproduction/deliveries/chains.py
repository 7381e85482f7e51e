"""What robots and parcels of deliveries do, as Markov chains of few states.

A state remembers so much of the past that what a point adds to the log-likelihood depends on the
state at that point only. So paths with evidence are drawn exactly, point by point.
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

# The states of a robot: it had no fault yet; its fault is in its first, second … point; the fault
# has been over for one, two … points; it is ready for another one. Two faults are so far apart that
# a state tells when the robot was faulty in the window of Alarm and Delayed.
_FIRST, _LONGEST = FAULTS.start, FAULTS.stop - 1
NEVER, ON, OFF, READY = 0, 1, 1 + _LONGEST, _LONGEST + PAUSE
ROBOT_STATES = READY + 1

# The states of a parcel: absent; waiting for one, two, or more points; loaded at this point after
# so long a wait; moving since earlier; gone.
ABSENT, WAITS, LOADED, MOVES, GONE = 0, 1, 1 + WINDOW, 1 + 2 * WINDOW, 2 + 2 * WINDOW
PARCEL_STATES = GONE + 1

# Likelihoods that are farther apart, as logarithms, are taken as this far apart, so that the sum
# over the states that can be reached is never 0.
_FARTHEST = 600.0


def draw_paths(gain: Tensor, initial: Tensor, transition: Tensor, draws: Tensor) -> Tensor:
    """Paths of Markov chains with evidence, drawn exactly: filter forwards, draw backwards.

    Args:
        gain: what a state at a point adds to the log-likelihood, with axes (unit, time, row,
            state).
        initial: how probable states are at the first point.
        transition: how probable states are after a state, with axes (unit or 1, time, state
            before, state after); of the first point it is not looked at.
        draws: numbers in [0, 1), with axes (unit, time, row).

    Returns:
        The states, with axes (unit, time, row).
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
    """A place in the last axis, drawn by the weights."""
    below = weights.cumsum(-1)
    place = torch.searchsorted(below, draw[..., None] * below[..., -1:], right=True)
    return place[..., 0].clamp_(max=weights.shape[-1] - 1)


def robot_chain() -> tuple[Array, Array]:
    """The first states and the transitions of a worn robot that may have no fault after all."""
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
    """The first states of a parcel, and the transitions of all, (parcel, time, before, after)."""
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
    """Whether a robot in a state was faulty 0 to 3 points ago, with axes (state, points ago)."""
    state, back = np.ogrid[:ROBOT_STATES, : WINDOW + 1]
    on = (state >= ON) & (state < OFF) & (back <= state - ON)
    over = (state >= OFF) & (state < READY) & (back > state - OFF)
    was: Array = on | over
    return was


def groups(apart: Array) -> list[Array]:
    """Units in few groups, such that those of a group are all apart from each other."""
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
    """Which alarms a robot in a state causes, 0 or 1, with axes (robot, time, state, station)."""
    there = ago(known.at) & since_reset(known.reset)[:, None]
    ways: Array = np.einsum("jrkt,sj->rtsk", there.astype(float), was.astype(float))
    return ways.clip(max=1.0)
