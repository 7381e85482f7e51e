"""Propose a project for tables that nobody has described, from what the tables look like."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fotltn.errors import DataError, name_hint
from fotltn.grounding.cells import Ints
from fotltn.project.proposed_rules import ProposedRule, rules_of
from fotltn.project.proposed_table import (
    WORDS,
    ProposedTable,
    choose_learned,
    fill_roles,
    is_split,
    no_truth,
    read_table,
    sort_name,
    symbol_name,
)
from fotltn.project.row_keys import RowKeys, keys_of, no_keys, take
from fotltn.project.table_columns import Clocked, Role, TableColumn, step_sizes, unique

_MOST, _SOME = 0.9, 0.5  # share of words that must be entity names for a column to name entities


@dataclass(slots=True, eq=False)
class Proposal:
    """A project that fits tables.

    Args:
        tables: the tables, the one with the labels first.
        rules: axioms that hold on the labels, and how often.
        step: the length of a step, for time stamps or for numbers that start far from 0; None for
            step numbers.
        origin: the time at which the first step begins; None for the earliest time, rounded down to
            the unit of the step.
        local: whether the entities of the first table belong to one trace each.
        split: the table that assigns traces to training and testing, with its columns of traces and
            parts.
    """

    tables: list[ProposedTable]
    rules: list[ProposedRule] = field(default_factory=list)
    step: str | None = None
    origin: str | None = None
    local: bool = False
    split: tuple[ProposedTable, TableColumn, TableColumn] | None = None

    @property
    def main(self) -> ProposedTable:
        """The table with the labels."""
        return self.tables[0]

    @property
    def sorts(self) -> list[str]:
        """All sorts, in the order of the tables."""
        named = [s for t in self.tables if not t.note for s in (t.sort, *t.sorts.values())]
        return list(dict.fromkeys(s for s in named if s))

    def as_dict(self) -> dict[str, object]:
        """Return the roles of columns as plain data."""
        first, *others = self.tables
        more = {"tables": [t.as_dict() for t in others]} if others else {}
        return {**first.as_dict(), **more, "rules": [rule._asdict() for rule in self.rules]}


def propose(
    paths: Path | Sequence[Path],
    learn: Collection[str] = (),
    *,
    entity: str | None = None,
    trace: str | None = None,
    time: str | None = None,
) -> Proposal:
    """Look at tables and propose what their columns mean.

    Args:
        paths: CSV, TSV or Parquet files. A row is about an entity, or an entity at a time; further
            tables may hold entities, relations between them, or events.
        learn: the columns to predict; by default, those with empty cells.
        entity: the column that names entities, in every table that has it; by default, a guess.
        trace: the column that names traces, in every table that has it; by default, a guess.
        time: the column of times, in every table that has it; by default, a guess.

    Raises:
        DataError: a table cannot be read, there is no such column, a column does not fit, or there
            is nothing to learn.
    """
    listed = [paths] if isinstance(paths, Path) else list(paths)
    if twice := [p.name for p in listed if [q.name for q in listed].count(p.name) > 1]:
        raise DataError(f"two tables are named '{twice[0]}'; a project needs different names")
    tables = [read_table(path) for path in listed]
    asked = {Role.ENTITY: entity, Role.TRACE: trace, Role.TIME: time}
    _ask(tables, learn, {role: name for role, name in asked.items() if name is not None})
    keys = {id(t): keys_of(t, learn) for t in tables}
    main = _labelled(tables, learn, keys)
    tables = [main, *(t for t in tables if t is not main)]
    first = keys[id(main)]
    if len(tables) == 1:
        if first is None:
            raise no_keys(main, learn)
        names = 1 if first.entity is None else len(first.entity.words)
        sort = sort_name(main.path.stem if first.entity is None else first.entity.name)
        take(main, first, sort, names)
        fill_roles(main, learn, {sort})
        proposal = Proposal(tables)
        if (clock := first.time) is not None:
            proposal.step = clock.step
            proposal.origin = None if clock.origin is None else clock.column.moment(clock.origin)
    else:
        proposal = _JoinedProposal(tables, [keys[id(t)] for t in tables], learn).proposal()
        if main.note:
            raise no_keys(main, learn)
    choose_learned([t for t in proposal.tables if not t.note], learn)
    proposal.rules = rules_of(main, proposal.tables[1:])
    return proposal


def _ask(
    tables: Sequence[ProposedTable], learn: Collection[str], asked: Mapping[Role, str]
) -> None:
    """Note what the user takes columns for."""
    known = [c for t in tables for c in t.columns]
    names = list(dict.fromkeys(c.name for c in known))
    for name in (*learn, *asked.values()):
        if name not in names:
            place = f"{tables[0].path}: no column" if len(tables) == 1 else "no table has a column"
            raise DataError(f"{place} '{name}'; {name_hint(name, names)}")
    for role, name in asked.items():
        for column in (c for c in known if c.name == name):
            if column.asked is not None or name in learn:
                other = column.asked or Role.LEARNED
                raise DataError(f"the column '{name}' cannot be both {other} and {role}")
            column.asked = role


def _labelled(
    tables: Sequence[ProposedTable], learn: Collection[str], keys: dict[int, RowKeys | None]
) -> ProposedTable:
    """Return the table with the labels: columns to learn, then gaps, then any true or false."""

    def rank(table: ProposedTable) -> tuple[bool, ...]:
        truths = [c for c in table.columns if c.is_truth]
        return (
            any(c.name in learn for c in table.columns),
            any(c.gaps for c in truths),
            bool(truths) and keys[id(table)] is not None,
            bool(truths),
        )

    best = max(tables, key=rank)  # the first among equals
    if not rank(best)[-1] and not rank(best)[0]:
        raise no_truth(tables)
    return best


@dataclass(slots=True, eq=False)
class _Sort:
    """Entities that several tables may mention, with the names of the columns that name them."""

    name: str
    heads: set[str]
    names: set[str]


class _JoinedProposal:
    """Several tables that mention the same entities."""

    def __init__(
        self, tables: list[ProposedTable], keys: Sequence[RowKeys | None], learn: Collection[str]
    ) -> None:
        self.tables, self.learn = tables, learn
        self.keys = [self._by_id(t, k) for t, k in zip(tables, keys, strict=True)]
        self.traces = self._shared_traces()
        self.sorts: list[_Sort] = []
        for table, own_keys in zip(tables, self.keys, strict=True):
            self._note_sort(table, own_keys)
        self.time = next(self._clocks(), None)
        self.step = None if self.time is None else self.time.step
        timed = [c for t in tables if (c := self._time_column(t)) is not None]
        self.origin = 0
        if self.step is not None and timed:
            self.origin = min(c.earliest for c in timed)
            if self.time is not None and self.time.origin is not None:
                self.origin -= self.origin % step_sizes(self.step)[0]

    def proposal(self) -> Proposal:
        """Return what the tables mean."""
        taken = {sort.name for sort in self.sorts}
        proposal = Proposal(self.tables, step=self.step)
        if self.time is not None and self.time.origin is not None:
            proposal.origin = self.time.column.moment(self.origin)
        for table, own_keys in zip(self.tables, self.keys, strict=True):
            self._settle(table, own_keys, proposal, taken)
        self._cover()
        main = self.tables[0]
        (trace, entity) = (main.of(Role.TRACE), main.of(Role.ENTITY))
        alone = not any(main.sort in (t.sort, *t.sorts.values()) for t in self.tables[1:])
        if trace and entity and alone and not main.sorts:
            pairs = np.unique(np.stack([entity[0].codes, trace[0].codes]), axis=1)
            proposal.local = pairs.shape[1] == len(entity[0].words) > len(trace[0].words) > 1
        return proposal

    # --- what tables share ----------------------------------------------------------------------

    def _shared_traces(self) -> set[str]:
        """Return the names of traces; a trace column does not name entities in other tables."""
        columns = [k.trace for k in self.keys if k is not None and k.trace is not None]
        heads = {c.name for c in columns}
        for number, keys in enumerate(self.keys):
            if keys is None or keys.entity is None or keys.entity.name not in heads:
                continue
            if keys.time is not None and unique(keys.entity.codes, keys.time.steps):
                self.keys[number] = RowKeys(None, keys.entity, keys.time)
        first = self.keys[0]
        if first is None or first.trace is None:  # the project has only one trace
            return set()
        return {first.trace.name, *first.trace.words}

    def _by_id(self, table: ProposedTable, keys: RowKeys | None) -> RowKeys | None:
        """Choose the entity column of a table: the one whose words other tables use most."""
        if keys is None or keys.time is not None or keys.entity is None or keys.entity.asked:
            return keys
        others = {
            word
            for other in self.tables
            if other is not table
            for column in other.columns
            if not column.is_number or column.name == keys.entity.name
            for word in column.words
        }
        plain = [c for c in table.columns if not c.gaps and not c.is_truth and unique(c.codes)]
        plain = [c for c in plain if not c.is_number or c is keys.entity]
        return RowKeys(max(plain, key=lambda c: len(others & {*c.words})), None, None)

    def _clocks(self) -> Iterator[Clocked]:
        """Yield ways to count the times of all tables, from the first table that has times."""
        for table, keys in zip(self.tables, self.keys, strict=True):
            if keys is not None and keys.time is not None:
                yield keys.time
            elif keys is None:
                yield from (clock for column in table.columns for clock in column.clocks)

    def _note_sort(self, table: ProposedTable, keys: RowKeys | None) -> None:
        if keys is None or (keys.entity is not None and self._is_trace(keys.entity)):
            return
        if keys.trace is not None and not self._is_trace(keys.trace):
            return  # rows need two columns to be told apart, so this is a relation or events
        if keys.entity is None:
            stem = sort_name(table.path.stem)
            self.sorts.append(_Sort(stem, set(), {stem}))
            return
        others = [c for c in table.columns if c is not keys.entity and self._refers(c) is not None]
        if keys.time is not None and others and self._refers(keys.entity) is None:
            return  # rows are events that happen to entities of other tables
        words, head = set(keys.entity.words), keys.entity.name
        called = _singular(table) if keys.time is None else None
        near = [c for c in table.columns if c is not keys.entity and not c.is_number]
        known = words.union(*(s.names for s in self.sorts))
        files = {_singular(t) for t in self.tables}
        if any({*c.words} <= known for c in near):  # a relation rather than a table of entities
            called = None
        elif sort_name(head) in files:  # such as the column `pump` when there is a table `pumps`
            called = sort_name(head)
        for sort in self.sorts:
            common, named = len(words & sort.names), _tokens(head) & _tokens(*sort.heads)
            plain = not keys.entity.is_number
            share = common / max(1, min(len(words), len(sort.names)))
            if share >= (_SOME if named else _MOST) and (plain or named):
                sort.names |= words
                sort.heads.add(head)
                sort.name = called or sort.name
                return
        self.sorts.append(_Sort(called or sort_name(head), {head}, words))

    def _is_trace(self, column: TableColumn) -> bool:
        if not self.traces or column.asked is not None:
            return bool(self.traces) and column.asked is Role.TRACE
        inside = sum(w in self.traces for w in column.words) / max(1, len(column.words))
        named = column.name in self.traces
        return inside >= (_SOME if named else _MOST) and (named or not column.is_number)

    def _refers(self, column: TableColumn) -> _Sort | None:
        """Return the sort whose entities a column names, or None."""
        if not column.words or column.is_truth or column.stamps is not None:
            return None
        best: tuple[float, _Sort] | None = None
        for sort in self.sorts:
            inside = sum(w in sort.names for w in column.words) / len(column.words)
            named = bool(_tokens(column.name) & _tokens(sort.name, *sort.heads))
            enough = inside >= (_SOME if named else _MOST) and (named or not column.is_number)
            if enough and (best is None or inside > best[0]):
                best = inside, sort
        return None if best is None else best[1]

    # --- one table ------------------------------------------------------------------------------

    def _time_column(self, table: ProposedTable) -> TableColumn | None:
        """Return the time column of a table that fits the clock of the first table, or None."""
        if self.time is None:
            return None
        head = self.time.column.name
        ways = [c for c in table.columns if c.name == head or any(True for _ in c.clocks)]
        ways.sort(key=lambda c: (c.asked is not Role.TIME, c.name != head))
        return next((c for c in ways if c.counted_by(self.step, 0) is not None), None)

    def _settle(
        self, table: ProposedTable, keys: RowKeys | None, proposal: Proposal, taken: set[str]
    ) -> None:
        """Decide what a table holds: entities, a relation, events, traces, or nothing of use."""
        column = self._time_column(table)
        time: Clocked | None = None
        if column is not None:
            steps = column.counted_by(self.step, self.origin)
            assert steps is not None
            time = Clocked(column, self.step, steps)
        elif keys is not None and keys.time is not None:
            return _leave(table, "its times do not match those of the first table")
        trace = next((c for c in table.columns if self._is_trace(c)), None)
        if trace is not None and time is None:
            return self._settle_traces(table, trace, proposal)
        if trace is None and self.traces and time is not None:
            return _leave(table, "its rows do not name their trace")
        refs = {
            c.name: sort
            for c in table.columns
            if c not in (trace, column) and (sort := self._refers(c)) is not None
        }
        named = [c for c in table.columns if c.name in refs]
        told: list[Ints] = [] if trace is None else [trace.codes]
        told += [] if time is None else [time.steps]
        alone = all(c in named or c in (trace, column) for c in table.columns)
        entity = next((c for c in named if not c.gaps and unique(c.codes, *told)), None)
        if keys is not None and keys.entity is None and told and unique(*told):
            self._take(table, RowKeys(None, trace, time), sort_name(table.path.stem))
        elif entity is not None and not (alone and len(named) > 1):
            own_entity = keys is not None and keys.entity in named
            entity = keys.entity if own_entity and keys is not None else entity
            assert entity is not None
            self._take(table, RowKeys(entity, trace, time), refs[entity.name].name)
        elif len(named) > 1:
            self._relate(table, named, RowKeys(named[0], trace, time), refs, taken)
        elif named:
            self._happen(table, RowKeys(named[0], trace, time), refs[named[0].name].name, taken)
        else:
            return _leave(table, "no column names entities, and nothing tells its rows apart")
        for link in (c for c in named if not c.why):
            self._link(table, link, refs[link.name].name, taken)
        fill_roles(table, self.learn, taken)
        alone = not any(table.sort == s.name and len(s.heads) > 1 for s in self.sorts)
        said = (Role.GIVEN, Role.FEATURE, Role.CATEGORY, Role.LINK, Role.EVENTS)
        if alone and not table.links and not table.of(*said):
            return _leave(table, "no column links to another table or adds information")
        if not table.static and not table.links and not table.several:
            self._as_events(table, taken)
        return None

    def _take(self, table: ProposedTable, keys: RowKeys, sort: str) -> None:
        entities = next((len(s.names) for s in self.sorts if s.name == sort), 1)
        take(table, keys, sort, entities)

    def _settle_traces(self, table: ProposedTable, trace: TableColumn, proposal: Proposal) -> None:
        """Use a table of traces as the split if it assigns them to training and testing."""
        for column in (c for c in table.columns if is_split(c) and unique(trace.codes)):
            proposal.split = table, trace, column
            trace.role, trace.why = Role.TRACE, f"{len(trace.words):,} traces"
            column.role, column.why = Role.SPLIT, "assigns traces to training or testing"
        _leave(table, "its rows are about traces" + ", for the split only" * bool(proposal.split))

    def _relate(
        self,
        table: ProposedTable,
        named: list[TableColumn],
        keys: RowKeys,
        refs: dict[str, _Sort],
        taken: set[str],
    ) -> None:
        """Describe a table whose rows are about two entities."""
        self._take(table, keys, refs[named[0].name].name)
        table.presence, table.arguments = False, (named[0], named[1])
        for column in table.arguments:
            table.sorts[column.name] = refs[column.name].name
            column.role, column.why = Role.LINK, f"of sort {refs[column.name].name}"
        for column in named[2:]:
            column.why = "a relation links only two entities"
        if not any(c.is_truth for c in table.columns):
            table.links[symbol_name(table.path.stem.split(".")[0], taken)] = table.arguments

    def _happen(self, table: ProposedTable, keys: RowKeys, sort: str, taken: set[str]) -> None:
        """Describe a table of events: several rows about the same entity and time."""
        self._take(table, keys, sort)
        table.presence, table.several = False, True
        kinds = [c for c in table.columns if not c.why and not c.is_number and not c.is_truth]
        kinds = [c for c in kinds if 2 <= len(c.words) <= WORDS and not c.gaps]
        if kinds:
            kind = min(kinds, key=lambda c: len(c.words))
            kind.role, kind.why = Role.EVENTS, f"{len(kind.words)} kinds of events"
            table.events = {word: symbol_name(word, taken) for word in kind.words}
        else:
            table.links[symbol_name(table.path.stem.split(".")[0], taken)] = (keys.entity,)  # type: ignore[assignment]

    def _as_events(self, table: ProposedTable, taken: set[str]) -> None:
        """Treat a sparse table that holds only words as events."""
        words = table.of(Role.CATEGORY)
        few = 4 * table.rows < table.entities * (int(table.steps.max()) + 1)  # type: ignore[union-attr]
        said = table.of(Role.FEATURE, Role.GIVEN, Role.LEARNED)
        if table is self.tables[0] or said or not few or len(words) != 1:
            return
        table.presence, table.several = False, True
        words[0].role, words[0].why = Role.EVENTS, f"{len(words[0].words)} kinds of events"
        table.events = {word: symbol_name(word, taken) for word in words[0].words}

    def _link(self, table: ProposedTable, column: TableColumn, sort: str, taken: set[str]) -> None:
        """Describe a column that names an entity of another table."""
        column.role, column.why = Role.LINK, f"of sort {sort}"
        table.sorts[column.name] = sort
        entity = table.of(Role.ENTITY)
        if entity:
            table.links[symbol_name(column.name, taken)] = (entity[0], column)

    # --- all tables -----------------------------------------------------------------------------

    def _cover(self) -> None:
        """Find out where entities come and go, and where features lack values."""
        lengths = [int(t.steps.max()) + 1 for t in self.tables if t.steps is not None]
        points = max(lengths, default=1)
        taken: dict[str, set[str]] = {}
        for table in (t for t in self.tables if not t.note and not t.several and not t.arguments):
            entity, trace = table.of(Role.ENTITY), table.of(Role.TRACE)
            traces = len(trace[0].words) if trace else 1
            cells = table.entities * (1 if table.static else points * traces)
            complete = table.rows >= cells
            if table is self.tables[0] and not table.static:
                table.presence = not complete
            else:
                table.presence, table.gaps = False, not complete
            seen = taken.setdefault(table.sort if entity else table.file, set())
            for column in table.of(Role.FEATURE, Role.CATEGORY):
                if column.name in seen:
                    column.role, column.why = Role.UNUSED, "already in another table"
                seen.add(column.name)


def _leave(table: ProposedTable, why: str) -> None:
    table.note = why
    for column in (c for c in table.columns if c.role not in (Role.TRACE, Role.SPLIT)):
        column.role, column.why = Role.UNUSED, why


def _singular(table: ProposedTable) -> str | None:
    """Return the singular of a table's name if it is a plural, as the name of its entities."""
    stem = table.path.stem.split(".")[0]
    return sort_name(stem[:-1]) if re.fullmatch(r"[A-Za-z]{2,}[^sS][sS]", stem) else None


def _tokens(*names: str) -> set[str]:
    """Return the words that names are made of."""
    return {part.lower() for name in names for part in re.split(r"\W+|_", name) if len(part) > 2}
