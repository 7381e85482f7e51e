"""`fotltn predict`: a model's predictions as a table of facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import Evidence, ModelFolder, NewHorizon, NewTables
from fotltn.cli.output import emit_json, emit_text


def predict(
    model: ModelFolder,
    data: NewTables = None,
    evidence: Evidence = False,
    horizon: NewHorizon = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file: .csv, .tsv or .parquet. It is replaced."),
    ] = None,
    predicate: Annotated[
        list[str] | None,
        typer.Option("--predicate", help="Only this predicate; repeatable."),
    ] = None,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide", help="Write 1 and 0 instead of degrees, by the model's thresholds."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the rows, or with -o a summary.")
    ] = False,
) -> None:
    """Write the degree of every learned fact, one fact per row.

    With --data, the facts are about entities, traces and times that training did not see. The table
    can be read again as facts. Without -o, it goes to standard output as CSV. Exit status: 0 if it
    was written, 1 if the input has errors, 2 for a wrong call.
    """
    from fotltn.analysis.predictions import write_table

    table = asked_model(model, data, horizon, evidence=evidence).predictions(
        predicate or None, decide=decide
    )
    if output is not None:
        write_table(table, output)
        if as_json:
            emit_json({"ok": True, "file": str(output), "rows": table.num_rows})
        else:
            print(f"{output}: {table.num_rows:,} rows")
        return
    if as_json:
        emit_json({"ok": True, "predictions": table.to_pylist()})
        return
    import pyarrow as pa
    import pyarrow.csv as csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    emit_text(sink.getvalue().to_pybytes().decode())
