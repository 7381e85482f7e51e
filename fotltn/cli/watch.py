"""`fotltn watch`: every violation of a theory's axioms, as it happens."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.analysis.truncation import End
from fotltn.cli.options import TheoryFile
from fotltn.cli.output import INTERRUPTED, raw, warn
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import DataError
from fotltn.format import NONE
from fotltn.logic.check import check as check_theory
from fotltn.syntax.load import load_theory

if TYPE_CHECKING:
    from fotltn.monitor.events import CellEvent
    from fotltn.monitor.levels import Levels
    from fotltn.monitor.sources import Arrived
    from fotltn.monitor.watch import Watch

#: The exit status if there was a violation.
VIOLATED = 3


def watch(
    theory: TheoryFile,
    source: Annotated[
        Path | None,
        typer.Option("--input", help="A file of steps; without it, standard input."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait at the end of the file for more, until Ctrl-C.")
    ] = False,
    hard_only: Annotated[
        bool, typer.Option("--hard-only", help="Tell of hard axioms alone.")
    ] = False,
    at_most: Annotated[
        int | None, typer.Option("--at-most", min=1, help="The most violations told in a minute.")
    ] = None,
    quiet: Annotated[
        float,
        typer.Option(
            "--quiet",
            min=0,
            help="Seconds in which an axiom is not told of again after a violation.",
        ),
    ] = 0,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Tell of what was open and came, too.")
    ] = False,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Print how all axioms stand, after so many steps."),
    ] = None,
    window: Annotated[
        int, typer.Option("--window", min=1, help="Steps of recent counts and rates.")
    ] = 1000,
    forget: Annotated[
        int | None,
        typer.Option(
            "--forget", min=1, help="Forget entities of which nothing was true for so many steps."
        ),
    ] = None,
    presence: Annotated[
        list[str] | None,
        typer.Option(
            "--presence", help="A predicate that is true where an entity is present; repeatable."
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", help="Degrees at or above it are true.")
    ] = 0.5,
    end: Annotated[
        End,
        typer.Option(
            "--end",
            help="What fails only since its trace ends: undecided, or, if that is final, violated.",
        ),
    ] = "undecided",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")] = False,
) -> None:
    """Watch axioms on a trace, step by step, and tell every violation once.

    A step is a line of JSON, as of fotltn monitor. A violation is a binding of an axiom at a time,
    and is told as soon as it is certain, with what made it so. At the end of the input, or at
    Ctrl-C, a table says how axioms stand. Exit status: 0 if there was no violation, 3 if there was
    one, 1 if the input has errors, 2 for a wrong call, 130 after Ctrl-C.
    """
    checked = check_theory(load_theory(theory))
    if not checked.axioms:
        raise DataError(f"{theory} has no axioms to watch")
    if follow and source is None:
        raise DataError("--follow needs a file to follow: --input FILE")
    from fotltn.monitor.levels import Levels
    from fotltn.monitor.steps import Header, read_line
    from fotltn.monitor.watch import Watch

    with ExitStack() as stack:
        batches = _batches(source, follow, stack)
        lines = next(batches, [])
        while follow and not lines:
            lines = next(batches)
        begun = read_line(lines[0].line) if lines else None
        header = begun if isinstance(begun, Header) else None
        watching = Watch(
            checked, header=header, threshold=threshold, presence=presence or [],
            resolved=resolved, window=window, forget=forget,
        )  # fmt: skip
        if not as_json:
            warn(checked.warnings)
        for name, reason in watching.unwatched.items():
            print(f"note: {name} is not watched: {reason}", file=sys.stderr)
        teller = _Teller(watching, Levels(hard_only, at_most, quiet), every, as_json)
        interrupted = False
        try:
            teller.run(lines if header is None else lines[1:])
            for batch in batches:
                teller.run(batch)
        except KeyboardInterrupt:
            interrupted = True
    if watching.count == 0 and interrupted:
        raise KeyboardInterrupt
    if not follow:
        teller.tell(watching.finish(end))
    teller.standings("in all" if not as_json else "final")
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(axiom.violations for axiom in watching.axioms.values()):
        raise typer.Exit(VIOLATED)


def _batches(source: Path | None, follow: bool, stack: ExitStack) -> Iterator[list[Arrived]]:
    """The lines of the input, as many at a time as are there."""
    from fotltn.monitor.sources import lines_of

    if source is None:
        return lines_of(sys.stdin.buffer, "<stdin>")
    try:
        file = stack.enter_context(source.open("rb"))
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror}") from None
    return lines_of(file, str(source), follow=source if follow else None)


class _Teller:
    """Runs steps, and prints what comes of them."""

    def __init__(self, watch: Watch, levels: Levels, every: int | None, as_json: bool) -> None:
        self.watch, self.levels, self.every, self.as_json = watch, levels, every, as_json

    def run(self, lines: list[Arrived]) -> None:
        """Go on by some lines, and stop where standings are to be printed.

        Raises:
            DataError: a line is no step of the theory; those before it are done.
        """
        from fotltn.monitor.steps import read_line

        while lines:
            room = len(lines)
            if self.every is not None:
                room = self.every - self.watch.count % self.every
            self.tell(self.watch.steps(read_line(one.line) for one in lines[:room]))
            lines = lines[room:]
            if self.every is not None and self.watch.count % self.every == 0:
                self.standings(f"after step {self.watch.count - 1}")
        sys.stdout.flush()

    def tell(self, events: Iterator[CellEvent] | list[CellEvent]) -> None:
        """Print events, those that are let through."""
        for event in events:
            if not self.levels.lets(event, time.monotonic()):
                continue
            if self.as_json:
                self._json(event.as_dict())
                continue
            say(str(event))
            if event.because:
                say(
                    "  "
                    + ", ".join(
                        f"{e.formula}@{e.time} {str(e.truth).lower()}" for e in event.because
                    )
                )

    def standings(self, when: str) -> None:
        """How all axioms stand."""
        standings = self.watch.standings().values()
        if self.as_json:
            held = self.levels.held_back
            axioms = [s.as_dict() for s in standings]
            self._json(
                {
                    "event": "standings",
                    "steps": self.watch.count,
                    "held_back": held,
                    "axioms": axioms,
                }
            )
            return
        table = grid("axiom", "violations", "recent", "open", "last step", left=["axiom"])
        for s in standings:
            add(table, s.axiom, f"{s.violations:,}", f"{s.recent:,}", f"{s.open:,}",
                NONE if s.last is None else f"{s.last:,}")  # fmt: skip
        steps = self.watch.count
        say(f"{steps:,} step{'s' * (steps != 1)}, {when}:")
        show(table)
        if self.levels.held_back:
            say(f"{self.levels.held_back:,} more violations were not told.")

    def _json(self, value: dict[str, object]) -> None:
        from fotltn.monitor.events import SCHEMA

        print(json.dumps({"schema": SCHEMA, **value}, ensure_ascii=False), file=raw(sys.stdout))
