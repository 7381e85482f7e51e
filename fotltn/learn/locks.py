"""Locks that the system gives back when a process ends, however it ends.

On Unix a folder itself is locked. Where that cannot be, as on Windows, a file in the folder is
locked instead, and removed afterwards. Where there are no locks at all, as on some file systems
of a network, nobody waits for anybody.
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

from fotltn.errors import DataError, Diagnostic
from fotltn.files import flag
from fotltn.strict_json import read_json

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

#: Seconds after which who waits for a lock says so, and after which it gives up.
NOTICE = 1.0
PATIENCE = 30.0

#: The file that is locked in place of a folder, and that which says who keeps a folder.
_FOR_FOLDER = ".fotltn.lock"
_FOR_KEEPER = ".keeper.lock"
_FILES = (_FOR_FOLDER, _FOR_KEEPER)

#: What is locked on Windows cannot be read by others; this byte is behind all that is written.
_FAR = 2**30
_CHANCE = random.SystemRandom()  # draws nothing from the numbers of others
_MOST_SAID = 4096


# --- a moment: reading and writing ------------------------------------------------------------


@contextmanager
def locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Wait until nobody writes (or, exclusive, reads) in a folder, and keep it so.

    Where a folder cannot be locked, nothing is waited for.

    Raises:
        DataError: another process has not given the lock back within `PATIENCE` seconds.
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
                Diagnostic(
                    f"'{folder}' is locked by another process, and was not given back within "
                    f"{PATIENCE:g} seconds",
                    hint="try again when that process is done, or end it",
                )
            )
        if waited >= NOTICE and not told:
            told = True
            sys.stderr.write(f"waiting for '{folder}', which another process has locked\n")
            sys.stderr.flush()
        time.sleep(pause * _CHANCE.uniform(0.5, 1))
        pause = min(0.05, 2 * pause)
    return handle


# --- as long as a process works: a folder of its own ------------------------------------------


@contextmanager
def reserved(folder: Path, work: str) -> Iterator[None]:
    """Keep a folder for some work alone, such as "training".

    The folder is made if there is none, and removed if it is empty in the end.

    Raises:
        DataError: another process, or another thread of this one, keeps it (it says who), or
            the folder cannot be written to.
    """
    path, made = folder / _FOR_KEEPER, not folder.is_dir()
    try:
        handle = _take_in(folder, path)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}") from None
    if handle is None:
        raise DataError(
            Diagnostic(
                f"'{folder}' is in use by another {work}: {_keeper(path)}",
                hint="wait until that is done, or give this one a folder of its own",
            )
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
    """As `_take`, in a folder that is made; who had it before may just be removing it."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return _take(path, exclusive=True)
        except FileNotFoundError:  # removed after it was made
            continue
        except FileExistsError:  # removed while it was made, or something else has this name
            with suppress(FileNotFoundError):
                mode = os.lstat(folder).st_mode
                if not stat.S_ISDIR(mode) and not (stat.S_ISLNK(mode) and folder.is_dir()):
                    raise


def _sign(handle: int) -> None:
    """Say in a file who we are."""
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    text = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since})
    with suppress(OSError):  # a full disk; the lock holds all the same
        os.lseek(handle, 0, os.SEEK_SET)
        os.ftruncate(handle, 0)
        os.write(handle, text.encode())


def _keeper(path: Path) -> str:
    try:
        with path.open("rb") as file:
            said = read_json(file.read(_MOST_SAID))
        return f"process {said['process']} on {said['host']}, since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said who it is"


# --- what systems have ------------------------------------------------------------------------


def _take(path: Path, *, exclusive: bool) -> int | None:
    """An open handle with the lock of a folder, or of a file that is made; None if it is taken.

    Who gives a lock back may remove its file. Then it is made anew, so that nobody holds the lock
    of a file that others cannot see.
    """
    flags = os.O_RDONLY | flag("O_DIRECTORY")
    if path.name in _FILES:
        flags = os.O_RDWR | os.O_CREAT | flag("O_NOFOLLOW") | flag("O_BINARY")
    while True:
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


def _leads_to(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _attempt(handle: int, *, exclusive: bool) -> bool:
    """Lock an open file, if nobody else has; True also where there are no locks."""
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
    """End a lock, and remove its file: on Unix while it is held, on Windows once it is closed."""
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
