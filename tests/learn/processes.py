"""Several processes that train together, on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from fotltn.files import MEETING
from fotltn.learn.ranks import Ranks, meeting
from tests.patience import PATIENCE

#: What one of them does, and returns to the test.
Work = Callable[..., Any]


def _one(
    number: int, count: int, place: str, work: Work, arguments: tuple[Any, ...], tell: Connection
) -> None:
    os.environ |= {"RANK": str(number), "WORLD_SIZE": str(count), MEETING: place}
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with meeting("cpu") as (ranks, _):
        try:
            outcome = work(ranks, *arguments)
        except Exception as error:
            traceback.print_exc()
            outcome = f"{type(error).__name__}: {error}"
        tell.send_bytes(pickle.dumps(outcome))  # the numbers of tensors, not their memory


def start(
    count: int, folder: Path, work: Work, *arguments: Any
) -> list[tuple[BaseProcess, Connection]]:
    """Processes that begin to work, and where each tells what came out."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tests.learn.tasks", "torch._dynamo"])
    folder.mkdir(parents=True, exist_ok=True)
    place = (folder / f"meeting-{len(list(folder.iterdir()))}").as_uri()
    started: list[tuple[BaseProcess, Connection]] = []
    for number in range(count):
        here, there = context.Pipe(duplex=False)
        process = context.Process(
            target=_one, args=(number, count, place, work, arguments, there), daemon=True
        )
        process.start()
        there.close()
        started.append((process, here))
    return started


def together(count: int, folder: Path, work: Work, *arguments: Any) -> list[Any]:
    """What each of so many processes returns."""
    started = start(count, folder, work, *arguments)
    results = []
    for process, told in started:
        assert told.poll(PATIENCE), "a process is stuck"
        results.append(pickle.loads(told.recv_bytes()))
        process.join(PATIENCE)
        assert process.exitcode == 0
    return results


def alone(work: Work, *arguments: Any) -> Any:
    """What this process returns by itself, with one thread, as the others have."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        return work(Ranks(), *arguments)
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
