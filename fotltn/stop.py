"""Follow long work, and stop it at Ctrl-C or when its result is not needed any more.

The work checks between its steps whether to stop.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_tell: ContextVar[Callable[[str], None] | None] = ContextVar("tell", default=None)
_asked: ContextVar[Callable[[], bool] | None] = ContextVar("asked", default=None)


class StoppedError(Exception):
    """The work was asked to stop."""


@contextmanager
def stoppable(asked: Callable[[], bool]) -> Iterator[None]:
    """Stop the work inside with an error, at its next check, once `asked` returns True."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def may_go_on() -> None:
    """Check between the steps of a long computation whether to continue.

    Raises:
        StoppedError: the work was asked to stop.

    >>> with stoppable(lambda: False):
    ...     may_go_on()
    """
    asked = _asked.get()
    if asked is not None and asked():
        raise StoppedError


@contextmanager
def followed(tell: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each announcement of the work inside (see `doing`)."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def doing(what: str) -> None:
    """Announce the next part of a long computation, for example the name of an axiom.

    Raises:
        StoppedError: the work was asked to stop.

    >>> with followed(print):
    ...     doing("A1")
    A1
    """
    tell = _tell.get()
    if tell is not None:
        tell(what)
    may_go_on()


@contextmanager
def while_loading(end: Callable[[], None]) -> Iterator[None]:
    """Call `end`, which must not return, at a Ctrl-C while a module loads; else interrupt as usual.

    Libraries written in C swallow interrupts as they load, and go on with half a module.
    """

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                end()
            frame = frame.f_back
        raise KeyboardInterrupt

    with _handling(note):
        yield


@contextmanager
def interrupts(say: str = "") -> Iterator[Callable[[], bool]]:
    """Turn a first Ctrl-C into a request to stop; a second one interrupts as usual.

    Args:
        say: what the first one prints to standard error; work with long steps says when it stops.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if say:  # not by `print`, which may be what was interrupted
            os.write(2, f"{say}; Ctrl-C again stops at once\n".encode())

    with _handling(note):
        yield lambda: asked


@contextmanager
def _handling(note: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle Ctrl-C by a function; outside the main thread, do nothing."""
    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
