"""The Bayes limit of the paper's scenes: what labels reveal if the process is known.

The prior is the true process, as in `fotltn.project.scene`, and the evidence is labels that are
wrong at a known rate. Close is given, and so are the types of agents; labels of Car and Ped, and
labels about agents of the wrong type, are ignored. On average, no method that knows less ranks the
facts better.

The posterior is sampled by Gibbs sampling: pedestrians get new crossings one after another, given
those of all others. This step is exact, because time points of crossing add to the log-likelihood
independently: through the labels of the pedestrian, and through the labels, one time point later,
of the close cars that no other pedestrian stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

import fotltn
from fotltn.analysis.metrics import Metric, chance, mean, pr_auc
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.project.scene import LEARNED, Scene, Size
from reproduction.paper.crossings import DRAWS, draw_crossings, prior_of_crossings

#: Rates are kept this far from 0 and 1, so that chains can pass through unlikely states.
SMALLEST_RATE = 1e-6

#: With these numbers, the mean PR-AUC of a run differs between seeds by at most a few 1e-4.
SWEEPS, BURN_IN, CHAINS = 200, 20, 4

Degrees = dict[str, Tensor]

#: The noisy labels to learn from, and the labels to test on, of a fraction and a repetition.
LabelsOf = Callable[[float, int], tuple[Labels, Labels]]


# --- the posterior ---------------------------------------------------------------------------


def posterior(
    close: np.ndarray[Any, Any] | Tensor,
    size: Size,
    labels: Labels,
    flip_rate: float,
    *,
    seed: int,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    device: str | torch.device = "cpu",
) -> Degrees:
    """Compute the probability of every cell of the learned predicates, given Close and labels.

    Args:
        close: who is close to whom, shape (car, pedestrian, time) or (agent, agent, time).
        size: the size of the scene. Cars come first among the agents, as in `Scene.agents`.
        labels: true or false facts, some of them wrong; there may be none.
        flip_rate: the probability that a label is wrong.
        seed: the seed of the draws, which depend on nothing else.
        sweeps: the number of sweeps of each chain, after those of `burn_in`.
        burn_in: the number of sweeps that do not count. In the first half, labels of cars gain
            weight.
        chains: the number of independent chains to average over.
        device: the device to compute on.

    Returns:
        The means by predicate: shape (agent, 1) for Car and Ped, (agent, time) for the others.

    Raises:
        DataError: close or labels do not fit the size, a degree is neither 0 nor 1, or a number is
            out of range.
    """
    return posteriors(
        close,
        size,
        [labels],
        flip_rate,
        seeds=[seed],
        sweeps=sweeps,
        burn_in=burn_in,
        chains=chains,
        device=device,
    )[0]


def posteriors(
    close: np.ndarray[Any, Any] | Tensor,
    size: Size,
    labels: Sequence[Labels],
    flip_rate: float,
    *,
    seeds: Sequence[int],
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    device: str | torch.device = "cpu",
) -> list[Degrees]:
    """Compute the posterior of one scene for several sets of labels at once.

    Each set has its own seed, and its result equals that of `posterior` up to rounding.
    """
    if not 0 <= flip_rate <= 1:
        raise DataError(f"the flip rate must be a number from 0 to 1, not {flip_rate}")
    check_sampling(len(labels), seeds, sweeps, burn_in, chains)
    near = _near(close, size)
    pieces = [_evidence(one, size, flip_rate) for one in labels]
    if not pieces:
        return []
    crossing = torch.stack([walkers for walkers, _ in pieces])
    stop = torch.stack([cars for _, cars in pieces])
    chain = _Chains(near.to(device), crossing.to(device), stop.to(device), chains)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    shape = (DRAWS, size.pedestrians, chains)
    for sweep in range(burn_in + sweeps):
        draws = torch.stack(
            [torch.rand(shape, generator=g, dtype=torch.float64) for g in generators], dim=2
        )
        strength = min(1.0, 2 * sweep / burn_in) if burn_in else 1.0
        chain.sweep(draws.flatten(2).to(device), strength)
        if sweep >= burn_in:
            chain.count()
    crosses, stops = (total.cpu() / (sweeps * chains) for total in chain.totals())
    return [_tables(size, *run) for run in zip(crosses, stops, strict=True)]


def _tables(size: Size, crossing: Tensor, stop: Tensor) -> Degrees:
    """Build the tables of all agents from what pedestrians and cars do."""
    cars, pedestrians, _ = size
    car = (torch.arange(cars + pedestrians) < cars).double()[:, None]
    about_cars, about_pedestrians = (0, 0, 0, pedestrians), (0, 0, cars, 0)
    return {
        "Car": car,
        "Ped": 1 - car,
        "Run": pad(1 - stop, about_cars),
        "Stop": pad(stop, about_cars),
        "Crossing": pad(crossing, about_pedestrians),
        "OnSidewalk": pad(1 - crossing, about_pedestrians),
    }


# --- scores ----------------------------------------------------------------------------------


def scores(tables: Mapping[str, Tensor], test: Labels) -> dict[str, Metric]:
    """Return the PR-AUC of each labelled predicate."""
    return {
        name: pr_auc(truth, tables[name][test.index[name][1], test.index[name][2]])
        for name, truth in test.truth.items()
    }


def limits(
    scene: Scene,
    data: str,
    labels: LabelsOf,
    fractions: Iterable[float],
    repetitions: Iterable[int],
    *,
    flip_rate: float = 0.1,
    seed: int = 0,
    sweeps: int = SWEEPS,
    burn_in: int = BURN_IN,
    chains: int = CHAINS,
    together: int = 20,
    device: str | torch.device = "cpu",
    judge: Callable[[Degrees], Mapping[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield records of the Bayes limit, one for each fraction and repetition.

    Args:
        scene: the scene that all labels are about.
        data: its name in the records.
        labels: a function that returns the labels of a fraction and a repetition.
        fractions: the shares of the facts to learn from.
        repetitions: the numbers of the repetitions.
        flip_rate: the rate of wrong labels to learn from.
        seed: the seed from which each run derives its own, which its record states. The seed of a
            run does not depend on other runs.
        sweeps: as in `posterior`.
        burn_in: as in `posterior`.
        chains: as in `posterior`.
        together: the number of runs to compute at once; on a GPU, this may be all.
        device: the device to compute on.
        judge: a function that adds entries to a record, from the tables of the run.
    """
    if together < 1:
        raise DataError(f"together must be at least 1, not {together}")
    chosen = list(product(fractions, repetitions))
    for first in range(0, len(chosen), together):
        runs = chosen[first : first + together]
        pairs = [labels(*run) for run in runs]
        seeds = [_seed(seed, *run) for run in runs]
        begun = time.perf_counter()
        sampled = posteriors(
            scene.close,
            scene.size,
            [train for train, _ in pairs],
            flip_rate,
            seeds=seeds,
            sweeps=sweeps,
            burn_in=burn_in,
            chains=chains,
            device=device,
        )
        seconds = (time.perf_counter() - begun) / len(runs)
        for (fraction, repetition), run_seed, tables, (_, test) in zip(
            runs, seeds, sampled, pairs, strict=True
        ):
            by = scores(tables, test)
            base = mean({name: chance(truth) for name, truth in test.truth.items()})
            yield {
                "data": data,
                "method": "Bayes limit",
                "fraction": fraction,
                "repetition": repetition,
                "seed": run_seed,
                "pr_auc": _value(mean(by)),
                "pr_auc_by": {name: _value(metric) for name, metric in by.items()},
                "chance": _value(base),
                **(judge(tables) if judge else {}),
                "epochs": sweeps,
                "best_epoch": sweeps,
                "seconds": seconds,
                "batch": len(runs),
                "parameters": 0,
                "setting": {"flip_rate": flip_rate, "burn_in": burn_in, "chains": chains},
                "device": _name(torch.device(device)),
                "version": fotltn.__version__,
            }


def _seed(seed: int, fraction: float, repetition: int) -> int:
    entropy = [seed, round(fraction * 1e6), repetition]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def _value(metric: Metric) -> float | None:
    return metric.value if metric.defined else None


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


# --- checks ----------------------------------------------------------------------------------


def check_sampling(runs: int, seeds: Sequence[int], sweeps: int, burn_in: int, chains: int) -> None:
    """Check the arguments of a posterior.

    Raises:
        DataError: the number of seeds is wrong, a seed is not valid, or a number is too small.
    """
    if len(seeds) != runs:
        raise DataError(f"there are {runs} sets of labels, but {len(seeds)} seeds")
    for seed in seeds:
        if not 0 <= seed < 2**63:
            raise DataError(f"a seed must be a whole number from 0 to 2**63 - 1, not {seed}")
    for name, number, least in (
        ("sweeps", sweeps, 1),
        ("burn_in", burn_in, 0),
        ("chains", chains, 1),
    ):
        if number < least:
            raise DataError(f"'{name}' must be at least {least}, not {number}")


def _near(close: np.ndarray[Any, Any] | Tensor, size: Size) -> Tensor:
    """Return which pedestrians are close to which cars, shape (car, pedestrian, time)."""
    cars, pedestrians, steps = size
    agents = cars + pedestrians
    table = torch.as_tensor(np.array(close) if isinstance(close, np.ndarray) else close).cpu()
    if table.shape == (agents, agents, steps):
        table = table[:cars, cars:]
    if table.shape != tuple(size):
        raise DataError(
            f"close has the shape {tuple(table.shape)}; for {cars} cars, {pedestrians} pedestrians "
            f"and {steps} time points, expected {tuple(size)} or {(agents, agents, steps)}"
        )
    return table.bool()


def _evidence(labels: Labels, size: Size, flip_rate: float) -> tuple[Tensor, Tensor]:
    """Return the evidence of labels for Crossing and for Stop, as log-likelihood ratios."""
    cars, pedestrians, steps = size
    agents = cars + pedestrians
    rate = min(max(flip_rate, SMALLEST_RATE), 1 - SMALLEST_RATE)
    weight = float(np.log1p(-rate) - np.log(rate))
    speaks = {"Crossing": 1, "OnSidewalk": -1, "Stop": 1, "Run": -1}
    sums = {"Crossing": torch.zeros(agents * steps, dtype=torch.float64)}
    sums["Stop"] = sums["Crossing"].clone()
    for name, index in labels.index.items():
        if name not in LEARNED:
            hint = did_you_mean(name, LEARNED) or f"there are {listing(LEARNED)}"
            raise DataError(f"no predicate '{name}' is learned in a scene; {hint}")
        if name not in speaks:
            continue
        index, truth = index.cpu(), labels.truth[name].cpu().double()
        limits = torch.tensor([1, agents, steps])[:, None]
        if len(index) != 3 or ((index < 0) | (index >= limits)).any():
            raise DataError(
                f"labels of '{name}' do not fit the scene, which is one trace of {agents} agents "
                f"and {steps} time points"
            )
        if ((truth != 0) & (truth != 1)).any():
            raise DataError(f"labels of '{name}' must be 0 or 1, but a degree is between")
        total = sums["Crossing" if name in ("Crossing", "OnSidewalk") else "Stop"]
        total.index_add_(0, index[1] * steps + index[2], speaks[name] * weight * (2 * truth - 1))
    shape = (agents, steps)
    return sums["Crossing"].view(shape)[cars:], sums["Stop"].view(shape)[:cars]


# --- sampling --------------------------------------------------------------------------------


class _Chains:
    """Draws the crossings of all pedestrians in all chains of all runs.

    A row is a chain of a run; a cell is a car at a time point. One additional cell never counts.

    Args:
        near: shape (car, pedestrian, time).
        crossing: the evidence for Crossing, shape (run, pedestrian, time).
        stop: the evidence for Stop, shape (run, car, time).
        chains: the number of chains of each run.
    """

    def __init__(self, near: Tensor, crossing: Tensor, stop: Tensor, chains: int) -> None:
        runs, pedestrians, steps = crossing.shape
        cars, device = near.shape[0], near.device
        self.prior = prior_of_crossings(steps, device)
        self.crossing = [one.T[..., None] for one in crossing.unbind(1)]
        ahead = pad(stop[..., 1:], (0, 1))  # because a car stops one time point later
        self.ahead = pad(ahead.flatten(1), (0, 1)).T[..., None].contiguous()
        self.cells = [_cells(near[:, j]) for j in range(pedestrians)]
        self.reasons = torch.zeros(cars * steps + 1, runs, chains, dtype=torch.int32, device=device)
        self.crosses = [
            torch.zeros(steps, runs, chains, dtype=torch.int32, device=device)
            for _ in range(pedestrians)
        ]
        self.crossed = torch.zeros(pedestrians, steps, runs, dtype=torch.int64, device=device)
        self.stopped = torch.zeros(cars * steps, runs, dtype=torch.int64, device=device)

    def sweep(self, draws: Tensor, strength: float) -> None:
        """Draw the crossings of every pedestrian.

        Args:
            draws: numbers in [0, 1), shape (draw, pedestrian, row).
            strength: how much the labels of cars count.
        """
        for j, (cells, old) in enumerate(zip(self.cells, self.crosses, strict=True)):
            places = cells.flatten()
            others = self.reasons.index_select(0, places).unflatten(0, cells.shape) - old
            ahead = self.ahead.index_select(0, places).unflatten(0, cells.shape)
            gain = ((others == 0) * ahead).sum(0) * strength + self.crossing[j]
            drawn = draw_crossings(gain.flatten(1).T.contiguous(), self.prior, draws[:, j])
            new = drawn.T.contiguous().view_as(old).int()
            self.reasons.index_copy_(0, places, (others + new).flatten(0, 1))
            self.crosses[j] = new

    def count(self) -> None:
        """Add the current state to the totals."""
        self.crossed += torch.stack(self.crosses).sum(-1)
        self.stopped += (self.reasons[:-1] > 0).sum(-1)

    def totals(self) -> tuple[Tensor, Tensor]:
        """Return how often pedestrians crossed and cars stopped, shape (run, agent, time)."""
        steps = self.crossed.shape[1]
        reasons = self.stopped.T.unflatten(1, (-1, steps))
        return self.crossed.permute(2, 0, 1), pad(reasons[..., :-1], (1, 0))


def _cells(near: Tensor) -> Tensor:
    """Return the cells of close cars, shape (number, time), padded with the extra cell."""
    cars, steps = near.shape
    most = max(1, int(near.sum(0).max()))
    number = torch.arange(cars * steps, device=near.device).view(cars, steps)
    cells = torch.where(near, number, cars * steps).sort(dim=0).values
    return cells[:most]
