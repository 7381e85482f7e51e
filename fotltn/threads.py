"""Choose the number of PyTorch's threads by the size of the work: the only module that sets it.

Threads divide each operation, and wait for each other after every one. Small operations take one
thread; large ones take what the process may use. What the host program has set stays, and each call
leaves the number as it outside it.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, wraps
from inspect import isgeneratorfunction
from pathlib import Path
from types import FunctionType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

#: From this size of its tables on, a step of learning or sampling takes several threads.
LARGE = 2**18
#: The same for work that is done once: what threads gain must be worth what they may lose.
LARGE_ONCE = 2**22


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of a thread of the program.

    Args:
        outside: the number of threads outside.
        small: the number for small work.
        most: the number for large work.
        sized: whether the number was chosen by the size of the work.
        long: whether threads of the host may begin meanwhile, which shall not inherit the number.
    """

    outside: int
    small: int
    most: int
    sized: bool = False
    long: bool = False


class _ThreadWork(threading.local):
    work: _Work | None = None


_here = _ThreadWork()
_is_own = False  # whether the process belongs to the command line
_process: _Work | None = None  # the work of such a process


# --- what work takes ------------------------------------------------------------------------------


@contextmanager
def one_thread(*, long: bool = True) -> Iterator[None]:
    """Take one thread for the work inside, except for parts that know that they are large.

    Args:
        long: keep the host's number for its threads that begin meanwhile, which takes a while.
    """
    import torch

    if _here.work is not None or _process is not None or torch.compiler.is_compiling():
        yield
        return
    _here.work = work = replace(_work(), long=long)
    try:
        _take(work.small, work)
        yield
    finally:
        _here.work = None
        _take(work.outside, work)


def threads_for(numbers: int, *, step: bool) -> AbstractContextManager[None]:
    """Take the threads for work of some size; the outermost such block decides.

    Args:
        numbers: the size of the largest table.
        step: whether it is one of many steps, such as those of training.
    """
    work = _here.work or _process
    if work is not None and work.sized:
        return nullcontext()
    return _sized(numbers >= (LARGE if step else LARGE_ONCE), work)


@contextmanager
def _sized(large: bool, outer: _Work | None) -> Iterator[None]:
    import torch

    if torch.compiler.is_compiling():
        yield
        return
    before, outside = _here.work, torch.get_num_threads()
    work = outer or _work()
    _here.work = replace(work, sized=True)
    try:
        _take(work.most if large else work.small, work)
        yield
    finally:
        _here.work = before
        _take(outside, work)


def long_work() -> None:
    """Keep the host's number for its threads that begin during the call that is at work here."""
    work = _here.work
    if work is not None and not work.long:
        _here.work = replace(work, long=True)
        _keep_for_others(work)


def most_threads() -> int:
    """Return the number of threads that large work takes here."""
    import torch

    work = _here.work or _process
    return torch.get_num_threads() if work is None else work.most


def _work() -> _Work:
    import torch

    outside = torch.get_num_threads()
    return (
        _Work(outside, outside, outside)
        if _is_chosen(outside)
        else _Work(outside, 1, min(outside, usable()))
    )


def _take(number: int, work: _Work) -> None:
    """Set the number for this thread of the program; in long work, for no other that begins."""
    import torch

    if torch.get_num_threads() == number:
        return
    torch.set_num_threads(number)
    if work.long:
        _keep_for_others(work)


def _keep_for_others(work: _Work) -> None:
    import torch

    default = work.outside if _process is None else _process.small
    if torch.get_num_threads() != default and threading.active_count() > 1:
        other = threading.Thread(target=torch.set_num_threads, args=(default,))
        other.start()
        other.join()


# --- entries --------------------------------------------------------------------------------------


def entry(function: Callable[P, T]) -> Callable[P, T]:
    """Run a public function with one thread, except for its large parts."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if _here.work is not None or _process is not None:
            return function(*args, **kwargs)
        with one_thread(long=False):
            return function(*args, **kwargs)

    return call


def entries(kind: C) -> C:
    """Do the same for the public methods and computed attributes of a class.

    Generators run between other calls of the host, so their steps have to be entries.
    """
    for name, member in [*vars(kind).items()]:
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        match member:
            case FunctionType() if not isgeneratorfunction(member):
                setattr(kind, name, entry(member))
            case property(fget=FunctionType() as read):
                setattr(kind, name, member.getter(entry(read)))
            case cached_property():
                member.func = entry(member.func)
    return kind


def own_process() -> None:
    """State that this process belongs to the command line, before PyTorch loads."""
    global _is_own
    _is_own = True


def loaded() -> None:
    """Take one thread if this process is our own, now that PyTorch has loaded."""
    global _process
    if _is_own and _process is None:
        import torch

        work = _work()
        torch.set_num_threads(work.small)
        _process = work


def one_of_several() -> None:
    """Take one thread in a process that we started to share the processors with others."""
    import torch

    if not _is_chosen(torch.get_num_threads()):
        torch.set_num_threads(1)
        _here.work = _Work(1, 1, 1, sized=True)


def in_threads(process: Callable[[T], None], items: Iterable[T], threads: int) -> None:
    """Process items in several threads, in which each operation takes one thread.

    Use this for many small operations in a row on data of their own: no thread waits for others.
    """
    import torch

    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(process, items):
                pass
    finally:
        torch.set_num_threads(threads)  # for threads that begin later; this one still has as many


# --- what the process may use ---------------------------------------------------------------------


def _is_chosen(outside: int) -> bool:
    """Whether the host program has chosen the number of threads."""
    return any(os.environ.get(n) for n in _SET_BY) or outside not in _usual()


_SET_BY = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@cache
def _usual() -> frozenset[int]:
    """The numbers that PyTorch takes by itself: processors of the machine, or those allowed."""
    every = set(range(os.cpu_count() or 1))
    return frozenset(n for cpus in (every, _allowed()) for n in (len(cpus), len(_cores(cpus))))


def _allowed() -> set[int]:
    if sys.platform.startswith("linux"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _cores(cpus: Iterable[int]) -> set[str]:
    """Return the physical processors, each by the logical ones that share it."""
    names = {}
    for cpu in cpus:
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        names[cpu] = _text(Path("/") / topology) or str(cpu)
    return set(names.values())


@cache
def _of_quotas(root: Path) -> int | None:
    """Return the processors of the smallest quota; it is read once, as every call asks for it."""
    return min((math.ceil(share) for share in _quotas(root)), default=None)


def usable(root: Path = Path("/")) -> int:
    """Return how many processors the process may use: by its affinity, and by its quota.

    Args:
        root: where `proc` and `sys` are.
    """
    allowed, quota = len(_allowed()), _of_quotas(root)
    return max(1, allowed if quota is None else min(allowed, quota))


def _quotas(root: Path) -> Iterator[float]:
    """Yield the quota of each control group of the process, and of those around it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            for folder in _upwards(root / "sys/fs/cgroup", path):
                yield from _share(_text(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                for folder in _upwards(root / "sys/fs/cgroup" / name, path):
                    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                    yield from _share([_text(folder / file) for file in files])


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a group, and those above; a container may see only the last one."""
    inside = mount / path.strip("/")
    yield from (f for f in (inside, *inside.parents) if f == mount or mount in f.parents)


def _share(words: list[str]) -> Iterator[float]:
    """Yield a quota over its period; there is none with "max", with -1, or without the files."""
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
        yield int(words[0]) / int(words[1])


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
