"""Worlds that several processes move together: each moves some of them, and all are told all.

Every process holds all worlds, and computes alike what depends on all of them: what is learned, how
far chains agree, what is counted. Random numbers are drawn for all worlds by every process, which
uses those of its own. So what comes out does not depend on how many processes there are.
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
    """This process among those that move worlds.

    Args:
        number: of this one, from 0.
        count: of all.
        tell: tells bytes to all, and returns those of each; all know how many each has.
    """

    number: int
    count: int
    tell: Callable[[Tensor, Sequence[int]], list[Tensor]]

    def moved(self, worlds: int) -> range:
        """The worlds that this process moves; two at least, as one alone is computed otherwise."""
        mine = ranges(worlds, self.count)[self.number]
        start = min(mine.start, max(0, worlds - 2))
        return range(start, min(worlds, max(mine.stop, start + 2)))

    def all_worlds(self, tables: Mapping[str, Tensor], worlds: int) -> dict[str, Tensor]:
        """Tables of all worlds, of which those that this process has moved are given."""
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
    """Random numbers of some worlds, as they are drawn for all.

    Args:
        generator: of random numbers.
        total: how many worlds there are.
        mine: those whose numbers are wanted.
    """

    generator: torch.Generator
    total: int
    mine: range


#: What random numbers come from.
Randomness = torch.Generator | WorldDraws


def uniform(
    shape: Sequence[int], draws: Randomness, *, world: int, device: torch.device,
    dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Numbers from 0 to 1.

    Args:
        shape: of the result.
        draws: what they come from.
        world: the axis of worlds.
        device: where to put them.
        dtype: of the numbers.
    """
    if isinstance(draws, torch.Generator):
        return torch.rand(*shape, generator=draws, device=device, dtype=dtype)
    every = [*shape]
    every[world] = draws.total
    numbers = torch.rand(*every, generator=draws.generator, device=device, dtype=dtype)
    return numbers.narrow(world, draws.mine.start, len(draws.mine)).contiguous()


def all_of(draws: Randomness, worlds: int) -> int:
    """How many worlds there are, of which some are drawn."""
    return worlds if isinstance(draws, torch.Generator) else draws.total
