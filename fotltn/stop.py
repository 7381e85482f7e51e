"""Stopping work that nobody waits for: long computations ask between their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool] | None] = ContextVar("asked", default=None)


class StoppedError(Exception):
    """Somebody asked this work to stop."""


@contextmanager
def stoppable(asked: Callable[[], bool]) -> Iterator[None]:
    """Work inside ends with an error, at its next step, once `asked` says so."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def may_go_on() -> None:
    """Called between the steps of long computations.

    Raises:
        StoppedError: they were asked to stop.

    >>> with stoppable(lambda: False):
    ...     may_go_on()
    """
    asked = _asked.get()
    if asked is not None and asked():
        raise StoppedError
