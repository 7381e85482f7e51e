"""Jobs beside the server: threads with a limit, and results that are kept under a limit.

A handler never computes by itself. It asks for a result by a key: one that is kept is there at
once, one that is being computed is waited for, and another one is computed in a thread. Who waits
too long is told to come back. What people type has threads of its own, so that a long formula
holds up nobody who only reads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Any, TypeVar

from fotltn.web.responses import RefusedError

T = TypeVar("T")

#: Seconds that an answer is waited for before a client is told to come back.
PATIENCE = 20.0


class Lane(Enum):
    """Threads for a kind of work: how many there are, and how many jobs may wait."""

    PAGES = (3, 256)
    CHECKS = (1, 128)  # one thread, since each builds a parser of its own
    TYPED = (2, 64)
    MAPS = (1, 64)  # heat maps of what is typed, which take longer than its values
    AHEAD = (1, 4096)


class PendingError(Exception):
    """A result that takes longer than anybody should wait for; it will be there."""


class Jobs:
    """Computes results in threads, each once, and keeps them."""

    def __init__(self, room: int) -> None:
        """Nothing is computed yet.

        Args:
            room: bytes of results that are kept; beyond it, the one unused for longest goes.
        """
        self.room = room
        self._results: OrderedDict[Hashable, tuple[Future[Any], int]] = OrderedDict()
        self._held = 0
        self._running: dict[Hashable, tuple[Future[Any], Lane]] = {}
        self._waiting = dict.fromkeys(Lane, 0)
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
        """The result of a job, kept under a key.

        Raises:
            RefusedError: too many jobs wait already.
            PendingError: it is not there yet.
        """
        running = self._start(key, job, lane)
        if running.done():
            return running.result()
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(running)), patience)
        except TimeoutError:
            raise PendingError from None

    def ahead(self, key: Hashable, job: Callable[[], Any], lane: Lane = Lane.AHEAD) -> None:
        """Compute what will be asked for."""
        self._start(key, job, lane)

    def close(self) -> None:
        """Begin nothing more; what runs is not waited for."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, key: Hashable, job: Callable[[], T], lane: Lane) -> Future[T]:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key][0]
            if key in self._running:
                running, queued = self._running[key]
                overtaken = queued is Lane.AHEAD and lane is not queued and running.cancel()
                if not overtaken:
                    return running
            threads, queue = lane.value
            if self._waiting[lane] >= threads + queue:
                raise RefusedError(
                    429, "too much is being computed at once", "try again in a moment"
                )
            self._waiting[lane] += 1
            running = self._pools[lane].submit(job)
            self._running[key] = (running, lane)
        running.add_done_callback(lambda done: self._end(key, done, lane))
        return running

    def _end(self, key: Hashable, done: Future[Any], lane: Lane) -> None:
        with self._lock:
            self._waiting[lane] -= 1
            self._running.pop(key, None)
            if done.cancelled() or done.exception() is not None:
                return
            size = int(getattr(done.result(), "nbytes", 4096))
            self._results[key] = (done, size)
            self._held += size
            while self._held > self.room and len(self._results) > 1:
                _, (_, freed) = self._results.popitem(last=False)
                self._held -= freed
