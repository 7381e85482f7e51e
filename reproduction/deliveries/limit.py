"""The Bayes limit of deliveries: what labels reveal if the process that made them is known.

The prior is the true process, as in `reproduction.deliveries.world`. The evidence is labels that
are wrong at known rates, and all of `Given` is known. On average, no method that knows less ranks
the facts better.

The posterior is sampled by Gibbs sampling: robots get new faults and parcels get new tracks, one
after another, given all others. This step is exact, see `reproduction.deliveries.chains`. Robots
that cannot cause the same alarm are drawn at the same time, and so are parcels of different
origins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from reproduction.deliveries.chains import (
    GONE,
    LOADED,
    MOVES,
    NEVER,
    PARCEL_STATES,
    WAITS,
    Array,
    alarms_of,
    draw_paths,
    groups,
    parcel_chains,
    robot_chain,
    was_faulty,
)
from reproduction.deliveries.world import (
    BREAKS,
    LEARNED,
    RATES,
    SORTS,
    WINDOW,
    WORN,
    Given,
    Rates,
    Size,
    rates_of,
)
from reproduction.paper.bayes import SMALLEST_RATE, Degrees, check_sampling

#: Chains seldom switch from one robot to another as the cause of an alarm, so there are many.
SWEEPS, BURN_IN, CHAINS = 100, 40, 32


# --- the posterior ---------------------------------------------------------------------------


def posterior(
    known: Given,
    labels: Labels,
    *,
    seed: int,
    rates: Mapping[str, Rates] = RATES,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    device: str | torch.device = "cpu",
) -> Degrees:
    """Compute the probability of every cell of the learned predicates, given noisy labels.

    Args:
        known: the given part of the world.
        labels: true or false facts, some of them wrong; there may be none.
        seed: the seed of the draws, which depend on nothing else.
        rates: how often the labels of each predicate are wrong.
        sweeps: the number of sweeps of each chain, after those of `burn_in`.
        burn_in: the number of sweeps that do not count. In the first half, labels of Alarm, Busy
            and Delayed gain weight.
        chains: the number of independent chains to average over.
        device: the device to compute on.

    Returns:
        The means by predicate: shape (robot, 1) for Worn, (entity, time) for the others.

    Raises:
        DataError: labels do not fit the world, a degree is neither 0 nor 1, or a number is out of
            range.
    """
    return posteriors(
        known,
        [labels],
        seeds=[seed],
        rates=rates,
        sweeps=sweeps,
        burn_in=burn_in,
        chains=chains,
        device=device,
    )[0]


def posteriors(
    known: Given,
    labels: Sequence[Labels],
    *,
    seeds: Sequence[int],
    rates: Mapping[str, Rates] = RATES,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    device: str | torch.device = "cpu",
) -> list[Degrees]:
    """Compute the posterior of one world for several sets of labels at once.

    Each set has its own seed, and its result equals that of `posterior` up to rounding.
    """
    check_sampling(len(labels), seeds, sweeps, burn_in, chains)
    pieces = [_evidence(one, known.size, rates) for one in labels]
    if not pieces:
        return []
    size = known.size
    evidence = {
        name: torch.stack([one[name] for one in pieces], dim=-1)
        .repeat_interleave(chains, dim=-1)
        .to(device)
        for name in LEARNED
    }
    sampler = _Sampler(known, evidence, torch.device(device))
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    shape = (size.steps, size.robots + size.parcels, chains)
    for sweep in range(burn_in + sweeps):
        draws = [torch.rand(shape, generator=g, dtype=torch.float64) for g in generators]
        strength = min(1.0, 2 * sweep / burn_in) if burn_in else 1.0
        sampler.sweep(torch.cat(draws, dim=-1).to(device), strength)
        if sweep >= burn_in:
            sampler.count()
    means = {
        name: total.unflatten(-1, (-1, chains)).sum(-1).cpu() / (sweeps * chains)
        for name, total in sampler.totals.items()
    }
    return [
        {name: mean[..., run].contiguous() for name, mean in means.items()}
        for run in range(len(labels))
    ]


def evidence_of(
    labels: Labels, shapes: Mapping[str, tuple[int, ...]], rates: Mapping[str, Rates]
) -> Degrees:
    """Return the evidence of labels for each fact, as log-likelihood ratios.

    Args:
        labels: true or false facts, some of them wrong.
        shapes: the shapes (trace, *arguments, time) of the tables of all learned predicates.
        rates: how often the labels of each predicate are wrong.

    Raises:
        DataError: labels do not fit the shapes, a degree is neither 0 nor 1, or a predicate has no
            rates.
    """
    tables = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    for name, index in labels.index.items():
        if name not in tables:
            hint = did_you_mean(name, tables) or f"there are {listing(tables)}"
            raise DataError(f"no predicate '{name}' is learned in a world; {hint}")
        table, index, truth = tables[name], index.cpu(), labels.truth[name].cpu()
        limits = torch.tensor(table.shape)[:, None]
        if len(index) != table.ndim or ((index < 0) | (index >= limits)).any():
            raise DataError(
                f"labels of '{name}' do not fit its table, whose shape (trace, arguments, time) "
                f"is {tuple(table.shape)}"
            )
        if ((truth != 0) & (truth != 1)).any():
            raise DataError(f"labels of '{name}' must be 0 or 1, but a degree is between")
        missed, invented = (
            min(max(rate, SMALLEST_RATE), 1 - SMALLEST_RATE) for rate in rates_of(name, rates)
        )
        speaks_for = float(np.log1p(-missed) - np.log(invented))
        speaks_against = float(np.log(missed) - np.log1p(-invented))
        weights = torch.tensor([speaks_against, speaks_for], dtype=table.dtype)[truth.long()]
        table.index_put_(tuple(index), weights, accumulate=True)
    return tables


def _evidence(labels: Labels, size: Size, rates: Mapping[str, Rates]) -> Degrees:
    numbers = {"robot": size.robots, "parcel": size.parcels, "station": size.stations}
    shapes = {
        name: (1, numbers[SORTS[name][0]], 1 if name == "Worn" else size.steps) for name in LEARNED
    }
    return {name: table[0] for name, table in evidence_of(labels, shapes, rates).items()}


# --- sampling --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Robots:
    """Robots that are drawn together.

    Args:
        units: their numbers.
        alarms: which alarms a state causes, 0 or 1, shape (robot, time, state, station).
    """

    units: Tensor
    alarms: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Parcels:
    """Parcels that are drawn together.

    Args:
        units: their numbers.
        transition: the transitions of their states, as in `draw_paths`.
    """

    units: Tensor
    transition: Tensor


class _Sampler:
    """Draws all robots and parcels in all chains of all runs.

    A row is a chain of a run. Tables have shape (entity, time, row); those of alarms and of the
    number of waiting parcels have shape (time, row, station).

    Args:
        known: the given part of the world.
        evidence: the evidence for each predicate, shape (entity, time, row).
        device: the device to compute on.
    """

    def __init__(self, known: Given, evidence: Degrees, device: torch.device) -> None:
        robots, parcels, _, steps = known.size
        rows = evidence["Worn"].shape[-1]

        def moved(array: Array) -> Tensor:
            return torch.from_numpy(array.copy()).to(device)

        self.evidence = evidence
        self.carrier, self.origin = moved(known.carrier), moved(known.origin)
        was = was_faulty()
        self.faulty_in, self.recent_in = moved(was[:, 0]), moved(was.max(1))
        alarms = alarms_of(known, was)
        reach = alarms.max(2).reshape(robots, -1)
        self.robots = [
            _Robots(moved(units), moved(alarms[units])) for units in groups(reach @ reach.T == 0)
        ]
        first, table = robot_chain()
        self.robot_start = moved(first)
        self.robot_chain = moved(table).expand(1, steps, -1, -1)
        first, table = parcel_chains(known)
        self.parcel_start = moved(first)
        self.parcels = [
            _Parcels(moved(units), moved(table[units]))
            for units in groups(known.origin[:, None] != known.origin)
        ]
        quiet = steps * float(np.log1p(-BREAKS))  # no fault of a worn robot, which is drawn again
        self.of_worn = evidence["Worn"][:, 0] + float(np.log(WORN) - np.log(-np.expm1(quiet)))
        self.of_sound = float(np.log1p(-WORN)) - quiet
        self.alarm, self.busy = (evidence[n].permute(1, 2, 0) for n in ("Alarm", "Busy"))
        due = pad(evidence["Due"], (0, 0, WINDOW, 0))
        back = [due[:, WINDOW - j : WINDOW - j + steps] for j in range(1, WINDOW + 1)]
        self.due = torch.stack(back, dim=-1).cumsum(-1)
        nothing = torch.zeros(robots, steps, rows, dtype=torch.bool, device=device)
        self.faulty, self.recent = nothing, nothing.clone()
        self.waits = torch.zeros(parcels, steps, rows, dtype=torch.bool, device=device)
        self.moves = self.waits.clone()
        self.reasons = torch.zeros_like(self.alarm)
        self.caused = self.reasons.expand(robots, -1, -1, -1).clone()
        self.waiting = torch.zeros_like(self.busy)
        self.totals = {name: torch.zeros_like(one) for name, one in evidence.items()}

    def sweep(self, draws: Tensor, strength: float) -> None:
        """Draw the faults of every robot, and the track of every parcel.

        Args:
            draws: numbers in [0, 1), shape (time, robot or parcel, row), robots first.
            strength: how much the labels of Alarm, Busy and Delayed count.
        """
        draws = draws.transpose(0, 1)
        robots = len(self.faulty)
        delays = torch.zeros_like(self.evidence["Faulty"])
        open_now = (self.waits | self.moves) * self.evidence["Delayed"]
        delays.index_add_(0, self.carrier, open_now, alpha=strength)
        for some in self.robots:
            self._draw_robots(some, delays, draws[some.units], strength)
        for parcels in self.parcels:
            self._draw_parcels(parcels, draws[robots + parcels.units], strength)

    def _draw_robots(self, some: _Robots, delays: Tensor, draws: Tensor, strength: float) -> None:
        units, old = some.units, self.caused[some.units]
        needed = (self.reasons - old == 0) * self.alarm * strength
        gain = needed @ some.alarms.transpose(2, 3)
        gain += self.evidence["Faulty"][units][..., None] * self.faulty_in
        gain += delays[units][..., None] * self.recent_in
        gain[:, -1] += self.of_worn[units][..., None]
        gain[:, -1, :, NEVER] += self.of_sound - self.of_worn[units]
        state = draw_paths(gain, self.robot_start, self.robot_chain, draws)
        self.faulty[units], self.recent[units] = self.faulty_in[state], self.recent_in[state]
        new = some.alarms.gather(2, state[..., None].expand_as(old))
        self.reasons += (new - old).sum(0)
        self.caused[units] = new

    def _draw_parcels(self, some: _Parcels, draws: Tensor, strength: float) -> None:
        units, at = some.units, self.origin[some.units]
        old = self.waits[units].double()
        alone = self.waiting[..., at].permute(2, 0, 1) - old == 0
        busy = alone * self.evidence["Busy"][at]
        delayed = self.recent[self.carrier[units]] * self.evidence["Delayed"][units]
        waits = self.evidence["Waits"][units] + (busy + delayed) * strength
        moves = self.evidence["Moves"][units] + delayed * strength
        gain = torch.zeros(*waits.shape, PARCEL_STATES, dtype=waits.dtype, device=waits.device)
        gain[..., WAITS:LOADED] = waits[..., None]
        gain[..., LOADED:GONE] = moves[..., None]
        gain[..., LOADED:MOVES] += self.due[units]
        state = draw_paths(gain, self.parcel_start, some.transition, draws)
        new = (state >= WAITS) & (state < LOADED)
        self.waits[units], self.moves[units] = new, (state >= LOADED) & (state < GONE)
        self.waiting[..., at] += (new.double() - old).permute(1, 2, 0)

    def count(self) -> None:
        """Add the current state to the totals."""
        due = torch.zeros_like(self.waits)
        so_far = self.waits.clone()
        for ahead in range(1, min(WINDOW + 1, due.shape[1])):
            due[:, :-ahead] |= so_far[:, :-ahead] & self.moves[:, ahead:]
            so_far[:, :-ahead] &= self.waits[:, ahead:]
        now = {
            "Worn": self.faulty.any(1, keepdim=True),
            "Faulty": self.faulty,
            "Waits": self.waits,
            "Moves": self.moves,
            "Alarm": (self.reasons > 0).permute(2, 0, 1),
            "Busy": (self.waiting > 0).permute(2, 0, 1),
            "Due": due,
            "Delayed": (self.waits | self.moves) & self.recent[self.carrier],
        }
        for name, total in self.totals.items():
            total += now[name]
