"""Output to the terminal: control characters are shown, not sent."""

from __future__ import annotations

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


class _LogLines:
    """Lines about long work for a log, which is no terminal: one now and then."""

    def __init__(self, what: str, *, quiet: bool) -> None:
        """Print nothing yet; short work has no lines."""
        self.what, self.quiet, self.last = what, quiet, time.monotonic()

    def say(self, how_far: str) -> None:
        """Print how far the work is, unless there was a line not long ago."""
        if not self.quiet and time.monotonic() - self.last > SECONDS:
            self.last = time.monotonic()
            print(f"{self.what}: {how_far}", file=sys.stderr)


@contextmanager
def following(what: str, *, quiet: bool) -> Iterator[None]:
    """Show what the work inside is about; in a terminal, print nothing inside."""
    console = Terminal(sys.stderr)
    if quiet or not console.is_terminal:
        with followed(_LogLines(what, quiet=quiet).say):
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
    lines = _LogLines(what, quiet=quiet or console.is_terminal)
    with Progress(*columns, console=console, disable=hidden, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def move(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)
            lines.say(f"{done:,} of {total:,}")

        with followed(lambda name: shown.update(task, description=visible(f"{what}: {name}"))):
            yield move
