"""The predictions of a predicate and its labels, with a row for each binding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.analysis.over_time import NO_BYTE, shades
from fotltn.errors import LimitError
from fotltn.grounding.labels import Labels
from fotltn.semantics.sparse import numbered

#: The most cells of a heat map of predictions.
MAX_CELLS = 2**27


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The predictions and the labels of a predicate, with axes (row, time).

    Args:
        cells: the cells; each row is a binding of them.
        values: degrees; NaN beyond the end of a trace.
        truths: whether they are decided to be true.
        labels: as bytes: true as 254, false as 0, and 255 where nothing is stated.
        tested: where the label was held back for testing.
        errors: for each row, the mean distance of prediction and label.
        order: the rows that exist, the largest errors first.
        labelled: the number of labels.
        held_back: the number of labels for testing.
    """

    cells: Cells
    values: Tensor
    truths: Tensor
    labels: Tensor
    tested: Tensor
    errors: Tensor
    order: Tensor
    labelled: int
    held_back: int

    def apart(self, other: Predictions) -> tuple[float | None, float | None]:
        """The mean distance to other predictions, and the share that is decided differently."""
        if self.values.shape != other.values.shape:
            return None, None
        a, b = self.values[self.order], other.values[self.order]
        counted = ~(a.isnan() | b.isnan())
        if not bool(counted.any()):
            return None, None
        differ = (self.truths[self.order] != other.truths[self.order])[counted]
        return float((a - b).abs()[counted].mean()), float(differ.float().mean())

    def prediction_bytes(self, rows: Tensor) -> bytes:
        """Predictions of rows as bytes."""
        return bytes(shades(self.values[rows]).numpy())

    def label_bytes(self, rows: Tensor) -> bytes:
        """Labels of rows as bytes."""
        return bytes(self.labels[rows].numpy())

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        parts = (self.values, self.truths, self.labels, self.tested, self.errors, self.order)
        return sum(tensor.nbytes for tensor in parts)


def predictions(
    cells: Cells, predicate: str, train: Labels | None, test: Labels | None
) -> Predictions:
    """The degrees of a predicate as rows.

    Args:
        cells: the cells of a formula that is the predicate with a variable for each argument.
        predicate: its name.
        train: labels that were learned from.
        test: labels that were held back.

    Raises:
        LimitError: there are too many cells.
    """
    tables = cells.tables
    shape = tables.table(predicate).shape
    times = shape[-1] if shape[-1] == 1 else tables.horizon
    if cells.rows * times > MAX_CELLS:
        raise LimitError(
            f"'{predicate}' has {cells.rows * times:,} degrees; at most {MAX_CELLS:,} are shown "
            "(fotltn predict writes all of them to a file)"
        )
    full = (tables.batch, *cells.sizes, times)
    values, truths = (
        some.predicate(predicate).detach().cpu().expand(full).reshape(cells.rows, times)
        for some in (tables, cells.boolean)
    )
    values, truths = values.float().clone(), truths > 0
    if times > 1:
        beyond = ~tables.inside.cpu().repeat_interleave(cells.bindings, 0)
        values[beyond] = torch.nan
    labels = torch.full(values.shape, NO_BYTE, dtype=torch.uint8)
    tested = torch.zeros(values.shape, dtype=torch.bool)
    for stated, held_back in ((train, False), (test, True)):
        if stated is not None and predicate in stated.index:
            index = stated.index[predicate].cpu()
            rows = numbered([*index[:-1]], full[:-1]).long()
            place = (rows, index[-1] if times > 1 else 0)
            labels[place] = shades(stated.truth[predicate].float().cpu())
            tested[place] = held_back
    labelled = labels != NO_BYTE
    far = torch.where(labelled, (values - labels.float() / 254).abs().nan_to_num(), 0.0)
    errors = far.sum(-1) / labelled.sum(-1).clamp(min=1)
    there = _existing(cells)
    order = there[errors[there].argsort(descending=True, stable=True)]
    return Predictions(
        cells, values, truths, labels, tested, errors, order, int(labelled.sum()),
        int(tested.sum()),
    )  # fmt: skip


def _existing(cells: Cells) -> Tensor:
    """The rows whose entities all exist in their trace."""
    tables = cells.tables
    exist = torch.ones(tables.batch, *cells.sizes, dtype=torch.bool)
    for place, axis in enumerate(cells.axes):
        size = cells.sizes[place]
        there = [
            [tables.names.entity(str(axis.sort), t, i) is not None for i in range(size)]
            for t in range(tables.batch)
        ]
        shape = [1] * exist.dim()
        shape[0], shape[1 + place] = tables.batch, size
        exist &= torch.tensor(there, dtype=torch.bool).reshape(shape)
    return exist.reshape(-1).nonzero().squeeze(-1)
