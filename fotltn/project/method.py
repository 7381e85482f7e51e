"""What a method can do: gradients train networks; a posterior samples worlds, and has none."""

from __future__ import annotations

from fotltn.project.config import AUTO, Config

#: The kinds of predicates that are sampled, as a logit for each fact would be learned.
SAMPLED = (AUTO, "logits", "formula")

#: Those that both methods take from the data.
_FROM_DATA = ("facts", "function")

_GRADIENT = 'or method = "gradient"'


def check_method(config: Config) -> None:
    """Refuse settings that ask a posterior for networks.

    Raises:
        DataError: with what would work.
    """
    if config.method == "gradient":
        return
    for name, how in config.predicates.items():
        if how.kind not in (*SAMPLED, *_FROM_DATA):
            by = "a network" if how.kind == "network" else "a module"
            raise config.error(
                ("predicates", name),
                f"'{name}' is computed by {by}, and a posterior samples worlds without networks",
                f'kind = "{AUTO}", which samples it, {_GRADIENT}',
            )
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
    for sort in config.inputs:
        raise config.error(
            ("inputs", sort),
            f"a posterior has no networks that could see '{sort}'",
            f"leave out [inputs.{sort}], {_GRADIENT}",
        )
    for number, wide in enumerate(config.data.wide, 1):
        if wide.features:
            raise config.error(
                ("data", f"wide[{number}]", "features"),
                f"a posterior has no networks that could see the features of '{wide.file}'",
                "leave them out, or read predicates off these columns, with "
                f"[data.wide.measures]; {_GRADIENT}",
            )
