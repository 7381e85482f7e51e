"""The configuration of a project, read from its TOML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from fotltn.analysis.truncation import End
from fotltn.errors import DataError, Diagnostic, SourceText, did_you_mean, listing, shown, warning
from fotltn.files import ROOT, inside
from fotltn.learn.identity import leaves
from fotltn.learn.objective import Objective, Rate, Rates
from fotltn.learn.optimisers import OPTIMISERS, check_options
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
from fotltn.project.presets import BEFORE, DEFAULT, PRESETS, Method, Preset, named_preset
from fotltn.project.toml import FILE, Range, Settings, place_of, places_of, read_toml
from fotltn.semantics.config import SEMANTICS

_NUMBERS = re.compile(r"\.[0-9]+(?=\.|$)")  # positions in lists, inside names of settings

#: Settings that may differ when an interrupted training resumes, because they change no weight:
#: paths, whose contents are compared instead, and the device.
WITHOUT_EFFECT = frozenset({
    "theory", "end", "model", "device", "roots",
    "data.folder", "data.prepared", "data.facts", "data.test", "data.wide.file", "data.split.file",
})  # fmt: skip

#: The default folder for prepared data.
PREPARED = "prepared"

#: The keys of `[posterior]`; the seed is taken from training.
SAMPLING = tuple(f.name for f in fields(Sampling) if f.name != "seed")

#: The kinds of predicates in a file, with the keys of each.
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

#: The kinds that functions can have.
FUNCTION_KINDS = ("network", "module")

#: The kind that leaves the choice open: a definition in hard axioms, a network, or sampling.
AUTO = "auto"

#: The kinds that are computed by Python objects, which are passed in, not read from a file.
IN_PYTHON = ("module", "shared", "function")

_LEARNED = "learned"

#: The kinds of encoders over time.
ENCODERS = (*get_args(EncoderKind), "module")


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """An encoder over time; in Python, "module" is also a kind."""

    kind: str = "gru"
    width: int = 16
    layers: int = 1
    causal: bool = True
    reach: int = 3
    heads: int = 2
    constructor: str = ""


@dataclass(frozen=True, slots=True)
class InputConfig:
    """What networks see of the entities of a sort; by default, features or else embeddings."""

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
    """How a predicate, or a function of the theory, is computed.

    Python adds the kinds "module", "shared" and "function". For these, `constructor` is the name of
    the class or function. Predicates that share a module list all of its predicates in `heads`. A
    function of the theory has the kind "network" or "module".
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
    """A group of predicates that exclude each other."""

    predicates: tuple[str, ...]
    other: bool = False
    hidden: tuple[int, ...] = (16, 16)
    activation: str = "elu"


@dataclass(frozen=True, slots=True)
class SensorConfig:
    """How networks over features are combined with sampled worlds.

    Args:
        folds: the number of parts of the cells; networks predict each part from the others.
        exponent: how far to trust these predictions; None to learn it.
    """

    folds: int = 3
    exponent: float | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A complete project; projects with the same settings are equal, wherever they are.

    Paths are relative to `folder`. If the project was read from a file, they must be inside
    `roots`. `unnamed` is true if the file names no preset and would have meant something else
    before version 0.3.0.
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
    method: Method = PRESETS[DEFAULT].method
    posterior: Sampling = field(default_factory=Sampling)
    sensors: SensorConfig = field(default_factory=SensorConfig)
    source: SourceText = field(default=SourceText(FILE, ""), repr=False, compare=False)
    unnamed: bool = field(default=False, repr=False, compare=False)
    roots: tuple[Path, ...] = field(default=(), repr=False, compare=False)

    def theory_path(self) -> Path:
        """Return the path of the theory file.

        Raises:
            DataError: the path is outside the project's folder.
        """
        return self._within(self.theory, ("theory", "file"), "the theory")

    def model_path(self) -> Path:
        """Return the folder of the model.

        Raises:
            DataError: the path is outside the project's folder.
        """
        return self._within(self.model, ("output", "model"), "the model")

    def _within(self, name: str, key: tuple[str, ...], what: str) -> Path:
        path = self.folder / name
        if self.roots and not inside(path, *self.roots):
            raise self.error(
                key,
                f"{what} is outside the project: {path}",
                f"to allow it, set {ROOT} in the environment to a folder that contains it",
            )
        return path

    def prepared_path(self) -> Path:
        """Return the folder of prepared data, whether or not it exists.

        Raises:
            DataError: the path is outside the project's folder.
        """
        name = self.data.prepared or PREPARED
        return self._within(name, ("data", "prepared"), "the folder of prepared data")

    def table(self, name: str) -> Path:
        """Return the path of a data table, relative to the data folder."""
        return self.folder / (self.data.folder or "") / name

    def outside(self) -> list[Path]:
        """Return the tables outside the project's folder."""
        data = self.data
        split = [] if data.split is None else [data.split.file]
        names = dict.fromkeys([*data.facts, *data.test, *(w.file for w in data.wide), *split])
        paths = map(self.table, names)
        return [path for path in paths if self.roots and not inside(path, *self.roots)]

    def strays(self) -> tuple[Diagnostic, ...]:
        """Return a warning for each table outside the project's folder."""
        places = places_of(self.source)
        span = place_of(places, ("data", "folder")) or place_of(places, ("data",))
        text = "the project reads a table outside its folder"
        return tuple(warning(f"{text}: {path}", span) for path in self.outside())

    def error(self, path: tuple[str, ...], message: str, hint: str | None = None) -> DataError:
        """Build an error about a key that points at its line in the file, or else names it."""
        span = place_of(places_of(self.source), path)
        named = message if self.source.text else f"{'.'.join(path)}: {message}"
        return DataError(Diagnostic(named, span, hint))


def lasting(config: Config) -> dict[str, Any]:
    """Return all settings that may change a weight or a sampled world, by name."""
    without = WITHOUT_EFFECT - {"end"}
    if config.method == "gradient":  # keep checkpoints from before there were other methods valid
        without = WITHOUT_EFFECT | {"method", *(f"posterior.{f.name}" for f in fields(Sampling))}
        without |= {f"sensors.{f.name}" for f in fields(SensorConfig)}
    return {
        name: value
        for name, value in leaves(config).items()
        if _NUMBERS.sub("", name) not in without
    }


#: The ends of names of tables, which are sometimes taken for projects.
_TABLES = (".csv", ".tsv", ".gz", ".parquet", ".pq")


def refuse_table(path: Path) -> None:
    """Raise an error for a table where a project or a model is expected."""
    if path.suffix.lower() in _TABLES and path.is_file():
        raise DataError(
            f"'{path}' is a table, not a project; a project is a folder with a '{FILE}', or that "
            "file",
            hint=f"fotltn new FOLDER --from {path} makes a project of it",
        )


def read_config(project: Path, *, data: Path | None = None) -> Config:
    """Read a project from its folder or its TOML file.

    Args:
        project: the folder or the file.
        data: a folder to read tables from, instead of the one that the project names.

    Raises:
        DataError: points at the line of a key that is missing, unknown or wrong.
    """
    try:
        if (project / MANIFEST).exists():
            raise DataError(
                f"'{project}' is a model, not a project; a project is a folder with its own "
                f"'{FILE}'"
            )
        file = project / FILE if project.is_dir() else project
        missing = not file.exists()
    except OSError as error:
        raise DataError(f"cannot read '{project}': {error.strerror}") from None
    if not missing:
        refuse_table(file)
    if missing:
        raise DataError(
            f"there is no project at '{project}': no file '{FILE}'; `fotltn new FOLDER` creates one"
        )
    root = read_toml(file)
    config = replace(config_of(root, file.parent), roots=(file.parent,))
    if named_preset(root) is None:
        before = config_of(root, file.parent, usual=BEFORE)
        config = replace(config, unnamed=before != config)
    if data is None:
        return config
    if not data.is_dir():
        raise DataError(f"there is no data folder '{data}'")
    tables = replace(config.data, folder=str(data.absolute()))
    return replace(config, data=tables, roots=(*config.roots, data))


# --- reading ----------------------------------------------------------------------------------


def config_of(root: Settings, folder: Path, *, usual: str = DEFAULT) -> Config:
    """Build the configuration from settings; their paths are relative to a folder.

    Args:
        root: the settings.
        folder: the folder.
        usual: the preset of settings that name none.
    """
    theory, machine, output = map(root.table, ("theory", "machine", "output"))
    _check_place(root, "method")
    preset = PRESETS[named_preset(root) or usual]
    method = root.value("method", Method, preset.method)
    objective, axiom_p = _objective(root.table("objective"), method, preset)
    sampling, sensors = _sampling(root.table("posterior"))
    config = Config(
        folder=folder,
        theory=theory.value("file", str),
        semantics=theory.value("semantics", str, "stable-product", SEMANTICS),
        p=theory.value("p", float | None, None, Range(1, infinite=True)),
        end=theory.value("end", End, "undecided"),
        data=read_data(root.table("data"), before=usual == BEFORE),
        inputs=root.by_name("inputs", _input),
        predicates=root.by_name("predicates", _predicate),
        groups=tuple(map(_group, root.tables("exclusive"))),
        objective=objective,
        axiom_p=axiom_p,
        training=_training(root.table("training"), preset),
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
    root.table("tune").value("search", tuple[str, ...], ())  # accepted here, read by `fotltn tune`
    for table in (machine, theory, output, root):
        table.finish()
    return config


def _input(inputs: Settings, sort: str) -> InputConfig:
    return inputs.table(sort).record(
        InputConfig, embedding=_width, reach=Range(1e-3), bins=Range(0, 1024), encoder=_encoder
    )


def _encoder(table: Settings, key: str) -> EncoderConfig:
    encoder, some = _with_kind(table, key), Range(1, 2**20)
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
        raise table.error(None, "a definition needs a formula", hint)
    return _of_kind(table, kind)


def _function(functions: Settings, name: str) -> PredicateConfig:
    table = _with_kind(functions, name)
    return _of_kind(table, table.value("kind", str, "network", FUNCTION_KINDS))


def _with_kind(outer: Settings, name: str) -> Settings:
    """Return the table of a predicate, function or encoder; a kind alone stands for a table."""
    if isinstance(kind := outer.values[name], str):
        outer.values[name] = {"kind": kind}
    return outer.table(name)


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
        raise table.error("predicates", "an exclusive group needs at least two predicates")
    return group


def _check_place(root: Settings, key: str) -> None:
    """Raise an error if a key is inside a section: a file states it above all sections."""
    for section in ("theory", "data", "objective", "training", "posterior", "machine", "output"):
        values = root.values.get(section)
        if isinstance(values, dict) and key in values:
            hint = f"write it above [{section}] and all other sections"
            raise root.table(section).error(key, f"{key} cannot be inside a section", hint)


def _sampling(table: Settings) -> tuple[Sampling, SensorConfig]:
    some, usual = Range(1, 2**20), SensorConfig()
    folds = table.value("folds", int, usual.folds, Range(1, 100))
    exponent = table.value("exponent", float | None, usual.exponent, _exponent)
    sampling = table.record(
        Sampling, only=SAMPLING, worlds=Range(2, 2**20), sweeps=some, stored=some,
        enough=Range(0, 2**40), weights=_weights,
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
    exponent = _given_or_learned(table, key, MOST_EXPONENT)
    return None if exponent == "learned" else exponent


def _objective(
    table: Settings, method: Method, preset: Preset
) -> tuple[Objective, dict[str, Schedule]]:
    table.take("preset")
    axiom_p = table.value("axiom_p", Mapping[str, Schedule], None, Range(1))
    objective = table.record(
        Objective, preset.objective, p=Range(1), fact_p=Range(1), flips=Range(0, 0.5),
        missed=_rates, invented=_rates,
    )  # fmt: skip
    for key, rates in (("missed", objective.missed), ("invented", objective.invented)):
        said = rates.values() if isinstance(rates, Mapping) else (rates,)
        if method == "gradient" and _LEARNED in said:
            raise table.error(
                key,
                "only a posterior learns a rate for each predicate",
                'set method = "posterior" above all sections; or learn_flips = true for one rate',
            )
    return objective, axiom_p


def _rates(table: Settings, key: str) -> Rates:
    if isinstance(table.take(key), dict):
        return table.by_name(key, _rate)
    return _rate(table, key)


def _rate(table: Settings, key: str) -> Rate:
    return _given_or_learned(table, key, 1)


def _given_or_learned(table: Settings, key: str, most: float) -> float | Literal["learned"]:
    if (said := table.take(key)) == _LEARNED:
        return "learned"
    if isinstance(said, str):
        words = f'a number from 0 to {most:g}, or "learned"'
        raise table.error(key, f"expected {words}, not {shown(said)}")
    number: float = table.value(key, float, None, Range(0, most))
    return number


def _training(table: Settings, preset: Preset) -> Training:
    optimiser = table.value("optimiser", str, preset.training.optimiser)
    if optimiser.lower() not in OPTIMISERS:
        hint = did_you_mean(optimiser, OPTIMISERS) or f"there are {listing(OPTIMISERS, 20)}"
        raise table.error("optimiser", f"unknown optimiser '{optimiser}'", hint)
    training = table.record(
        Training, preset.training, epochs=Range(1), validation=Range(0, 1), batches=_batches
    )
    if training.options:
        try:
            check_options(training.optimiser, training.rate, training.options)
        except DataError as error:
            first = error.diagnostics[0]
            raise table.error("options", first.message, first.hint) from None
    return training


def _batches(training: Settings, key: str) -> Batches:
    table = training.table(key)
    batches = table.record(Batches, Batches("traces", 32), size=Range(1))
    if batches.by == "traces" and batches.sort is not None:
        raise table.error("sort", "sort applies only to batches by entities", 'by = "entities"')
    return batches
