"""Arguments and options that several commands share, as types of their parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fotltn.analysis.truncation import End
from fotltn.errors import FotError
from fotltn.semantics.config import SEMANTICS
from fotltn.syntax.load import load_theory

_ONE_OF = f"ne of {', '.join(SEMANTICS)}."


def axiom_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the axioms of the named project or model, for completion in a shell."""
    try:
        theory = load_theory(Path(ctx.params["model"]) / "theory.fot")
    except FotError:
        return []  # a shell that completes shows no errors
    return [axiom.name for axiom in theory.axioms if axiom.name.startswith(incomplete)]


TheoryFile = Annotated[Path, typer.Argument(help="A theory file (.fot).")]
ProjectFolder = Annotated[Path, typer.Argument(help="A folder with a project.toml, or that file.")]
ModelFolder = Annotated[Path, typer.Argument(help="The folder of a model, or of a project.")]

FactFiles = Annotated[
    list[Path],
    typer.Option("--facts", metavar="<path>", help="CSV or Parquet files of facts; repeatable."),
]
Step = Annotated[
    str | None,
    typer.Option(
        "--step", help="For facts with time stamps: the length of a step, such as 1h or 15min."
    ),
]
Origin = Annotated[
    str | None,
    typer.Option("--origin", help="With --step: when the first step of all traces begins."),
]
Timezone = Annotated[
    str | None,
    typer.Option(
        "--timezone", help="With --step: the zone of times that name none, such as Europe/Berlin."
    ),
]
ClockOption = Annotated[
    str | None,
    typer.Option(
        "--clock",
        help="With --step: each trace begins at its own step 0 (own), or all have one origin "
        "(shared). Without --step: the times of a trace are its steps (events).  [default: own]",
    ),
]
StepsFile = Annotated[
    Path | None, typer.Option("--input", help="A file of steps; by default, standard input.")
]
OtherFolder = Annotated[
    Path | None, typer.Option("--data", help="Another folder with the project's tables.")
]
SemanticsName = Annotated[str, typer.Option("--semantics", help=f"O{_ONE_OF}")]
OtherSemantics = Annotated[
    str | None, typer.Option("--semantics", help=f"Instead of the model's: o{_ONE_OF}")
]
Exponent = Annotated[
    float | None, typer.Option("--p", help="The exponent of its means, from 1 to inf.")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", help="The smallest degree that counts as true.  [default: the model's, 0.5]"
    ),
]
CrispThreshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", help="With the crisp semantics: the smallest degree that counts as true."
    ),
]
TraceEnd = Annotated[
    End | None,
    typer.Option(
        "--end",
        help="How to treat cells that fail only because their trace ends: as "
        "undecided, or (final) as violations.",
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option("--horizon", min=1, help="The number of steps of the trace, if it is known."),
]
At = Annotated[str, typer.Option("--at", help="A time point, or 'all'.")]
Budget = Annotated[str, typer.Option("--budget", help="Memory for intermediate results: 4G, 500M.")]
Digits = Annotated[int, typer.Option("--digits", help="Digits after the point.", min=1, max=17)]
NewTables = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="<path>",
        help="New data for the model: a folder with its tables, or files; repeatable.",
    ),
]
Evidence = Annotated[
    bool,
    typer.Option(
        "--evidence", help="For sampled worlds: labels in --data are evidence, not tests."
    ),
]
NewHorizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", min=1, help="The time points of every trace of --data, or of the project."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ExactJson = Annotated[bool, typer.Option("--json", help="Print JSON, with all digits.")]
