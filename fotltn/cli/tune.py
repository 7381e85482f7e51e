"""`fotltn tune`: a search for the settings of a project."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fotltn.cli.options import Json, ProjectFolder
from fotltn.cli.output import emit_json
from fotltn.cli.tables import add, grid, say, show
from fotltn.format import number

if TYPE_CHECKING:
    from fotltn.project.tune import Trial


def tune(
    project: ProjectFolder,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="KEY=VALUES",
            help="The values of a setting: KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=a,b; "
            "repeatable.",
        ),
    ] = None,
    metric: Annotated[
        Literal["pr_auc", "roc_auc", "accuracy", "log_loss", "brier"],
        typer.Option("--metric", help="The metric to optimise, as a mean over predicates."),
    ] = "pr_auc",
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="The total number of trials.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the search.")] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", min=1, help="The number of trainings at once, each in its own process."
        ),
    ] = 1,
    cluster: Annotated[
        Literal["local", "slurm"] | None,
        typer.Option("--cluster", help="The cluster to run trainings on, through submitit."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over; discard earlier trials.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Search for the settings that predict watched facts best.

    Each trial is a training, judged on the facts that [training] holds back for validation. Test
    facts are never used. Trials are stored in PROJECT/tune.journal: after Ctrl-C, the same command
    continues. The best settings are written to PROJECT/tuned.toml, a project to train. Exit status:
    0 if a trial could be judged, 1 if the input has errors, 2 for a wrong call, 130 if it was
    interrupted.
    """  # fmt: skip
    from fotltn.project.tune import tune as searched

    def tell(count: int, trial: Trial) -> None:
        if as_json:
            return
        which = "as it is" if count < 0 else f"trial {count + 1} of {trials}"
        came = trial.why if trial.value is None else f"{metric} {number(trial.value)}"
        print(f"{which}: {came}{_shown(trial)}", file=sys.stderr)

    tuned = searched(
        project, search or (), metric=metric, trials=trials, seed=seed, jobs=jobs, cluster=cluster,
        fresh=fresh, on_trial=tell,
    )  # fmt: skip
    best = tuned.best
    if as_json:
        emit_json({
            "ok": best is not None, "metric": metric, "before": tuned.before.value,
            "best": None if best is None else {"settings": best.settings, "value": best.value},
            "file": None if tuned.file is None else str(tuned.file),
            "trials": [
                {"settings": t.settings, "value": t.value, "why": t.why} for t in tuned.trials
            ],
        })  # fmt: skip
    elif best is None:
        say("No trial could be judged.")
    else:
        table = grid("setting", "best", left=["setting"])
        for key, value in best.settings.items():
            add(table, key, f"{value:.4g}" if isinstance(value, float) else value)
        show(table)
        say(
            f"{metric} on watched facts: {number(best.value)}; with the project's own "
            f"settings, {number(tuned.before.value)}. The best of {len(tuned.trials)} "
            "trials looks better than it is; score it on test facts, once: fotltn "
            f"train {tuned.file}"
        )
    if best is None:
        raise typer.Exit(1)


def _shown(trial: Trial) -> str:
    shown = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in trial.settings.items()
    )
    return f" ({shown})" if shown else ""
