"""The model that a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fotltn.cli.output import warn
from fotltn.errors import DataError, Diagnostic, warning

if TYPE_CHECKING:
    from fotltn.cli.display import Display
    from fotltn.posterior.run import SamplingProgress
    from fotltn.project.blocked import BlockedModel
    from fotltn.project.model import Model


def asked_model(
    path: Path, data: Sequence[Path] | None, horizon: int | None = None, *, evidence: bool = False
) -> Model:
    """Load the model of a command, over new data or times if asked; print warnings about these."""
    from fotltn.project.find import find_model

    if evidence and not data:
        raise DataError("--evidence needs --data: a model has seen its own labels")
    if not data and not horizon:
        model = find_model(path)
        if model.config.data.prepared is not None:
            warn([_first_block(model)])
        if model.posterior is not None:
            warn(map(warning, model.posterior.warnings))
        return model
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
    warn(model.facts.warnings)  # with those about its sampled worlds
    return model


def asked_blocks(path: Path, data: Sequence[Path] | None) -> BlockedModel | None:
    """Return the model over all blocks of prepared data, if the command is about prepared data."""
    from fotltn.project.blocked import is_prepared, model_on_disk, model_over_blocks
    from fotltn.project.config import read_config
    from fotltn.project.find import find_model, is_project

    if data:
        if not any(is_prepared(one) for one in data):
            return None
        if len(data) > 1:
            raise DataError("prepared data come alone: --data must be their one folder")
        return model_over_blocks(find_model(path), data[0])
    if not is_project(path):
        return None
    config = read_config(path)
    return None if config.data.prepared is None else model_on_disk(find_model(path), config)


def refuse_evidence(evidence: bool) -> None:
    """Raise an error for labels as evidence if there are no worlds to sample."""
    if evidence:
        raise DataError("--evidence is for sampled worlds, and prepared data have none")


def _first_block(model: Model) -> Diagnostic:
    traces = len(model.facts.traces)
    return warning(
        "the data were prepared in blocks, and this answer is about the first "
        f"block only, of {traces} "
        f"{'trace' if traces == 1 else 'traces'}",
        hint="score, audit, rules and predict read all blocks: name the project, or "
        "its prepared data with --data",
    )
