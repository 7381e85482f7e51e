"""`fotltn ask`: the value of any formula on a model."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import (
    CrispThreshold,
    Digits,
    Evidence,
    ExactJson,
    Exponent,
    ModelFolder,
    NewHorizon,
    NewTables,
    OtherSemantics,
)
from fotltn.cli.output import emit_json, time_point, warn
from fotltn.cli.values import show_values, value_rows
from fotltn.errors import Diagnostic, warning
from fotltn.semantics.config import check_threshold, named, semantics_of

if TYPE_CHECKING:
    from fotltn.analysis.ask import Answer
    from fotltn.evaluation import Time
    from fotltn.posterior.posterior import Posterior

_FEWEST = 30  # the fewest worlds from which a share is worth reading


class Order(StrEnum):
    """How rows are sorted."""

    NAME = "name"
    HIGHEST = "highest"
    LOWEST = "lowest"


def ask(
    model: ModelFolder,
    formula: Annotated[str, typer.Argument(help="A formula; its free variables become rows.")],
    data: NewTables = None,
    evidence: Evidence = False,
    horizon: NewHorizon = None,
    at: Annotated[
        str,
        typer.Option("--at", help="A time point, a time stamp if the data have them, or 'all'."),
    ] = "0",
    semantics: OtherSemantics = None,
    p: Exponent = None,
    threshold: CrispThreshold = None,
    condition: Annotated[
        str | None,
        typer.Option(
            "--given",
            metavar="FORMULA",
            help="For sampled worlds: only worlds in which this is true at the first point.",
        ),
    ] = None,
    sort: Annotated[
        Order | None,
        typer.Option(
            "--sort", help="The order of rows; by value, each time point has its own row."
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Show only N rows, the highest first.")
    ] = None,
    digits: Digits = 3,
    as_json: ExactJson = False,
) -> None:
    """Ask a model for the value of a formula.

    There is one value for each binding of the free variables. For a model with sampled worlds, the
    value is a probability: the share of worlds in which the formula is true, with a 95 % interval.
    With --semantics or --p, these shares count as degrees instead. Exit status: 0 if there is an
    answer, 1 if the input has errors, 2 for a wrong call.
    """
    other = None if semantics is None else named(semantics)
    asked = asked_model(model, data, horizon, evidence=evidence)
    time = time_point(at, facts=asked.facts)
    meaning = semantics_of(other or asked.semantics, p)
    counted = asked.posterior is not None and other is None and p is None
    check_threshold(threshold, meaning)
    order = sort or (Order.NAME if top is None else Order.HIGHEST)
    point: Time = "all" if time is None else time
    answer = asked.ask(
        formula, at=point, semantics=None if counted else meaning, threshold=threshold,
        condition=condition,
    )  # fmt: skip
    rows = value_rows(formula, answer)
    if order is not Order.NAME:
        rows = [row.at(place) for row in rows for place in range(len(row.values))]
        sign = -1 if order is Order.HIGHEST else 1  # and absent entities come last
        rows.sort(key=lambda row: (row.values[0] is None, sign * (row.values[0] or 0)))
    rows = rows[:top]
    several = len(asked.facts.traces) > 1
    if as_json:
        results = []
        for row in rows:
            value: dict[str, object] = {"value": row.values[0], **row.ends(0)}
            if time is None:
                listed = {"time": row.times[0], **value}
                every = {"values": row.values, **row.ends(None)}
                value = every if order is Order.NAME else listed
            results.append({**row.place(several=several), **value})
        emit_json(
            {
                "ok": True,
                "formula": formula,
                "semantics": "worlds" if counted else meaning.name,
                "at": point,
                "given": condition,
                "worlds": list(answer.worlds) if counted else None,
                "results": results,
                "warnings": list(asked.posterior.warnings) if asked.posterior else [],
            }
        )
        return
    warn(_entities_as_variables(answer))
    if condition is not None:
        warn(_few(answer.worlds, asked.posterior))
    times = None if order is not Order.NAME else answer.times
    show_values(rows, times, several=several, digits=digits)


def _entities_as_variables(answer: Answer) -> Iterator[Diagnostic]:
    """Return a warning for each free variable that is called like an entity."""
    for axis in answer.axes:
        if axis.sort and axis.name in answer.names.entities.get(axis.sort, ()):
            yield warning(
                f"'{axis.name}' is a variable here, and also the name of an entity",
                hint=f'for the entity, write "{axis.name}" with double quotes',
            )


def _few(worlds: tuple[int, ...], posterior: Posterior | None) -> Iterator[Diagnostic]:
    """Return a warning if few worlds obey a condition."""
    fewest = min(worlds, default=0)
    if posterior is not None and fewest < _FEWEST:
        where = " in a trace" if len(worlds) > 1 else ""
        yield warning(
            f"only {fewest} of {posterior.count} sampled worlds obey the condition{where}",
            hint="for narrower intervals, state the condition as a fact, and train again",
        )
