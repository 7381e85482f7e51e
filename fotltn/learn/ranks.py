"""The processes that train together: their numbers, and all communication among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from fotltn.errors import DataError, FotError, InterruptedTrainingError
from fotltn.files import MEETING
from fotltn.sharing import Sharing, ranges, shared_by

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train together.

    Args:
        number: the number of this process, from 0.
        count: the number of all processes.
        resumes: whether their work can continue from a checkpoint if one of them ends.
    """

    number: int = 0
    count: int = 1
    resumes: bool = True

    @property
    def first(self) -> bool:
        """Whether this process is the one that reads and writes files."""
        return self.number == 0

    def shares(self, total: int) -> list[range]:
        """Return the range of items of each process; sizes differ by one at most."""
        return ranges(total, self.count)

    def gathered(self, numbers: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Return the numbers of each process; all processes know how many there are."""
        if self.count == 1:
            return [numbers]
        most, place, there = max(lengths), numbers.device, self._transport()
        padded = numbers.new_zeros(most, device=there)
        padded[: len(numbers)] = numbers
        rows = [torch.empty_like(padded) for _ in lengths]
        with self._together():
            dist.all_gather(rows, padded)
        return [row[:length].to(place) for row, length in zip(rows, lengths, strict=True)]

    def exchanged(
        self, numbers: Sequence[Tensor], lengths: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """Return the numbers that each process sends to this one.

        Args:
            numbers: the numbers that this process sends to each.
            lengths: how many numbers each process sends to each.
        """
        received: list[Tensor] = []
        place, there = numbers[0].device, self._transport()
        for number, mine in enumerate(numbers):
            most = max(length[number] for length in lengths)
            padded = mine.new_zeros(most, device=there)
            padded[: len(mine)] = mine
            rows = [torch.empty_like(padded) for _ in lengths] if number == self.number else None
            with self._together():
                dist.gather(padded, rows, dst=number)
            if rows is not None:
                received = [
                    row[: length[number]].to(place)
                    for row, length in zip(rows, lengths, strict=True)
                ]
        return received

    def objects(self, value: T) -> list[T]:
        """Return the value of each process."""
        if self.count == 1:
            return [value]
        every: list[Any] = [None] * self.count
        with self._together():
            dist.all_gather_object(every, value)
        return every

    def of_first(self, make: Callable[[], T]) -> T:
        """Return what the first process makes; its error is an error of all."""
        if self.count == 1:
            return make()
        told: list[Any] = [None, None]
        if self.first:
            try:
                told[0] = make()
            except FotError as error:
                told[1] = error
        with self._together():
            dist.broadcast_object_list(told)
        if told[1] is not None:
            raise told[1]
        made: T = told[0]
        return made

    def _transport(self) -> torch.device:
        """Return the device from which numbers can be sent."""
        if dist.get_backend() == "nccl":
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Take part in an operation of all processes; if one has ended, end with an error."""
        try:
            yield
        except RuntimeError:
            if not self.resumes:
                hint = "start the command again"
                raise DataError("another process has ended", hint=hint) from None
            raise InterruptedTrainingError(
                "another process of this training has ended",
                hint="run the same command to continue from the last checkpoint",
            ) from None


#: A process that trains by itself.
ALONE = Ranks()


def joined_ranks() -> Ranks:
    """Return this process in the group of PyTorch; without a group, a single process."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Ranks(dist.get_rank(), dist.get_world_size())


def is_invited() -> bool:
    """Return whether this process was started as one of several, for example by torchrun."""
    return {"RANK", "WORLD_SIZE"} <= os.environ.keys()


@contextmanager
def meeting(device: str) -> Iterator[tuple[Ranks, str]]:
    """Join the processes that were started with this one, if any, until the end.

    Args:
        device: the device; of several GPUs, each process of a machine takes one.

    Yields:
        This process, and the device that it computes on.

    Raises:
        DataError: the environment describes the processes wrongly.
    """
    if not is_invited():
        yield ALONE, device
        return
    number, count = _number("RANK"), _number("WORLD_SIZE")
    if not number < count:
        raise DataError(f"process {number} does not exist: RANK must be from 0 to {count - 1}")
    nearby, among = _number("LOCAL_RANK", number), _number("LOCAL_WORLD_SIZE", count)
    backend = "gloo"
    if device == "cuda" and torch.cuda.is_available():
        gpus = torch.cuda.device_count()
        device = f"cuda:{nearby % gpus}"
        torch.cuda.set_device(nearby % gpus)
        backend = "nccl" if among <= gpus and dist.is_nccl_available() else "gloo"
    place = os.environ.get(MEETING, "env://")
    try:
        dist.init_process_group(backend, init_method=place, rank=number, world_size=count)
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0]
        raise DataError(f"process {number} of {count} cannot meet the others: {why}") from None
    try:
        yield joined_ranks(), device
    finally:
        dist.destroy_process_group()


@contextmanager
def shared_work() -> Iterator[Ranks]:
    """Share work over traces with the processes that were started with this one, if any."""
    with meeting("cpu") as (ranks, _):
        if not is_invited():
            yield ranks
            return
        if torch.cuda.is_available():  # "cuda" is one of these, for each process of a machine
            torch.cuda.set_device(_number("LOCAL_RANK", ranks.number) % torch.cuda.device_count())
        ranks = replace(ranks, resumes=False)
        with shared_by(Sharing(ranks.number, ranks.count, ranks.objects)):
            yield ranks


def _number(name: str, usual: int | None = None) -> int:
    said = os.environ.get(name, "" if usual is None else str(usual))
    if not said.isdecimal():
        raise DataError(
            f"the environment says {name}={said!r}, which is not a whole number of at least 0"
        )
    return int(said)
