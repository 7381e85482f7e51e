"""A project's configuration and data to a task that can be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fotltn.errors import (
    DataError,
    Diagnostic,
    MissingModuleError,
    SemanticsError,
    name_hint,
    shown,
)
from fotltn.grounding.dense import present
from fotltn.grounding.facts import Facts
from fotltn.learn.fit import seeded
from fotltn.learn.objective import Objective
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Task
from fotltn.logic.check import CheckedTheory
from fotltn.logic.signature import Signature
from fotltn.networks.encoders import (
    Embeddings,
    FeatureInputs,
    Joined,
    Pieces,
    PiecesByArgument,
    beside,
    with_changes,
)
from fotltn.networks.grounding import Grounding, table_shape
from fotltn.networks.neighbours import pooled
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
    IN_PYTHON,
    Config,
    GroupConfig,
    InputConfig,
    PredicateConfig,
    lasting,
)
from fotltn.project.data_config import with_categories
from fotltn.project.definitions import held, settled
from fotltn.project.method import SAMPLED, check_method, with_method, with_sensors
from fotltn.project.reach import with_reaches
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
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

_WIDTH = 32  # of embeddings, if nothing is said


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A project, ready to be trained.

    Args:
        config: the settings; they name what networks see of each sort, and the method.
        world: its data.
        task: what is learned.
        semantics: of the axioms.
        chosen: why the method is what it is, if the project left it open.
    """

    config: Config
    world: World
    task: Task
    semantics: Semantics
    chosen: str = ""


def build(config: Config, more: InMemory = NOTHING) -> Built:
    """Read everything that a project names, and put it together; `more` is in memory.

    Raises:
        FotError: a file is missing or wrong, or parts do not fit together.
    """
    check_method(config)
    world = read_world(config, more)
    config, chosen = with_method(config, world)
    config = completed(config, world)
    if config.method == "gradient":
        config = with_reaches(config, world)
    dtype, device = getattr(torch, config.dtype), device_of(config)
    grounding = ground(config, world, more.modules)
    grounding = grounding.to(device=device, dtype=dtype)
    return replace(assembled(config, world, grounding), chosen=chosen)


def assembled(config: Config, world: World, grounding: Grounding) -> Built:
    """A project of its parts; of a model, what it was learned from."""
    learned, axiom_p, objective = with_loss(config, world.theory)
    semantics = meaning(config)
    axioms = Axioms(learned, semantics, axiom_p, fused=config.compile)
    task = Task(
        grounding, axioms, objective, world.labels, config.training, world.watched,
        lasting(config),
    )  # fmt: skip
    return Built(config, world, task, semantics)


def completed(config: Config, world: World) -> Config:
    """The settings, in which it is said what computes predicates, and what networks see.

    Entities without features have a vector each, unless something else is said.
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
    """What is learned of a theory, without axioms that hold by definition and what is said of them.

    Their value is no 1 where degrees are between 0 and 1, and would pull these to the ends.
    """
    names = held(config, theory)
    if not names:
        return theory, config.axiom_p, config.objective

    def others(schedules: Mapping[str, Schedule]) -> dict[str, Schedule]:
        return {name: one for name, one in schedules.items() if name not in names}

    rest = tuple(a for a in theory.axioms if a.name not in names)
    weights = others(config.objective.axiom_weights)
    objective = replace(config.objective, axiom_weights=weights)
    return replace(theory, axioms=rest), others(config.axiom_p), objective


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
    """The networks of a project, with initial weights by its seed, and modules as they are.

    Raises:
        DataError: modules are missing, or the method has no networks.
    """
    check_method(config)
    signature, modules = world.theory.signature, modules or {}
    _check_modules(config, modules)
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
                raise DataError(f"'{name}' has no arguments that a network could see; use logits")
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
    """Shares of worlds for all that is learned, and beside them networks over features."""
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
        raise DataError(f"expected a module, not {shown(module)}")
    return Network(module, static=static, over_time=True)


def _seen(sort: str, config: Config, signature: Signature) -> bool:
    """Whether a network sees entities of a sort."""
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
    """What is seen of a sort, and the pieces in which networks take it, if an encoder does not."""
    facts, features = world.facts, world.fixed.inputs
    size = world.fixed.sizes[sort]
    if size == 0:
        raise DataError(f"no fact mentions an entity of sort '{sort}', which networks are to see")
    encoders: list[Embeddings | FeatureInputs | Joined] = []
    pieces: Pieces | None = None
    mask = world.fixed.present.get(sort)
    mask = None if mask is None else mask.cpu()  # all is made here, and moved together
    there = present(facts, sort) if mask is None else mask
    parts = [features[sort].values] if how.features and sort in features else []
    parts += [pooled(world.fixed, name, sort) for name in how.neighbours]
    if parts:
        values = beside(parts)
        if how.changes:
            values = with_changes(values, there, how.changes)
        if mask is not None and values.shape[2] == 1:
            mask = mask.any(-1, keepdim=True)
        numbers = tuple(_number(facts, sort, name) for name in how.learnable)
        counted = _counted(world, sort, values, there)
        inputs = FeatureInputs(values, present=mask, counted=counted, learnable=numbers)
        encoders.append(inputs)
        if how.bins:
            pieces = _pieces(sort, how, world, inputs.rows())
    elif how.learnable:
        raise DataError(f"inputs.{sort}: features can be learned only where there are some")
    elif how.changes or how.bins:
        what = "whose changes networks could see" if how.changes else "to take by pieces"
        raise DataError(f"inputs.{sort}: there are no features {what}")
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
    seen = encoders[0] if len(encoders) == 1 else Joined(*encoders)
    if how.encoder is None:
        return seen, pieces
    if how.encoder.kind == "module":
        if pieces is not None:
            raise DataError(
                f"inputs.{sort}: a module of your own sees numbers as they are: bins = 0"
            )
        made = modules[sort]
        assert isinstance(made, nn.Module)
        return Encoded(sort, seen, made, there), None
    chosen = {n: getattr(how.encoder, n) for n in ("layers", "causal", "reach", "heads")}
    kind: Any = how.encoder.kind
    encoder = TimeEncoder(seen.width, kind, how.encoder.width, pieces=pieces, **chosen)
    return Encoded(sort, seen, encoder, there), None


def _pieces(sort: str, how: InputConfig, world: World, rows: Tensor) -> Pieces:
    """The pieces of what networks see of a sort, by the rows that count.

    What says that a value is of some category, or missing, is no number to take by pieces.
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


def _counted(world: World, sort: str, values: Tensor, there: Tensor) -> Tensor | None:
    """Which features count for centring, if some of their rows are held back and some are not."""
    if sort not in world.counted:
        return None
    counted = world.counted[sort] & there
    for dim in (0, 2):
        if values.shape[dim] == 1:
            counted = counted.any(dim, keepdim=True)
    return counted if bool(counted.any()) else None


def made_modules(modules: Mapping[Any, Any]) -> dict[str, PythonPredicate]:
    """Modules by one name each, of the first predicate if several share one; classes are called.

    Raises:
        DataError: a class asks for arguments, or there is something else.
    """
    made: dict[str, PythonPredicate] = {}
    for names, one in modules.items():
        name = names if isinstance(names, str) else names[0]
        if isinstance(one, type):
            try:
                one = one()
            except TypeError as error:
                raise DataError(
                    f"modules: {one.__name__}, for '{name}', is not made without arguments "
                    f"({error}); hand over one that is made: {one.__name__}(…)"
                ) from None
        if not callable(one):
            raise DataError(f"modules: expected a module for '{name}', not {shown(one)}")
        made[name] = one
    return made


def _check_modules(config: Config, modules: Mapping[str, PythonPredicate]) -> None:
    """See that what Python computes is at hand.

    Raises:
        MissingModuleError: it is not.
    """
    needed = {
        name if how.kind != "shared" else how.heads[0]: (how.constructor, f"'{name}'")
        for name, how in {**config.predicates, **config.functions}.items()
        if how.kind in IN_PYTHON
    }
    for sort, seen in config.inputs.items():
        if seen.encoder is not None and seen.encoder.kind == "module":
            needed[sort] = (seen.encoder.constructor, f"the encoder of the sort '{sort}'")
    for name, (constructor, what) in needed.items():
        if name not in modules:
            raise MissingModuleError(
                Diagnostic(
                    f"{what} is computed by Python, by '{constructor}', which is not read from "
                    "files",
                    hint=f'hand it over: modules={{"{name}": {constructor}}}',
                )
            )


def _check_encoders(config: Config) -> None:
    """Refuse encoders that look ahead at steps which nobody has seen."""
    for sort, seen in config.inputs.items():
        if seen.encoder is not None and not seen.encoder.causal and config.data.beyond == "last":
            raise config.error(
                ("inputs", sort, "encoder"),
                'an encoder that looks ahead cannot be combined with data.beyond = "last": steps '
                "that nobody has seen would change what it says of those before",
                "causal = true",
            )


def _number(facts: Facts, sort: str, name: str) -> int:
    names = facts.entities.get(sort, ())
    if name not in names:
        hint = name_hint(name, names)
        raise DataError(f"inputs.{sort}: no entity is named '{name}'; {hint}")
    return names.index(name)
