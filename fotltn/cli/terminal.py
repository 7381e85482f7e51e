"""Output to the terminal: control characters are shown, not sent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from fotltn.cli.output import raw
from fotltn.errors import visible
from fotltn.stop import followed

if TYPE_CHECKING:
    from rich.text import Text


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


@contextmanager
def following(what: str, *, quiet: bool) -> Iterator[None]:
    """Show what the work inside is about if standard error is a terminal; print nothing inside."""
    console = Terminal(sys.stderr)
    if quiet or not console.is_terminal:
        yield
        return
    with (
        console.status(what) as status,
        followed(lambda name: status.update(console.render_str(f"{what}: {name}"))),
    ):
        yield


@contextmanager
def bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar if standard error is a terminal; yield a function that moves it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Terminal(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as shown:
        task = shown.add_task(what, total=None)
        with followed(lambda name: shown.update(task, description=visible(f"{what}: {name}"))):
            yield lambda done, total: shown.update(task, completed=done, total=total)
