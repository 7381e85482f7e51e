"""Turn a project into a sampling problem: theory, given facts, labels and rates of wrong labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fotltn.decisions import two_valued
from fotltn.grounding.labels import Labels
from fotltn.learn.objective import Objective, unsure
from fotltn.logic.check import CheckedTheory
from fotltn.logic.defined import Definition
from fotltn.networks.grounding import Grounding
from fotltn.posterior.carried import Carried
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.project.build import Built, with_loss
from fotltn.project.config import Config
from fotltn.project.world import World
from fotltn.semantics.presence import present_mask
from fotltn.semantics.tables import table_shape

#: The log-odds of a fact about an entity that is not present.
_ABSENT = -40.0

#: Probabilities from a detector are kept this far from 0 and 1.
_SURE = 1e-9


def problem_of(built: Built) -> Problem:
    """Return the sampling problem of a project.

    Raises:
        DataError: the rates of wrong labels contradict each other.
    """
    task = built.task
    # Nothing stops early here, so a share of labels is held back only to choose thresholds on.
    all_count = task.watched is None and task.training.thresholds == "half"
    return asked_of(
        built.config, built.world, task.grounding, task.labels if all_count else task.split()[0],
        _theory(task.objective, task.axioms.theory),
    )  # fmt: skip


def asked_of(
    config: Config, world: World, grounding: Grounding, labels: Labels, theory: CheckedTheory
) -> Problem:
    """Build a sampling problem from its parts.

    Raises:
        DataError: the rates of wrong labels contradict each other.
    """
    labels, logits = _evidence(config, labels, grounding)
    for name, there in _presence(world, grounding).items():
        known = logits.get(name, torch.zeros(())).to(there.device)
        logits[name] = torch.where(there, known, _ABSENT)
    define = {
        name: Definition(name, checked.free, checked.formula, config.predicates[name].axioms)
        for name, checked in grounding.definitions.items()
        if name in grounding.marginals
    }
    return Problem(
        theory, two_valued(grounding.fixed, 0.5), labels, tuple(grounding.marginals),
        {n: _rates(config, n) for n in grounding.marginals},
        replace(config.posterior, seed=config.training.seed), define, logits, config.end,
    )  # fmt: skip


def moved_problem(config: Config, world: World, grounding: Grounding, carried: Carried) -> Problem:
    """Return the sampling problem of other data, with the weights and rates that were learned.

    There may be no labels.
    """
    theory, _, objective = with_loss(config, world.theory)
    theory = _weighed(_theory(objective, theory), carried.weights)
    problem = asked_of(config, world, grounding, world.labels, theory)
    return replace(
        problem, rates={n: carried.rates[n] for n in problem.learned},
        sampling=replace(problem.sampling, weights="given"),
    )  # fmt: skip


def _theory(objective: Objective, theory: CheckedTheory) -> CheckedTheory:
    """Return the theory that worlds obey, with the weights that the project gives to axioms."""
    if objective.axioms == "none":
        return replace(theory, axioms=())
    weights = {n: schedule.at(math.inf) for n, schedule in objective.axiom_weights.items()}
    return _weighed(theory, weights)


def _weighed(theory: CheckedTheory, weights: Mapping[str, float]) -> CheckedTheory:
    axioms = (replace(a, weight=weights.get(a.name, a.weight)) for a in theory.axioms)
    return replace(theory, axioms=tuple(axioms))


def _rates(config: Config, name: str) -> NoiseRates | None:
    """Return how often labels of a predicate are wrong; None if that is to be learned."""
    objective = config.objective
    missed, invented = objective.rate("missed", name), objective.rate("invented", name)
    if missed is None and invented is None:
        known = objective.facts == "noise-aware" and not objective.learn_flips
        return NoiseRates(objective.flips, objective.flips) if known else None
    if "learned" in (missed, invented):
        if not {missed, invented} <= {"learned", None}:
            raise config.error(
                ("objective", "missed" if missed == "learned" else "invented"),
                f"'{name}' has one rate that is learned and one that is given",
                "learn both, or give both",
            )
        return None
    flips = objective.flips
    return NoiseRates(*(flips if isinstance(r, str | None) else r for r in (missed, invented)))


def _evidence(
    config: Config, labels: Labels, grounding: Grounding
) -> tuple[Labels, dict[str, Tensor]]:
    """Return the labels, and the log-odds from detectors."""
    told = {n: unsure(labels.truth[n]) for n in config.objective.evidence if n in labels.truth}
    logits = {}
    for name, mask in told.items():
        if bool(mask.any()):
            share = labels.truth[name][mask].to(torch.float64).clamp(_SURE, 1 - _SURE)
            shape = table_shape(grounding.fixed, grounding.signature.predicates[name])
            table = torch.zeros(shape, dtype=torch.float64, device=share.device)
            index = tuple(labels.index[name][:, mask])
            logits[name] = table.index_put(index, torch.logit(share), accumulate=True)
    rest = {n: ~told[n] if n in told else torch.ones_like(t, dtype=torch.bool)
            for n, t in labels.truth.items()}  # fmt: skip
    return labels.take(rest), logits


def _presence(world: World, grounding: Grounding) -> dict[str, Tensor]:
    """Return masks of present arguments, for drawn predicates whose entities come and go."""
    fixed, declared = world.fixed, grounding.signature.predicates
    drawn = [n for n in grounding.marginals if n not in grounding.defined]
    moving = [n for n in drawn if {*declared[n].sorts} & {*fixed.present}]
    masks = {n: present_mask(fixed, declared[n], fixed.present, inside=False) for n in moving}
    return {n: mask for n, mask in masks.items() if not bool(mask.all())}
