"""The model that a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fotltn.cli.output import warn
from fotltn.errors import DataError

if TYPE_CHECKING:
    from fotltn.cli.display import Display
    from fotltn.posterior.run import SamplingProgress
    from fotltn.project.model import Model


def asked_model(
    path: Path, data: Sequence[Path] | None, horizon: int | None = None, *, evidence: bool = False
) -> Model:
    """The model of a command, over new data or times if asked; what is odd in these is said."""
    from fotltn.project.find import find_model

    if evidence and not data:
        raise DataError("--evidence needs --data: a model has seen its own labels")
    if not data and not horizon:
        return find_model(path)
    display: Display | None = None

    def show(progress: SamplingProgress) -> None:
        nonlocal display
        if display is None:
            from fotltn.cli.display import Display

            display = Display(progress.of, patient=True)
            display.go_live()
        display.sweep(progress)

    try:
        model = find_model(path, data, horizon, evidence=evidence, on_sweep=show)
    finally:
        if display is not None:
            display.end(None)
    warn(model.facts.warnings)
    return model
