"""Connections: those that ask nothing are closed, so that they keep nobody out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds after which a connection is closed that has not sent a request.
SILENCE = 20.0

#: Connections that are open at once; beyond it, the one that is idle for longest is closed.
MAX_CONNECTIONS = 512


class Connection(H11Protocol):
    """A connection that is closed if nothing is asked on it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and make room if there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.loop.call_later(SILENCE, self._close_if_silent)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [one for one in self.connections if isinstance(one, Connection)]
            idle = [one for one in others if one.idle and one is not self]
            if idle:
                min(idle, key=lambda one: (not one.silent, one.since)).transport.close()

    def data_received(self, data: bytes) -> None:
        """Read what is sent."""
        self.since = self.loop.time()
        super().data_received(data)

    @property
    def silent(self) -> bool:
        """Whether it has not sent a request yet."""
        cycle: Any = self.cycle
        return cycle is None

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered on it."""
        return self.silent or self.cycle.response_complete

    def _close_if_silent(self) -> None:
        if self.silent and not self.transport.is_closing():
            self.transport.close()
