"""Combine rows of many tables: settle repeated and contradictory facts, find lengths of traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fotltn.errors import Diagnostic, warning
from fotltn.grounding.cells import Bools, Floats, Ints
from fotltn.grounding.collect import EVERY, Collector, Rows, SourceRows, Symbol, SymbolKind
from fotltn.grounding.read import TablePlace
from fotltn.logic.core import REAL

#: How to settle facts that contradict each other.
Conflict = Literal["error", "mean", "first", "last", "majority"]


@dataclass(slots=True)
class Tally:
    """Counts repeated facts and settled contradictions by symbol."""

    repeated: Counter[tuple[str, str]] = field(default_factory=Counter)
    settled: Counter[tuple[str, str]] = field(default_factory=Counter)

    def warnings(self, how: Conflict) -> tuple[Diagnostic, ...]:
        """Describe the counts in words."""
        said = [
            *(f"{who}: {n} repeated {_many(what, n)}" for (who, what), n in self.repeated.items()),
            *(
                f"{who}: {n} contradictory {_many(what, n)} settled by '{how}'"
                for (who, what), n in self.settled.items()
            ),
        ]
        return tuple(map(warning, said))


def _many(what: str, count: int) -> str:
    return what if count == 1 else f"{what}s"


def _counted(symbol: Symbol) -> tuple[str, str]:
    if symbol.kind == SymbolKind.FEATURE:
        return f"features of '{symbol.sorts[0]}'", "value"
    return f"'{symbol.name}'", "fact"


def spread(
    collector: Collector, symbol: Symbol, source: SourceRows, local: Collection[str]
) -> SourceRows:
    """Assign facts without a trace to the only trace or, if they are static, to every trace."""
    rows, place, numbers = source
    traces = len(collector.traces.numbers)
    every = rows.trace == EVERY
    relation = symbol.kind == SymbolKind.RELATION
    bound = next((sort for sort in symbol.mentions if sort in local), None)
    if (traces == 1 and not collector.several) or (relation and bound is None):
        return source._replace(rows=replace(rows, trace=np.maximum(rows.trace, 0)))
    if not every.any():
        return source
    if not symbol.static or bound is not None:
        text = f"'{symbol.name}' has no trace, but other facts have one"
        if bound is not None:
            same = f"the relation '{symbol.name}' is the same in all traces"
            who = same if relation else f"'{symbol.name}' has no trace"
            text = f"{who}, but each entity of sort '{bound}' belongs to one trace"
        for i in np.flatnonzero(every):
            collector.complain_once(place, int(numbers[i]), text)
        return source
    repeated, index = rows.in_every_trace(traces)
    return SourceRows(repeated, place, numbers[index])


def unique(
    collector: Collector, key: str, sources: Sequence[SourceRows], how: Conflict, tally: Tally
) -> tuple[Rows, Bools]:
    """Keep each fact once; keep all tuples of a relation, because a relation is a list.

    Returns:
        The facts, and which of them only tables of test facts state.
    """
    symbol = collector.symbols[key]
    rows = sources[0].rows
    if len(sources) > 1:
        rows = Rows(
            *(np.concatenate([getattr(s.rows, part) for s in sources]) for part in Rows.__slots__)
        )
    tested: Bools = np.repeat(collector.for_tests[key], [len(s.rows.trace) for s in sources])
    if symbol.kind in (SymbolKind.RELATION, SymbolKind.EXISTENCE):
        return rows, tested
    keys = _keys([rows.trace, *rows.args.T, rows.time + 1])
    if _all_differ(keys):
        return rows, tested
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    places = _FactPlaces(sources)
    clash = np.flatnonzero(rows.value != rows.value[first[inverse]])
    differ = np.zeros(len(first), dtype=bool)
    differ[inverse[clash]] = True
    again = np.setdiff1d(np.arange(len(inverse)), first)
    again = again[~differ[inverse[again]]]
    if len(again) and key not in collector.quiet:
        tally.repeated[_counted(symbol)] += places.count(again)
    value = rows.value[first]
    if len(clash) and (how == "error" or (how == "mean" and not symbol.numeric)):
        told = set()
        for i in map(int, clash):
            place, row = places.at(i)
            if (place.name, place.column, row) in told:  # already reported for another trace
                continue
            told.add((place.name, place.column, row))
            original = int(first[inverse[i]])
            _contradiction(collector, symbol, rows, (i, original), places, how)
    elif len(clash):
        tally.settled[_counted(symbol)] += places.count(first[differ])
        value = np.where(differ, _settled(rows.value, first, inverse, how), value)
    order = np.argsort(first)
    trained = np.zeros(len(first), dtype=bool)
    trained[inverse[~tested]] = True
    return replace(rows.take(first[order]), value=value[order]), ~trained[order]


def distinct(source: SourceRows) -> SourceRows:
    """Drop rows equal to an earlier one, for tables in which many rows state the same fact."""
    rows = source.rows
    values = np.unique(rows.value, return_inverse=True)[1]
    keys = _keys([rows.trace + 1, *rows.args.T, rows.time + 1, values])
    first = np.sort(np.unique(keys, return_index=True)[1])
    return SourceRows(rows.take(first), source.place, source.numbers[first])


def _keys(columns: Sequence[Ints]) -> Ints:
    """Combine columns of non-negative numbers into one number per row, equal for equal rows."""
    keys, count = columns[0].copy(), int(columns[0].max(initial=0)) + 1
    for column in columns[1:]:
        size = int(column.max(initial=0)) + 1
        if count * size >= 2**62:
            keys = np.unique(keys, return_inverse=True)[1]
            count = int(keys.max(initial=0)) + 1
        keys *= size
        keys += column
        count *= size
    return keys


def _all_differ(keys: Ints) -> bool:
    """Return whether all numbers differ; fast if they are sorted."""
    if bool((keys[1:] > keys[:-1]).all()):
        return True
    ordered = np.sort(keys)
    return bool((ordered[1:] > ordered[:-1]).all())


class _FactPlaces:
    """Finds the place of a row from its position among the rows of all sources."""

    def __init__(self, sources: Sequence[SourceRows]) -> None:
        self.places = [source.place for source in sources]
        self.numbers = np.concatenate([source.numbers for source in sources])
        self.sources = np.repeat(np.arange(len(sources)), [len(s.numbers) for s in sources])

    def at(self, index: int) -> tuple[TablePlace, int]:
        """Return the place of a row, and its row number there."""
        return self.places[self.sources[index]], int(self.numbers[index])

    def count(self, index: Ints) -> int:
        """Count rows of the tables; a row that was repeated for several traces counts once."""
        tables = {(p.name, p.column): i for i, p in enumerate(self.places)}
        table_of = np.array([tables[p.name, p.column] for p in self.places])
        return len(np.unique(_keys([table_of[self.sources[index]], self.numbers[index]])))


def _settled(value: Floats, first: Ints, inverse: Ints, how: Conflict) -> Floats:
    """Return one value for each fact, from the values of all its rows."""
    if how == "mean":
        return np.bincount(inverse, weights=value) / np.bincount(inverse)
    if how == "first":
        return value[first]
    if how == "last":
        last = np.zeros(len(first), dtype=np.int64)
        np.maximum.at(last, inverse, np.arange(len(inverse)))
        return value[last]
    pairs = np.column_stack([inverse, value])
    voted, place, votes = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    order = np.lexsort((place, -votes, voted[:, 0]))  # most votes first, then the earliest
    ahead = np.unique(voted[order, 0], return_index=True)[1]
    best: Floats = voted[order[ahead], 1]
    return best


def _contradiction(
    collector: Collector,
    symbol: Symbol,
    rows: Rows,
    pair: tuple[int, int],
    places: _FactPlaces,
    how: Conflict,
) -> None:
    here, there = pair
    place, row = places.at(here)
    other, other_row = places.at(there)
    name = (
        f"the feature '{symbol.name}'" if symbol.kind == SymbolKind.FEATURE else f"'{symbol.name}'"
    )
    one = (
        "a fact has one truth value"
        if symbol.kind == SymbolKind.PREDICATE
        else "a fact has one value"
    )
    hint = f"{one}: remove one of the two rows"
    if how == "mean":
        hint = "only numbers have a mean: use 'first', 'last' or 'majority', or remove one row"
    collector.complain(
        place,
        row,
        f"{name} is {_shown(collector, symbol, rows.value[here])} here, but "
        f"{_shown(collector, symbol, rows.value[there])} at {other.at(other_row)}",
        hint,
    )


def _shown(collector: Collector, symbol: Symbol, value: float) -> str:
    if symbol.categories is not None and value < 0:
        return "no category"
    if symbol.categories is not None:
        return f"'{symbol.categories[int(value)]}'"
    if symbol.result != REAL:
        return f"'{list(collector.entities[symbol.result].numbers)[int(value)]}'"
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def lengths(collector: Collector, horizon: int | None) -> tuple[int, ...]:
    """Return the number of time points of each trace: the horizon, or up to its last row."""
    last = np.zeros(max(1, len(collector.traces.numbers)), dtype=np.int64)
    for key, parts in collector.parts.items():
        name = collector.symbols[key].name
        for rows, place, numbers in parts:
            np.maximum.at(last, np.where(rows.trace == EVERY, 0, rows.trace), rows.time)
            late: Bools = rows.time >= (horizon if horizon and horizon > 0 else np.inf)
            for i in np.flatnonzero(late):
                text = f"has the time {rows.time[i]}, beyond the horizon of {horizon} time points"
                collector.complain_once(place, int(numbers[i]), f"'{name}' {text}")
    if horizon is None:
        return tuple(int(t) + 1 for t in last)
    if horizon < 1:
        collector.complain(None, None, f"the horizon must be at least 1, not {horizon}")
    return tuple(horizon for _ in last)


def localise(
    collector: Collector, rows: dict[str, Rows], sort: str
) -> tuple[dict[str, Rows], tuple[tuple[str, ...], ...]]:
    """Number the entities of a sort within each trace, in order of first appearance there."""
    names = list(collector.entities[sort].numbers)
    size = max(1, len(names))
    seen = [np.zeros(0, dtype=np.int64)]
    for key, part in rows.items():
        symbol = collector.symbols[key]
        seen += [part.trace * size + part.args[:, i] for i in _places(symbol, sort)]
        if symbol.result == sort:
            seen.append(part.trace * size + part.value.astype(np.int64))
    known, first = np.unique(np.concatenate(seen), return_index=True)
    order = np.lexsort((first, known // size))
    trace = known[order] // size
    number = np.zeros(len(known), dtype=np.int64)
    number[order] = np.arange(len(known)) - np.searchsorted(trace, trace)

    def renumber(trace: Ints, entity: Ints) -> Ints:
        return number[np.searchsorted(known, trace * size + entity)]

    renumbered = {}
    for key, part in rows.items():
        symbol = collector.symbols[key]
        args, value = part.args.copy(), part.value
        for i in _places(symbol, sort):
            args[:, i] = renumber(part.trace, args[:, i])
        if symbol.result == sort:
            value = renumber(part.trace, value.astype(np.int64)).astype(np.float64)
        renumbered[key] = replace(part, args=args, value=value)
    traces: list[list[str]] = [[] for _ in collector.traces.numbers]
    for code in known[order].tolist():
        traces[code // size].append(names[code % size])
    return renumbered, tuple(tuple(t) for t in traces)


def _places(symbol: Symbol, sort: str) -> list[int]:
    return [i for i, other in enumerate(symbol.sorts) if other == sort]
