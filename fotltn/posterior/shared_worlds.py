"""Worlds that several processes move together: each moves some, and sends them to the others.

Every process holds all worlds, and computes everything that depends on all of them: learning,
agreement of chains, and counts. Every process draws the random numbers of all worlds, and uses
those of its worlds. The result therefore does not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fotltn.posterior.bits import packed, unpacked
from fotltn.sharing import ranges


@dataclass(frozen=True, slots=True)
class WorldShare:
    """The share of this process in moving worlds.

    Args:
        number: the number of this process, from 0.
        count: the number of processes.
        tell: sends bytes to all processes, and returns the bytes of each; all processes know how
            many bytes each sends.
    """

    number: int
    count: int
    tell: Callable[[Tensor, Sequence[int]], list[Tensor]]

    def moved(self, worlds: int) -> range:
        """The worlds that this process moves; at least two, as one is computed differently."""
        mine = ranges(worlds, self.count)[self.number]
        start = min(mine.start, max(0, worlds - 2))
        return range(start, min(worlds, max(mine.stop, start + 2)))

    def all_worlds(self, tables: Mapping[str, Tensor], worlds: int) -> dict[str, Tensor]:
        """Exchange worlds: from the tables that this process moved, to the tables of all worlds."""
        shares, moved = ranges(worlds, self.count), self.moved(worlds)
        mine = shares[self.number]
        part = slice(mine.start - moved.start, mine.stop - moved.start)
        shapes = {name: table.shape[1:] for name, table in tables.items()}
        sizes = [shape.numel() for shape in shapes.values()]
        bits = torch.cat([table[part].flatten(1).cpu() for table in tables.values()], 1)
        lengths = [-(-len(share) * sum(sizes) // 8) for share in shares]
        every = torch.cat([
            unpacked(told, (len(share), sum(sizes)))
            for told, share in zip(self.tell(packed(bits), lengths), shares, strict=True)
        ])  # fmt: skip
        return {
            name: rows.reshape(worlds, *shapes[name]).to(tables[name].device)
            for name, rows in zip(tables, every.split(sizes, 1), strict=True)
        }


@dataclass(frozen=True, slots=True)
class WorldDraws:
    """Random numbers of some worlds, drawn together with those of all worlds.

    Args:
        generator: the source of random numbers.
        total: the number of all worlds.
        mine: the worlds whose numbers are used.
    """

    generator: torch.Generator
    total: int
    mine: range


#: A source of random numbers.
Randomness = torch.Generator | WorldDraws


def uniform(
    shape: Sequence[int], draws: Randomness, *, world: int, device: torch.device,
    dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Draw numbers from 0 to 1.

    Args:
        shape: the shape of the result.
        draws: the source of random numbers.
        world: the axis of worlds.
        device: the device of the result.
        dtype: the type of the numbers.
    """
    if isinstance(draws, torch.Generator):
        return torch.rand(*shape, generator=draws, device=device, dtype=dtype)
    every = [*shape]
    every[world] = draws.total
    numbers = torch.rand(*every, generator=draws.generator, device=device, dtype=dtype)
    return numbers.narrow(world, draws.mine.start, len(draws.mine)).contiguous()


def all_of(draws: Randomness, worlds: int) -> int:
    """The number of all worlds, if only some are drawn here."""
    return worlds if isinstance(draws, torch.Generator) else draws.total
