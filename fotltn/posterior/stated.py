"""A given predicate as a list of facts: the tuples of arguments, and when they are true."""

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
        tuples: traces and arguments for which it is ever true, with axes (place, tuple), sorted.
        keys: the numbers of these tuples, in ascending order.
        truth: when it is true, with axes (tuple, time); an additional last row is never true.
        shape: the shape of the table, without time.
    """

    tuples: Tensor
    keys: Tensor
    truth: Tensor
    shape: tuple[int, ...]

    def at(self, index: Sequence[Tensor], time: Tensor | None = None) -> Tensor:
        """The truth at an index (trace, arguments …): at all time points, or at one each."""
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
        size: the number of pairs.
    """

    def __init__(self, facts: StatedFacts, bound: Sequence[tuple[int, Tensor]]) -> None:
        """Count pairs; `bound` lists places of tuples, with the values of rows there."""
        sizes = [facts.shape[place] for place, _ in bound]
        mine = flat(torch.stack([facts.tuples[place] for place, _ in bound]), sizes)
        theirs = flat(torch.stack([rows for _, rows in bound]), sizes).contiguous()
        self._order = torch.argsort(mine, stable=True)
        mine = mine[self._order]
        self._first = torch.searchsorted(mine, theirs)
        self._number = torch.searchsorted(mine, theirs, right=True) - self._first
        self.size = int(self._number.sum())

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The numbers of the row and of the tuple of each pair."""
        count = torch.arange(len(self._number), device=self._number.device)
        row = count.repeat_interleave(self._number)
        begin = self._number.cumsum(0) - self._number
        place = torch.arange(len(row), device=row.device) - begin[row] + self._first[row]
        return row, self._order[place]


def stated(name: str, table: SparseTable) -> StatedFacts | None:
    """List the facts of a table by tuples; None if facts that are not stated are true."""
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
