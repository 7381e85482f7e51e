"""Folders of files that are written completely or not at all.

A new folder NAME is written in four steps, next to its final place:

1. its files go into `.NAME.TOKEN.tmp`, each flushed to disk;
2. an old NAME, if there is one, is renamed to `.NAME.TOKEN.old`;
3. `.NAME.TOKEN.tmp` is renamed to NAME;
4. `.NAME.TOKEN.old` is removed.

A process may be killed at any time. Before step 2 the old folder is in place, after step 3 the new
one. In between there is no NAME, but a `.tmp` and an `.old` with the same token. That never happens
otherwise, and then both are complete: readers take the `.tmp`. The next write finishes the
interrupted one and cleans up.

Writers wait for each other, and readers wait for writers: they hold a lock on the parent folder of
NAME (`fotltn.learn.locks`).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fotltn.files import flag

_DRAFT = re.compile(r"\.(?P<name>.+)\.(?P<token>[0-9a-f]{16})\.(?P<state>tmp|old)")
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)  # the file system cannot flush folders


def _beside(target: Path, token: str, state: str) -> Path:
    return target.with_name(f".{target.name}.{token}.{state}")


def place(target: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder of files in place of whatever is there, while its parent is locked.

    After an OSError the old folder is back in place, and nothing else remains.
    """

    def fill(draft: Path) -> None:
        os.mkdir(draft)
        for name, data in files.items():
            _write_file(draft / name, data)
        _sync(draft)

    _place(target, fill)


def move(target: Path, ready: Path) -> None:
    """Move a complete folder from next to its final place into it, while its parent is locked."""
    _place(target, lambda draft: os.rename(ready, draft))


def _place(target: Path, fill: Callable[[Path], None]) -> None:
    token = secrets.token_hex(8)
    draft, old = _beside(target, token, "tmp"), _beside(target, token, "old")
    try:
        fill(draft)
        if os.path.lexists(target):
            os.rename(target, old)
        os.rename(draft, target)
        try:
            _sync(target.parent)
        except OSError:
            os.rename(target, draft)
            raise
    finally:
        if os.path.lexists(old) and not os.path.lexists(target):
            os.rename(old, target)
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def discard(target: Path) -> None:
    """Remove a folder in one atomic step, while its parent is locked."""
    old = _beside(target, secrets.token_hex(8), "old")
    os.rename(target, old)
    shutil.rmtree(old, ignore_errors=True)


def settle(parent: Path, owned: Callable[[str], bool]) -> None:
    """Finish interrupted writes of the folders whose names are owned, while locked."""
    drafts = [(m, parent / m.string) for m in _drafts(parent) if owned(m["name"])]
    for match, draft in drafts:
        target = parent / match["name"]
        if match["state"] == "tmp" and _interrupted(target, match["token"]):
            os.rename(draft, target)
            _sync(parent)
    for _, draft in drafts:
        shutil.rmtree(draft, ignore_errors=True)


def present(target: Path) -> list[Path]:
    """Return the places where the files of a folder may be, best first; empty if there is none."""
    if os.path.lexists(target):
        return [target]
    drafts = [m for m in _drafts(target.parent) if m["name"] == target.name]
    tokens = dict.fromkeys(m["token"] for m in drafts if _interrupted(target, m["token"]))
    return [_beside(target, token, state) for token in tokens for state in ("tmp", "old")]


def names(parent: Path) -> set[str]:
    """Return the names of all folders in a folder, including those that were being replaced."""
    cut = {m["name"] for m in _drafts(parent) if _interrupted(parent / m["name"], m["token"])}
    return cut | {n for n in os.listdir(parent) if not _DRAFT.fullmatch(n)}


def _drafts(parent: Path) -> list[re.Match[str]]:
    try:
        inside = sorted(os.listdir(parent))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [match for name in inside if (match := _DRAFT.fullmatch(name))]


def _interrupted(target: Path, token: str) -> bool:
    """Whether a write stopped between its second and its third step."""
    return not os.path.lexists(target) and all(
        os.path.lexists(_beside(target, token, state)) for state in ("tmp", "old")
    )


def _write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag("O_BINARY"), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can."""
    if not flag("O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | flag("O_DIRECTORY"))
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
