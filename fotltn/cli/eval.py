"""`fotltn eval`: the truth of axioms and formulas on a table of facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from fotltn.cli.options import (
    At,
    Budget,
    ClockOption,
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
from fotltn.cli.tables import say
from fotltn.cli.values import TrueCells, ValueRow, show_values, value_rows
from fotltn.errors import DataError, LimitError
from fotltn.logic.check import CheckedFormula, CheckedTheory, check_formula
from fotltn.logic.check import check as check_theory
from fotltn.semantics.config import check_threshold, only_p, semantics_of
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula

if TYPE_CHECKING:
    from fotltn.analysis.view import View
    from fotltn.evaluation import Time
    from fotltn.semantics.config import Semantics
    from fotltn.semantics.tables import Tables

_TRUE_CELLS = (
    "True cells: the bindings and times at which a formula is true, where {}. "
    "Share: of all its cells."
)
#: More cells than these are not counted, which would take longer than the values.
_MOST_CELLS = 10**8
_UNCOUNTED = (
    "Not counted: more than 100 million cells, or too many for --budget; fotltn rules counts them, "
    "too."
)
_OVERALL = "Trace (all): all traces together, as forall would take them."


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
    clock: ClockOption = None,
    threshold: CrispThreshold = None,
    budget: Budget = "4G",
    digits: Digits = 3,
    as_json: ExactJson = False,
) -> None:
    """Evaluate a theory's axioms, or other formulas, on facts.

    A fact that no row states is false. At time 0, the cells (bindings and times) at which a
    formula without free variables is true are counted, too, with degrees of at least 0.5 as true.
    Exit status: 0 if everything could be evaluated, 1 if the input has errors, 2 for a wrong call.
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

    timing = clock_of(step, origin, timezone, clock)

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
        on_disk = facts_on_disk(checked, facts[0], timing)
        read = on_disk.under(semantics=meaning, threshold=threshold, budget=room)
        told = read.each("values", of_block)
        _check_time(time, max(points for _, points in told))
        blocks, several, odd = [some for some, _ in told], on_disk.total > 1, on_disk.how.warnings
        rule = read.rule
    else:
        view = stated_view(checked, facts, horizon=horizon, clock=timing)
        view = view.under(semantics=meaning, threshold=threshold, budget=room)
        _check_time(time, view.tables.horizon)
        blocks, several, odd = [rows_of(view)], view.tables.batch > 1, view.warnings
        rule = view.rule
    by_goal = [[row for some in of_goal for row in some] for of_goal in zip(*blocks, strict=True)]
    rows = [row for of_goal in by_goal for row in of_goal]
    closed = [of_goal for (_, goal), of_goal in zip(goals, by_goal, strict=True) if not goal.free]
    overall = [_overall(of_goal, meaning) for of_goal in closed]
    if as_json:
        emit_json(
            {
                "ok": True,
                "semantics": meaning.name,
                "p": "inf" if only_p(meaning) == float("inf") else only_p(meaning),
                "at": "all" if time is None else time,
                "results": [_as_dict(row, time, several=several) for row in rows],
                "overall": [_as_dict(row, time, several=False) for row in overall],
                "diagnostics": [w.as_dict() for w in odd],
            }
        )
        return
    warn(odd)
    times = range(max((len(row.values) for row in rows), default=0)) if time is None else [time]
    last = overall if several else []
    show_values(rows, times, several=several, digits=digits, overall=last)
    legend = [_TRUE_CELLS.format(rule)] if any(row.true for row in rows) else []
    legend += [_UNCOUNTED] if legend and not all(row.true for row in overall) else []
    legend += [_OVERALL] if last else []
    if legend:
        print()
        say(*legend)


def _as_dict(row: ValueRow, time: int | None, *, several: bool) -> dict[str, object]:
    """Return a row as data."""
    values = {"values": row.values} if time is None else {"value": row.values[0]}
    cells: dict[str, object] = {}
    if row.true is not None:
        cells = {"cells": row.true.cells, "true_cells": row.true.true, "share": row.true.share}
    return {"formula": row.formula, **row.place(several=several), **values, **cells}


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
    """Return the values of each goal, except in traces that end before the requested time."""
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
    for name, goal in goals:
        answer = every[name] if time is None else replace(every[name], lengths=full)
        of_goal = [
            replace(row, times=[time or 0], values=[math.nan]) if row.trace in ended else row
            for row in value_rows(name, answer)
        ]
        if time == 0 and not goal.free:
            counted = zip(of_goal, _true_cells(view, name, goal), strict=True)
            of_goal = [replace(row, true=true) for row, true in counted]
        rows.append(of_goal)
    return rows


def _true_cells(view: View, name: str, goal: CheckedFormula) -> Sequence[TrueCells | None]:
    """Count for each trace where a formula is true; the ends of traces are final, as in values."""
    cells = replace(view.under(end="final").cells(goal), name=name)
    if cells.rows * view.tables.horizon > _MOST_CELLS:
        return [None] * view.tables.batch
    try:
        counts = cells.counts()
    except LimitError:
        return [None] * view.tables.batch
    each = zip(counts.true.tolist(), counts.decided.tolist(), strict=True)
    return [TrueCells(int(true), int(every)) for true, every in each]


def _overall(rows: Sequence[ValueRow], semantics: Semantics) -> ValueRow:
    """Join the rows of a formula without free variables: all traces together, as by ∀."""
    import torch

    from fotltn.evaluation import over_traces

    values: list[float | bool | None] = []
    for place in range(max(len(row.values) for row in rows)):
        here = [row.values[place] for row in rows if place < len(row.values)]
        degrees = [u for u in here if u is not None and not math.isnan(u)]
        dtype = torch.bool if semantics.boolean else torch.float64
        values.append(over_traces(torch.tensor(degrees, dtype=dtype), semantics).item())
    counted = [row.true for row in rows if row.true is not None]
    true = TrueCells(*map(sum, zip(*counted, strict=True))) if len(counted) == len(rows) else None
    return replace(rows[0], trace="(all)", times=range(len(values)), values=values, true=true)
