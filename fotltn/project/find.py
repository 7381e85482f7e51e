"""From a path to what is there: a model, or a project and its model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fotltn.analysis.audit import audit
from fotltn.analysis.audit_data import Audit
from fotltn.analysis.truncation import End
from fotltn.errors import DataError, Diagnostic
from fotltn.learn.store import MANIFEST, MissingFolderError
from fotltn.posterior.run import SamplingProgress
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.model import Model, load_model, model_of
from fotltn.project.toml import FILE


def is_project(path: Path) -> bool:
    """Whether there is a project: a folder with its file, which is no model, or that file."""
    if path.suffix == ".toml":
        return True
    return os.path.exists(path / FILE) and not os.path.exists(path / MANIFEST)


def is_model(path: Path) -> bool:
    """Whether there is the folder of a model."""
    return os.path.exists(path / MANIFEST)


def find_model(
    path: Path,
    data: Sequence[Path] | None = None,
    horizon: int | None = None,
    *,
    evidence: bool = False,
    on_sweep: Callable[[SamplingProgress], None] | None = None,
) -> Model:
    """The model of a folder, or the model of a project; over new data, if there are some.

    Args:
        path: the folder of either, or the file of a project.
        data: a folder with the tables that the project names, or files.
        horizon: the number of time points of every trace of the new data; of a project, without
            new data, of its own.
        evidence: as of `Model.apply`.
        on_sweep: likewise.

    Raises:
        DataError: there is none, it cannot be read, or the data do not fit.
    """
    if data:
        return find_model(path).apply(
            data[0] if len(data) == 1 else data, horizon=horizon, evidence=evidence,
            on_sweep=on_sweep,
        )  # fmt: skip
    if horizon is not None and is_project(path):
        model, config = find_model(path), read_config(path)
        names = [*model.config.data.facts, *(wide.file for wide in model.config.data.wide)]
        tables = {name: config.table(name) for name in names}
        return model.apply(tables, horizon=horizon, evidence=evidence, on_sweep=on_sweep)
    if horizon is not None:
        raise DataError("--horizon needs --data: a model's own traces have their lengths")
    if not is_project(path):
        return load_model(path)
    config = read_config(path)
    folder = config.model_path()
    try:
        return load_model(folder)
    except MissingFolderError:
        raise DataError(
            Diagnostic(
                f"the project '{path}' has no model yet: there is no '{folder}'",
                hint=f"fotltn train {path}",
            )
        ) from None


def audit_labels(
    project: Path,
    *,
    data: Path | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Audit:
    """The audit of a project before training: its axioms on the facts themselves.

    What no fact states is false. Values on the model are those on the labels.

    Args:
        project: its folder, or its file.
        data: a folder with its tables, in place of its own.
        threshold: the degree from which on a fact is true in two-valued logic.
        end: what the ends of traces leave; without, as the project says.

    Raises:
        FotError: something of the project is wrong.
    """
    model = model_of(build(read_config(project, data=data)))
    truth = model.truth
    unknown = [n for n in model.grounding.learned if n not in model.world.stated.index]
    return audit(
        model.theory, truth, model.semantics, learned=model.grounding.open, labels=truth,
        unknown=unknown, threshold=threshold, end=end or model.config.end,
    )  # fmt: skip
