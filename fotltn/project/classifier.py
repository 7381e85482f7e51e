"""A classifier with scikit-learn's interface: from a wide table to a probability for each row."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import pyarrow as pa
import torch

from fotltn.arguments import right_types
from fotltn.errors import DataError, did_you_mean, listing, name_hint, shown
from fotltn.grounding.cells import times
from fotltn.grounding.clock import plain_times
from fotltn.grounding.collect import Missing
from fotltn.grounding.feature_cells import Unknown
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.labels import Labels
from fotltn.grounding.measures import Entity, Measure
from fotltn.grounding.read import TablePlace, as_text
from fotltn.grounding.timeline import StepTimes, trace_rows
from fotltn.grounding.wide import Wide
from fotltn.learn.objective import predicted
from fotltn.project.api import FitSettings, belongs, train
from fotltn.project.callbacks import Callback
from fotltn.project.loggers import as_callbacks
from fotltn.project.method import obstacles
from fotltn.project.model import Model
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import AnyTheory
from fotltn.threads import entries

if TYPE_CHECKING:
    from fotltn.semantics.tables import Names

Numbers = np.ndarray[Any, np.dtype[Any]]


@entries
class Classifier:
    r"""Learns a predicate from a wide table, and predicts its probability for each row of another.

    Use it where a scikit-learn classifier fits, for example in `cross_val_score` or `GridSearchCV`.
    scikit-learn need not be installed. A frame is anything that `Wide` takes: a data frame, a
    mapping from columns to lists, or a file by name. `fit` checks the settings and does not change
    them; `set_params(training__rate=0.01)` changes a nested one.

    Args:
        theory: a theory, its file or its text, as in `train`.
        target: the predicate to predict.
        sort: the sort of the entities that rows are about. This and the arguments up to
            `unknown_categories` describe the columns, as in `Wide`.
        entity: the column with the entity that a row is about.
        time: the column with the time.
        trace: the column with the trace. Rows of one trace belong together: split by trace.
        predicates: the predicate of each column. The column of the target holds the labels, with
            empty cells where there are none; it may be missing when you predict.
        arguments: the arguments of predicates, by column.
        features: the columns that networks see.
        categories: the categories of text features, by column.
        presence: predicates that are true where there is a row.
        measures: predicates that are computed from a column, by name.
        missing: how to fill missing values of features, for all columns or by column.
        unknown_categories: how to treat a word that is not a category: "error" or "zero".
        learn: further predicates for networks to compute.
        networks: the settings that `train` calls `predicates`.
        columns: the names of the columns, for arrays. Without it, the columns of an array are x0,
            x1 and so on, as scikit-learn calls them.
        threshold: the smallest probability for which `predict` returns 1.
        settings: all settings that `train` takes, but `wide`: `define`, `preset`, `method`,
            `semantics`, `p`, `train`, `test`, `seed`, `checkpoints`, `callbacks`, `verbose`,
            `data`, `inputs`, `functions`, `exclusive`, `objective`, `training`, `posterior` and
            `machine`.

    After `fit`, `model_` is the trained model, and `classes_` holds 0 and 1, in the order of the
    columns of `predict_proba`. `n_features_in_` is the number of columns, without that of the
    target, and `feature_names_in_` has their names, unless they came as an array without `columns`.

    >>> import fotltn as fot
    >>> rows = {"who": ["ego", "ego"], "t": [0, 1], "speed": [5.0, 0.5], "stop": [0, 1]}
    >>> classifier = fot.Classifier(
    ...     "sort car\npredicate Stop(car)", "Stop", sort="car", entity="who", time="t",
    ...     predicates={"stop": "Stop"}, features=["speed"], training={"epochs": 2},
    ... )
    >>> classifier.fit(rows).predict_proba({"who": ["bus"], "t": [0], "speed": [0.0]}).shape
    (1, 2)
    """

    _estimator_type = "classifier"  # for scikit-learn before 1.6

    if TYPE_CHECKING:  # the attributes of `FitSettings`

        def __getattr__(self, name: str) -> Any: ...

    def __init__(
        self,
        theory: AnyTheory,
        target: str,
        *,
        sort: str,
        entity: str | Entity,
        time: str | None = None,
        trace: str | None = None,
        predicates: Mapping[str, str] | None = None,
        arguments: Mapping[str, Sequence[str | Entity]] | None = None,
        features: Sequence[str] = (),
        categories: Mapping[str, Sequence[str]] | None = None,
        presence: str | Sequence[str] | None = None,
        measures: Mapping[str, Measure] | None = None,
        missing: Missing | Mapping[str, Missing] = "error",
        unknown_categories: Unknown = "error",
        learn: Sequence[str] = (),
        networks: Mapping[Any, Any] | None = None,
        columns: Sequence[str] | None = None,
        threshold: float = 0.5,
        **settings: Unpack[FitSettings],
    ) -> None:
        """Store the settings; `fit` reads and checks everything."""
        self.theory, self.target = theory, target
        self.sort, self.entity, self.time, self.trace = sort, entity, time, trace
        self.predicates, self.arguments = predicates, arguments
        self.features, self.categories = features, categories
        self.presence, self.measures = presence, measures
        self.missing, self.unknown_categories = missing, unknown_categories
        self.learn, self.networks, self.columns = learn, networks, columns
        self.threshold = threshold
        for name in settings:
            _check_setting(name)
        for name in FitSettings.__annotations__:
            setattr(self, name, settings.get(name))

    # --- learning and predicting ------------------------------------------------------------------

    def fit(self, frame: Source, y: Any = None) -> Self:
        """Train on a frame.

        Args:
            frame: the wide table.
            y: the labels of its rows (true, false or a degree), instead of the target's column.

        Raises:
            FotError: columns are missing, settings are wrong, the target is not learned, or the
                model could not be applied to other frames.
        """
        unset = {n for n in FitSettings.__annotations__ if getattr(self, n) is None}
        every = self.get_params(deep=False).items()
        right_types(type(self).__init__, {n: v for n, v in every if n not in unset})
        named = self._named(frame)
        settings: dict[str, Any] = {n: getattr(self, n) for n in FitSettings.__annotations__}
        settings["callbacks"] = [_Check(self.target), *as_callbacks(self.callbacks or ())]
        model = train(
            self.theory, learn=self._learned(), wide=self._wide(self._labelled(named, y)),
            predicates=self.networks, **settings,
        )  # fmt: skip
        self.model_ = model
        self.classes_ = np.array([0, 1])
        ((_, table),) = read_sources([named])
        names = [name for name in table.column_names if name != self._column()]
        self.n_features_in_ = len(names)
        if self.columns is not None or not isinstance(frame, np.ndarray):
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def predict_proba(self, frame: Source) -> Numbers:
        """Return the probabilities that the target is false and true, shape (row, 2).

        Each row is about the entity (or the arguments), time and trace that it names. Labels in the
        frame are ignored.

        Raises:
            DataError: `fit` was not called, or the frame lacks a column or does not fit.
        """
        model = self._applied(frame)
        degrees = self._of_rows(model, model.tables, self._named(frame))
        return np.stack([1 - degrees, degrees], axis=1)

    def predict(self, frame: Source) -> Numbers:
        """Return for each row whether the target is true, as 0 or 1, shape (row,)."""
        model = self._applied(frame)
        decided = model.decided(threshold=self.threshold)
        return self._of_rows(model, decided, self._named(frame)).astype(np.int64)

    def score(self, frame: Source, y: Any = None) -> float:
        """Return the accuracy: the share of a frame's labelled facts that are predicted correctly.

        Raises:
            DataError: `fit` was not called, the frame does not fit, or it has no labels of the
                target.
        """
        labelled = self._labelled(self._named(frame), y)
        report = self._applied(labelled).metrics(threshold=self.threshold)
        if report is None or self.target not in report.predicates:
            raise DataError(f"the frame has no labels of '{self.target}', so it cannot be scored")
        return report.predicates[self.target].accuracy.value

    # --- settings ---------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; if deep, also nested ones such as `training__rate`."""
        settings = {name: getattr(self, name) for name in _settings()}
        if deep:
            for name in _settings():
                settings |= _inner(name, settings[name])
        return settings

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name; `training__rate` is the rate in `training`.

        Raises:
            DataError: there is no such setting.
        """
        for path, value in settings.items():
            name, *keys = path.split("__")
            _check_setting(name)
            setattr(self, name, _with(getattr(self, name), keys, value, name))
        return self

    def __repr__(self) -> str:
        """Show the target and the settings of training."""
        return f"Classifier(target={self.target!r}, sort={self.sort!r}, training={self.training!r})"

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` was called."""
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags; only scikit-learn calls this, so it can be imported."""
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            InputTags,
            Tags,
            TargetTags,
        )

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(multi_class=False),
            input_tags=InputTags(two_d_array=False, categorical=True, string=True),
        )

    # --- columns ----------------------------------------------------------------------------------

    def _columns(self) -> dict[str, str]:
        """Return the predicate of each column, including the target's."""
        columns = dict(self.predicates or {})
        return columns if self.target in columns.values() else {**columns, self.target: self.target}

    def _column(self) -> str:
        """Return the column of the target."""
        return next(c for c, name in self._columns().items() if name == self.target)

    def _learned(self) -> list[str]:
        """Return the predicates to learn, except those with settings in `networks`."""
        learn = [self.learn] if isinstance(self.learn, str) else list(self.learn)
        shared = [n for group in (self.networks or {}) if isinstance(group, tuple) for n in group]
        for group in self.exclusive or ():
            shared += group.get("predicates", ()) if isinstance(group, Mapping) else group
        return [n for n in dict.fromkeys([self.target, *learn]) if n not in shared]

    def _named(self, frame: Source) -> Source:
        """Give the columns of an array their names; return any other frame as it is.

        Raises:
            DataError: an array has other axes than rows and columns, or another number of columns.
        """
        if not isinstance(frame, np.ndarray):
            return frame
        if frame.ndim != 2:
            raise DataError(f"an array needs the axes (row, column), not shape {frame.shape}")
        names = [f"x{number}" for number in range(frame.shape[1])]
        if self.columns is not None:
            names = list(self.columns)
        elif hasattr(self, "feature_names_in_"):  # fitted to a frame
            names = list(self.feature_names_in_)
        if len(names) != frame.shape[1]:
            raise DataError(
                f"the array has {frame.shape[1]} columns, but there are {len(names)} names",
                hint=f"columns=[…] names each of its columns; there are {listing(names)}",
            )
        return {name: _cells(frame[:, number]) for number, name in enumerate(names)}

    def _wide(self, frame: Source) -> Wide:
        return Wide(
            frame, self.sort, self.entity, self.time, self.trace, self._columns(),
            self.arguments or {}, self.features, self.categories or {}, self.presence,
            self.measures or {}, missing=self.missing, unknown_categories=self.unknown_categories,
        )  # fmt: skip

    def _labelled(self, frame: Source, y: Any) -> Source:
        """Put labels into the target's column of a frame."""
        if y is None:
            return frame
        ((_, table),) = read_sources([frame])
        labels = y.tolist() if hasattr(y, "tolist") else list(y)
        if len(labels) != table.num_rows:
            raise DataError(
                f"there are {len(labels)} labels for {table.num_rows} rows; one per row is needed"
            )
        cells = [None if label is None or label != label else str(label) for label in labels]
        column = self._column()
        others = table.drop_columns([column] if column in table.column_names else [])
        return others.append_column(column, pa.array(cells, pa.string()))

    # --- predictions ------------------------------------------------------------------------------

    def _applied(self, frame: Source) -> Model:
        """Apply the model to a frame."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted("the classifier has not been trained; call fit(frame) first")
        (name,) = (wide.file for wide in self.model_.config.data.wide)
        return self.model_.apply({name: self._named(frame)})

    def _of_rows(self, model: Model, tables: Tables, frame: Source) -> Numbers:
        """Return the degree of the target in each row, shape (row,)."""
        ((place, table),) = read_sources([frame])
        declared = model.theory.signature.predicates[self.target]
        named = (self.arguments or {}).get(self._column(), (self.entity,))
        wanted = [*named, self.trace]
        columns = dict.fromkeys(c for c in wanted if isinstance(c, str))
        text = as_text(place, table.select(list(columns)))
        rows = table.num_rows
        traces = _numbered(text, self.trace, {t: i for i, t in enumerate(model.facts.traces)}, rows)
        index = [traces]
        for argument, sort in zip(named, declared.sorts, strict=True):
            index.append(_entities(text, argument, sort, traces, model.facts.names))
        if declared.static or self.time is None:
            index.append(np.zeros(rows, np.int64))
        else:
            index.append(_times(place, table, self.time, self.trace, model.facts.timeline))
        cells = torch.as_tensor(np.stack(index), device=model.world.fixed.lengths.device)
        asked = Labels({self.target: cells}, {})
        return predicted(asked, tables)[self.target].double().cpu().numpy()


class _Check(Callback):
    """Raises an error before training if the model could not predict for other frames."""

    def __init__(self, target: str) -> None:
        self.target = target

    def start(self, model: Model) -> None:
        if self.target not in model.grounding.open:
            raise DataError(
                f"'{self.target}' is not learned, so it cannot be predicted",
                hint=f"these are learned: {listing(model.grounding.open)}",
            )
        if reasons := obstacles(model.config, model.world):
            raise DataError(
                f"the model could not predict for other frames: {'; '.join(reasons)}",
                hint="name features, and give inputs no embedding",
            )


def _numbered(text: pa.Table, column: str | None, numbers: Mapping[str, int], rows: int) -> Numbers:
    """Return the number of the name in each row; without a column or name, the only one."""
    names = [None] * rows if column is None else text.column(column).to_pylist()
    only = 0 if len(numbers) == 1 else None
    places = [only if name is None else numbers[name] for name in names]
    if None in places:
        raise DataError(
            f"row {places.index(None) + 1} does not name its trace, and there are several"
        )
    return np.array(places, dtype=np.int64)


def _times(
    place: TablePlace, table: pa.Table, column: str, trace: str | None, timeline: StepTimes | None
) -> Numbers:
    """Return the time point of each row, converted by the clock if there is one."""
    if timeline is None:
        points, wrong = times(as_text(place, table.select([column])).column(column))
    else:
        read = timeline.clock.read(plain_times(place, table, column))
        names, traces = trace_rows(place, table, trace)
        points, wrong = timeline.steps(read, traces, names), ~read.good
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0]) + 1
        raise DataError(f"row {row} has no valid time, so there is no prediction")
    return points


def _entities(
    text: pa.Table, argument: str | Entity, sort: str, traces: Numbers, names: Names
) -> Numbers:
    """Return the number of the entity in each row, within its trace."""
    if isinstance(argument, Entity):
        cells: Sequence[str | None] = [argument.name] * len(traces)
    else:
        cells = text.column(argument).to_pylist()
    if None in cells:
        raise DataError(f"row {cells.index(None) + 1} names no '{sort}', so there is no prediction")
    if sort not in names.local:
        numbers = {name: i for i, name in enumerate(names.entities[sort])}
        return np.array([numbers[str(cell)] for cell in cells], dtype=np.int64)
    within = [{name: i for i, name in enumerate(listed)} for listed in names.local[sort]]
    places = [within[trace][str(cell)] for trace, cell in zip(traces, cells, strict=True)]
    return np.array(places, dtype=np.int64)


# --- settings ---------------------------------------------------------------------------------


def _settings() -> list[str]:
    """Return the names of all settings."""
    parameters = inspect.signature(Classifier.__init__).parameters
    return [*(n for n in parameters if n not in ("self", "settings")), *FitSettings.__annotations__]


def _check_setting(name: str) -> None:
    """Raise an error unless a setting exists."""
    if name in _settings():
        return
    place = belongs(name, "…")
    hint = did_you_mean(name, _settings(), 0.75)
    hint = hint or (place and place.replace("'…'", "…")) or name_hint(name, _settings())
    if name in ("class_weight", "sample_weight"):
        hint = (
            "probabilities are those of the facts as they are; to find more of a rare class, lower "
            'threshold=; objective={"fact_weights": …} weighs all facts of a predicate'
        )
    raise DataError(f"a classifier has no setting '{name}'; {hint}")


def _cells(column: Numbers) -> list[Any]:
    """Return the cells of a column of an array; whole numbers as such, empty ones as None."""
    cells = [None if cell is None or cell != cell else cell for cell in column.tolist()]
    floats = [cell for cell in cells if isinstance(cell, float)]
    if floats and all(cell.is_integer() and abs(cell) < 2**53 for cell in floats):
        return [int(cell) if isinstance(cell, float) else cell for cell in cells]
    return cells


def _not_fitted(text: str) -> DataError:
    """Return the error of a classifier that is not fitted: also scikit-learn's, if it is there."""
    try:
        from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
    except ImportError:
        return DataError(text)
    kind = type("NotFittedError", (DataError, NotFittedError), {"__module__": __name__})
    error: DataError = kind(text)
    return error


def _inner(path: str, value: Any) -> dict[str, Any]:
    """Return nested settings by path."""
    if not isinstance(value, Mapping):
        return {}
    inner: dict[str, Any] = {}
    for key, part in value.items():
        if isinstance(key, str):
            inner |= {f"{path}__{key}": part, **_inner(f"{path}__{key}", part)}
    return inner


def _with(value: Any, keys: Sequence[str], new: Any, path: str) -> Any:
    """Return a copy of nested settings with a new value at one place."""
    if not keys:
        return new
    if value is not None and not isinstance(value, Mapping):
        raise DataError(f"the setting '{path}' is {shown(value)}, which has no '{keys[0]}'")
    first, *rest = keys
    before = dict(value or {})
    return {**before, first: _with(before.get(first), rest, new, f"{path}__{first}")}
