"""Close connections that send no requests, so that they do not block others."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds after which a connection without a request is closed.
SILENCE = 20.0

#: The most open connections; with more, the one that has been idle longest is closed.
MAX_CONNECTIONS = 512


class Connection(H11Protocol):
    """A connection that is closed if it sends no request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, and close another if there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.loop.call_later(SILENCE, self._close_if_silent)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [one for one in self.connections if isinstance(one, Connection)]
            idle = [one for one in others if one.idle and one is not self]
            if idle:
                min(idle, key=lambda one: (not one.silent, one.since)).transport.close()

    def data_received(self, data: bytes) -> None:
        """Read data from the client."""
        self.since = self.loop.time()
        super().data_received(data)

    @property
    def silent(self) -> bool:
        """Whether the connection has not sent a request yet."""
        cycle: Any = self.cycle
        return cycle is None

    @property
    def idle(self) -> bool:
        """Whether no request of the connection is being answered."""
        return self.silent or self.cycle.response_complete

    def _close_if_silent(self) -> None:
        if self.silent and not self.transport.is_closing():
            self.transport.close()
