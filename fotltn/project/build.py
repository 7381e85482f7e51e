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
from fotltn.networks.encoders import Embeddings, FeatureInputs, Inputs, Joined, with_changes
from fotltn.networks.grounding import Grounding, table_shape
from fotltn.networks.predicates import (
    DataRule,
    Defined,
    Logits,
    Network,
    Predicate,
    Softmax,
    mlp,
)
from fotltn.project.config import Config, GroupConfig, InputConfig, PredicateConfig, lasting
from fotltn.project.world import (
    NOTHING,
    InMemory,
    PythonPredicate,
    World,
    device_of,
    in_precision,
    read_world,
)
from fotltn.semantics.config import Semantics, named

_WIDTH = 32  # of embeddings, if nothing is said


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
    config = completed(config, world)
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


def completed(config: Config, world: World) -> Config:
    """The settings, in which it is said what networks see of each sort.

    Entities without features have a vector each, unless something else is said.
    """
    signature = world.theory.signature
    usual = {sort: InputConfig() for sort in signature.sorts if _seen(sort, config, signature)}
    inputs = {
        sort: replace(seen, embedding=0 if seen.features and sort in world.fixed.inputs else _WIDTH)
        if seen.embedding is None
        else seen
        for sort, seen in {**usual, **config.inputs}.items()
    }
    return replace(config, inputs=inputs)


def meaning(config: Config) -> Semantics:
    """The semantics of a project."""
    semantics = named(config.semantics)
    try:
        return semantics if config.p is None else semantics.with_p(config.p)
    except SemanticsError as error:
        raise config.error(("theory", "p"), error.diagnostics[0].message) from None


# --- networks ---------------------------------------------------------------------------------


def ground(
    config: Config, world: World, modules: Mapping[str, PythonPredicate] | None = None
) -> Grounding:
    """The networks of a project, with initial weights by its seed, and modules as they are."""
    signature = world.theory.signature
    with in_precision(config), seeded(config.training.seed) as generator:
        inputs = {
            sort: _inputs(sort, config.inputs[sort], world, generator)
            for sort in signature.sorts
            if _seen(sort, config, signature)
        }

        def network(name: str, how: PredicateConfig | GroupConfig, outputs: int = 1) -> nn.Module:
            sorts = signature.predicates[name].sorts
            if not sorts:
                raise DataError(f"'{name}' has no arguments that a network could see; use logits")
            width = sum(inputs[s].width for s in sorts)
            return mlp(width, how.hidden, outputs, activation=how.activation, generator=generator)

        predicates: dict[str, Predicate] = {}
        for name, how in config.predicates.items():
            decl = signature.predicates[name]
            match how.kind:
                case "formula":
                    semantics = None if how.semantics is None else named(how.semantics)
                    predicates[name] = Defined(how.variables, how.formula, semantics)
                case "logits":
                    shape = table_shape(world.fixed, decl)
                    predicates[name] = Logits(
                        shape, scale=how.scale, reach=how.reach, generator=generator
                    )
                case "network":
                    predicates[name] = Network(network(name, how), static=decl.static)
        for name, made in (modules or {}).items():
            static = signature.predicates[name].static
            predicates[name] = (
                Network(made, static=static) if isinstance(made, nn.Module) else DataRule(made)
            )
        groups = [
            Softmax(
                g.predicates,
                network(g.predicates[0], g, len(g.predicates) + g.other),
                static=signature.predicates[g.predicates[0]].static,
                other=g.other,
            )
            for g in config.groups
        ]
    return Grounding(
        signature, world.fixed, predicates, inputs=inputs, groups=groups,
        present=world.fixed.present, semantics=meaning(config),
    )  # fmt: skip


def _seen(sort: str, config: Config, signature: Signature) -> bool:
    """Whether a network sees entities of a sort."""
    networks = [n for n, p in config.predicates.items() if p.kind in ("network", "module")]
    networks += [n for g in config.groups for n in g.predicates]
    return any(sort in signature.predicates[n].sorts for n in networks)


def _inputs(sort: str, how: InputConfig, world: World, generator: torch.Generator) -> Inputs:
    facts, features = world.facts, world.fixed.inputs
    size = world.fixed.sizes[sort]
    if size == 0:
        raise DataError(f"no fact mentions an entity of sort '{sort}', which networks are to see")
    encoders: list[Embeddings | FeatureInputs | Joined] = []
    if how.features and sort in features:
        values = features[sort].values
        mask = world.fixed.present.get(sort)
        if how.changes:
            there = present(facts, sort) if mask is None else mask
            values = with_changes(values, there, how.changes)
        if mask is not None and values.shape[2] == 1:
            mask = mask.any(-1, keepdim=True)
        numbers = tuple(_number(facts, sort, name) for name in how.learnable)
        encoders.append(FeatureInputs(values, present=mask, learnable=numbers))
    elif how.learnable:
        raise DataError(f"inputs.{sort}: features can be learned only where there are some")
    elif how.changes:
        raise DataError(f"inputs.{sort}: there are no features whose changes networks could see")
    if how.embedding:
        traces = world.fixed.batch if sort in facts.local or how.time != "static" else 1
        encoders.append(
            Embeddings(
                traces, size, world.fixed.horizon, how.embedding, time=how.time, scale=how.scale,
                reach=how.reach, generator=generator,
            )
        )  # fmt: skip
    if not encoders:
        raise DataError(
            f"inputs.{sort}: networks see nothing of it; there are no features, and embedding = 0"
        )
    return encoders[0] if len(encoders) == 1 else Joined(*encoders)


def _number(facts: Facts, sort: str, name: str) -> int:
    names = facts.entities.get(sort, ())
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {listing(names)}"
        raise DataError(f"inputs.{sort}: no entity is named '{name}'; {hint}")
    return names.index(name)
