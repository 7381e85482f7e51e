"""A project for tables that nobody has described: what their columns look like, to begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fotltn.errors import DataError, Diagnostic, listing, name_hint
from fotltn.grounding.cells import Floats, Ints, encode, numbers
from fotltn.grounding.frames import read_sources
from fotltn.grounding.read import TablePlace, as_text
from fotltn.grounding.stamps import NO_TIME, holds_stamps, instants, stamp_text, with_zone
from fotltn.syntax.hints import KEYWORDS

_TIMES = re.compile(
    r"(t|time|timestamp|step|tick|frame|round|period|second|minute|hour|day|week|month|year)s?"
    r"(_?(no|nr|id))?",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(.*[_ ])?(id|name|key|code|number|nr|no)", re.IGNORECASE)
#: Units of steps in microseconds, the longest first.
_UNITS = {"d": 86_400 * 10**6, "h": 3_600 * 10**6, "min": 60 * 10**6, "s": 10**6}
_SPARSE = 4  # points for each time that there is, beyond which times have no common step
FEW = 5  # entities that are too few to hold some back
_WORDS = 20  # of a column that are few enough to be categories
_SUPPORT, _CONFIDENCE, _BEYOND = 10, 0.95, 0.05  # of a rule that is proposed
_RULES = 6


class Role(StrEnum):
    """What a column is taken for."""

    ENTITY = "entity"
    TIME = "time"
    TRACE = "trace"
    GIVEN = "given predicate"
    LEARNED = "learned predicate"
    FEATURE = "feature"
    CATEGORY = "category"
    UNUSED = "not used"


@dataclass(slots=True, eq=False)
class TableColumn:
    """A column: its cells, and what it is taken for.

    Args:
        name: its head.
        words: what is in its cells, each once.
        codes: of each cell the number of its word; -1 where it is empty.
        values: the cells as numbers; NaN where they are none.
        role: what it is taken for.
        why: in a few words.
        symbol: the name of the predicate, if it is one.
    """

    name: str
    words: tuple[str, ...]
    codes: Ints
    values: Floats
    role: Role = Role.UNUSED
    why: str = ""
    symbol: str = ""

    @property
    def gaps(self) -> int:
        """How many cells are empty."""
        return int((self.codes < 0).sum())

    @property
    def is_number(self) -> bool:
        """Whether all cells that are not empty are numbers."""
        return bool(self.words) and bool(np.isfinite(self.values[self.codes >= 0]).all())

    @property
    def is_truth(self) -> bool:
        """Whether all cells that are not empty are true or false."""
        known = {"0", "1", "true", "false", "0.0", "1.0"}
        return bool(self.words) and {w.lower() for w in self.words} <= known

    @property
    def is_whole(self) -> bool:
        """Whether cells that are numbers are whole ones from 0."""
        values = self.values[np.isfinite(self.values)]
        return bool(((values >= 0) & (values % 1 == 0)).all())

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every row, and there are several."""
        return len(self.words) == 1 and not self.gaps and len(self.codes) > 1

    @property
    def clocks(self) -> Iterator[Clocked]:
        """Ways to read the cells as times, those that leave the fewest points first."""
        if self.gaps or len(self.words) < 2:
            return
        text = pa.chunked_array([pa.array(self.words)])
        at, zoned = instants(text), with_zone(text)
        if bool((at != NO_TIME).all()) and bool((zoned == zoned[0]).all()):
            yield from self._stamped(at)
        elif self.is_number and self.is_whole and _TIMES.fullmatch(self.name):
            yield self._counted()

    def _stamped(self, at: Ints) -> Iterator[Clocked]:
        """By the step that all times are multiples of; if that is far too short, by units."""
        since = at - at.min()
        apart = int(np.gcd.reduce(since))
        unit = next((u for u, size in _UNITS.items() if apart % size == 0), None)
        if unit is not None and since.max() // apart < _SPARSE * len(self.words):
            yield Clocked(self, f"{apart // _UNITS[unit]}{unit}", (since // apart)[self.codes])
            return
        for unit, size in _UNITS.items():  # steps begin when days, hours, … do
            yield Clocked(self, f"1{unit}", (at // size - at.min() // size)[self.codes])

    def _counted(self) -> Clocked:
        """As they are; if they begin far from 0, from the earliest on."""
        values = self.values.astype(np.int64)
        since = values - values.min()
        if values.min() <= since.max():
            return Clocked(self, None, values)
        apart = int(np.gcd.reduce(since))
        return Clocked(self, str(apart), since // apart)

    @property
    def truth(self) -> Floats:
        """1 and 0; NaN where a cell is empty."""
        true = np.array([w.lower() in ("1", "true", "1.0") for w in self.words] or [False])
        return np.where(self.codes < 0, np.nan, true[self.codes].astype(np.float64))


class Clocked(NamedTuple):
    """A column, read as times.

    Args:
        column: the column.
        step: how long a step is; None if cells are numbers of steps.
        steps: the time of each row.
    """

    column: TableColumn
    step: str | None
    steps: Ints


@dataclass(slots=True, eq=False)
class Proposal:
    """A project that fits a table.

    Args:
        file: the name of the table.
        columns: its columns, with their roles.
        rows: how many it has.
        sort: the sort of its entities.
        entities: how many there are. If no column names them, there is one.
        presence: whether entities come and go.
        rules: axioms that hold on the labels, with how often.
        step: of time stamps, or of numbers that begin far from 0; None for numbers of steps.
        steps: the time of each row, if there is a column for it.
    """

    file: str
    columns: list[TableColumn]
    rows: int
    sort: str = ""
    entities: int = 1
    presence: bool = False
    rules: list[tuple[str, str, str]] = field(default_factory=list)
    step: str | None = None
    steps: Ints | None = None

    def of(self, *roles: Role) -> list[TableColumn]:
        """The columns of some roles."""
        return [c for c in self.columns if c.role in roles]

    def as_dict(self) -> dict[str, object]:
        """The roles of columns for machines."""
        return {
            "file": self.file, "sort": self.sort, "rows": self.rows,
            "columns": {c.name: {"role": c.role.value, "why": c.why} for c in self.columns},
            "rules": [{"name": n, "axiom": text, "evidence": why} for n, text, why in self.rules],
        }  # fmt: skip


def propose(path: Path, learn: Sequence[str] = ()) -> Proposal:
    """Look at a table, and say what its columns may be.

    Args:
        path: CSV, TSV or Parquet: a row an entity, or an entity at a time.
        learn: the columns that are to be predicted; without them, those that have gaps.

    Raises:
        DataError: it cannot be read, or there is nothing to learn.
    """
    ((place, table),) = read_sources([path])
    if not table.num_rows:
        raise DataError(f"{path}: there are no rows")
    if twice := [n for n in table.column_names if table.column_names.count(n) > 1]:
        raise DataError(f"{path}: the column '{twice[0]}' occurs twice")
    columns = [_column(place, table.select([name])) for name in table.column_names]
    for name in learn:
        if name not in table.column_names:
            raise DataError(f"{path}: no column '{name}'; {name_hint(name, table.column_names)}")
    proposal = Proposal(path.name, columns, table.num_rows)
    if not _keys(proposal, path, learn):
        _leave_out_repeats(proposal)
        if not _keys(proposal, path, learn):
            raise DataError(_no_keys(proposal, path, learn))
    _contents(proposal, path, learn)
    proposal.rules = _rules(proposal)
    return proposal


def _column(place: TablePlace, table: pa.Table) -> TableColumn:
    """The only column of a table."""
    (name,), (raw,) = table.column_names, table.columns
    if holds_stamps(raw):
        cells = stamp_text(raw)
    else:
        try:
            cells = as_text(place, table).column(0)
        except DataError:
            nothing = np.full(len(raw), -1), np.full(len(raw), np.nan)
            return TableColumn(name, (), *nothing, why=f"its type is {raw.type}")
    words, codes = encode(cells)
    used = np.unique(codes[codes >= 0])
    order = np.full(len(words) + 1, -1)
    order[used] = np.arange(len(used))
    return TableColumn(
        name, tuple(words.take(pa.array(used)).to_pylist()), order[codes].astype(np.int64),
        numbers(cells),
    )  # fmt: skip


# --- which row is about whom, and when ---------------------------------------------------------


def _unique(*keys: Ints) -> bool:
    """Whether no two rows have the same cells."""
    rows = np.stack(keys)
    return bool(np.unique(rows, axis=1).shape[1] == rows.shape[1])


def _leave_out_repeats(proposal: Proposal) -> None:
    """Leave out rows that say the same as others in all columns, as readers do."""
    rows = np.stack([c.codes for c in proposal.columns])
    _, first = np.unique(rows, axis=1, return_index=True)
    first.sort()
    for column in proposal.columns:
        column.codes, column.values = column.codes[first], column.values[first]
    proposal.rows = len(first)


def _candidates(
    proposal: Proposal, learn: Sequence[str]
) -> tuple[list[TableColumn], list[TableColumn]]:
    """The columns that may name entities, and those that may be times, the likeliest first."""
    columns = [c for c in proposal.columns if c.name not in learn]
    times = [c for c in columns if any(True for _ in c.clocks)]
    names = [c for c in columns if c not in times and not c.gaps and not c.is_truth]
    names = [c for c in names if not c.is_number or _NAMES.fullmatch(c.name)]
    names.sort(key=lambda c: not _NAMES.fullmatch(c.name))
    times.sort(key=lambda c: c.is_number)  # time stamps say more than numbers
    return names, times


def _keys(proposal: Proposal, path: Path, learn: Sequence[str]) -> bool:
    """Find what each row is about, and when; whether there is such a thing."""
    names, times = _candidates(proposal, learn)
    # What is another in every row does not come again at another time.
    repeated = [c for c in names if len(c.words) < proposal.rows]
    for column in times:
        others = [c for c in times if c is not column]
        for time in column.clocks:
            if (keys := _at_times(time, repeated, others)) is not None:
                _take(proposal, path, *keys, time)
                return True
    for entity in names:
        if _unique(entity.codes):
            _take(proposal, path, entity, None, None)
            return True
    return False


def _no_keys(proposal: Proposal, path: Path, learn: Sequence[str]) -> Diagnostic:
    names, times = _candidates(proposal, learn)
    known = f"{listing([c.name for c in names]) or 'no column'} could name entities"
    known += f", {listing([c.name for c in times])} could be times" if times else ""
    return Diagnostic(
        f"{path}: no row can be told from the others by an entity and a time: {known}",
        hint="give every row an id, or an entity and a time: a whole number in a column 'time', a "
        "date, or a time stamp as 2013-01-31T17:05; no cell of these is empty",
    )


def _at_times(
    time: Clocked, names: Sequence[TableColumn], others: Sequence[TableColumn]
) -> tuple[TableColumn | None, TableColumn | None] | None:
    """The columns of the entity and of the trace that tell rows of a time apart, if some do."""
    if _unique(time.steps):  # one row at a time: of one entity, unless ids say otherwise
        ids = [c for c in names if _NAMES.fullmatch(c.name) or c.is_constant]
        dense = int(np.ptp(time.steps)) + 1 == len(time.steps)
        names = ids or ([] if dense else names)
        if not names:
            return None, None
    for entity in names:
        if _unique(entity.codes, time.steps):
            return entity, None
    for entity, trace in permutations(names, 2):
        if len(trace.words) < len(entity.words) and _unique(entity.codes, trace.codes, time.steps):
            return entity, trace
    for entity in names:
        for trace in others:
            if _unique(entity.codes, trace.codes, time.steps):
                return entity, trace
    for entity, trace in permutations(names, 2):
        if _unique(entity.codes, trace.codes, time.steps):
            return entity, trace
    return None


def _take(
    proposal: Proposal,
    path: Path,
    entity: TableColumn | None,
    trace: TableColumn | None,
    time: Clocked | None,
) -> None:
    name = path.stem if entity is None else entity.name
    proposal.sort = _identifier(re.sub(r"[_ ]?(id|name|key|nr|no)$", "", name.lower()))
    if entity is not None:
        proposal.entities = len(entity.words)
        entity.role, entity.why = Role.ENTITY, f"names {_so_many(proposal.entities)}"
    points = 1
    if time is not None:
        proposal.step, proposal.steps = time.step, time.steps
        points = int(time.steps.max()) + 1
        why = f"whole numbers up to {points - 1:,}"
        if time.step is not None:
            what = "numbers" if time.column.is_number else "time stamps"
            why = f"{what}, {points - 1:,} steps of {time.step}"
        time.column.role, time.column.why = Role.TIME, why
    if trace is not None:
        trace.role, trace.why = Role.TRACE, f"{len(trace.words):,} traces"
    traces = 1 if trace is None else len(trace.words)
    proposal.presence = time is not None and proposal.rows < traces * proposal.entities * points


def _so_many(entities: int) -> str:
    """A number of entities in words."""
    return "1 entity" if entities == 1 else f"{entities:,} entities"


# --- what rows say ------------------------------------------------------------------------------


def _contents(proposal: Proposal, path: Path, learn: Sequence[str]) -> None:
    taken = {proposal.sort}
    for column in (c for c in proposal.columns if not c.why or c.name in learn):
        empty = f", {column.gaps:,} empty" if column.gaps else ""
        if column.is_constant and column.name not in learn:
            column.why = "all rows have the same"
        elif column.is_truth:
            column.role = Role.GIVEN
            column.why = f"true or false{empty}"
            column.symbol = _predicate(column.name, taken)
        elif column.name in learn:
            raise DataError(
                f"{path}: '{column.name}' cannot be learned, since it is not true or false (1 or "
                "0, empty where it is not known)"
            )
        elif 2 * column.gaps > proposal.rows:
            column.why = f"{column.gaps:,} of {proposal.rows:,} cells are empty"
        elif column.is_number:
            column.role, column.why = Role.FEATURE, f"numbers{empty}"
        elif 2 <= len(column.words) <= _WORDS:
            column.role, column.why = Role.CATEGORY, f"{len(column.words)} different words{empty}"
        else:
            column.why = f"{len(column.words):,} different words"
    truths = proposal.of(Role.GIVEN)
    if not truths:
        raise DataError(
            f"{path}: no column is true or false, so that there is nothing to learn; add one with "
            "1 and 0, empty where it is not known"
        )
    chosen = [c for c in truths if c.name in learn] or [c for c in truths if c.gaps] or truths[-1:]
    for column in chosen:
        column.role = Role.LEARNED
    for column in truths:
        if column.role is Role.GIVEN and column.gaps:
            column.why += ", which count as false"


def _identifier(name: str) -> str:
    plain = re.sub(r"\W+", "_", name).strip("_") or "entity"
    plain = plain if plain[0].isalpha() else f"e_{plain}"
    return f"{plain}_" if plain in KEYWORDS else plain


def _predicate(name: str, taken: set[str]) -> str:
    parts = [p for p in re.split(r"\W+|_", name) if p]
    symbol = "".join(p[:1].upper() + p[1:] for p in parts) or "P"
    symbol = symbol if symbol[0].isalpha() else f"P{symbol}"
    while symbol in taken or symbol in KEYWORDS or symbol == "Here":
        symbol += "_"
    taken.add(symbol)
    return symbol


# --- what holds ---------------------------------------------------------------------------------


def _rules(proposal: Proposal) -> list[tuple[str, str, str]]:
    """Rules that hold on the labels beyond chance: name, axiom, and how often."""
    truths = proposal.of(Role.LEARNED, Role.GIVEN)
    where = " where Here(x)" if proposal.presence else ""
    counted: list[tuple[float, str, str, str]] = []

    def count(name: str, body: str, first: Floats, then: Floats) -> None:
        both = np.isfinite(first) & np.isfinite(then)
        base = then[both].mean() if both.any() else 1.0
        held = then[both & (first == 1)]
        if len(held) < _SUPPORT or held.mean() < _CONFIDENCE or held.mean() - base < _BEYOND:
            return
        shown = f"holds {held.mean():.3f} of {len(held):,} times; by chance it would {base:.3f}"
        counted.append((float(held.mean() - base), name, f"forall x{where}. G({body})", shown))

    for one, two in combinations(truths, 2):
        for a, b in ((one, two), (two, one)):
            body = f"{a.symbol}(x) -> {b.symbol}(x)"
            count(f"{a.symbol}Means{b.symbol}", body, a.truth, b.truth)
            count(f"{a.symbol}Excludes{b.symbol}", f"{a.symbol}(x) -> !{b.symbol}(x)", a.truth,
                  1 - b.truth)  # fmt: skip
    rows, following = _steps(proposal)
    for a in truths:
        now, then = a.truth[rows], a.truth[following]
        count(f"{a.symbol}Stays", f"{a.symbol}(x) -> WX {a.symbol}(x)", now, then)
    return [rule for _, *rule in sorted(counted, reverse=True)[:_RULES]]  # type: ignore[misc]


def _steps(proposal: Proposal) -> tuple[Ints, Ints]:
    """Rows, and for each that of the same entity one step later."""
    time = proposal.steps
    if time is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    keys = proposal.of(Role.TRACE, Role.ENTITY)
    order = np.lexsort([time, *(c.codes for c in keys)])
    same = np.ones(len(order) - 1, dtype=bool)
    for column in keys:
        same &= column.codes[order[1:]] == column.codes[order[:-1]]
    same &= time[order[1:]] == time[order[:-1]] + 1
    return order[:-1][same], order[1:][same]
