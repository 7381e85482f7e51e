"""The page of a running watch, which follows the folder of its state."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fotltn.errors import DataError
from fotltn.format import duration
from fotltn.monitor.journal import NOW
from fotltn.strict_json import JsonError, read_json
from fotltn.web.responses import answer, failure, static_response
from fotltn.web.security import Guard, Rules

_TOLD = 100  # alarms that are shown
_BUCKETS = 60  # the most buckets of the timeline
_QUIET = 60.0  # seconds without new events, after which the page says so
_AT_ONCE = 1 << 22  # bytes of events to read at once


class Followed:
    """The alarms that a watch has written so far, and their number over time.

    Attributes:
        width: the number of steps per bucket of the timeline.
        counts: the number of violations in each bucket, by axiom.
        alarms: the last violations, newest first.
    """

    def __init__(self, folder: Path) -> None:
        """Start at the first event.

        Raises:
            DataError: the folder is not that of a watch.
        """
        if not is_state(folder):
            raise DataError(
                f"'{folder}' is not the folder of a watch; fotltn watch --state creates one"
            )
        self.folder = folder
        self._restart()

    def _restart(self) -> None:
        self.offset, self.width = 0, 1
        self.counts: dict[str, dict[int, int]] = {}
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_TOLD)

    def read(self) -> None:
        """Read new events; a file that starts over is read again."""
        path = self.folder / "events.jsonl"
        with contextlib.suppress(OSError), path.open("rb") as file:
            if file.seek(0, 2) < self.offset:
                self._restart()
            file.seek(self.offset)
            while lines := file.read(_AT_ONCE):
                end = lines.rfind(b"\n") + 1
                if not end:
                    return
                self.offset += end
                file.seek(self.offset)
                for line in lines[:end].splitlines():
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = read_json(line)
        except JsonError:  # damaged in the meantime
            return
        if not isinstance(event, dict) or event.get("event") != "violation":
            return
        self.alarms.appendleft(event)
        while event["step"] // self.width >= _BUCKETS:
            self.width *= 2
            for axiom, old in self.counts.items():
                halved: dict[int, int] = {}
                for bucket, count in old.items():
                    halved[bucket // 2] = halved.get(bucket // 2, 0) + count
                self.counts[axiom] = halved
        by_bucket = self.counts.setdefault(event["axiom"], {})
        bucket = event["step"] // self.width
        by_bucket[bucket] = by_bucket.get(bucket, 0) + 1

    def content(self) -> dict[str, Any]:
        """Return the content of the page."""
        self.read()
        now: dict[str, Any] = {}
        quiet = None
        with contextlib.suppress(OSError, JsonError):
            now = read_json((self.folder / NOW).read_text("utf-8"))
            quiet = max(0.0, time.time() - (self.folder / NOW).stat().st_mtime)
        steps = int(now.get("steps", 0))
        buckets = max(1, -(-steps // self.width))
        timeline = {
            axiom: [counts.get(bucket, 0) for bucket in range(min(buckets, _BUCKETS))]
            for axiom, counts in self.counts.items()
        }
        return {
            "folder": self.folder.name, "steps": steps, "ended": bool(now.get("ended", False)),
            "quiet": None if quiet is None or quiet < _QUIET else duration(quiet),
            "window": now.get("window"), "axioms": now.get("axioms", []),
            "open": now.get("open", []), "open_in_all": now.get("open_in_all", 0),
            "width": self.width, "timeline": timeline, "alarms": list(self.alarms),
        }  # fmt: skip


def is_state(folder: Path) -> bool:
    """Return whether a folder is the state of a watch."""
    return (folder / "events.jsonl").is_file()


def live_application(
    followed: Followed, rules: Rules, ready: Callable[[], None] | None = None
) -> Starlette:
    """Return the application of the page, behind a guard; `ready` is called when it is ready."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if ready is not None:
            ready()
        yield

    async def page(request: Request) -> Response:
        return answer(request, "live.html", followed.content())

    async def nowhere(request: Request, _: Exception) -> Response:
        return failure(request, 404, "there is no such page", "the only page is /")

    return Starlette(
        routes=[Route("/", page), Route("/static/{name}", static_response)],
        middleware=[Middleware(Guard, rules)],
        exception_handlers={404: nowhere},
        lifespan=lifespan,
    )
