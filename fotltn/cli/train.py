"""`fotltn train`: from a project to a model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fotltn.cli.options import Json, OtherFolder, ProjectFolder
from fotltn.cli.output import emit_json
from fotltn.cli.shards import Shards, end_with_starter, run_shards
from fotltn.format import number

if TYPE_CHECKING:
    from fotltn.project.model import Model


def train(
    project: ProjectFolder,
    data: OtherFolder = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-o", help="The folder for the model; by default, PROJECT/model."),
    ] = None,
    no_axioms: Annotated[
        bool, typer.Option("--no-axioms", help="Learn from facts alone, for comparison.")
    ] = False,
    method: Annotated[
        Literal["gradient", "posterior", "auto"] | None,
        typer.Option("--method", help="The method, instead of the project's; auto chooses one."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The seed, instead of the project's.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="The number of epochs, instead of the project's."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; do not continue an interrupted run.")
    ] = False,
    finish: Annotated[
        bool,
        typer.Option("--finish", help="Train no further; make a model of an interrupted run."),
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="KIND[:PLACE]",
            help="Write logs: tensorboard:FOLDER, mlflow:URI or wandb:PROJECT; repeatable.",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", help="The same as --log tensorboard:FOLDER."),
    ] = None,
    shards: Shards = None,
    as_json: Json = False,
) -> None:
    """Train a project, by gradients or by sampling, and save a model.

    After Ctrl-C or a kill, run the command again: it continues where it was, and ends with the same
    model. With --finish, it ends at once, with the best epoch or the worlds so far. Exit status: 0
    if a model was saved, 1 if the input has errors, 2 for a wrong call, 130 if it was interrupted.
    """
    if finish and fresh:
        raise typer.BadParameter("--fresh would discard what this keeps", param_hint="--finish")
    if shards is not None:
        run_shards(shards)
        return
    end_with_starter()
    from fotltn.cli.display import Display
    from fotltn.learn.blocks import BLOCKS
    from fotltn.learn.ranks import is_invited, meeting
    from fotltn.learn.store import MANIFEST
    from fotltn.project.config import read_config
    from fotltn.project.loggers import as_callbacks
    from fotltn.project.method import without_axioms
    from fotltn.project.train import train_and_save

    config = read_config(project, data=data)
    training = config.training
    training = training if seed is None else replace(training, seed=seed)
    training = training if epochs is None else replace(training, epochs=epochs)
    if is_invited() and training.blocks is None:
        training = replace(training, blocks=BLOCKS)
    config = replace(config, training=training, method=method or config.method)
    config = without_axioms(config) if no_axioms else config
    path = model if model is not None else config.model_path()
    with meeting(config.device) as (ranks, device):
        config = replace(config, device=device)
        if not ranks.first:
            train_and_save(config, path, finish=finish, ranks=ranks)
            return
        words = [*(log or ()), *([] if tensorboard is None else [f"tensorboard:{tensorboard}"])]
        told = as_callbacks([*words, Display(quiet=as_json)])
        if (path / MANIFEST).exists() and not as_json:
            print(f"note: the model in {path} is replaced at the end", file=sys.stderr)
        trained = train_and_save(config, path, fresh=fresh, finish=finish, callbacks=told)
    what, number = "trace", len(trained.facts.traces)
    if training.batches is None and number < (training.blocks or 1):
        what, number = "block", training.blocks or 1
    if trained.posterior is not None:
        what, number = "world", trained.posterior.chains
    if ranks.count > number:
        text = f"{ranks.count} processes share {number} {what}{'s' * (number > 1)}, so some"
        print(f"warning: {text} had nothing to do", file=sys.stderr)
    _tell(trained, path, as_json=as_json)
    if not as_json:
        say_next(project, trained)


def say_next(project: Path, trained: Model) -> None:
    """Print what to do next, if the output is a terminal."""
    from fotltn.cli.terminal import Terminal

    console = Terminal(sys.stderr)
    if not console.is_terminal:
        return
    steps = ["violations", "report", "inspect"]
    steps = [*steps, "doubt"] if trained.posterior is not None else steps
    console.print("Next:", *(f"fotltn {step} {project}" for step in steps), sep="\n  ")


def _tell(trained: Model, path: Path, *, as_json: bool) -> None:
    """Print how training ended."""
    from fotltn.cli.display import mixing_text, print_metrics

    if as_json:
        metrics = trained.metrics()
        emit_json(
            {
                "ok": True,
                "model": str(path),
                "method": trained.config.method,
                "chosen": trained.chosen or None,
                "reason": trained.reason,
                "epochs": len(trained.history),
                "best_epoch": trained.best_epoch,
                "posterior": None if trained.posterior is None else trained.posterior.as_dict(),
                "warnings": list(trained.warnings),
                "definitions": {
                    name: {"formula": how.formula, "axioms": list(how.axioms)}
                    for name, how in trained.config.predicates.items()
                    if how.axioms
                },
                "axioms": trained.audit().as_dict() if trained.theory.axioms else None,
                "trust": None if trained.trust is None else dict(trained.trust),
                "metrics": None if metrics is None else metrics.as_dict(),
            }
        )
        return
    for warning in trained.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if trained.posterior is not None:
        print(f"{path}: {trained.reason}, {mixing_text(trained.posterior.mixing)}")
    else:
        best = f"best epoch {trained.best_epoch} of {len(trained.history)}"
        print(f"{path}: {trained.reason}, {best}")
    print_metrics(trained)
    if trained.trust is not None:
        shown = ", ".join(f"{name} {number(factor, 2)}" for name, factor in trained.trust.items())
        print(f"trust in axioms: {shown}")
