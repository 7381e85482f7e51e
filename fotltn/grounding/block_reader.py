"""Read a block of prepared data, and check every number in it; errors name the file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from fotltn.errors import DataError, name_hint
from fotltn.grounding.cells import Floats, Ints
from fotltn.grounding.collect import Rows
from fotltn.grounding.dense import check_cells, present
from fotltn.grounding.facts import Facts
from fotltn.grounding.features import Features
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature

_AGAIN = "run `fotltn prepare` again"


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """The features of a sort: names, categories of text columns, and whether all are static."""

    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    static: bool


class BlockReader:
    """Reads the tables of a block, and checks that all numbers refer to something.

    Args:
        folder: the folder of the block.
        signature: the declarations of the symbols.
        sizes: the number of entities of each sort.
        ends: the lengths of the traces.
    """

    def __init__(
        self, folder: Path, signature: Signature, sizes: Mapping[str, int], ends: Ints
    ) -> None:
        """Start without reading anything."""
        self.folder, self.signature, self.sizes, self.ends = folder, signature, sizes, ends

    def facts(self) -> dict[str, Rows]:
        """Return the facts of each symbol that has any."""
        sig = self.signature
        known = {**sig.predicates, **sig.functions, **sig.relations}
        folder = self.folder / "facts"
        try:
            names = sorted(p.name for p in folder.iterdir() if p.suffix == ".parquet")
        except OSError as error:
            raise wrong_file(folder, f"it cannot be read: {error.strerror}") from None
        rows = {}
        for name in (n.removesuffix(".parquet") for n in names):
            path = folder / f"{name}.parquet"
            if name not in known:
                hint = name_hint(name, known)
                raise wrong_file(path, f"the theory has no predicate '{name}'; {hint}")
            if name in sig.relations:
                rows[name] = self._rows(path, sig.relations[name].sorts, relation=True)
            elif name in sig.functions:
                decl = sig.functions[name]
                most = None if decl.result == REAL else self.sizes[decl.result]
                rows[name] = self._rows(path, decl.sorts, static=decl.static, most=most)
            else:
                predicate = sig.predicates[name]
                rows[name] = self._rows(path, predicate.sorts, static=predicate.static, truth=True)
        return {name: rows[name] for name in known if name in rows}

    def _rows(
        self,
        path: Path,
        sorts: Sequence[str],
        *,
        static: bool = True,
        truth: bool = False,
        relation: bool = False,
        most: int | None = None,
    ) -> Rows:
        table = block_table(path)
        count = table.num_rows
        trace, time = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        if not relation:
            trace = counted_column(table, "trace", path, end=len(self.ends))
        args = np.empty((count, len(sorts)), np.int64)
        for i, sort in enumerate(sorts):
            args[:, i] = counted_column(table, f"arg{i + 1}", path, end=self.sizes[sort])
        if not static:
            time = self._times(table, trace, path)
        value = np.ones(count)
        name = "truth" if truth else "value"
        if not relation and (name in table.column_names or not truth):
            value = np.array(_numbers(table, name, path), np.float64)
            low, high = (0, 1) if truth else (0, math.inf if most is None else most - 1)
            bounded = truth or most is not None
            if bounded and count and not (low <= value.min() and value.max() <= high):
                raise wrong_file(path, f"a {name} is not from {low} to {high}")
        return Rows(trace, args, time, value)

    def _times(self, table: pa.Table, trace: Ints, path: Path) -> Ints:
        time = counted_column(table, "time", path, end=int(self.ends.max()))
        if self.ends.min() == self.ends.max():
            return time
        late = np.flatnonzero(time >= self.ends[trace])
        if len(late):
            row = int(late[0])
            last = int(self.ends[trace[row]]) - 1
            what = f"row {row + 1} has the time {time[row]}, but its trace ends at {last}"
            raise wrong_file(path, what)
        return time

    def features(self, sort: str, of: FeatureColumns, facts: Facts, dtype: torch.dtype) -> Features:
        """Return the features of a sort, which must exist wherever its entities are present."""
        path = self.folder / "features" / f"{sort}.parquet"
        table = block_table(path)
        shape = (len(self.ends), self.sizes[sort], 1 if of.static else int(self.ends.max()))
        check_cells(f"the features of '{sort}' in a block", (*shape, len(of.names)))
        trace = counted_column(table, "trace", path, end=shape[0])
        entity = counted_column(table, "entity", path, end=shape[1])
        time = np.zeros_like(trace) if of.static else self._times(table, trace, path)
        cells = torch.from_numpy((trace * shape[1] + entity) * shape[2] + time)
        rows = torch.empty(len(cells), len(of.names), dtype=dtype)
        for number, name in enumerate(of.names):
            rows.numpy()[:, number] = _numbers(table, name, path, nan=True)
        if torch.equal(cells, torch.arange(math.prod(shape))):  # the usual order of rows
            values = rows
        else:
            values = torch.zeros(math.prod(shape), len(of.names), dtype=dtype)
            values[cells] = rows
        there = present(facts, sort)
        there = there.any(-1, keepdim=True) if of.static else there
        there.view(-1)[cells] = False
        if bool(there.any()):
            number, who, when = there.nonzero()[0].tolist()
            called = facts.name(sort, number, who)
            at = "" if of.static else f" at time {when}"
            raise wrong_file(
                path, f"no row is about '{called}'{at} in trace '{facts.traces[number]}'"
            )
        return Features(of.names, values.reshape(*shape, -1), of.categories)


def block_table(path: Path) -> pa.Table:
    """Read a table of a prepared folder."""
    try:
        with parquet.ParquetFile(path, memory_map=True) as file:
            return file.read(use_threads=False)
    except FileNotFoundError:
        raise wrong_file(path, "there is no such file") from None
    except (OSError, pa.ArrowException) as error:
        raise wrong_file(path, f"it cannot be read: {str(error).splitlines()[0]}") from None


def checked_column(table: pa.Table, name: str, path: Path, *, nan: bool = False) -> pa.ChunkedArray:
    """Return a required column, without empty cells unless `nan` is set."""
    if name not in table.column_names:
        raise wrong_file(path, f"no column '{name}'; {name_hint(name, table.column_names)}")
    column = table.column(name)
    if column.null_count and not nan:
        raise wrong_file(path, f"the column '{name}' has empty cells")
    return column


def counted_column(table: pa.Table, name: str, path: Path, *, low: int = 0, end: int) -> Ints:
    """Return a required column of whole numbers from `low` to below `end`."""
    column = checked_column(table, name, path)
    if not pa.types.is_integer(column.type):
        raise wrong_file(path, f"the column '{name}' holds {column.type}, not whole numbers")
    numbers: Ints = column.to_numpy().astype(np.int64)
    if len(numbers) and not (low <= numbers.min() and numbers.max() < end):
        raise wrong_file(
            path,
            f"the column '{name}' has numbers from {numbers.min()} to {numbers.max()}; expected "
            f"{low} to {end - 1}",
        )
    return numbers


def _numbers(table: pa.Table, name: str, path: Path, *, nan: bool = False) -> Floats:
    """Return a column of finite numbers; do not write to it, because Arrow may own it."""
    column = checked_column(table, name, path, nan=nan)
    try:
        if not pa.types.is_float32(column.type):
            column = column.cast(pa.float64())
        numbers: Floats = column.to_numpy()
    except pa.ArrowException:
        raise wrong_file(path, f"the column '{name}' holds {column.type}, not numbers") from None
    odd = np.isinf(numbers) if nan else ~np.isfinite(numbers)
    if bool(odd.any()):
        raise wrong_file(path, f"the column '{name}' has numbers that are not finite")
    return numbers


def wrong_file(path: Path, what: str) -> DataError:
    """Return the error about a file, with a hint."""
    return DataError(f"cannot read {path}: {what}", hint=_AGAIN)
