"""What a project's TOML file says, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from fotltn.errors import DataError, Diagnostic, Severity, Source, did_you_mean, listing
from fotltn.files import ROOT, inside
from fotltn.learn.batches import Batches
from fotltn.learn.identity import leaves
from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, AxiomLoss, FactLoss, Objective
from fotltn.learn.schedule import Schedule, schedule
from fotltn.learn.store import MANIFEST
from fotltn.learn.task import OPTIMISERS, Training
from fotltn.networks.predicates import ACTIVATIONS
from fotltn.project.data import DataConfig as DataConfig
from fotltn.project.data import SplitConfig as SplitConfig
from fotltn.project.data import WideConfig as WideConfig
from fotltn.project.data import data_of
from fotltn.project.toml import Table, place_of, places_of, read_toml
from fotltn.semantics.config import SEMANTICS

#: The file that makes a folder a project.
FILE = "project.toml"

M = TypeVar("M")

_NUMBERS = re.compile(r"\.[0-9]+(?=\.|$)")  # of entries of a list, in names

#: Objectives by name.
PRESETS = {"paper": PAPER, "recipe": RECIPE, "facts-only": FACTS_ONLY}

#: The settings that change no weight; all others must stay for an interrupted training to go on.
#: They name places, where what lies there is compared itself, or one of several alike devices.
WITHOUT_EFFECT = frozenset({
    "theory", "model", "device", "roots",
    "data.folder", "data.facts", "data.test", "data.wide.file", "data.split.file",
})  # fmt: skip

#: How predicates are computed, as a file says it. In Python there are modules and functions, too.
KINDS = ("facts", "network", "logits", "formula")


@dataclass(frozen=True, slots=True)
class InputConfig:
    """What networks see of the entities of a sort."""

    embedding: int = 32
    time: str = "free"
    scale: float = 0.01
    reach: float = 3.0
    features: bool = True
    learnable: tuple[str, ...] = ()
    changes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PredicateConfig:
    """How a predicate is computed."""

    kind: str
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "elu"
    scale: float = 0.01
    reach: float = 0.0
    variables: tuple[str, ...] = ()
    formula: str = ""
    semantics: str | None = None


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Predicates that exclude each other."""

    predicates: tuple[str, ...]
    other: bool = False
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "elu"


@dataclass(frozen=True, slots=True)
class Config:
    """A whole project; two are equal if they say the same, wherever they are.

    Its paths are seen from `folder`. If it was read from a file, they stay in `roots`.
    """

    folder: Path = field(compare=False)
    theory: str
    semantics: str
    p: float | None
    data: DataConfig
    inputs: Mapping[str, InputConfig]
    predicates: Mapping[str, PredicateConfig]
    groups: tuple[GroupConfig, ...]
    objective: Objective
    axiom_p: Mapping[str, Schedule]
    training: Training
    compile: bool = False
    device: str = "cpu"
    dtype: str = "float32"
    model: str = "model"
    source: Source = field(default=Source(FILE, ""), repr=False, compare=False)
    roots: tuple[Path, ...] = field(default=(), repr=False, compare=False)

    def theory_path(self) -> Path:
        """The theory file.

        Raises:
            DataError: the project's file names one that is outside its folder.
        """
        return self._within(self.theory, ("theory", "file"), "the theory")

    def model_path(self) -> Path:
        """The folder of the model.

        Raises:
            DataError: the project's file names one that is outside its folder.
        """
        return self._within(self.model, ("output", "model"), "the model")

    def _within(self, name: str, key: tuple[str, ...], what: str) -> Path:
        path = self.folder / name
        if self.roots and not inside(path, *self.roots):
            raise self.error(
                key,
                f"{what} is outside the project: {path}",
                f"to allow it, set {ROOT} in the environment to a folder that it is in",
            )
        return path

    def table(self, name: str) -> Path:
        """The path of a table of the data, seen from their folder."""
        return self.folder / (self.data.folder or "") / name

    def strays(self) -> tuple[Diagnostic, ...]:
        """A warning for each table that the project's file names outside its folder."""
        data = self.data
        split = [] if data.split is None else [data.split.file]
        names = dict.fromkeys([*data.facts, *data.test, *(w.file for w in data.wide), *split])
        places = places_of(self.source)
        span = place_of(places, ("data", "folder")) or place_of(places, ("data",))
        return tuple(
            Diagnostic(
                f"the project reads a table outside its folder: {path}",
                span, severity=Severity.WARNING,
            )
            for path in map(self.table, names)
            if self.roots and not inside(path, *self.roots)
        )  # fmt: skip

    def error(self, path: tuple[str, ...], message: str, hint: str | None = None) -> DataError:
        """An error about a key, which points at it where the project is a file, or names it."""
        span = place_of(places_of(self.source), path)
        named = message if self.source.text else f"{'.'.join(path)}: {message}"
        return DataError(Diagnostic(named, span, hint))


def lasting(config: Config) -> dict[str, Any]:
    """All settings that may change a weight, by name."""
    return {
        name: value
        for name, value in leaves(config).items()
        if _NUMBERS.sub("", name) not in WITHOUT_EFFECT
    }


def read_config(project: Path, *, data: Path | None = None) -> Config:
    """Read a project: its folder, or its TOML file.

    Args:
        project: the folder or the file.
        data: a folder with the tables, in place of that which the project names.

    Raises:
        DataError: with the line of what is missing, unknown or wrong.
    """
    try:
        if (project / MANIFEST).exists():
            raise DataError(
                f"'{project}' is a model, not a project; a project is a folder with a '{FILE}' of "
                "its own"
            )
        file = project / FILE if project.is_dir() else project
        found = file.exists()
    except OSError as error:
        raise DataError(f"cannot read '{project}': {error.strerror}") from None
    if not found:
        raise DataError(
            f"there is no project at '{project}': no file '{FILE}'; `fotltn new FOLDER` makes one"
        )
    config = replace(config_of(read_toml(file), file.parent), roots=(file.parent,))
    if data is None:
        return config
    if not data.is_dir():
        raise DataError(f"there is no folder '{data}' with tables of data")
    tables = replace(config.data, folder=str(data.absolute()))
    return replace(config, data=tables, roots=(*config.roots, data))


def config_of(root: Table, folder: Path) -> Config:
    """What settings say, of a file or of Python; their paths are seen from a folder."""
    theory = root.table("theory")
    output = root.table("output")
    inputs = root.table("inputs")
    objective, axiom_p = _objective(root.table("objective"))
    fused, device, dtype = _machine(root.table("machine"))
    found = Config(
        folder=folder,
        theory=theory.text("file"),
        semantics=theory.choice("semantics", SEMANTICS, "stable-product"),
        p=theory.number("p", 1, low=1, infinite=True) if theory.has("p") else None,
        data=data_of(root.table("data")),
        inputs={name: _input(inputs.table(name)) for name in inputs.values},
        predicates=_predicates(root.table("predicates")),
        groups=tuple(_group(t) for t in root.tables("exclusive")),
        objective=objective,
        axiom_p=axiom_p,
        training=_training(root.table("training")),
        compile=fused,
        device=device,
        dtype=dtype,
        model=output.text("model", "model"),
        source=root.source,
    )
    theory.take("p")
    for table in (theory, output, root):
        table.finish()
    return found


def _input(table: Table) -> InputConfig:
    usual = InputConfig()
    found = InputConfig(
        table.whole("embedding", usual.embedding, high=2**20),
        table.choice("time", ("free", "static", "smooth"), usual.time),
        table.number("scale", usual.scale, low=0),
        table.number("reach", usual.reach, low=1e-3),
        table.flag("features", usual.features),
        table.texts("learnable"),
        table.wholes("changes", usual.changes),
    )
    table.finish()
    return found


def _predicates(table: Table) -> dict[str, PredicateConfig]:
    found = {}
    for name, value in table.values.items():
        if isinstance(value, str):
            # The kind alone stands for a table.
            inner = Table({"kind": value}, (*table.path, name), table.source, table.places)
        else:
            inner = table.table(name)
        found[name] = _predicate(inner)
    return found


def _predicate(table: Table) -> PredicateConfig:
    kind = table.choice("kind", KINDS, "formula" if table.has("formula") else "network")
    found = PredicateConfig(kind)
    match kind:
        case "network":
            found = replace(
                found,
                hidden=table.wholes("hidden", found.hidden),
                activation=table.choice("activation", ACTIVATIONS, found.activation),
            )
        case "logits":
            found = replace(
                found,
                scale=table.number("scale", found.scale, low=0),
                reach=table.number("reach", found.reach, low=0),
            )
        case "formula":
            if not table.has("formula"):
                hint = 'formula = "…", variables = ["x"]'
                raise table.error(None, "a definition needs its formula", hint)
            found = replace(
                found,
                variables=table.texts("variables"),
                formula=table.text("formula"),
                semantics=table.choice("semantics", SEMANTICS, "")
                if table.has("semantics")
                else None,
            )
            table.take("semantics")
    table.finish()
    return found


def _group(table: Table) -> GroupConfig:
    usual = GroupConfig(())
    found = GroupConfig(
        table.texts("predicates"),
        table.flag("other", usual.other),
        table.wholes("hidden", usual.hidden),
        table.choice("activation", ACTIVATIONS, usual.activation),
    )
    if len(found.predicates) < 2:
        raise table.error("predicates", "at least two predicates exclude each other")
    table.finish()
    return found


def _objective(table: Table) -> tuple[Objective, dict[str, Schedule]]:
    base = PRESETS[table.choice("preset", PRESETS, "paper")]
    parts: dict[str, Any] = {
        "facts": table.choice("facts", get_args(FactLoss), base.facts),
        "axioms": table.choice("axioms", get_args(AxiomLoss), base.axioms),
        "together": table.choice("together", ("mean-error", "sum"), base.together),
        "p": _schedule(table, "p", base.p, low=1),
        "weight": _schedule(table, "weight", base.weight),
        "flips": table.number("flips", base.flips, low=0, high=0.5),
        "learn_flips": table.flag("learn_flips", base.learn_flips),
        "missed": table.number("missed", 0.0, low=0, high=1)
        if table.has("missed")
        else base.missed,
        "invented": table.number("invented", 0.0, low=0, high=1)
        if table.has("invented")
        else base.invented,
        "prior": table.number("prior", base.prior, low=0),
        "trust": table.number("trust", 1.0, low=0) if table.has("trust") else base.trust,
        "axiom_weights": _schedules(table.table("axiom_weights")),
        "fact_weights": _schedules(table.table("fact_weights")),
        "fact_p": _schedules(table.table("fact_p"), low=1),
    }
    axiom_p = _schedules(table.table("axiom_p"), low=1)
    table.taken |= {"missed", "invented", "trust"}
    table.finish()
    return _made(table, Objective, parts), axiom_p


def _schedule(table: Table, key: str, default: Schedule | None, *, low: float = 0.0) -> Schedule:
    try:
        return schedule(table.take(key, default), key, low=low)
    except DataError as error:
        raise table.error(key, error.diagnostics[0].message) from None


def _schedules(table: Table, *, low: float = 0.0) -> dict[str, Schedule]:
    return {name: _schedule(table, name, None, low=low) for name in table.values}


def _made(table: Table, kind: Callable[..., M], parts: Mapping[str, Any]) -> M:
    """An object of parts that may not fit together; then the error is the table's."""
    try:
        return kind(**parts)
    except DataError as error:
        found = error.diagnostics[0]
        raise table.error(None, found.message, found.hint) from None


def _training(table: Table) -> Training:
    usual = Training()
    optimiser = table.text("optimiser", usual.optimiser)
    if optimiser.lower() not in OPTIMISERS:
        hint = did_you_mean(optimiser, OPTIMISERS) or f"there are {listing(OPTIMISERS, 20)}"
        raise table.error("optimiser", f"unknown optimiser '{optimiser}'", hint)
    parts: dict[str, Any] = {
        "epochs": table.whole("epochs", usual.epochs, low=1),
        "patience": table.whole("patience", usual.patience or 0) or None,
        "tolerance": table.number("tolerance", usual.tolerance, low=0),
        "rate": table.number("rate", usual.rate, low=0),
        "optimiser": optimiser,
        "options": dict(table.table("options").values),
        "validation": table.number("validation", usual.validation, low=0, high=1),
        "clip": table.number("clip", 0.0, low=0) if table.has("clip") else None,
        "seed": table.whole("seed", usual.seed),
        "batches": _batches(table.table("batches")) if table.has("batches") else None,
        "keep_best": table.flag("keep_best", usual.keep_best),
    }
    table.taken |= {"clip", "batches"}
    table.finish()
    return _made(table, Training, parts)


def _batches(table: Table) -> Batches:
    by, sort = table.choice("by", ("traces", "entities"), "traces"), table.text("sort", "") or None
    if by == "traces" and sort is not None:
        raise table.error("sort", "only parts by entities have a sort", 'by = "entities"')
    size = table.whole("size", 32, low=1)
    table.finish()
    return _made(table, Batches, {"by": by, "size": size, "sort": sort})


def _machine(table: Table) -> tuple[bool, str, str]:
    found = (
        table.flag("compile", False),
        table.text("device", "cpu"),
        table.choice("dtype", ("float32", "float64"), "float32"),
    )
    table.finish()
    return found
