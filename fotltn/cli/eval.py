"""`fotltn eval`: the truth of axioms and formulas on a table of facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import (
    At,
    Budget,
    CrispThreshold,
    Digits,
    ExactJson,
    Exponent,
    FactFiles,
    Origin,
    SemanticsName,
    Step,
    TheoryFile,
    Timezone,
)
from fotltn.cli.output import as_bytes, emit_json, time_point, warn
from fotltn.cli.values import ValueRow, show_values, value_rows
from fotltn.errors import DataError
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.logic.check import check as check_theory
from fotltn.semantics.config import PMean, Semantics, check_threshold, semantics_of
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula

if TYPE_CHECKING:
    from fotltn.grounding.facts import Facts
    from fotltn.logic import core as c
    from fotltn.semantics.tables import Tables


def evaluate(
    theory: TheoryFile,
    facts: FactFiles,
    formula: Annotated[
        list[str] | None,
        typer.Option(
            "--formula",
            help="A formula instead of the axioms; its free variables become rows. Repeatable.",
        ),
    ] = None,
    semantics: SemanticsName = "stable-product",
    p: Exponent = None,
    at: At = "0",
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            help="Time points of every trace; without it, a trace ends with its last fact.",
        ),
    ] = None,
    step: Step = None,
    origin: Origin = None,
    timezone: Timezone = None,
    threshold: CrispThreshold = None,
    budget: Budget = "4G",
    digits: Digits = 3,
    as_json: ExactJson = False,
) -> None:
    """Evaluate a theory's axioms, or other formulas, on facts.

    What no fact states is false. Exit status: 0 if everything could be evaluated, 1 if the input
    has errors, 2 for a wrong call.
    """
    meaning = semantics_of(semantics, p)
    check_threshold(threshold, meaning)
    checked = check_theory(load_theory(theory))
    goals = _goals(checked, formula or [])
    time = time_point(at)
    room = as_bytes(budget)
    from fotltn.data import stated
    from fotltn.grounding.clock import clock_of

    clock = clock_of(step, origin, timezone)
    table, tables = stated(checked, facts, horizon=horizon, clock=clock)
    longest, several = max(table.lengths), len(table.traces) > 1
    if time is not None and time >= longest:
        raise DataError(f"the time point {time} does not exist: there are 0 to {longest - 1}")
    rows = _rows(goals, tables, table, meaning, time, threshold, room)
    # Formulas may well use what no axiom uses, so that "not used" would mislead.
    warnings = (*(() if formula else checked.warnings), *table.warnings)
    if as_json:
        emit_json(
            {
                "ok": True,
                "semantics": meaning.name,
                "p": _exponent(meaning),
                "at": "all" if time is None else time,
                "results": [
                    {"formula": row.formula, **row.place(several=several),
                     **({"values": row.values} if time is None else {"value": row.values[0]})}
                    for row in rows
                ],
                "diagnostics": [w.as_dict() for w in warnings],
            }
        )  # fmt: skip
        return
    warn(warnings)
    times = range(max((len(row.values) for row in rows), default=0)) if time is None else [time]
    show_values(rows, times, several=several, digits=digits)


def _goals(
    checked: CheckedTheory, texts: list[str]
) -> list[tuple[str, c.Formula, tuple[c.Axis, ...]]]:
    if not texts:
        return [(a.name, a.formula, ()) for a in checked.axioms]
    goals = []
    for text in texts:
        goal = check_formula(parse_formula(text, source="--formula"), checked.signature)
        goals.append((text, goal.formula, goal.free))
    return goals


def _exponent(semantics: Semantics) -> float | str | None:
    """The exponent of all means, if there is one; JSON has no infinity, so that is a word."""
    exponents = {a.p for a in semantics.aggregations if isinstance(a, PMean)}
    if len(exponents) != 1 or semantics.boolean:
        return None
    (p,) = exponents
    return "inf" if p == float("inf") else p


def _rows(
    goals: list[tuple[str, c.Formula, tuple[c.Axis, ...]]],
    tables: Tables,
    facts: Facts,
    semantics: Semantics,
    time: int | None,
    threshold: float | None,
    budget: int,
) -> list[ValueRow]:
    """The values of all goals; none where a trace has ended before the time that is asked for."""
    from fotltn.analysis.ask import Answer
    from fotltn.evaluation import evaluate_all, present

    values = evaluate_all(
        {name: core for name, core, _ in goals}, tables, semantics, at=time, threshold=threshold,
        budget=budget,
    )  # fmt: skip
    rows: list[ValueRow] = []
    for name, _, free in goals:
        tensor = present(values[name], free, tables, at="all", batched=True)
        times, lengths = tuple(range(tables.horizon)), facts.lengths
        if time is not None:
            times, lengths = (time,), (tables.horizon,) * tables.batch
            tensor = tensor[..., time : time + 1]
        rows += value_rows(name, Answer(name, free, tensor, times, lengths, tables.names))
    if time is None:
        return rows
    ended = {name for name, n in zip(facts.traces, facts.lengths, strict=True) if time >= n}
    return [replace(row, values=[None]) if row.trace in ended else row for row in rows]
