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
from fotltn.logic.check import CheckedFormula, CheckedTheory, check_formula
from fotltn.logic.check import check as check_theory
from fotltn.semantics.config import check_threshold, only_p, semantics_of
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula

if TYPE_CHECKING:
    from fotltn.analysis.view import View
    from fotltn.evaluation import Time
    from fotltn.semantics.tables import Tables


def evaluate(
    theory: TheoryFile,
    facts: FactFiles,
    formula: Annotated[
        list[str] | None,
        typer.Option(
            "--formula",
            metavar="<str>",
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
            help="The time points of every trace; by default, a trace ends with its last fact.",
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

    A fact that no row states is false. Exit status: 0 if everything could be evaluated, 1 if the
    input has errors, 2 for a wrong call.
    """
    meaning = semantics_of(semantics, p)
    check_threshold(threshold, meaning)
    checked = check_theory(load_theory(theory))
    goals = _goals(checked, formula or [])
    time, room = time_point(at), as_bytes(budget)
    from fotltn.analysis.view import stated_view
    from fotltn.cli.terminal import following
    from fotltn.grounding.clock import clock_of
    from fotltn.project.blocked import facts_on_disk, is_prepared

    clock = clock_of(step, origin, timezone)

    def rows_of(view: View) -> list[list[ValueRow]]:
        if meaning.boolean and threshold is None:
            _refuse_degrees(view, goals)
        with following("formulas", quiet=as_json):
            return _rows(view, goals, time)

    def of_block(view: View, _: Tables) -> tuple[list[list[ValueRow]], int]:
        return rows_of(view), view.tables.horizon

    if any(map(is_prepared, facts)):
        if len(facts) > 1 or horizon is not None:
            raise DataError("prepared data come alone, without --horizon")
        on_disk = facts_on_disk(checked, facts[0], clock)
        read = on_disk.under(semantics=meaning, threshold=threshold, budget=room)
        told = read.each("values", of_block)
        _check_time(time, max(points for _, points in told))
        blocks, several, odd = [some for some, _ in told], on_disk.total > 1, on_disk.how.warnings
    else:
        view = stated_view(checked, facts, horizon=horizon, clock=clock)
        view = view.under(semantics=meaning, threshold=threshold, budget=room)
        _check_time(time, view.tables.horizon)
        blocks, several, odd = [rows_of(view)], view.tables.batch > 1, view.warnings
    rows = [row for of_goal in zip(*blocks, strict=True) for some in of_goal for row in some]
    # Formulas may use symbols that no axiom uses, so "not used" would mislead.
    warnings = (*(() if formula else checked.warnings), *odd)
    if as_json:
        emit_json(
            {
                "ok": True,
                "semantics": meaning.name,
                "p": "inf" if only_p(meaning) == float("inf") else only_p(meaning),
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


def _check_time(time: int | None, horizon: int) -> None:
    if time is not None and time >= horizon:
        raise DataError(f"the time point {time} does not exist: there are 0 to {horizon - 1}")


def _goals(theory: CheckedTheory, texts: list[str]) -> list[tuple[str, CheckedFormula]]:
    """Return the formulas to evaluate, with names: the axioms, or the given formulas."""
    signature = theory.signature
    if not texts:
        return [(a.name, CheckedFormula(a.formula, (), signature)) for a in theory.axioms]
    return [
        (text, check_formula(parse_formula(text, source="--formula"), signature)) for text in texts
    ]


def _refuse_degrees(view: View, goals: list[tuple[str, CheckedFormula]]) -> None:
    """Raise an error for facts that are neither true nor false, if there is no threshold."""
    from fotltn.logic.parts import predicates_in
    from fotltn.semantics.crisp import true
    from fotltn.semantics.sparse import SparseTable

    for name in sorted(predicates_in(*(goal.formula for _, goal in goals))):
        table = view.tables.table(name)
        true(name, table.value if isinstance(table, SparseTable) else table, None)


def _rows(
    view: View, goals: list[tuple[str, CheckedFormula]], time: int | None
) -> list[list[ValueRow]]:
    """Yield the values of each goal, except in traces that end before the requested time."""
    from fotltn.analysis.ask import answers

    tables, rows = view.tables, []
    at: Time = "all"
    if time is not None:  # with blocks on disk, another block may have longer traces
        at = time if time < tables.horizon else 0
    every = answers(view, dict(goals), at=at)
    full = (tables.horizon,) * tables.batch
    ended = set()
    if time is not None:
        ended = {tables.names.trace(n) for n in range(tables.batch) if time >= tables.length(n)}
    for name, _ in goals:
        answer = every[name] if time is None else replace(every[name], lengths=full)
        rows.append([
            replace(row, times=[time or 0], values=[None]) if row.trace in ended else row
            for row in value_rows(name, answer)
        ])  # fmt: skip
    return rows
