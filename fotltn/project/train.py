"""Train a project: from its folder to a model, interruptible at any moment."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from fotltn.errors import (
    DataError,
    Diagnostic,
    InterruptedTrainingError,
    LimitError,
    warning,
)
from fotltn.learn.checkpoints import Reserved, clear_checkpoints, reserve
from fotltn.learn.fit import fit
from fotltn.learn.ranks import ALONE, Ranks, joined_ranks
from fotltn.learn.store import check_replaceable, resolved
from fotltn.memory import keep_freed_memory
from fotltn.posterior.plan import plan_of
from fotltn.posterior.run import sampler_of
from fotltn.project.apply import own_data_only
from fotltn.project.build import Built, build, build_from_disk
from fotltn.project.callbacks import Callback, Telling, telling
from fotltn.project.config import Config
from fotltn.project.model import KIND, Model, model_of
from fotltn.project.presets import BEFORE, DEFAULT
from fotltn.project.problem import problem_of
from fotltn.project.sampled import sample_project
from fotltn.project.stored import versions
from fotltn.project.unmoved import unmoved
from fotltn.project.world import NOTHING, InMemory, in_precision
from fotltn.stop import interrupts
from fotltn.threads import long_work

_LOG = logging.getLogger("fotltn.project")

#: What is said of a file that version 0.2.0 would have read otherwise.
UNNAMED = warning(
    f"the project names no preset, so it learns by '{DEFAULT}'",
    hint=f'above all sections: preset = "{BEFORE}" for the setting of version 0.2.0 and before, '
    f'or preset = "{DEFAULT}" for that of fotltn new',
)

#: With "auto", sampling may take at most this many steps of automata: about an hour.
_STEPS = 3e11


def train(
    config: Config,
    *,
    more: InMemory = NOTHING,
    checkpoints: Path | Reserved | None = None,
    callbacks: Iterable[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    finish: bool = False,
) -> Model:
    """Train the networks of a project.

    Args:
        config: the project.
        more: the parts of the project that are not in its files.
        checkpoints: a folder for the state of training, from which an interrupted run continues.
        callbacks: objects to call at the start, after every epoch or sweep, and at the end.
        stop: a function to call after every epoch; if it returns true, training stops.
        finish: whether to train no further than the checkpoint, and make a model of it.

    Raises:
        InterruptedTrainingError: it was stopped.
        FotError: the project is wrong.
    """
    long_work()
    with telling(callbacks) as told:
        told.model = _trained(config, more, checkpoints, told, stop, finish)
    _LOG.info("%s", told.model.reason)
    for text in told.model.warnings:
        _LOG.warning("%s", text)
    return told.model


def _trained(
    config: Config,
    more: InMemory,
    checkpoints: Path | Reserved | None,
    told: Telling,
    stop: Callable[[], bool],
    finish: bool,
) -> Model:
    try:
        if config.data.prepared is not None:
            built = build_from_disk(config, more)
        else:
            built = _feasible(build(config, more), config, more)
        if config.unnamed:
            built = _warned(built, UNNAMED)
        _LOG.info("method %s, %d labels", built.config.method, built.world.labels.total)
        told.start(model_of(built))
        with in_precision(config):
            if built.config.method == "posterior":
                model = _sampled(built, checkpoints, told, stop, finish)
                model.warnings += unmoved(model, more, stop)
                return model
            outcome = fit(
                built.task, checkpoints=checkpoints, on_epoch=told.epoch, on_resume=told.resume,
                stop=stop, finish=finish,
            )  # fmt: skip
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate" in str(error):
            hint = None
            if config.method == "posterior":
                hint = (
                    "sample fewer worlds at once (worlds in [posterior]); fotltn plan says "
                    "what they need"
                )
            raise LimitError("training does not fit into memory", hint=hint) from None
        raise
    if not outcome.finished:
        raise _stopped("epoch", len(outcome.history), config.training.epochs, checkpoints)
    model = model_of(built, outcome)
    _set_thresholds(model, built)
    if reason := own_data_only(built.config, built.world):
        model.warnings += (reason,)
    model.warnings += unmoved(model, more, stop)
    return model


def _warned(built: Built, text: Diagnostic) -> Built:
    """Return the project with one more warning about it."""
    world, facts = built.world, built.world.facts
    facts = replace(facts, warnings=(text, *facts.warnings))
    return replace(built, world=replace(world, facts=facts))


def _feasible(built: Built, config: Config, more: InMemory) -> Built:
    """Return the project; with "auto", switch to gradients if sampling is impossible or too slow.

    Raises:
        DataError: no world obeys all hard axioms.
    """
    if config.method != "auto" or built.config.method != "posterior":
        return built
    try:
        plan = plan_of(sampler_of(problem_of(built)))
        steps = plan.steps * plan.sweeps
        why = "" if steps <= _STEPS else f"would take {steps:.0e} steps of automata"
    except LimitError as error:
        why = f"is not possible: {error.diagnostics[0].message}"
    if not why:
        return built
    other = build(replace(config, method="gradient"), more)
    return replace(other, chosen=f"because sampling worlds {why}")


def _sampled(
    built: Built, checkpoints: Path | Reserved | None, told: Telling, stop: Callable[[], bool],
    finish: bool,
) -> Model:  # fmt: skip
    ranks = ALONE if built.config.training.blocks is None else joined_ranks()
    outcome = sample_project(
        built,
        checkpoints=checkpoints,
        on_sweep=told.sweep,
        stop=stop,
        ranks=ranks,
        finish=finish,
    )
    if outcome.posterior is None:
        raise _stopped("sweep", outcome.done, outcome.of, checkpoints)
    model = model_of(built)
    model.posterior, model.warnings = outcome.posterior, outcome.warnings
    model.reason, model.versions = outcome.reason, versions()
    _set_thresholds(model, built)
    return model


def _stopped(
    what: str, done: int, total: int, checkpoints: Path | Reserved | None
) -> InterruptedTrainingError:
    hint = None
    if checkpoints is not None:
        hint = "run the same command to continue, or with --finish to keep what there is"
    text = f"training was stopped after {what} {done} of {total}"
    return InterruptedTrainingError(text, hint=hint)


def _set_thresholds(model: Model, built: Built) -> None:
    """Choose the smallest degree that counts as true, on validation facts alone."""
    by = built.config.training.thresholds
    if by == "half":
        return
    from fotltn.analysis.metrics import best_threshold

    watched = built.task.split()[1]
    if watched is None:
        model.warnings += (
            "there are no facts to choose thresholds on, so thresholds are 0.5; hold some back: "
            "validation = 0.1 in [training]",
        )
        return
    model.thresholds = {
        n: best_threshold(truth, score, by)
        for n, (truth, score) in model.scores(watched).items()
        if n not in model.grounding.definitions  # defined predicates follow from the others
    }


def train_and_save(
    config: Config,
    path: Path,
    *,
    fresh: bool = False,
    finish: bool = False,
    callbacks: Iterable[Callback] = (),
    ranks: Ranks = ALONE,
) -> Model:
    """Train as a separate program: Ctrl-C loses nothing, and the model is saved.

    Checkpoints stay beside the model until it is saved, and no other training can use the same
    folder until then. With several processes, the first does all of this.
    """
    keep_freed_memory()
    if not ranks.first:
        return train(config, checkpoints=path, finish=finish)
    target = resolved(path)
    check_target(target)
    checkpoints = target.with_name(f"{target.name}.checkpoints")
    with reserve(checkpoints) as place:
        if fresh:
            clear_checkpoints(checkpoints)
        with interrupts("stopping") as asked:
            model = train(config, checkpoints=place, callbacks=callbacks, stop=asked, finish=finish)
        model.save(target)
        clear_checkpoints(checkpoints)
    with contextlib.suppress(OSError):
        checkpoints.rmdir()
    return model


def check_target(target: Path) -> None:
    """Check before training that the model can be written to its folder.

    Raises:
        DataError: the folder holds something else, or cannot be written.
    """
    try:
        check_replaceable(target, KIND)
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise DataError(f"cannot write {target}: a file is where its folder would be") from None
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}") from None
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {target}: the folder around it cannot be written to")
