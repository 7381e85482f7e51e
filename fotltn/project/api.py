"""Train a model from Python: `train` takes a theory, facts and settings."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, Unpack

from torch import nn

from fotltn.arguments import AnyPath, names_of, with_hints
from fotltn.data import AnyFacts, apart, is_by_name, tables_of
from fotltn.errors import DataError, DataWarning, listing, shown
from fotltn.grounding.frames import Source
from fotltn.grounding.wide import Wide
from fotltn.learn.fit import Epoch
from fotltn.learn.objective import Objective
from fotltn.learn.task import Training
from fotltn.logic.check import check
from fotltn.posterior.sampler import Sampling
from fotltn.project import train as training_of
from fotltn.project.apply import own_data_only
from fotltn.project.callbacks import EachEpoch
from fotltn.project.config import (
    AUTO,
    EncoderConfig,
    InputConfig,
    PredicateConfig,
    config_of,
    read_config,
)
from fotltn.project.data_config import DataConfig, described, own_traces, sources_of
from fotltn.project.loggers import as_callbacks
from fotltn.project.model import Model
from fotltn.project.progress import ProgressLine
from fotltn.project.toml import meant, table_of
from fotltn.project.world import InMemory, PythonPredicate
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import AnyTheory, theory_of
from fotltn.threads import entry

_HEAD = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<variables>[^()]*)\))?\s*")


def belongs(name: str, value: object) -> str | None:
    """Say where a setting belongs that is not an argument of `train`."""
    for table, kind in _TABLES.items():
        known = [field.name for field in fields(kind)]
        if name in known:
            return f'it is a setting: {table}={{"{name}": {shown(value)}}}'
        if (other := meant(name, known)) is not None:
            return f"{other} It is a setting in {table}={{…}}"
    return None


_TABLES: dict[str, Any] = {
    "training": Training, "posterior": Sampling, "objective": Objective, "data": DataConfig,
}  # fmt: skip
#: The settings that may stand beside a project, whose file holds all others.
_BESIDE_PROJECT = (
    "inputs", "predicates", "functions", "on_epoch", "checkpoints", "callbacks", "verbose"
)  # fmt: skip


class FitSettings(TypedDict, total=False):
    """The settings that `train` and `Classifier` share; those of a project's file, by name.

    Args:
        define: predicates that formulas define, such as `{"Run(x)": "Car(x) & !Stop(x)"}`.
        preset: where the settings start: "standard", the default, which `fotltn new` writes;
            "paper", the setting of the paper; "facts-only", the same without axioms; or "recipe".
        method: "gradient", which trains networks; "posterior", which samples worlds that obey the
            hard axioms; or "auto", the default, which samples worlds if hard axioms mention what is
            learned and settings allow it, and trains networks otherwise.
        semantics: the name of the semantics of the axioms.
        p: the exponent of its means.
        train: the share of labelled facts to learn from; the others are for testing.
        test: tables whose facts are for testing only.
        seed: the seed of all random draws.
        checkpoints: a folder for the state of training, from which an interrupted run continues.
        callbacks: objects to call at the start, after every epoch or sweep, and at the end; a
            function is called after every epoch. A string starts a logger: "tensorboard:FOLDER",
            "mlflow" or "wandb:PROJECT".
        verbose: whether to show progress on standard error; by default, in a terminal or a
            notebook, if training takes more than a few seconds.
        data: further settings of the data, such as `{"by": "entities", "flip": 0.1}`.
        inputs: what networks see of each sort, such as `{"agent": {"embedding": 8}}`. The value of
            "encoder" may be a PyTorch module; it maps a tensor of shape (trace, entity, time,
            feature) to one of the same axes.
        functions: how to compute functions of the theory that return numbers and are not in the
            data: "network", its settings, or a PyTorch module as for a predicate, whose output is
            the value.
        exclusive: groups of predicates that exclude each other; one network computes each group.
        objective: the loss to minimise.
        training: settings of training, such as `{"epochs": 100, "rate": 0.01}`.
        posterior: settings of sampling, such as `{"worlds": 64, "sweeps": 200}`.
        machine: the device to compute on, such as `{"device": "cuda"}`.
    """

    define: Mapping[str, str] | None
    preset: str | None
    method: str | None
    semantics: str | None
    p: float | None
    train: float | None
    test: Iterable[Source] | Source | None
    seed: int | None
    checkpoints: AnyPath | None
    callbacks: Iterable[Any] | None
    verbose: bool | None
    data: Mapping[str, Any] | None
    inputs: Mapping[str, Any] | None
    functions: Mapping[str, Any] | None
    exclusive: Sequence[Sequence[str] | Mapping[str, Any]] | None
    objective: Mapping[str, Any] | None
    training: Mapping[str, Any] | None
    posterior: Mapping[str, Any] | None
    machine: Mapping[str, Any] | None


class TrainSettings(FitSettings, total=False):
    """The settings of `train`: also those that `Classifier` has in other words.

    Args:
        predicates: settings of predicates, such as `{"Near": {"kind": "logits"}}`; or a PyTorch
            module, which maps the inputs of all arguments, concatenated, shape (trace, *arguments,
            time, feature), to logits, shape (trace, *arguments, time) or with a last axis of size
            1. It is trained unless it is frozen. If its `forward` has a parameter `present`, it
            receives a mask of the cells in which all arguments are present. With a tuple of names
            as key, the module has one output for each. Or a function from the given tables and the
            features by sort to a table of shape (trace, *arguments, time), which is computed once.
        wide: one or several wide tables, if `facts` is not a `Tables`.
        on_epoch: a function to call after every epoch, as in version 0.1.0; use `callbacks`
            instead.
    """

    predicates: Mapping[Any, Any] | None
    wide: Iterable[Wide] | Wide
    on_epoch: Callable[[Epoch], None] | None


@entry
@with_hints(belongs)
def train(
    theory: AnyTheory,
    facts: AnyFacts = (),
    *,
    learn: Sequence[str] | str = (),
    **settings: Unpack[TrainSettings],
) -> Model:
    r"""Learn predicates from facts and axioms.

    Settings have the same names and meanings as in a project's file.

    Args:
        theory: a theory, its file (`*.fot`) or its text. Or a project, given by its folder or TOML
            file; it then provides everything except PyTorch modules and Python functions.
        facts: the data, as `fotltn.read` and `fotltn.tables` return them. With `fotltn.read`, the
            stated facts of learned predicates are labels; with `fotltn.tables`, every cell of
            a learned predicate is a label. Or tables of facts to read, one or a list of them: files
            by name, data frames, mappings from columns to lists, or wide tables.
        learn: the predicates to learn. A predicate that hard axioms define is computed by its
            definition, all others by networks.
        settings: the settings of a project's file, by name, as `FitSettings` and `TrainSettings`
            list them: `define`, `preset`, `method`, `semantics`, `p`, `train`, `test`, `seed`,
            `checkpoints`, `callbacks`, `verbose`, and the tables `data`, `inputs`, `predicates`,
            `functions`, `exclusive`, `objective`, `training`, `posterior` and `machine`. Pass your
            own PyTorch modules with `predicates={"Near": module}`, `functions={"level": module}`
            and `inputs={"agent": {"encoder": module}}`. Use `wide` to describe wide tables that
            `train` reads itself.

    Raises:
        FotError: an argument is unknown or wrong, or the arguments do not fit together.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> data = fot.read(fot.parse(theory), facts)
    >>> model = fot.train(theory, data, learn=["Stop"], training={"epochs": 2})
    >>> model.ask("Stop(x)", at="all").tensor.shape  # trace, car, time
    torch.Size([1, 1, 4])
    """
    said: dict[str, Any] = {n: value for n, value in settings.items() if value is not None}
    read = isinstance(facts, Tables)  # its warnings were given
    told = as_callbacks(said.get("callbacks", ()))
    if (on_epoch := settings.get("on_epoch")) is not None:
        text = "train(…, on_epoch=…) is deprecated: pass the function in callbacks=[…]"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
        told = (EachEpoch(on_epoch), *told)
    how = _mapping("predicates", settings.get("predicates"))
    seen = _mapping("inputs", settings.get("inputs"))
    kinds, modules = _in_python(how)
    numbers = _mapping("functions", settings.get("functions"))
    learned, of_functions = _in_python(numbers)
    for name, computed in learned.items():
        if computed.kind != "module":
            raise DataError(f"functions: '{name}' must be computed by a network or a module")
    modules |= of_functions
    encoders = _own_encoders(seen, modules)
    if _is_project(theory):
        rest = [v for n, v in said.items() if n not in _BESIDE_PROJECT]
        if any(map(_is_there, (facts, learn, *seen.values(), how, numbers, *rest))):
            raise DataError(
                f"'{theory}' is a project, so its file holds all settings; change them there"
            )
        config = read_config(Path(str(theory)))
        more = InMemory(modules=modules)
    else:
        sources: dict[str, Source] = {}
        listed = apart(settings.get("wide", ()))[1]
        data = _mapping("data", settings.get("data"))
        if is_by_name(facts) and facts:
            facts = tables_of(facts, check(theory))
        if isinstance(facts, Tables):
            if listed:
                raise DataError("pass wide tables to fotltn.read(…, wide=…), not to train")
            facts, listed, read_so = sources_of(facts)
            data = {**read_so, **data}
        else:
            facts, among = apart(facts)
            listed = (*among, *listed)
        long = _named(facts, "facts", sources)
        tested = _named(apart(said.get("test", ()))[0], "test", sources)
        of_wide = _named([one.source for one in listed], "wide", sources)
        seed = said.get("seed", 0)
        drawn = {"train": said.get("train", 1.0), "seed": seed}
        tables = {
            "preset": said.get("preset"),
            "method": said.get("method"),
            "theory": {
                "file": "theory.fot",
                "semantics": said.get("semantics"),
                "p": said.get("p"),
            },
            "data": {"facts": long, "test": tested} | drawn | _with_clock(data),
            "inputs": seen,
            "predicates": {
                **dict.fromkeys(names_of(learn), AUTO),
                **_definitions(said.get("define")),
                **how,
            },
            "functions": numbers,
            "exclusive": [
                g if isinstance(g, Mapping) else {"predicates": g}
                for g in said.get("exclusive", ())
            ],
            "objective": _mapping("objective", settings.get("objective")),
            "training": {"seed": seed} | _mapping("training", settings.get("training")),
            "posterior": _mapping("posterior", settings.get("posterior")),
            "machine": _mapping("machine", settings.get("machine")),
        }
        in_memory = theory_of(theory)
        config = config_of(table_of(tables), Path())
        wide_tables = tuple(map(described, listed, of_wide))
        local = config.data.local if data.get("local") is not None else own_traces(wide_tables)
        config = replace(config, data=replace(config.data, wide=wide_tables, local=local))
        more = InMemory(in_memory, sources, modules)
    usual = InputConfig()
    encoded = {s: replace(config.inputs.get(s, usual), encoder=e) for s, e in encoders.items()}
    config = replace(
        config,
        predicates={**config.predicates, **kinds},
        inputs={**config.inputs, **encoded},
        functions={**config.functions, **learned},
    )
    folder = Path(said["checkpoints"]) if "checkpoints" in said else None
    told = (*told, ProgressLine(said.get("verbose")))
    model = training_of.train(config, more=more, checkpoints=folder, callbacks=told)
    for text in _odd(model, facts=not read):
        warnings.warn(text, DataWarning, stacklevel=_depth())
    return model


def _depth() -> int:
    """Return how far away the caller of the package is, for warnings to point at."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fotltn."):
        depth, frame = depth + 1, frame.f_back
    return depth


def _odd(model: Model, *, facts: bool) -> Iterator[str]:
    """Yield what the command prints as warnings, but for what `apply` refuses anyway."""
    for one in model.facts.warnings if facts else ():
        yield f"{one.message}; {one.hint}" if one.hint else one.message
    refused = own_data_only(model.config, model.world)
    yield from (text for text in model.warnings if text != refused)


def _in_python(
    settings: dict[Any, Any],
) -> tuple[dict[str, PredicateConfig], dict[str, PythonPredicate]]:
    """Move modules and functions out of the settings; return their settings and themselves."""
    kinds: dict[str, PredicateConfig] = {}
    modules: dict[str, PythonPredicate] = {}
    for names, one in [*settings.items()]:
        _refuse_classes(names, one)
        if isinstance(names, tuple) and not isinstance(one, nn.Module):
            raise DataError(f"predicates: {listing(names)} can share a module, not {shown(one)}")
        if not callable(one):
            continue
        del settings[names]
        constructor = type(one).__name__
        if not isinstance(one, nn.Module):
            constructor = str(getattr(one, "__name__", constructor))
        if isinstance(names, tuple):
            shared = PredicateConfig("shared", constructor=constructor, heads=names)
            kinds |= dict.fromkeys(names, shared)
            modules[names[0]] = one
            continue
        kind = "module" if isinstance(one, nn.Module) else "function"
        kinds[names] = PredicateConfig(kind, constructor=constructor)
        modules[names] = one
    return kinds, modules


def _refuse_classes(names: object, one: object) -> None:
    """Raise an error for a module class, because only an instance can be trained."""
    if isinstance(one, type) and issubclass(one, nn.Module):
        whom = listing(names) if isinstance(names, tuple) else f"'{names}'"
        message = f"{whom}: {one.__name__} is a class; pass an instance of it"
        raise DataError(message, hint=f"{one.__name__}(…)")


def _own_encoders(
    seen: dict[str, Any], modules: dict[str, PythonPredicate]
) -> dict[str, EncoderConfig]:
    """Move encoders that are modules from the settings of inputs to `modules`."""
    encoders = {}
    for sort, settings in seen.items():
        if not isinstance(settings, Mapping):
            continue
        _refuse_classes(sort, settings.get("encoder"))
        if isinstance(settings.get("encoder"), nn.Module):
            rest = dict(settings)
            modules[sort] = module = rest.pop("encoder")
            encoders[sort] = EncoderConfig("module", constructor=type(module).__name__)
            seen[sort] = rest
    return encoders


def _is_project(theory: object) -> TypeGuard[AnyPath]:
    if not isinstance(theory, str | os.PathLike) or "\n" in str(theory):
        return False
    return os.fspath(theory).endswith(".toml") or os.path.isdir(theory)


def _is_there(value: Any) -> bool:
    return value is not None and not (isinstance(value, Sequence | Mapping) and not value)


def _named(tables: Iterable[Source], kind: str, sources: dict[str, Source]) -> list[str]:
    """Return file names; add tables in memory to `sources` under generated names."""
    names = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, str | os.PathLike):
            names.append(os.fspath(table))
        else:
            names.append(f"{kind} {number}")
            sources[names[-1]] = table
    return names


def _with_clock(data: dict[str, Any]) -> dict[str, Any]:
    """Return settings of the data that say whose time it is, as `read` has it without a word."""
    if "step" not in data or data.get("clock") is not None:
        return data
    return {**data, "clock": "own" if data.get("origin") is None else "shared"}


def _mapping(what: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is not None and not isinstance(values, Mapping):
        raise DataError(f"{what}: expected settings by name, not {shown(values)}")
    return dict(values or {})


def _definitions(define: Mapping[str, str] | None) -> dict[str, Any]:
    defined = {}
    for head, formula in _mapping("define", define).items():
        match = _HEAD.fullmatch(head)
        if match is None:
            raise DataError(f"define: expected a head such as 'Run(x)', not '{head}'")
        variables = [v.strip() for v in (match["variables"] or "").split(",") if v.strip()]
        defined[match["name"]] = {
            "kind": "formula", "variables": variables, "formula": str(formula)
        }  # fmt: skip
    return defined
