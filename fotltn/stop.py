"""Follow long work, and stop it when nobody waits or at Ctrl-C: it checks between its steps."""

from __future__ import annotations

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
    """Tell what the work inside is about, whenever it says so."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def doing(what: str) -> None:
    """Say what a long computation begins with now, for example the name of an axiom.

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
def interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, once, as a question that work asks between its steps; twice, as usual."""
    asked = False

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
