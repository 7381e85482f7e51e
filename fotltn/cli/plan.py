"""`fotltn plan`: how a theory will be evaluated, and what it will cost, before it runs."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated

import typer

from fotltn.cli.options import At, Budget, Exponent, Json, SemanticsName, TheoryFile
from fotltn.cli.output import as_bytes, emit_json, time_point, warn
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.logic import core as c
from fotltn.logic.check import check as check_theory
from fotltn.logic.signature import Signature
from fotltn.plan.cost import peak_bytes
from fotltn.plan.explain import as_dict, size
from fotltn.plan.sizes import Sizes, Sparse
from fotltn.semantics.config import semantics_of
from fotltn.syntax.load import load_theory


def plan(
    theory: TheoryFile,
    counts: Annotated[
        list[str] | None,
        typer.Option("--size", help="Entities of a sort or tuples of a relation: agent=10000."),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", help="Time points.", min=1)] = 100,
    traces: Annotated[int, typer.Option("--traces", help="Traces of a batch.", min=1)] = 1,
    facts: Annotated[
        list[str] | None,
        typer.Option("--facts", help="A predicate given as that many facts: Close=20000000."),
    ] = None,
    semantics: SemanticsName = "stable-product",
    p: Exponent = None,
    at: At = "0",
    budget: Budget = "4G",
    double: Annotated[
        bool, typer.Option("--double", help="Numbers of 8 bytes, as eval has them, not of 4.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show how the engine would evaluate a theory, and at what cost.

    Each axiom has its steps: axes, route and why, FLOPs, bytes; against dense evaluation.
    Two-valued logic is evaluated by the equations, without steps. Nothing is evaluated here. What
    cannot fit the budget is refused, with the bytes it would need.
    """
    meaning = semantics_of(semantics, p)
    checked = check_theory(load_theory(theory))
    sizes = _sizes(
        checked.signature, counts or [], facts or [], horizon, traces, 8 if double else 4
    )
    time = time_point(at, horizon)
    formulas = {a.name: a.formula for a in checked.axioms}
    room = as_bytes(budget)
    if meaning.boolean:
        text, shown = _by_equations(formulas, sizes, room)
    else:
        from fotltn.engine import compile_formulas

        program = compile_formulas(formulas, checked.signature, meaning, at=time)
        made = program.plan(sizes, budget=room)
        text, shown = made.explain(), as_dict(made)
    if as_json:
        emit_json({"ok": True, "theory": str(theory), "semantics": meaning.name, **shown})
        return
    warn(checked.warnings)
    print(text)


def _by_equations(
    formulas: dict[str, c.Formula], sizes: Sizes, budget: int
) -> tuple[str, dict[str, object]]:
    """What two-valued logic takes, one axiom after the other: for people and for machines."""
    peaks = {name: peak_bytes(formula, sizes, crisp=True) for name, formula in formulas.items()}
    most = max(peaks.values(), default=0)
    lines = [f"{name}: by rows of facts, at most {size(peak)}" for name, peak in peaks.items()]
    last = (
        f"Two-valued logic follows the facts. Where much is true of most bindings, it takes "
        f"{size(most)} of intermediate results (budget {size(budget)})"
    )
    roots = [{"name": name, "step": None, "peak_bytes": peak} for name, peak in peaks.items()]
    shown = {"roots": roots, "steps": [], "peak_bytes": most, "budget_bytes": budget}
    return "\n".join([*lines, "", last]), shown


def _sizes(
    signature: Signature, size: list[str], facts: list[str], horizon: int, traces: int, width: int
) -> Sizes:
    sizes = _numbers("--size", size, [*signature.sorts, *signature.relations])
    missing = [s for s in signature.sorts if s not in sizes]
    if missing:
        raise DataError(f"--size {missing[0]}=… is needed: nothing says how many there are")
    counted = _numbers("--facts", facts, signature.predicates)
    sparse = {
        name: Sparse(number, temporal=not signature.predicates[name].static, crisp=True)
        for name, number in counted.items()
    }
    relations = {name: sizes.get(name, 0) for name in signature.relations}
    return Sizes(sizes, horizon, traces, relations, sparse, width=width)


def _numbers(option: str, items: list[str], names: Collection[str]) -> dict[str, int]:
    numbers = {}
    for item in items:
        name, _, number = item.partition("=")
        if name not in names:
            hint = did_you_mean(name, names) or f"there are {listing(names)}"
            raise DataError(f"{option} {item}: '{name}' is not declared; {hint}")
        if not re.fullmatch(r"(?=.{1,24}$)[0-9]+(_[0-9]+)*", number):
            raise DataError(f"{option} takes NAME=NUMBER, not '{item[:40]}'")
        numbers[name] = int(number)
    return numbers
