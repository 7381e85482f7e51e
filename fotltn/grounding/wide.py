"""Wide tables: one row an entity (and time), with a column for each predicate and feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from fotltn.errors import did_you_mean, listing
from fotltn.grounding.cells import A_TIME, Ints, numbers, times, where
from fotltn.grounding.collect import Collector, Rows, SourceRows, Symbol, SymbolKind
from fotltn.grounding.facts import Facts, assemble
from fotltn.grounding.features import Features, features
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.long import collect_long, read_symbol, read_traces
from fotltn.grounding.measures import Entity as Entity
from fotltn.grounding.measures import Measure as Measure
from fotltn.grounding.merge import Conflict, distinct
from fotltn.grounding.read import TablePlace, as_text
from fotltn.logic.signature import Signature


@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    """What the columns of a wide table are; columns that are not named here are not read.

    Args:
        source: a file by name, a data frame, or a mapping from columns to lists.
        sort: of the entities that rows are about.
        entity: the column with their names; or the one entity that all rows are about.
        time: the column with the time; without it, the table is static.
        trace: the column with the trace; without it, rows are of the only trace, or, if the table
            is static, of every trace.
        predicates: predicates, or functions, by column. A cell is a degree, true or false (of a
            function, its result). An empty cell states nothing.
        arguments: for a column among `predicates`, the columns of the arguments, or fixed
            entities. Without it, the entity of the row is the only argument.
        features: columns with numbers, or true and false, none empty.
        categories: for a column with text among `features`, all that it may hold. Each category
            is a feature of its own, 1 where the cell holds it.
        presence: a predicate of one entity that is true where there is a row; or several, such
            as one that changes over time and a static one.
        measures: predicates whose degrees are read off a column, by name.

    A predicate or function of a table with times may be static, or leave the entity of the row
    out. Then many rows state the same fact, and they must agree.
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

    @property
    def present(self) -> tuple[str, ...]:
        """The predicates that are true where there is a row."""
        named = () if self.presence is None else self.presence
        return (named,) if isinstance(named, str) else tuple(named)


def read_wide(
    tables: Iterable[Wide],
    signature: Signature,
    *,
    facts: Iterable[Source] = (),
    horizon: int | None = None,
    local: Sequence[str] = (),
    on_conflict: Conflict = "error",
    dtype: torch.dtype = torch.float64,
) -> tuple[Facts, dict[str, Features]]:
    """Read wide tables, and long ones with them, as one set of facts, and features by sort.

    Tables of one sort with the same feature are parts of one table of that feature. A feature
    needs a value wherever the entity is there: at each time of each trace, or, if any table of
    the sort names a presence predicate, where that is true. Elsewhere features are 0.

    Args:
        tables: the wide tables.
        signature: what the facts may be about.
        facts: long tables, read before the wide ones.
        horizon: the number of time points of every trace, as in `read_facts`.
        local: sorts whose entities are numbered within each trace, as in `read_facts`.
        on_conflict: what becomes of rows that contradict each other, in facts and in features, as
            in `read_facts`.
        dtype: of the features.

    Raises:
        DataError: with the file, row, column, value and expectation of every bad cell (20 at
            most), or with a feature that has no value.
    """
    listed, long = list(tables), list(facts)
    collector = Collector(signature)
    sources = read_sources([*long, *(wide.source for wide in listed)])
    for number, (place, table) in enumerate(sources):
        if number < len(long):
            collect_long(collector, place, table)
        else:
            collect_wide(collector, listed[number - len(long)], place, table)
    found, rows = assemble(collector, horizon=horizon, local=local, on_conflict=on_conflict)
    present: dict[str, tuple[str, ...]] = {}
    for wide in listed:
        moving = [n for n in wide.present if not signature.predicates[n].static]
        names = (*present.get(wide.sort, ()), *(moving or wide.present))
        if names:
            present[wide.sort] = tuple(dict.fromkeys(names))
    found = replace(found, present=present)
    return found, features(rows, collector.symbols, found, dtype)


def collect_wide(collector: Collector, wide: Wide, place: TablePlace, raw: pa.Table) -> None:
    """Collect the facts and features of a wide table."""
    collector.begin(place)
    before = collector.count
    _check_columns(collector, wide, place, raw.column_names)
    for column, name in wide.predicates.items():
        _check_symbol(collector, wide, place, column, name)
    for name, measure in wide.measures.items():
        _check_measure(collector, wide, place, name, measure)
    for name in wide.present:
        _check_presence(collector, wide, place, name)
    if collector.count > before:
        return
    table = raw.select(sorted(_columns(wide), key=raw.column_names.index))
    typed = [c for c in wide.features if c not in wide.categories and _numeric(table.column(c))]
    text = as_text(place, table.drop_columns([c for c in typed if c not in _texts(wide)]))
    rows = _rows(collector, wide, place, table, text)
    text, table = text.take(pa.array(rows)), table.take(pa.array(rows))
    base = _existence(collector, wide, place, text, rows)
    for column, name in wide.predicates.items():
        _collect_predicate(collector, wide, place, text, rows, column, name)
    for name, measure in wide.measures.items():
        _collect_predicate(collector, wide, place, text, rows, measure.column, name, measure)
    for column in wide.features:
        cells = table.column(column) if column in typed else text.column(column)
        _collect_feature(collector, wide, base, column, cells)


def _texts(wide: Wide) -> set[str]:
    """The columns that are read as text."""
    given = [*wide.arguments.values(), *(m.arguments or () for m in wide.measures.values())]
    named = {c for args in given for c in args if isinstance(c, str)}
    own = {c for c in (wide.entity, wide.time, wide.trace) if isinstance(c, str)}
    measured = {m.column for m in wide.measures.values()}
    return own | named | measured | set(wide.predicates) | set(wide.categories)


def _columns(wide: Wide) -> set[str]:
    return _texts(wide) | set(wide.features)


def _numeric(column: pa.ChunkedArray) -> bool:
    kind = column.type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


# --- whether the columns fit the signature ---------------------------------------------------


def _check_columns(
    collector: Collector, wide: Wide, place: TablePlace, found: Sequence[str]
) -> None:
    if wide.sort not in collector.entities:
        known = collector.entities
        hint = did_you_mean(wide.sort, known) or f"declared: {listing(known)}"
        collector.complain(place, None, f"unknown sort '{wide.sort}' of a wide table", hint)
    if not _columns(wide):
        collector.complain(place, None, "of a wide table, no column is named")
    for column in sorted(_columns(wide)):
        if column not in found:
            hint = did_you_mean(column, found) or f"there are {listing(found)}"
            collector.complain(place, None, f"no column '{column}'", hint)
        elif list(found).count(column) > 1:
            collector.complain(place, None, f"the column '{column}' occurs twice")
    for column in wide.arguments:
        if column not in wide.predicates:
            message = f"arguments are given for the column '{column}', which is no predicate"
            collector.complain(place, None, message)
    for column in wide.features:
        if list(wide.features).count(column) > 1:
            collector.complain(place, None, f"the feature '{column}' is named twice")
            break
    for column, words in wide.categories.items():
        if column not in wide.features:
            message = f"categories are given for the column '{column}', which is no feature"
            collector.complain(place, None, message)
        if not words or len(set(words)) < len(words):
            message = f"the categories of '{column}' must be some words, each once"
            collector.complain(place, None, message)


def _arguments(wide: Wide, column: str, measure: Measure | None) -> Sequence[str | Entity]:
    given = wide.arguments.get(column) if measure is None else measure.arguments
    return (wide.entity,) if given is None else given


def _check_measure(
    collector: Collector, wide: Wide, place: TablePlace, name: str, measure: Measure
) -> None:
    if name in collector.signature.functions:
        hint = f"functions are named by column: {measure.column} = {name}, among the predicates"
        message = f"'{name}' is a function, but only predicates are measured"
        collector.complain(replace(place, column=measure.column), None, message, hint)
        return
    _check_symbol(collector, wide, place, measure.column, name, measure)


def _check_symbol(
    collector: Collector,
    wide: Wide,
    place: TablePlace,
    column: str,
    name: str,
    measure: Measure | None = None,
) -> None:
    at = replace(place, column=column)
    known = [*collector.signature.predicates, *collector.signature.functions]
    if name not in known:
        hint = did_you_mean(name, known) or f"declared: {listing(known)}"
        collector.complain(at, None, f"unknown predicate '{name}'", hint)
        return
    symbol = collector.symbols[name]
    given = _arguments(wide, column, measure)
    if len(given) != len(symbol.sorts):
        takes = f"{len(symbol.sorts)} argument{'s' * (len(symbol.sorts) != 1)}"
        hint = "say which columns, or fixed entities, are its arguments"
        message = f"'{name}' takes {takes}, but the table gives {len(given)}"
        collector.complain(at, None, message, hint)
        return
    for argument, sort in zip(given, symbol.sorts, strict=True):
        if argument == wide.entity and sort != wide.sort:
            who = wide.entity.name if isinstance(wide.entity, Entity) else wide.entity
            message = f"'{name}' takes a '{sort}', but '{who}' is of sort '{wide.sort}'"
            collector.complain(at, None, message)
    if wide.time is None and not symbol.static:
        message = f"'{name}' changes over time, but the table has no column for the time"
        collector.complain(at, None, message)


def _check_presence(collector: Collector, wide: Wide, place: TablePlace, name: str) -> None:
    decl = collector.signature.predicates.get(name)
    if decl is None:
        known = collector.signature.predicates
        hint = did_you_mean(name, known) or f"declared: {listing(known)}"
        collector.complain(place, None, f"unknown predicate '{name}' for presence", hint)
    elif decl.sorts != (wide.sort,):
        sorts = ", ".join(decl.sorts)
        message = f"presence takes a predicate of one '{wide.sort}', not '{name}({sorts})'"
        collector.complain(place, None, message)
    elif wide.time is None and not decl.static:
        message = f"'{name}' changes over time, but the table has no column for the time"
        collector.complain(place, None, message)


# --- rows ------------------------------------------------------------------------------------


def _rows(
    collector: Collector, wide: Wide, place: TablePlace, table: pa.Table, text: pa.Table
) -> Ints:
    """The rows that have an entity and a time, after complaints about others."""
    columns = [text.column(c) for c in text.column_names]
    columns += [table.column(c) for c in table.column_names if c not in text.column_names]
    good = np.zeros(table.num_rows, dtype=bool)  # not those of empty lines
    for column in columns:
        good |= pc.is_valid(column).to_numpy()
    if isinstance(wide.entity, str):
        nameless = pc.is_null(text.column(wide.entity)).to_numpy()
        at = replace(place, column=wide.entity)
        for row in np.flatnonzero(nameless & good):
            collector.complain(at, int(row), f"empty; expected an entity of sort '{wide.sort}'")
        good &= ~nameless
    if wide.time is not None:
        column = text.column(wide.time)
        at = replace(place, column=wide.time)
        wrong = times(column)[1]
        for row in np.flatnonzero(wrong & good):
            cell = column[int(row)].as_py()
            what = "empty" if cell is None else f"'{cell}' is no time"
            collector.complain(at, int(row), f"{what}; expected {A_TIME}")
        good &= ~wrong
    return np.flatnonzero(good)


def _existence(
    collector: Collector, wide: Wide, place: TablePlace, text: pa.Table, rows: Ints
) -> SourceRows:
    """Collect that entities are there, and where the presence predicate is true."""
    column = _fixed(wide.entity, len(rows))
    entity = collector.entities[wide.sort].encode(
        text.column(wide.entity) if column is None else column
    )
    time = np.full(len(rows), -1, dtype=np.int64)
    if wide.time is not None:
        time = times(text.column(wide.time))[0]
    trace = read_traces(collector, _renamed(wide, text))
    part = SourceRows(Rows(trace, entity[:, None], time, np.ones(len(rows))), place, rows)
    key = f"rows of {wide.sort}, {'static' if wide.time is None else 'over time'}"
    collector.symbols[key] = Symbol(
        wide.sort, SymbolKind.EXISTENCE, (wide.sort,), wide.time is None
    )
    collector.add(key, part)
    for name in wide.present:
        collector.quiet.add(name)
        static = collector.symbols[name].static
        there = replace(part.rows, time=np.full_like(time, -1)) if static else part.rows
        collector.add(name, distinct(part._replace(rows=there)))
    return part


def _fixed(argument: str | Entity, count: int) -> pa.ChunkedArray | None:
    """A column of one entity; None if it is a column of the table."""
    if isinstance(argument, str):
        return None
    return pa.chunked_array([pa.array([argument.name] * count, pa.string())])


def _renamed(wide: Wide, text: pa.Table) -> pa.Table:
    """The columns for trace and time under the names that they have in a long table."""
    kept = {"time": wide.time, "trace": wide.trace}
    columns = {new: text.column(old) for new, old in kept.items() if old is not None}
    return pa.table(columns) if columns else text.select([])


def _collect_predicate(
    collector: Collector,
    wide: Wide,
    place: TablePlace,
    text: pa.Table,
    rows: Ints,
    column: str,
    name: str,
    measure: Measure | None = None,
) -> None:
    symbol = collector.symbols[name]
    stated = where(pc.is_valid(text.column(column)))
    table, numbers = text.take(pa.array(stated)), rows[stated]
    arguments = _arguments(wide, column, measure)
    columns = {}
    before = collector.count
    for number, argument in enumerate(arguments, 1):
        fixed = _fixed(argument, len(numbers))
        columns[f"arg{number}"] = table.column(argument) if fixed is None else fixed
        if not isinstance(argument, str):
            continue
        for i in where(pc.is_null(table.column(argument))):
            message = f"empty; '{name}' needs an argument of sort '{symbol.sorts[number - 1]}'"
            collector.complain(replace(place, column=argument), int(numbers[i]), message)
    if collector.count > before or not len(numbers):
        return
    named = _renamed(wide, table)
    columns |= {c: named.column(c) for c in named.column_names if c == "trace" or not symbol.static}
    at = replace(place, column=column)
    truth = table.column(column)
    if measure is not None:
        degrees, wrong = measure.degrees(truth)
        for i in np.flatnonzero(wrong):
            message = f"'{truth[int(i)]}' is no number; '{name}' is measured by numbers"
            collector.complain(at, int(numbers[i]), message)
        if wrong.any():
            return
        truth = pa.chunked_array([pa.array(degrees)])
    columns["value" if symbol.kind == SymbolKind.FUNCTION else "truth"] = truth
    part = read_symbol(collector, name, at, pa.table(columns), numbers, ())
    if part is None:
        return
    repeats = wide.entity not in arguments or (symbol.static and wide.time is not None)
    collector.add(name, distinct(part) if repeats else part)


def _collect_feature(
    collector: Collector, wide: Wide, base: SourceRows, column: str, cells: pa.ChunkedArray
) -> None:
    at = replace(base.place, column=column)
    words = wide.categories.get(column)
    static = wide.time is None
    symbol = Symbol(
        column,
        SymbolKind.FEATURE,
        (wide.sort,),
        static,
        categories=None if words is None else tuple(words),
    )
    key = f"feature {column} of {wide.sort}"
    other = collector.symbols.setdefault(key, symbol)
    if other != symbol:
        what = "other categories" if other.static == static else "a time" if static else "no time"
        collector.complain(at, None, f"another table has the feature '{column}' with {what}")
        return
    if words is None:
        values, expected = numbers(cells), "a finite number"
    else:
        known = {word: float(i) for i, word in enumerate(words)}
        values = np.array([known.get(c, np.nan) for c in cells.to_pylist()], dtype=np.float64)
        expected = f"one of {listing(words)}"
    wrong = np.flatnonzero(~np.isfinite(values))
    for i in wrong:
        cell = cells[int(i)].as_py()
        what = "empty" if cell is None else f"the feature is '{cell}'"
        collector.complain(at, int(base.numbers[i]), f"{what}; expected {expected}")
    if not len(wrong):
        collector.add(key, SourceRows(replace(base.rows, value=values), at, base.numbers))
