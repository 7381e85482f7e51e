"""Output to the terminal: control characters are shown, not sent."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from fotltn.cli.output import raw
from fotltn.errors import visible
from fotltn.stop import followed

if TYPE_CHECKING:
    from rich.text import Text

#: Seconds between two lines about long work without a terminal.
SECONDS = 10.0


class Terminal(Console):
    """A console that prints plain text: no markup, and control characters as escapes.

    Cells of tables, labels of trees and sentences are plain strings, and all of them pass through
    here before they are measured.
    """

    def __init__(self, file: TextIO, **options: Any) -> None:
        """Write to a stream without its escaping, because styles are escapes, too."""
        super().__init__(file=raw(file), markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text as it may be shown."""
        return super().render_str(visible(text), **options)


def wide_console() -> Terminal:
    """Return a console on standard output; without a terminal, lines are not cut."""
    console = Terminal(sys.stdout)
    return console if console.is_terminal else Terminal(sys.stdout, width=1_000_000)


class Pace:
    """The pace of lines about long work in a log, which is no terminal: one now and then."""

    def __init__(self, *, at_once: bool = False) -> None:
        """Begin; by default, short work has no lines."""
        self._last = -math.inf if at_once else time.monotonic()

    def due(self) -> bool:
        """Whether to print a line now; there was none for a while."""
        now = time.monotonic()
        if now - self._last <= SECONDS:
            return False
        self._last = now
        return True


@contextmanager
def following(what: str, *, quiet: bool) -> Iterator[None]:
    """Show what the work inside is about; in a terminal, print nothing inside."""
    console = Terminal(sys.stderr)
    if quiet:
        yield
        return
    if not console.is_terminal:
        pace = Pace()

        def say(name: str) -> None:
            if pace.due():
                print(f"{what}: {name}", file=sys.stderr)

        with followed(say):
            yield
        return
    with (
        console.status(what) as status,
        followed(lambda name: status.update(console.render_str(f"{what}: {name}"))),
    ):
        yield


@contextmanager
def bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how far the work inside is; yield a function that says so."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Terminal(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not console.is_terminal
    pace = Pace()
    with Progress(*columns, console=console, disable=hidden, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def move(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)
            if not quiet and not console.is_terminal and pace.due():
                print(f"{what}: {done:,} of {total:,}", file=sys.stderr)

        with followed(lambda name: shown.update(task, description=visible(f"{what}: {name}"))):
            yield move
