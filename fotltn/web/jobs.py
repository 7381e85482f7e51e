"""Jobs beside the server: a limited number of threads, and a cache of limited size.

A handler never computes by itself. It asks for a result by a key: a cached result comes at once, a
running job is waited for, and any other result is computed in a thread. A client that waits too
long is told to come back. Typed formulas have their own threads, so a long one does not delay
visitors who only read. Visitors take turns. Work that nobody waits for any more is dropped, or
stopped if it is running.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from fotltn.stop import stoppable
from fotltn.threads import one_thread
from fotltn.web.responses import RefusedError

T = TypeVar("T")

#: Seconds to wait for a result before a client is told to come back.
PATIENCE = 20.0

#: Seconds after which a result that nobody came back for is dropped.
GRACE = 5.0

#: The visitor that the work of a request is for.
VISITOR: ContextVar[str] = ContextVar("visitor", default="")


class Lane(Enum):
    """The threads for one kind of work: their number, and how many jobs of a visitor may wait."""

    PAGES = (3, 256)
    CHECKS = (1, 128)  # one thread, because each thread builds its own parser
    TYPED = (2, 64)
    HEAVY = (1, 32)  # typed formulas that take seconds
    MAPS = (1, 64)  # heat maps of typed formulas, which take longer than values
    AHEAD = (1, 4096)

    @property
    def dropped(self) -> bool:
        """Whether work that nobody waits for is dropped; pages will be requested again."""
        return self not in (Lane.PAGES, Lane.AHEAD)


#: How many jobs of all visitors may wait in a lane, as a multiple of those of one visitor.
_VISITORS = 8


class PendingError(Exception):
    """Raised if a result is not ready in time; it will be ready later."""


@dataclass(eq=False)
class _Job:
    """Work to do, its visitor, and the number of clients that wait for it."""

    key: Hashable
    work: Callable[[], Any]
    lane: Lane
    visitor: str
    result: Future[Any] = field(default_factory=Future)
    waiting: int = 0
    asked: int = 0
    unwanted: bool = False
    ended: bool = False


class Jobs:
    """Computes each result once, in threads, and caches results."""

    def __init__(self, room: int) -> None:
        """Start without results.

        Args:
            room: the size of the cache in bytes; the least recently used result is dropped first.
        """
        self.room = room
        self._results: OrderedDict[Hashable, tuple[Future[Any], int]] = OrderedDict()
        self._held = 0
        self._jobs: dict[Hashable, _Job] = {}
        self._queues: dict[Lane, OrderedDict[str, deque[_Job]]] = {
            lane: OrderedDict() for lane in Lane
        }
        self._open: dict[Lane, Counter[str]] = {lane: Counter() for lane in Lane}
        self._lock = threading.RLock()
        self._pools = {
            lane: ThreadPoolExecutor(lane.value[0], f"fotltn-{lane.name.lower()}") for lane in Lane
        }

    async def get(
        self,
        key: Hashable,
        job: Callable[[], T],
        *,
        lane: Lane = Lane.PAGES,
        patience: float = PATIENCE,
    ) -> T:
        """Return the result of a job, cached under a key.

        Raises:
            RefusedError: too many jobs are already waiting.
            PendingError: the result is not ready yet.
        """
        running, result = self._start(key, job, lane)
        if running is None or result.done():
            return result.result()
        loop = asyncio.get_running_loop()
        with self._lock:
            running.waiting += 1
            running.asked += 1
            asked = running.asked
        try:
            wrapped = asyncio.wrap_future(result)
            wrapped.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen
            value: T = await asyncio.wait_for(asyncio.shield(wrapped), patience)
        except TimeoutError:
            loop.call_later(GRACE, self._drop, running, asked)
            raise PendingError from None
        except asyncio.CancelledError:  # the client went away
            loop.call_soon(self._drop, running, asked)
            raise
        finally:
            with self._lock:
                running.waiting -= 1
        return value

    def ahead(self, key: Hashable, job: Callable[[], Any], lane: Lane = Lane.AHEAD) -> None:
        """Compute a result before it is requested."""
        self._start(key, job, lane)

    def close(self) -> None:
        """Start no more jobs, and stop running ones without waiting."""
        with self._lock:
            for job in self._jobs.values():
                job.unwanted = True
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def open(self) -> int:
        """The number of jobs that wait or run."""
        return len(self._jobs)

    def _start(
        self, key: Hashable, work: Callable[[], T], lane: Lane
    ) -> tuple[_Job | None, Future[T]]:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return None, self._results[key][0]
            known = self._jobs.get(key)
            if known is not None and not known.unwanted:
                ahead = known.lane is Lane.AHEAD and lane is not Lane.AHEAD
                if not (ahead and known.result.cancel()):
                    return known, known.result
                self._end(known)
            visitor = VISITOR.get()
            threads, most = lane.value
            waiting = self._open[lane]
            if waiting[visitor] >= threads + most or waiting.total() >= _VISITORS * most:
                raise RefusedError(
                    429, "too much is being computed at once", "try again in a moment"
                )
            job = _Job(key, work, lane, visitor)
            self._jobs[key] = job
            waiting[visitor] += 1
            self._queues[lane].setdefault(visitor, deque()).append(job)
        self._pools[lane].submit(self._next, lane)
        return job, job.result

    def _next(self, lane: Lane) -> None:
        """Run the next job of a lane; visitors take turns."""
        job = self._taken(lane)
        if job is None:
            return
        try:
            with stoppable(lambda: job.unwanted), one_thread():
                value = job.work()
        except BaseException as error:
            self._end(job)
            job.result.set_exception(PendingError() if job.unwanted else error)
            return
        with self._lock:
            job.result.set_result(value)
            self._keep(job, value)
            self._end(job)

    def _taken(self, lane: Lane) -> _Job | None:
        with self._lock:
            queues = self._queues[lane]
            while queues:
                visitor, queue = queues.popitem(last=False)
                job = queue.popleft()
                if queue:
                    queues[visitor] = queue  # behind the others
                if job.result.set_running_or_notify_cancel():
                    return job
                self._end(job)
        return None

    def _drop(self, job: _Job, asked: int) -> None:
        """Drop a job that nobody waits for, unless it was requested again."""
        with self._lock:
            if job.waiting or job.asked > asked or not job.lane.dropped or job.result.done():
                return
            job.unwanted = True  # it stops at its next step
            if job.result.cancel():
                self._end(job)

    def _end(self, job: _Job) -> None:
        """Record that a job has ended or was dropped."""
        with self._lock:
            if self._jobs.get(job.key) is job:
                del self._jobs[job.key]
            if not job.ended:
                job.ended = True
                self._open[job.lane][job.visitor] -= 1

    def _keep(self, job: _Job, value: Any) -> None:
        with self._lock:
            size = int(getattr(value, "nbytes", 4096))
            self._results[job.key] = (job.result, size)
            self._held += size
            while self._held > self.room and len(self._results) > 1:
                _, (_, freed) = self._results.popitem(last=False)
                self._held -= freed
