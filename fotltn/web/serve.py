"""The server: it takes a port before it prints anything, and shuts down cleanly."""

from __future__ import annotations

import gc
import ipaddress
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from fotltn.errors import DataError
from fotltn.web.app import application
from fotltn.web.connections import Connection
from fotltn.web.live import Followed, live_application
from fotltn.web.security import MAX_TARGET, Rules
from fotltn.web.sides import Side
from fotltn.web.state import WebState


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which a server listens.

    Args:
        host: the address or name, as in a URL.
        port: the port.
        token: what clients must know; None if nothing.
    """

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """The URL to open first; its token becomes a cookie."""
        token = "" if self.token is None else f"?token={self.token}"
        return f"http://{self.host}:{self.port}/{token}"

    @property
    def rules(self) -> Rules:
        """The requirements for requests. This machine may also be called `localhost`."""
        names = {self.host, "localhost"} if _loopback(self.host) else {self.host}
        hosts = {f"{name.lower()}:{self.port}" for name in names}
        if self.port == 80:
            hosts |= {name.lower() for name in names}
        return Rules(frozenset(hosts), self.token, f"fotltn-{self.port}")


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(24)


def listen(host: str, port: int | None, token: str | None) -> tuple[socket.socket, Address]:
    """Open a port, by default a free one.

    Raises:
        DataError: the address is not one of this machine, or the port is taken.
    """
    if host in ("0.0.0.0", "::", ""):
        raise DataError(
            f"'{host}' is every address of this machine, and requests must name one; "
            "give --host the address or name that browsers will use"
        )
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            host, port or 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, proto)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(where)
            taken.listen(1024)
        except BaseException:
            taken.close()
            raise
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot listen at '{host}', port {port or 'any'}: {reason}"
        raise DataError(message) from None
    shown = f"[{host}]" if ":" in host else host
    return taken, Address(shown, int(taken.getsockname()[1]), token)


def server(
    state: WebState, address: Address, *, ready: Callable[[], None] | None = None
) -> uvicorn.Server:
    """Return a server of pages, which `run` starts on an open port.

    Args:
        state: what is inspected.
        address: the address of the server.
        ready: a function to call just before requests are answered.
    """
    return _server(application(state, address.rules, ready))


def _server(app: Starlette) -> uvicorn.Server:
    config = uvicorn.Config(
        app, log_level="warning", access_log=False,
        http=Connection, ws="none", lifespan="on", server_header=False, date_header=False,
        proxy_headers=False, timeout_keep_alive=20, timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=MAX_TARGET + 24_000,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(
    sides: Callable[[], Sequence[Side]],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None,
    budget: int = 2**30,
    ready: Callable[[WebState, Address], None],
) -> None:
    """Serve pages until the server is stopped.

    Args:
        sides: a function that reads the models or facts, after the port was opened.
        host: the address, as browsers will name it.
        port: the port; without, a free one.
        token: what clients must know; None if nothing.
        budget: bytes that a typed formula may take.
        ready: called when requests are answered.

    Raises:
        DataError: the port is taken, or the models or facts cannot be read.
    """
    taken, address = listen(host, port, token)
    with taken:
        state = WebState(sides(), budget=budget)
        state.warm()
        gc.freeze()  # loaded data stay, so garbage collection can skip them
        server(state, address, ready=lambda: ready(state, address)).run(sockets=[taken])


def live_server(
    followed: Followed, address: Address, *, ready: Callable[[], None] | None = None
) -> uvicorn.Server:
    """Return a server of the page of a running watch."""
    return _server(live_application(followed, address.rules, ready))


def serve_watch(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None,
    ready: Callable[[Address], None],
) -> None:
    """Serve the page of a watch, from the folder of its state, until the server is stopped.

    Args:
        folder: the folder.
        host: the address, as browsers will name it.
        port: the port; without, a free one.
        token: what clients must know; None if nothing.
        ready: called when requests are answered.

    Raises:
        DataError: the port is taken, or the folder is not that of a watch.
    """
    followed = Followed(folder)
    taken, address = listen(host, port, token)
    with taken:
        live_server(followed, address, ready=lambda: ready(address)).run(sockets=[taken])


def open_browser(url: str) -> None:
    """Open a page in the user's browser, if there is one, without waiting for it."""
    threading.Thread(target=webbrowser.open, args=(url, 2), daemon=True).start()


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
