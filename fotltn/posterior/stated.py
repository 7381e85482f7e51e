"""A given predicate by its facts: the tuples of which it is ever true, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.semantics import crisp
from fotltn.semantics.sparse import SparseTable, flat


@dataclass(frozen=True, slots=True, eq=False)
class StatedFacts:
    """The facts of one predicate.

    Args:
        tuples: traces and arguments of which it is ever true, with axes (place, tuple), in order.
        keys: the numbers of these tuples, which grow.
        truth: when it is true, with axes (tuple, time); one row more, of what is never true.
        shape: of the table, but for time.
    """

    tuples: Tensor
    keys: Tensor
    truth: Tensor
    shape: tuple[int, ...]

    def at(self, index: Sequence[Tensor], time: Tensor | None = None) -> Tensor:
        """The truth at an index (trace, arguments …): of all points, or of one each."""
        index = torch.broadcast_tensors(*index)
        wanted = flat(torch.stack(list(index)), self.shape).to(self.keys.dtype)
        if not len(self.keys):
            place = torch.zeros_like(wanted, dtype=torch.int64)
        else:
            place = torch.searchsorted(self.keys, wanted.contiguous())
            place = place.clamp_max(len(self.keys) - 1)
            place = torch.where(self.keys[place] == wanted, place, len(self.keys))
        return self.truth[place] if time is None else self.truth[place, time]


class FactJoin:
    """Pairs of rows and tuples of facts that agree.

    Attributes:
        size: how many there are.
    """

    def __init__(self, facts: StatedFacts, bound: Sequence[tuple[int, Tensor]]) -> None:
        """Count them; `bound` has places of tuples, and what rows have there."""
        sizes = [facts.shape[place] for place, _ in bound]
        mine = flat(torch.stack([facts.tuples[place] for place, _ in bound]), sizes)
        theirs = flat(torch.stack([rows for _, rows in bound]), sizes).contiguous()
        self._order = torch.argsort(mine, stable=True)
        mine = mine[self._order]
        self._first = torch.searchsorted(mine, theirs)
        self._number = torch.searchsorted(mine, theirs, right=True) - self._first
        self.size = int(self._number.sum())

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The number of the row, and that of the tuple, of each pair."""
        count = torch.arange(len(self._number), device=self._number.device)
        row = count.repeat_interleave(self._number)
        begin = self._number.cumsum(0) - self._number
        place = torch.arange(len(row), device=row.device) - begin[row] + self._first[row]
        return row, self._order[place]


def stated(name: str, table: SparseTable) -> StatedFacts | None:
    """A table of facts by tuples; None if what is not stated is true."""
    if bool(crisp.true(name, torch.tensor([table.default], dtype=table.value.dtype), None)):
        return None
    index = table.index[:, crisp.true(name, table.value, None)].long()
    *shape, times = table.shape
    keys, place = torch.unique(flat(index[:-1], shape), return_inverse=True)
    tuples = index.new_zeros(len(shape), len(keys))
    tuples[:, place] = index[:-1]
    truth = torch.zeros(len(keys) + 1, times, dtype=torch.bool, device=index.device)
    truth[place, index[-1]] = True
    return StatedFacts(tuples, keys, truth, tuple(shape))
