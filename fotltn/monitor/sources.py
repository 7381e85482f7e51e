"""Where steps come from: lines of standard input, of a file, or of one that grows; a broker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from fotltn.errors import DataError
from fotltn.monitor.steps import InputLine

_CHUNK = 1 << 20
_MOST_BYTES = 1 << 26  # of a line
_ENTRIES = 1024  # of a stream that are read at once
_PAUSE = 0.1  # seconds between two looks at a file that grows


class Arrived(NamedTuple):
    """A line, and where the next one begins: an offset in bytes, or what a broker calls it.

    Attributes:
        line: the line.
        after: where the next one begins.
        refused: why it cannot be a step, if that is known.
    """

    line: InputLine
    after: int | str
    refused: str | None = None


class Place(NamedTuple):
    """Where a source is read from: an offset in bytes, and how many lines come before it."""

    offset: int = 0
    lines: int = 0


#: The beginning of a source.
START = Place()


def lines_of(
    file: IO[bytes], name: str, start: Place = START, *, follow: Path | None = None
) -> Iterator[list[Arrived]]:
    """Lines that are not empty, as many at a time as are there.

    Bytes that are no text become surrogates, which `read_line` refuses.

    Args:
        file: what is read; from its place on.
        name: what errors call it.
        start: where that is.
        follow: the path of a file that grows: at its end, more is waited for, and an empty list
            says that there is nothing yet. A file that is replaced, or cut, is read from its start.

    Raises:
        DataError: a line is too long.
    """
    left, (offset, count) = b"", start
    while True:
        chunk = file.read1(_CHUNK)  # type: ignore[attr-defined]
        *complete, left = (left + chunk).split(b"\n")
        if not chunk and follow is not None:
            if _replaced(file, follow):
                with follow.open("rb") as other:
                    yield from lines_of(other, name, follow=follow)
            yield []
            time.sleep(_PAUSE)
            continue
        if not chunk and left:
            complete, left = [left], b""
        lines = []
        for raw in complete:
            count += 1
            offset += len(raw) + 1
            encoding = "utf-8-sig" if count == 1 else "utf-8"
            text = raw.decode(encoding, "surrogateescape").rstrip("\r")
            if text.strip():
                lines.append(Arrived(InputLine(name, count, text), offset))
        if lines:
            yield lines
        if len(left) > _MOST_BYTES:
            raise DataError(f"{name}:{count + 1}: a line has more than {_MOST_BYTES:,} bytes")
        if not chunk:
            return


def _replaced(file: IO[bytes], path: Path) -> bool:
    """Whether a path leads to another file now, or to one that was cut."""
    try:
        now, mine = path.stat(), os.fstat(file.fileno())
    except OSError:
        return False  # it may come back
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < file.tell()


def redis_lines(
    url: str, stream: str, after: str = "0", *, pause: float = 1.0
) -> Iterator[list[Arrived]]:
    """The entries of a Redis stream: the field `step` of each is a line. More is waited for.

    Args:
        url: of the server, as redis://localhost:6379/0.
        stream: the key of the stream.
        after: the entry after which to begin; the first one is after 0.
        pause: seconds after which an empty list says that there is nothing yet.

    Raises:
        DataError: the package is missing, or the server does not answer.
    """
    try:
        import redis
    except ImportError:
        raise DataError("Redis needs the package redis: pip install 'fotltn[redis]'") from None
    try:
        with redis.Redis.from_url(url) as server:
            while True:
                answer: Any = server.xread({stream: after}, _ENTRIES, int(1000 * pause))
                lines = []
                for number, fields in answer[0][1] if answer else ():
                    after = number.decode()
                    text = fields.get(b"step", b"").decode("utf-8", "surrogateescape")
                    refused = None
                    if b"step" not in fields:
                        refused = f"entry {after} of the stream '{stream}' has no field 'step'"
                    lines.append(Arrived(InputLine(f"{stream} {after}", 1, text), after, refused))
                yield lines
    except (redis.RedisError, ValueError) as error:
        raise DataError(f"cannot read the stream '{stream}' of {url}: {error}") from None
