"""Read plain files up to a size limit, and write files completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from fotltn.errors import DataError, FotError

try:
    import fcntl
except ImportError:  # such as on Windows
    fcntl = None  # type: ignore[assignment]

#: The environment variable with further folders, as in PATH, that projects and theories may use.
ROOT = "FOTLTN_ROOT"

#: The environment variable with the file through which processes that train together meet.
MEETING = "FOTLTN_MEETING"

#: The environment variable with the database that queries of projects may read.
DATABASE = "FOTLTN_DATABASE"

#: The new content of a file: bytes, or a function that writes them.
Content = bytes | Callable[[BinaryIO], object]

#: A draft, beside the file that it becomes; drafts of version 0.2.0 do not say whose they are.
_DRAFT = re.compile(r"\.fot-(?:(?P<host>[0-9a-f]{8})-(?P<process>\d{1,9})-)?[0-9a-f]{16}\.tmp")
_OLD = 24 * 3600  # seconds after which a draft counts as left behind, whoever wrote it


@contextmanager
def opened(path: Path, *, links: bool = True) -> Iterator[BinaryIO]:
    """Open a plain file for reading; pipes and devices are rejected before anything is read.

    Args:
        path: the file.
        links: whether it may be a link to a file.

    Raises:
        DataError: it is not a plain file.
        OSError: it cannot be read.
    """
    if "\0" in str(path):
        raise DataError(f"cannot read {path}: no path has the character 0")
    if not links and path.is_symlink():
        raise DataError(f"cannot read {path}: it is a link, not a plain file")
    follow = 0 if links else flag("O_NOFOLLOW")
    try:
        handle = os.open(path, os.O_RDONLY | flag("O_NONBLOCK") | flag("O_BINARY") | follow)
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise DataError(f"cannot read {path}: it is a link, not a plain file") from None
        raise
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise DataError(f"cannot read {path}: it is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise DataError(f"cannot read {path}: it is not a plain file")
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def read_file(path: Path, *, limit: int, size: int | None = None, links: bool = False) -> bytes:
    """Return the bytes of a plain file that is not larger than a limit.

    Args:
        path: the file.
        limit: the maximum number of bytes.
        size: the number of bytes it must have, if known.
        links: whether it may be a link to a file.

    Raises:
        DataError: it is not a plain file, or has another size.
        OSError: it cannot be read.
    """
    with opened(path, links=links) as file:
        length = os.fstat(file.fileno()).st_size
        if size is not None and length != size:
            what = "it is cut short" if length < size else "it has been changed"
            raise DataError(f"cannot read {path}: it has {length:,} bytes, not {size:,}; {what}")
        if length > limit:
            raise DataError(
                f"cannot read {path}: it has {length:,} bytes; at most {limit:,} are read"
            )
        data = file.read(length + 1)
    if len(data) != length:  # it grows or shrinks, or the system generates it on reading
        raise DataError(f"cannot read {path}: it does not have the stated {length:,} bytes")
    return data


def inside(path: Path, *folders: Path) -> bool:
    """Return whether a path leads, with links followed, into one of some folders or of `ROOT`."""
    named = os.environ.get(ROOT, "").split(os.pathsep)
    roots = [*folders, *(Path(name) for name in named if name)]
    try:
        target = Path(os.path.realpath(path))
        return any(target.is_relative_to(os.path.realpath(root)) for root in roots)
    except (OSError, ValueError):
        return False


def write_files(
    contents: Mapping[Path, Content], *, parents: bool = False, what: str | None = None
) -> None:
    """Write files: all of them, or none if the disk is full or the program is stopped.

    Everything is first written next to its place and flushed to disk, then renamed. Links are
    followed, and files keep their permissions. Drafts that a killed process left there are removed.

    Args:
        contents: the contents by path.
        parents: create missing folders; if writing fails, they are removed again.
        what: the name in error messages; by default, the path.

    Raises:
        DataError: something else is in the place of a file, or it cannot be written.
    """
    swept = set[Path]()
    with ExitStack() as held, ExitStack() as undo:
        drafts = []
        for path, content in contents.items():
            with _about(what or path):
                target = Path(os.path.realpath(path))
                _check_plain(target, path)
                if parents:
                    _make(target.parent, undo)
                if target.parent not in swept:
                    _sweep(target.parent)
                    swept.add(target.parent)
                token = f"{_host()}-{os.getpid()}-{secrets.token_hex(8)}"
                draft = target.with_name(f".fot-{token}.tmp")
                undo.callback(_remove, draft)
                _write(draft, content, held)
                if target.exists():
                    os.chmod(draft, stat.S_IMODE(target.stat().st_mode))
            drafts.append((path, target, draft))
        for path, target, draft in drafts:
            with _about(what or path):
                if not target.exists():
                    undo.callback(_remove, target)
                os.replace(draft, target)
        undo.pop_all()


def append_lines(path: Path, lines: bytes, *, what: str | None = None) -> None:
    """Add lines after the last complete line of a file, and flush them to disk.

    If that fails, the file ends with its last complete line, or does not exist if it did not
    before.

    Args:
        path: the file; it and its folders are created if they are missing.
        lines: the lines, each with its line end.
        what: the name in error messages; by default, the path.

    Raises:
        DataError: it cannot be written.
    """
    with _about(what or path), ExitStack() as undo:
        _make(path.parent, undo)
        if not path.exists():
            undo.callback(_remove, path)
        with open(path, "a+b", buffering=0) as file:
            file.seek(0)
            end = file.read().rfind(b"\n") + 1
            file.truncate(end)
            undo.callback(_shorten, path, end)
            rest = memoryview(lines)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        undo.pop_all()


def flag(name: str) -> int:
    """Return a flag of `os.open`, or 0 if the system lacks it."""
    value: int = getattr(os, name, 0)
    return value


@contextmanager
def _about(what: str | Path) -> Iterator[None]:
    """Turn errors of the system into errors of this package."""
    try:
        yield
    except FotError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot write {what}: {reason}") from None


def _check_plain(target: Path, path: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not target.is_file():
        raise DataError(f"cannot write {path}: it is not a plain file")


def _make(folder: Path, undo: ExitStack) -> None:
    """Create a folder and its parents; undoing removes those that were created."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        undo.callback(_remove, one)


def _write(draft: Path, content: Content, held: ExitStack) -> None:
    """Write a draft; on Unix it stays locked until `held` closes, so that nobody removes it."""
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag("O_BINARY"), 0o666)
    with ExitStack() as closing:
        closing.callback(os.close, handle)
        with suppress(OSError):  # without locks, drafts are told apart by process and age
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(handle, "wb", closefd=False) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(handle)
        if fcntl is not None:
            held.callback(closing.pop_all().close)


def _sweep(folder: Path) -> None:
    """Remove the drafts in a folder whose process has ended."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if (draft := _DRAFT.fullmatch(name)) and _left_behind(folder / name, draft):
                _remove(folder / name)


def _left_behind(path: Path, draft: re.Match[str]) -> bool:
    """Return whether nobody will finish a draft: its process is gone, or it is old; and unlocked.

    Processes of another machine or container cannot be seen, so their drafts must be old.
    """
    try:
        file = os.lstat(path)
        gone = draft["host"] == _host() and not _runs(int(draft["process"]))
        if not stat.S_ISREG(file.st_mode) or not (gone or time.time() - file.st_mtime > _OLD):
            return False
        if fcntl is None:
            return True
        handle = os.open(path, os.O_RDONLY | flag("O_NOFOLLOW") | flag("O_NONBLOCK"))
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # there are no locks here
    finally:
        os.close(handle)
    return True


def _runs(process: int) -> bool:
    """Return whether a process of this machine runs; True if that cannot be known."""
    if fcntl is None:  # on Windows, a signal of 0 would interrupt it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@cache
def _host() -> str:
    """Return a word for all whose processes this one can see: a machine, or a container on it."""
    seen = ""
    with suppress(OSError):
        seen = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{socket.gethostname()} {seen}".encode()).hexdigest()[:8]


def _shorten(path: Path, size: int) -> None:
    with suppress(OSError):
        os.truncate(path, size)


def _remove(path: Path) -> None:
    """Remove a file or an empty folder."""
    with suppress(OSError):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
