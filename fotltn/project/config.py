"""What a project's TOML file says, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from fotltn.analysis.truncation import End
from fotltn.errors import DataError, Diagnostic, Severity, SourceText, did_you_mean, listing, shown
from fotltn.files import ROOT, inside
from fotltn.learn.identity import leaves
from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, Objective, Rate, Rates
from fotltn.learn.optimisers import OPTIMISERS
from fotltn.learn.schedule import Schedule
from fotltn.learn.store import MANIFEST
from fotltn.learn.task import Training
from fotltn.networks.encoders import Time
from fotltn.networks.parts import Batches
from fotltn.networks.predicates import ACTIVATIONS
from fotltn.networks.sequences import EncoderKind
from fotltn.posterior.exponents import MOST_EXPONENT
from fotltn.posterior.sampler import Sampling
from fotltn.project.data_config import DataConfig, read_data
from fotltn.project.toml import FILE, Range, Settings, place_of, places_of, read_toml
from fotltn.semantics.config import SEMANTICS

_NUMBERS = re.compile(r"\.[0-9]+(?=\.|$)")  # of entries of a list, in names

#: Objectives by name.
PRESETS = {"paper": PAPER, "recipe": RECIPE, "facts-only": FACTS_ONLY}

#: The settings that change no weight; all others must stay for an interrupted training to go on.
#: They name places, where what lies there is compared itself, or one of several alike devices.
WITHOUT_EFFECT = frozenset({
    "theory", "end", "model", "device", "roots",
    "data.folder", "data.facts", "data.test", "data.wide.file", "data.split.file",
})  # fmt: skip

#: How a project learns: networks by gradients, or worlds that obey the axioms, by sampling. What
#: is "auto" is one of the two when the project is built.
Method = Literal["gradient", "posterior", "auto"]

#: What `[posterior]` says; the seed is that of training.
SAMPLING = tuple(f.name for f in fields(Sampling) if f.name != "seed")

#: How predicates are computed, as a file says it, with the keys that each kind has.
KINDS: dict[str, tuple[str, ...]] = {
    "auto": (),
    "facts": (),
    "network": ("hidden", "activation"),
    "logits": ("scale", "reach"),
    "formula": ("variables", "formula", "semantics", "axioms"),
    "module": ("constructor",),
    "shared": ("constructor", "heads"),
    "function": ("constructor",),
}

#: How functions are computed, of these.
FUNCTION_KINDS = ("network", "module")

#: The kind that is left open: what hard axioms define, or else a network; or what worlds say.
AUTO = "auto"

#: The kinds that Python computes: what they compute is handed over, not read.
IN_PYTHON = ("module", "shared", "function")

_LEARNED = "learned"

#: Encoders over time.
ENCODERS = (*get_args(EncoderKind), "module")


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """An encoder over time; in Python there is the kind "module", too."""

    kind: str = "gru"
    width: int = 16
    layers: int = 1
    causal: bool = True
    reach: int = 3
    heads: int = 2
    constructor: str = ""


@dataclass(frozen=True, slots=True)
class InputConfig:
    """What networks see of the entities of a sort; embeddings by default where nothing else is."""

    embedding: int | None = None
    time: Time = "free"
    scale: float = 0.01
    reach: float = 3.0
    unknown: Literal["refuse", "mean"] = "refuse"
    features: bool = True
    learnable: tuple[str, ...] = ()
    bins: int = 0
    changes: tuple[int, ...] = ()
    neighbours: tuple[str, ...] = ()
    encoder: EncoderConfig | None = None


@dataclass(frozen=True, slots=True)
class PredicateConfig:
    """How a predicate is computed; Python has the kinds "module", "shared" and "function", too.

    It also says how a function of the theory is computed: by a "network" or a "module".

    Of these `constructor` is the name of the class, or of the function. Predicates that share a
    module name all of its predicates in `heads`.
    """

    kind: str
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "elu"
    scale: float = 0.01
    reach: float | Literal["auto"] = 0.0
    variables: tuple[str, ...] = ()
    formula: str = ""
    semantics: str | None = None
    axioms: tuple[str, ...] = ()
    constructor: str = ""
    heads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Predicates that exclude each other."""

    predicates: tuple[str, ...]
    other: bool = False
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "elu"


@dataclass(frozen=True, slots=True)
class SensorConfig:
    """How networks over features go with sampled worlds.

    Args:
        folds: each network says of one part of the cells what it learned from the others.
        exponent: how far what they say is trusted; None if that is learned.
    """

    folds: int = 3
    exponent: float | None = None


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
    end: End = "undecided"
    functions: Mapping[str, PredicateConfig] = field(default_factory=dict)
    method: Method = "gradient"
    posterior: Sampling = field(default_factory=Sampling)
    sensors: SensorConfig = field(default_factory=SensorConfig)
    source: SourceText = field(default=SourceText(FILE, ""), repr=False, compare=False)
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
    """All settings that may change a weight, or what is sampled, by name."""
    without = WITHOUT_EFFECT - {"end"}
    if config.method == "gradient":  # as it was before there was another
        without = WITHOUT_EFFECT | {"method", *(f"posterior.{f.name}" for f in fields(Sampling))}
        without |= {f"sensors.{f.name}" for f in fields(SensorConfig)}
    return {
        name: value
        for name, value in leaves(config).items()
        if _NUMBERS.sub("", name) not in without
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
        missing = not file.exists()
    except OSError as error:
        raise DataError(f"cannot read '{project}': {error.strerror}") from None
    if missing:
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


# --- reading ----------------------------------------------------------------------------------


def config_of(root: Settings, folder: Path) -> Config:
    """What settings say, of a file or of Python; their paths are seen from a folder."""
    theory, machine, output = map(root.table, ("theory", "machine", "output"))
    _check_method(root)
    method = root.value("method", Method, "gradient")
    objective, axiom_p = _objective(root.table("objective"), method)
    sampling, sensors = _sampling(root.table("posterior"))
    config = Config(
        folder=folder,
        theory=theory.value("file", str),
        semantics=theory.value("semantics", str, "stable-product", SEMANTICS),
        p=theory.value("p", float | None, None, Range(1, infinite=True)),
        end=theory.value("end", End, "undecided"),
        data=read_data(root.table("data")),
        inputs=root.by_name("inputs", _input),
        predicates=root.by_name("predicates", _predicate),
        groups=tuple(map(_group, root.tables("exclusive"))),
        objective=objective,
        axiom_p=axiom_p,
        training=_training(root.table("training")),
        compile=machine.value("compile", bool, False),
        device=machine.value("device", str, "cpu"),
        dtype=machine.value("dtype", Literal["float32", "float64"], "float32"),
        model=output.value("model", str, "model"),
        functions=root.by_name("functions", _function),
        method=method,
        posterior=sampling,
        sensors=sensors,
        source=root.source,
    )
    for table in (machine, theory, output, root):
        table.finish()
    return config


def _input(inputs: Settings, sort: str) -> InputConfig:
    return inputs.table(sort).record(
        InputConfig, embedding=_width, reach=Range(1e-3), bins=Range(0, 1024), encoder=_encoder
    )


def _encoder(table: Settings, key: str) -> EncoderConfig:
    if isinstance(kind := table.values[key], str):  # stands for a table
        table.values[key] = {"kind": kind}
    encoder, some = table.table(key), Range(1, 2**20)
    encoder.value("kind", str, "gru", ENCODERS)
    return encoder.record(EncoderConfig, width=some, layers=some, reach=some, heads=some)


def _width(table: Settings, key: str) -> int:
    width: int = table.value(key, int, 0, Range(0, 2**20))
    return width


def _predicate(predicates: Settings, name: str) -> PredicateConfig:
    table = _with_kind(predicates, name)
    usual = (kind for kind in ("formula", "network") if any(map(table.has, KINDS[kind])))
    kind = table.value("kind", str, next(usual, AUTO), KINDS)
    if kind == "formula" and not table.has("formula"):
        hint = 'formula = "…", variables = ["x"]'
        raise table.error(None, "a definition needs its formula", hint)
    return _of_kind(table, kind)


def _function(functions: Settings, name: str) -> PredicateConfig:
    table = _with_kind(functions, name)
    return _of_kind(table, table.value("kind", str, "network", FUNCTION_KINDS))


def _with_kind(symbols: Settings, name: str) -> Settings:
    """The table of a predicate or function; a word stands for one with that kind."""
    if isinstance(kind := symbols.values[name], str):
        symbols.values[name] = {"kind": kind}
    return symbols.table(name)


def _of_kind(table: Settings, kind: str) -> PredicateConfig:
    return table.record(
        PredicateConfig, PredicateConfig(kind), only=("kind", *KINDS[kind]),
        activation=ACTIVATIONS, semantics=SEMANTICS, reach=_reach,
    )  # fmt: skip


def _reach(table: Settings, key: str) -> float | str:
    if table.take(key) == AUTO:
        return AUTO
    reach: float = table.value(key, float, 0.0)
    return reach


def _group(table: Settings) -> GroupConfig:
    group = table.record(GroupConfig, activation=ACTIVATIONS)
    if len(group.predicates) < 2:
        raise table.error("predicates", "at least two predicates exclude each other")
    return group


def _check_method(root: Settings) -> None:
    """Refuse a method that stands in a section, since a file says it above all of them."""
    for section in ("theory", "data", "objective", "training", "posterior", "machine", "output"):
        values = root.values.get(section)
        if isinstance(values, dict) and "method" in values:
            hint = f"write it above [{section}], and above all other sections"
            raise root.table(section).error("method", "the method is no part of a section", hint)


def _sampling(table: Settings) -> tuple[Sampling, SensorConfig]:
    some, usual = Range(1, 2**20), SensorConfig()
    folds = table.value("folds", int, usual.folds, Range(1, 100))
    exponent = table.value("exponent", float | None, usual.exponent, _exponent)
    sampling = table.record(
        Sampling, only=SAMPLING, worlds=some, sweeps=some, stored=some, enough=Range(0, 2**40),
        weights=_weights,
    )  # fmt: skip
    return sampling, SensorConfig(folds, exponent)


def _weights(table: Settings, key: str) -> Literal["given", "learned"] | tuple[str, ...]:
    match table.take(key):
        case "given" | None:
            return "given"
        case "learned":
            return "learned"
        case str() as word:
            words = '"given", "learned", or a list of axioms'
            raise table.error(key, f"expected {words}, not {shown(word)}")
    names: tuple[str, ...] = table.value(key, tuple[str, ...], ())
    return names


def _exponent(table: Settings, key: str) -> float | None:
    if (said := table.take(key)) == _LEARNED:
        return None
    if isinstance(said, str):
        words = f'a number from 0 to {MOST_EXPONENT:g}, or "learned"'
        raise table.error(key, f"expected {words}, not {shown(said)}")
    exponent: float = table.value(key, float, None, Range(0, MOST_EXPONENT))
    return exponent


def _objective(table: Settings, method: Method) -> tuple[Objective, dict[str, Schedule]]:
    preset = PRESETS[table.value("preset", str, "paper", PRESETS)]
    axiom_p = table.value("axiom_p", Mapping[str, Schedule], None, Range(1))
    objective = table.record(
        Objective, preset, p=Range(1), fact_p=Range(1), flips=Range(0, 0.5), missed=_rates,
        invented=_rates,
    )  # fmt: skip
    for key, rates in (("missed", objective.missed), ("invented", objective.invented)):
        said = rates.values() if isinstance(rates, Mapping) else (rates,)
        if method == "gradient" and _LEARNED in said:
            raise table.error(
                key,
                "only a posterior learns a rate for each predicate",
                'method = "posterior" above all sections; or learn_flips = true, for one rate',
            )
    return objective, axiom_p


def _rates(table: Settings, key: str) -> Rates:
    if isinstance(table.take(key), dict):
        return table.by_name(key, _rate)
    return _rate(table, key)


def _rate(table: Settings, key: str) -> Rate:
    if table.take(key) == _LEARNED:
        return "learned"
    if isinstance(word := table.take(key), str):
        raise table.error(key, f'expected a number from 0 to 1, or "learned", not {shown(word)}')
    rate: float = table.value(key, float, None, Range(0, 1))
    return rate


def _training(table: Settings) -> Training:
    optimiser = table.value("optimiser", str, Training().optimiser)
    if optimiser.lower() not in OPTIMISERS:
        hint = did_you_mean(optimiser, OPTIMISERS) or f"there are {listing(OPTIMISERS, 20)}"
        raise table.error("optimiser", f"unknown optimiser '{optimiser}'", hint)
    return table.record(Training, epochs=Range(1), validation=Range(0, 1), batches=_batches)


def _batches(training: Settings, key: str) -> Batches:
    table = training.table(key)
    batches = table.record(Batches, Batches("traces", 32), size=Range(1))
    if batches.by == "traces" and batches.sort is not None:
        raise table.error("sort", "only parts by entities have a sort", 'by = "entities"')
    return batches
