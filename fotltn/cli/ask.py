"""`fotltn ask`: the value of any formula on a model."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import (
    At,
    CrispThreshold,
    Digits,
    ExactJson,
    Exponent,
    ModelFolder,
    NewHorizon,
    NewTables,
    OtherSemantics,
)
from fotltn.cli.output import asked_model, emit_json, time_point
from fotltn.cli.values import show_values, value_rows
from fotltn.semantics.config import check_threshold, named, semantics_of

if TYPE_CHECKING:
    from fotltn.evaluation import Time


class Order(StrEnum):
    """How rows are sorted."""

    NAME = "name"
    HIGHEST = "highest"
    LOWEST = "lowest"


def ask(
    model: ModelFolder,
    formula: Annotated[str, typer.Argument(help="A formula; its free variables become rows.")],
    data: NewTables = None,
    horizon: NewHorizon = None,
    at: At = "0",
    semantics: OtherSemantics = None,
    p: Exponent = None,
    threshold: CrispThreshold = None,
    sort: Annotated[
        Order | None,
        typer.Option("--sort", help="By value; then each time point is a row of its own."),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only so many rows, the highest first.")
    ] = None,
    digits: Digits = 3,
    as_json: ExactJson = False,
) -> None:
    """Ask a model for the value of a formula.

    There is one for each binding of its free variables. Exit status: 0 if there is an answer, 1 if
    the input has errors, 2 for a wrong call.
    """
    time = time_point(at)
    other = None if semantics is None else named(semantics)
    asked = asked_model(model, data, horizon)
    meaning = semantics_of(other or asked.semantics, p)
    check_threshold(threshold, meaning)
    order = sort or (Order.NAME if top is None else Order.HIGHEST)
    point: Time = "all" if time is None else time
    limit = 0.5 if threshold is None else threshold
    answer = asked.ask(formula, at=point, semantics=meaning, threshold=limit)
    rows = value_rows(formula, answer)
    if order is not Order.NAME:
        rows = [
            replace(row, times=[t], values=[v])
            for row in rows
            for t, v in zip(row.times, row.values, strict=False)
        ]
        rows.sort(key=lambda row: row.values[0] or 0, reverse=order is Order.HIGHEST)
    rows = rows[:top]
    several = len(asked.facts.traces) > 1
    if as_json:
        results = []
        for row in rows:
            value: dict[str, object] = {"value": row.values[0]}
            if time is None:
                listed = {"time": row.times[0], **value}
                value = {"values": row.values} if order is Order.NAME else listed
            results.append({**row.place(several=several), **value})
        emit_json(
            {
                "ok": True,
                "formula": formula,
                "semantics": meaning.name,
                "at": point,
                "results": results,
            }
        )
        return
    times = None if order is not Order.NAME else answer.times
    show_values(rows, times, several=several, digits=digits)
