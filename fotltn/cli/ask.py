"""`fotltn ask`: the value of any formula on a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.output import emit_json, time_point
from fotltn.cli.tables import add, grid, show
from fotltn.format import degree
from fotltn.semantics.config import SEMANTICS, check_threshold, named

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer


class Order(StrEnum):
    """How rows are sorted."""

    NAME = "name"
    HIGHEST = "highest"
    LOWEST = "lowest"


@dataclass(frozen=True, slots=True)
class Row:
    """A formula at one binding in one trace: its values at times."""

    trace: str
    binding: dict[str, str]
    times: list[int]
    values: list[float | bool]


def ask(
    model: Annotated[Path, typer.Argument(help="The folder of a model, or of a project.")],
    formula: Annotated[str, typer.Argument(help="A formula; its free variables become rows.")],
    at: Annotated[str, typer.Option("--at", help="A time point, or 'all'.")] = "0",
    semantics: Annotated[
        str | None,
        typer.Option("--semantics", help=f"Other than the model's: one of {', '.join(SEMANTICS)}."),
    ] = None,
    p: Annotated[
        float | None, typer.Option("--p", help="The exponent of its means, from 1 to inf.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", help="With the crisp semantics: degrees at or above it are true."
        ),
    ] = None,
    sort: Annotated[
        Order | None,
        typer.Option("--sort", help="By value; then each time point is a row of its own."),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only so many rows, the highest first.")
    ] = None,
    digits: Annotated[
        int, typer.Option("--digits", help="Digits after the point.", min=1, max=17)
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all digits.")] = False,
) -> None:
    """Ask a model for the value of a formula.

    There is one for each binding of its free variables. Exit status: 0 if there is an answer, 1 if
    the input has errors, 2 for a wrong call.
    """
    time = time_point(at)
    other = None if semantics is None else named(semantics)
    from fotltn.project.find import find_model

    found = find_model(model)
    meaning = other or found.semantics
    meaning = meaning if p is None else meaning.with_p(p)
    check_threshold(threshold, meaning)
    order = sort or (Order.NAME if top is None else Order.HIGHEST)
    limit = 0.5 if threshold is None else threshold
    answer = found.ask(
        formula, at="all" if time is None else time, semantics=meaning, threshold=limit
    )
    rows = _rows(answer, order)[:top]
    several = len(found.facts.traces) > 1
    if as_json:
        emit_json(
            {
                "ok": True,
                "formula": formula,
                "semantics": meaning.name,
                "at": "all" if time is None else time,
                "results": [_as_dict(row, several, time is None, order) for row in rows],
            }
        )
        return
    _print(formula, rows, several, order, digits)


def _rows(answer: Answer, order: Order) -> list[Row]:
    variables = [axis.name for axis in answer.axes]
    found: list[dict[str, Any]] = list(answer.rows())
    cells = [
        Row(r["trace"], {v: r[v] for v in variables}, [r["time"]], [r["value"]]) for r in found
    ]
    if order is not Order.NAME:
        return sorted(cells, key=lambda row: row.values[0], reverse=order is Order.HIGHEST)
    merged: dict[tuple[str, ...], Row] = {}
    for row in cells:
        whole = merged.setdefault(
            (row.trace, *row.binding.values()), replace(row, times=[], values=[])
        )
        whole.times.extend(row.times)
        whole.values.extend(row.values)
    return list(merged.values())


def _as_dict(row: Row, several: bool, every: bool, order: Order) -> dict[str, object]:
    where: dict[str, object] = {"trace": row.trace} if several else {}
    where |= {"binding": row.binding} if row.binding else {}
    if not every:
        return {**where, "value": row.values[0]}
    if order is Order.NAME:
        return {**where, "values": row.values}
    return {**where, "time": row.times[0], "value": row.values[0]}


def _print(formula: str, rows: list[Row], several: bool, order: Order, digits: int) -> None:
    bound = list(rows[0].binding) if rows else []
    words = ["formula", *(["trace"] if several else []), *bound]
    listed = order is not Order.NAME
    times = [] if listed else sorted({t for row in rows for t in row.times})
    heads = ["time", "value"] if listed else [f"t={t}" for t in times]
    table = grid(*words, *heads, left=words[1:], fold=["formula"])
    for row in rows:
        cells = [degree(v, digits) for v in row.values]
        if listed:
            cells = [str(row.times[0]), *cells]
        where = [row.trace] if several else []
        add(
            table, formula, *where, *row.binding.values(), *cells, *[""] * (len(heads) - len(cells))
        )
    show(table)
