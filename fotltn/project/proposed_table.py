"""A table that nobody has described, and what its columns mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fotltn.errors import DataError, listing
from fotltn.grounding.cells import Ints
from fotltn.grounding.read import TablePlace
from fotltn.project.table_columns import Role, TableColumn, read_columns
from fotltn.syntax.hints import KEYWORDS

_PARTS = ({"train", "training"}, {"val", "valid", "validation", "dev"}, {"test", "testing"})
WORDS = 20  # a column with at most this many words can be a category


@dataclass(slots=True, eq=False)
class ProposedTable:
    """A table of a project, and what its columns are taken for.

    Args:
        path: the file.
        place: the places of the rows in the file.
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
    place: TablePlace
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

    def asked(self, role: Role) -> TableColumn | None:
        """Return the column that the user takes for a role, or None."""
        return next((c for c in self.columns if c.asked is role), None)

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
    place, columns = read_columns(path)
    return ProposedTable(path, place, columns, len(columns[0].codes))


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
        elif column.stamps is not None:
            column.why = "dates or time stamps, but not the time of the rows"
        elif is_split(column):
            column.why = "assigns rows to training or testing"
        elif table.static and len(column.words) == table.rows and not column.is_number:
            column.why = f"a different word in every row{_mistaken(table, column)}"
        elif column.is_number:
            column.role, column.why = Role.FEATURE, f"numbers{empty}"
        elif 2 <= len(column.words) <= WORDS:
            column.role, column.why = Role.CATEGORY, f"{len(column.words)} different words{empty}"
            column.why += _strange(column) or _mistaken(table, column)
        else:
            column.why = f"{len(column.words):,} different words{_mistaken(table, column)}"
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


def _mistaken(table: ProposedTable, column: TableColumn) -> str:
    """Say which cells keep a column from being numbers or times; empty if that is no reason."""
    mistakes = column.mistakes()
    rows = [] if mistakes is None else [int(r) for r in mistakes.rows if column.codes[r] >= 0]
    if mistakes is None or not rows:
        return ""
    more = f", and {len(rows) - 1:,} more" if len(rows) > 1 else ""
    cell = f"'{column.cell(rows[0])}' is not {mistakes.kind} ({table.place.at(rows[0])}{more})"
    return f"; {cell}; expected {mistakes.expected}, or an empty cell"


def no_truth(tables: Sequence[ProposedTable]) -> DataError:
    """Build the error that there is nothing to learn."""
    place = f"{tables[0].path}: no column" if len(tables) == 1 else "no column of any table"
    hint = "add one with 1 and 0, empty if unknown"
    if almost := [c for t in tables for c in t.columns if c.strange_words]:
        column = min(almost, key=lambda c: (c.is_number, len(c.strange_words)))
        hint = f"leave unknown cells empty: in '{column.name}',{_strange(column)[1:]}"
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
