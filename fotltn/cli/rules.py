"""`fotltn rules`: support, confidence, base rate and lift of rules on data alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fotltn.cli.asked import asked_blocks, asked_model
from fotltn.cli.options import (
    Budget,
    ClockOption,
    ExactJson,
    NewTables,
    Origin,
    Step,
    Threshold,
    Timezone,
    TraceEnd,
)
from fotltn.cli.output import as_bytes, emit_json, one_folder, warn
from fotltn.cli.tables import add, grid, say, show
from fotltn.errors import DataError
from fotltn.format import amount, count, number
from fotltn.semantics.config import SEMANTICS, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fotltn.analysis.blocked_view import BlockedView
    from fotltn.analysis.rules import Estimate, Rule
    from fotltn.analysis.view import View
    from fotltn.grounding.clock import Clock

_LEGEND = (
    "Support: bindings and times where the antecedent is true, and the "
    "number of traces with any. Confidence: how "
    "often the consequent is true there; base: how often anywhere; lift: "
    "their ratio. Brackets: 95 % intervals, by resampling traces. Cut: "
    "support where the consequent looks beyond the end of its trace; uncut: "
    "the numbers without it."
)
#: Cells that count nowhere else: columns that are shown if there are any, with their legend.
_LEFT_OUT = {
    "undecided": "Undecided: cells that fail only because their trace ends; they count nowhere "
    "else.",
    "unlabelled": "Unlabelled: cells that facts without a label could make true or false; they "
    "count nowhere else. If most cells are unlabelled, wrong labels weigh more in the others, and "
    "a rule without exceptions can have a low confidence.",
    "absent": "Absent: cells with an entity that is not present when the rule uses it; they count "
    "nowhere else.",
}
_WHOLE = (
    "The confidence of a rule without an antecedent is the share of all its bindings and times."
)


def rules(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PROJECT_OR_MODEL_OR_THEORY",
            help="A project, a model, or a theory file (.fot) with --facts.",
        ),
    ],
    facts: Annotated[
        list[Path] | None,
        typer.Option(
            "--facts",
            metavar="<path>",
            help="For a theory: CSV or Parquet files of facts; repeatable.",
        ),
    ] = None,
    presence: Annotated[
        list[str] | None,
        typer.Option(
            "--presence",
            metavar="<str>",
            help="For a theory: a predicate that is true where an entity is present; repeatable.",
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            help="For a theory: the time points of every trace; by default, up to its last fact.",
        ),
    ] = None,
    step: Step = None,
    origin: Origin = None,
    timezone: Timezone = None,
    clock: ClockOption = None,
    data: NewTables = None,
    theory: Annotated[
        Path | None,
        typer.Option("--theory", help="For a project: another theory file, with other rules."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            "--part", help="For a project with a split: only train, validation or test traces."
        ),
    ] = None,
    formula: Annotated[
        list[str] | None,
        typer.Option(
            "--formula", metavar="<str>", help="A rule instead of the axioms; repeatable."
        ),
    ] = None,
    semantics: Annotated[
        str,
        typer.Option(
            "--semantics",
            help="crisp counts cells; others sum degrees, as godel does for graded facts. "
            f"One of {', '.join(SEMANTICS)}.",
        ),
    ] = "crisp",
    threshold: Threshold = None,
    end: TraceEnd = None,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples", help="The number of draws for the intervals; 0 for no intervals.", min=0
        ),
    ] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="The seed of these draws.", min=0)] = 0,
    budget: Budget = "4G",
    as_json: ExactJson = False,
) -> None:
    """Count how often rules hold on facts, and compare with chance.

    Nothing is learned, and no model is needed; given a model, its predictions count as facts. A
    rule `forall x. G(if -> then)` is counted where all its entities are present. Exit status: 0 if
    everything could be counted, 1 if the input has errors, 2 for a wrong call.
    """
    meaning = named(semantics)
    from fotltn.grounding.clock import clock_of

    timing = clock_of(step, origin, timezone, clock)
    stated = _FactFiles(facts or [], presence or [], horizon, timing)
    view = _read(path, stated, data or [], theory).under(
        threshold=threshold, end=end, budget=as_bytes(budget)
    )
    from fotltn.analysis.blocked_view import BlockedView

    how, traces = (
        (view.how, view.total) if isinstance(view, BlockedView) else (view, view.tables.batch)
    )
    if not formula and not how.theory.axioms:
        raise DataError(f"the theory of '{path}' has no axioms to count; give a --formula")
    decided = view.decided() if how.learned else view
    counted = decided.rules(
        formula or (), part=part, semantics=meaning, resamples=resamples, seed=seed
    )
    lines = list(_watched(counted, len(formula or how.theory.axioms)))
    if as_json:
        emit_json({
            "ok": True, "part": part, "semantics": meaning.name, **view.rule.as_dict(),
            "end": how.end, "resamples": resamples, "seed": seed, "traces": traces,
            "rules": [line.as_dict() for line in lines],
            "warnings": [w.as_dict() for w in how.warnings],
        })  # fmt: skip
        return
    warn(how.warnings)
    _print(lines)


class _FactFiles(NamedTuple):
    """The options that only a theory file takes."""

    facts: list[Path]
    presence: list[str]
    horizon: int | None
    clock: Clock | None


def _read(
    path: Path, stated: _FactFiles, data: list[Path], theory: Path | None
) -> View | BlockedView:
    """Read the data to count rules on; a model has already warned about its data."""
    from fotltn.analysis.view import stated_view
    from fotltn.logic.check import check
    from fotltn.project.blocked import facts_on_disk, is_prepared, project_on_disk
    from fotltn.project.config import read_config
    from fotltn.project.find import is_model, load_project
    from fotltn.syntax.load import load_theory

    if path.suffix == ".fot":
        if data or theory is not None:
            raise DataError("--data and --theory need a project; a theory takes --facts")
        if not stated.facts:
            raise DataError(f"'{path}' is a theory, which needs facts: --facts FILE")
        if any(map(is_prepared, stated.facts)):
            if len(stated.facts) > 1 or stated.presence or stated.horizon is not None:
                raise DataError("prepared data come alone, without --presence and --horizon")
            return facts_on_disk(check(load_theory(path)), stated.facts[0], stated.clock)
        return stated_view(
            check(load_theory(path)), stated.facts, horizon=stated.horizon,
            presence=stated.presence, clock=stated.clock,
        )  # fmt: skip
    if any(option is not None and option != [] for option in stated):
        raise DataError(
            "--facts, --presence, --horizon and --step need a theory file; a project names its "
            "tables"
        )
    if is_model(path):
        if theory is not None:
            raise DataError("--theory needs a project; for a model, use --formula")
        if (blocks := asked_blocks(path, data)) is not None:
            return blocks.view()
        return replace(asked_model(path, data).view(), warnings=())
    if not data and theory is None and (config := read_config(path)).data.prepared is not None:
        view = project_on_disk(config).view()
        return replace(view, how=replace(view.how, learned=()))
    return load_project(path, data=one_folder(data), theory=theory)


def _watched(counted: Iterator[Rule], total: int) -> Iterator[Rule]:
    """Yield the same items, with a progress bar in a terminal that names the rule at work."""
    from fotltn.cli.terminal import bar

    with bar("rules", quiet=False) as move:
        for done, rule in enumerate(counted, 1):
            move(done, total)
            yield rule


def _print(lines: list[Rule]) -> None:
    left_out = [name for name in _LEFT_OUT if any(getattr(line, name) for line in lines)]
    heads = ["rule", "traces", "support", "confidence", "base", "lift", *left_out]
    heads += ["cut", "uncut", "its lift"]
    aside = ["its lift", "uncut", "cut", *left_out, "traces"]
    table = grid(*heads, left=["rule"], fold=["rule"], aside=aside)
    for line in lines:
        every, uncut = line.overall, line.uncut
        add(
            table, line.name, count(every.traces), amount(every.support),
            _interval(every.confidence), number(every.base_rate.value), _interval(every.lift, 2),
            *(count(getattr(line, name)) for name in left_out), amount(line.cut),
            number(None if uncut is None else uncut.confidence.value),
            number(None if uncut is None else uncut.lift.value, 2),
        )  # fmt: skip
    show(table)
    print()
    say(
        _LEGEND,
        *(_LEFT_OUT[name] for name in left_out),
        *([] if all(line.implication for line in lines) else [_WHOLE]),
    )


def _interval(estimate: Estimate, digits: int = 3) -> str:
    value = number(estimate.value, digits)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"
