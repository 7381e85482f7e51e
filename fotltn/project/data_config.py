"""The data settings of a project: `[data]` and the tables below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import get_args

from fotltn.errors import DataError, listing, shown
from fotltn.grounding.beyond import Beyond
from fotltn.grounding.block_reader import FeatureColumns
from fotltn.grounding.clock import Clock, ClockKind, clock_of
from fotltn.grounding.collect import Missing
from fotltn.grounding.feature_cells import Unknown
from fotltn.grounding.features import Features
from fotltn.grounding.measures import Entity, Measure
from fotltn.grounding.merge import Conflict
from fotltn.grounding.split import Split
from fotltn.grounding.wide import Sources, Wide
from fotltn.project.toml import Range, Settings
from fotltn.semantics.tables import Tables


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """A predicate computed from a column, as in `fotltn.grounding.measures.Measure`."""

    column: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    zero: float | None = None
    one: float | None = None
    among: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None
    only_true: bool = False

    def __post_init__(self) -> None:
        """Raise an error unless these settings make a measure."""
        self.measure()

    def measure(self) -> Measure:
        """Return the measure, with fixed entities instead of `=name`."""
        arguments = None if self.arguments is None else [argument(a) for a in self.arguments]
        limits = (self.at_least, self.at_most, self.zero, self.one)
        return Measure(self.column, *limits, self.among, arguments, self.only_true)


@dataclass(frozen=True, slots=True)
class WideConfig:
    """A wide table, as in `fotltn.grounding.wide.Wide`."""

    file: str
    sort: str
    entity: str
    time: str | None
    trace: str | None
    predicates: Mapping[str, str]
    arguments: Mapping[str, tuple[str, ...]]
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    unknown_categories: Unknown = "error"
    missing: Mapping[str, Missing] = field(default_factory=dict)
    presence: tuple[str, ...] = ()
    measures: Mapping[str, MeasureConfig] = field(default_factory=dict)


def own_traces(wide: Iterable[WideConfig]) -> tuple[str, ...]:
    """Return the sorts whose entities each have a trace of their own: one column names both."""
    return tuple(dict.fromkeys(w.sort for w in wide if w.trace == w.entity))


def described(wide: Wide, name: str) -> WideConfig:
    """Return the settings of a wide table under a name, as a project's file would state them."""

    def text(value: str | Entity) -> str:
        return f"={value.name}" if isinstance(value, Entity) else value

    def texts(values: Sequence[str | Entity]) -> tuple[str, ...]:
        return tuple(map(text, values))

    measures = {
        predicate: MeasureConfig(
            m.column, m.at_least, m.at_most, m.zero, m.one,
            None if m.among is None else tuple(m.among),
            None if m.arguments is None else texts(m.arguments), m.only_true,
        )
        for predicate, m in wide.measures.items()
    }  # fmt: skip
    return WideConfig(
        name, wide.sort, text(wide.entity), wide.time, wide.trace, dict(wide.predicates),
        {column: texts(names) for column, names in wide.arguments.items()}, tuple(wide.features),
        {column: tuple(words) for column, words in wide.categories.items()},
        wide.unknown_categories, wide.filled, wide.present, measures,
    )  # fmt: skip


def sources_of(data: Tables) -> Sources:
    """Return the sources that tables were read from; tables built from tensors become facts.

    Raises:
        DataError: the tables hold something that facts cannot state.
    """
    sources: Sources | None = data.sources
    if sources is not None and "presence" not in sources.settings:
        return sources
    unsaid = {
        "the presence of entities": bool(data.present),
        "relations": bool(data.relations),
        "vectors for equality": bool(data.features),
        "constants of sorts without names": any(
            names and sort not in data.names.entities for sort, names in data.constants.items()
        ),
    }
    if lost := [what for what, there in unsaid.items() if there]:
        raise DataError(
            f"cannot train on tables with {listing(lost)}",
            hint="use fotltn.read, which reads relations and names from facts, and presence "
            "from wide tables: fotltn.Wide(…, presence=…)",
        )
    from fotltn.analysis.predictions import predictions

    return Sources((predictions(data, [*data.predicates, *data.functions]),))


def with_categories(data: DataConfig, seen: Mapping[str, Features | FeatureColumns]) -> DataConfig:
    """Return the settings with the categories that were taken from the data."""

    def named(wide: WideConfig) -> WideConfig:
        known = seen[wide.sort].categories if wide.sort in seen else {}
        words = {column: known[column] for column in wide.features if column in known}
        return replace(wide, categories={**words, **wide.categories})

    return replace(data, wide=tuple(map(named, data.wide)))


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """A table that assigns each trace to training, validation or testing."""

    file: str
    trace: str
    column: str
    train: tuple[str, ...] = ("train",)
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ("test",)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The words that stand for each part."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {part: words for part, words in parts.items() if words}


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where facts are, and which of them are for training and testing."""

    folder: str | None = None
    prepared: str | None = None
    facts: tuple[str, ...] = ()
    wide: tuple[WideConfig, ...] = ()
    test: tuple[str, ...] = ()
    split: SplitConfig | None = None
    horizon: int | None = None
    beyond: Beyond = "error"
    local: tuple[str, ...] = ()
    step: str | None = None
    origin: str | None = None
    timezone: str | None = None
    clock: ClockKind | None = None
    on_conflict: Conflict = "error"
    train: float = 1.0
    by: Split = "facts"
    sort: str | None = None
    flip: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise an error unless step, origin, time zone and clock fit together."""
        _ = self.timing

    def undrawn(self) -> DataConfig:
        """Return the settings for data to predict: no labels are drawn, flipped or held back."""
        return replace(self, test=(), split=None, train=1.0, by="facts", sort=None, flip=0.0)

    @property
    def timing(self) -> Clock | None:
        """How times map to steps; None if times are step numbers.

        Settings that name no clock, as those of 0.2.0, mean a shared one.
        """
        kind = self.clock
        if kind is None and self.step is not None:
            kind = "shared"
        return clock_of(self.step, self.origin, self.timezone, kind)


def argument(text: str) -> str | Entity:
    """Return the column, or the fixed entity after `=`."""
    return Entity(text[1:]) if text.startswith("=") else text


# --- reading ----------------------------------------------------------------------------------


def read_data(table: Settings, *, before: bool = False) -> DataConfig:
    """Read the settings of `[data]`; `before` keeps the meaning of files of version 0.2.0."""
    share = Range(0, 1)
    data = table.record(
        DataConfig,
        wide=_wide_tables,
        split=_split,
        horizon=Range(1),
        train=share,
        flip=share,
        step=_as_text,
        origin=_as_text,
    )
    if not before and not table.has("local"):
        data = replace(data, local=own_traces(data.wide))
    if data.test and data.train != 1.0:
        raise table.error(
            "train", "train cannot be set with test: facts for testing have their own files"
        )
    if data.test and data.split is not None:
        raise table.error("test", "test cannot be set with split, which says what to test on")
    if data.sort is not None and data.by not in ("entities", "time"):
        hint = 'by = "entities", or by = "time"'
        raise table.error("sort", "sort applies only to a split by entities or by time", hint)
    return data


def _as_text(table: Settings, key: str) -> str:
    """Return a text, a number or a TOML time as text."""
    value = table.take(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise table.error(key, f"expected text in quotes, or a number, not {shown(value)}")
    return value.isoformat() if isinstance(value, date) else str(value)


def _split(data: Settings, key: str) -> SplitConfig:
    table = data.table(key)
    split = table.record(SplitConfig)
    words = [word for of_part in split.words.values() for word in of_part]
    if not split.train or len(set(words)) < len(words):
        raise table.error("train", "train needs at least one word, and no word can be in two parts")
    return split


def _wide_tables(data: Settings, key: str) -> tuple[WideConfig, ...]:
    return tuple(
        table.record(
            WideConfig,
            predicates=_columns,
            missing=_missing,
            measures=_measures,
        )
        for table in data.tables(key)
    )


def _measures(wide: Settings, key: str) -> dict[str, MeasureConfig]:
    limit = Range(-1e300)
    return wide.by_name(
        key,
        lambda table, name: table.table(name).record(
            MeasureConfig, at_least=limit, at_most=limit, zero=limit, one=limit
        ),
    )


def _missing(table: Settings, key: str) -> dict[str, Missing]:
    """Read how to fill missing features, by column; a text applies to all columns."""
    value = table.take(key, {})
    if isinstance(value, str):
        features = table.values.get("features", [])
        value = dict.fromkeys([features] if isinstance(features, str) else features, value)
    kinds = get_args(Missing)
    if not isinstance(value, dict) or not all(how in kinds for how in value.values()):
        raise table.error(key, f"expected one of {listing(kinds)}, or one for each column")
    return {column: how for column, how in value.items() if how != "error"}


def _columns(table: Settings, key: str) -> dict[str, str]:
    """Read predicates by column; in a list, columns are named like the predicates."""
    value = table.take(key, {})
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {v: v for v in value}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise table.error(key, 'expected a list of columns, or column = "Predicate"')
    return value
