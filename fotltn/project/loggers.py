"""Write logs of training for other programs: TensorBoard, MLflow, and Weights & Biases.

Each is a package that only its logger loads. All get the same numbers: losses and the values of
axioms by epoch, or the agreement of chains by sweep, and in the end the metrics on test facts.
MLflow and Weights & Biases also get all settings, and the folder of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, MethodType
from typing import Any, cast

from fotltn.analysis.metrics import METRICS
from fotltn.errors import DataError, listing, missing, name_hint, shown
from fotltn.learn.fit import Epoch
from fotltn.posterior.run import SamplingProgress
from fotltn.project.callbacks import Callback, EachEpoch
from fotltn.project.config import lasting
from fotltn.project.model import Model

_AT_ONCE = 100  # settings that MLflow takes in one call
_LONGEST = 500  # characters of a setting that every version of MLflow accepts
_ODD = re.compile(r"[^\w\-./ ]")  # characters that names in MLflow cannot have


def as_callbacks(
    listed: Iterable[Callback | Callable[[Epoch], None] | str],
) -> tuple[Callback, ...]:
    """Return callbacks; a text such as `tensorboard:logs` (`KIND` or `KIND:PLACE`) is a logger.

    Functions are called after every epoch.

    Raises:
        DataError: a value is not a callback, or needs a package that is not installed.
    """
    every = [listed] if isinstance(listed, str) else listed
    return tuple(_logger(one) if isinstance(one, str) else _checked(one) for one in every)


def _logger(text: str) -> Callback:
    kind, _, place = text.partition(":")
    if kind not in LOGGERS:
        raise DataError(f"there are no logs of the kind '{kind}'; {name_hint(kind, LOGGERS)}")
    return LOGGERS[kind](place or None)


def _checked(one: Callback | Callable[[Epoch], None]) -> Callback:
    if isinstance(one, FunctionType | MethodType | partial):
        return EachEpoch(one)
    lacking = [name for name in ("start", "epoch", "end") if not callable(getattr(one, name, None))]
    if lacking:
        raise DataError(
            f"{shown(one)} is not a callback: it has no {listing(lacking)}",
            hint="derive its class from fotltn.Callback",
        )
    return cast(Callback, one)


# --- what is told -----------------------------------------------------------------------------


def scalars(epoch: Epoch) -> dict[str, float]:
    """Return the numbers of an epoch, by name."""
    losses = {"loss/total": epoch.loss, "loss/facts": epoch.facts, "loss/watched": epoch.watched}
    return losses | {f"axioms/{name}": value for name, value in epoch.values.items()}


def agreement(progress: SamplingProgress) -> dict[str, float]:
    """Return learned weights and, if known, how far chains agree after a sweep."""
    weights = {f"weights/{name}": value for name, value in progress.weights.items()}
    if progress.mixing is None:
        return weights
    numbers = {f"r_hat/{name}": value for name, value in progress.mixing.r_hat.items()} | weights
    return numbers | {f"effective/{n}": value for n, value in progress.mixing.effective.items()}


def results(model: Model) -> dict[str, float]:
    """Return the metrics on test facts and the number of these, by name."""
    report = model.metrics()
    if report is None:
        return {}
    numbers: dict[str, float] = {}
    for name, row in report.predicates.items():
        numbers[f"test/{name}/facts"] = row.facts
        of_row = {metric: getattr(row, metric) for metric in METRICS}
        numbers |= {f"test/{name}/{m}": one.value for m, one in of_row.items() if one.defined}
    means = {f"test/mean/{m}": one.value for m, one in report.mean.items() if one.defined}
    return numbers | means


@contextmanager
def _folder(model: Model) -> Iterator[Path]:
    """Save the model in a temporary folder."""
    with TemporaryDirectory() as place:
        model.save(Path(place) / "model")
        yield Path(place) / "model"


# --- one log, and what writes it ----------------------------------------------------------------


class RunLog(Callback):
    """Reports training to a run of another program; each program has a subclass.

    Args:
        place: where the run is, in the program's own form; by default, as its settings say.
    """

    package: str  #: what to import
    extra: str  #: the extra of this package that installs it
    needing: str  #: what needs the package, in words

    def __init__(self, place: str | None = None) -> None:
        """Load the program; the run begins when training starts."""
        self.place, self.last = place, 0
        try:
            self.module: Any = import_module(self.package)
        except ImportError:
            raise missing(self.needing, self.extra, self.extra) from None

    def epoch(self, epoch: Epoch) -> None:
        """Write the numbers of an epoch."""
        self._step("epoch", epoch.number, scalars(epoch))

    def sweep(self, progress: SamplingProgress) -> None:
        """Write how far chains agree."""
        self._step("sweep", progress.sweep, agreement(progress))

    def _step(self, unit: str, number: int, numbers: Mapping[str, float]) -> None:
        self.last = number
        if numbers:
            self._write(numbers, unit)

    def end(self, model: Model | None) -> None:
        """Write the results, and end the run; without a model, mark the run as failed."""
        try:
            if model is not None:
                self._conclude(model)
        except BaseException:
            model = None
            raise
        finally:
            self._close(done=model is not None)

    def _write(self, numbers: Mapping[str, float], unit: str) -> None:
        raise NotImplementedError

    def _conclude(self, model: Model) -> None:
        raise NotImplementedError

    def _close(self, *, done: bool) -> None:
        raise NotImplementedError


class TensorBoardLog(RunLog):
    """Writes logs for TensorBoard into a folder, by default `runs`."""

    package, extra = "torch.utils.tensorboard", "tensorboard"
    needing = "TensorBoard's logs need"

    def start(self, model: Model) -> None:  # noqa: ARG002
        """Open the logs."""
        place = self.place or "runs"
        try:
            self.writer = self.module.SummaryWriter(place)
        except OSError as error:
            raise DataError(f"cannot write logs to '{place}': {error.strerror}") from None

    def _write(self, numbers: Mapping[str, float], unit: str = "") -> None:  # noqa: ARG002
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, self.last)

    def _conclude(self, model: Model) -> None:
        self._write(results(model))

    def _close(self, *, done: bool) -> None:  # noqa: ARG002
        self.writer.close()


class MLflowLog(RunLog):
    """Writes to the active run of MLflow, or to a new one; the place is a tracking URI."""

    package, extra = "mlflow", "mlflow"
    needing = "MLflow's logs need"
    begun = False

    def start(self, model: Model) -> None:
        """Begin a run, with the settings."""
        self.before = self.module.get_tracking_uri()
        try:
            with self._refusals():
                if self.place is not None:
                    self.module.set_tracking_uri(self.place)
                self.begun = self.module.active_run() is None
                if self.begun:
                    self.module.start_run()
                named = {
                    _ODD.sub("_", n): str(v)[:_LONGEST] for n, v in lasting(model.config).items()
                }
                names = list(named)
                for first in range(0, len(names), _AT_ONCE):
                    self.module.log_params({n: named[n] for n in names[first : first + _AT_ONCE]})
        except BaseException:
            self.end(None)
            raise

    def _write(self, numbers: Mapping[str, float], unit: str = "") -> None:  # noqa: ARG002
        with self._refusals():
            self.module.log_metrics(_named(numbers), step=self.last)

    def _conclude(self, model: Model) -> None:
        with self._refusals(), _folder(model) as folder:
            self.module.log_metrics(_named({"best_epoch": model.best_epoch}))
            self.module.log_metrics(_named(results(model)))
            self.module.log_artifacts(str(folder), "model")

    def _close(self, *, done: bool) -> None:
        if self.begun and self.module.active_run() is not None:
            self.module.end_run("FINISHED" if done else "FAILED")
        self.module.set_tracking_uri(self.before)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Turn errors of MLflow into a DataError."""
        try:
            yield
        except self.module.exceptions.MlflowException as error:
            raise DataError(f"MLflow refuses: {' '.join(str(error).split())[:1000]}") from None


def _named(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers under names that MLflow accepts."""
    return {_ODD.sub("_", name): value for name, value in numbers.items()}


class WandbLog(RunLog):
    """Writes to the active run of Weights & Biases, or to a new one.

    The place is a project, or ENTITY/PROJECT.
    """

    package, extra = "wandb", "wandb"
    needing = "Logs for Weights & Biases need"

    def start(self, model: Model) -> None:
        """Begin a run, with the settings."""
        self.begun = self.module.run is None
        entity, _, project = (self.place or "").rpartition("/")
        try:
            if self.begun:
                self.module.init(project=project or None, entity=entity or None)
        except self.module.errors.Error as error:
            raise DataError(f"Weights & Biases refuses: {' '.join(str(error).split())}") from None
        self.run = self.module.run
        self.run.config.update(lasting(model.config), allow_val_change=True)

    def _write(self, numbers: Mapping[str, float], unit: str) -> None:
        self.run.log({unit: self.last, **numbers})

    def _conclude(self, model: Model) -> None:
        self.run.summary.update({"best_epoch": model.best_epoch, **results(model)})
        with _folder(model) as folder:
            artifact = self.module.Artifact("fotltn-model", type="model")
            artifact.add_dir(str(folder))
            self.run.log_artifact(artifact)

    def _close(self, *, done: bool) -> None:
        if self.begun:
            self.run.finish(exit_code=0 if done else 1)


#: Loggers by name; each name is also an extra of the package.
LOGGERS: dict[str, type[RunLog]] = {
    "tensorboard": TensorBoardLog,
    "mlflow": MLflowLog,
    "wandb": WandbLog,
}
