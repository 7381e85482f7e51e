"""A project's configuration and data to a task that can be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.dense import interpretation, presence
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.grounding.frames import Source
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import flip, split
from fotltn.grounding.wide import Entity, Wide, read_wide
from fotltn.learn.fit import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task
from fotltn.logic.check import CheckedTheory, check
from fotltn.logic.signature import Signature
from fotltn.networks.grounding import Grounding
from fotltn.networks.inputs import Embeddings, FeatureInputs, Inputs, Joined
from fotltn.networks.predicates import (
    Defined,
    Logits,
    Network,
    Predicate,
    Softmax,
    mlp,
)
from fotltn.project.config import Config, InputConfig, PredicateConfig, WideConfig
from fotltn.semantics.config import Semantics, named
from fotltn.semantics.interpretation import Interpretation
from fotltn.syntax.load import load_theory
from fotltn.syntax.theory import Theory


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What a project is about: its theory, its facts, and tables of what is given.

    Args:
        source: the theory as it is written, with what it includes.
        theory: the theory, checked.
        facts: names of traces and entities, and all facts.
        features: by sort.
        given: tables of the predicates that are not learned, on the machine that computes.
        stated: all facts of learned predicates, as they are stated.
        labels: those for training, with the noise that was asked for.
        test: those for testing; None if there are none.
    """

    source: Theory
    theory: CheckedTheory
    facts: Facts
    features: Mapping[str, Features]
    given: Interpretation
    stated: Labels
    labels: Labels
    test: Labels | None


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A project, ready to be trained."""

    world: World
    task: Task
    semantics: Semantics


def build(config: Config, frames: Sequence[Source] = ()) -> Built:
    """Read everything that a project names, and put it together.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    world = read_world(config, frames)
    semantics = meaning(config)
    dtype, device = getattr(torch, config.dtype), device_of(config)
    grounding = ground(config, world.theory.signature, world.given, world.features, world.facts)
    grounding = grounding.to(device=device, dtype=dtype)
    axioms = Axioms(world.theory, semantics, config.axiom_p, fused=config.compile)
    task = Task(grounding, axioms, config.objective, world.labels, config.training)
    return Built(world, task, semantics)


def meaning(config: Config) -> Semantics:
    """The semantics of a project."""
    found = named(config.semantics)
    return found if config.p is None else found.with_p(config.p)


def device_of(config: Config) -> torch.device:
    """The machine that computes."""
    try:
        device = torch.device(config.device)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise DataError(f"the device '{config.device}' cannot be used: {first}") from None
    return device


def read_world(config: Config, frames: Sequence[Source] = ()) -> World:
    """Read theory and data; `frames` are further facts, in memory."""
    source = load_theory(config.path(config.theory))
    theory = check(source)
    signature = theory.signature
    _check_names(config, signature)
    data = config.data
    dtype, device = getattr(torch, config.dtype), device_of(config)
    tables = [_wide(config, w) for w in data.wide]
    long: list[Source] = [*(config.path(f) for f in data.facts), *frames]
    if not long and not tables:
        raise DataError("there are no facts to learn from")
    tested: list[Source] = [config.path(f) for f in data.test]
    facts, features = read_wide(
        tables, signature, facts=[*long, *tested], horizon=data.horizon, local=data.local,
        on_conflict=data.on_conflict, dtype=dtype,
    )  # fmt: skip
    learned = [n for n in signature.predicates if _open(n, config)]
    every = labels(facts, signature, learned, dtype=dtype)
    train, test = _shares(config, every, facts, tables, long, signature, learned)
    if data.flip:
        train, _ = flip(train, data.flip, data.seed)
    truth = interpretation(facts, signature, dtype=dtype, sparse=True)
    given = replace(
        truth, predicates={n: t for n, t in truth.predicates.items() if n not in learned}
    )
    return World(
        source, theory, facts, features, moved(given, device), to_device(every, device),
        to_device(train, device), None if test is None else to_device(test, device),
    )  # fmt: skip


def _open(name: str, config: Config) -> bool:
    """Whether a predicate is computed, so that facts about it are labels."""
    grouped = any(name in g.predicates for g in config.groups)
    return grouped or (name in config.predicates and config.predicates[name].kind != "facts")


def _shares(
    config: Config,
    every: Labels,
    facts: Facts,
    tables: list[Wide],
    long: list[Source],
    signature: Signature,
    learned: list[str],
) -> tuple[Labels, Labels | None]:
    """Facts to train on and to test on."""
    data = config.data
    if data.test:
        # Read once more without the test files: what is stated there is for training.
        own, _ = read_wide(
            tables, signature, facts=long, horizon=data.horizon, local=data.local,
            on_conflict=data.on_conflict,
        )  # fmt: skip
        train = labels(own, signature, learned)
        masks = {
            name: stated(index, every.sorts[name], facts, train.index[name], own)
            for name, index in every.index.items()
        }
        return every.take(masks), every.take({n: ~m for n, m in masks.items()})
    if data.train == 1.0:
        return every, None
    return split(every, data.train, by=data.by, seed=data.seed, sort=data.sort)  # type: ignore[arg-type]


def stated(
    index: Tensor, sorts: Sequence[str], facts: Facts, other: Tensor, others: Facts
) -> Tensor:
    """Which facts are also among others, whose entities and traces have other numbers."""

    def named(rows: Tensor, names: Facts) -> list[tuple[object, ...]]:
        return [
            (names.traces[trace], *map(names.name, sorts, [trace] * len(sorts), args), time)
            for trace, *args, time in rows.T.tolist()
        ]

    known = set(named(other, others))
    return torch.tensor([key in known for key in named(index, facts)], dtype=torch.bool)


def _wide(config: Config, given: WideConfig) -> Wide:
    arguments = {
        column: [Entity(a[1:]) if a.startswith("=") else a for a in names]
        for column, names in given.arguments.items()
    }
    return Wide(
        config.path(given.file), given.sort, given.entity, given.time, given.trace,
        given.predicates, arguments, given.features, given.categories, given.presence,
    )  # fmt: skip


def _check_names(config: Config, signature: Signature) -> None:
    for kind, given, known in (
        ("predicate", config.predicates, signature.predicates),
        ("predicate", [n for g in config.groups for n in g.predicates], signature.predicates),
        ("sort", config.inputs, signature.sorts),
    ):
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known) or f"the theory declares {listing(known)}"
                raise DataError(f"the project speaks of the unknown {kind} '{name}'; {hint}")


# --- networks ---------------------------------------------------------------------------------


def ground(
    config: Config,
    signature: Signature,
    given: Interpretation,
    features: Mapping[str, Features],
    facts: Facts,
) -> Grounding:
    """The networks of a project, with initial weights by its seed."""
    with seeded(config.training.seed) as generator:
        inputs = {
            sort: _inputs(sort, config.inputs.get(sort, InputConfig()), facts, features, generator)
            for sort in signature.sorts
            if _seen(sort, config, signature)
        }
        predicates = {
            name: _predicate(name, p, signature, inputs, facts, generator)
            for name, p in config.predicates.items()
            if p.kind != "facts"
        }
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
        signature, given, predicates, inputs=inputs, groups=groups, semantics=meaning(config)
    )


def _seen(sort: str, config: Config, signature: Signature) -> bool:
    """Whether a network sees entities of a sort."""
    networks = [n for n, p in config.predicates.items() if p.kind == "network"]
    networks += [n for g in config.groups for n in g.predicates]
    return any(sort in signature.predicates[n].sorts for n in networks)


def _inputs(
    sort: str,
    given: InputConfig,
    facts: Facts,
    features: Mapping[str, Features],
    generator: torch.Generator,
) -> Inputs:
    size, horizon = facts.sizes()[sort], max(facts.lengths)
    traces = len(facts.traces) if sort in facts.local or given.time != "static" else 1
    found: list[Embeddings | FeatureInputs | Joined] = []
    if given.features and sort in features:
        values = features[sort].values
        mask = presence(facts, sort) if sort in facts.local else None
        if mask is not None:
            mask = mask.unsqueeze(-1).expand(values.shape[:-1])
        numbers = tuple(_number(facts, sort, name) for name in given.learnable)
        found.append(FeatureInputs(values, present=mask, learnable=numbers))
    elif given.learnable:
        raise DataError(f"inputs.{sort}: features can be learned only where there are some")
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


# --- devices ------------------------------------------------------------------------------------


def moved(model: Interpretation, device: torch.device) -> Interpretation:
    """Tables on a device."""
    if device.type == "cpu":
        return model

    def table(given: Tensor) -> Tensor:
        return given.to(device)

    predicates = {
        n: table(t)
        if isinstance(t, Tensor)
        else replace(t, index=table(t.index), value=table(t.value))
        for n, t in model.predicates.items()
    }
    return replace(
        model,
        lengths=table(model.lengths),
        predicates=predicates,
        functions={n: table(t) for n, t in model.functions.items()},
        relations={n: table(t) for n, t in model.relations.items()},
    )


def to_device(given: Labels, device: torch.device) -> Labels:
    """Labels on a device."""
    return replace(
        given,
        index={n: t.to(device) for n, t in given.index.items()},
        truth={n: t.to(device) for n, t in given.truth.items()},
    )
