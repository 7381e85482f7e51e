"""Facts: what tables state, with numbers for entities and traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import pyarrow as pa

from fotltn.errors import DataError, Diagnostic, name_hint
from fotltn.grounding.clock import Clock, on_clock
from fotltn.grounding.collect import Collector, SymbolKind
from fotltn.grounding.collect import Rows as Rows
from fotltn.grounding.frames import Source, read_sources
from fotltn.grounding.long import collect_long
from fotltn.grounding.merge import Conflict, Tally, lengths, localise, spread, unique
from fotltn.grounding.read import TablePlace
from fotltn.logic.signature import Signature
from fotltn.semantics.tables import Names


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of all symbols over named traces and entities.

    Args:
        traces: their names.
        entities: the names of the entities of each sort that all traces share.
        rows: the facts of each symbol.
        lengths: the number of time points of each trace.
        warnings: what was odd, but no error.
        local: for each sort whose entities are numbered within a trace, their names by trace.
        present: for a sort whose entities come and go, the predicates that say where they are.
        clock: what time points are, with the origin, if tables have time stamps.
    """

    traces: tuple[str, ...]
    entities: dict[str, tuple[str, ...]]
    rows: dict[str, Rows]
    lengths: tuple[int, ...]
    warnings: tuple[Diagnostic, ...] = ()
    local: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    present: dict[str, tuple[str, ...]] = field(default_factory=dict)
    clock: Clock | None = None

    @property
    def names(self) -> Names:
        """The names of traces and entities."""
        return Names(self.traces, self.entities, self.local, self.clock)

    def sizes(self) -> dict[str, int]:
        """The number of entities of each sort; of a local one, the most that a trace has."""
        return self.names.sizes()

    def name(self, sort: str, trace: int, number: int) -> str | None:
        """The name of an entity in a trace, or None where there is none of that number."""
        return self.names.entity(sort, trace, number)


def read_facts(
    sources: Iterable[Source],
    signature: Signature,
    *,
    horizon: int | None = None,
    local: Sequence[str] = (),
    on_conflict: Conflict = "error",
    clock: Clock | None = None,
) -> Facts:
    """Read facts of a signature from CSV or Parquet files, or data frames.

    What no row states is false. A row that repeats another is counted once, with a warning. Rows
    that give one fact different values contradict each other: that is an error, or, with a
    warning, the fact has the mean of all its rows, the value of the first or the last row (in the
    order of sources, then rows), or the value that most of its rows have (of equally many, the
    earliest). The results of a function that are entities have no mean.

    Args:
        sources: files by name, data frames (objects with `__arrow_c_stream__`), or mappings from
            columns to lists, as one table.
        signature: what the facts may be about.
        horizon: the number of time points of every trace; without it, a trace ends with its last
            fact.
        local: sorts whose entities are numbered within each trace, so that a table has room for
            those of one trace, not of all. Facts about them name their trace, if there are
            several, and they have no constants.
        on_conflict: what becomes of facts that contradict each other: "error", "mean", "first",
            "last" or "majority".
        clock: what times are; without it, whole numbers from 0.

    Raises:
        DataError: with the file, row, value and expectation of every bad row (20 at most).
    """
    collector = Collector(signature)
    tables: Iterable[tuple[TablePlace, pa.Table]] = read_sources(sources)
    if clock is not None:
        clock, tables = on_clock(collector, clock, [(*one, "time") for one in tables])
    for place, table in tables:
        collect_long(collector, place, table)
    facts, _ = assemble(collector, horizon=horizon, local=local, on_conflict=on_conflict)
    return replace(facts, clock=clock)


def assemble(
    collector: Collector, *, horizon: int | None, local: Sequence[str], on_conflict: Conflict
) -> tuple[Facts, dict[str, Rows]]:
    """The facts that were collected, and the rows of features by key.

    Raises:
        DataError: complaints were collected, or the facts do not fit together.
    """
    _check_options(collector.signature, local, on_conflict)
    for constant in collector.signature.constants.values():
        if constant.sort in collector.entities:
            collector.entities[constant.sort].number(constant.name)
    if not collector.traces.numbers:
        collector.traces.number("")
    rows: dict[str, Rows] = {}
    tally = Tally()
    for key, sources in collector.parts.items():
        symbol = collector.symbols[key]
        in_traces = [spread(collector, symbol, source, local) for source in sources]
        rows[key] = unique(collector, key, in_traces, on_conflict, tally)
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
        tally.warnings(on_conflict),
        by_trace,
    )
    return facts, {k: r for k, r in rows.items() if kinds[k] == SymbolKind.FEATURE}


def _check_options(signature: Signature, local: Sequence[str], on_conflict: str) -> None:
    if on_conflict not in get_args(Conflict):
        hint = name_hint(on_conflict, get_args(Conflict))
        raise DataError(f"unknown outcome '{on_conflict}' of contradictions; {hint}")
    for sort in local:
        if sort not in signature.sorts:
            hint = name_hint(sort, signature.sorts, "declared:")
            raise DataError(f"unknown sort '{sort}' among those local to a trace; {hint}")
    for constant in signature.constants.values():
        if constant.sort in local:
            raise DataError(
                f"the constant '{constant.name}' is of sort '{constant.sort}', whose entities "
                "belong to a trace each; constants are of sorts that all traces share"
            )
