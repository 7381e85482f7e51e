"""Find the columns that tell the rows of a table apart: the entity, the trace and the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np

from fotltn.errors import DataError, Diagnostic, listing
from fotltn.format import listed
from fotltn.grounding.cells import Ints
from fotltn.project.proposed_table import ProposedTable
from fotltn.project.table_columns import Clocked, Mistakes, Role, TableColumn, unique

_NAMES = re.compile(r"(.*[_ ])?(id|name|key|code|number|nr|no)", re.IGNORECASE)
_TRACES = re.compile(
    r"(.*[_ ])?"
    r"(trace|case|clip|video|episode|session|run|game|match|trial|scene|sequence|recording)s?"
    r"([_ ]?(id|name|nr|no|number))?",
    re.IGNORECASE,
)
#: The cases of an event log: entities if each has one row at a time, otherwise traces.
_CASES = re.compile(r"cases?([_ ]?(id|name|key|nr|no|number)|:concept:name)?", re.IGNORECASE)
#: Dates that are not written like 2013-01-31.
_DATE = re.compile(r"(?!\d{4}-\d\d-)\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(\D|$)")
_SHOWN = 3  # how many cells or pairs of rows a message shows


class RowKeys(NamedTuple):
    """The columns that tell rows apart; without an entity, all rows are about the same one."""

    entity: TableColumn | None
    trace: TableColumn | None
    time: Clocked | None


_Found = tuple[TableColumn | None, TableColumn | None] | None  # an entity and a trace


def keys_of(table: ProposedTable, learn: Collection[str]) -> RowKeys | None:
    """Return the columns that tell rows apart, or None; repeated rows are dropped.

    Raises:
        DataError: a column that the user names has a cell that does not fit.
    """
    _check_asked(table)
    if (keys := _keys(table, learn)) is None:
        _leave_out_repeats(table)
        keys = _keys(table, learn)
    return keys


def _check_asked(table: ProposedTable) -> None:
    for role in (Role.ENTITY, Role.TRACE, Role.TIME):
        if (column := table.asked(role)) is None:
            continue
        mistakes = column.mistakes() if role is Role.TIME else None
        empty = np.flatnonzero(column.codes < 0)
        if mistakes is not None:
            raise DataError(*_told(table, column, mistakes))
        if len(empty):
            raise DataError(*_told(table, column, Mistakes(empty, "", f"the name of the {role}")))


def _leave_out_repeats(table: ProposedTable) -> None:
    """Drop rows that equal another in all columns, as other readers of tables do."""
    rows = np.stack([c.codes for c in table.columns])
    _, first = np.unique(rows, axis=1, return_index=True)
    first.sort()
    for column in table.columns:
        column.codes, column.values = column.codes[first], column.values[first]
    table.rows, table.place = len(first), replace(table.place, rows=first)


# --- candidates ---------------------------------------------------------------------------------


def _candidates(
    table: ProposedTable, learn: Collection[str]
) -> tuple[list[TableColumn], list[TableColumn]]:
    """Return columns that may name entities, and columns that may be times, likeliest first."""
    columns = [c for c in table.columns if c.name not in learn]
    columns = [c for c in columns if c.asked in (None, Role.TIME)]
    times = [c for c in columns if any(True for _ in c.clocks)]
    names = [c for c in columns if c not in times and not c.gaps and not c.is_truth]
    names = [
        c for c in names if _is_id(c) or not (c.is_number or c.mistakes() or c.stamps is not None)
    ]
    names.sort(key=lambda c: (not _CASES.fullmatch(c.name), not _NAMES.fullmatch(c.name)))
    times.sort(key=lambda c: c.is_number)  # time stamps are better evidence than numbers
    return names, times


def _times(table: ProposedTable, times: list[TableColumn]) -> list[TableColumn]:
    """Return the columns that may be the time: the one that the user names, or all that fit."""
    asked = table.asked(Role.TIME)
    return times if asked is None else [asked]


def _is_id(column: TableColumn) -> bool:
    """Return whether a column is called like names, so that its cells may be numbers."""
    return any(kind.fullmatch(column.name) for kind in (_NAMES, _TRACES, _CASES))


def _keys(table: ProposedTable, learn: Collection[str]) -> RowKeys | None:
    names, times = _candidates(table, learn)
    entity, trace = table.asked(Role.ENTITY), table.asked(Role.TRACE)
    for find in _ways(table, names, times):
        for column in _times(table, times):
            for time in column.clocks:
                if (pair := find(time)) is not None:
                    return RowKeys(*pair, time)
    if table.asked(Role.TIME) is not None:
        return None
    told = [] if trace is None else [trace.codes]
    static = names if entity is None else [entity]
    return next((RowKeys(c, trace, None) for c in static if unique(c.codes, *told)), None)


def _ways(
    table: ProposedTable, names: Sequence[TableColumn], times: Sequence[TableColumn]
) -> Iterator[Callable[[Clocked], _Found]]:
    """Yield ways to find the entity and the trace of rows with a time, likeliest first."""
    # A value that differs in every row cannot name an entity that occurs at several times. If the
    # user names the time, entities may occur once.
    repeated = [c for c in names if len(c.words) < table.rows]
    once = [] if table.asked(Role.TIME) is None else names
    cases = [c for c in repeated if _CASES.fullmatch(c.name)]
    entity, trace = table.asked(Role.ENTITY), table.asked(Role.TRACE)
    if entity is not None and trace is not None:
        yield lambda time: _pair(time, [(entity, trace)])
    elif trace is not None:
        yield lambda time: _alone(time, trace, repeated)
        yield lambda time: _pair(time, [(c, trace) for c in (*repeated, *once)])
    elif entity is not None:
        yield lambda time: _one(time, [entity])
        yield lambda time: _pair(time, [(entity, c) for c in repeated if _is_trace(c)])
        yield lambda time: _pair(time, [(entity, c) for c in times if _longer(c, time)])
    else:
        yield lambda time: _one(time, cases)
        yield lambda time: _pair(time, [(e, c) for c in cases for e in repeated if e is not c])
        yield lambda time: _at_times(time, repeated)
        pairs = [(e, t) for e, t in permutations(repeated, 2) if _lasts(table, e, t)]
        yield lambda time: _pair(time, [pair for pair in pairs if _likely(*pair)])
        yield lambda time: _pair(
            time, [(e, c) for e in repeated for c in times if _longer(c, time)]
        )
        yield lambda time: _pair(time, pairs)
        yield lambda time: _one(time, once)


def _is_trace(column: TableColumn) -> bool:
    return _TRACES.fullmatch(column.name) is not None


def _longer(column: TableColumn, time: Clocked) -> bool:
    """Return whether the times in a column are longer, as days are longer than hours."""
    return column.coarseness > time.column.coarseness


def _lasts(table: ProposedTable, entity: TableColumn, trace: TableColumn) -> bool:
    """Return whether entities have several rows in a trace, unless it is called a trace."""
    if _is_trace(trace):
        return True
    pairs = np.unique(np.stack([entity.codes, trace.codes]), axis=1).shape[1]
    return bool(2 * pairs <= table.rows)


def _likely(entity: TableColumn, trace: TableColumn) -> bool:
    return not _is_trace(entity) and (len(trace.words) < len(entity.words) or _is_trace(trace))


def _alone(time: Clocked, trace: TableColumn, names: Sequence[TableColumn]) -> _Found:
    """Return the trace if it has one row per time, with the column that names the entity."""
    if not unique(trace.codes, time.steps):
        return None
    ids = [c for c in names if _NAMES.fullmatch(c.name) or c.is_constant]
    return (ids[0] if ids else None), trace


def _at_times(time: Clocked, names: Sequence[TableColumn]) -> _Found:
    """Return the entity column that tells rows at the same time apart, or None."""
    if unique(time.steps):  # one row per time: rows are about one entity, unless ids differ
        ids = [c for c in names if _NAMES.fullmatch(c.name) or c.is_constant]
        dense = int(np.ptp(time.steps)) + 1 == len(time.steps)
        names = ids or ([] if dense else names)
        if not names:
            return None, None
    return _one(time, names)


def _one(time: Clocked, names: Sequence[TableColumn]) -> _Found:
    return next(((c, None) for c in names if unique(c.codes, time.steps)), None)


def _pair(time: Clocked, pairs: Sequence[tuple[TableColumn, TableColumn]]) -> _Found:
    return next(((e, t) for e, t in pairs if unique(e.codes, t.codes, time.steps)), None)


# --- what is wrong ------------------------------------------------------------------------------


def no_keys(table: ProposedTable, learn: Collection[str]) -> DataError:
    """Describe the error that nothing tells rows apart."""
    names, times = _candidates(table, learn)
    times = _times(table, times)
    if (entity := table.asked(Role.ENTITY)) is not None:
        names = [entity]
    if not times and (wrong := _wrong_times(table, learn)) is not None:
        return wrong
    dates = [c for c in names if all(_DATE.match(word) for word in c.words)]
    if names and times and not dates and (same := _same(table, names, times)) is not None:
        return same
    known = listing([c.name for c in names]) if names else "no column"
    known += " could name entities"
    known += f", {listing([c.name for c in times])} could be times" if times else ""
    hint = (
        "give every row an id, or an entity and a time: a whole number in a column 'time', a date "
        "such as 2013-01-31, or a time stamp such as 2013-01-31T17:05; none of these cells may be "
        "empty; --entity, --trace and --time name the columns"
    )
    if dates:
        column = dates[0]
        hint = (
            f"column '{column.name}' has dates such as '{column.words[0]}'; write the year first, "
            "then the month: 2013-01-31, or 2013-01-31T17:05 with a time of day"
        )
    message = f"{table.path}: rows cannot be told apart by an entity and a time: {known}"
    return DataError(message, hint=hint)


def _wrong_times(table: ProposedTable, learn: Collection[str]) -> DataError | None:
    """Return the error for the column that has the fewest mistakes in its times, or None."""
    mistaken = [
        (column, mistakes)
        for column in table.columns
        if column.name not in learn and column.asked is None
        and (mistakes := column.mistakes()) is not None and mistakes.kind != "a number"
    ]  # fmt: skip
    if not mistaken:
        return None
    column, mistakes = min(mistaken, key=lambda one: len(one[1].rows))
    return DataError(*_told(table, column, mistakes))


def _told(table: ProposedTable, column: TableColumn, mistakes: Mistakes) -> list[Diagnostic]:
    """Describe the first cells that do not fit, each with its place and what would be right."""
    place = replace(table.place, column=column.name)
    many = 1 if len(mistakes.rows) == table.rows else _SHOWN
    told = []
    for row in map(int, mistakes.rows[:many]):
        cell = column.cell(row)
        said = "empty" if cell is None else f"'{cell}' is not {mistakes.kind}"
        told.append(Diagnostic(f"{place.at(row)}: {said}; expected {mistakes.expected}"))
    if (more := len(mistakes.rows) - many) > 0:
        cells = f"{more:,} more cell{'s' * (more > 1)}"
        told.append(Diagnostic(f"{place.at(None)}: the same is wrong with {cells}"))
    return told


def _same(
    table: ProposedTable, names: Sequence[TableColumn], times: Sequence[TableColumn]
) -> DataError | None:
    """Describe rows with the same entity and time, by the name with most words; None if none."""
    trace, entity = table.asked(Role.TRACE), max(names, key=lambda c: len(c.words))
    keys = [entity] if trace is None else [trace, entity]
    clocked = []
    for column in times:
        *_, time = column.clocks  # the shortest step
        clocked.append((_repeats(*(c.codes for c in keys), time.steps), time))
    repeats, time = min(clocked, key=lambda one: len(one[0]))
    if not repeats:
        return None
    columns, shown, step = [*keys, time.column], [], ""
    for first, second, *others in repeats[:_SHOWN]:
        cells = ", ".join(f"'{c.cell(first)}'" for c in columns)
        more = f" and {len(others):,} more" if others else ""
        shown.append(f"{table.place.at(first)} and {table.place.at(second)}{more} ({cells})")
        if time.column.cell(first) != time.column.cell(second):
            step = f" in steps of {time.step}"
    shown += [f"{len(repeats) - _SHOWN:,} more"] if len(repeats) > _SHOWN else []
    same = listed(f"'{c.name}'" for c in columns)
    return DataError(
        f"{table.path}: several rows have the same {same}{step}: {'; '.join(shown)}",
        hint="keep one row for each entity and time, or name a column that tells the rows apart "
        "with --entity, --trace or --time; events may share a time in a table of their own, beside "
        "the table with the labels: fotltn new FOLDER --from LABELS EVENTS",
    )


def _repeats(*keys: Ints) -> list[list[int]]:
    """Return the groups of rows that have the same cells, in order of appearance."""
    rows = np.stack(keys)
    order = np.lexsort(rows)
    new = (np.diff(rows[:, order], axis=1) != 0).any(axis=0)
    groups = np.split(order, np.flatnonzero(new) + 1)
    return sorted(group.tolist() for group in groups if len(group) > 1)


# --- what rows are about ------------------------------------------------------------------------


def take(table: ProposedTable, keys: RowKeys, sort: str, entities: int) -> None:
    """Record what rows are about, and whether entities come and go.

    Args:
        table: the table.
        keys: the columns that tell rows apart.
        sort: the sort of the entities.
        entities: the number of entities in all tables.
    """
    entity, trace, time = keys
    points = 1 if time is None else int(time.steps.max()) + 1
    table.sort, table.entities = sort, entities
    if entity is not None:
        many = f"{len(entity.words):,} entit{'y' if len(entity.words) == 1 else 'ies'}"
        entity.role, entity.why = Role.ENTITY, f"names {many}"
    if time is not None:
        table.steps = time.steps
        why = f"whole numbers up to {points - 1:,}"
        if time.step is not None:
            what = "numbers" if time.column.is_number else "time stamps"
            why = f"{what}, {points - 1:,} steps of {time.step}"
        time.column.role, time.column.why = Role.TIME, why
    if trace is not None:
        trace.role, trace.why = Role.TRACE, f"{len(trace.words):,} traces"
    traces = 1 if trace is None else len(trace.words)
    table.presence = time is not None and table.rows < traces * entities * points
