"""Guess what the rows of a table are about, and what its columns mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fotltn.errors import DataError, Diagnostic, listing
from fotltn.grounding.cells import Ints
from fotltn.project.table_columns import Clocked, Role, TableColumn, read_columns, unique
from fotltn.syntax.hints import KEYWORDS

_NAMES = re.compile(r"(.*[_ ])?(id|name|key|code|number|nr|no)", re.IGNORECASE)
_TRACES = re.compile(
    r"(.*[_ ])?(trace|clip|video|episode|session|run|game|match|trial|scene|sequence|recording)s?"
    r"([_ ]?(id|name|nr|no))?",
    re.IGNORECASE,
)
#: Dates that are not written like 2013-01-31.
_DATE = re.compile(r"(?!\d{4}-\d\d-)\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(\D|$)")
_PARTS = ({"train", "training"}, {"val", "valid", "validation", "dev"}, {"test", "testing"})
WORDS = 20  # a column with at most this many words can be a category


class RowKeys(NamedTuple):
    """The columns that tell rows apart; without an entity, all rows are about the same one."""

    entity: TableColumn | None
    trace: TableColumn | None
    time: Clocked | None


@dataclass(slots=True, eq=False)
class ProposedTable:
    """A table of a project, and what its columns are taken for.

    Args:
        path: the file.
        columns: the columns, with their roles.
        rows: the number of rows.
        sort: the sort of the entities that rows are about.
        entities: the number of entities; 1 if no column names them.
        presence: whether entities come and go.
        steps: the time of each row, if there is a time column.
        links: predicates that are true of each row, with the columns of their arguments.
        events: the predicate of each word in the column of events.
        arguments: the arguments of predicates, unless it is only the entity of the row.
        sorts: the sorts of the columns that name entities of other tables.
        several: whether several rows may be about the same entity and time; then rows state only
            what is true.
        gaps: whether features lack a value for some entity or time.
        note: why the table is not used; empty if it is used.
    """

    path: Path
    columns: list[TableColumn]
    rows: int
    sort: str = ""
    entities: int = 1
    presence: bool = False
    steps: Ints | None = None
    links: dict[str, tuple[TableColumn, ...]] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    arguments: tuple[TableColumn, ...] = ()
    sorts: dict[str, str] = field(default_factory=dict)
    several: bool = False
    gaps: bool = False
    note: str = ""

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name

    def of(self, *roles: Role) -> list[TableColumn]:
        """Return the columns of some roles."""
        return [c for c in self.columns if c.role in roles]

    def sorts_of(self, columns: Sequence[TableColumn]) -> tuple[str, ...]:
        """Return the sorts of columns that name entities."""
        return tuple(self.sorts.get(c.name, self.sort) for c in columns)

    @property
    def static(self) -> bool:
        """Whether the table has no times."""
        return self.steps is None

    def as_dict(self) -> dict[str, object]:
        """Return the roles of columns as plain data."""
        return {
            "file": self.file, "sort": self.sort, "rows": self.rows,
            "columns": {c.name: {"role": c.role.value, "why": c.why} for c in self.columns},
        }  # fmt: skip


def read_table(path: Path) -> ProposedTable:
    """Read a table without deciding what its columns mean.

    Raises:
        DataError: the file cannot be read, has no rows, or has a column twice.
    """
    columns = read_columns(path)
    return ProposedTable(path, columns, len(columns[0].codes))


# --- the entity and time of each row -----------------------------------------------------------


def leave_out_repeats(table: ProposedTable) -> None:
    """Drop rows that equal another in all columns, as other readers of tables do."""
    rows = np.stack([c.codes for c in table.columns])
    _, first = np.unique(rows, axis=1, return_index=True)
    first.sort()
    for column in table.columns:
        column.codes, column.values = column.codes[first], column.values[first]
    table.rows = len(first)


def keys_of(table: ProposedTable, learn: Collection[str]) -> RowKeys | None:
    """Return the columns that tell rows apart, or None; repeated rows are dropped."""
    if (keys := _keys(table, learn)) is None:
        leave_out_repeats(table)
        keys = _keys(table, learn)
    return keys


def _candidates(
    table: ProposedTable, learn: Collection[str]
) -> tuple[list[TableColumn], list[TableColumn]]:
    """Return columns that may name entities, and columns that may be times, likeliest first."""
    columns = [c for c in table.columns if c.name not in learn]
    times = [c for c in columns if any(True for _ in c.clocks)]
    names = [c for c in columns if c not in times and not c.gaps and not c.is_truth]
    names = [c for c in names if not c.is_number or _NAMES.fullmatch(c.name)]
    names.sort(key=lambda c: not _NAMES.fullmatch(c.name))
    times.sort(key=lambda c: c.is_number)  # time stamps are better evidence than numbers
    return names, times


def _keys(table: ProposedTable, learn: Collection[str]) -> RowKeys | None:
    names, times = _candidates(table, learn)
    # A value that differs in every row cannot name an entity that occurs at several times.
    repeated = [c for c in names if len(c.words) < table.rows]
    for column in times:
        others = [c for c in times if c is not column]
        for time in column.clocks:
            if (keys := _at_times(time, repeated, others)) is not None:
                return RowKeys(*keys, time)
    return next((RowKeys(c, None, None) for c in names if unique(c.codes)), None)


def no_keys(table: ProposedTable, learn: Collection[str]) -> Diagnostic:
    """Describe the error that nothing tells rows apart."""
    names, times = _candidates(table, learn)
    known = listing([c.name for c in names]) if names else "no column"
    known += " could name entities"
    known += f", {listing([c.name for c in times])} could be times" if times else ""
    hint = (
        "give every row an id, or an entity and a time: a whole number in a column 'time', a date "
        "such as 2013-01-31, or a time stamp such as 2013-01-31T17:05; none of these cells may be "
        "empty"
    )
    if dates := [c for c in names if all(_DATE.match(word) for word in c.words)]:
        column = dates[0]
        hint = (
            f"column '{column.name}' has dates such as '{column.words[0]}'; write the year first, "
            "then the month: 2013-01-31, or 2013-01-31T17:05 with a time of day"
        )
    message = f"{table.path}: rows cannot be told apart by an entity and a time: {known}"
    return Diagnostic(message, hint=hint)


def _at_times(
    time: Clocked, names: Sequence[TableColumn], others: Sequence[TableColumn]
) -> tuple[TableColumn | None, TableColumn | None] | None:
    """Return the entity and trace columns that tell rows at the same time apart, or None."""
    if unique(time.steps):  # one row per time: rows are about one entity, unless ids differ
        ids = [c for c in names if _NAMES.fullmatch(c.name) or c.is_constant]
        dense = int(np.ptp(time.steps)) + 1 == len(time.steps)
        names = ids or ([] if dense else names)
        if not names:
            return None, None
    for entity in names:
        if unique(entity.codes, time.steps):
            return entity, None
    for entity, trace in permutations(names, 2):
        likely = len(trace.words) < len(entity.words) or bool(_TRACES.fullmatch(trace.name))
        likely = likely and not _TRACES.fullmatch(entity.name)
        if likely and unique(entity.codes, trace.codes, time.steps):
            return entity, trace
    for entity in names:
        for trace in others:
            if unique(entity.codes, trace.codes, time.steps):
                return entity, trace
    for entity, trace in permutations(names, 2):
        if unique(entity.codes, trace.codes, time.steps):
            return entity, trace
    return None


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


def sort_name(name: str) -> str:
    """Turn the name of a column or file into the name of a sort."""
    return _identifier(re.sub(r"[_ ]?(id|name|key|nr|no)$", "", name.lower()))


# --- the meaning of columns ---------------------------------------------------------------------


def fill_roles(table: ProposedTable, learn: Collection[str], taken: set[str]) -> None:
    """Give a role to each column that has none yet.

    Args:
        table: the table.
        learn: the columns to learn.
        taken: the names of symbols that already exist.

    Raises:
        DataError: a column cannot be learned.
    """
    pairs = bool(table.arguments) or table.several
    for column in (c for c in table.columns if not c.why or c.name in learn):
        empty = f", {column.gaps:,} empty" if column.gaps else ""
        if column.is_constant and column.name not in learn:
            column.why = "the same in every row"
        elif column.is_truth:
            column.role = Role.GIVEN
            column.why = f"true or false{empty}"
            column.symbol = symbol_name(column.name, taken)
        elif column.name in learn:
            raise DataError(
                f"{table.path}: '{column.name}' cannot be learned, because it is not true or false "
                f"(1 or 0, empty if unknown){_strange(column)}"
            )
        elif len(column.words) == 1 and column.gaps and not column.is_number:
            word = column.words[0]
            column.why = f"only '{word}'{empty}; for a predicate, write yes and no"
        elif 2 * column.gaps > table.rows:
            column.why = f"{column.gaps:,} of {table.rows:,} cells are empty"
        elif is_split(column):
            column.why = "assigns rows to training or testing"
        elif table.static and len(column.words) == table.rows and not column.is_number:
            column.why = "a different word in every row"
        elif column.is_number:
            column.role, column.why = Role.FEATURE, f"numbers{empty}"
        elif 2 <= len(column.words) <= WORDS:
            column.role, column.why = Role.CATEGORY, f"{len(column.words)} different words{empty}"
            column.why += _strange(column)
        else:
            column.why = f"{len(column.words):,} different words"
        if pairs and column.role in (Role.FEATURE, Role.CATEGORY):
            why = "rows are about several entities" if table.arguments else "several rows per time"
            column.role, column.why = Role.UNUSED, f"{column.why}, but {why}"


def is_split(column: TableColumn) -> bool:
    """Return whether a column assigns rows to training and testing."""
    words = {word.lower() for word in column.words}
    return bool(words & _PARTS[0] and words & _PARTS[2]) and words <= set().union(*_PARTS)


def _strange(column: TableColumn) -> str:
    """Say which words keep a column from being true or false; empty if that is not the reason."""
    words = column.strange_words
    verb = "is" if len(words) == 1 else "are"
    return f"; {listing(words, 3)} {verb} neither true nor false" if words else ""


def no_truth(tables: Sequence[ProposedTable]) -> DataError:
    """Build the error that there is nothing to learn."""
    place = f"{tables[0].path}: no column" if len(tables) == 1 else "no column of any table"
    hint = "add one with 1 and 0, empty if unknown"
    if almost := [c for t in tables for c in t.columns if c.strange_words]:
        hint = f"leave unknown cells empty: in '{almost[0].name}',{_strange(almost[0])[1:]}"
    return DataError(f"{place} is true or false, so there is nothing to learn; {hint}")


def choose_learned(tables: Sequence[ProposedTable], learn: Collection[str]) -> None:
    """Choose the columns to learn: those that are named, else those with gaps, else the last one.

    Raises:
        DataError: no column is true or false.
    """
    truths = [c for t in tables for c in t.of(Role.GIVEN) if not t.several]
    if not truths:
        raise no_truth(tables)
    of_first = [c for c in tables[0].of(Role.GIVEN) if c in truths]
    chosen = [c for c in truths if c.name in learn] or [c for c in truths if c.gaps]
    for column in chosen or (of_first or truths)[-1:]:
        column.role = Role.LEARNED
    for column in truths:
        if column.role is Role.GIVEN and column.gaps:
            column.why += ", counted as false"


def _identifier(name: str) -> str:
    plain = re.sub(r"\W+", "_", name).strip("_") or "entity"
    plain = plain if plain[0].isalpha() else f"e_{plain}"
    return f"{plain}_" if plain in KEYWORDS else plain


def symbol_name(name: str, taken: set[str]) -> str:
    """Turn a name into an unused name for a predicate."""
    parts = [p for p in re.split(r"\W+|_", name) if p]
    symbol = "".join(p[:1].upper() + p[1:] for p in parts) or "P"
    symbol = symbol if symbol[0].isalpha() else f"P{symbol}"
    while symbol in taken or symbol in KEYWORDS or symbol == "Here":
        symbol += "_"
    taken.add(symbol)
    return symbol
