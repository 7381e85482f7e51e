"""Train networks over features while worlds are sampled.

Every few sweeps of the burn-in, networks learn from the share of worlds in which each cell is true.
Their predictions then influence the next draws.
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
from fotltn.networks.grounding import Grounding
from fotltn.posterior.carried import Carried, learned_by
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.exponents import USUAL_EXPONENT, Exponents
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampler
from fotltn.project.build import Built
from fotltn.project.world import World
from fotltn.semantics.presence import present_mask
from fotltn.semantics.tables import table_shape

#: The number of sweeps between two updates of the networks.
_EVERY = 3

#: The share of the networks' epochs spent on labels alone, before worlds are sampled.
_FIRST = 0.2

#: The assumed rates of wrong labels before rates are learned.
_RATES = NoiseRates(0.1, 0.1)


class Sensing:
    """The networks of a project whose worlds are sampled.

    Attributes:
        sensors: the networks.
        exponents: how far their predictions are trusted; None before worlds are sampled, or if the
            settings state it.
    """

    def __init__(self, built: Built, problem: Problem) -> None:
        """Make copies of the networks, with initial weights."""
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
        """Learn from labels alone, as far as these can be trusted."""
        targets, weights = {}, {}
        for name in self.sensors.names:
            targets[name], weights[name] = _labelled(name, problem, self.there[name])
        self.sensors.learn(targets, weights, self._first)
        self._scores = self.sensors.scores()

    def logits(self) -> dict[str, Tensor]:
        """Return the evidence beyond labels: predictions times their exponents, and detectors."""
        values = self._trusted
        return added(self._fixed, {n: values[n] * score for n, score in self._scores.items()})

    def attach(self, run: SamplingRun) -> None:
        """Attach to a run that has just been created or resumed."""
        if self._learned:
            run.go_beside()
            self.exponents = Exponents(self._values)

    # --- while worlds are sampled -----------------------------------------------------------------

    def follow(self, run: SamplingRun) -> None:
        """Learn from the last sweep, if it belongs to the burn-in."""
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
        """Return what is needed to sample worlds of other data."""
        bases = self.sensors.bases()
        known = {n: math.isfinite(base) for n, base in bases.items()}
        return learned_by(
            sampler,
            {n: value if known[n] else 0.0 for n, value in self._trusted.items()},
            {n: base if known[n] else 0.0 for n, base in bases.items()},
        )

    @property
    def _trusted(self) -> dict[str, float]:
        """The current exponents."""
        return self._values if self.exponents is None else self.exponents.values

    # --- resuming ---------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state to resume from: tensors, and a document for JSON."""
        tensors, document = self.sensors.state()
        tensors = {f"sensors/{n}": t for n, t in tensors.items()}
        tensors |= {f"scores/{n}": t for n, t in self._scores.items()}
        tensors |= {f"sums/{n}": t for n, t in self._sums.items()}
        return tensors, {"sensors": document, "exponents": self._trusted, "count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Restore the state of an earlier run; call this before `attach`."""
        device = next(iter(self.there.values())).device
        self.sensors.restore(below(tensors, "sensors/"), document["sensors"])
        self._scores = {n: t.to(device) for n, t in below(tensors, "scores/").items()}
        self._sums = {n: t.to(device) for n, t in below(tensors, "sums/").items()}
        self._values, self._count = dict(document["exponents"]), document["count"]


# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The work of networks beside sampled worlds, known before training.

    Args:
        predicates: the predicates that networks predict.
        parameters: the number of parameters of a network.
        copies: the number of further copies, one per fold.
        epochs: the number of epochs of each copy.
        cells: the number of cells in which all arguments are present.
    """

    predicates: tuple[str, ...]
    parameters: int
    copies: int
    epochs: int
    cells: int

    def __str__(self) -> str:
        copies = f", {count(self.copies)} copies" if self.copies else ""
        return (
            f"networks see features of {count(self.cells)} cells: {', '.join(self.predicates)}; "
            f"{count(self.parameters)} parameters{copies}, {count(self.epochs)} epochs"
        )


def network_plan(built: Built) -> NetworkPlan | None:
    """Return the work of a project's networks; None if it has none."""
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
    """Return masks of the cells inside traces whose arguments are all present, by predicate."""
    declared, present = grounding.signature.predicates, world.fixed.present
    return {n: present_mask(grounding.fixed, decl, present) for n, decl in declared.items()}


def folded(grounding: Grounding, labels: Labels, folds: int) -> dict[str, Tensor]:
    """Assign each cell to a fold: by trace if there are enough, else by entity, else by time.

    True labels are spread over the folds as evenly as possible. For several entities, the folds are
    added, so both orders of a pair are in the same fold.
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
    """Count the true labels of each trace or entity, plus a little for every label."""
    total = torch.zeros(size, dtype=torch.float64)
    for name in names:
        if name in labels.index:
            weight = labels.truth[name].to(torch.float64).cpu() + 1e-3
            total.index_add_(0, labels.index[name][place].cpu(), weight)
    return total


def _spread(counts: Tensor, folds: int) -> Tensor:
    """Assign a fold to each position, so that the folds have about equal counts."""
    totals, numbers = [0.0] * folds, [0] * folds
    result = torch.zeros(len(counts), dtype=torch.int64)
    for one in sorted(range(len(counts)), key=lambda n: (-float(counts[n]), n)):
        fold = min(range(folds), key=lambda f: (totals[f], numbers[f], f))
        result[one] = fold
        totals[fold] += float(counts[one])
        numbers[fold] += 1
    return result


def _labelled(name: str, problem: Problem, there: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probability of cells given their labels alone, and the number of their labels."""
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


def added(logits: Mapping[str, Tensor], more: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add evidence of networks to that of detectors."""
    both = {n: said + logits[n].to(said) if n in logits else said for n, said in more.items()}
    return {**logits, **both}


# --- other data -------------------------------------------------------------------------------


def logits_of(grounding: Grounding, world: World, carried: Carried) -> dict[str, Tensor]:
    """Return the networks' evidence about the cells of other data, as log-odds for the draws."""
    there = present_cells(world, grounding)
    logits = {}
    for name, said in said_of_cells(grounding).items():
        score = carried.exponents[name] * (said - carried.bases[name])
        logits[name] = torch.where(there[name], score, 0.0)
    return logits
