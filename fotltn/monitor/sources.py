"""The sources of steps: standard input, a file, a growing file, or a broker."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from fotltn.errors import DataError, Diagnostic
from fotltn.monitor.steps import InputLine

_CHUNK = 1 << 20
_MOST_BYTES = 1 << 26  # most bytes of a line
_ENTRIES = 1024  # most entries of a stream to read at once
_MARK = 4096  # bytes at each of two places that identify a file
_PAUSE = 0.1  # seconds between two looks at a file that grows


class Arrived(NamedTuple):
    """A line of input, with the place after it.

    Attributes:
        line: the line.
        after: where the next line begins: an offset in bytes, or the number of a broker's entry.
        refused: why the line cannot be a step, if that is known.
    """

    line: InputLine
    after: int | str
    refused: str | None = None


class Place(NamedTuple):
    """A place in a file: an offset in bytes, and the number of lines before it."""

    offset: int = 0
    lines: int = 0


#: The beginning of a source.
START = Place()


class FollowedFile:
    """A file that grows, and the files that later take its path, as in log rotation.

    Attributes:
        path: the path.
        file: the open file.
        swaps: how often another file took the path.
    """

    def __init__(self, path: Path) -> None:
        """Open the file at a path."""
        self.path, self.file = path, path.open("rb")
        self.swaps = 0

    def replaced(self) -> bool:
        """Return whether the path now leads to another file, or the file became shorter."""
        try:
            now, mine = self.path.stat(), os.fstat(self.file.fileno())
        except OSError:
            return False  # it may come back
        other = (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)
        return other or now.st_size < self.file.tell()

    def mark(self, offset: int) -> str | None:
        """Return a digest of the bytes at the start of the file and before an offset.

        It identifies the file by its content, so a copy counts as the same file. None if no line
        begins at the offset. The last line of a file may lack its line feed.
        """
        here, size = self.file.tell(), max(0, offset - 1)
        self.file.seek(0)
        bytes_told = self.file.read(min(size, _MARK))
        self.file.seek(max(0, size - _MARK))
        before = self.file.read(min(size, _MARK))
        end = self.file.read(1) if offset else b""
        self.file.seek(here)
        if len(before) < min(size, _MARK) or end not in (b"", b"\n"):
            return None
        return hashlib.sha256(bytes_told + before).hexdigest()[:32]

    def swap(self) -> bool:
        """Close the file and open the one that now has the path; return whether there is one."""
        try:
            file = self.path.open("rb")
        except OSError:
            return False
        self.close()
        self.file = file
        self.swaps += 1
        return True

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def lines_of(
    file: IO[bytes] | FollowedFile, name: str, start: Place = START
) -> Iterator[list[Arrived]]:
    """Yield the lines that are not empty, as many at a time as are available.

    Bytes that are not text become surrogates, which `read_line` refuses.

    Args:
        file: an open file, which is read from its present place. At the end of a `FollowedFile`,
            an empty list means that there is nothing yet. A file that replaces it is read from its
            start; then the last line of the old file counts even without a line feed.
        name: the name of the file in errors.
        start: the present place of the file.

    Raises:
        DataError: a line is too long.
    """
    left, (offset, count) = b"", start
    followed = file if isinstance(file, FollowedFile) else None
    while True:
        # Ask before reading, so that the whole old file is read.
        replaced = followed is not None and followed.replaced()
        now = file.file if isinstance(file, FollowedFile) else file
        chunk = now.read1(_CHUNK)  # type: ignore[attr-defined]
        *complete, left = (left + chunk).split(b"\n")
        ended = not chunk and (followed is None or replaced)
        if ended and left:
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
        if ended and followed is None:
            return
        if ended and followed is not None and followed.swap():
            offset, count = START
        elif not chunk:
            yield []
            time.sleep(_PAUSE)


def redis_lines(
    url: str,
    stream: str,
    after: str = "0",
    *,
    pause: float = 1.0,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[list[Arrived]]:
    """Yield the entries of a Redis stream, without end: the field `step` of each is a line.

    If a server stops answering, wait until it answers again.

    Args:
        url: the address of the server, such as redis://localhost:6379/0.
        stream: the key of the stream.
        after: begin after this entry; 0 is before the first.
        pause: the number of seconds after which an empty list means that there is nothing yet.
        note: called with a note when the server stops answering, and when it answers again.

    Raises:
        DataError: the package is missing, the server does not answer at the start, or the stream
            is not the one that was read before.
    """
    try:
        import redis
    except ImportError:
        raise DataError("Redis needs the package redis: pip install 'fotltn[redis]'") from None
    answered, gone = False, False
    try:
        with redis.Redis.from_url(url) as server:
            while True:
                try:
                    answer: Any = server.xread({stream: after}, _ENTRIES, int(1000 * pause))
                    if not answer:
                        _check_goes_on(server, stream, after)
                except (redis.ConnectionError, redis.TimeoutError) as error:
                    if not answered or isinstance(error, redis.AuthenticationError):
                        raise
                    if not gone:
                        note(f"{_masked(url)} does not answer; waiting for it: {error}")
                    gone = True
                    yield []
                    time.sleep(pause)
                    continue
                if gone:
                    note(f"{_masked(url)} answers again")
                answered, gone = True, False
                lines = []
                for number, fields in answer[0][1] if answer else ():
                    after = number.decode()
                    text = fields.get(b"step", b"").decode("utf-8", "surrogateescape")
                    refused = None
                    if b"step" not in fields:
                        refused = f"entry {after} of the stream '{stream}' has no field 'step'"
                    lines.append(Arrived(InputLine(f"{stream} {after}", 1, text), after, refused))
                yield lines
    except DataError:
        raise
    except (redis.RedisError, ValueError) as error:  # a wrong address is a ValueError
        raise DataError(f"cannot read the stream '{stream}' of {_masked(url)}: {error}") from None


def _check_goes_on(server: Any, stream: str, after: str) -> None:
    """Check that entries of a stream come after the last one that was read.

    Raises:
        DataError: the stream was deleted and begun again with lower numbers.
    """
    if after == "0" or not server.exists(stream):
        return
    last = server.xinfo_stream(stream)["last-generated-id"].decode()
    if _entry_number(last) < _entry_number(after):
        raise DataError(
            Diagnostic(
                f"the stream '{stream}' is not the one that was read before: entry {after} was "
                f"read, but its last entry is {last}",
                hint="to read it from its start, use another folder for --state",
            )
        )


def _entry_number(entry: str) -> tuple[int, ...]:
    return tuple(map(int, entry.split("-")))


def _masked(url: str) -> str:
    """Return an address without its password."""
    return re.sub(r"(://[^/@:]*:).*@", r"\1***@", re.sub(r"(password=)[^&]*", r"\1***", url))
