"""Checkpoints: the state of training after some steps, safe against a kill at any moment.

Training owns the folder of checkpoints: it may replace or remove every `step-…` in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from fotltn.errors import DataError, Diagnostic, Severity
from fotltn.learn import folders
from fotltn.learn.locks import locked, reserved
from fotltn.learn.ranks import ALONE, Ranks
from fotltn.learn.store import (
    Document,
    UnreadableError,
    check_version,
    encode,
    read_at,
    refused,
    resolved,
)

#: The number of checkpoints that are kept.
KEPT = 2

_KIND = "checkpoint"
_STEP = re.compile(r"step-([0-9]{6,18})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of training after a number of steps."""

    step: int
    path: Path
    tensors: dict[str, Tensor]
    documents: dict[str, Document]


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest intact checkpoint, if any, and a warning for each newer one that is damaged."""

    checkpoint: Checkpoint | None
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A folder of checkpoints that is reserved for one training run."""

    folder: Path


@contextmanager
def reserve(folder: Path | str) -> Iterator[Reserved]:
    """Reserve a folder of checkpoints until the end of the block, or of the process.

    Raises:
        DataError: another training run uses it, or it cannot be written to.
    """
    parent = resolved(folder)
    with reserved(parent, "training"):
        yield Reserved(parent)


@contextmanager
def place_of(
    checkpoints: Path | str | Reserved | None, ranks: Ranks = ALONE
) -> Iterator[Reserved | None]:
    """Reserve a folder of checkpoints for the first process; the others get None."""
    if not ranks.first:
        yield None
    elif isinstance(checkpoints, str | Path):
        with reserve(checkpoints) as place:
            yield place
    else:
        yield checkpoints


def write_checkpoint(
    folder: Path | str,
    step: int,
    tensors: Mapping[str, Tensor],
    documents: Mapping[str, Document],
) -> Path:
    """Write the state after a step to `FOLDER/step-000123`, and keep the previous one.

    Older checkpoints are removed. So are those of later steps, which belong to an abandoned run.

    Raises:
        DataError: as for `write_folder`; the previous checkpoints are still there.
    """
    if not 0 <= step < 10**18:
        raise DataError(f"a step must be a whole number of at least 0, not {step}")
    parent = resolved(folder)
    target = parent / f"step-{step:06d}"
    files = encode(tensors, documents, _KIND)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with locked(parent, exclusive=True):
            folders.settle(parent, _is_step)
            folders.place(target, files)
            steps = sorted(filter(_is_step, os.listdir(parent)), key=_number)
            newest = steps[: steps.index(target.name) + 1][-KEPT:]
            for name in steps:
                if name not in newest:
                    folders.discard(parent / name)
    except OSError as error:
        raise refused("write", target, error) from None
    return target


def latest_checkpoint(folder: Path | str) -> Latest:
    """Return the newest intact checkpoint, with a warning for each newer one that is damaged.

    Raises:
        UnreadableError: a checkpoint may be intact but cannot be read, because a later version of
            this program wrote it or the system refused.
        DataError: the folder cannot be read.
    """
    parent = resolved(folder)
    warnings: list[Diagnostic] = []
    with locked(parent, exclusive=False):
        try:
            names = sorted(filter(_is_step, folders.names(parent)), key=_number, reverse=True)
        except FileNotFoundError:
            return Latest(None, ())
        except OSError as error:
            raise refused("read", folder, error) from None
        try:
            for name in names:
                check_version(parent / name)
            for name in names:
                try:
                    stored = read_at(parent / name, _KIND)
                except UnreadableError:
                    raise
                except DataError as error:
                    warnings += [replace(d, severity=Severity.WARNING) for d in error.diagnostics]
                    continue
                return Latest(Checkpoint(_number(name), parent / name, *stored), tuple(warnings))
        except UnreadableError as error:
            hint = (
                "continue with a version of fotltn, or on a machine, that can read it; or start "
                f"over: `--fresh` removes the checkpoints in {folder}"
            )
            raise UnreadableError(*(replace(d, hint=hint) for d in error.diagnostics)) from None
    return Latest(None, tuple(warnings))


def latest_in(place: Reserved | None) -> Latest:
    """Do the same as `latest_checkpoint`, for a folder that may be None."""
    return Latest(None, ()) if place is None else latest_checkpoint(place.folder)


def clear_checkpoints(folder: Path | str) -> None:
    """Remove all checkpoints, to start training from the beginning.

    Raises:
        DataError: they cannot be removed.
    """
    parent = resolved(folder)
    try:
        with locked(parent, exclusive=True):
            if parent.is_dir():
                folders.settle(parent, _is_step)
                for name in filter(_is_step, os.listdir(parent)):
                    folders.discard(parent / name)
    except OSError as error:
        raise refused("clear", folder, error) from None


def _is_step(name: str) -> bool:
    return _STEP.fullmatch(name) is not None


def _number(name: str) -> int:
    return int(name.removeprefix("step-"))
