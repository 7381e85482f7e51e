"""`fotltn rules`: support, confidence, base rate and lift of rules on data alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fotltn.cli.asked import asked_model
from fotltn.cli.options import (
    Budget,
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

    from fotltn.analysis.rules import Estimate, Rule
    from fotltn.grounding.clock import Clock
    from fotltn.project.rules import StatedTheory

_LEGEND = (
    "Support: bindings and times where the antecedent is true, in so many traces. Confidence: how "
    "often the consequent is true there; base: how often anywhere; lift: their ratio. Brackets: "
    "95 % intervals, over traces drawn anew. Cut: support from where the consequent looks beyond "
    "the end of its trace; uncut: the same without that."
)
_UNDECIDED = "Undecided: what fails only since its trace ends, and counts nowhere else."
_WHOLE = "A rule without an antecedent has the share of all its bindings and times as confidence."


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
        typer.Option("--facts", help="For a theory: CSV or Parquet files of facts; repeatable."),
    ] = None,
    presence: Annotated[
        list[str] | None,
        typer.Option(
            "--presence",
            help="For a theory: a predicate that is true where an entity is present; repeatable.",
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            help="For a theory: time points of every trace; default: up to its last fact.",
        ),
    ] = None,
    step: Step = None,
    origin: Origin = None,
    timezone: Timezone = None,
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
        typer.Option("--formula", help="A rule instead of the axioms; repeatable."),
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
        int, typer.Option("--resamples", help="Draws for the intervals; 0 for none.", min=0)
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
    from fotltn.decisions import rule_of
    from fotltn.grounding.clock import clock_of

    clock = clock_of(step, origin, timezone)
    stated = _Stated(facts or [], presence or [], horizon, clock)
    told = _read(path, stated, data or [], theory, threshold)
    if not formula and not told.theory.axioms:
        raise DataError(f"the theory of '{path}' has no axioms to count; give a --formula")
    counted = told.rules(
        formula or (), part=part, semantics=meaning, threshold=threshold, resamples=resamples,
        seed=seed, budget=as_bytes(budget), end=end,
    )  # fmt: skip
    lines = list(_watched(counted, len(formula or told.theory.axioms)))
    if as_json:
        rule = told.rule or rule_of(told.tables, threshold)
        emit_json({
            "ok": True, "part": part, "semantics": meaning.name, **rule.as_dict(),
            "end": end or told.end, "resamples": resamples, "seed": seed,
            "traces": told.tables.batch,
            "rules": [line.as_dict() for line in lines],
            "warnings": [
                w.as_dict() for w in (*told.theory.warnings, *told.fact_warnings)
            ],
        })  # fmt: skip
        return
    # Formulas may well use what no axiom uses, so that "not used" would mislead.
    warn(() if formula else told.theory.warnings)
    warn(told.fact_warnings)
    _print(lines)


class _Stated(NamedTuple):
    """What goes with a theory file alone."""

    facts: list[Path]
    presence: list[str]
    horizon: int | None
    clock: Clock | None


def _read(
    path: Path,
    stated: _Stated,
    data: list[Path],
    theory: Path | None,
    threshold: float | None,
) -> StatedTheory:
    from fotltn.project.find import is_model
    from fotltn.project.rules import load_project, of_facts, of_model

    if path.suffix == ".fot":
        if data or theory is not None:
            raise DataError("--data and --theory need a project; a theory takes --facts")
        if not stated.facts:
            raise DataError(f"'{path}' is a theory, which needs facts: --facts FILE")
        return of_facts(
            path, stated.facts, horizon=stated.horizon, presence=stated.presence, clock=stated.clock
        )
    if any(option is not None and option != [] for option in stated):
        raise DataError(
            "--facts, --presence, --horizon and --step need a theory file; a project names its "
            "tables"
        )
    if is_model(path):
        if theory is not None:
            raise DataError("--theory needs a project; for a model, use --formula")
        return of_model(asked_model(path, data), threshold=threshold)
    return load_project(path, data=one_folder(data), theory=theory)


def _watched(counted: Iterator[Rule], total: int) -> Iterator[Rule]:
    """The same with a bar in a terminal."""
    from rich.progress import track

    from fotltn.cli.terminal import Terminal

    console = Terminal(sys.stderr)
    return iter(
        track(
            counted, "rules", total=total, console=console, transient=True,
            disable=not console.is_terminal,
        )
    )  # fmt: skip


def _print(lines: list[Rule]) -> None:
    heads = ["rule", "traces", "support", "confidence", "base", "lift"]
    loose = any(line.undecided for line in lines)
    heads += [*(["undecided"] if loose else []), "cut", "uncut", "its lift"]
    table = grid(*heads, left=["rule"], fold=["rule"])
    for line in lines:
        every, uncut = line.overall, line.uncut
        add(
            table, line.name, count(every.traces), amount(every.support),
            _interval(every.confidence), number(every.base_rate.value), _interval(every.lift, 2),
            *([count(line.undecided)] if loose else []), amount(line.cut),
            number(None if uncut is None else uncut.confidence.value),
            number(None if uncut is None else uncut.lift.value, 2),
        )  # fmt: skip
    show(table)
    print()
    say(
        _LEGEND,
        *([_UNDECIDED] if loose else []),
        *([] if all(line.implication for line in lines) else [_WHOLE]),
    )


def _interval(estimate: Estimate, digits: int = 3) -> str:
    value = number(estimate.value, digits)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"
