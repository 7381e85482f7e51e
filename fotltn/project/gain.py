"""Measure how much each axiom helps on held-back labels, by training with and without it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fotltn.analysis.left_out import Division, LeftOutProgress, leave_out
from fotltn.analysis.metrics import log_loss, mean, pr_auc
from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import Split, split
from fotltn.learn.fit import fit
from fotltn.learn.store import resolved
from fotltn.project.build import Built, assembled, build, less_axioms, placed_networks
from fotltn.project.config import Config
from fotltn.project.method import without_axioms
from fotltn.project.model import model_of
from fotltn.project.world import World, in_precision

_SHARE = 0.8  # the share of the labels to learn from


class HeldBackScores(NamedTuple):
    """How well held-back labels are predicted: means over predicates."""

    log_loss: float | None
    pr_auc: float | None


@dataclass(frozen=True, slots=True)
class AxiomGain:
    """How much an axiom helps in addition to all others.

    Args:
        axiom: the name of the axiom.
        log_loss: by how much the axiom lowers the mean log-loss of a label, for each draw.
        pr_auc: by how much it raises PR-AUC, for each draw; None where that is not defined.
    """

    axiom: str
    log_loss: tuple[float | None, ...]
    pr_auc: tuple[float | None, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, with means and the number of draws that gain."""
        both = {"log_loss": self.log_loss, "pr_auc": self.pr_auc}
        return {
            name: {"mean": average(gains), "better": better(gains), "draws": list(gains)}
            for name, gains in both.items()
        }


def average(gains: tuple[float | None, ...]) -> float | None:
    """Return the mean of the defined numbers."""
    defined = [gain for gain in gains if gain is not None]
    return math.fsum(defined) / len(defined) if defined else None


def better(gains: tuple[float | None, ...]) -> int:
    """Count the numbers above 0."""
    return sum(gain is not None and gain > 0 for gain in gains)


def gains(
    config: Config,
    *,
    draws: int = 3,
    report: Callable[[LeftOutProgress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[HeldBackScores, list[AxiomGain]]:
    """Train with all axioms and without each, on a part of the labels; score the other labels.

    The labels are those for training: test facts are not used. Each draw divides them again, as the
    project draws its test facts or, if it draws none and has several traces, by traces.

    Args:
        config: the project, which learns by gradients.
        draws: how often to divide the labels.
        report: a function to call after every training.
        stop: a function to call after every epoch; if it returns true, training stops.

    Returns:
        The scores with all axioms, as means over the draws, and the gain of each axiom.

    Raises:
        InterruptedTrainingError: it was stopped; the same call continues.
        FotError: the project is wrong.
    """
    built = build(config)
    if built.config.method != "gradient":
        raise DataError(
            "gains are measured by gradient training, but this project samples worlds",
            hint=f"fotltn worth {config.folder}",
        )
    names = [axiom.name for axiom in built.task.axioms.theory.axioms]
    if not names:
        raise DataError("the theory has no axioms to learn from")
    folder = resolved(config.model_path())
    folder = folder.with_name(f"{folder.name}.gain")
    divisions = [_divided(built, draw) for draw in range(draws)]

    def scored(name: str | None, draw: int, labels: Division) -> HeldBackScores:
        one = _without(built.config, replace(built.world, labels=labels.learned), name)
        return _scored(one, labels.held_back, folder / f"{draw}-{name or 'all'}", stop)

    measured = leave_out(names, divisions, scored, report=report)
    shutil.rmtree(folder, ignore_errors=True)
    every = measured.every
    result = [
        AxiomGain(
            name,
            tuple(_minus(w.log_loss, a.log_loss) for a, w in zip(every, without, strict=True)),
            tuple(_minus(a.pr_auc, w.pr_auc) for a, w in zip(every, without, strict=True)),
        )
        for name, without in measured.without.items()
    ]
    losses, areas = zip(*every, strict=True)
    return HeldBackScores(average(losses), average(areas)), result


def _divided(built: Built, draw: int) -> Division:
    """Return the labels to learn from, and those to hold back."""
    data, labels = built.config.data, built.world.labels
    by: Split = data.by
    if data.train == 1.0 and len(built.world.facts.traces) > 1:
        by = "traces"
    if by == "time":  # nothing is drawn there
        by = "facts"
    learned, rest = split(labels, _SHARE, by=by, seed=draw, sort=data.sort)
    if not learned.total or not rest.total:
        raise DataError(f"{labels.total:,} labels are too few to hold some of them back")
    return Division(learned, rest)


def _without(config: Config, world: World, name: str | None) -> Built:
    """Return a project without an axiom and its settings."""
    config, theory = less_axioms(config, world.theory, () if name is None else (name,))
    config = config if theory.axioms else without_axioms(config)
    world = replace(world, theory=theory)
    return assembled(config, world, placed_networks(config, world))


def _scored(
    built: Built, rest: Labels, checkpoints: Path, stop: Callable[[], bool]
) -> HeldBackScores:
    """Train, or load what was trained before an interruption, and score the held-back labels."""
    with in_precision(built.config):
        outcome = fit(built.task, checkpoints=checkpoints, stop=stop)
    if not outcome.finished:
        hint = "run the same command to continue"
        raise InterruptedTrainingError("measuring gains was stopped", hint=hint)
    scores = model_of(built, outcome).scores(rest)
    losses = mean({name: log_loss(*one) for name, one in scores.items()})
    areas = mean({name: pr_auc(*one) for name, one in scores.items()})
    return HeldBackScores(losses.value, areas.value)


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second
