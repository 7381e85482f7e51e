"""Facts read from tables, with numbers for entities and traces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import pyarrow as pa

from fotltn.errors import DataError, Diagnostic, listing, name_hint, warning
from fotltn.grounding.cells import Bools
from fotltn.grounding.clock import Clock
from fotltn.grounding.collect import Collector, SymbolKind
from fotltn.grounding.collect import Rows as Rows
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.long import collect_long
from fotltn.grounding.merge import Conflict, Tally, lengths, localise, spread, unique
from fotltn.grounding.read import TablePlace
from fotltn.grounding.timeline import StepTimes, TimedTable, on_clock
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Names


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of all symbols, over named traces and entities.

    Args:
        traces: the names of the traces.
        entities: the names of the entities of each sort that all traces share.
        rows: the facts of each symbol.
        lengths: the number of time points of each trace.
        warnings: oddities that are not errors.
        local: the names of entities by trace, for each sort whose entities are numbered within a
            trace.
        present: the predicates that say where entities are present, for each sort whose entities
            come and go.
        timeline: where the steps of each trace are in time; None if times are plain numbers.
        room: the smallest number of places for each local sort, if these are only some of the
            traces.
        tested: for each symbol, which of its facts only tables of test facts state.
    """

    traces: tuple[str, ...]
    entities: dict[str, tuple[str, ...]]
    rows: dict[str, Rows]
    lengths: tuple[int, ...]
    warnings: tuple[Diagnostic, ...] = ()
    local: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    present: dict[str, tuple[str, ...]] = field(default_factory=dict)
    timeline: StepTimes | None = None
    room: dict[str, int] = field(default_factory=dict)
    tested: dict[str, Bools] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """The names of traces and entities."""
        return Names(self.traces, self.entities, self.local, self.timeline, self.room)

    def sizes(self) -> dict[str, int]:
        """Return the number of entities of each sort; for a local sort, the maximum over traces."""
        return self.names.sizes()

    def name(self, sort: str, trace: int, number: int) -> str | None:
        """Return the name of an entity in a trace, or None if the trace has no such entity."""
        return self.names.entity(sort, trace, number)


def read_facts(
    sources: Iterable[Source],
    signature: Signature,
    *,
    horizon: int | None = None,
    local: Sequence[str] = (),
    on_conflict: Conflict = "error",
    clock: Clock | StepTimes | None = None,
) -> Facts:
    """Read facts from CSV or Parquet files, or data frames.

    A fact that no row states is false. A repeated row counts once, with a warning. Rows that give
    one fact different values contradict each other. By default this is an error. With another
    `on_conflict`, there is a warning, and the fact gets the mean of its rows, the value of the
    first or last row (in the order of sources, then rows), or the most frequent value (among
    equally frequent values, the earliest). Entities have no mean, so a function that returns
    entities cannot use "mean".

    Args:
        sources: files by name, data frames (objects with `__arrow_c_stream__`), or mappings from
            columns to lists, read as one table.
        signature: the declarations of the symbols that facts may be about.
        horizon: the number of time points of every trace; by default, a trace ends with its last
            fact.
        local: sorts whose entities are numbered within each trace, so a tensor has room for the
            entities of one trace, not of all. If there are several traces, facts about these
            entities must name theirs. Such a sort cannot have constants.
        on_conflict: how to settle contradictions: "error", "mean", "first", "last" or "majority".
        clock: how times map to steps, or where the steps already are; by default, times are step
            numbers.

    Raises:
        DataError: lists each bad row with its file, value and what was expected, up to 20.
    """
    collector = Collector(signature)
    tables: Iterable[tuple[TablePlace, pa.Table]] = read_sources(sources)
    timeline = None
    if clock is not None:
        timed = [TimedTable(*one, "time", "trace") for one in tables]
        timeline, tables = on_clock(collector, clock, timed)
    for place, table in tables:
        collect_long(collector, place, table)
    facts, _ = assemble(collector, horizon=horizon, local=local, on_conflict=on_conflict)
    return replace(facts, timeline=timeline)


def assemble(
    collector: Collector, *, horizon: int | None, local: Sequence[str], on_conflict: Conflict
) -> tuple[Facts, dict[str, Rows]]:
    """Combine the collected rows into facts; also return the rows of features by key.

    Raises:
        DataError: errors were collected, or the facts do not fit together.
    """
    _check_options(collector.signature, local, on_conflict)
    for constant in collector.signature.constants.values():
        if constant.sort in collector.entities:
            collector.entities[constant.sort].number(constant.name)
    if not collector.traces.numbers:
        collector.traces.number("")
    rows: dict[str, Rows] = {}
    tested: dict[str, Bools] = {}
    tally = Tally()
    for key, sources in collector.parts.items():
        symbol = collector.symbols[key]
        in_traces = [spread(collector, symbol, source, local) for source in sources]
        rows[key], tested[key] = unique(collector, key, in_traces, on_conflict, tally)
    ends = lengths(collector, horizon)
    if collector.count:
        raise DataError(*collector.shown())
    by_trace = {}
    for sort in local:
        rows, by_trace[sort] = localise(collector, rows, sort)
    kinds = {key: collector.symbols[key].kind for key in rows}
    facts = Facts(
        tuple(collector.traces.numbers),
        {s: tuple(n.numbers) for s, n in collector.entities.items() if s not in by_trace},
        {
            k: r
            for k, r in rows.items()
            if kinds[k] not in (SymbolKind.FEATURE, SymbolKind.EXISTENCE)
        },
        ends,
        (*tally.warnings(on_conflict), *_in_two_sorts(collector)),
        by_trace,
        tested={k: mask for k, mask in tested.items() if mask.any()},
    )
    return facts, {k: r for k, r in rows.items() if kinds[k] == SymbolKind.FEATURE}


def _in_two_sorts(collector: Collector) -> Iterator[Diagnostic]:
    """Warn of a few names that are entities of two sorts, as in rows whose columns are swapped.

    Numbers are often names in several sorts, and so are all names of a small sort.
    """
    sorts = {sort: index.numbers.keys() for sort, index in collector.entities.items()}
    for (one, names), (other, others) in itertools.combinations(sorts.items(), 2):
        both = [name for name in names & others if not name.isdecimal()]
        few = 10 * len(both) < max(len(names), len(others))
        if both and few and len(both) < min(len(names), len(others)):
            are = "is" if len(both) == 1 else "are"
            yield warning(
                f"{listing(sorted(both))} {are} both of sort '{one}' and of sort '{other}'",
                hint="if that is a mistake, look for a row with another entity or another order",
            )


def _check_options(signature: Signature, local: Sequence[str], on_conflict: str) -> None:
    if on_conflict not in get_args(Conflict):
        hint = name_hint(on_conflict, get_args(Conflict))
        raise DataError(f"on_conflict cannot be '{on_conflict}'; {hint}")
    for sort in local:
        if sort not in signature.sorts:
            hint = name_hint(sort, signature.sorts, "declared:")
            raise DataError(f"unknown local sort '{sort}'; {hint}")
    for constant in signature.constants.values():
        if constant.sort in local:
            raise DataError(
                f"the constant '{constant.name}' has the sort '{constant.sort}', which is local to "
                "traces; a constant needs a sort that all traces share"
            )
