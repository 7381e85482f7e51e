"""PyTorch modules and Python functions that are passed to a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fotltn.errors import DataError, MissingModuleError, shown
from fotltn.project.config import IN_PYTHON, Config
from fotltn.project.world import PythonPredicate


def made_modules(modules: Mapping[Any, Any]) -> dict[str, PythonPredicate]:
    """Return modules under one name each: the first, if predicates share one; classes are called.

    Raises:
        DataError: a class needs arguments, or a value is not a module.
    """
    made: dict[str, PythonPredicate] = {}
    for names, one in modules.items():
        name = names if isinstance(names, str) else names[0]
        if isinstance(one, type):
            try:
                one = one()
            except TypeError as error:
                raise DataError(
                    f"modules: {one.__name__}, for '{name}', cannot be called without arguments "
                    f"({error}); pass an instance: {one.__name__}(…)"
                ) from None
        if not callable(one):
            raise DataError(f"modules: expected a module for '{name}', not {shown(one)}")
        made[name] = one
    return made


def check_modules(config: Config, modules: Mapping[str, PythonPredicate]) -> None:
    """Check that all modules and functions that the project needs were passed.

    Raises:
        MissingModuleError: one is missing.
    """
    needed = {
        name if how.kind != "shared" else how.heads[0]: (
            how.constructor,
            " and ".join(f"'{head}'" for head in (how.heads if how.kind == "shared" else (name,))),
        )
        for name, how in {**config.predicates, **config.functions}.items()
        if how.kind in IN_PYTHON
    }
    for sort, seen in config.inputs.items():
        if seen.encoder is not None and seen.encoder.kind == "module":
            needed[sort] = (seen.encoder.constructor, f"the encoder of the sort '{sort}'")
    for name, (constructor, what) in needed.items():
        if name not in modules:
            verb = "are" if " and " in what else "is"
            raise MissingModuleError(
                f"{what} {verb} computed by the Python object '{constructor}', which files do not "
                "contain",
                hint=f'pass it: modules={{"{name}": {constructor}}}',
            )
