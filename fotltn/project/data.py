"""What a project's file says about its data: tables, their columns, and what facts are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from fotltn.errors import DataError
from fotltn.grounding.measures import Entity, Measure
from fotltn.grounding.merge import Conflict
from fotltn.project.toml import Table

#: What the traces of a split are for.
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class MeasureConfig:
    """A predicate that is read off a column, as of `fotltn.grounding.measures.Measure`."""

    column: str
    at_least: float | None = None
    at_most: float | None = None
    zero: float | None = None
    one: float | None = None
    among: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None

    def measure(self) -> Measure:
        """The same with fixed entities told from columns."""
        given = None if self.arguments is None else [argument(a) for a in self.arguments]
        limits = (self.at_least, self.at_most, self.zero, self.one)
        return Measure(self.column, *limits, self.among, given)


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
    presence: tuple[str, ...]
    measures: Mapping[str, MeasureConfig]


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
        found = {"train": self.train, "validation": self.validation, "test": self.test}
        return {part: words for part, words in found.items() if words}


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where facts are, and which of them are for learning and which for testing."""

    folder: str | None = None
    facts: tuple[str, ...] = ()
    wide: tuple[WideConfig, ...] = ()
    test: tuple[str, ...] = ()
    split: SplitConfig | None = None
    horizon: int | None = None
    local: tuple[str, ...] = ()
    on_conflict: Conflict = "error"
    train: float = 1.0
    by: str = "facts"
    sort: str | None = None
    flip: float = 0.0
    seed: int = 0


def argument(text: str) -> str | Entity:
    """A column, or, after `=`, a fixed entity."""
    return Entity(text[1:]) if text.startswith("=") else text


def data_of(table: Table) -> DataConfig:
    """What the table `data` says."""
    found = DataConfig(
        table.text("folder", "") or None,
        table.texts("facts"),
        tuple(_wide(t) for t in table.tables("wide")),
        table.texts("test"),
        _split(table.table("split")) if table.has("split") else None,
        table.whole("horizon", 1, low=1) if table.has("horizon") else None,
        table.texts("local"),
        table.choice("on_conflict", get_args(Conflict), "error"),  # type: ignore[arg-type]
        table.number("train", 1.0, low=0, high=1),
        table.choice("by", ("facts", "entities", "traces"), "facts"),
        table.text("sort", "") or None,
        table.number("flip", 0.0, low=0, high=1),
        table.whole("seed", 0),
    )
    table.taken |= {"horizon", "split"}
    if found.test and found.train != 1.0:
        raise table.error(
            "train", "test facts are in files of their own, so that all others are for training"
        )
    if found.test and found.split is not None:
        raise table.error("test", "the split says which traces are for testing")
    if found.sort is not None and found.by != "entities":
        raise table.error("sort", "only a split by entities has a sort", 'by = "entities"')
    table.finish()
    return found


def _split(table: Table) -> SplitConfig:
    usual = SplitConfig("", "", "")
    found = SplitConfig(
        table.text("file"),
        table.text("trace"),
        table.text("column"),
        table.texts("train", usual.train),
        table.texts("validation", usual.validation),
        table.texts("test", usual.test),
    )
    words = [word for own in found.words.values() for word in own]
    if not found.train or len(set(words)) < len(words):
        raise table.error("train", "training needs words, and no word stands for two parts")
    table.finish()
    return found


def _wide(table: Table) -> WideConfig:
    measures = table.table("measures")
    found = WideConfig(
        table.text("file"),
        table.text("sort"),
        table.text("entity"),
        table.text("time", "") or None,
        table.text("trace", "") or None,
        _words(table, "predicates"),
        _lists(table.table("arguments")),
        table.texts("features"),
        _lists(table.table("categories")),
        table.texts("presence"),
        {name: _measure(measures.table(name)) for name in measures.values},
    )
    table.finish()
    return found


def _measure(table: Table) -> MeasureConfig:
    def limit(key: str) -> float | None:
        return table.number(key, 0.0, low=-1e300) if table.has(key) else None

    def words(key: str) -> tuple[str, ...] | None:
        return table.texts(key) if table.has(key) else None

    limits = (limit("at_least"), limit("at_most"), limit("zero"), limit("one"))
    found = MeasureConfig(table.text("column"), *limits, words("among"), words("arguments"))
    table.taken |= {"at_least", "at_most", "zero", "one", "among", "arguments"}
    table.finish()
    try:
        found.measure()
    except DataError as error:
        raise table.error(None, error.diagnostics[0].message) from None
    return found


def _words(table: Table, key: str) -> dict[str, str]:
    """Predicates by column: a list stands for columns with the names of predicates."""
    value = table.take(key, {})
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {v: v for v in value}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise table.error(key, 'expected a list of columns, or column = "Predicate"')
    return value


def _lists(table: Table) -> dict[str, tuple[str, ...]]:
    return {key: table.texts(key) for key in table.values}
