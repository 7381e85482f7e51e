"""The folder from which a watch continues after it was stopped, however it was stopped.

    watch.json           a snapshot after some step, and the place where the input continues
    events.jsonl         every event, once
    now.json             the state of axioms and open cells, for the page of the watch
    input-COUNT.jsonl    the steps since the snapshot, if the input cannot be read again

The order of events does not depend on how many steps are taken at once. So after a stop, the watch
repeats the steps since the snapshot, and skips as many events as `events.jsonl` already has.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from fotltn.errors import DataError
from fotltn.files import write_files
from fotltn.monitor.events import SCHEMA, CellEvent
from fotltn.monitor.watch import Watch
from fotltn.strict_json import JsonError, read_json

#: The file with the present state of a watch.
NOW = "now.json"

_ANY_BYTES = "surrogateescape"  # keeps the bytes of lines that are not text
_SHOWN = 200  # most open cells in `now.json`
_DAMAGES = (JsonError, AttributeError, LookupError, TypeError, ValueError)
_SHARE = 0.05  # largest share of the time for writing `now.json`


class Journal:
    """Writes the events and snapshots of a watch into a folder.

    Attributes:
        place: where the input continues after the snapshot, in the terms of its source.
        again: the steps since the snapshot, if the source cannot be read again.
        header: the first line, if it was a header.
        input_path: the file with the steps in `again`.
        broken: whether events or lines could not be written; then the last snapshot stays.
    """

    def __init__(self, folder: Path, *, keep_input: bool = False) -> None:
        """Start or continue; set `keep_input` if the source cannot be read again.

        Raises:
            DataError: the folder cannot be written to.
        """
        self.folder, self.keep_input = folder, keep_input
        self.place: Any = None
        self.again: list[str] = []
        self.header: str | None = None
        self.number = 0
        self.broken = False
        self._known = 0
        self._tell_at = 0.0
        self._input: BinaryIO | None = None
        self.input_path = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._events = (folder / "events.jsonl").open("ab")
        except OSError as error:
            raise DataError(f"cannot write {folder}: {error.strerror}") from None

    def resume(self, watch: Watch) -> bool:
        """Restore a watch from the last snapshot; return whether there was one.

        Raises:
            DataError: the snapshot belongs to another theory or other options, or is damaged.
        """
        path = self.folder / "watch.json"
        size = 0
        if resumed := path.exists():
            try:
                saved = read_json(path.read_bytes())
                _check_types(saved)
                watch.restore(saved["watch"])
                self.place, self.number, size = saved["place"], saved["events"], saved["bytes"]
                self.header = saved["header"]
            except _DAMAGES as error:
                if isinstance(error, DataError) and not isinstance(error, JsonError):
                    raise DataError(
                        f"{path} does not fit: {error.diagnostics[0].message}"
                    ) from None
                raise DataError(f"{path} is damaged: {error}") from None
        self._known = _whole_lines(self.folder / "events.jsonl", size)
        if self.keep_input:
            self.input_path = path = self._input_path(watch)
            _whole_lines(path, 0)
            if path.exists():
                self.again = path.read_bytes().decode("utf-8", _ANY_BYTES).split("\n")[:-1]
            self._input = path.open("ab")
        return resumed

    def _input_path(self, watch: Watch) -> Path:
        return self.folder / f"input-{watch.count}.jsonl"

    def lost(self) -> None:
        """Continue from the snapshot, although the lines after it cannot be read again."""
        self.number += self._known
        self._known = 0

    def note(self, lines: Iterable[str]) -> None:
        """Keep lines of an input that cannot be read again, before the watch takes them."""
        if self._input is not None:
            with self._writing(self._input):
                self._input.write(_joined(lines))
                self._input.flush()

    def refuse(self, lines: Sequence[str]) -> None:
        """Remove the first of the last kept lines, because it is not a step."""
        if self._input is not None:
            self._input.truncate(os.fstat(self._input.fileno()).st_size - len(_joined(lines)))
            self.note(lines[1:])

    def write(
        self, events: Iterable[CellEvent], tell: Callable[[CellEvent], None] | None = None
    ) -> None:
        """Write events, and pass each to `tell` unless an earlier run wrote it.

        If an error interrupts the events, those before it are still written and passed on.

        Raises:
            DataError: the events cannot be written. The next run finds them again.
        """
        fresh = []
        lines = []
        try:
            for event in events:
                if self._known:
                    self._known -= 1
                else:
                    value = {"schema": SCHEMA, "number": self.number, **event.as_dict()}
                    lines.append(json.dumps(value, ensure_ascii=False) + "\n")
                    fresh.append(event)
                self.number += 1
        finally:
            if lines:
                with self._writing(self._events):
                    self._events.write("".join(lines).encode())
                    self._events.flush()
            if tell is not None:
                for event in fresh:
                    tell(event)

    def tell(self, watch: Watch, *, at_once: bool = False) -> None:
        """Write the state of a watch, at most once a second, and less often if it takes long.

        Raises:
            DataError: the state cannot be written.
        """
        began = time.monotonic()
        if began < self._tell_at and not at_once:
            return
        standings = [one.as_dict() for one in watch.standings().values()]
        cells = [cell.as_dict() for cell in itertools.islice(watch.open(), _SHOWN)]
        cells.sort(key=lambda cell: (cell["due"] is None, cell["due"]))
        value = {
            "schema": SCHEMA, "steps": watch.count, "ended": watch.ended, "window": watch.window,
            "axioms": standings, "open": cells, "open_in_all": sum(s["open"] for s in standings),
        }  # fmt: skip
        write_files({self.folder / NOW: json.dumps(value, ensure_ascii=False).encode()})
        spent = time.monotonic() - began
        self._tell_at = began + max(1.0, spent / _SHARE)

    def save(self, watch: Watch, place: Any, rest: Iterable[str] = ()) -> None:
        """Write a snapshot, from which another run continues.

        Args:
            watch: the watch to save.
            place: where its source continues.
            rest: lines that were kept, and not yet taken.

        Raises:
            DataError: the snapshot cannot be written; the one before it stays.
        """
        if self._known or self.broken:  # the last run got further
            return
        with self._writing(self._events):
            os.fsync(self._events.fileno())
        value = {
            "place": place,
            "header": self.header,
            "events": self.number,
            "bytes": self._events.tell(),
            "watch": watch.snapshot(),
        }
        if self._input is not None:
            self._input.close()
            write_files({self._input_path(watch): _joined(rest)})
            self._input = self._input_path(watch).open("ab")
        text = json.dumps(value, ensure_ascii=False).encode()
        write_files({self.folder / "watch.json": text})
        for path in self.folder.glob("input-*.jsonl"):
            if path != self._input_path(watch):
                with suppress(OSError):
                    path.unlink()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        for file in (self._events, self._input):
            # Closing tries once more to write what could not be written.
            with suppress(OSError) if self.broken else nullcontext():
                if file is not None:
                    file.close()

    @contextmanager
    def _writing(self, file: BinaryIO) -> Iterator[None]:
        """Turn an error of the system into one that names the file."""
        try:
            yield
        except OSError as error:
            self.broken = True
            raise DataError(f"cannot write {file.name}: {error.strerror}") from None


def _check_types(saved: Any) -> None:
    numbers = {"events": saved["events"], "bytes": saved["bytes"], "count": saved["watch"]["count"]}
    for key, value in numbers.items():
        if type(value) is not int or value < 0:
            raise TypeError(f"'{key}' is not a count")
    if not isinstance(saved["header"], str | None):
        raise TypeError("'header' is not a line")


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", _ANY_BYTES)


def _whole_lines(path: Path, start: int) -> int:
    """Cut off a line that was not written to its end; return the number of lines."""
    if not path.exists():
        return 0
    with path.open("rb+") as file:
        if file.seek(0, os.SEEK_END) < start:
            raise DataError(f"{path} is shorter than its snapshot says")
        file.seek(start)
        lines = file.read()
        last = lines.rfind(b"\n") + 1
        file.truncate(start + last)
        return lines.count(b"\n", 0, last)
