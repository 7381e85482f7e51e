"""A project's configuration and data to a task that can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from fotltn.errors import DataError, SemanticsError, did_you_mean, listing
from fotltn.grounding.dense import present
from fotltn.grounding.facts import Facts
from fotltn.learn.fit import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task
from fotltn.logic.signature import Signature
from fotltn.networks.grounding import Grounding
from fotltn.networks.inputs import Embeddings, FeatureInputs, Inputs, Joined, with_changes
from fotltn.networks.predicates import (
    Defined,
    Logits,
    Network,
    Predicate,
    Rule,
    Softmax,
    mlp,
)
from fotltn.project.config import Config, InputConfig, PredicateConfig, lasting
from fotltn.project.world import (
    NOTHING,
    InMemory,
    Own,
    World,
    device_of,
    in_precision,
    read_world,
)
from fotltn.semantics.config import Semantics, named


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A project, ready to be trained; its configuration names what networks see of each sort."""

    config: Config
    world: World
    task: Task
    semantics: Semantics


def build(config: Config, more: InMemory = NOTHING) -> Built:
    """Read everything that a project names, and put it together; `more` is in memory.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    world = read_world(config, more)
    config = _completed(config, world.theory.signature)
    semantics = meaning(config)
    dtype, device = getattr(torch, config.dtype), device_of(config)
    grounding = ground(config, world, more.modules)
    grounding = grounding.to(device=device, dtype=dtype)
    axioms = Axioms(world.theory, semantics, config.axiom_p, fused=config.compile)
    task = Task(
        grounding, axioms, config.objective, world.labels, config.training, world.watched,
        lasting(config),
    )  # fmt: skip
    return Built(config, world, task, semantics)


def _completed(config: Config, signature: Signature) -> Config:
    usual = {sort: InputConfig() for sort in signature.sorts if _seen(sort, config, signature)}
    return replace(config, inputs={**usual, **config.inputs})


def meaning(config: Config) -> Semantics:
    """The semantics of a project."""
    found = named(config.semantics)
    try:
        return found if config.p is None else found.with_p(config.p)
    except SemanticsError as error:
        raise config.error(("theory", "p"), error.diagnostics[0].message) from None


# --- networks ---------------------------------------------------------------------------------


def ground(config: Config, world: World, modules: Mapping[str, Own] | None = None) -> Grounding:
    """The networks of a project, with initial weights by its seed, and modules as they are."""
    signature, facts = world.theory.signature, world.facts
    with in_precision(config), seeded(config.training.seed) as generator:
        inputs = {
            sort: _inputs(sort, config.inputs[sort], world, generator)
            for sort in signature.sorts
            if _seen(sort, config, signature)
        }
        predicates = {
            name: _predicate(name, p, signature, inputs, facts, generator)
            for name, p in config.predicates.items()
            if p.kind in ("network", "logits", "formula")
        }
        for name, own in (modules or {}).items():
            static = signature.predicates[name].static
            predicates[name] = (
                Network(own, static=static) if isinstance(own, nn.Module) else Rule(own)
            )
        groups = [
            Softmax(
                g.predicates,
                mlp(
                    _width(g.predicates[0], signature, inputs),
                    g.hidden,
                    len(g.predicates) + g.other,
                    activation=g.activation,
                    generator=generator,
                ),
                static=signature.predicates[g.predicates[0]].static,
                other=g.other,
            )
            for g in config.groups
        ]
    return Grounding(
        signature, world.given, predicates, inputs=inputs, groups=groups,
        features={sort: one.values for sort, one in world.features.items()},
        present=world.given.present, semantics=meaning(config),
    )  # fmt: skip


def _seen(sort: str, config: Config, signature: Signature) -> bool:
    """Whether a network sees entities of a sort."""
    networks = [n for n, p in config.predicates.items() if p.kind in ("network", "module")]
    networks += [n for g in config.groups for n in g.predicates]
    return any(sort in signature.predicates[n].sorts for n in networks)


def _inputs(sort: str, given: InputConfig, world: World, generator: torch.Generator) -> Inputs:
    facts, features = world.facts, world.features
    size, horizon = facts.sizes()[sort], max(facts.lengths)
    if size == 0:
        raise DataError(f"no fact mentions an entity of sort '{sort}', which networks are to see")
    traces = len(facts.traces) if sort in facts.local or given.time != "static" else 1
    found: list[Embeddings | FeatureInputs | Joined] = []
    if given.features and sort in features:
        values = features[sort].values
        mask = world.given.present.get(sort)
        if given.changes:
            there = present(facts, sort) if mask is None else mask
            values = with_changes(values, there, given.changes)
        if mask is not None and values.shape[2] == 1:
            mask = mask.any(-1, keepdim=True)
        numbers = tuple(_number(facts, sort, name) for name in given.learnable)
        found.append(FeatureInputs(values, present=mask, learnable=numbers))
    elif given.learnable:
        raise DataError(f"inputs.{sort}: features can be learned only where there are some")
    elif given.changes:
        raise DataError(f"inputs.{sort}: there are no features whose changes networks could see")
    if given.embedding:
        found.append(
            Embeddings(
                traces, size, horizon, given.embedding, time=given.time,  # type: ignore[arg-type]
                scale=given.scale, reach=given.reach, generator=generator,
            )
        )  # fmt: skip
    if not found:
        raise DataError(
            f"inputs.{sort}: networks see nothing of it; there are no features, and embedding = 0"
        )
    return found[0] if len(found) == 1 else Joined(*found)


def _number(facts: Facts, sort: str, name: str) -> int:
    names = facts.entities.get(sort, ())
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {listing(names)}"
        raise DataError(f"inputs.{sort}: no entity is named '{name}'; {hint}")
    return names.index(name)


def _width(name: str, signature: Signature, inputs: Mapping[str, Inputs]) -> int:
    sorts = signature.predicates[name].sorts
    if not sorts:
        raise DataError(f"'{name}' has no arguments that a network could see; use logits")
    return sum(inputs[s].width for s in sorts)


def _predicate(
    name: str,
    given: PredicateConfig,
    signature: Signature,
    inputs: Mapping[str, Inputs],
    facts: Facts,
    generator: torch.Generator,
) -> Predicate:
    decl = signature.predicates[name]
    match given.kind:
        case "formula":
            own = None if given.semantics is None else named(given.semantics)
            return Defined(given.variables, given.formula, own)
        case "logits":
            times = 1 if decl.static else max(facts.lengths)
            shape = (len(facts.traces), *(facts.sizes()[s] for s in decl.sorts), times)
            return Logits(shape, scale=given.scale, reach=given.reach, generator=generator)
    network = mlp(
        _width(name, signature, inputs), given.hidden, activation=given.activation,
        generator=generator,
    )  # fmt: skip
    return Network(network, static=decl.static)
