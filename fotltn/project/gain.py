"""What each axiom brings on labels that are held back: trained with it and without it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from fotltn.analysis.left_out import Division, LeftOutProgress, leave_out
from fotltn.analysis.metrics import log_loss, mean, pr_auc
from fotltn.errors import DataError, Diagnostic, InterruptedTrainingError
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import Split, split
from fotltn.learn.fit import fit
from fotltn.learn.store import resolved
from fotltn.project.build import Built, assembled, build, ground
from fotltn.project.config import Config
from fotltn.project.model import model_of
from fotltn.project.train import without_axioms
from fotltn.project.world import World, device_of, in_precision

_SHARE = 0.8  # of the labels, from which is learned

V = TypeVar("V")


class HeldBackScores(NamedTuple):
    """How well labels are predicted that were held back: means over predicates."""

    log_loss: float | None
    pr_auc: float | None


@dataclass(frozen=True, slots=True)
class AxiomGain:
    """What an axiom brings beside all others.

    Args:
        axiom: its name.
        log_loss: by how much the mean log-loss of a label falls with it, for each draw.
        pr_auc: by how much PR-AUC rises with it, for each draw; None where it is not defined.
    """

    axiom: str
    log_loss: tuple[float | None, ...]
    pr_auc: tuple[float | None, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with means and how many draws gain."""
        both = {"log_loss": self.log_loss, "pr_auc": self.pr_auc}
        return {
            name: {"mean": average(gains), "better": better(gains), "draws": list(gains)}
            for name, gains in both.items()
        }


def average(gains: tuple[float | None, ...]) -> float | None:
    """The mean of those that are defined."""
    defined = [gain for gain in gains if gain is not None]
    return math.fsum(defined) / len(defined) if defined else None


def better(gains: tuple[float | None, ...]) -> int:
    """How many are above 0."""
    return sum(gain is not None and gain > 0 for gain in gains)


def gains(
    config: Config,
    *,
    draws: int = 3,
    report: Callable[[LeftOutProgress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[HeldBackScores, list[AxiomGain]]:
    """Train with all axioms and without each, from a part of the labels, and score the others.

    The labels are those of training: test facts are not looked at. Each draw divides them anew,
    as the project draws its test facts, or by traces where it draws none and has several.

    Args:
        config: the project, which learns by gradients.
        draws: how often labels are divided.
        report: is told of every training that is done.
        stop: asked after every epoch whether to stop.

    Returns:
        The scores with all axioms, means over the draws, and what each axiom brings.

    Raises:
        InterruptedTrainingError: it was stopped; the same call goes on from there.
        FotError: something of the project is wrong.
    """
    built = build(config)
    if built.config.method != "gradient":
        raise DataError(
            Diagnostic(
                "the gain is measured of what gradients learn, and this project samples worlds",
                hint=f"fotltn worth {config.folder}",
            )
        )
    names = [axiom.name for axiom in built.task.axioms.theory.axioms]
    if not names:
        raise DataError("the theory has no axioms from which is learned")
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
    """The labels from which is learned, and those that are held back."""
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
    """A project without an axiom, and without what is said of it."""

    def others(settings: Mapping[str, V]) -> dict[str, V]:
        return {axiom: value for axiom, value in settings.items() if axiom != name}

    theory = world.theory
    rest = tuple(axiom for axiom in theory.axioms if axiom.name != name)
    world = replace(world, theory=replace(theory, axioms=rest))
    objective = replace(config.objective, axiom_weights=others(config.objective.axiom_weights))
    config = replace(config, axiom_p=others(config.axiom_p), objective=objective)
    if not rest:
        config = without_axioms(config)
    grounding = ground(config, world)
    grounding = grounding.to(device=device_of(config), dtype=getattr(torch, config.dtype))
    return assembled(config, world, grounding)


def _scored(
    built: Built, rest: Labels, checkpoints: Path, stop: Callable[[], bool]
) -> HeldBackScores:
    """Train, or take what was trained before an interruption, and score what was held back."""
    with in_precision(built.config):
        outcome = fit(built.task, checkpoints=checkpoints, stop=stop)
    if not outcome.finished:
        hint = "the same command goes on from there"
        raise InterruptedTrainingError(Diagnostic("measuring gains was stopped", hint=hint))
    scores = model_of(built, outcome).scores(rest)
    losses = mean({name: log_loss(*one) for name, one in scores.items()})
    areas = mean({name: pr_auc(*one) for name, one in scores.items()})
    return HeldBackScores(losses.value, areas.value)


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second
