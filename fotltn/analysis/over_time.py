"""The truth of a rule over bindings and time, as in a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.error_shares import ErrorMeasure, erring, shared_cells
from fotltn.analysis.record import Record
from fotltn.analysis.tally import CellTally
from fotltn.analysis.worst import WorstSoFar
from fotltn.errors import DataError
from fotltn.format import degree, share
from fotltn.syntax.notebook import strip, table, text
from fotltn.syntax.show import show

#: The mark of a cell that does not count, in `truth` and in `bytes`.
NO_TRUTH, NO_BYTE = 2, 255

#: The mark in `truth` of a cell that is false only because its trace ends.
UNDECIDED = 3

#: How many rows a notebook shows.
_SHOWN = 20

#: The most cells that are kept.
MAX_CELLS = 2**29


@dataclass(frozen=True, slots=True)
class BindingRow(Record):
    """A binding of a rule in a trace.

    Args:
        row: its number.
        trace: the number of the trace.
        trace_name: its name.
        binding: the names of entities by variable.
        error: its share of all errors, from 0 to 1.
        lowest: the lowest degree of its cells that count.
        at: the first time at which it has that degree.
        violated: how many of its cells are false in two-valued logic.
    """

    row: int
    trace: int
    trace_name: str
    binding: dict[str, str]
    error: float
    lowest: float
    at: int
    violated: int

    KEYS = ("row", "trace=trace_name", "binding", "error", "lowest", "at", "violated")


@dataclass(frozen=True, slots=True, eq=False)
class BindingRows:
    """Some bindings of a rule, the worst ones, with their values over time.

    Args:
        rows: the bindings, the worst first.
        values: their degrees with axes (row, time); NaN where nothing counts.
        times: the time of each column.
        traces: how many traces there are in all.
    """

    rows: tuple[BindingRow, ...]
    values: np.ndarray[Any, Any]
    times: tuple[int, ...]
    traces: int

    def as_dict(self) -> dict[str, object]:
        """Return the rows as data; cells that do not count are NaN."""
        pairs = zip(self.rows, self.values.tolist(), strict=True)
        return {
            "times": list(self.times),
            "rows": [{**row.as_dict(), "values": values} for row, values in pairs],
        }


@dataclass(frozen=True, slots=True)
class Band(Record):
    """The values of a rule's body at each time, over all traces and bindings that count there.

    Args:
        times: the points at which something counts.
        mean: the mean value at each.
        low: the lowest value at each.
        high: the highest value at each.
        violated: how many cells are false at each, in two-valued logic.
    """

    times: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    violated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TruthOverTime:
    """The values of a rule's body at every binding and time.

    Args:
        cells: the cells of the rule.
        values: degrees with axes (row, time); NaN where a cell does not count, because a guard is
            false there, or the trace has ended.
        truth: 1 where the body is true in two-valued logic, 0 where it is false, 2 where a cell
            does not count, and 3 where it is undecided, with the same axes.
        errors: the share of each row in the errors of all cells that count.
        order: the rows that have a cell that counts: those with violations first, and of each kind
            those with the largest errors.
        times: the time of each column.
        tally: the counts of cells.
        first: the cell that lists put first; None if all that count are fully true.
    """

    cells: Cells
    values: Tensor
    truth: Tensor
    errors: Tensor
    order: Tensor
    times: tuple[int, ...]
    tally: CellTally
    first: Cell | None

    def __len__(self) -> int:
        """The number of rows to show."""
        return len(self.order)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of points of each trace."""
        return tuple(self.cells.tables.lengths.tolist())

    @property
    def count(self) -> int:
        """The number of cells that count."""
        return self.tally.count

    @property
    def violated(self) -> int:
        """The number of cells that are false in two-valued logic."""
        return self.tally.violated

    @property
    def undecided(self) -> int:
        """The number of cells that are false only because their trace ends."""
        return self.tally.undecided

    def row(self, row: int) -> BindingRow:
        """Return a row with its binding, error and lowest degree.

        Raises:
            DataError: there is no such row.
        """
        cell = self.cells.cell(row, 0)
        degrees = self.values[row].nan_to_num(nan=math.inf)
        column = int(degrees.argmin())
        return BindingRow(
            row,
            cell.trace,
            self.cells.tables.names.trace(cell.trace),
            self.cells.binding(cell),
            float(self.errors[row]),
            float(self.values[row, column]),
            self.times[column],
            int((self.truth[row] == 0).sum()),
        )

    def rows(self, start: int, stop: int) -> tuple[BindingRow, ...]:
        """Yield the rows by rank, the worst first."""
        return tuple(self.row(row) for row in self.order[max(0, start) : max(0, stop)].tolist())

    def worst(self, count: int) -> tuple[BindingRow, ...]:
        """Return the first rows: those with violations, then those with the largest errors."""
        return self.rows(0, count)

    def top(self, count: int) -> BindingRows:
        """Return the first rows, with their values."""
        rows = self.worst(count)
        values = self.values[[row.row for row in rows]].detach().cpu().numpy()
        return BindingRows(rows, values, self.times, len(self.lengths))

    def band(self) -> Band:
        """Return the mean and the range of values at each time."""
        values = self.values.detach().cpu().numpy()
        violated = (self.truth == 0).sum(0).tolist()
        columns = []
        for place, time in enumerate(self.times):
            column = values[:, place]
            column = column[~np.isnan(column)]
            if len(column):
                mean, low, high = column.mean(dtype=np.float64), column.min(), column.max()
                columns.append((time, float(mean), float(low), float(high), violated[place]))
        return Band(*zip(*columns, strict=True))

    def apart(self, other: TruthOverTime) -> Tensor:
        """Return the rows of two heat maps, those that differ most on average first."""
        apart = (self.values - other.values).abs()
        counted = ~apart.isnan()
        mean = apart.nan_to_num().sum(-1) / counted.sum(-1).clamp(min=1)
        rows = self.order.sort().values
        return rows[mean[rows].argsort(descending=True, stable=True)]

    def bytes(self, rows: Tensor | Sequence[int]) -> bytes:
        """Return rows as bytes: 0 to 254 for a degree, 255 for a cell that does not count."""
        degrees = self.values[torch.as_tensor(rows, dtype=torch.long)]
        return shades(degrees).contiguous().numpy().tobytes()

    def as_dict(self, top: int = 50) -> dict[str, object]:
        """Return the worst rows as data; values are None where a cell does not count.

        Their truth is None there, and where it is undecided.
        """
        worst = []
        for row in self.order[:top].tolist():
            degrees, truths = self.values[row].tolist(), self.truth[row].tolist()
            worst.append(
                {
                    **self.row(row).as_dict(),
                    "values": [None if math.isnan(u) else u for u in degrees],
                    "truth": [{0: False, 1: True}.get(t) for t in truths],
                }
            )
        return {
            "rule": self.cells.name,
            "formula": self.cells.text,
            "variables": list(self.cells.variables),
            "times": list(self.times),
            "rows": len(self),
            "count": self.tally.count,
            "decided": self.tally.decided,
            "violated": self.tally.violated,
            "undecided": self.tally.undecided,
            "worst": worst,
        }

    def _repr_html_(self) -> str:
        several = self.cells.tables.batch > 1
        heads = [*(["trace"] if several else []), *self.cells.variables, "share", "lowest", "at"]
        rows: list[list[object]] = []
        for row in self.worst(_SHOWN):
            said = f"lowest {degree(row.lowest)} at {row.at}, false at {row.violated} points"
            cells: list[object] = [row.trace_name] if several else []
            cells += [*row.binding.values(), share(row.error), degree(row.lowest), row.at]
            rows.append([*cells, strip(self.values[row.row].tolist(), said=said, wrong=True)])
        words = ["trace", *self.cells.variables, "over time"]
        caption = f"{self.cells.name}: {show(self.cells.source, 'unicode')}"
        rest = f"{len(self) - _SHOWN:,} more rows. " if len(self) > _SHOWN else ""
        rest += f"{self.tally.words()}."
        return table([*heads, "over time"], rows, left=words, caption=caption) + text(rest)


def shades(degrees: Tensor, full: int = NO_BYTE - 1) -> Tensor:
    """Return degrees as whole numbers from 0 to `full`; only 1 is full, and only 0 is 0.

    NaN is one more. By default, these are bytes from 0 to 254, and 255.
    """
    between = (degrees * full).round().clamp(1, full - 1)
    ends = torch.where(degrees >= 1, full, torch.where(degrees <= 0, 0, between))
    kind = torch.uint8 if full < NO_BYTE else torch.int32
    return torch.where(degrees.isnan(), full + 1, ends).to(kind)


@torch.no_grad()
def truth_over_time(cells: Cells) -> TruthOverTime:
    """Compute a rule's body at every binding and time, as degrees and in two-valued logic.

    They are computed a part at a time, and held in single precision.

    Raises:
        DataError: there are too many cells, or a table is missing.
    """
    shape = (cells.tables.batch, *cells.sizes, cells.columns)
    if math.prod(shape) > MAX_CELLS:
        raise DataError(
            f"'{cells.name}' has {math.prod(shape):,} cells of bindings and times; at most "
            f"{MAX_CELLS:,} are shown at once"
        )
    values = torch.empty(shape, dtype=torch.float32)
    truth = torch.empty(shape, dtype=torch.uint8)
    sums = torch.zeros(shape[:-1], dtype=torch.float64)
    _, errors = shared_cells(cells)
    best = WorstSoFar(1)
    for block in erring(cells, errors):
        best.add(block)
        here = (slice(None), slice(block.start, block.stop)) if cells.axes else (slice(None),)
        names = ("degree", "truth", "undecided", "error")
        counts, body, true, cut, error = (
            u.expand(block.shape)[..., : cells.columns]
            for u in (block.counts, *(block.values[n] for n in names))
        )
        mark = torch.where(cut, UNDECIDED, true.to(torch.uint8))
        error = torch.where(counts, error, 0.0)
        values[here] = torch.where(counts, body, math.nan).float().cpu()
        truth[here] = torch.where(counts, mark, NO_TRUTH).to(torch.uint8).cpu()
        row = error.amax(-1) if errors.measure is ErrorMeasure.WORST else error.sum(-1)
        sums[here] = row.cpu()
    truth = truth.reshape(-1, cells.columns)
    shares = _share(sums.reshape(-1))
    order = shares.argsort(descending=True, stable=True)
    violated = (truth[order] == 0).any(-1)
    order = torch.cat([order[violated], order[~violated]])
    order = order[(truth[order] != NO_TRUTH).any(-1)]
    values = values.reshape(-1, cells.columns)
    return TruthOverTime(
        cells, values, truth, shares.float(), order, tuple(range(cells.columns)), best.tally,
        best.worst[0].cell if best.worst else None,
    )  # fmt: skip


def _share(errors: Tensor) -> Tensor:
    """Return errors divided by their sum; infinite errors share everything."""
    if bool(errors.isinf().any()):
        errors = errors.isinf().double()
    total = errors.sum()
    return errors / total if total > 0 else errors
