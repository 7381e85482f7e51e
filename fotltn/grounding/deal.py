"""Split the rows of tables into blocks of traces via files on disk, to bound memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from fotltn.errors import DataError
from fotltn.grounding.cells import Ints, where
from fotltn.grounding.collect import NameNumbers
from fotltn.grounding.read import TablePlace, as_text, read_batches
from fotltn.grounding.sql import QueryRoom

_ROW = "\0row"  # a name that no column of a file has
_ROWS = 8  # the share of memory, as one part in so many, for rows that are not yet on disk
_COMMON = -1  # stands for rows without a trace, which belong to every block


@dataclass(frozen=True, slots=True)
class DealtTable:
    """A file whose rows are split into blocks.

    Args:
        path: the file.
        trace: the column with traces; None if the table has none.
        columns: the columns to read; None for all.
    """

    path: Path
    trace: str | None
    columns: Collection[str] | None = None


@dataclass(slots=True)
class Dealer:
    """Splits the rows of tables into blocks of traces, in the order in which traces appear.

    Args:
        folder: an empty folder for the blocks.
        tables: the files.
        size: the number of traces per block.
        budget: bytes of memory, of which an eighth may hold rows.
    """

    folder: Path
    tables: list[DealtTable]
    size: int
    budget: int
    traces: NameNumbers = field(default_factory=NameNumbers)
    rows: int = 0
    _parts: dict[tuple[int, int], list[pa.Table]] = field(default_factory=dict)
    _held: int = 0
    _written: int = 0
    _first: dict[int, tuple[TablePlace, pa.Schema]] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-len(self.traces.numbers) // self.size)

    def names(self, block: int) -> tuple[str, ...]:
        """Return the traces of a block."""
        every = list(self.traces.numbers)
        return tuple(every[block * self.size : (block + 1) * self.size])

    def deal(self) -> Iterator[int]:
        """Split all rows into blocks, yielding the number of rows read so far after each batch.

        Raises:
            DataError: a file cannot be read, or lacks its column with traces.
        """
        room = QueryRoom(self.budget, self.folder)
        for number, table in enumerate(self.tables):
            for place, part in read_batches(table.path, room):
                self._deal(number, place, part)
                self.rows += len(part)
                yield self.rows
        self._flush()

    def _deal(self, number: int, place: TablePlace, part: pa.Table) -> None:
        table = self.tables[number]
        if table.columns is not None and table.trace not in (None, *part.column_names):
            raise DataError(f"{place.name}: there is no column '{table.trace}' for the traces")
        chosen = [
            i for i, name in enumerate(part.column_names)
            if table.columns is None or name in table.columns
        ]  # fmt: skip
        few = part.select(chosen)
        self._first.setdefault(number, (place, few.schema))
        few = few.append_column(_ROW, pa.array(place.rows))
        block = np.full(len(few), _COMMON, dtype=np.int64)
        if table.trace is not None and part.column_names.count(table.trace) == 1:
            block = self._blocks_of(as_text(place, part.select([table.trace])).column(0))
        order = np.argsort(block, kind="stable")
        ends = np.flatnonzero(np.diff(block[order], append=_COMMON - 1)) + 1
        start = 0
        for end in ends.tolist():
            mine = few.take(pa.array(order[start:end])) if len(ends) > 1 else few
            self._parts.setdefault((number, int(block[order[start]])), []).append(mine)
            self._held += mine.nbytes
            start = end
        if self._held > self.budget // _ROWS:
            self._flush()

    def _blocks_of(self, column: pa.ChunkedArray) -> Ints:
        """Return the block of each row, according to its trace."""
        blocks = np.full(len(column), _COMMON, dtype=np.int64)
        named = where(pc.is_valid(column))
        blocks[named] = self.traces.encode(column.take(pa.array(named))) // self.size
        return blocks

    def _flush(self) -> None:
        """Write the rows in memory to disk."""
        how = ipc.IpcWriteOptions(compression="lz4")
        for (number, block), parts in self._parts.items():
            name = f"{number}.{block}.{self._written}.arrow"
            together = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
            with ipc.new_file(self.folder / name, together.schema, options=how) as file:
                file.write_table(together)
        self._written += bool(self._parts)
        self._parts, self._held = {}, 0

    def read(self, block: int) -> list[tuple[TablePlace, pa.Table]]:
        """Return the rows of each table that belong to a block, with their places in the files."""
        return [self._read(number, block) for number in range(len(self.tables))]

    def _read(self, number: int, block: int) -> tuple[TablePlace, pa.Table]:
        first, schema = self._first[number]
        parts = []
        for written in range(self._written):
            for of in (_COMMON, block):
                path = self.folder / f"{number}.{of}.{written}.arrow"
                if path.exists():
                    with ipc.open_file(path) as file:
                        parts.append(file.read_all())
        if not parts:
            return TablePlace(first.name, first.kind), schema.empty_table()
        table = pa.concat_tables(parts, promote_options="default")
        rows = table.column(_ROW).to_numpy()
        if bool((np.diff(rows) < 0).any()):
            order = np.argsort(rows, kind="stable")
            table, rows = table.take(pa.array(order)), rows[order]
        return TablePlace(first.name, first.kind, rows=rows), table.drop_columns([_ROW])
