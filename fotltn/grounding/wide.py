"""Read wide tables: one row per entity and time point, one column per predicate and feature."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from fotltn.arguments import public
from fotltn.errors import name_hint
from fotltn.grounding.beyond import Beyond, carried
from fotltn.grounding.cells import A_TIME, Ints, times, where
from fotltn.grounding.clock import Clock, complain_of_stamps, time_hint
from fotltn.grounding.collect import Collector, Missing, Rows, SourceRows, Symbol, SymbolKind
from fotltn.grounding.dense import stated_presence
from fotltn.grounding.facts import Facts, assemble
from fotltn.grounding.feature_cells import Unknown, close_categories, collect_feature
from fotltn.grounding.features import Features, features
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.long import collect_long, read_symbol, read_traces
from fotltn.grounding.measures import Entity as Entity
from fotltn.grounding.measures import Measure as Measure
from fotltn.grounding.merge import Conflict, distinct
from fotltn.grounding.read import TablePlace, as_text
from fotltn.grounding.timeline import TimedTable, on_clock
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Names


@public
@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    r"""Describe the columns of a wide table; columns that are not named here are not read.

    Use it for a table with one row per entity and time point, and columns for what is known then.

    Args:
        source: a file by name, a data frame, or a mapping from columns to lists.
        sort: the sort of the entities that rows are about.
        entity: the column with their names, or the one `Entity` that all rows are about.
        time: the column with the time; without it, the table is static.
        trace: the column with the trace. Without it, rows belong to the only trace or, if the table
            is static, to every trace.
        predicates: the predicate or function that each column states. A cell is a degree, true or
            false, yes or no; for a function, its result. An empty cell states nothing.
        arguments: for a column among `predicates`, the columns of the arguments, or fixed entities.
            By default, the entity of the row is the only argument.
        features: columns with numbers, true and false, or text.
        categories: all words that a text column among `features` may hold. By default, the words in
            the data in alphabetical order, at most 100. Each category becomes a feature that is 1
            where the cell holds it.
        presence: a predicate of one entity that is true where there is a row; or several, such as
            one that changes over time and one that is static.
        measures: predicates whose degrees are computed from a column, by name.
        optional: predicates that state nothing if the table lacks their column.
        missing: how to fill features that have no value, for all columns or by column: raise an
            error ("error"), or use the mean of the training data ("mean"), 0 ("zero"), or the last
            value and before it the mean ("last"). Except with "error", a feature "COLUMN missing"
            is added, which is 1 where the value is missing.
        unknown_categories: how to treat a word that `categories` does not list: raise an error
            ("error"), or set all categories to 0 ("zero").

    In a table with times, a predicate or function may be static, or not mention the entity of the
    row. Many rows then state the same fact, and they must agree.

    >>> import fotltn as fot
    >>> theory = fot.parse("sort car\npredicate Stop(car)")
    >>> rows = {"who": ["ego", "bus", "ego"], "t": [0, 0, 1], "halt": [0, 1, 1]}
    >>> table = fot.Wide(rows, sort="car", entity="who", time="t", predicates={"halt": "Stop"})
    >>> fot.evaluate("exists x. G Stop(x)", fot.read(theory, wide=table), semantics="crisp")
    tensor(False)
    """

    source: Source
    sort: str
    entity: str | Entity
    time: str | None = None
    trace: str | None = None
    predicates: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Sequence[str | Entity]] = field(default_factory=dict)
    features: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    presence: str | Sequence[str] | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    optional: Collection[str] = ()
    missing: Missing | Mapping[str, Missing] = "error"
    unknown_categories: Unknown = "error"

    @property
    def present(self) -> tuple[str, ...]:
        """The predicates that are true where there is a row."""
        named = () if self.presence is None else self.presence
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def filled(self) -> dict[str, Missing]:
        """How to fill each feature that may be missing."""
        by_column = self.missing
        if isinstance(by_column, str):
            by_column = dict.fromkeys(self.features, by_column)
        return {column: how for column, how in by_column.items() if how != "error"}


class Sources(NamedTuple):
    """The tables that data are read from, and the settings to read them with.

    Args:
        facts: the long tables.
        wide: the wide tables.
        settings: the settings in `[data]` of a project.
    """

    facts: tuple[Source, ...]
    wide: tuple[Wide, ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})


def read_wide(
    tables: Iterable[Wide],
    signature: Signature,
    *,
    facts: Iterable[Source] = (),
    horizon: int | None = None,
    local: Sequence[str] = (),
    on_conflict: Conflict = "error",
    clock: Clock | None = None,
    beyond: Beyond = "error",
    dtype: torch.dtype = torch.float64,
    names: Names | None = None,
    tests: int = 0,
) -> tuple[Facts, dict[str, Features]]:
    """Read wide and long tables as one set of facts, and features by sort.

    Tables of one sort may share a feature; they are then parts of one table. A feature needs a
    value wherever its entity is present: at every time point of every trace or, if a table of the
    sort names a presence predicate, where that is true. Elsewhere features are 0.

    Args:
        tables: the wide tables.
        signature: the declarations of the symbols that facts may be about.
        facts: the long tables; they are read before the wide tables.
        horizon: the number of time points of every trace, as in `read_facts`.
        local: sorts whose entities are numbered within each trace, as in `read_facts`.
        on_conflict: how to settle contradictions in facts and features, as in `read_facts`.
        clock: how times map to steps, as in `read_facts`.
        beyond: how to treat features after the last row of a trace: raise an error, or repeat the
            last values.
        dtype: the type of the features.
        names: traces and shared entities that are already numbered, if the tables hold only some of
            the traces.
        tests: how many of the long tables, the last ones, state test facts.

    Raises:
        DataError: lists each bad cell with its file, row, column, value and what was expected, up
            to 20; or names a feature that has no value.
    """
    listed, long = list(tables), list(facts)
    collector = Collector(signature, names)
    sources: Iterable[tuple[TablePlace, pa.Table]]
    sources = read_sources([*long, *(wide.source for wide in listed)])
    timeline = None
    if clock is not None:
        columns = [*[("time", "trace")] * len(long), *((w.time, w.trace) for w in listed)]
        timed = [TimedTable(*one, *named) for one, named in zip(sources, columns, strict=True)]
        timeline, sources = on_clock(collector, clock, timed)
    for number, (place, table) in enumerate(sources):
        collector.testing = len(long) - tests <= number < len(long)
        if number < len(long):
            collect_long(collector, place, table)
        else:
            collect_wide(collector, listed[number - len(long)], place, table)
    close_categories(collector)
    assembled, rows = assemble(collector, horizon=horizon, local=local, on_conflict=on_conflict)
    present = stated_presence((wide.present for wide in listed), signature)
    assembled = replace(assembled, present=present, timeline=timeline)
    if beyond == "last":
        assembled, rows = carried(assembled, rows, collector.symbols, signature)
    return assembled, features(rows, collector.symbols, assembled, dtype)


def columns_of(wide: Wide, signature: Signature) -> set[str]:
    """Return the columns of a wide table that are read."""
    return _WideReader(Collector(signature), wide, TablePlace("", "frame")).columns


def collect_wide(collector: Collector, wide: Wide, place: TablePlace, raw: pa.Table) -> None:
    """Collect the facts and features of a wide table."""
    collector.begin(place)
    before = collector.count
    complain_of_stamps(collector, place, raw, wide.time)
    reader = _WideReader(collector, _without_missing(wide, raw.column_names), place)
    reader.check(raw.column_names)
    if collector.count == before:
        reader.collect(raw)


def _without_missing(wide: Wide, columns: Collection[str]) -> Wide:
    """Drop the optional predicates whose columns the table lacks."""

    def there(name: str, column: str | None) -> bool:
        return name not in wide.optional or column is None or column in columns

    missing = {c for c, n in wide.predicates.items() if not there(n, c)}
    return replace(
        wide,
        predicates={c: n for c, n in wide.predicates.items() if c not in missing},
        arguments={c: a for c, a in wide.arguments.items() if c not in missing},
        measures={n: m for n, m in wide.measures.items() if there(n, m.column)},
    )


class _WideReader:
    def __init__(self, collector: Collector, wide: Wide, place: TablePlace) -> None:
        self.collector, self.wide, self.place = collector, wide, place
        #: The facts that cells state: the column, the predicate or function, and its measure.
        self.stated: list[tuple[str, str, Measure | None]] = [
            *((column, name, None) for column, name in wide.predicates.items()),
            *((_read_off(measure, wide), name, measure) for name, measure in wide.measures.items()),
        ]
        measured = [measure.arguments or () for measure in wide.measures.values()]
        arguments = [c for args in (*wide.arguments.values(), *measured) for c in args]
        named = [*arguments, wide.entity, wide.time, wide.trace, *wide.categories]
        #: The columns that are read as text, and all columns that are read.
        self.texts = {c for c in named if isinstance(c, str)} | {c for c, _, _ in self.stated}
        self.columns = self.texts | set(wide.features)

    def arguments(self, column: str, _: str, measure: Measure | None) -> Sequence[str | Entity]:
        """Return the arguments of the facts that a column states."""
        named = self.wide.arguments.get(column) if measure is None else measure.arguments
        return (self.wide.entity,) if named is None else named

    def complain(
        self, column: str | None, row: int | None, message: str, hint: str | None = None
    ) -> None:
        """Record an error in a column, or in the table."""
        self.collector.complain(replace(self.place, column=column), row, message, hint)

    # --- do the columns fit the signature? -----------------------------------------------------

    def check(self, names: Sequence[str]) -> None:
        """Report columns that are missing or do not fit the signature."""
        self._check_columns(names)
        for stated in self.stated:
            self._check_symbol(*stated)
        for name in self.wide.present:
            self._check_presence(name)

    def _check_columns(self, names: Sequence[str]) -> None:
        wide, known = self.wide, self.collector.entities
        if wide.sort not in known:
            hint = name_hint(wide.sort, known, "declared:")
            self.complain(None, None, f"unknown sort '{wide.sort}' of a wide table", hint)
        if not self.columns:
            self.complain(None, None, "a wide table must name at least one column")
        for column in sorted(self.columns):
            if column not in names:
                self.complain(None, None, f"no column '{column}'", name_hint(column, names))
            elif list(names).count(column) > 1:
                self.complain(None, None, f"the column '{column}' occurs twice")
        for column in wide.arguments:
            if column not in wide.predicates:
                message = f"arguments are given for '{column}', which is not among the predicates"
                self.complain(None, None, message)
        for column in wide.features:
            if list(wide.features).count(column) > 1:
                self.complain(None, None, f"the feature '{column}' is named twice")
                break
        for column, words in wide.categories.items():
            if column not in wide.features:
                message = f"categories are given for '{column}', which is not among the features"
                self.complain(None, None, message)
            if not words or len(set(words)) < len(words):
                message = f"the categories of '{column}' must be one or more different words"
                self.complain(None, None, message)
        for column, how in wide.filled.items():
            if column not in wide.features:
                message = f"missing is set for '{column}', which is not among the features"
                self.complain(None, None, message)
            elif how == "last" and wide.time is None:
                message = "a static feature has no last value"
                self.complain(column, None, message, 'use missing = "mean" or "zero"')
            elif f"{column} missing" in wide.features:
                message = (
                    f"the feature '{column} missing' is added, but a column has this name as well"
                )
                self.complain(None, None, message)

    def _check_symbol(self, column: str, name: str, measure: Measure | None) -> None:
        wide, signature = self.wide, self.collector.signature
        if measure is not None and name in signature.functions:
            hint = f"list functions among the predicates, by column: {column} = {name}"
            message = f"'{name}' is a function, but only predicates can be measured"
            self.complain(column, None, message, hint)
            return
        known = [*signature.predicates, *signature.functions]
        if name not in known:
            hint = name_hint(name, known, "declared:")
            self.complain(column, None, f"unknown predicate '{name}'", hint)
            return
        symbol = self.collector.symbols[name]
        arguments = self.arguments(column, name, measure)
        if len(arguments) != len(symbol.sorts):
            takes = f"{len(symbol.sorts)} argument{'s' * (len(symbol.sorts) != 1)}"
            hint = "name the columns or fixed entities that are its arguments"
            message = f"'{name}' takes {takes}, but the table gives {len(arguments)}"
            self.complain(column, None, message, hint)
            return
        for argument, sort in zip(arguments, symbol.sorts, strict=True):
            if argument == wide.entity and sort != wide.sort:
                who = wide.entity.name if isinstance(wide.entity, Entity) else wide.entity
                message = f"'{name}' takes a '{sort}', but '{who}' is of sort '{wide.sort}'"
                self.complain(column, None, message)
        self._check_time(column, name, symbol.static)

    def _check_presence(self, name: str) -> None:
        known, sort = self.collector.signature.predicates, self.wide.sort
        if name not in known:
            hint = name_hint(name, known, "declared:")
            self.complain(None, None, f"unknown predicate '{name}' for presence", hint)
        elif known[name].sorts != (sort,):
            taken = f"'{name}({', '.join(known[name].sorts)})'"
            message = f"presence needs a predicate of one '{sort}', not {taken}"
            self.complain(None, None, message)
        else:
            self._check_time(None, name, known[name].static)

    def _check_time(self, column: str | None, name: str, static: bool) -> None:
        if self.wide.time is None and not static:
            message = f"'{name}' changes over time, but the table has no time column"
            self.complain(column, None, message)

    # --- rows ---------------------------------------------------------------------------------

    def collect(self, raw: pa.Table) -> None:
        """Collect the facts and features of the rows."""
        wide = self.wide
        table = raw.select(sorted(self.columns, key=raw.column_names.index))
        typed = [c for c in wide.features if c not in wide.categories and _numeric(table.column(c))]
        text = as_text(self.place, table.drop_columns([c for c in typed if c not in self.texts]))
        rows = self._rows(table, text)
        text, table = text.take(pa.array(rows)), table.take(pa.array(rows))
        base = self._existence(text, rows)
        for stated in self.stated:
            self._collect_symbol(text, rows, *stated)
        for column in wide.features:
            cells = table.column(column) if column in typed else text.column(column)
            self._collect_feature(base, column, cells)

    def _rows(self, table: pa.Table, text: pa.Table) -> Ints:
        """Return the rows that have an entity and a time, after reporting those that do not."""
        wide = self.wide
        columns = [text.column(c) for c in text.column_names]
        columns += [table.column(c) for c in table.column_names if c not in text.column_names]
        good = np.zeros(table.num_rows, dtype=bool)  # stays False for empty lines
        for column in columns:
            good |= pc.is_valid(column).to_numpy()
        if isinstance(wide.entity, str):
            nameless = pc.is_null(text.column(wide.entity)).to_numpy()
            for row in np.flatnonzero(nameless & good):
                message = f"empty; expected an entity of sort '{wide.sort}'"
                self.complain(wide.entity, int(row), message)
            good &= ~nameless
        if wide.time is not None:
            column = text.column(wide.time)
            wrong = times(column)[1]
            for row in np.flatnonzero(wrong & good):
                cell = column[int(row)].as_py()
                what = "empty" if cell is None else f"'{cell}' is not a time"
                message = f"{what}; expected {A_TIME}"
                self.complain(wide.time, int(row), message, time_hint(cell))
            good &= ~wrong
        return np.flatnonzero(good)

    def _existence(self, text: pa.Table, rows: Ints) -> SourceRows:
        """Collect where entities exist, and where the presence predicates are true."""
        wide, collector = self.wide, self.collector
        static = wide.time is None
        entity = collector.entities[wide.sort].encode(_argument(wide.entity, text, len(rows)))
        time = np.full(len(rows), -1, dtype=np.int64)
        if wide.time is not None:
            time = times(text.column(wide.time))[0]
        trace = read_traces(collector, self._long_names(text))
        there = Rows(trace, entity[:, None], time, np.ones(len(rows)))
        source = SourceRows(there, self.place, rows)
        key = f"rows of {wide.sort}, {'static' if static else 'over time'}"
        collector.symbols[key] = Symbol(wide.sort, SymbolKind.EXISTENCE, (wide.sort,), static)
        collector.add(key, source)
        for name in wide.present:
            collector.quiet.add(name)
            always = replace(there, time=np.full_like(time, -1))
            where_there = always if collector.symbols[name].static else there
            collector.add(name, distinct(source._replace(rows=where_there)))
        return source

    def _long_names(self, text: pa.Table) -> pa.Table:
        """Return the trace and time columns under the names they have in a long table."""
        names = {"time": self.wide.time, "trace": self.wide.trace}
        columns = {new: text.column(old) for new, old in names.items() if old is not None}
        return pa.table(columns) if columns else text.select([])

    def _collect_symbol(
        self, text: pa.Table, rows: Ints, column: str, name: str, measure: Measure | None
    ) -> None:
        symbol = self.collector.symbols[name]
        arguments = self.arguments(column, name, measure)
        filled = pc.is_valid(text.column(column))
        if measure is not None and measure.column is None:  # skip rows that lack an argument
            for argument in arguments:
                cells = _argument(argument, text, text.num_rows)
                filled = pc.and_(filled, pc.is_valid(cells))
        stated = where(filled)
        table, numbers = text.take(pa.array(stated)), rows[stated]
        columns = {}
        before = self.collector.count
        for number, argument in enumerate(arguments, 1):
            columns[f"arg{number}"] = cells = _argument(argument, table, len(numbers))
            if isinstance(argument, str):
                sort = symbol.sorts[number - 1]
                for i in where(pc.is_null(cells)):
                    message = f"empty; '{name}' needs an argument of sort '{sort}'"
                    self.complain(argument, int(numbers[i]), message)
        if self.collector.count > before or not len(numbers):
            return
        long = self._long_names(table)
        if "trace" in long.column_names:
            columns["trace"] = long.column("trace")
        if "time" in long.column_names and not symbol.static:
            columns["time"] = long.column("time")
        truth = table.column(column)
        if measure is not None:
            degrees, wrong = measure.degrees(truth)
            for i in np.flatnonzero(wrong):
                message = (
                    f"'{truth[int(i)]}' is not a number, so it cannot give a degree of '{name}'"
                )
                self.complain(column, int(numbers[i]), message)
            if wrong.any():
                return
            truth = pa.chunked_array([pa.array(degrees)])
            if measure.only_true:
                true = np.flatnonzero(degrees > 0)
                truth, numbers = truth.take(pa.array(true)), numbers[true]
                columns = {key: cells.take(pa.array(true)) for key, cells in columns.items()}
        columns["value" if symbol.kind == SymbolKind.FUNCTION else "truth"] = truth
        at = replace(self.place, column=column)
        source = read_symbol(self.collector, name, at, pa.table(columns), numbers, ())
        if source is None:
            return
        always = symbol.static and self.wide.time is not None
        once = measure is not None and (measure.only_true or measure.column is None)
        repeats = always or once or self.wide.entity not in arguments
        self.collector.add(name, distinct(source) if repeats else source)

    def _collect_feature(self, base: SourceRows, column: str, cells: pa.ChunkedArray) -> None:
        wide, words = self.wide, self.wide.categories.get(column)
        symbol = Symbol(
            column, SymbolKind.FEATURE, (wide.sort,), wide.time is None,
            categories=None if words is None else tuple(words),
            missing=wide.filled.get(column, "error"),
        )  # fmt: skip
        at = replace(self.place, column=column)
        collect_feature(self.collector, at, symbol, base, cells, wide.unknown_categories)


def _read_off(measure: Measure, wide: Wide) -> str:
    """Return the column that a measure reads; without one, a column that is never empty.

    If no column names the entity of the rows, it is a column of the measure's arguments.
    """
    named = [measure.column, wide.entity, *(measure.arguments or ()), wide.time, wide.trace]
    return next((column for column in named if isinstance(column, str)), "")


def _numeric(column: pa.ChunkedArray) -> bool:
    kinds = ("is_integer", "is_floating", "is_boolean", "is_decimal")
    return any(getattr(pa.types, kind)(column.type) for kind in kinds)


def _argument(argument: str | Entity, table: pa.Table, rows: int) -> pa.ChunkedArray:
    """Return a column of a table, or a constant column for a fixed entity."""
    if isinstance(argument, str):
        return table.column(argument)
    codes = pa.array(np.zeros(rows, dtype=np.int32))
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, [argument.name])])
