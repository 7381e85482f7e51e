"""`fotltn predict`: a model's predictions as a table of facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.asked import asked_blocks, asked_model, refuse_evidence
from fotltn.cli.options import Evidence, ModelFolder, NewHorizon, NewTables
from fotltn.cli.output import emit_json, emit_text
from fotltn.sharing import is_first

if TYPE_CHECKING:
    import pyarrow as pa


def predict(
    model: ModelFolder,
    data: NewTables = None,
    evidence: Evidence = False,
    horizon: NewHorizon = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write or replace: .csv, .tsv or .parquet."
        ),
    ] = None,
    predicate: Annotated[
        list[str] | None,
        typer.Option("--predicate", metavar="<str>", help="Only this predicate; repeatable."),
    ] = None,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide", help="Write 1 and 0 instead of degrees, by the model's thresholds."
        ),
    ] = False,
    wide: Annotated[
        bool,
        typer.Option(
            "--wide", help="A row for each binding and time, and a column for each predicate."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the rows, or with -o a summary.")
    ] = False,
) -> None:
    """Write the degree of every learned fact, one fact per row.

    With --data, the facts are about entities, traces and times that training did not see. The table
    can be read again as facts; with --wide, as a wide table. Without -o, it goes to standard output
    as CSV. Exit status: 0 if it was written, 1 if the input has errors, 2 for a wrong call.
    """
    tables = _tables(model, data, horizon, evidence, predicate or None, decide, wide)
    if output is not None:
        from fotltn.analysis.predictions import write_table

        written = write_table(tables, output) if is_first() else sum(t.num_rows for t in tables)
        if as_json:
            emit_json({"ok": True, "file": str(output), "rows": written})
        else:
            print(f"{output}: {written:,} rows")
        return
    if as_json:
        rows = [row for table in tables for row in table.to_pylist()]
        emit_json({"ok": True, "predictions": rows})
        return
    import pyarrow as pa
    import pyarrow.csv as csv

    for number, table in enumerate(tables):
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=number == 0))
        emit_text(sink.getvalue().to_pybytes().decode())


def _tables(
    model: Path,
    data: list[Path] | None,
    horizon: int | None,
    evidence: bool,
    predicates: list[str] | None,
    decide: bool,
    wide: bool,
) -> Iterator[pa.Table]:
    """Yield the rows, one block of prepared data after another, or all at once."""
    blocks = None if horizon else asked_blocks(model, data)
    if blocks is None:
        asked = asked_model(model, data, horizon, evidence=evidence)
        yield asked.predictions(predicates, decide=decide, wide=wide)
        return
    refuse_evidence(evidence)
    yield from blocks.predictions(predicates, decide=decide, wide=wide)
