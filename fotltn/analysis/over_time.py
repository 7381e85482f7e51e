"""The truth of a rule over bindings and time: what a heat map shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.cells import Cell, Rule, Subject, named_binding
from fotltn.analysis.error_shares import Measure, split, weigh
from fotltn.analysis.evaluate_cells import sweep, two_valued
from fotltn.analysis.prefix import rebuild
from fotltn.errors import DataError
from fotltn.semantics.config import CRISP
from fotltn.syntax.notebook import number, strip, table, text

#: What marks a cell that does not count, in `truth` and in `bytes`.
NO_TRUTH, NO_BYTE = 2, 255

#: How many rows a notebook shows.
_SHOWN = 20

#: The most cells that are kept.
MAX_CELLS = 2**29


@dataclass(frozen=True, slots=True)
class Row:
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

    def as_dict(self) -> dict[str, object]:
        """The row for machines."""
        return {
            "row": self.row,
            "trace": self.trace_name,
            "binding": dict(self.binding),
            "error": self.error,
            "lowest": self.lowest,
            "at": self.at,
            "violated": self.violated,
        }


@dataclass(frozen=True, slots=True, eq=False)
class TruthOverTime:
    """The values of a rule's body at every binding and time.

    Args:
        rule: the rule.
        subject: the data.
        values: degrees with axes (row, time); NaN where a cell does not count, since a guard is
            false there, or the trace has ended.
        truth: 1 where the body is true in two-valued logic, 0 where it is false, and 2 where a
            cell does not count, with the same axes.
        errors: the share of each row in all errors.
        order: the rows that have a cell that counts, those with the largest errors first.
        times: the time of each column.
    """

    rule: Rule
    subject: Subject
    values: Tensor
    truth: Tensor
    errors: Tensor
    order: Tensor
    times: tuple[int, ...]

    def __len__(self) -> int:
        """The number of rows to show."""
        return len(self.order)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of points of each trace."""
        return tuple(self.subject.tables.lengths.tolist())

    @property
    def count(self) -> int:
        """How many cells count."""
        return int((self.truth != NO_TRUTH).sum())

    @property
    def violated(self) -> int:
        """How many of them are false in two-valued logic."""
        return int((self.truth == 0).sum())

    def cell(self, row: int, column: int) -> Cell:
        """The cell of a row and a column.

        Raises:
            DataError: there is no such row or column.
        """
        self._check(row)
        if not 0 <= column < len(self.times):
            raise DataError(f"there is no column {column}: there are 0 to {len(self.times) - 1}")
        sizes = [self.subject.tables.size(a) for a in self.rule.axes]
        trace, place = divmod(row, math.prod(sizes))
        numbers = []
        for size in reversed(sizes):
            place, number = divmod(place, size)
            numbers.append(number)
        return Cell(trace, tuple(reversed(numbers)), self.times[column])

    def row(self, row: int) -> Row:
        """What there is to say of a row.

        Raises:
            DataError: there is no such row.
        """
        cell = self.cell(row, 0)
        degrees = self.values[row].nan_to_num(nan=math.inf)
        column = int(degrees.argmin())
        return Row(
            row,
            cell.trace,
            self.subject.trace_name(cell.trace),
            named_binding(self.rule, self.subject, cell),
            float(self.errors[row]),
            float(self.values[row, column]),
            self.times[column],
            int((self.truth[row] == 0).sum()),
        )

    def rows(self, start: int, stop: int) -> tuple[Row, ...]:
        """Rows by their rank, from the worst on."""
        return tuple(self.row(row) for row in self.order[max(0, start) : max(0, stop)].tolist())

    def worst(self, count: int) -> tuple[Row, ...]:
        """The rows with the largest errors."""
        return self.rows(0, count)

    def of_trace(self, trace: int) -> Tensor:
        """The rows of one trace, those with the largest errors first."""
        each = len(self.errors) // max(1, self.subject.tables.batch)
        return self.order[self.order.div(max(1, each), rounding_mode="floor") == trace]

    def bytes(self, rows: Tensor | Sequence[int]) -> bytes:
        """Rows as bytes, one a cell: 0 to 254 for degrees from 0 to 1, 255 if it does not count."""
        found = self.values[torch.as_tensor(rows, dtype=torch.long)]
        whole = (found.clamp(0, 1) * (NO_BYTE - 1)).round().nan_to_num(nan=NO_BYTE)
        return whole.to(torch.uint8).contiguous().numpy().tobytes()

    def as_dict(self, top: int = 50) -> dict[str, object]:
        """The worst rows for machines; their values are None where a cell does not count."""
        found = []
        for row in self.order[:top].tolist():
            degrees, truths = self.values[row].tolist(), self.truth[row].tolist()
            found.append(
                {
                    **self.row(row).as_dict(),
                    "values": [None if math.isnan(u) else u for u in degrees],
                    "truth": [None if t == NO_TRUTH else bool(t) for t in truths],
                }
            )
        return {
            "rule": self.rule.name,
            "formula": self.rule.text,
            "variables": list(self.rule.variables),
            "times": list(self.times),
            "rows": len(self),
            "count": self.count,
            "violated": self.violated,
            "worst": found,
        }

    def _repr_html_(self) -> str:
        several = self.subject.tables.batch > 1
        heads = [*(["trace"] if several else []), *self.rule.variables, "share", "lowest", "at"]
        rows: list[list[object]] = []
        for row in self.worst(_SHOWN):
            said = f"lowest {row.lowest:.3f} at {row.at}, false at {row.violated} points"
            cells: list[object] = [row.trace_name] if several else []
            cells += [*row.binding.values(), f"{100 * row.error:.1f}%", number(row.lowest), row.at]
            rows.append([*cells, strip(self.values[row.row].tolist(), said=said, wrong=True)])
        words = ["trace", *self.rule.variables, "over time"]
        caption = f"{self.rule.name}: {self.rule.formula._repr_latex_()}"
        rest = f"{len(self) - _SHOWN:,} more rows. " if len(self) > _SHOWN else ""
        rest += f"{self.violated:,} of {self.count:,} cells are false in two-valued logic."
        return table([*heads, "over time"], rows, left=words, caption=caption) + text(rest)

    def _check(self, row: int) -> None:
        if not 0 <= row < len(self.errors):
            raise DataError(f"there is no row {row}: there are 0 to {len(self.errors) - 1}")


@torch.no_grad()
def truth_over_time(rule: Rule, subject: Subject) -> TruthOverTime:
    """The values of a rule's body at every binding and time, as degrees and in two-valued logic.

    They are computed a part at a time, and kept in single precision.

    Args:
        rule: the rule.
        subject: the data.

    Raises:
        DataError: there are too many cells, or a table is missing.
    """
    tables, semantics = subject.tables, subject.semantics
    axes, sizes = rule.axes, [subject.tables.size(a) for a in rule.axes]
    columns = tables.horizon if rule.timed else 1
    cells = tables.batch * math.prod(sizes) * columns
    if cells > MAX_CELLS:
        raise DataError(
            f"'{rule.name}' has {cells:,} cells of bindings and times; at most {MAX_CELLS:,} are "
            "shown at once"
        )
    shape = (tables.batch, *sizes, columns)
    values = torch.empty(shape, dtype=torch.float32)
    truth = torch.empty(shape, dtype=torch.uint8)
    sums = torch.zeros(shape[:-1], dtype=torch.float64)
    _, errors = split(rebuild(rule.whole.layers, rule.body), semantics, tables.batch)
    boolean = two_valued(tables, subject.threshold)
    read = boolean if semantics.boolean else tables
    for part, body, error, seen in weigh(
        rule.whole, axes, errors, subject.signature, read, semantics, dtype=subject.dtype
    ):
        here = (slice(None), slice(part.start, part.stop)) if axes else (slice(None),)
        counted = seen[..., :columns]
        values[here] = torch.where(counted, body[..., :columns], math.nan).float().cpu()
        truth[here] = torch.where(counted, 1, NO_TRUTH).to(torch.uint8).cpu()
        row = error.amax(-1) if errors.measure is Measure.WORST else error.sum(-1)
        sums[here] = row.cpu()
    whole = {"body": rule.body}
    for part in sweep(whole, axes, subject.signature, boolean, CRISP, dtype=subject.dtype):
        here = (slice(None), slice(part.start, part.stop)) if axes else (slice(None),)
        true = part.values["body"].expand(part.shape(axes, tables))[..., :columns].cpu()
        truth[here] = torch.where(true, truth[here], truth[here] & NO_TRUTH)
    rows = sums.reshape(-1)
    truth = truth.reshape(-1, columns)
    order = _share(rows).argsort(descending=True, stable=True)
    order = order[(truth[order] != NO_TRUTH).any(-1)]
    times = tuple(range(columns))
    shares = _share(rows).float()
    return TruthOverTime(rule, subject, values.reshape(-1, columns), truth, shares, order, times)


def _share(errors: Tensor) -> Tensor:
    """Errors by their sum; where some are infinite, these share all."""
    if bool(errors.isinf().any()):
        errors = errors.isinf().double()
    total = errors.sum()
    return errors / total if total > 0 else errors
