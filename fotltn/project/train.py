"""Training a project: from its folder to a model, interruptible at any moment."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from fotltn.errors import DataError
from fotltn.grounding.frames import Source
from fotltn.learn.fit import Epoch, fit, forget_checkpoints
from fotltn.memory import keep_freed_memory
from fotltn.project.build import build
from fotltn.project.config import Config
from fotltn.project.model import Model, model_of


class InterruptedTrainingError(DataError):
    """Training was stopped before its end; its state is kept."""


def train(
    config: Config,
    *,
    frames: Sequence[Source] = (),
    checkpoints: Path | None = None,
    on_start: Callable[[Any], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Model:
    """Train the networks of a project.

    Args:
        config: the project.
        frames: further facts, in memory.
        checkpoints: a folder for the state of training, from which an interrupted run goes on.
        on_start: is told what is trained.
        on_epoch: is told of every epoch.
        stop: asked after every epoch whether to stop.

    Raises:
        InterruptedTrainingError: it was stopped.
        FotError: something of the project is wrong.
    """
    built = build(config, frames)
    if on_start is not None:
        on_start(built)
    outcome = fit(built.task, checkpoints=checkpoints, on_epoch=on_epoch, stop=stop)
    if not outcome.finished:
        raise InterruptedTrainingError(
            f"training was stopped after epoch {len(outcome.history)}; run it again to go on"
        )
    return model_of(built, config, outcome)


def train_and_save(
    config: Config,
    path: Path,
    *,
    fresh: bool = False,
    on_start: Callable[[Any], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Model:
    """Train as a program of its own: it keeps freed memory, Ctrl-C loses nothing, a model is left."""
    keep_freed_memory()
    checkpoints = path.with_name(f"{path.name}.checkpoints")
    if fresh:
        forget_checkpoints(checkpoints)
    with interrupts() as asked:
        model = train(
            config, checkpoints=checkpoints, on_start=on_start, on_epoch=on_epoch, stop=asked
        )
    model.save(path)
    forget_checkpoints(checkpoints)
    return model


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, once, as a question that training asks after every epoch; twice, as usual."""
    asked = False

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread
        yield lambda: False
        return
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def without_axioms(config: Config) -> Config:
    """The same project, learning from facts alone."""
    objective = replace(config.objective, axioms="none")
    return replace(config, objective=objective)
