"""Build a task that can be trained from a project's configuration and data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import (
    DataError,
    SemanticsError,
    name_hint,
    shown,
)
from fotltn.grounding.facts import Facts
from fotltn.learn.objective import Objective
from fotltn.learn.optimizer_state import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.steps import DataStream
from fotltn.learn.task import Task
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.networks.encoders import (
    Embeddings,
    FeatureInputs,
    Joined,
    Pieces,
    PiecesByArgument,
)
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import (
    DataRule,
    Defined,
    Heads,
    Logits,
    Marginal,
    Network,
    Predicate,
    Softmax,
    mlp,
)
from fotltn.networks.sequences import Encoded, Inputs, TimeEncoder
from fotltn.project.config import (
    Config,
    GroupConfig,
    InputConfig,
    PredicateConfig,
    lasting,
)
from fotltn.project.data_config import with_categories
from fotltn.project.definitions import held, settled
from fotltn.project.disk import DiskStream, centred, disk_worlds, watched_apart
from fotltn.project.method import (
    SAMPLED,
    TRAVELS,
    check_method,
    obstacles,
    with_method,
    with_sensors,
)
from fotltn.project.modules import check_modules
from fotltn.project.reach import with_reaches
from fotltn.project.seen import counted_cells, seen_of
from fotltn.project.world import (
    NOTHING,
    InMemory,
    PythonPredicate,
    World,
    device_of,
    in_precision,
    read_world,
    without_say,
)
from fotltn.semantics.config import Semantics, named
from fotltn.semantics.tables import table_shape
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

_WIDTH = 32  # default width of embeddings


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A project that is ready to be trained.

    Args:
        config: the settings, completed with the inputs of each sort and the method.
        world: the data.
        task: what to learn.
        semantics: the semantics of the axioms.
        chosen: the reason for the method, if the project left it open.
    """

    config: Config
    world: World
    task: Task
    semantics: Semantics
    chosen: str = ""


def build(config: Config, more: InMemory = NOTHING) -> Built:
    """Read everything that a project names and build it; `more` holds sources in memory.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    check_method(config)
    world = read_world(config, more)
    config, chosen = with_method(config, world)
    if odd := tuple(without_say(config, world.theory)):
        warnings = (*world.facts.warnings, *odd)
        world = replace(world, facts=replace(world.facts, warnings=warnings))
    config = completed(config, world)
    if config.method == "gradient":
        config = with_reaches(config, world)
    grounding = placed_networks(config, world, more)
    return replace(assembled(config, world, grounding), chosen=chosen)


def build_from_disk(config: Config, more: InMemory = NOTHING) -> Built:
    """Build a project on prepared data; networks are built from the first block.

    Raises:
        FotError: the data are missing or do not fit, or the project needs all of them at once.
    """
    worlds = disk_worlds(config, more)
    check_method(config)
    first, chosen = worlds.world(0), ""
    if config.method == "auto":
        chosen = "because data are prepared in blocks"
    config = completed(replace(worlds.config, method="gradient"), first)
    if refusal := "; ".join(obstacles(config, first)):
        text = f"a model of prepared data cannot have weights for each trace or time: {refusal}"
        raise DataError(text, hint=TRAVELS)
    world, total, watches = centred(worlds, config, first)
    grounding = placed_networks(config, world, more)
    stream = DiskStream(worlds, config, grounding, total, watches)
    labels, watched = watched_apart(config, world, 0)
    world = replace(world, labels=labels, watched=watched)
    settings = {"prepared": worlds.prepared.digest()}
    return replace(assembled(config, world, grounding, stream, settings), chosen=chosen)


def placed_networks(config: Config, world: World, more: InMemory = NOTHING) -> Grounding:
    """Build the networks on their device."""
    dtype, device = getattr(torch, config.dtype), device_of(config)
    return ground(config, world, more.modules).to(device=device, dtype=dtype)


def assembled(
    config: Config,
    world: World,
    grounding: Grounding,
    stream: DataStream | None = None,
    settings: Mapping[str, str] | None = None,
) -> Built:
    """Combine the parts of a project, new or of a trained model."""
    learned, axiom_p, objective = with_loss(config, world.theory)
    semantics = meaning(config)
    axioms = Axioms(learned, semantics, axiom_p, fused=config.compile)
    task = Task(
        grounding, axioms, objective, world.labels, config.training, world.watched,
        {**lasting(config), **(settings or {})}, stream,
    )  # fmt: skip
    return Built(config, world, task, semantics)


def completed(config: Config, world: World) -> Config:
    """Complete the settings: what computes each predicate, and what networks see of each sort.

    By default, each entity of a sort without features gets a learned vector.
    """
    config = with_sensors(settled(config, world.theory), world)
    signature = world.theory.signature
    usual = {sort: InputConfig() for sort in signature.sorts if _seen(sort, config, signature)}
    width = 0 if config.method == "posterior" else _WIDTH
    inputs = {
        sort: replace(seen, embedding=0 if seen.features and sort in world.fixed.inputs else width)
        if seen.embedding is None
        else seen
        for sort, seen in {**usual, **config.inputs}.items()
    }
    data = with_categories(config.data, world.fixed.inputs)
    return replace(config, inputs=inputs, data=data)


def with_loss(
    config: Config, theory: CheckedTheory
) -> tuple[CheckedTheory, Mapping[str, Schedule], Objective]:
    """Remove axioms that hold by definition from the theory, the exponents and the objective.

    With degrees between 0 and 1, the value of such an axiom is below 1, so it would pull degrees to
    the ends.
    """
    config, theory = less_axioms(config, theory, held(config, theory))
    return theory, config.axiom_p, config.objective


def less_axioms(
    config: Config, theory: CheckedTheory, names: Collection[str]
) -> tuple[Config, CheckedTheory]:
    """Return a project and its theory without some axioms and the settings of these."""

    def others(schedules: Mapping[str, Schedule]) -> dict[str, Schedule]:
        return {name: one for name, one in schedules.items() if name not in names}

    rest = tuple(a for a in theory.axioms if a.name not in names)
    objective = replace(config.objective, axiom_weights=others(config.objective.axiom_weights))
    config = replace(config, axiom_p=others(config.axiom_p), objective=objective)
    return config, replace(theory, axioms=rest)


def meaning(config: Config) -> Semantics:
    """Return the semantics of a project."""
    semantics = named(config.semantics)
    try:
        return semantics if config.p is None else semantics.with_p(config.p)
    except SemanticsError as error:
        raise config.error(("theory", "p"), error.diagnostics[0].message) from None


# --- networks ---------------------------------------------------------------------------------


def ground(
    config: Config, world: World, modules: Mapping[str, PythonPredicate] | None = None
) -> Grounding:
    """Build the networks of a project; the seed sets initial weights, modules keep theirs.

    Raises:
        DataError: modules are missing, or the method has no networks.
    """
    check_method(config)
    signature, modules = world.theory.signature, modules or {}
    check_modules(config, modules)
    _check_encoders(config)
    with in_precision(config), seeded(config.training.seed) as generator:
        inputs: dict[str, Inputs] = {}
        pieces: dict[str, Pieces] = {}
        for sort in signature.sorts:
            if _seen(sort, config, signature):
                inputs[sort], by_pieces = _inputs(
                    sort, config.inputs[sort], world, generator, modules
                )
                if by_pieces is not None:
                    pieces[sort] = by_pieces

        declared: dict[str, PredicateDecl | FunctionDecl] = {**signature.predicates}
        declared |= signature.functions

        def network(name: str, how: PredicateConfig | GroupConfig, outputs: int = 1) -> nn.Module:
            sorts = declared[name].sorts
            if not sorts:
                raise DataError(
                    f"'{name}' has no arguments for a network to see; use kind = \"logits\""
                )
            front = PiecesByArgument([deepcopy(pieces.get(s, inputs[s].width)) for s in sorts])
            body = mlp(
                front.width, how.hidden, outputs, activation=how.activation, generator=generator
            )
            return nn.Sequential(front, body) if {*sorts} & {*pieces} else body

        predicates: dict[str, Predicate] = {}
        for name, how in config.predicates.items():
            decl = signature.predicates[name]
            if config.method == "posterior" and how.kind in SAMPLED:
                continue
            match how.kind:
                case "formula":
                    predicates[name] = _defined(how)
                case "logits":
                    shape = table_shape(world.fixed, decl)
                    assert not isinstance(how.reach, str)
                    predicates[name] = Logits(
                        shape, scale=how.scale, reach=how.reach, generator=generator
                    )
                case "network":
                    predicates[name] = Network(network(name, how), static=decl.static)
                case "module":
                    predicates[name] = _by_module(modules[name], static=decl.static)
                case "function":
                    predicates[name] = DataRule(modules[name])
        functions = {
            name: _by_module(modules[name], static=declared[name].static)
            if how.kind == "module"
            else Network(network(name, how), static=declared[name].static)
            for name, how in config.functions.items()
        }
        shared = {how.heads for how in config.predicates.values() if how.kind == "shared"}
        groups: list[Softmax] = []
        for names in sorted(shared):
            made = modules[names[0]]
            assert isinstance(made, nn.Module)
            groups.append(Heads(names, made, static=signature.predicates[names[0]].static))
        groups += [
            Softmax(
                g.predicates,
                network(g.predicates[0], g, len(g.predicates) + g.other),
                static=signature.predicates[g.predicates[0]].static,
                other=g.other,
            )
            for g in config.groups
        ]
    if config.method == "posterior":
        return _beside_worlds(config, world, predicates, groups, inputs)
    return Grounding(
        signature, world.fixed, predicates, inputs=inputs, groups=groups,
        functions=functions, present=world.fixed.present, semantics=meaning(config),
    )  # fmt: skip


def _beside_worlds(
    config: Config, world: World, predicates: Mapping[str, Predicate], groups: Sequence[Softmax],
    inputs: Mapping[str, Inputs],
) -> Grounding:  # fmt: skip
    """Build tables of shares of worlds for everything learned, and networks over features."""
    signature, fixed = world.theory.signature, world.fixed
    networks = {n: p for n, p in predicates.items() if isinstance(p, Network)}
    seeing = [*networks, *(n for group in groups for n in group.names)]
    drawn: dict[str, Predicate] = {
        name: Marginal(
            table_shape(fixed, signature.predicates[name]),
            _defined(how) if how.kind == "formula" else None,
        )
        for name, how in config.predicates.items()
        if how.kind in SAMPLED or name in seeing
    }
    sensors = None
    if seeing:
        alone = replace(
            signature, predicates={n: signature.predicates[n] for n in seeing}, functions={}
        )
        nothing = replace(fixed, predicates={}, functions={}, signature=alone)
        sensors = Grounding(
            alone, nothing, networks, inputs=inputs, groups=groups, present=fixed.present
        )
    rest = {n: p for n, p in predicates.items() if n not in networks}
    return Grounding(
        signature, fixed, {**drawn, **rest}, present=fixed.present, semantics=meaning(config),
        sensors=sensors,
    )  # fmt: skip


def _defined(how: PredicateConfig) -> Defined:
    semantics = None if how.semantics is None else named(how.semantics)
    return Defined(how.variables, how.formula, semantics)


def _by_module(module: PythonPredicate, *, static: bool) -> Network:
    if not isinstance(module, nn.Module):
        raise DataError(f"expected a PyTorch module, not {shown(module)}")
    return Network(module, static=static, over_time=True)


def _seen(sort: str, config: Config, signature: Signature) -> bool:
    """Return whether a network sees entities of a sort."""
    seeing = ("network", "module", "shared")
    networks = [n for n, p in config.predicates.items() if p.kind in seeing]
    networks += [n for g in config.groups for n in g.predicates]
    sorts = [signature.predicates[n].sorts for n in networks]
    sorts += [signature.functions[n].sorts for n in config.functions]
    return any(sort in of_one for of_one in sorts)


def _inputs(
    sort: str,
    how: InputConfig,
    world: World,
    generator: torch.Generator,
    modules: Mapping[str, PythonPredicate],
) -> tuple[Inputs, Pieces | None]:
    """Return the inputs of a sort, and the pieces that networks without encoders cut them into."""
    facts, size = world.facts, world.fixed.sizes[sort]
    if size == 0:
        raise DataError(f"networks need entities of sort '{sort}', but no fact mentions one")
    encoders: list[Embeddings | FeatureInputs | Joined] = []
    pieces: Pieces | None = None
    visible = seen_of(sort, how, world)
    there = visible.there
    assert there is not None
    if visible.values is not None:
        numbers = tuple(_number(facts, sort, name) for name in how.learnable)
        counted = counted_cells(sort, world, visible)
        if counted is not None and not bool(counted.any()):
            counted = None
        mask = None if visible.present is None else visible.present.squeeze(-1)
        inputs = FeatureInputs(
            visible.values, present=mask, counted=counted, learnable=numbers,
            centring=world.centring.get(sort),
        )  # fmt: skip
        encoders.append(inputs)
        if how.bins:
            pieces = _pieces(sort, how, world, inputs.rows())
    elif how.learnable:
        raise DataError(f"inputs.{sort}: learnable needs features, and there are none")
    elif how.changes or how.bins:
        what = "changes needs" if how.changes else "bins needs"
        raise DataError(f"inputs.{sort}: {what} features, and there are none")
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
            f"inputs.{sort}: networks see nothing, because there are no features and embedding = 0"
        )
    seen = encoders[0] if len(encoders) == 1 else Joined(*encoders)
    if how.encoder is None:
        return seen, pieces
    if how.encoder.kind == "module":
        if pieces is not None:
            raise DataError(
                f"inputs.{sort}: an encoder that is your own module cannot have bins; set bins = 0"
            )
        made = modules[sort]
        assert isinstance(made, nn.Module)
        return Encoded(sort, seen, made, there), None
    chosen = {n: getattr(how.encoder, n) for n in ("layers", "causal", "reach", "heads")}
    kind: Any = how.encoder.kind
    encoder = TimeEncoder(seen.width, kind, how.encoder.width, pieces=pieces, **chosen)
    return Encoded(sort, seen, encoder, there), None


def _pieces(sort: str, how: InputConfig, world: World, rows: Tensor) -> Pieces:
    """Cut what networks see of a sort into pieces, based on the rows used for training.

    Indicators of categories and missing values are not cut.
    """

    def named(other: str) -> tuple[str, ...]:
        return world.fixed.inputs[other].names if other in world.fixed.inputs else ()

    names = [*named(sort)] if how.features else []
    for relation in how.neighbours:
        first, second = world.theory.signature.predicates[relation].sorts
        names += ["how many", *named(second if first == sort else first)]
    numbers = [not ("=" in name or name.endswith(" missing")) for name in names]
    numbers = numbers * (1 + len(how.changes)) + [False] * (how.embedding or 0)
    return Pieces(nn.functional.pad(rows, (0, how.embedding or 0)), numbers, how.bins)


def _check_encoders(config: Config) -> None:
    """Raise an error if an encoder looks ahead at steps without data."""
    for sort, seen in config.inputs.items():
        if seen.encoder is not None and not seen.encoder.causal and config.data.beyond == "last":
            raise config.error(
                ("inputs", sort, "encoder"),
                'an encoder that looks ahead cannot be combined with data.beyond = "last": the '
                "steps without data would change its output for earlier steps",
                "set causal = true",
            )


def _number(facts: Facts, sort: str, name: str) -> int:
    names = facts.entities.get(sort, ())
    if name not in names:
        hint = name_hint(name, names)
        raise DataError(f"inputs.{sort}: there is no entity '{name}'; {hint}")
    return names.index(name)
