"""`fotltn doubt`: which labels are probably wrong, and the evidence against them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import Json, ModelFolder
from fotltn.cli.output import emit_json
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import DataError, name_hint
from fotltn.format import count, degree, number

if TYPE_CHECKING:
    from fotltn.posterior.doubts import Doubt
    from fotltn.semantics.tables import Tables


def doubt(
    model: ModelFolder,
    top: Annotated[int, typer.Option("--top", min=1, help="The number of labels to show.")] = 10,
    predicate: Annotated[
        list[str] | None,
        typer.Option(
            "--predicate", metavar="<str>", help="Only labels of this predicate; repeatable."
        ),
    ] = None,
    above: Annotated[
        float,
        typer.Option(
            "--above",
            min=0,
            max=1,
            help="Only labels that are wrong with at least this probability.",
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file for all labels: .csv, .tsv or .parquet."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which labels are probably wrong, and the evidence.

    For each label, a model with sampled worlds gives the probability that the label is wrong: by
    all labels and axioms, and by all other labels. It also lists axioms that the label breaks,
    other labels that would be wrong, and nearby labels that say the opposite. Exit status: 0 if
    there is an answer, 1 if the input has errors or the model has no worlds, 2 for a wrong call.
    """
    asked = asked_model(model, None)
    doubts = asked.doubts()
    labelled = [n for n, truth in asked.world.labels.truth.items() if len(truth)]
    for name in predicate or ():
        if name not in labelled:
            raise DataError(f"'{name}' has no labels; {name_hint(name, labelled)}")
    flagged = takewhile(lambda one: one.wrong >= above, doubts)
    chosen: Iterator[Doubt] = (
        one for one in flagged if not predicate or one.predicate in predicate
    )
    if output is not None:
        from fotltn.analysis.predictions import write_table

        every = list(chosen)
        write_table(_table(every, asked.tables), output)
        chosen = iter(every)
    some = list(islice(chosen, top))
    against = doubts.all_against(some)
    if as_json:
        rows = [
            {**one.as_dict(), "trace": asked.tables.names.trace(one.trace), "against": o.as_dict()}
            for one, o in zip(some, against, strict=True)
        ]
        counts = {"labels": len(doubts), "expected_wrong": doubts.expected()}
        file = None if output is None else str(output)
        warnings = list(asked.posterior.warnings) if asked.posterior else []
        told = {"file": file, "doubts": rows, "warnings": warnings}
        emit_json({"ok": True, "model": str(model), **counts, **told})
        return
    several, clock = len(asked.facts.traces) > 1, asked.facts.timeline
    more = [*(["trace"] if several else []), *(["when"] if clock is not None else [])]
    when = asked.tables.names.when
    heads = ["wrong", "by others", "label", *more, "against"]
    table = grid(*heads, left=["label", *more, "against"], fold=["label", "against"])
    for one, objections in zip(some, against, strict=True):
        place = [asked.tables.names.trace(one.trace)] if several else []
        if clock is not None:
            place.append("" if one.time is None else when(one.trace, one.time) or "")
        words = "; ".join(objections.words)
        add(table, degree(one.wrong), degree(one.others), str(one), *place, words)
    if some:
        show(table)
    wrong = number(doubts.expected(), 1)
    say(f"{count(len(doubts))} labels, of which {wrong} are expected to be wrong.")
    if output is not None:
        print(f"{output}: {count(len(every))} rows")


def _table(doubts: list[Doubt], tables: Tables) -> Any:
    """Return labels as a table of facts, with the probability that each is wrong."""
    import pyarrow as pa

    declared, names = tables.signature.predicates, tables.names
    width = max((len(one.arguments) for one in doubts), default=0)
    columns: dict[str, list[object]] = {"predicate": [one.predicate for one in doubts]}
    for place in range(width):
        columns[f"arg{place + 1}"] = [
            names.entity(declared[one.predicate].sorts[place], one.trace, one.arguments[place])
            if place < len(one.arguments)
            else None
            for one in doubts
        ]
    columns["time"] = [one.time for one in doubts]
    if names.clock is not None:
        columns["timestamp"] = [
            None if one.time is None else names.when(one.trace, one.time) for one in doubts
        ]
    if tables.batch > 1:
        columns["trace"] = [names.trace(one.trace) for one in doubts]
    columns["truth"] = [int(one.says) for one in doubts]
    columns["wrong"] = [one.wrong for one in doubts]
    columns["wrong_by_others"] = [one.others for one in doubts]
    return pa.table(columns)
