"""`fotltn monitor`: follow the axioms of a theory on a trace that arrives line by line."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import Exponent, Horizon, StepsFile, TheoryFile
from fotltn.cli.output import INTERRUPTED, VIOLATED, raw
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import DataError
from fotltn.format import NONE, cell_words, degree
from fotltn.logic.check import check as check_theory
from fotltn.semantics.config import SEMANTICS, semantics_of
from fotltn.stop import interrupts
from fotltn.syntax.load import load_theory

if TYPE_CHECKING:
    from fotltn.monitor.monitor import Monitor
    from fotltn.monitor.steps import InputLine
    from fotltn.monitor.verdicts import States, ValueBounds

_AT_ONCE = 1024  # steps, between which Ctrl-C is heard


def monitor(
    theory: TheoryFile,
    source: StepsFile = None,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Print the states of all axioms every N steps."),
    ] = None,
    horizon: Horizon = None,
    semantics: Annotated[
        str, typer.Option("--semantics", help=f"For values: one of {', '.join(SEMANTICS)}.")
    ] = "stable-product",
    p: Exponent = None,
    threshold: Annotated[
        float,
        typer.Option("--threshold", help="For verdicts: the smallest degree that counts as true."),
    ] = 0.5,
    crisp_only: Annotated[
        bool, typer.Option("--crisp-only", help="Print only verdicts, no values.")
    ] = False,
    history: Annotated[
        bool,
        typer.Option(
            "--history", help="Keep the whole trace, for values that need it. Memory grows."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line, after every step.")
    ] = False,
) -> None:
    """Follow axioms on a trace, step by step, with early verdicts.

    A step is a line of JSON: {"facts": [["Stop", "ego"], ["Close", "ego", "p1", 0.7]]}. A fact that
    is not stated is false. A verdict comes as soon as it is certain. The first line may name
    entities and static facts: {"entities": {"agent": ["ego"]}, "facts": [["Car", "ego"]]}. Changes
    of verdicts are printed immediately, and a table at the end of the input or at Ctrl-C. Exit
    status: 0 if no axiom is violated at the end, 3 if one is, 1 if the input has errors, 2 for a
    wrong call, 130 after Ctrl-C.
    """
    meaning = semantics_of(semantics, p)
    checked = check_theory(load_theory(theory))
    if not checked.axioms:
        raise DataError(f"{theory} has no axioms to monitor")
    from fotltn.monitor.monitor import Monitor
    from fotltn.monitor.steps import Header, read_line

    with ExitStack() as stack:
        batches = _batches(source, stack)
        lines = next(batches, [])
        begun = read_line(lines[0]) if lines else None
        header = begun if isinstance(begun, Header) else None
        watched = Monitor(
            checked, header=header, horizon=horizon, semantics=meaning, threshold=threshold,
            values="none" if crisp_only else "all" if history else "constant",
            values_every=every or (1 if as_json else None),
        )  # fmt: skip
        _say_what_grows(watched, history)
        printer = _Printer(watched, as_json)
        interrupted = False
        try:
            for batch in itertools.chain([lines if header is None else lines[1:]], batches):
                printer.run(batch)
        except KeyboardInterrupt:
            if printer.torn:
                raise
            interrupted = True
    if watched.count == 0 and interrupted:
        raise KeyboardInterrupt
    final = watched.finish()
    printer.final(final)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(state.verdict == "violated" for state in final):
        raise typer.Exit(VIOLATED)


# --- input -----------------------------------------------------------------------------------


def _batches(source: Path | None, stack: ExitStack) -> Iterator[list[InputLine]]:
    """Yield the lines of the input, as many at a time as are available."""
    from fotltn.monitor.sources import lines_of

    if source is None:
        for batch in lines_of(sys.stdin.buffer, "<stdin>"):
            yield [one.line for one in batch]
        return
    try:
        file = stack.enter_context(source.open("rb"))
        size = source.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror}") from None
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from fotltn.cli.terminal import Terminal

    bar = Progress(
        TextColumn("monitoring"), BarColumn(), TimeRemainingColumn(),
        console=Terminal(sys.stderr), transient=True, disable=not sys.stderr.isatty(),
        redirect_stdout=sys.stdout.isatty(), redirect_stderr=False,
    )  # fmt: skip
    stack.enter_context(bar)
    task = bar.add_task("monitoring", total=size)
    for batch in lines_of(file, str(source)):
        bar.update(task, completed=file.tell())
        yield [one.line for one in batch]


# --- output ----------------------------------------------------------------------------------


def _say_what_grows(monitor: Monitor, history: bool) -> None:
    """Print which axioms need more than constant memory, before anything is read."""
    for name, reason in monitor.growing.items():
        print(
            f"note: the verdict on {name} is known at the end, and needs the whole trace: {reason}",
            file=sys.stderr,
        )
    for name, reason in monitor.valueless.items():
        how = "which is kept" if history or name in monitor.growing else "kept with --history"
        print(f"note: the value of {name} needs the whole trace, {how}: {reason}", file=sys.stderr)


class _Printer:
    """Runs steps, and prints what the options ask for."""

    def __init__(self, monitor: Monitor, as_json: bool) -> None:
        from fotltn.monitor.verdicts import StateLines

        self.monitor, self.as_json = monitor, as_json
        self.told: dict[str, str] = {}
        self.lines = StateLines()
        self.torn = False  # in the middle of steps

    def run(self, steps: list[InputLine]) -> None:
        """Take steps, and print states that come with their values.

        Raises:
            DataError: a line is not a step of the theory; the steps before it were taken.
        """
        with interrupts() as asked:
            while steps and not asked():
                self.torn = True
                for states in self.monitor.steps(steps[:_AT_ONCE]):
                    if not self.as_json:
                        self._changes(states)
                    if states.values is not None:
                        self._states(states, states.values)
                self.torn, steps = False, steps[_AT_ONCE:]
        sys.stdout.flush()
        if asked():
            raise KeyboardInterrupt

    def _changes(self, states: States) -> None:
        for state in states:
            if state.verdict != "open" and state.axiom not in self.told:
                self.told[state.axiom] = state.verdict
                where = cell_words(dict(state.binding))
                say(f"step {states.step}: {state.axiom} {state.verdict}{': ' * bool(where)}{where}")

    def _states(self, states: States, values: Mapping[str, ValueBounds]) -> None:
        if self.as_json:
            self._json({"step": states.step}, states, values)
            return
        table = grid(
            "axiom", "verdict", "if it ended now", "value", "lowest", "highest",
            left=["axiom", "verdict", "if it ended now"],
        )  # fmt: skip
        for state in states:
            now = degree(state.now)
            add(table, state.axiom, state.verdict, now, *_numbers(values.get(state.axiom)))
        say(f"after step {states.step}:")
        show(table)

    def final(self, states: States) -> None:
        """Print the table at the end."""
        values = self.monitor.values()
        if self.as_json:
            self._json({"final": True, "steps": states.step + 1}, states, values)
            return
        table = grid(
            "axiom", "verdict", "since step", "value", "binding", left=["axiom", "verdict"],
            fold=["binding"],
        )  # fmt: skip
        for state in states:
            value = values.get(state.axiom)
            where = cell_words(dict(state.binding))
            shown = degree(None if value is None else value.now)
            since = "the end" if state.decided is None else state.decided
            add(table, state.axiom, state.verdict, since, shown, where)
        say(f"{states.step + 1:,} step{'s' * (states.step > 0)}:")
        show(table)

    def _json(
        self, head: dict[str, object], states: States, values: Mapping[str, ValueBounds]
    ) -> None:
        print(self.lines.line(head, states, values), file=raw(sys.stdout))


def _numbers(value: ValueBounds | None) -> list[str]:
    if value is None:
        return [NONE] * 3
    return [degree(value.now), degree(value.low), degree(value.high)]
