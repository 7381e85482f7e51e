"""The output of commands: errors on standard error with an exit status, results as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fotltn.errors import DataError, Diagnostic, FotError, visible
from fotltn.format import finite

if TYPE_CHECKING:
    from fotltn.grounding.facts import Facts

#: Exit statuses; `VIOLATED` is that of an axiom which is violated, `BUG` that of a fault of ours.
OK, FINDINGS, USAGE, VIOLATED, BUG, INTERRUPTED = 0, 1, 2, 3, 70, 130

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Escaping:
    """A stream for people; control characters are shown as escapes, not sent to the terminal."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        return self.stream.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        self.stream.writelines(map(visible, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: Any) -> TextIO:
    """The stream itself, for output that people do not read."""
    below: TextIO = stream.stream if isinstance(stream, Escaping) else stream
    return below


def emit_text(text: str) -> None:
    """Print a table or a theory that can be read again; only a terminal gets escapes."""
    stream = sys.stdout if sys.stdout.isatty() else raw(sys.stdout)
    stream.write(text)


def emit_json(value: Any) -> None:
    """Print a JSON document; NaN, which JSON lacks, becomes null."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2)
    print(text, file=raw(sys.stdout))


def complain(error: FotError, *, as_json: bool = False) -> None:
    """Print an error: for people to standard error, for machines to standard output."""
    if as_json:
        emit_json({"ok": False, "diagnostics": [d.as_dict() for d in error.diagnostics]})
    else:
        print(error, file=sys.stderr)


def warn(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        print(warning.render(), file=sys.stderr)


_FILES = "--data may be files only for a model: name the folder of the model"


def one_folder(data: Sequence[Path] | None) -> Path | None:
    """Return the folder with the tables of a project, which --data names."""
    if len(data or ()) > 1:
        raise DataError("for a project, --data must be one folder with its tables", hint=_FILES)
    if data and data[0].is_file():
        message = f"for a project, --data must be a folder with tables, not the file '{data[0]}'"
        raise DataError(message, hint=_FILES)
    return data[0] if data else None


def time_point(at: str, horizon: int | None = None, facts: Facts | None = None) -> int | None:
    """Parse a time point before the horizon; return None for all time points.

    With facts that have a clock, it may also be a time stamp, or a number in the clock's unit.
    """
    if at == "all":
        return None
    timeline = None if facts is None else facts.timeline
    if facts is not None and timeline is not None and not at.isdecimal():
        import numpy as np
        import pyarrow as pa

        if timeline.common is None and len(facts.traces) > 1:
            raise DataError(
                "each trace has its own clock, so a time stamp does not say which time point",
                hint="give a time point from 0, or 'all'",
            )
        read = timeline.clock.read(pa.chunked_array([pa.array([at])]))
        step = int(timeline.steps(read, np.zeros(1, np.int64), facts.traces)[0])
        if not read.wrong[0] and step >= 0:
            return step
        first = timeline.text(0, facts.traces[0])
        like = f"a time stamp from '{first}' on, a time point from 0, or 'all'"
        raise DataError(f"--at takes {like}, not '{at[:40]}'")
    if not at.isdecimal() or len(at) > 18 or (horizon is not None and int(at) >= horizon):
        last = "" if horizon is None else f" to {horizon - 1}"
        raise DataError(f"--at takes a time point from 0{last}, or 'all', not '{at[:40]}'")
    return int(at)


def as_bytes(text: str) -> int:
    """Parse a budget, and return its bytes.

    >>> as_bytes("4G") == 4 * 2**30 and as_bytes("500 MiB") == 500 * 2**20
    True
    """
    cleaned = text.strip().lower().removesuffix("ib").removesuffix("b")
    number, unit = (cleaned[:-1], cleaned[-1:]) if cleaned[-1:] in _UNITS else (cleaned, "")
    try:
        count = float(number) * _UNITS[unit]
    except ValueError:
        count = -1.0
    if not 0 < count < 2**63:
        raise DataError(f"--budget takes bytes, such as 500M or 4G, not '{text}'")
    return int(count)
