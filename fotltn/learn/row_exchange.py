"""Join tables from the rows of all processes: every process gets the rows of all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.learn.ranks import Ranks

#: The rows of some tables that a block has; the rows are the second axis.
BlockRows = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class _RowKind:
    """What all rows of a table have in common.

    Args:
        shape: the shape of a row, (trace, *other arguments, time).
        dtype: the type of its numbers.
        learned: whether rows have gradients.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    learned: bool

    @staticmethod
    def of(rows: Tensor) -> _RowKind:
        return _RowKind((rows.shape[0], *rows.shape[2:]), rows.dtype, rows.requires_grad)


class RowExchange:
    """Sends rows to all processes.

    A process may have no row of a table. So when a table first occurs, processes exchange the
    shape and type of its rows.

    Args:
        ranks: this process among others.
        blocks: the number of blocks.
    """

    def __init__(self, ranks: Ranks, blocks: int) -> None:
        """Nothing is known of any table."""
        self.ranks, self.blocks = ranks, blocks
        self._kinds: dict[tuple[str, bool], _RowKind] = {}

    def __call__(
        self,
        sizes: Mapping[str, Sequence[int]],
        mine: Mapping[int, BlockRows],
        device: torch.device,
    ) -> dict[str, tuple[Tensor, bool]]:
        """Return the tables that have rows, and whether they are learned.

        Args:
            sizes: how many rows each block has, by table.
            mine: the rows of the blocks of this process.
            device: where tables are.
        """
        kinds = self._all_kinds([*sizes], mine)
        rows = {n: [some[n].detach() for some in mine.values() if n in some] for n in kinds}
        if self.ranks.count > 1 and kinds:
            rows = self._told(kinds, sizes, rows, device)
        # BlockRows of others come in another layout of memory, and sums follow the layout.
        return {n: (torch.cat(rows[n], 1).contiguous(), k.learned) for n, k in kinds.items()}

    def _all_kinds(
        self, names: Sequence[str], mine: Mapping[int, BlockRows]
    ) -> dict[str, _RowKind]:
        """Return the kinds of tables; without gradients, none is learned."""
        graded = torch.is_grad_enabled()
        if any((name, graded) not in self._kinds for name in names):
            here = {n: _RowKind.of(rows) for some in mine.values() for n, rows in some.items()}
            for told in self.ranks.objects(here):
                self._kinds |= {(name, graded): kind for name, kind in told.items()}
        known = {name: self._kinds.get((name, graded)) for name in names}
        return {name: kind for name, kind in known.items() if kind is not None}

    def _told(
        self,
        kinds: Mapping[str, _RowKind],
        sizes: Mapping[str, Sequence[int]],
        mine: Mapping[str, Sequence[Tensor]],
        device: torch.device,
    ) -> dict[str, list[Tensor]]:
        """Return the rows of all processes, in order, given the rows of this one."""
        dtypes = {kind.dtype for kind in kinds.values()}
        dtype = dtypes.pop() if len(dtypes) == 1 else torch.float64
        nothing = torch.zeros(0, dtype=dtype, device=device)
        flat = [part.movedim(1, 0).reshape(-1).to(dtype) for n in kinds for part in mine[n]]
        counts = [
            {n: sum(sizes[n][number] for number in share) for n in kinds}
            for share in self.ranks.shares(self.blocks)
        ]
        lengths = [
            [count[n] * torch.Size(kind.shape).numel() for n, kind in kinds.items()]
            for count in counts
        ]
        every = self.ranks.gathered(torch.cat([nothing, *flat]), [*map(sum, lengths)])
        rows: dict[str, list[Tensor]] = {name: [] for name in kinds}
        for numbers, of_rank, count in zip(every, lengths, counts, strict=True):
            for part, (name, kind) in zip(numbers.split(of_rank), kinds.items(), strict=True):
                table = part.to(kind.dtype).reshape(count[name], *kind.shape)
                rows[name].append(table.movedim(0, 1))
        return rows
