"""Run a grid of runs, resumably: runs on record are not repeated."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import groupby
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

import torch

from fotltn.errors import DataError, LimitError
from fotltn.files import append_lines, read_file
from fotltn.strict_json import JsonError, read_json
from reproduction import MAX_RECORDS
from reproduction.paper.many import run_many
from reproduction.paper.protocol import Run, Setting

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Called after each batch with its runs, their records, the number of finished runs, and the total.
Report = Callable[[Sequence[Run], Sequence[dict[str, Any]], int, int], None]

#: The fields that identify a run.
Key = tuple[str, str, float, int]


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

    On a GPU, all runs of a data set and method are one computation. On a CPU, each run is computed
    separately, which takes the least time and memory, and several run at the same time.

    Args:
        runs: the grid.
        setting: what the paper leaves open.
        path: a JSON Lines file; each batch is added when it is done, so nothing is lost.
        device: the device to compute on.
        processes: the number of runs at a time on a CPU; if there are several, each has one thread.
        on_batch: a function to call after every batch.

    Returns:
        The number of runs that were done.

    Raises:
        DataError: the file holds records of another setting or something else, or cannot be
            written.
        LimitError: a process was killed, for example because memory ran out.
    """
    wanted = list(dict.fromkeys(runs))
    known = done(path, asdict(setting))
    left = [r for r in wanted if _key(r) not in known]
    groups = list(_groups(left, together=torch.device(device).type != "cpu"))
    count, total = len(wanted) - len(left), len(wanted)
    for group, results in _results(groups, setting, device, processes):
        append(path, results)
        count += len(group)
        if on_batch is not None:
            on_batch(group, results, count, total)
    return len(left)


def _groups(runs: Sequence[Run], *, together: bool) -> Iterator[list[Run]]:
    """Yield the runs of each data set and method, or single runs, one repetition after another.

    Single runs cover the whole grid early, so the remaining time can be estimated.
    """
    if not together:
        yield from ([run] for run in sorted(runs, key=lambda run: run.repetition))
        return
    for _, group in groupby(sorted(runs, key=_key), lambda run: (run.data, run.method)):
        yield list(group)


def _key(run: Run) -> Key:
    return (run.data, run.method, run.fraction, run.repetition)


# --- processes -------------------------------------------------------------------------------


def _results(
    groups: Sequence[list[Run]], setting: Setting, device: str, processes: int
) -> Iterator[tuple[list[Run], list[dict[str, Any]]]]:
    if torch.device(device).type != "cpu":
        processes = 1
    return each(partial(run_many, setting=setting, device=device), groups, processes)


def each(
    work: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> Iterator[tuple[Job, Result]]:
    """Yield jobs with their results as they finish; several at a time, each in a process.

    Raises:
        LimitError: a process was killed, for example because memory ran out.
    """
    if min(processes, len(jobs)) <= 1:
        for job in jobs:
            yield job, work(job)
        return
    with workers(min(processes, len(jobs))) as pool:
        with uninterrupted():
            waiting = {pool.submit(work, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting.pop(future), future.result()


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Provide single-threaded processes, which end when the work ends or is given up.

    Raises:
        LimitError: a process was killed, for example because memory ran out.
    """
    others = set(active_children())
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin) as pool:
        try:
            yield pool
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(active_children()) - others:
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise LimitError(
                    "a process was killed, which happens if memory runs out; finished runs are on "
                    "record, so continue with fewer processes"
                ) from None
            raise


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Make processes that start here ignore Ctrl-C; the parent ends them.

    Only the main thread can do this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin() -> None:
    """Set up a new process: use one thread, and end together with the parent."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# --- the record ------------------------------------------------------------------------------


def done(path: Path, setting: Mapping[str, Any]) -> set[Key]:
    """Return the runs on record.

    An incomplete last line was cut off when a run was killed. It is removed, and does not count.

    Raises:
        DataError: the file holds records of another setting or something else, or cannot be read.
    """
    if not path.exists():
        return set()
    try:
        lines = read_file(path, limit=MAX_RECORDS, links=True).split(b"\n")
    except OSError as error:
        raise DataError(f"cannot read the record '{path}': {error.strerror}") from None
    keys: set[Key] = set()
    for number, line in enumerate(lines[:-1], 1):
        if not line.strip():
            continue
        try:
            record = read_json(line)
            data, method, fraction, repetition = (
                record[k] for k in ("data", "method", "fraction", "repetition")
            )
            key = (str(data), str(method), float(fraction), int(repetition))
            theirs = dict(record["setting"])
        except JsonError as error:
            raise DataError(f"{path}:{number}: not a record of a run: {error.reason}") from None
        except (ValueError, KeyError, TypeError, OverflowError):
            raise DataError(f"{path}:{number}: not a record of a run") from None
        if theirs != setting:
            raise DataError(
                f"{path}:{number}: a record of another setting ({_differences(theirs, setting)}); "
                "choose another file, or remove this one"
            )
        keys.add(key)
    if lines[-1]:
        append(path, [])
    return keys


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    names = [n for n in {**ours, **theirs} if theirs.get(n) != ours.get(n)]
    return ", ".join(f"{n}: {theirs.get(n)} there, {ours.get(n)} here" for n in names)


def append(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Append lines after the last complete one, and wait until they are on disk.

    Raises:
        DataError: the file cannot be written.
    """
    lines = "".join(json.dumps(r, allow_nan=False) + "\n" for r in records)
    append_lines(path, lines.encode(), what=f"the record '{path}'")
