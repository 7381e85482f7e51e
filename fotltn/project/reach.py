"""Choose how far logits are averaged over time, for each predicate on held-back labels."""

from __future__ import annotations

from dataclasses import replace

from fotltn.learn.fit import fit
from fotltn.learn.optimizer_state import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task
from fotltn.logic.check import CheckedTheory
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Logits
from fotltn.project.config import AUTO, Config
from fotltn.project.world import World, in_precision
from fotltn.semantics.config import PRODUCT
from fotltn.semantics.tables import table_shape

#: The reaches to try, in steps.
CANDIDATES = (1.0, 2.0, 4.0, 8.0)

_USUAL = 4.0  # the reach if there are too few labels to choose by
_FEWEST = 20  # the smallest number of labels to choose by
_SHARE = 0.2  # the share of labels to hold back
_EPOCHS = 150


def with_reaches(config: Config, world: World) -> Config:
    """Return the settings with the reach of every predicate chosen.

    For each candidate, each predicate is learned from its own labels alone. The candidate with the
    lowest loss on held-back labels wins; among equals, the shorter reach.
    """
    predicates = dict(config.predicates)
    for name, how in config.predicates.items():
        if how.kind == "logits" and how.reach == AUTO:
            reach = _chosen(name, how.scale, config, world)
            predicates[name] = replace(how, reach=reach)
    return replace(config, predicates=predicates)


def _chosen(name: str, scale: float, config: Config, world: World) -> float:
    if world.theory.signature.predicates[name].static:
        return 0.0  # no time to average over
    if name not in world.labels.truth or len(world.labels.truth[name]) < _FEWEST:
        return _USUAL
    return min(CANDIDATES, key=lambda reach: _loss(name, scale, reach, config, world))


def _loss(name: str, scale: float, reach: float, config: Config, world: World) -> float:
    """Return the lowest loss over epochs on held-back labels of a predicate."""
    signature = world.theory.signature
    decl = signature.predicates[name]
    alone = replace(signature, predicates={name: decl}, functions={})
    fixed = replace(world.fixed, predicates={}, functions={}, signature=alone)
    every = world.labels
    labels = replace(every, index={name: every.index[name]}, truth={name: every.truth[name]})
    fact_p = {n: p for n, p in config.objective.fact_p.items() if n == name}
    objective = replace(
        config.objective, axioms="none", trust=None, axiom_weights={}, fact_weights={},
        fact_p=fact_p,
    )  # fmt: skip
    training = replace(
        config.training, epochs=min(_EPOCHS, config.training.epochs), validation=_SHARE,
        patience=None, batches=None, blocks=None, keep_best=False,
    )  # fmt: skip
    with in_precision(config), seeded(config.training.seed) as generator:
        shape = table_shape(fixed, decl)
        logits = Logits(shape, scale=scale, reach=reach, generator=generator)
        grounding = Grounding(alone, fixed, {name: logits})
        grounding = grounding.to(device=fixed.lengths.device, dtype=labels.truth[name].dtype)
        theory = CheckedTheory(alone, (), ())
        outcome = fit(Task(grounding, Axioms(theory, PRODUCT), objective, labels, training))
    return min(epoch.watched for epoch in outcome.history)
