"""Search for settings of a project that predict the validation facts best."""

from __future__ import annotations

import copy
import hashlib
import importlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, Protocol

from fotltn.errors import DataError, Diagnostic, FotError, InterruptedTrainingError, missing
from fotltn.files import write_files
from fotltn.project.config import Config, config_of, read_config
from fotltn.project.toml import FILE, read_toml, show_toml, table_of
from fotltn.project.train import train
from fotltn.stop import interrupts
from fotltn.threads import one_of_several

JudgedBy = Literal["pr_auc", "roc_auc", "accuracy", "log_loss", "brier"]
Cluster = Literal["local", "slurm"]
SettingValue = int | float | str | bool

#: Names next to the project: the search so far, and a project with the best settings.
STORAGE, TUNED = "tune.journal", "tuned.toml"

_LOWER = ("log_loss", "brier")  # metrics for which lower is better
_TABLES = ("objective", "training", "inputs", "predicates", "functions", "exclusive", "theory")
_LEFT = ("training.seed", "training.validation", "training.blocks", "theory.file", "theory.end")
_RANGE = re.compile(r"(?P<low>[^:,]+?)\.\.(?P<high>[^:,]+?)(?P<log>:log)?")
_WHY = "why"  # the reason why a trial failed


@dataclass(frozen=True, slots=True)
class SearchedSetting:
    """The values that a setting may take: a list, or a range of numbers.

    Args:
        key: the setting, with the tables that contain it.
        options: the values to choose from, unless it is a range.
        low: the smallest number.
        high: the largest number.
        log: whether to search on a logarithmic scale.
    """

    key: str
    options: tuple[SettingValue, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False

    @property
    def first(self) -> SettingValue:
        """A value that the setting may take."""
        return self.options[0] if self.options else self.low

    def of(self, trial: Any) -> SettingValue:
        """Return the value that a trial suggests."""
        value: SettingValue
        if self.options:
            value = trial.suggest_categorical(self.key, list(self.options))
        elif isinstance(self.low, int) and isinstance(self.high, int):
            value = trial.suggest_int(self.key, self.low, self.high, log=self.log)
        else:
            value = trial.suggest_float(self.key, self.low, self.high, log=self.log)
        return value


@dataclass(frozen=True, slots=True)
class Trial:
    """Settings that were tried, and the value of the metric, or why there is none."""

    settings: Mapping[str, SettingValue]
    value: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """A search: the trials so far, the best of them, and a project with its settings."""

    metric: JudgedBy
    before: Trial
    trials: tuple[Trial, ...]
    best: Trial | None
    file: Path | None


class _Runner(Protocol):
    """Runs trials, here or elsewhere."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start a trial."""


def choice_of(text: str) -> SearchedSetting:
    """Parse a setting and its values: `KEY=LOW..HIGH`, `KEY=LOW..HIGH:log`, or `KEY=a,b,c`.

    Raises:
        DataError: the text has none of these forms, or the setting cannot be searched.

    >>> choice_of("training.rate=1e-4..1e-1:log").log
    True
    >>> choice_of("inputs.pump.embedding=2,4,8").options
    (2, 4, 8)
    """
    key, sign, said = (part.strip() for part in text.partition("="))
    like = "such as training.rate=0.001..0.1:log or inputs.pump.embedding=2,4,8"
    if not sign or not key or not said:
        raise DataError(f"'{text}' does not state the values of a setting; expected a text {like}")
    if key.partition(".")[0] not in _TABLES or "." not in key or key in _LEFT:
        raise DataError(
            f"'{key}' cannot be searched",
            hint=f"use a setting of {', '.join(_TABLES)}, except {', '.join(_LEFT)}",
        )
    if not (match := _RANGE.fullmatch(said)):
        return SearchedSetting(key, tuple(_value(part.strip()) for part in said.split(",")))
    low, high = _value(match["low"]), _value(match["high"])
    if not all(isinstance(end, int | float) for end in (low, high)) or not low < high:  # type: ignore[operator]
        raise DataError(f"'{text}' has no range: the first number must be below the second, {like}")
    if match["log"] and not low > 0:  # type: ignore[operator]
        raise DataError(f"'{text}': a logarithmic range must begin above 0")
    return SearchedSetting(key, (), low, high, bool(match["log"]))  # type: ignore[arg-type]


def _value(text: str) -> SettingValue:
    """Read a value as in TOML; a word needs no quotes."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
    return value if isinstance(value, int | float | str | bool) else text


def tune(
    project: Path,
    search: Sequence[str] = (),
    *,
    metric: JudgedBy = "pr_auc",
    trials: int = 20,
    seed: int = 0,
    jobs: int = 1,
    cluster: Cluster | None = None,
    fresh: bool = False,
    on_trial: Callable[[int, Trial], None] = lambda _, __: None,
) -> Tuned:
    """Search for settings by training projects and judging them on the validation facts.

    Test facts are never used. Trials are stored next to the project, so an interrupted search
    continues; the same seed and number of jobs give the same trials.

    Args:
        project: the project's folder or file.
        search: the values of settings, as in `choice_of`; by default, those in the project's file.
        metric: the metric to optimise, as a mean over predicates.
        trials: the total number of trials, including those before an interruption.
        seed: the seed of the search. Training uses the project's seed.
        jobs: the number of trainings at once, each in its own process.
        cluster: a cluster to run trials on, through submitit.
        fresh: discard earlier trials.
        on_trial: a function to call after each trial, with its number; -1 is the unchanged project.

    Raises:
        InterruptedTrainingError: the search was stopped; the same call continues it.
        DataError: the project or the search is wrong.
    """
    optuna = _optuna()
    base = _TriedProject.read(project)
    choices = [choice_of(text) for text in search or base.search]
    if not choices:
        hint = '--search training.rate=0.001..0.1:log, or a table [tune] with search = ["…"]'
        raise DataError("no settings to search for were named", hint=hint)
    if len({choice.key for choice in choices}) < len(choices):
        raise DataError("a setting to search for was named twice")
    base.config({choice.key: choice.first for choice in choices})  # raises errors before trials
    place = base.folder / STORAGE
    if fresh:
        place.unlink(missing_ok=True)
    study = _study(optuna, place, metric, base, choices, seed)
    with _runner(jobs, cluster, base.folder) as runner, interrupts() as asked:
        before = study.user_attrs.get("before")
        if before is None:
            ((value, why),) = _ended([runner.submit(tried, base, {}, metric)], asked)
            if value is None:
                raise DataError(f"the unchanged project cannot be judged: {why}")
            study.set_user_attr("before", before := value)
        on_trial(-1, as_it_is := Trial({}, before))
        while (done := len(past := _past(optuna, study))) < trials:
            started = []
            for number in range(done, min(trials, done + jobs)):
                study.sampler = optuna.samplers.TPESampler(seed=(seed + 1) * 1_000_003 + number)
                trial = study.ask()
                chosen = {choice.key: choice.of(trial) for choice in choices}
                started.append((trial, chosen, runner.submit(tried, base, chosen, metric)))
            outcomes = _ended([future for _, _, future in started], asked)
            for number, (trial, chosen, _) in enumerate(started, done):
                value, why = next(outcomes)
                _tell(optuna, study, trial, value, why)
                on_trial(number, Trial(chosen, value, why))
    every = tuple(Trial(t.params, t.value, t.user_attrs.get(_WHY)) for t in past)
    judged = [trial for trial in every if trial.value is not None]
    if not judged:
        return Tuned(metric, as_it_is, every, None, None)
    sign = -1 if metric in _LOWER else 1
    best = max(judged, key=lambda trial: sign * (trial.value or 0.0))
    return Tuned(metric, as_it_is, every, best, base.write(best.settings))


# --- a trial --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TriedProject:
    """The project in which settings are tried."""

    folder: Path
    values: Mapping[str, Any]
    search: tuple[str, ...]

    @classmethod
    def read(cls, project: Path) -> _TriedProject:
        read_config(project)  # raises its errors first
        file = project / FILE if project.is_dir() else project
        values = dict(read_toml(file).values)
        said = values.pop("tune", {})
        return cls(file.parent, values, tuple(said.get("search", ())))

    @property
    def digest(self) -> str:
        """A hash that is the same for the same project."""
        return hashlib.sha256(repr(self.values).encode()).hexdigest()

    def config(self, chosen: Mapping[str, SettingValue]) -> Config:
        """Return the project's configuration with other settings."""
        config = config_of(table_of(self.with_settings(chosen)), self.folder)
        return replace(config, roots=(self.folder,))

    def with_settings(self, chosen: Mapping[str, SettingValue]) -> dict[str, Any]:
        """Return the contents of the project's file with other settings."""
        values = copy.deepcopy(dict(self.values))
        for key, value in chosen.items():
            *tables, last = key.split(".")
            table = values
            for name in tables:
                table = table.setdefault(name, {})
                if not isinstance(table, dict):
                    raise DataError(
                        f"'{key}' is not a setting: '{name}' is not a table of the project"
                    )
            table[last] = value
        return values

    def write(self, chosen: Mapping[str, SettingValue]) -> Path:
        """Write a project file with other settings next to the first, with its own model folder."""
        values = self.with_settings(chosen)
        output = values.setdefault("output", {})
        output["model"] = f"{output.get('model', 'model')}-tuned"
        file = self.folder / TUNED
        write_files({file: show_toml(values).encode()})
        return file


def tried(
    base: _TriedProject, chosen: Mapping[str, SettingValue], metric: JudgedBy
) -> tuple[float | None, str | None]:
    """Train with some settings; return the metric on the validation facts, or None and why."""
    from fotltn.project.build import build

    config = base.config(chosen)
    built = build(config)
    if built.config.method == "posterior":
        raise DataError("only networks that learn by gradients can be tuned, not sampled worlds")
    watched = built.task.split()[1]
    if watched is None:
        raise DataError(
            "settings are judged on validation facts, and there are none",
            hint="hold some back: validation = 0.1 in [training]",
        )
    with interrupts() as asked:
        try:
            model = train(config, stop=asked)
        except InterruptedTrainingError:
            raise
        except FotError as error:
            return None, error.diagnostics[0].message
    judged = model.score(watched).mean[metric]
    return (judged.value, None) if judged.value is not None else (None, judged.reason)


# --- the search -----------------------------------------------------------------------------------


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise missing("a search for settings needs", "optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _study(
    optuna: Any,
    place: Path,
    metric: JudgedBy,
    base: _TriedProject,
    choices: Sequence[SearchedSetting],
    seed: int,
) -> Any:
    """Open the stored search, which must be the same one, or start a new one."""
    journal = importlib.import_module("optuna.storages.journal")
    identity = {
        "metric": metric, "seed": seed, "project": base.digest,
        "search": repr(sorted(choices, key=lambda choice: choice.key)),
    }  # fmt: skip
    try:
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(journal.JournalFileBackend(str(place))),
            study_name="tune", load_if_exists=True,
            direction="minimize" if metric in _LOWER else "maximize",
        )  # fmt: skip
        known = study.user_attrs.get("identity")
    except (OSError, ValueError, KeyError, optuna.exceptions.OptunaError) as error:
        raise DataError(
            f"the search in '{place}' cannot be used: {' '.join(str(error).split())[:200]}",
            hint="start over with --fresh",
        ) from None
    if known is None:
        study.set_user_attr("identity", identity)
    elif known != identity:
        other = ", ".join(name for name in identity if known.get(name) != identity[name])
        raise DataError(
            f"the search in '{place}' has another {other}", hint="start over with --fresh"
        )
    return study


def _past(optuna: Any, study: Any) -> list[Any]:
    """Return the trials that ended, in order, without interrupted ones."""
    complete = optuna.trial.TrialState.COMPLETE
    every = study.get_trials(deepcopy=False)
    return [t for t in every if t.state == complete or _WHY in t.user_attrs]


def _tell(optuna: Any, study: Any, trial: Any, value: float | None, why: str | None) -> None:
    if value is None:
        trial.set_user_attr(_WHY, why or "it has no value")
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(trial, value)


def _ended(
    futures: Sequence[Future[Any]], asked: Callable[[], bool]
) -> Iterator[tuple[float | None, str | None]]:
    """Yield the outcomes of trials in order, as they end.

    Raises:
        InterruptedTrainingError: a trial was stopped, or the search is to stop.
    """
    stopped = Diagnostic("the search was stopped", hint="run the same command to continue")
    for future in futures:
        try:
            yield future.result()
        except InterruptedTrainingError:
            raise InterruptedTrainingError(stopped) from None
    if asked():
        raise InterruptedTrainingError(stopped)


class _Here:
    """Runs trials in this process, one by one."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except FotError as error:
            future.set_exception(error)
        return future


@contextmanager
def _runner(jobs: int, cluster: Cluster | None, folder: Path) -> Iterator[_Runner]:
    if cluster is not None:
        try:
            submitit = importlib.import_module("submitit")
        except ImportError:
            raise missing("trials on a cluster need", "submitit", "submitit") from None
        executor = submitit.AutoExecutor(folder=str(folder / "tune.jobs"), cluster=cluster)
        executor.update_parameters(timeout_min=24 * 60, cpus_per_task=1)
        yield executor
    elif jobs == 1:
        yield _Here()
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), one_of_several) as pool:
            yield pool
