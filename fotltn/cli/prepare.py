"""`fotltn prepare`: write tables in blocks of traces, for data that do not fit into memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fotltn.cli.options import Json, OtherFolder, ProjectFolder
from fotltn.cli.output import as_bytes, emit_json, warn
from fotltn.cli.terminal import Pace
from fotltn.format import size


def prepare(
    project: ProjectFolder,
    out: Annotated[
        Path | None,
        typer.Argument(
            help="The folder for the blocks; by default, the one that `prepared` in [data] names."
        ),
    ] = None,
    data: OtherFolder = None,
    traces: Annotated[
        int | None,
        typer.Option(
            "--traces",
            min=1,
            help="The number of traces in a block.  [default: those of a step, 32]",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", help="The memory that the command may use: 4G.")
    ] = "4G",
    as_json: Json = False,
) -> None:
    """Write a project's data in blocks, for training from disk.

    Tables are read part by part, and each block is checked as training would check it. The folder
    is complete in the end, or does not appear; earlier prepared data are replaced. Training reads
    the folder if the project names it: prepared = "FOLDER" in [data]. Exit status: 0 if it is
    written, 1 if the input has errors, 2 for a wrong call, 130 if it was interrupted.
    """
    from fotltn.project.config import read_config
    from fotltn.project.prepare import prepare as prepare_project

    config = read_config(project, data=data)
    pace = Pace()

    def tell(what: str, done: int, total: int | None) -> None:
        if not as_json and pace.due():
            print(f"{done:,}{'' if total is None else f' of {total:,}'} {what}", file=sys.stderr)

    made = prepare_project(
        config, out or config.prepared_path(), traces=traces, budget=as_bytes(budget), tell=tell
    )
    if as_json:
        emit_json(
            {
                "ok": True, "project": str(project), "folder": str(made.folder),
                "blocks": made.blocks, "traces": made.traces, "rows": made.rows,
                "facts": made.facts, "bytes": made.size,
                "warnings": [w.message for w in made.warnings],
            }
        )  # fmt: skip
        return
    warn(made.warnings)
    print(
        f"{made.folder}: {made.blocks:,} blocks of {made.traces:,} traces, {made.facts:,} facts, "
        f"{size(made.size)}"
    )
    if config.data.prepared is None:
        print(f'Next: prepared = "{made.folder.name}" in [data], then fotltn train {project}')
