"""Find the model or project at a path."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeGuard

from fotltn.analysis.truncation import End
from fotltn.analysis.view import View
from fotltn.arguments import AnyPath, public
from fotltn.errors import DataError, listing, shown
from fotltn.learn.store import MANIFEST, MissingFolderError
from fotltn.posterior.run import SamplingProgress
from fotltn.project.build import build
from fotltn.project.config import read_config, refuse_table
from fotltn.project.model import Model, load_model, model_of
from fotltn.project.toml import FILE
from fotltn.threads import entry

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit


def is_project(path: Path) -> bool:
    """Return whether a path is a project: a TOML file, or a folder with one that is no model."""
    if path.suffix == ".toml":
        return True
    return os.path.exists(path / FILE) and not os.path.exists(path / MANIFEST)


def is_model(path: Path) -> bool:
    """Return whether a path is the folder of a model."""
    return os.path.exists(path / MANIFEST)


#: A model in any form that functions take.
AnyModel = Annotated[Model | AnyPath, "a model, or the path of its folder or project"]


def is_kept(model: object) -> TypeGuard[AnyModel]:
    """Return whether a value is a model, or the path of a model or of a project."""
    if isinstance(model, Model):
        return True
    if not isinstance(model, str | os.PathLike) or "\n" in str(model):
        return False
    path = Path(model)
    return is_model(path) or is_project(path)


def model_at(model: AnyModel) -> Model:
    """Return a model, also from the path of its folder or of its project.

    Raises:
        DataError: there is no model, it cannot be read, or it is no model and no path.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str | os.PathLike):
        return find_model(Path(model))
    raise DataError(f"expected a model, or the path of its folder or project, not {shown(model)}")


def find_model(
    path: Path,
    data: Sequence[Path] | None = None,
    horizon: int | None = None,
    *,
    evidence: bool = False,
    on_sweep: Callable[[SamplingProgress], None] | None = None,
) -> Model:
    """Load the model of a folder or of a project, and apply it to new data if there are any.

    Args:
        path: the folder of a model or project, or the file of a project.
        data: a folder with the tables that the project names, or files.
        horizon: the number of time points of every trace of the new data; for a project without new
            data, of its own data.
        evidence: whether labels among the new facts are evidence, as in `Model.apply`.
        on_sweep: a function to call after every sweep, as in `Model.apply`.

    Raises:
        DataError: there is no model, it cannot be read, or the data do not fit.
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
        raise DataError("--horizon needs --data: the lengths of a model's own traces are fixed")
    if not is_project(path):
        refuse_table(path)
        return load_model(path)
    config = read_config(path)
    folder = config.model_path()
    try:
        return load_model(folder)
    except MissingFolderError:
        raise DataError(
            f"the project '{path}' has no model yet: there is no '{folder}'",
            hint=f"fotltn train {path}",
        ) from None


@entry
@public
def load_project(
    project: AnyPath, *, data: AnyPath | None = None, theory: AnyPath | None = None
) -> View:
    r"""Load the theory of a project over its facts, including the facts kept for testing.

    Use it to count rules without training. Given facts that are not stated are false. Facts of
    learned predicates that have no label are unknown: counts leave out what depends on them.

    Args:
        project: the project's folder or file.
        data: a folder to read tables from, instead of the project's.
        theory: a file with rules, instead of the project's theory.

    Raises:
        FotError: the project or its data are wrong.

    >>> import pathlib, fotltn as fot
    >>> folder = pathlib.Path("cars")
    >>> folder.mkdir()
    >>> theory = fot.parse("sort car\npredicate Stop(car)\naxiom A: forall x. F Stop(x)")
    >>> fot.save(theory, folder / "cars.fot")
    >>> _ = (folder / "facts.csv").write_text("predicate,arg1,time\nStop,ego,2\n")
    >>> settings = 'theory.file = "cars.fot"\ndata.facts = ["facts.csv"]'
    >>> _ = (folder / "project.toml").write_text(settings)
    >>> project = fot.load_project(folder)
    >>> project.tables.names.entities, [axiom.name for axiom in project.theory.axioms]
    ({'car': ('ego',)}, ['A'])
    """
    folder = None if data is None else Path(data)
    config = replace(read_config(Path(project), data=folder), dtype="float64")
    if theory is not None:
        file = Path(theory)
        config = replace(config, theory=str(file.absolute()), roots=(file.parent, *config.roots))
    if config.functions:
        raise DataError(
            f"rules can be counted only on data, but the project learns the function "
            f"{listing(config.functions)}",
            hint=f"count them on the model's predictions: fotltn rules {config.model_path()}",
        )
    model = model_of(build(config))
    return replace(model.view(model.truth), learned=(), parts=model.world.parts)


def audit_labels(
    project: Path,
    *,
    data: Path | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Audit:
    """Audit a project before training, by evaluating its axioms on the facts.

    Given facts that are not stated are false; facts of learned predicates that have no label are
    not held against an axiom. Values on the model equal values on the labels.

    Args:
        project: the project's folder or file.
        data: a folder to read tables from, instead of the project's.
        threshold: the smallest degree that counts as true in two-valued logic.
        end: how to treat cells that fail only because their trace ends; by default, as the project
            says.

    Raises:
        FotError: the project or its data are wrong.
    """
    model = model_of(build(read_config(project, data=data)))
    truth = model.truth
    view = model.view(truth).under(threshold=threshold, end=end)
    return view.audit(truth)
