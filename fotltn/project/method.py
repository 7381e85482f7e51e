"""What a method can do: gradients train networks; a posterior samples worlds, with or without."""

from __future__ import annotations

from dataclasses import replace

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
    if config.method == "gradient":
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


def with_sensors(config: Config, world: World) -> Config:
    """The settings, in which predicates of sampled worlds whose kind is open see features.

    Those do so of whose arguments all have some: features, or neighbours that are counted.

    Raises:
        DataError: a network is to see entities that have none.
    """
    if config.method == "gradient":
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
