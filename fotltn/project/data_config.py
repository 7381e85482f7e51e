"""What a project's TOML file says of its data: `[data]` and the tables below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import get_args

from fotltn.errors import DataError, Diagnostic, listing, shown
from fotltn.grounding.beyond import Beyond
from fotltn.grounding.clock import Clock, clock_of
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
    """A predicate that is read off a column, as of `fotltn.grounding.measures.Measure`."""

    column: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    zero: float | None = None
    one: float | None = None
    among: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None
    only_true: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no measure."""
        self.measure()

    def measure(self) -> Measure:
        """The same with fixed entities told from columns."""
        arguments = None if self.arguments is None else [argument(a) for a in self.arguments]
        limits = (self.at_least, self.at_most, self.zero, self.one)
        return Measure(self.column, *limits, self.among, arguments, self.only_true)


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
    unknown_categories: Unknown
    missing: Mapping[str, Missing]
    presence: tuple[str, ...]
    measures: Mapping[str, MeasureConfig]


def described(wide: Wide, name: str) -> WideConfig:
    """What a project's file would say of a wide table, under a name of its own."""

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
    """What tables were read from; those of tensors, as a table of facts.

    Raises:
        DataError: tables hold what facts do not say.
    """
    sources: Sources | None = data.sources
    if sources is not None and "presence" not in sources.settings:
        return sources
    unsaid = {
        "where entities are present": bool(data.present),
        "relations": bool(data.relations),
        "vectors for equality": bool(data.features),
        "constants of sorts without names": any(
            names and sort not in data.names.entities for sort, names in data.constants.items()
        ),
    }
    if lost := [what for what, there in unsaid.items() if there]:
        raise DataError(
            Diagnostic(
                f"models are not learned from tables with {listing(lost)}",
                hint="fotltn.read reads relations and names as facts, and presence from wide "
                "tables: fotltn.Wide(…, presence=…)",
            )
        )
    from fotltn.analysis.predictions import predictions

    return Sources((predictions(data, [*data.predicates, *data.functions]),))


def with_categories(data: DataConfig, seen: Mapping[str, Features]) -> DataConfig:
    """The settings, in which the categories of text are named that were taken from the data."""

    def named(wide: WideConfig) -> WideConfig:
        known = seen[wide.sort].categories if wide.sort in seen else {}
        words = {column: known[column] for column in wide.features if column in known}
        return replace(wide, categories={**words, **wide.categories})

    return replace(data, wide=tuple(map(named, data.wide)))


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """A table that says of every trace what it is for."""

    file: str
    trace: str
    column: str
    train: tuple[str, ...] = ("train",)
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ("test",)

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """For each part, the words that stand for it."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {part: words for part, words in parts.items() if words}


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where facts are, and which of them are for learning and which for testing."""

    folder: str | None = None
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
    on_conflict: Conflict = "error"
    train: float = 1.0
    by: Split = "facts"
    sort: str | None = None
    flip: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no clock."""
        clock_of(self.step, self.origin, self.timezone)

    @property
    def clock(self) -> Clock | None:
        """What times of tables are, where they are not numbers of steps."""
        return clock_of(self.step, self.origin, self.timezone)


def argument(text: str) -> str | Entity:
    """A column, or, after `=`, a fixed entity."""
    return Entity(text[1:]) if text.startswith("=") else text


# --- reading ----------------------------------------------------------------------------------


def read_data(table: Settings) -> DataConfig:
    """What `[data]` says."""
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
    if data.test and data.train != 1.0:
        raise table.error(
            "train", "test facts are in files of their own, so that all others are for training"
        )
    if data.test and data.split is not None:
        raise table.error("test", "the split says which traces are for testing")
    if data.sort is not None and data.by not in ("entities", "time"):
        hint = 'by = "entities", or by = "time"'
        raise table.error("sort", "only a split by entities or by time has a sort", hint)
    return data


def _as_text(table: Settings, key: str) -> str:
    """Text, or a number, or a time of TOML, as text."""
    value = table.take(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise table.error(key, f"expected text in quotes, or a number, not {shown(value)}")
    return value.isoformat() if isinstance(value, date) else str(value)


def _split(data: Settings, key: str) -> SplitConfig:
    table = data.table(key)
    split = table.record(SplitConfig)
    words = [word for of_part in split.words.values() for word in of_part]
    if not split.train or len(set(words)) < len(words):
        raise table.error("train", "training needs words, and no word stands for two parts")
    return split


def _wide_tables(data: Settings, key: str) -> tuple[WideConfig, ...]:
    return tuple(
        table.record(
            WideConfig,
            predicates=_columns,
            missing=_missing,
            measures=_measures,
            unknown_categories=_unknown,
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
    """What features are where they are missing, by column: text stands for all of them."""
    value = table.take(key, {})
    if isinstance(value, str):
        features = table.values.get("features", [])
        value = dict.fromkeys([features] if isinstance(features, str) else features, value)
    kinds = get_args(Missing)
    if not isinstance(value, dict) or not all(how in kinds for how in value.values()):
        raise table.error(key, f"expected one of {listing(kinds)}, or one for each column")
    return {column: how for column, how in value.items() if how != "error"}


def _unknown(table: Settings, key: str) -> Unknown:
    unknown: Unknown = table.value(key, Unknown, "error")
    return unknown


def _columns(table: Settings, key: str) -> dict[str, str]:
    """Predicates by column: a list stands for columns with the names of predicates."""
    value = table.take(key, {})
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {v: v for v in value}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise table.error(key, 'expected a list of columns, or column = "Predicate"')
    return value
