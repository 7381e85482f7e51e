"""Checkpoints: the state of training after some steps, which survives a kill at any moment.

The folder of checkpoints is theirs: every `step-…` in it may be replaced or removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fotltn.errors import DataError, Diagnostic, Severity
from fotltn.learn import folders
from fotltn.learn.store import Document, encode, read_at, refused, resolved

#: How many checkpoints are kept.
KEPT = 2

_KIND = "checkpoint"
_STEP = re.compile(r"step-([0-9]{6,18})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of training after a number of steps."""

    step: int
    path: Path
    tensors: dict[str, Tensor]
    documents: dict[str, Document]


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest whole checkpoint, if any, and a warning for each newer one that is damaged."""

    checkpoint: Checkpoint | None
    warnings: tuple[Diagnostic, ...]


def write_checkpoint(
    folder: Path | str,
    step: int,
    tensors: Mapping[str, Tensor],
    documents: Mapping[str, Document],
) -> Path:
    """Write the state after a step as `FOLDER/step-000123`, and keep the one before it.

    Older ones are removed. So are those of later steps, which belong to a run that was given up.

    Raises:
        DataError: as for `write_folder`; the checkpoints before are still there.
    """
    if not 0 <= step < 10**18:
        raise DataError(f"a step is a whole number from 0, not {step}")
    parent = resolved(folder)
    target = parent / f"step-{step:06d}"
    files = encode(tensors, documents, _KIND)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with folders.locked(parent, exclusive=True):
            folders.settle(parent, _is_step)
            folders.place(target, files)
            steps = sorted(filter(_is_step, os.listdir(parent)), key=_number)
            kept = steps[: steps.index(target.name) + 1][-KEPT:]
            for name in steps:
                if name not in kept:
                    folders.discard(parent / name)
    except OSError as error:
        raise refused("write", target, error) from None
    return target


def latest_checkpoint(folder: Path | str) -> Latest:
    """The newest checkpoint that is whole, with a warning for each newer one that is not.

    Raises:
        DataError: the folder cannot be read.
    """
    parent = resolved(folder)
    warnings: list[Diagnostic] = []
    with folders.locked(parent, exclusive=False):
        try:
            found = filter(_is_step, folders.names(parent))
        except FileNotFoundError:
            return Latest(None, ())
        except OSError as error:
            raise refused("read", folder, error) from None
        for name in sorted(found, key=_number, reverse=True):
            try:
                stored = read_at(parent / name, _KIND)
            except DataError as error:
                warnings += [
                    Diagnostic(d.message, hint=d.hint, severity=Severity.WARNING)
                    for d in error.diagnostics
                ]
                continue
            return Latest(Checkpoint(_number(name), parent / name, *stored), tuple(warnings))
    return Latest(None, tuple(warnings))


def clear_checkpoints(folder: Path | str) -> None:
    """Remove all checkpoints, as a run that starts anew must.

    Raises:
        DataError: they cannot be removed.
    """
    parent = resolved(folder)
    try:
        with folders.locked(parent, exclusive=True):
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
