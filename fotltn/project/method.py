"""What a method can do: gradients train networks; a posterior samples worlds, with or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fotltn.errors import listing
from fotltn.logic.defined import symbols
from fotltn.project.config import AUTO, Config, PredicateConfig
from fotltn.project.world import World

#: The kinds of predicates that are sampled, as a logit for each fact would be learned.
SAMPLED = (AUTO, "logits", "formula")

_GRADIENT = 'or method = "gradient"'


def check_method(config: Config) -> None:
    """Refuse settings that ask a posterior for what sampled worlds do not have.

    Raises:
        DataError: with what would work.
    """
    if config.method != "posterior":
        return
    if config.groups:
        names = config.groups[0].predicates
        atoms = ", ".join(names)
        raise config.error(
            ("exclusive[1]",),
            f"a posterior has no network that chooses one of {atoms}",
            f"say in hard axioms that they exclude each other, as "
            f"hard axiom Apart: forall x. G !({names[0]}(x) & {names[1]}(x)); {_GRADIENT}",
        )
    for name in config.functions:
        raise config.error(
            ("functions", name),
            f"the function '{name}' is learned, and a posterior samples truth values alone",
            f"give its values as data, {_GRADIENT}",
        )
    for sort, seen in config.inputs.items():
        for key, asked in (("embedding", seen.embedding), ("learnable", seen.learnable)):
            if asked:
                raise config.error(
                    ("inputs", sort, key),
                    f"of each '{sort}', networks of a posterior see features, and nothing that is "
                    "learned of one entity alone: that is what worlds are for",
                    f"leave out {key}, {_GRADIENT}",
                )


def with_method(config: Config, world: World) -> tuple[Config, str]:
    """The settings with a method, and why it is that; no reason where the settings name it.

    What is measured on all worlds that there are (docs/posterior.md) says: sampled worlds predict
    better where hard axioms speak of what is learned, with features or without.
    """
    if config.method != "auto":
        return config, ""
    obstacle = next(_obstacles(config, world), "")
    learned = {n for n, how in config.predicates.items() if how.kind != "facts"}
    hard = [a.name for a in world.theory.axioms if a.hard and learned & {*symbols(a.formula)}]
    told = (config.objective.missed, config.objective.invented)
    rates = [r for by in told for r in (by.values() if isinstance(by, Mapping) else [by])]
    if "learned" in rates:
        return replace(config, method="posterior"), "since rates of wrong labels are learned"
    if obstacle:
        return replace(config, method="gradient"), f"since {obstacle}"
    if config.objective.axioms == "none":
        return replace(config, method="gradient"), "since axioms are left out"
    if not hard:
        return replace(config, method="gradient"), "since no hard axiom says what is learned"
    return replace(config, method="posterior"), f"since hard axioms say much: {listing(hard, 4)}"


def _obstacles(config: Config, world: World) -> Iterator[str]:
    """What sampled worlds do not have."""
    for group in config.groups:
        yield f"a network chooses one of {listing(group.predicates)}"
    for name in config.functions:
        yield f"the function '{name}' is learned"
    for sort, seen in config.inputs.items():
        if seen.embedding or seen.learnable:
            yield f"networks see what is learned of each '{sort}'"
    declared = world.theory.signature.predicates
    for name, how in config.predicates.items():
        blank = [s for s in declared[name].sorts if s not in world.fixed.inputs]
        blank = [s for s in blank if s not in config.inputs or not config.inputs[s].neighbours]
        if how.kind == "network" and blank:
            yield f"the network of '{name}' sees no features of '{blank[0]}'"


def with_sensors(config: Config, world: World) -> Config:
    """The settings, in which predicates of sampled worlds whose kind is open see features.

    Those do so of whose arguments all have some: features, or neighbours that are counted.

    Raises:
        DataError: a network is to see entities that have none.
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
                f'kind = "{AUTO}", which samples it without, {_GRADIENT}',
            )
    predicates = {
        name: PredicateConfig("network")
        if how.kind == AUTO and declared[name].sorts and {*declared[name].sorts} <= seen | usual
        else how
        for name, how in config.predicates.items()
    }
    return replace(config, predicates=predicates)
