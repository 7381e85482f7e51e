"""`fotltn watch`: report every violation of a theory's axioms as it happens."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.options import Horizon, StepsFile, TheoryFile, TraceEnd
from fotltn.cli.output import INTERRUPTED, VIOLATED, raw
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import DataError
from fotltn.format import NONE
from fotltn.logic.check import check as check_theory
from fotltn.stop import interrupts
from fotltn.strict_json import read_json
from fotltn.syntax.load import load_theory

if TYPE_CHECKING:
    from fotltn.monitor.events import CellEvent
    from fotltn.monitor.journal import Journal
    from fotltn.monitor.levels import Levels
    from fotltn.monitor.sources import Arrived, FollowedFile
    from fotltn.monitor.steps import Header, InputLine
    from fotltn.monitor.watch import Watch


def watch(
    theory: TheoryFile,
    source: StepsFile = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait at the end of the file for more, until Ctrl-C.")
    ] = False,
    redis: Annotated[
        str | None,
        typer.Option("--redis", help="Read a stream of a Redis server: its URL and /STREAM."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="A folder for all events, from which a stopped watch continues."
        ),
    ] = None,
    save_every: Annotated[
        int, typer.Option("--save-every", min=1, help="With --state: steps between two snapshots.")
    ] = 10_000,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="A trained model, which predicts facts from features."),
    ] = None,
    hard_only: Annotated[
        bool, typer.Option("--hard-only", help="Report violations of hard axioms only.")
    ] = False,
    at_most: Annotated[
        int | None, typer.Option("--at-most", min=1, help="Report at most N violations a minute.")
    ] = None,
    quiet: Annotated[
        float,
        typer.Option(
            "--quiet",
            min=0,
            help="After a violation, report no further ones of that axiom for N seconds.",
        ),
    ] = 0,
    resolved: Annotated[
        bool,
        typer.Option("--resolved", help="Also report cells that were open and then came true."),
    ] = False,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Print the state of all axioms every N steps."),
    ] = None,
    window: Annotated[
        int,
        typer.Option("--window", min=1, help="The number of steps for recent counts and rates."),
    ] = 1000,
    forget: Annotated[
        int | None,
        typer.Option(
            "--forget", min=1, help="Forget entities about which nothing was true for N steps."
        ),
    ] = None,
    skip_errors: Annotated[
        bool,
        typer.Option("--skip-errors", help="Report lines that are not steps, and continue."),
    ] = False,
    horizon: Horizon = None,
    presence: Annotated[
        list[str] | None,
        typer.Option(
            "--presence",
            metavar="<str>",
            help="A predicate that is true where an entity is present; repeatable.",
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", help="The smallest degree that counts as true.")
    ] = 0.5,
    end: TraceEnd = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one object per line.")
    ] = False,
) -> None:
    """Watch axioms on a trace, and report each violation once.

    A step is a line of JSON, as for fotltn monitor. A violation is a binding of an axiom at a time.
    It is reported as soon as it is certain, with its causes. At the end of the input, or at Ctrl-C,
    a table shows the state of all axioms. With --state, the end of the input does not end the
    trace, unless --end is given. Exit status: 0 if there was no violation, 3 if there was one, 1 if
    the input has errors, 2 for a wrong call, 130 after Ctrl-C.
    """
    checked = check_theory(load_theory(theory))
    if not checked.axioms:
        raise DataError(f"{theory} has no axioms to watch")
    if follow and source is None:
        raise DataError("--follow needs a file to follow: --input FILE")
    if redis is not None and source is not None:
        raise DataError("steps come from a file or from Redis, not from both")
    from fotltn.learn.locks import reserved
    from fotltn.monitor.journal import Journal
    from fotltn.monitor.levels import Levels
    from fotltn.monitor.watch import Watch

    trained = None
    if model is not None:
        from fotltn.project.find import find_model
        from fotltn.project.live import ModelWatch

        trained = find_model(model)

    def watching(header: Header | None) -> Watch:
        options: dict[str, Any] = {
            "header": header, "threshold": threshold, "presence": presence or [],
            "resolved": resolved, "window": window, "forget": forget, "horizon": horizon,
        }  # fmt: skip
        if trained is not None:
            return ModelWatch(trained, checked, **options)
        return Watch(checked, **options)

    interrupted = False
    with ExitStack() as stack:
        journal = None
        watch = watching(None)
        if state is not None:
            stack.enter_context(reserved(state, "watching"))
            read_once = source is None and redis is None
            journal = stack.enter_context(Journal(state, keep_input=read_once))
            if journal.resume(watch):
                print(f"{state}: continues after step {watch.count - 1:,}", file=sys.stderr)
        batches = _LineBatches(source, follow, redis, journal, stack)
        if watch.count == 0 and (header := batches.header()) is not None:
            watch = watching(header)
            batches.note_header()
        for name, reason in watch.unwatched.items():
            print(f"note: {name} is not watched: {reason}", file=sys.stderr)
        levels = Levels(hard_only, at_most, quiet)
        teller = _Teller(watch, batches, levels, every, as_json, journal, save_every, skip_errors)
        try:
            for batch in batches:
                teller.run(batch)
        except KeyboardInterrupt:
            if teller.torn:
                raise
            interrupted = True
        except DataError:
            if watch.count:
                teller.save()
            raise
        if watch.count == 0 and interrupted:
            raise KeyboardInterrupt
        if not interrupted and watch.count:
            teller.save()
        ends = end is not None or (state is None and not follow and redis is None)
        if ends and not (interrupted and state is not None):
            teller.tell(watch.finish(end or "undecided"))
            teller.save()
    teller.standings("in all")
    if count := teller.skipped:
        print(f"{count:,} line{'s were' if count != 1 else ' was'} skipped.", file=sys.stderr)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(axiom.violations for axiom in watch.axioms.values()):
        raise typer.Exit(VIOLATED)


class _LineBatches:
    """The lines of the input, in batches of as many as are available; the first may be a header."""

    def __init__(
        self,
        source: Path | None,
        follow: bool,
        redis: str | None,
        journal: Journal | None,
        stack: ExitStack,
    ) -> None:
        from fotltn.monitor.places import checked_place, file_start
        from fotltn.monitor.sources import Arrived, FollowedFile, lines_of, redis_lines
        from fotltn.monitor.steps import InputLine

        self.journal = journal
        kind = "redis" if redis is not None else "stdin" if source is None else "file"
        place = None
        if journal is not None:
            place = checked_place(journal.place, kind, journal.folder)
        again = [] if journal is None else journal.again
        name = "" if journal is None else str(journal.input_path)
        self.first = [Arrived(InputLine(name, i, one), "") for i, one in enumerate(again, 1)]
        self.header_line: Arrived | None = None
        self.header_text = None if journal is None else journal.header
        self.rest: Iterator[list[Arrived]]
        self.read_from: FollowedFile | str | None = None
        self.swaps = 0
        if redis is not None:
            url, _, stream = redis.rpartition("/")
            if place is not None and place["stream"] != stream:
                raise DataError(
                    f"the watch of {journal and journal.folder} reads the stream "
                    f"'{place['stream']}', not '{stream}'; use another folder for --state"
                )
            self.read_from = stream
            after = place["after"] if place else "0"
            self.rest = redis_lines(url, stream, after, note=_note)
            return
        if source is None:
            self.rest = lines_of(sys.stdin.buffer, "<stdin>")
            return
        try:
            self.read_from = file = stack.enter_context(closing(FollowedFile(source)))
            start = file_start(place, file, follow=follow)
            file.file.seek(start.offset)
        except OSError as error:
            raise DataError(f"cannot read {source}: {error.strerror}") from None
        if journal is not None and place is not None and start.offset < place["offset"]:
            journal.lost()
            print(
                f"note: {source} was replaced, and is now read from its start; the "
                f"earlier file was read up to line {place['lines']:,}",
                file=sys.stderr,
            )
        self.rest = lines_of(file if follow else file.file, str(source), start)

    def new_file(self) -> dict[str, Any] | None:
        """Return the start of the last batch's file, if the file is not the one before."""
        from fotltn.monitor.places import place_in
        from fotltn.monitor.sources import START, FollowedFile

        if not isinstance(self.read_from, FollowedFile) or self.read_from.swaps == self.swaps:
            return None
        self.swaps = self.read_from.swaps
        return place_in(self.read_from, START)

    def place_after(self, one: Arrived) -> dict[str, Any]:
        """Return where the input continues after a line of the last batch."""
        from fotltn.monitor.places import place_after

        return place_after(one, self.read_from)

    def header(self) -> Header | None:
        """Return what a header says about all steps; without a header, the first line is a step."""
        from fotltn.monitor.steps import Header, read_line

        while not self.first:
            batch = next(self.rest, None)
            if batch is None:
                return None
            self.first = batch
        try:
            begun = read_line(self.first[0].line)
        except DataError:
            return None  # reported later, when it is read as a step
        if not isinstance(begun, Header):
            return None
        self.header_line = self.first.pop(0)
        return begun

    def note_header(self) -> None:
        """Store the header, which fits the theory."""
        one = self.header_line
        if one is None:
            return
        self.header_text = one.line.text
        if self.journal is not None:
            self.journal.header = one.line.text
            if one.after != "":
                self.journal.note([one.line.text])

    def __iter__(self) -> Iterator[list[Arrived]]:
        for batch in itertools.chain([self.first], self.rest):
            yield self._without_header(batch)

    def _without_header(self, batch: list[Arrived]) -> list[Arrived]:
        """Drop a repeated header; a later file, or the input of a later run, may have one."""
        if not batch or batch[0].line.number != 1 or '"entities"' not in batch[0].line.text:
            return batch
        try:
            again = read_json(batch[0].line.text)
        except DataError:
            return batch
        if self.header_text is None or not isinstance(again, dict) or "entities" not in again:
            return batch
        if isinstance(self.read_from, str):
            return batch  # a stream does not start over
        if again == read_json(self.header_text):
            return batch[1:]
        reason = "this header is not the one that the watch began with"
        return [batch[0]._replace(refused=reason), *batch[1:]]


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)


def _lines(arrived: list[Arrived]) -> Iterator[InputLine]:
    from fotltn.monitor.steps import TraceStep, wrong

    for one in arrived:
        if one.refused is not None:
            raise wrong(TraceStep(line=one.line), one.refused)
        yield one.line


class _Teller:
    """Runs steps, and prints their events."""

    def __init__(
        self,
        watch: Watch,
        batches: _LineBatches,
        levels: Levels,
        every: int | None,
        as_json: bool,
        journal: Journal | None,
        save_every: int,
        skip_errors: bool,
    ) -> None:
        self.watch, self.levels, self.every, self.as_json = watch, levels, every, as_json
        self.batches, self.journal, self.save_every = batches, journal, save_every
        self.place: Any = None if journal is None else journal.place
        # After the first lines, the folder knows which input it belongs to.
        self.saved = watch.count or -save_every
        self.skip_errors, self.skipped = skip_errors, 0
        self.rest: list[Arrived] = []
        self.taken: Arrived | None = None
        self.torn = False  # in the middle of steps

    def run(self, lines: list[Arrived]) -> None:
        """Take the steps of some lines, and pause where standings are to be printed.

        Raises:
            DataError: a line is not a step of the theory; the steps before it were taken.
        """
        if self.journal is not None:
            self.journal.note(one.line.text for one in lines if one.after != "")
            if lines and (place := self.batches.new_file()) is not None:
                self.place = place
                self.save()
                self.saved -= self.save_every
        self.rest = lines
        try:
            with interrupts() as asked:
                self._run_rest(asked)
        finally:  # before another file takes the place of this one
            self._find_place()
        sys.stdout.flush()
        if asked():
            raise KeyboardInterrupt

    def _run_rest(self, asked: Callable[[], bool]) -> None:
        while self.rest and not asked():
            self.torn = True
            begun, refusal = self.watch.count, None
            room = len(self.rest) if self.every is None else self.every - begun % self.every
            part = self.rest[:room]
            try:
                self.tell(self.watch.steps(_lines(part)))
            except DataError as error:
                refusal = error
            taken = part if refusal is None else part[: self.watch.count - begun]
            if taken:
                self.taken = taken[-1]
            self.rest = self.rest[len(taken) :]
            if refusal is not None:
                if len(taken) == len(part):
                    raise refusal
                self._refused(refusal)
            count = self.watch.count
            if self.every is not None and count > begun and count % self.every == 0:
                self.standings(f"after step {self.watch.count - 1}")
            if self.watch.count - self.saved >= self.save_every:
                self.save()
            if self.journal is not None:
                self.journal.tell(self.watch)
            self.torn = False

    def _find_place(self) -> None:
        """Where the input goes on after the last line that was taken."""
        if self.taken is not None and self.journal is not None:
            self.place = self.batches.place_after(self.taken)
        self.taken = None

    def _refused(self, error: DataError) -> None:
        """Skip the next line, which is not a step.

        Raises:
            DataError: errors are not skipped, or no more steps may come.
        """
        over = self.watch.ended or self.watch.count == self.watch.horizon
        if self.skip_errors and not over:
            print(error, file=sys.stderr)
            self.skipped += 1
            del self.rest[0]
            return
        if self.journal is not None:
            if self.journal.keep_input:
                self.journal.refuse([one.line.text for one in self.rest])
            line = self.rest.pop(0).line
            how = "after" if self.journal.keep_input else "at"
            if not over:
                where = f"{how} line {line.number} of {line.name}"
                print(
                    f"note: {self.journal.folder}: the next run continues {where}", file=sys.stderr
                )
        raise error

    def save(self) -> None:
        """Write a snapshot, if there is a state folder."""
        if self.journal is not None and not self.journal.broken:
            self._find_place()
            self.journal.save(self.watch, self.place, (one.line.text for one in self.rest))
            self.journal.tell(self.watch, at_once=True)
            self.saved = self.watch.count

    def tell(self, events: Iterable[CellEvent]) -> None:
        """Print the events that the limits let through."""
        if self.journal is not None:
            self.journal.write(events, self._print)
            return
        for event in events:
            self._print(event)

    def _print(self, event: CellEvent) -> None:
        if not self.levels.lets(event, time.monotonic()):
            return
        if self.as_json:
            self._json(event.as_dict())
            return
        say(str(event))
        if event.because:
            told = (f"{e.formula}@{e.time} {str(e.truth).lower()}" for e in event.because)
            say(f"  {', '.join(told)}")

    def standings(self, when: str) -> None:
        """Print the state of all axioms."""
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
            count = self.levels.held_back
            say(f"{count:,} violation{'s were' if count != 1 else ' was'} not reported.")

    def _json(self, value: dict[str, object]) -> None:
        from fotltn.monitor.events import SCHEMA

        print(json.dumps({"schema": SCHEMA, **value}, ensure_ascii=False), file=raw(sys.stdout))
