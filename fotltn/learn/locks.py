"""Locks that the system releases when a process ends, however it ends.

On Unix a folder itself is locked. Elsewhere, such as on Windows, a file in the folder is locked
instead, and removed afterwards. Without any locks, such as on some network file systems, nobody
waits.
"""

from __future__ import annotations

import errno
import json
import os
import random
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path

from fotltn.errors import DataError
from fotltn.files import flag
from fotltn.strict_json import read_json

try:
    import fcntl
except ImportError:  # such as on Windows
    fcntl = None  # type: ignore[assignment]

#: Seconds before a process that waits for a lock says so, and before it gives up.
NOTICE = 1.0
PATIENCE = 30.0

#: The file that is locked in place of a folder, and the one that names the owner of a folder.
_FOR_FOLDER = ".fotltn.lock"
_FOR_KEEPER = ".keeper.lock"
_FILES = (_FOR_FOLDER, _FOR_KEEPER)

#: On Windows a locked byte cannot be read by others; this byte is beyond all content.
_FAR = 2**30
_CHANCE = random.SystemRandom()  # independent of all other random numbers
_TRIES = 100  # how often a file or folder that others keep removing is made again
_MOST_SAID = 4096


# --- a moment: reading and writing ------------------------------------------------------------


@contextmanager
def locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Wait until nobody writes in a folder (or, exclusive, reads), and hold the lock.

    If the folder cannot be locked, do not wait.

    Raises:
        DataError: another process did not release the lock within `PATIENCE` seconds.
    """
    path = folder if fcntl is not None else folder / _FOR_FOLDER
    with ExitStack() as held:
        with suppress(OSError):
            handle = _waited_for(path, folder, exclusive=exclusive)
            held.callback(_give_back, path, handle)
        yield


def _waited_for(path: Path, folder: Path, *, exclusive: bool) -> int:
    began, told, pause = time.monotonic(), False, 0.001
    while (handle := _take(path, exclusive=exclusive)) is None:
        waited = time.monotonic() - began
        if waited >= PATIENCE:
            raise DataError(
                f"'{folder}' is locked by another process, which did not release it within "
                f"{PATIENCE:g} seconds",
                hint="try again when that process has finished, or end it",
            )
        if waited >= NOTICE and not told:
            told = True
            sys.stderr.write(f"waiting for '{folder}', which another process has locked\n")
            sys.stderr.flush()
        time.sleep(pause * _CHANCE.uniform(0.5, 1))
        pause = min(0.05, 2 * pause)
    return handle


# --- for as long as a process works: a reserved folder ----------------------------------------


@contextmanager
def reserved(folder: Path, work: str) -> Iterator[None]:
    """Reserve a folder for one kind of work, such as "training".

    The folder is created if necessary, and removed in the end if it is empty.

    Raises:
        DataError: another process or thread has reserved it (the message says which), or it cannot
            be written to.
    """
    path, made = folder / _FOR_KEEPER, not folder.is_dir()
    try:
        handle = _take_in(folder, path)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}") from None
    if handle is None:
        raise DataError(
            f"'{folder}' is in use by another {work}: {_keeper(path)}",
            hint="wait until it has finished, or use another folder for this one",
        )
    try:
        _sign(handle)
        yield
    finally:
        _give_back(path, handle)
        if made:
            with suppress(OSError):
                folder.rmdir()


def _take_in(folder: Path, path: Path) -> int | None:
    """Do the same as `_take`, in a folder that is created; a previous owner may be removing it."""
    for left in reversed(range(_TRIES)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return _take(path, exclusive=True)
        except FileNotFoundError:  # removed after it was created, or it cannot be created at all
            if not left:
                raise
        except FileExistsError:  # removed while it was created, or something else has this name
            if not left:
                raise
            with suppress(FileNotFoundError):
                mode = os.lstat(folder).st_mode
                if not stat.S_ISDIR(mode) and not (stat.S_ISLNK(mode) and folder.is_dir()):
                    raise
    raise AssertionError("the last try returns or raises")


def _sign(handle: int) -> None:
    """Write into a file which process owns it."""
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since})
    with suppress(OSError):  # a full disk; the lock holds anyway
        os.lseek(handle, 0, os.SEEK_SET)
        os.ftruncate(handle, 0)
        os.write(handle, text.encode())


def _keeper(path: Path) -> str:
    try:
        with path.open("rb") as file:
            said = read_json(file.read(_MOST_SAID))
        return f"process {said['process']} on {said['host']}, since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "an unknown process"


# --- locks of the operating system ------------------------------------------------------------


def _take(path: Path, *, exclusive: bool) -> int | None:
    """Return an open handle with the lock of a folder, or of a new file; None if it is taken.

    Releasing a lock may remove its file. Then the file is created again, so that nobody holds the
    lock of a file that others cannot see.
    """
    flags = os.O_RDONLY | flag("O_DIRECTORY")
    if path.name in _FILES:
        flags = os.O_RDWR | os.O_CREAT | flag("O_NOFOLLOW") | flag("O_BINARY")
    for _ in range(_TRIES):
        handle = os.open(path, flags, 0o666)
        free = visible = False
        try:
            free = _attempt(handle, exclusive=exclusive)
            visible = free and _leads_to(path, handle)
        finally:
            if not visible:
                os.close(handle)
        if visible:
            return handle
        if not free:
            return None
    raise OSError(errno.EAGAIN, "its lock file is removed as soon as it is created")


def _leads_to(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _attempt(handle: int, *, exclusive: bool) -> bool:
    """Lock an open file, unless someone else has; return True also if there are no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        else:
            _windows(handle, "LK_NBLCK")
    except BlockingIOError:
        return False
    except OSError as error:
        return fcntl is not None or error.errno not in (errno.EACCES, errno.EDEADLK)
    return True


def _windows(handle: int, mode: str) -> None:
    try:
        msvcrt = import_module("msvcrt")
    except ImportError:
        raise OSError(errno.ENOTSUP, "no locks") from None
    os.lseek(handle, _FAR, os.SEEK_SET)
    msvcrt.locking(handle, getattr(msvcrt, mode), 1)


def _give_back(path: Path, handle: int) -> None:
    """Release a lock and remove its file: on Unix while it is held, on Windows once closed."""
    is_file = path.name in _FILES
    removed = is_file and _removed(path)
    if fcntl is None:
        with suppress(OSError):
            _windows(handle, "LK_UNLCK")
    os.close(handle)
    if is_file and not removed and fcntl is None:
        _removed(path)


def _removed(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
