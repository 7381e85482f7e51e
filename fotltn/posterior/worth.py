"""The worth of axioms: how much better each makes predictions of labels that are held back."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.analysis.left_out import Division, LeftOutProgress, leave_out
from fotltn.analysis.record import Record, look_up
from fotltn.errors import DataError, LimitError
from fotltn.grounding.labels import Labels
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.mixing import AGREE
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample

#: 95 % of a normal distribution lie within so many standard deviations.
_WIDE = 1.96


@dataclass(frozen=True, slots=True)
class AxiomWorth(Record):
    """How much an axiom adds to the log-likelihood of labels that are held back.

    Args:
        axiom: its name.
        gain: the log-likelihood with all axioms, minus the one without this axiom; over all labels.
        low: the lower end of an interval that holds the gain in 95 of 100 cases.
        high: the upper end.
        labels: the number of labels that were held back.
        r_hat: the greatest R-hat of the compared samplings; above 1.2, chains did not agree.
        problem: why sampling failed without the axiom; None if it did not.
    """

    axiom: str
    gain: float
    low: float
    high: float
    labels: int
    r_hat: float = 1.0
    problem: str | None = None

    @property
    def by_label(self) -> float:
        """The mean gain of one label."""
        return self.gain / max(1, self.labels)

    @property
    def agree(self) -> bool:
        """Whether the chains of all compared samplings agree."""
        return self.r_hat <= AGREE


def worth(
    problem: Problem,
    axioms: Collection[str] | None = None,
    *,
    folds: int = 5,
    report: Callable[[LeftOutProgress], None] | None = None,
) -> list[AxiomWorth]:
    """Measure the worth of axioms, the most valuable first.

    Use it to see which axioms help. Labels are divided into folds at random. For each fold, worlds
    are sampled from all other labels: with all axioms, and without each axiom. The likelihoods of
    the labels of the fold are compared label by label. Labels of one atom at different times depend
    on each other; the interval therefore comes from differences summed over time.

    Args:
        problem: the input of sampling; all runs have the same seed.
        axioms: the names of the axioms to measure; by default, all that are hard or have a weight.
        folds: the number of folds, at least 2.
        report: called after every run.

    Raises:
        DataError: an axiom is unknown, labels are too few, or as for `sample`.
        LimitError: axioms need too many states.
    """
    theory, labels = problem.theory, problem.labels
    known = {a.name: a for a in theory.axioms if a.hard or a.weight > 0}
    names = list(known) if axioms is None else list(dict.fromkeys(axioms))
    for name in names:
        what = "is hard or has a weight, and defines nothing"
        look_up(known, name, f"the theory has no axiom '{name}' that {what}")
    if folds < 2:
        raise DataError(f"there are at least 2 folds, not {folds}")
    if labels.total < folds:
        raise DataError(f"{folds} folds need as many labels, and there are {labels.total}")
    generator = torch.Generator().manual_seed(problem.sampling.seed)
    fold_of = {
        n: torch.randperm(t.numel(), generator=generator) % folds for n, t in labels.truth.items()
    }

    divisions = [
        Division(
            labels.take({n: at != fold for n, at in fold_of.items()}),
            labels.take({n: at == fold for n, at in fold_of.items()}),
        )
        for fold in range(folds)
    ]

    r_hat: dict[str | None, float] = {}

    def likelihood(axiom: str | None, _: int, division: Division) -> dict[str, Tensor]:
        left = replace(theory, axioms=tuple(a for a in theory.axioms if a.name != axiom))
        how = problem.sampling
        if not isinstance(how.weights, str):
            how = replace(how, weights=tuple(n for n in how.weights if n != axiom))
        asked = replace(problem, theory=left, labels=division.learned, sampling=how)
        posterior = sample(asked)
        r_hat[axiom] = max(r_hat.get(axiom, 1.0), posterior.mixing.worst)
        return foreseen(posterior, division.held_back)

    measured = leave_out(
        names, divisions, likelihood, bearable=(LimitError, NoWorldError), report=report
    )
    result = []
    for name in names:
        sums: dict[tuple[int, ...], float] = {}
        for every, without, division in zip(
            measured.every, measured.without[name], divisions, strict=False
        ):
            _add(sums, {n: every[n] - without[n] for n in every}, division.held_back)
        if (problem_without := measured.problems.get(name)) is not None:
            gains = (math.nan, math.nan, math.nan)
        else:
            gains = _summed(sums)
        worst = max(r_hat.get(None, 1.0), r_hat.get(name, 1.0))
        result.append(AxiomWorth(name, *gains, labels.total, worst, problem_without))
    return sorted(result, key=lambda one: -one.gain if one.problem is None else math.inf)


def foreseen(posterior: Posterior, labels: Labels) -> dict[str, Tensor]:
    """The log-likelihood of each label that a posterior has not seen, by predicate.

    A share of 0 or 1 is an effect of the number of worlds, so shares are moved inwards by half a
    world.
    """
    result = {}
    for name, truth in labels.truth.items():
        if not truth.numel():
            continue
        draws = max(float(posterior.count), posterior.mixing.effective.get(name, 0.0))
        share = posterior.marginals[name].cpu()[tuple(labels.index[name].cpu())]
        share = (share * draws + 0.5) / (draws + 1)
        missed, invented = posterior.rates[name]
        degree = truth.cpu().to(torch.float64)
        says = share * (1 - missed) + (1 - share) * invented
        result[name] = degree * says.log() + (1 - degree) * (1 - says).log()
    return result


def _add(sums: dict[tuple[int, ...], float], gains: Mapping[str, Tensor], labels: Labels) -> None:
    """Add the gains of labels to the sums of their atoms."""
    for number, name in enumerate(labels.truth):
        if name in gains:
            cells = labels.index[name][:-1].T.tolist()
            for cell, gain in zip(cells, gains[name].tolist(), strict=True):
                key = (number, *cell)
                sums[key] = sums.get(key, 0.0) + gain


def _summed(sums: Mapping[tuple[int, ...], float]) -> tuple[float, float, float]:
    """The sum of the gains of atoms, and the ends of its interval."""
    values = torch.tensor(list(sums.values()), dtype=torch.float64)
    gain, number = float(values.sum()), len(values)
    error = float(values.std()) * math.sqrt(number) if number > 1 else math.inf
    return gain, gain - _WIDE * error, gain + _WIDE * error
