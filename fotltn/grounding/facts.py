"""Facts on disk: one row a fact, read with every bad row reported.

Columns: `predicate`; its arguments `arg1`, `arg2`, …; `time`, a whole number from 0, empty for what
is static; `truth`, a degree, 1 if empty; `trace`, if there are several. A function's row has its
result in `value`; a relation's row is one of its tuples.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fotltn.errors import DataError, Diagnostic, Severity, did_you_mean, listing
from fotltn.grounding.read import Place, read_table
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature

_SHOWN_ERRORS = 20
_EVERY = -1  # the trace of a fact that names none
_COLUMNS = ("predicate", "time", "truth", "trace", "value")


@dataclass(frozen=True, slots=True)
class Rows:
    """The facts of one symbol, as entity and trace numbers; `time` is -1 where static."""

    trace: np.ndarray[Any, np.dtype[np.int64]]
    args: np.ndarray[Any, np.dtype[np.int64]]
    time: np.ndarray[Any, np.dtype[np.int64]]
    value: np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of all symbols over named traces and entities."""

    traces: tuple[str, ...]
    entities: dict[str, tuple[str, ...]]
    rows: dict[str, Rows]
    lengths: tuple[int, ...]
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(slots=True)
class _Names:
    """Numbers for names, in order of first appearance."""

    numbers: dict[str, int] = field(default_factory=dict)

    def encode(self, column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
        encoded = column.combine_chunks().dictionary_encode()
        known = [
            self.numbers.setdefault(n, len(self.numbers)) for n in encoded.dictionary.to_pylist()
        ]
        table = np.asarray(known, dtype=np.int64)
        picked: np.ndarray[Any, np.dtype[np.int64]] = table[
            encoded.indices.to_numpy(zero_copy_only=False)
        ]
        return picked


class _Reader:
    """Collects facts and complaints over several files."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.errors: list[tuple[int, int, int, Diagnostic]] = []
        self.count = 0
        self.files: dict[int, int] = {}
        self.places: list[Place] = []
        self.traces = _Names()
        self.entities = {sort: _Names() for sort in signature.sorts}
        self.parts: dict[str, list[tuple[Rows, Place, np.ndarray[Any, Any]]]] = {}
        self.symbols: dict[str, tuple[str, tuple[str, ...], bool]] = {
            **{n: ("predicate", d.sorts, d.static) for n, d in signature.predicates.items()},
            **{n: ("function", d.sorts, d.static) for n, d in signature.functions.items()},
            **{n: ("relation", d.sorts, True) for n, d in signature.relations.items()},
        }

    def complain(
        self, place: Place | None, row: int | None, message: str, hint: str | None = None
    ) -> None:
        where = "" if place is None else f"{place.name if row is None else place.at(row)}: "
        self.count += 1
        file = self.files[id(place)] if place is not None else len(self.files)
        key = (-file, -(row or 0), -self.count)
        heapq.heappush(self.errors, (*key, Diagnostic(where + message, hint=hint)))
        if len(self.errors) > _SHOWN_ERRORS:
            heapq.heappop(self.errors)

    def shown(self) -> list[Diagnostic]:
        """The first complaints in the order of files and rows, and how many more there are."""
        ordered = [d for *_, d in sorted(self.errors, key=lambda e: e[:3], reverse=True)]
        if self.count > _SHOWN_ERRORS:
            more = self.count - _SHOWN_ERRORS
            return [*ordered, Diagnostic(f"{more} more errors are not shown")]
        return ordered

    def read(self, path: Path) -> None:
        place, table = read_table(path)
        self.files[id(place)] = len(self.files)
        self.places.append(place)
        arguments = self._columns(place, table)
        if arguments is None:
            return
        names = table.column("predicate")
        for row in _where(pc.is_null(names)):
            if all(not table.column(c)[int(row)].is_valid for c in table.column_names):
                continue  # an empty line
            self.complain(place, int(row), "the predicate is missing")
        for name in pc.unique(names).drop_null().to_pylist():
            rows = _where(pc.equal(names, name))
            if name not in self.symbols:
                hint = did_you_mean(name, self.symbols) or f"declared: {listing(self.symbols)}"
                many = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
                self.complain(place, int(rows[0]), f"unknown predicate '{name}'{many}", hint)
                continue
            self._symbol(name, place, table.take(pa.array(rows)), rows, arguments)

    def _columns(self, place: Place, table: pa.Table) -> list[str] | None:
        names = table.column_names
        doubled = sorted({n for n in names if names.count(n) > 1})
        if doubled:
            self.complain(place, None, f"the column '{doubled[0]}' occurs twice")
            return None
        arguments = [n for n in names if n.startswith("arg") and n[3:].isdecimal()]
        strange = [n for n in names if n not in (*_COLUMNS, *arguments)]
        if "predicate" not in names:
            hint = "facts have the columns predicate, arg1, arg2, …, time, truth"
            self.complain(place, None, f"no column 'predicate' (found {listing(names)})", hint)
            return None
        for name in strange:
            near = did_you_mean(name, [*_COLUMNS, "arg1", "arg2"])
            known = "facts have the columns predicate, arg1, arg2, …, time, truth, trace, value"
            self.complain(place, None, f"unknown column '{name}'", near or known)
        if strange:
            return None
        return sorted(arguments, key=lambda n: int(n[3:]))

    def _symbol(
        self,
        name: str,
        place: Place,
        table: pa.Table,
        rows: np.ndarray[Any, Any],
        arguments: Sequence[str],
    ) -> None:
        kind, sorts, static = self.symbols[name]
        before = self.count
        wanted = [f"arg{i + 1}" for i in range(len(sorts))]
        for column in (c for c in arguments if c not in wanted):
            for i in _where(pc.is_valid(table.column(column))):
                self.complain(
                    place,
                    int(rows[i]),
                    f"'{name}' has no {column} (it takes {len(sorts)}), but there is "
                    f"'{table.column(column)[int(i)]}'",
                )
        args = []
        for column, sort in zip(wanted, sorts, strict=True):
            if column not in table.column_names:
                self.complain(place, int(rows[0]), f"'{name}' needs the column '{column}' ({sort})")
                continue
            missing = _where(pc.is_null(table.column(column)))
            for i in missing:
                self.complain(place, int(rows[i]), f"'{name}' needs {column} (of sort {sort})")
            if not len(missing):
                args.append(self.entities[sort].encode(table.column(column)))
        time = self._time(name, kind, place, table, rows, static)
        value = self._value(name, kind, place, table, rows)
        if self.count > before:
            return
        trace = np.full(len(rows), _EVERY, dtype=np.int64)
        if "trace" in table.column_names:
            named = _where(pc.is_valid(table.column("trace")))
            trace[named] = self.traces.encode(table.column("trace").take(pa.array(named)))
            if kind == "relation" and len(named):
                self.complain(place, int(rows[named[0]]), f"the relation '{name}' has no traces")
        stacked = np.stack(args, axis=1) if args else np.zeros((len(rows), 0), dtype=np.int64)
        part = Rows(trace, stacked, time, value)
        self.parts.setdefault(name, []).append((part, place, rows))

    def _time(
        self,
        name: str,
        kind: str,
        place: Place,
        table: pa.Table,
        rows: np.ndarray[Any, Any],
        static: bool,
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        nowhere = np.full(len(rows), -1, dtype=np.int64)
        if "time" not in table.column_names:
            if not static:
                self.complain(place, int(rows[0]), f"'{name}' changes over time and needs a time")
            return nowhere
        column = table.column("time")
        if static:
            for i in _where(pc.is_valid(column)):
                hint = {
                    "predicate": f"leave it empty, or declare '{name}' without 'static'",
                    "function": f"leave it empty, or declare '{name}' as 'temporal'",
                    "relation": "leave it empty: a relation is the same at all times",
                }[kind]
                self.complain(
                    place, int(rows[i]), f"'{name}' is static, but has time {column[int(i)]}", hint
                )
            return nowhere
        times = _numbers(column, words=False)
        wrong = ~((times >= 0) & (times < 2**31) & (times == np.floor(times)))
        for i in np.flatnonzero(wrong):
            cell = column[int(i)].as_py()
            what = "has no time" if cell is None else f"has the time '{cell}'"
            self.complain(place, int(rows[i]), f"'{name}' {what}; expected a whole number from 0")
        return np.where(wrong, 0, times).astype(np.int64)

    def _value(
        self, name: str, kind: str, place: Place, table: pa.Table, rows: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        column = "value" if kind == "function" else "truth"
        if kind == "relation" and column in table.column_names:
            for i in _where(pc.is_valid(table.column(column))):
                self.complain(place, int(rows[i]), f"'{name}' is a relation and takes no 'truth'")
            return np.ones(len(rows), dtype=np.float64)
        other = "truth" if kind == "function" else "value"
        if other in table.column_names:
            for i in _where(pc.is_valid(table.column(other))):
                self.complain(place, int(rows[i]), f"'{name}' is a {kind} and takes no '{other}'")
        if column not in table.column_names:
            if kind == "function":
                self.complain(
                    place, int(rows[0]), f"the function '{name}' needs the column 'value'"
                )
            return np.ones(len(rows), dtype=np.float64)
        if kind == "function" and self.signature.functions[name].result != REAL:
            result = self.signature.functions[name].result
            for i in _where(pc.is_null(table.column(column))):
                self.complain(place, int(rows[i]), f"'{name}' has no value (of sort {result})")
            filled = pc.fill_null(table.column(column), "")
            return self.entities[result].encode(filled).astype(np.float64)
        cells = table.column(column)
        values = _numbers(cells, words=kind != "function")
        if kind == "function":
            wrong, expected = ~np.isfinite(values), "a finite number"
        else:
            values = np.where(np.isnan(values), 1.0, values)
            wrong, expected = ~((values >= 0) & (values <= 1)), "a degree from 0 to 1"
        for i in np.flatnonzero(wrong):
            text = cells[int(i)].as_py() or ""
            self.complain(
                place, int(rows[i]), f"'{name}' has the {column} '{text}'; expected {expected}"
            )
        return values


def read_facts(
    paths: Iterable[str | Path], signature: Signature, *, horizon: int | None = None
) -> Facts:
    """Read facts of a signature from CSV or Parquet files.

    What no row states is false. A row that repeats another is counted once, with a warning; rows
    that contradict each other are an error.

    Args:
        paths: the files, as one table.
        signature: what the facts may be about.
        horizon: the number of time points of every trace; without it, a trace ends with its last
            fact.

    Raises:
        DataError: with the file, row, value and expectation of every bad row (20 at most).
    """
    reader = _Reader(signature)
    for path in paths:
        reader.read(Path(path))
    for constant in signature.constants.values():
        if constant.sort in reader.entities:
            numbers = reader.entities[constant.sort].numbers
            numbers.setdefault(constant.name, len(numbers))
    rows: dict[str, Rows] = {}
    warnings: list[Diagnostic] = []
    if not reader.traces.numbers:
        reader.traces.numbers[""] = 0
    for name, parts in reader.parts.items():
        spread = [_spread(name, part, reader) for part in parts]
        rows[name] = _unique(name, spread, reader, warnings)
    lengths = _lengths(reader, horizon)
    if reader.errors:
        raise DataError(*reader.shown())
    entities = {s: tuple(n.numbers) for s, n in reader.entities.items()}
    return Facts(tuple(reader.traces.numbers), entities, rows, lengths, tuple(warnings))


def _spread(
    name: str, part: tuple[Rows, Place, np.ndarray[Any, Any]], reader: _Reader
) -> tuple[Rows, Place, np.ndarray[Any, Any]]:
    """Facts without a trace: of the only one, or, if static, of every trace."""
    rows, place, numbers = part
    kind, _, static = reader.symbols[name]
    traces = len(reader.traces.numbers)
    every = rows.trace == _EVERY
    if kind == "relation" or traces == 1:
        return (
            Rows(np.where(every, 0, rows.trace), rows.args, rows.time, rows.value),
            place,
            numbers,
        )
    if not every.any():
        return part
    if not static:
        for i in np.flatnonzero(every):
            reader.complain(place, int(numbers[i]), f"'{name}' has no trace, but other facts have")
        return part
    times = np.where(every, traces, 1)
    repeated = np.repeat(np.arange(len(every)), times)
    trace = np.where(
        every[repeated],
        np.arange(len(repeated)) - np.repeat(times.cumsum() - times, times),
        rows.trace[repeated],
    )
    return (
        Rows(trace, rows.args[repeated], rows.time[repeated], rows.value[repeated]),
        place,
        numbers[repeated],
    )


def _unique(
    name: str,
    parts: list[tuple[Rows, Place, np.ndarray[Any, Any]]],
    reader: _Reader,
    warnings: list[Diagnostic],
) -> Rows:
    """Each fact once; a relation keeps its tuples as they are, since they are a list."""
    whole = Rows(
        *(np.concatenate([getattr(p, part) for p, _, _ in parts]) for part in Rows.__slots__)
    )
    if reader.symbols[name][0] == "relation":
        return whole
    keys = np.column_stack([whole.trace, whole.args, whole.time])
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    if len(first) == len(keys):
        return whole
    places = [(place, int(r)) for _, place, rows in parts for r in rows]
    clash = np.flatnonzero(whole.value != whole.value[first[inverse]])
    told = set()
    for i in clash:
        original = int(first[inverse[i]])
        place, row = places[i]
        first_place, first_row = places[original]
        if (id(place), row) in told:  # the same in another trace
            continue
        told.add((id(place), row))
        reader.complain(
            place,
            row,
            f"'{name}' is {_shown(name, whole.value[i], reader)} here, but "
            f"{_shown(name, whole.value[original], reader)} at {first_place.at(first_row)}",
            f"a fact has one {'truth ' * (name not in reader.signature.functions)}value: "
            "remove one of the two rows",
        )
    if not len(clash):
        again = np.setdiff1d(np.arange(len(keys)), first)
        doubled = len({(id(places[i][0]), places[i][1]) for i in again})
        warnings.append(
            Diagnostic(
                f"'{name}': {doubled} repeated {'fact' if doubled == 1 else 'facts'}",
                severity=Severity.WARNING,
            )
        )
    kept = np.sort(first)
    return Rows(whole.trace[kept], whole.args[kept], whole.time[kept], whole.value[kept])


def _shown(name: str, value: float, reader: _Reader) -> str:
    function = reader.signature.functions.get(name)
    if function is not None and function.result != REAL:
        return f"'{list(reader.entities[function.result].numbers)[int(value)]}'"
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def _lengths(reader: _Reader, horizon: int | None) -> tuple[int, ...]:
    last = np.zeros(max(1, len(reader.traces.numbers)), dtype=np.int64)
    for name, parts in reader.parts.items():
        for rows, place, numbers in parts:
            np.maximum.at(last, np.where(rows.trace == _EVERY, 0, rows.trace), rows.time)
            late = rows.time >= (horizon if horizon and horizon > 0 else np.inf)
            for i in np.flatnonzero(late):
                reader.complain(
                    place,
                    int(numbers[i]),
                    f"'{name}' has the time {rows.time[i]}, beyond the horizon of {horizon} points",
                )
    if horizon is None:
        return tuple(int(t) + 1 for t in last)
    if horizon < 1:
        reader.complain(None, None, f"the horizon must be at least 1, not {horizon}")
    return tuple(horizon for _ in last)


def _where(mask: Any) -> np.ndarray[Any, Any]:
    filled = pc.fill_null(mask, False)
    flags = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    found: np.ndarray[Any, Any] = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
    return found


def _numbers(
    column: pa.ChunkedArray, *, words: bool = True
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Text as numbers: NaN where a cell is missing, infinite where it is no number.

    With `words`, true and false are 1 and 0.
    """
    try:
        whole = pc.cast(column, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        cells = [(np.nan if t is None else _number(t, words)) for t in column.to_pylist()]
        return np.asarray([np.inf if c is None else c for c in cells], dtype=np.float64)
    whole = np.array(whole)
    written = ~pc.is_null(column).to_numpy()
    whole[written & np.isnan(whole)] = np.inf
    return whole


def _number(text: str, words: bool) -> float | None:
    lowered = text.strip().lower()
    if words and lowered in ("true", "false"):
        return float(lowered == "true")
    try:
        number = float(lowered.replace("_", "x"))
    except ValueError:
        return None
    return number if np.isfinite(number) else None
