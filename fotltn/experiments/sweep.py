"""The grid of runs, resumable: runs that are on record are not run again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from fotltn.errors import DataError
from fotltn.experiments.many import run_many
from fotltn.experiments.protocol import Run, Setting

#: Told of every batch that is done: its runs, their records, how many runs are done, of how many.
Report = Callable[[Sequence[Run], Sequence[dict[str, Any]], int, int], None]


def sweep(
    runs: Iterable[Run],
    setting: Setting,
    path: Path,
    *,
    device: str = "cpu",
    processes: int = 1,
    on_batch: Report | None = None,
) -> int:
    """Run what is not on record yet, and add it to the record.

    On a GPU, all runs of a data set and method are one computation; on a CPU those of one
    fraction, several at a time.

    Args:
        runs: the grid.
        setting: what the paper leaves open.
        path: a JSON Lines file; each batch is added when it is done, so that nothing is lost.
        device: where to compute.
        processes: how many at a time, on a CPU.
        on_batch: is told of every batch.

    Returns:
        How many runs were done now.
    """
    wanted = list(runs)
    known = done(path, setting)
    left = [r for r in wanted if _key(r) not in known]
    groups = list(_groups(left, whole=device != "cpu"))
    count, total = len(wanted) - len(left), len(wanted)
    for group, found in _results(groups, setting, device, processes):
        _append(path, found)
        count += len(group)
        if on_batch is not None:
            on_batch(group, found, count, total)
    return len(left)


def _groups(runs: Sequence[Run], *, whole: bool) -> Iterator[list[Run]]:
    def key(run: Run) -> tuple[object, ...]:
        return (run.data, run.method) if whole else (run.data, run.method, run.fraction)

    for _, group in groupby(sorted(runs, key=_order), key):
        yield list(group)


def _order(run: Run) -> tuple[object, ...]:
    return (run.data, run.method, run.fraction, run.repetition)


def _results(
    groups: Sequence[list[Run]], setting: Setting, device: str, processes: int
) -> Iterator[tuple[list[Run], list[dict[str, Any]]]]:
    if device != "cpu" or processes == 1:
        for group in groups:
            yield group, run_many(group, setting, device=device)
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        waiting = {pool.submit(run_many, group, setting): group for group in groups}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def done(path: Path, setting: Setting) -> set[tuple[object, ...]]:
    """The runs that are on record; a line that was cut off by a kill does not count.

    Raises:
        DataError: the record is of another setting, or something else.
    """
    if not path.exists():
        return set()
    found = set()
    lines = path.read_text("utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            key = tuple(record[k] for k in ("data", "method", "fraction", "repetition"))
            same = record.get("setting") == asdict(setting)
        except (ValueError, KeyError, TypeError):
            if number == len(lines):
                break
            raise DataError(f"{path}:{number}: not a record of a run") from None
        if not same:
            raise DataError(
                f"{path}:{number}: a record of another setting; name another file, or remove it"
            )
        found.add(key)
    return found


def _key(run: Run) -> tuple[object, ...]:
    return (run.data, run.method, run.fraction, run.repetition)


def _append(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Add lines after what is whole, and have them on disk before going on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(0)
            data = file.read()
            file.truncate(data.rfind(b"\n") + 1)
            file.write("".join(json.dumps(r) + "\n" for r in records).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(f"cannot write the record '{path}': {error.strerror}") from None
