"""Presets: where the settings of a project start; each other setting changes one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, STANDARD, Objective
from fotltn.learn.task import Training
from fotltn.project.toml import Settings

#: How a project learns: networks by gradients, or worlds that obey the axioms by sampling. "auto"
#: is replaced by one of the two when the project is built.
Method = Literal["gradient", "posterior", "auto"]


@dataclass(frozen=True, slots=True)
class Preset:
    """The method, the objective and the training of a project that states none of them."""

    method: Method
    objective: Objective
    training: Training


#: The preset of a project that names none, in Python and in files.
DEFAULT = "standard"

#: The preset of files that versions before 0.3.0 wrote or read, if they name none.
BEFORE = "paper"

#: Presets by name.
PRESETS = {
    DEFAULT: Preset("auto", STANDARD, Training(epochs=300, rate=0.01, validation=0.1)),
    "paper": Preset("gradient", PAPER, Training()),
    "facts-only": Preset("gradient", FACTS_ONLY, Training()),
    "recipe": Preset("gradient", RECIPE, Training()),
}


def named_preset(root: Settings) -> str | None:
    """Return the name of the preset; before version 0.3.0 it was a key of `[objective]`.

    Raises:
        DataError: there is no such preset, or two are named.
    """
    inner = root.table("objective")
    for table in (root, inner):
        if table.take("preset") is not None:
            table.value("preset", str, None, PRESETS)
    outer: str | None = root.take("preset")
    before: str | None = inner.take("preset")
    if outer is not None and before is not None and outer != before:
        hint = "leave it out here: the preset above all sections is for all of them"
        raise inner.error("preset", f"the project has two presets, '{outer}' and '{before}'", hint)
    return outer or before
