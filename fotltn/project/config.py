"""What a project's TOML file says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from fotltn.errors import DataError
from fotltn.grounding.merge import Conflict
from fotltn.learn.batches import Batches
from fotltn.learn.objective import FACTS_ONLY, PAPER, AxiomLoss, FactLoss, Objective
from fotltn.learn.schedule import Schedule, schedule, schedules
from fotltn.learn.task import Training
from fotltn.networks.predicates import ACTIVATIONS
from fotltn.project.toml import Table, read_toml
from fotltn.semantics.config import SEMANTICS

#: The file that makes a folder a project.
FILE = "project.toml"

KINDS = ("facts", "network", "logits", "formula")


@dataclass(frozen=True, slots=True)
class WideConfig:
    """A wide table, as of `fotltn.grounding.wide.Wide`."""

    file: str
    sort: str
    entity: str
    time: str | None
    trace: str | None
    predicates: Mapping[str, str]
    arguments: Mapping[str, tuple[str, ...]]
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    presence: str | None


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where facts are, and which of them are for learning and which for testing."""

    facts: tuple[str, ...] = ()
    wide: tuple[WideConfig, ...] = ()
    test: tuple[str, ...] = ()
    horizon: int | None = None
    local: tuple[str, ...] = ()
    on_conflict: Conflict = "error"
    train: float = 1.0
    by: str = "facts"
    sort: str | None = None
    flip: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class InputConfig:
    """What networks see of the entities of a sort."""

    embedding: int = 32
    time: str = "free"
    scale: float = 0.01
    reach: float = 3.0
    features: bool = True
    learnable: tuple[str, ...] = ()


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
    """A whole project."""

    folder: Path
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
    text: str = field(default="", repr=False)

    def path(self, name: str) -> Path:
        """A path of the file, seen from the project's folder."""
        return self.folder / name


def read_config(project: Path) -> Config:
    """Read a project: its folder, or its TOML file.

    Raises:
        DataError: with the line of what is missing, unknown or wrong.
    """
    file = project / FILE if project.is_dir() else project
    if not file.exists():
        raise DataError(
            f"there is no project at '{project}': no file '{FILE}'; `fotltn new FOLDER` makes one"
        )
    return config_of(read_toml(file), file.parent)


def config_of(root: Table, folder: Path) -> Config:
    """What the tables of a project say; its paths are seen from a folder."""
    theory = root.table("theory")
    output = root.table("output")
    objective, axiom_p = _objective(root.table("objective"))
    fused, device, dtype = _machine(root.table("machine"))
    found = Config(
        folder=folder,
        theory=theory.text("file"),
        semantics=theory.choice("semantics", SEMANTICS, "stable-product"),
        p=theory.number("p", None, low=1),
        data=_data(root.table("data")),
        inputs={n: _input(root.table("inputs").table(n)) for n in root.table("inputs").values},
        predicates=_predicates(root.table("predicates")),
        groups=tuple(_group(t) for t in root.tables("exclusive")),
        objective=objective,
        axiom_p=axiom_p,
        training=_training(root.table("training")),
        compile=fused,
        device=device,
        dtype=dtype,
        model=output.text("model", "model"),
        text=root.source.text,
    )
    for table in (theory, output, root):
        table.finish()
    return found


def _data(table: Table) -> DataConfig:
    found = DataConfig(
        table.texts("facts"),
        tuple(_wide(t) for t in table.tables("wide")),
        table.texts("test"),
        table.whole("horizon", None, low=1),
        table.texts("local"),
        table.choice("on_conflict", get_args(Conflict), "error"),  # type: ignore[arg-type]
        _share(table, "train", 1.0),
        table.choice("by", ("facts", "entities", "traces"), "facts"),
        table.text("sort", "") or None,
        _share(table, "flip", 0.0),
        table.whole("seed", 0) or 0,
    )
    if found.test and found.train != 1.0:
        raise table.error(
            "train", "test facts are in files of their own, so that all others are for training"
        )
    table.finish()
    return found


def _share(table: Table, key: str, default: float) -> float:
    found = table.number(key, default, low=0, high=1)
    assert found is not None
    return float(found)


def _wide(table: Table) -> WideConfig:
    found = WideConfig(
        table.text("file"),
        table.text("sort"),
        table.text("entity"),
        table.text("time", "") or None,
        table.text("trace", "") or None,
        _words(table, "predicates"),
        {k: _names(table, "arguments", v) for k, v in table.take("arguments", {}).items()},
        table.texts("features"),
        {k: _names(table, "categories", v) for k, v in table.take("categories", {}).items()},
        table.text("presence", "") or None,
    )
    table.finish()
    return found


def _words(table: Table, key: str) -> dict[str, str]:
    """Columns by predicate: a list stands for columns with the names of predicates."""
    value = table.take(key, {})
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {v: v for v in value}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise table.error(key, 'expected a list of columns, or column = "Predicate"')
    return value


def _names(table: Table, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise table.error(key, f"expected lists of texts, not {value!r}")
    return tuple(value)


def _input(table: Table) -> InputConfig:
    found = InputConfig(
        table.whole("embedding", 32) or 0,
        table.choice("time", ("free", "static", "smooth"), "free"),
        float(table.number("scale", 0.01, low=0) or 0.0),
        float(table.number("reach", 3.0, low=1e-3) or 3.0),
        table.flag("features", True),
        table.texts("learnable"),
    )
    table.finish()
    return found


def _predicates(table: Table) -> dict[str, PredicateConfig]:
    found = {}
    for name, value in table.values.items():
        table.taken.add(name)
        if isinstance(value, str):
            path, places = (*table.path, name), dict(table.places)
            if path in places:
                places[*path, "kind"] = places[path]
            inner = Table({"kind": value}, path, table.source, places)
        else:
            inner = table.table(name)
        found[name] = _predicate(inner)
    return found


def _predicate(table: Table) -> PredicateConfig:
    kind = table.choice("kind", KINDS, "formula" if table.has("formula") else "network")
    found = PredicateConfig(
        kind,
        table.wholes("hidden", (16, 16)),
        table.choice("activation", ACTIVATIONS, "elu"),
        float(table.number("scale", 0.01, low=0) or 0.0),
        float(table.number("reach", 0.0, low=0) or 0.0),
        table.texts("variables"),
        table.text("formula", ""),
        table.choice("semantics", SEMANTICS, "stable-product") if table.has("semantics") else None,
    )
    if kind == "formula" and not found.formula:
        raise table.error(
            None, "a definition needs its formula", 'formula = "…", variables = ["x"]'
        )
    if kind != "formula" and found.formula:
        raise table.error("formula", f"a predicate of the kind '{kind}' has no formula")
    table.finish()
    return found


def _group(table: Table) -> GroupConfig:
    found = GroupConfig(
        table.texts("predicates"),
        table.flag("other", False),
        table.wholes("hidden", (16, 16)),
        table.choice("activation", ACTIVATIONS, "elu"),
    )
    if len(found.predicates) < 2:
        raise table.error("predicates", "at least two predicates exclude each other")
    table.finish()
    return found


def _objective(table: Table) -> tuple[Objective, dict[str, Schedule]]:
    preset = table.choice("preset", ("paper", "facts-only"), "paper")
    base = PAPER if preset == "paper" else FACTS_ONLY
    try:
        found = Objective(
            table.choice("facts", get_args(FactLoss), base.facts),  # type: ignore[arg-type]
            table.choice("axioms", get_args(AxiomLoss), base.axioms),  # type: ignore[arg-type]
            table.choice("together", ("mean-error", "sum"), base.together),  # type: ignore[arg-type]
            schedule(table.take("p", base.p), "p", low=1),
            schedule(table.take("weight", base.weight), "weight"),
            float(table.number("flips", base.flips, low=0, high=0.5) or 0.0),
            table.flag("learn_flips", base.learn_flips),
            schedules(table.table("axiom_weights").values, "axiom_weights"),
            schedules(table.table("fact_weights").values, "fact_weights"),
            schedules(table.table("fact_p").values, "fact_p", low=1),
        )
        axiom_p = schedules(table.table("axiom_p").values, "axiom_p", low=1)
    except DataError as error:
        if error.diagnostics[0].span is not None:
            raise
        raise table.error(None, error.diagnostics[0].message) from None
    table.finish()
    return found, axiom_p


def _training(table: Table) -> Training:
    batches = None
    if table.has("batches"):
        inner = table.table("batches")
        batches = Batches(
            inner.choice("by", ("traces", "entities"), "traces"),  # type: ignore[arg-type]
            inner.whole("size", 32, low=1) or 32,
            inner.text("sort", "") or None,
        )
        inner.finish()
    usual = Training()
    patience = table.whole("patience", usual.patience)
    try:
        found = Training(
            table.whole("epochs", usual.epochs, low=1) or 1,
            patience or None,
            float(table.number("tolerance", usual.tolerance, low=0) or 0.0),
            float(table.number("rate", usual.rate, low=0) or 0.0),
            table.text("optimiser", usual.optimiser),
            dict(table.table("options").values),
            _share(table, "validation", usual.validation),
            table.number("clip", None, low=0),
            table.whole("seed", usual.seed) or 0,
            batches,
            table.flag("keep_best", usual.keep_best),
        )
    except DataError as error:
        if error.diagnostics[0].span is not None:
            raise
        raise table.error(None, error.diagnostics[0].message) from None
    table.finish()
    return found


def _machine(table: Table) -> tuple[bool, str, str]:
    found = (
        table.flag("compile", False),
        table.text("device", "cpu"),
        table.choice("dtype", ("float32", "float64"), "float32"),
    )
    table.finish()
    return found
