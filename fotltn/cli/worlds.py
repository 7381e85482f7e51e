"""`fotltn worlds`: sampled worlds as tables of facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import Evidence, Json, ModelFolder, NewTables
from fotltn.cli.output import emit_json


def worlds(
    model: ModelFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the tables.")],
    data: NewTables = None,
    evidence: Evidence = False,
    number: Annotated[
        int, typer.Option("--number", min=1, help="The number of worlds to write.")
    ] = 10,
    most_probable: Annotated[
        bool,
        typer.Option("--most-probable", help="Write the most probable world, and no other."),
    ] = False,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write Parquet files instead of CSV.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write sampled worlds as tables of facts, one file per world.

    Each row says whether a learned fact is true in that world; the tables can be read again as
    facts. The worlds are the last ones of different chains. The most probable world is not one of
    them: it is found by making sampled worlds more probable, track by track, until no track can
    do better. Files of the same names are replaced.
    Exit status: 0 if they are written, 1 if the input has errors or the model has no worlds, 2 for
    a wrong call.
    """
    from fotltn.analysis.predictions import predictions, write_tables
    from fotltn.errors import DataError
    from fotltn.project.sampled import no_worlds

    posterior = asked_model(model, data, evidence=evidence).posterior
    if posterior is None:
        raise no_worlds("this command writes sampled worlds", None)
    if number > posterior.count and not most_probable:
        raise DataError(f"there are {posterior.count} worlds, not {number}")
    last = posterior.count - 1
    kind = "parquet" if parquet else "csv"
    files: dict[int | Literal["best"], Path] = {"best": out / f"world-best.{kind}"}
    if not most_probable:
        files = {n: out / f"world-{n:04d}.{kind}" for n in range(last, last - number, -1)}
    tables = {files[n]: predictions(posterior.world(n), posterior.learned) for n in files}
    write_tables(tables)
    rows = next(iter(tables.values())).num_rows
    if as_json:
        density: dict[int | Literal["best"], float]
        density = {"best": posterior.best_density, **dict(enumerate(posterior.density.tolist()))}
        listed = [
            {"number": n, "file": str(file), "log_density": density[n]} for n, file in files.items()
        ]
        emit_json({"ok": True, "model": str(model), "rows": rows, "worlds": listed})
        return
    for file in files.values():
        print(f"{file}: {rows:,} rows")
