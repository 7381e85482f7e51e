"""`fotltn eval`: the truth of axioms and formulas on a table of facts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fotltn.cli.output import as_bytes, emit_json, warn
from fotltn.cli.tables import add, grid, show
from fotltn.errors import DataError, LimitError
from fotltn.format import degree
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.logic.check import check as check_theory
from fotltn.semantics.config import SEMANTICS, PMean, Semantics, check_threshold, named
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula

if TYPE_CHECKING:
    from fotltn.grounding.facts import Facts
    from fotltn.logic import core as c


@dataclass(frozen=True, slots=True)
class Line:
    """A formula at one binding of its free variables in one trace: its value over time."""

    name: str
    trace: str
    binding: dict[str, str]
    values: list[float | bool | None]


def evaluate(
    theory: Annotated[Path, typer.Argument(help="A theory file (.fot).")],
    facts: Annotated[
        list[Path], typer.Option("--facts", help="CSV or Parquet files of facts; repeatable.")
    ],
    formula: Annotated[
        list[str] | None,
        typer.Option(
            "--formula",
            help="A formula instead of the axioms; its free variables become rows. Repeatable.",
        ),
    ] = None,
    semantics: Annotated[
        str, typer.Option("--semantics", help=f"One of {', '.join(SEMANTICS)}.")
    ] = "stable-product",
    p: Annotated[
        float | None, typer.Option("--p", help="The exponent of its means, from 1 to inf.")
    ] = None,
    at: Annotated[str, typer.Option("--at", help="A time point, or 'all'.")] = "0",
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            help="Time points of every trace; without it, a trace ends with its last fact.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", help="With the crisp semantics: degrees at or above it are true."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", help="Memory for intermediate results: 4G, 500M.")
    ] = "4G",
    digits: Annotated[
        int, typer.Option("--digits", help="Digits after the point.", min=1, max=17)
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all digits.")] = False,
) -> None:
    """Evaluate a theory's axioms, or other formulas, on facts.

    What no fact states is false. Exit status: 0 if everything could be evaluated, 1 if the input
    has errors, 2 for a wrong call.
    """
    meaning = named(semantics)
    meaning = meaning if p is None else meaning.with_p(p)
    check_threshold(threshold, meaning)
    checked = check_theory(load_theory(theory))
    goals = _goals(checked, formula or [])
    time = _time(at)
    room = as_bytes(budget)
    from fotltn.grounding.facts import read_facts

    table = read_facts(facts, checked.signature, horizon=horizon)
    if time is not None and time >= max(table.lengths):
        raise DataError(
            f"the time point {time} does not exist: there are 0 to {max(table.lengths) - 1}"
        )
    try:
        lines = _lines(goals, checked, table, meaning, time, threshold, room)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        raise LimitError("the values of a formula do not fit into memory") from None
    # Formulas may well use what no axiom uses, so that "not used" would mislead.
    warnings = (*(() if formula else checked.warnings), *table.warnings)
    if as_json:
        shown = [
            {"formula": n.name, **({"trace": n.trace} if len(table.traces) > 1 else {}),
             **({"binding": n.binding} if n.binding else {}),
             **({"value": n.values[0]} if time is not None else {"values": n.values})}
            for n in lines
        ]  # fmt: skip
        emit_json(
            {
                "ok": True,
                "semantics": meaning.name,
                "p": _exponent(meaning),
                "at": "all" if time is None else time,
                "results": shown,
                "diagnostics": [w.as_dict() for w in warnings],
            }
        )
        return
    warn(warnings)
    _print(lines, time, len(table.traces) > 1, digits)


def _goals(
    checked: CheckedTheory, texts: list[str]
) -> list[tuple[str, c.Formula, tuple[c.Axis, ...]]]:
    if not texts:
        return [(a.name, a.formula, ()) for a in checked.axioms]
    goals = []
    for text in texts:
        found = check_formula(parse_formula(text, source="--formula"), checked.signature)
        goals.append((text, found.formula, found.free))
    return goals


def _exponent(semantics: Semantics) -> float | str | None:
    """The exponent of all means, if there is one; JSON has no infinity, so that is a word."""
    found = {a.p for a in semantics.aggregations if isinstance(a, PMean)}
    if len(found) != 1 or semantics.boolean:
        return None
    (p,) = found
    return "inf" if p == float("inf") else p


def _time(at: str) -> int | None:
    if at == "all":
        return None
    if not at.isdecimal() or len(at) > 18:
        raise DataError(f"--at takes a time point from 0, or 'all', not '{at[:40]}'")
    return int(at)


def _lines(
    goals: list[tuple[str, c.Formula, tuple[c.Axis, ...]]],
    checked: CheckedTheory,
    facts: Facts,
    semantics: Semantics,
    time: int | None,
    threshold: float | None,
    budget: int,
) -> list[Line]:
    from fotltn.evaluation import evaluate_all, present
    from fotltn.grounding.dense import interpretation

    tables = interpretation(facts, checked.signature, sparse=not semantics.boolean)
    values = evaluate_all(
        {name: core for name, core, _ in goals}, tables, semantics, at=time, threshold=threshold,
        budget=budget,
    )  # fmt: skip
    found = []
    for (name, _, free), value in ((goal, values[goal[0]]) for goal in goals):
        tensor = present(value, free, tables, at="all" if time is None else time, batched=True)
        names = [facts.entities[str(axis.sort)] for axis in free]
        for trace, label in enumerate(facts.traces):
            length = facts.lengths[trace]
            for place in itertools.product(*(range(len(n)) for n in names)):
                cell: Any = tensor[(trace, *place)].tolist()
                binding = {a.name: n[i] for a, n, i in zip(free, names, place, strict=True)}
                row = cell[:length] if time is None else [cell if time < length else None]
                found.append(Line(name, label, binding, row))
    return found


def _print(lines: list[Line], time: int | None, many_traces: bool, digits: int) -> None:
    longest = max((len(n.values) for n in lines), default=0)
    bound = list(dict.fromkeys(v for n in lines for v in n.binding))
    words = ["formula", *(["trace"] if many_traces else []), *bound]
    times = [time] if time is not None else range(longest)
    table = grid(*words, *(f"t={t}" for t in times), left=words, fold=words)
    for n in lines:
        cells = [degree(v, digits) for v in n.values] + [""] * (longest - len(n.values))
        where = [n.trace] if many_traces else []
        named = [n.name, *where, *(n.binding.get(v, "") for v in bound)]
        add(table, *named, *cells)
    show(table)
