"""`fotltn worth`: measure the worth of each axiom on labels that are held back."""

from __future__ import annotations

from typing import Annotated

import typer

from fotltn.cli.options import Json, ProjectFolder
from fotltn.cli.output import emit_json, warn
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import warning
from fotltn.format import count, number


def worth(
    project: ProjectFolder,
    axiom: Annotated[
        list[str] | None,
        typer.Option("--axiom", metavar="<str>", help="Only this axiom; repeatable."),
    ] = None,
    folds: Annotated[
        int,
        typer.Option(
            "--folds", min=2, help="The number of parts of the labels; each part is held back once."
        ),
    ] = 5,
    as_json: Json = False,
) -> None:
    """Measure how much each axiom helps to predict held-back labels.

    Each part of the labels is held back once. Worlds are sampled from the other labels, with all
    axioms and without each axiom in turn. The worth of an axiom is what it adds to the
    log-likelihood of the held-back labels: 1 makes them e times as likely. The project samples as
    with method = "posterior". Exit status: 0 if it could be measured, 1 if the input has errors, 2
    for a wrong call.
    """
    from dataclasses import replace

    from fotltn.cli.terminal import bar
    from fotltn.posterior.worth import worth as measure
    from fotltn.project.build import build
    from fotltn.project.config import read_config
    from fotltn.project.problem import problem_of

    built = build(replace(read_config(project), method="posterior"))
    problem = problem_of(built)
    with bar("samplings", quiet=as_json) as moved:
        measured = measure(
            problem, axiom or None, folds=folds, report=lambda told: moved(told.done, told.of)
        )
    labels = problem.labels.total
    if as_json:
        rows = [one.as_dict() for one in measured]
        emit_json({"ok": True, "project": str(project), "labels": labels, "axioms": rows})
        return
    table = grid("axiom", "worth", "95 %", "a label", left=["axiom"])
    for one in measured:
        if one.problem is None:
            ends = f"{number(one.low, 1)} to {number(one.high, 1)}"
            add(table, one.axiom, number(one.gain, 1), ends, number(one.by_label))
        else:
            add(table, one.axiom, "–", one.problem, "–")
    show(table)
    say(f"What each adds to the log-likelihood of {count(labels)} labels, held back in parts.")
    if apart := [one for one in measured if one.problem is None and not one.agree]:
        names = ", ".join(f"{one.axiom} (R-hat {number(one.r_hat)})" for one in apart)
        message = f"chains do not agree in what was sampled for {names}: its worth may be chance"
        hint = "larger `sweeps` and `burn_in` in [posterior] may help"
        warn([warning(message, hint=hint)])
    if built.task.grounding.sensors is not None:
        say("Networks over features are left out: they would have to be trained for each part.")
