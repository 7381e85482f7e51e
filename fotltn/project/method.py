"""Choose between methods and check them: gradients train networks, a posterior samples worlds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fotltn.errors import listing
from fotltn.logic.parts import symbols
from fotltn.project.config import AUTO, Config, PredicateConfig
from fotltn.project.world import World

#: The kinds of predicates that a posterior samples.
SAMPLED = (AUTO, "logits", "formula")

_GRADIENT = 'or method = "gradient"'


def check_method(config: Config) -> None:
    """Raise an error if settings ask a posterior for something that sampled worlds do not have.

    Raises:
        DataError: says what would work instead.
    """
    if config.method != "posterior":
        return
    if config.groups:
        names = config.groups[0].predicates
        atoms = ", ".join(names)
        raise config.error(
            ("exclusive[1]",),
            f"a posterior has no network that chooses one of {atoms}",
            f"state in a hard axiom that they exclude each other, such as "
            f"hard axiom Apart: forall x. G !({names[0]}(x) & {names[1]}(x)); {_GRADIENT}",
        )
    for name in config.functions:
        raise config.error(
            ("functions", name),
            f"the function '{name}' is learned, but a posterior samples only truth values",
            f"provide its values as data, {_GRADIENT}",
        )
    for sort, seen in config.inputs.items():
        for key, asked in (("embedding", seen.embedding), ("learnable", seen.learnable)):
            if asked:
                raise config.error(
                    ("inputs", sort, key),
                    f"with a posterior, networks see only features of each '{sort}', not weights "
                    "of single entities: sampled worlds hold what is particular to an entity",
                    f"leave out {key}, {_GRADIENT}",
                )


def with_method(config: Config, world: World) -> tuple[Config, str]:
    """Choose the method if settings leave it open; also return the reason, empty if they do not.

    Measurements (docs/posterior-results.md) show that sampled worlds predict better if hard axioms
    mention learned predicates, with or without features.
    """
    if config.method != "auto":
        return config, ""
    obstacle = next(_obstacles(config, world), "")
    learned = {n for n, how in config.predicates.items() if how.kind != "facts"}
    hard = [a.name for a in world.theory.axioms if a.hard and learned & {*symbols(a.formula)}]
    told = (config.objective.missed, config.objective.invented)
    rates = [r for by in told for r in (by.values() if isinstance(by, Mapping) else [by])]
    if "learned" in rates:
        return replace(config, method="posterior"), "because rates of wrong labels are learned"
    if obstacle:
        return replace(config, method="gradient"), f"because {obstacle}"
    if config.objective.axioms == "none":
        return replace(config, method="gradient"), "because axioms are left out"
    if not hard:
        return replace(config, method="gradient"), "because no hard axiom mentions what is learned"
    return replace(config, method="posterior"), f"because of hard axioms: {listing(hard, 4)}"


def _obstacles(config: Config, world: World) -> Iterator[str]:
    """Yield the settings that sampled worlds cannot follow, in words."""
    for group in config.groups:
        yield f"a network chooses one of {listing(group.predicates)}"
    for name in config.functions:
        yield f"the function '{name}' is learned"
    for sort, seen in config.inputs.items():
        if seen.embedding or seen.learnable:
            yield f"networks have weights for each '{sort}'"
    declared = world.theory.signature.predicates
    for name, how in config.predicates.items():
        blank = [s for s in declared[name].sorts if s not in world.fixed.inputs]
        blank = [s for s in blank if s not in config.inputs or not config.inputs[s].neighbours]
        if how.kind == "network" and blank:
            yield f"the network of '{name}' sees no features of '{blank[0]}'"


def without_axioms(config: Config) -> Config:
    """Return the project without axioms, to learn from facts alone."""
    objective = replace(config.objective, axioms="none", trust=None)
    return replace(config, objective=objective)


def with_sensors(config: Config, world: World) -> Config:
    """Give predicates of open kind networks over features, if the method is a posterior.

    A predicate gets a network if all its arguments have features, or neighbours to count.

    Raises:
        DataError: a predicate is set to have a network, but an argument has no features.
    """
    if config.method != "posterior":
        return config
    usual = {sort for sort in world.fixed.inputs if sort not in config.inputs}
    seen = {
        sort
        for sort, how in config.inputs.items()
        if (how.features and sort in world.fixed.inputs) or how.neighbours
    }
    declared = world.theory.signature.predicates
    for name, how in config.predicates.items():
        blank = [sort for sort in declared[name].sorts if sort not in seen | usual]
        if how.kind == "network" and blank:
            raise config.error(
                ("predicates", name),
                f"'{name}' is computed by a network, but '{blank[0]}' has no features to see",
                f'kind = "{AUTO}", which samples it without a network, {_GRADIENT}',
            )
    predicates = {
        name: PredicateConfig("network")
        if how.kind == AUTO and declared[name].sorts and {*declared[name].sorts} <= seen | usual
        else how
        for name, how in config.predicates.items()
    }
    return replace(config, predicates=predicates)


# --- other data -------------------------------------------------------------------------------

#: The hint if a model cannot have weights that belong to its own data.
TRAVELS = (
    "these models work on other data: networks over features (embedding = 0 in [inputs.SORT]), "
    'and with one vector per entity for all times (time = "static")'
)


def obstacles(config: Config, world: World) -> tuple[str, ...]:
    """Return the reasons why a model cannot be applied to other data, in words."""
    if config.method == "posterior":
        return ()  # new worlds are sampled with what was learned
    reasons = [
        f"'{name}' has one logit for each fact of its own data"
        for name, how in config.predicates.items()
        if how.kind == "logits"
    ]
    for sort, seen in config.inputs.items():
        if not seen.embedding:
            continue
        if seen.time != "static":
            each = "at each time point"
        elif sort in world.facts.local:
            each = "in each trace"
        else:
            continue
        reasons.append(
            f"networks see a separate vector for each '{sort}' {each} "
            f"(inputs.{sort}.embedding = {seen.embedding})"
        )
    return tuple(reasons)
