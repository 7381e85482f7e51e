"""Networks over features beside sampled worlds: they learn while worlds are sampled.

Every few sweeps of the burn-in networks learn from the shares of worlds in which cells are true,
and what they say of cells enters the next draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fotltn.format import count
from fotltn.grounding.labels import Labels
from fotltn.learn.sensors import Sensors, said_of_cells
from fotltn.learn.store import below
from fotltn.networks.grounding import Grounding, table_shape
from fotltn.posterior.carried import Carried, learned_by
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.exponents import USUAL_EXPONENT, Exponents
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampler
from fotltn.project.build import Built
from fotltn.project.problem import presence
from fotltn.project.world import World

#: Sweeps between two times that networks learn.
_EVERY = 3

#: The share of the epochs of networks that are spent on labels, before there are worlds.
_FIRST = 0.2

#: What rates of labels are taken to be before they are learned.
_RATES = NoiseRates(0.1, 0.1)


class Sensing:
    """The networks of a project whose worlds are sampled.

    Attributes:
        sensors: the networks.
        exponents: how far they are trusted; None before worlds are sampled, or if it is told.
    """

    def __init__(self, built: Built, problem: Problem) -> None:
        """Copies of networks, with initial weights."""
        grounding = built.task.grounding.sensors
        assert grounding is not None
        how, sensors = built.config.posterior, built.config.sensors
        self.there = present_cells(built.world, grounding)
        folds = folded(grounding, problem.labels, sensors.folds)
        self.sensors = Sensors(
            grounding, folds, self.there, built.config.training, built.task.objective
        )
        self.exponents: Exponents | None = None
        self._learned = sensors.exponent is None
        start = USUAL_EXPONENT if sensors.exponent is None else sensors.exponent
        self._values = dict.fromkeys(self.sensors.names, start)
        self._fixed, self._how = problem.logits, how
        self._scores: dict[str, Tensor] = {}
        self._sums: dict[str, Tensor] = {}
        self._count = 0
        epochs = built.config.training.epochs
        self._first = max(1, round(_FIRST * epochs))
        times = max(1, (how.burn_in - 1) // _EVERY)
        self._steps = max(1, round((epochs - self._first) / times))

    # --- before there are worlds ------------------------------------------------------------------

    def begin(self, problem: Problem) -> None:
        """Learn from labels alone, as far as these are to be trusted."""
        targets, weights = {}, {}
        for name in self.sensors.names:
            targets[name], weights[name] = _labelled(name, problem, self.there[name])
        self.sensors.learn(targets, weights, self._first)
        self._scores = self.sensors.scores()

    def logits(self) -> dict[str, Tensor]:
        """What is known of cells beside labels: what networks say, times its exponent, and more."""
        values, logits = self._trusted, dict(self._fixed)
        for name, score in self._scores.items():
            said = values[name] * score
            logits[name] = said if name not in logits else said + logits[name].to(said)
        return logits

    def attach(self, run: SamplingRun) -> None:
        """Go along with a run that has not moved yet, or that goes on."""
        if self._learned:
            run.go_beside()
            self.exponents = Exponents(self._values)

    # --- while worlds are sampled -----------------------------------------------------------------

    def follow(self, run: SamplingRun) -> None:
        """Learn from the sweep that was done, if it was one of the burn-in."""
        number, sampler = run.done - 1, run.sampler
        share = self._how.share(number)
        if not share:
            return
        if self.exponents is not None:
            assert run.blind is not None
            self.exponents.learn(sampler, run.blind.sampler, self._scores, share)
        for name in self.sensors.names:
            mean = sampler.tables[name].to(torch.float64).mean(0)
            self._sums[name] = self._sums[name] + mean if name in self._sums else mean
        self._count += 1
        if run.done % _EVERY == 0 and run.done < self._how.burn_in:
            targets = {n: total / self._count for n, total in self._sums.items()}
            self.sensors.learn(targets, self.there, self._steps)
            self._scores, self._sums, self._count = self.sensors.scores(), {}, 0
        self._tell(sampler)

    def _tell(self, sampler: Sampler) -> None:
        sampler.evidence.logits = self.logits()
        for mover in sampler.movers:
            mover.stale = True

    def carried(self, sampler: Sampler) -> Carried:
        """What other data are sampled with."""
        bases = self.sensors.bases()
        known = {n: math.isfinite(base) for n, base in bases.items()}
        return learned_by(
            sampler,
            {n: value if known[n] else 0.0 for n, value in self._trusted.items()},
            {n: base if known[n] else 0.0 for n, base in bases.items()},
        )

    @property
    def _trusted(self) -> dict[str, float]:
        """The exponents, as far as they are learned."""
        return self._values if self.exponents is None else self.exponents.values

    # --- to go on later ---------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the rest depends on: tensors, and what JSON can hold."""
        tensors, document = self.sensors.state()
        tensors = {f"sensors/{n}": t for n, t in tensors.items()}
        tensors |= {f"scores/{n}": t for n, t in self._scores.items()}
        tensors |= {f"sums/{n}": t for n, t in self._sums.items()}
        return tensors, {"sensors": document, "exponents": self._trusted, "count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take up the state of an earlier run, before `attach`."""
        device = next(iter(self.there.values())).device
        self.sensors.restore(below(tensors, "sensors/"), document["sensors"])
        self._scores = {n: t.to(device) for n, t in below(tensors, "scores/").items()}
        self._sums = {n: t.to(device) for n, t in below(tensors, "sums/").items()}
        self._values, self._count = dict(document["exponents"]), document["count"]


# --- before anything is learned ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """What networks will learn beside sampled worlds.

    Args:
        predicates: of which features say something.
        parameters: of the networks.
        copies: how many there are beside the one that travels, each for a fold.
        epochs: how often all cells are gone over, by each of them.
        cells: where all arguments are present.
    """

    predicates: tuple[str, ...]
    parameters: int
    copies: int
    epochs: int
    cells: int

    def __str__(self) -> str:
        copies = f", {count(self.copies)} copies" if self.copies else ""
        return (
            f"features of {count(self.cells)} cells are seen: {', '.join(self.predicates)}, by "
            f"networks of {count(self.parameters)} parameters{copies}, {count(self.epochs)} epochs"
        )


def network_plan(built: Built) -> NetworkPlan | None:
    """What the networks of a project will learn; None if there are none."""
    grounding = built.task.grounding.sensors
    if grounding is None:
        return None
    folds = folded(grounding, built.world.labels, built.config.sensors.folds)
    copies = max(len(fold.unique()) for fold in folds.values())
    return NetworkPlan(
        tuple(grounding.signature.predicates), sum(p.numel() for p in grounding.parameters()),
        copies if copies > 1 else 0, built.config.training.epochs,
        sum(int(there.sum()) for there in present_cells(built.world, grounding).values()),
    )  # fmt: skip


# --- cells ------------------------------------------------------------------------------------


def present_cells(world: World, grounding: Grounding) -> dict[str, Tensor]:
    """For each predicate that networks see, where all arguments are there, inside the traces."""
    fixed, result = grounding.fixed, {}
    for name, decl in grounding.signature.predicates.items():
        shape = table_shape(fixed, decl)
        inside = torch.ones(shape, dtype=torch.bool, device=fixed.lengths.device)
        if not decl.static:
            inside &= fixed.inside.reshape(fixed.batch, *[1] * len(decl.sorts), fixed.horizon)
        there = presence(world, decl)
        result[name] = inside if there is None else inside & there
    return result


def folded(grounding: Grounding, labels: Labels, folds: int) -> dict[str, Tensor]:
    """The fold of each cell: by trace, if there are enough; else by entities; else by time.

    True labels are spread over the folds as evenly as can be. Of several entities the folds are
    added, so that what is said of a pair both ways is of one fold.
    """
    fixed, declared = grounding.fixed, grounding.signature.predicates
    device = fixed.lengths.device
    shapes = {n: table_shape(fixed, decl) for n, decl in declared.items()}
    if folds < 2:
        return {n: torch.zeros(s, dtype=torch.int64, device=device) for n, s in shapes.items()}
    result = {}
    by_trace = fixed.batch >= folds
    traces = _spread(_counted(labels, [*declared], 0, fixed.batch), folds)
    for name, decl in declared.items():
        shape = shapes[name]
        total = torch.zeros(shape, dtype=torch.int64)
        if by_trace:
            total += traces.reshape(-1, *[1] * (len(shape) - 1))
        elif all(fixed.sizes[sort] >= folds for sort in decl.sorts):
            for place, sort in enumerate(decl.sorts, 1):
                same = [n for n, d in declared.items() if sort in d.sorts]
                true = torch.zeros(fixed.sizes[sort], dtype=torch.float64)
                for n in same:
                    for at, one in enumerate(declared[n].sorts, 1):
                        true += _counted(labels, [n], at, len(true)) if one == sort else 0
                axes = [1] * len(shape)
                axes[place] = -1
                total += _spread(true, folds).reshape(axes)
        else:
            total += torch.arange(shape[-1]) * folds // shape[-1]
        result[name] = (total % folds).to(device)
    return result


def _counted(labels: Labels, names: list[str], place: int, size: int) -> Tensor:
    """How many true labels there are of each trace, or entity, and a little for all of them."""
    total = torch.zeros(size, dtype=torch.float64)
    for name in names:
        if name in labels.index:
            weight = labels.truth[name].to(torch.float64).cpu() + 1e-3
            total.index_add_(0, labels.index[name][place].cpu(), weight)
    return total


def _spread(counts: Tensor, folds: int) -> Tensor:
    """A fold for each, such that counts add up to about the same."""
    totals, numbers = [0.0] * folds, [0] * folds
    result = torch.zeros(len(counts), dtype=torch.int64)
    for one in sorted(range(len(counts)), key=lambda n: (-float(counts[n]), n)):
        fold = min(range(folds), key=lambda f: (totals[f], numbers[f], f))
        result[one] = fold
        totals[fold] += float(counts[one])
        numbers[fold] += 1
    return result


def _labelled(name: str, problem: Problem, there: Tensor) -> tuple[Tensor, Tensor]:
    """How probable cells are by their labels alone, and which cells have some."""
    shape, device = there.shape, there.device
    targets = torch.zeros(shape, dtype=torch.float64, device=device)
    weights = torch.zeros(shape, dtype=torch.float64, device=device)
    truth = problem.labels.truth.get(name)
    if truth is None or not truth.numel():
        return targets, weights
    degree = truth.to(torch.float64).to(device)
    missed, invented = problem.rates.get(name) or _RATES
    rate = (float(degree.mean()) - invented) / (1 - missed - invented)
    rate = min(max(rate, 1 / (2 + len(degree))), 1 - 1 / (2 + len(degree)))
    if_true = rate * (degree * (1 - missed) + (1 - degree) * missed)
    if_false = (1 - rate) * (degree * invented + (1 - degree) * (1 - invented))
    index = tuple(problem.labels.index[name].to(device))
    share = if_true / (if_true + if_false)
    weights.index_put_(index, torch.ones_like(share), accumulate=True)
    targets.index_put_(index, share, accumulate=True)
    return targets / weights.clamp_min(1), weights


# --- other data -------------------------------------------------------------------------------


def logits_of(grounding: Grounding, world: World, carried: Carried) -> dict[str, Tensor]:
    """What networks say of the cells of other data, as it enters draws."""
    there = present_cells(world, grounding)
    logits = {}
    for name, said in said_of_cells(grounding).items():
        score = carried.exponents[name] * (said - carried.bases[name])
        logits[name] = torch.where(there[name], score, 0.0)
    return logits
