"""Compare the predictions of `fotltn plan` with measurements: bytes and time.

    python -m benchmarks.plan [--scale 1] [--json FILE]

Bytes are those that torch's allocator holds at once, beyond what it held before. Time is CPU time,
the median of some calls, so other programs do not count. Degrees are computed with gradients where
tables are dense, two-valued logic without. Run it with `OMP_NUM_THREADS=1`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import Tensor

from benchmarks import flights
from benchmarks.common import (
    carped_theory,
    close_facts,
    peak_bytes,
    report,
    seconds,
    tables,
    tables_of_facts,
)
from fotltn.analysis.view import stated_view
from fotltn.engine import compile_formulas, sizes_of
from fotltn.logic.check import CheckedTheory, check
from fotltn.plan.rows import row_cost
from fotltn.plan.work import Kind, Machine, measured, work
from fotltn.semantics import crisp_rows
from fotltn.semantics.config import SEMANTICS
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory

BUDGET = 8 * 2**30
_OVER_TIME = """sort thing
predicate A(thing), B(thing)
axiom W1: forall x. G(A(x) -> F[<=10] B(x))
axiom W2: forall x. G(A(x) -> O B(x))
axiom W3: forall x. G(A(x) -> X X B(x) | G B(x))
"""
_UNTIL = """sort thing
predicate A(thing), B(thing)
axiom U1: forall x. G(A(x) U B(x))
axiom U2: forall x. G(A(x) U[<=20] B(x))
axiom U3: forall x. G(A(x) R B(x))
"""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A theory on data, under a semantics."""

    what: str
    semantics: str
    theory: CheckedTheory
    tables: Tables

    def __str__(self) -> str:
        return f"{self.what}, {self.semantics}"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a plan, and the function that runs it."""

    peak: int
    work: Counter[Kind]
    gradients: bool
    run: Callable[[], object]


def cases(scale: float = 1.0) -> Iterator[Case]:
    """Yield the cases: the paper's axioms, until, windows and flights, in many sizes."""
    torch.manual_seed(0)
    scene = carped_theory()
    for entities, horizon, facts, names in (
        (int(200 * scale), 150, 0.025, ("stable-product", "ltn", "godel", "product", "crisp")),
        (int(300 * scale), 500, 0.005, ("stable-product", "lukasiewicz", "crisp")),
        (int(60 * scale), 100, None, ("stable-product", "ltn", "crisp")),
    ):
        learned = tables(entities, horizon)
        number = 0 if facts is None else int(facts * entities**2 * horizon)
        close = (
            torch.rand(1, entities, entities, horizon)
            if facts is None
            else close_facts(entities, horizon, number)
        )
        model = tables_of_facts(learned, close, entities, horizon)
        what = f"13 axioms, {entities} entities, {horizon} steps, "
        what += "all pairs" if facts is None else f"{number:,} facts"
        for name in names:
            yield Case(what, name, scene, model)
    for text, word in ((_OVER_TIME, "windows"), (_UNTIL, "until")):
        theory = _theory(text)
        for traces, entities, horizon in ((1, int(40 * scale), 400), (8, int(10 * scale), 200)):
            shape = (traces, entities, horizon)
            dense = {name: torch.rand(shape).requires_grad_() for name in ("A", "B")}
            lengths = torch.full((traces,), horizon)
            model = Tables({"thing": entities}, lengths, horizon, dense)
            for name in ("stable-product", "ltn", "godel", "crisp"):
                yield Case(f"{word}, {traces} × {entities} × {horizon}", name, theory, model)
    planes, hours = int(300 * scale), max(100, int(300 * scale))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.csv"
        facts_of_flights = flights.made_up(planes, 30, hours)
        flights.write(facts_of_flights, path)
        evidence = stated_view(check(load_theory(flights.THEORY)), [path], horizon=hours)
    what = f"ten rules, {planes} planes, {hours} hours, {len(facts_of_flights):,} facts"
    for name in ("stable-product", "godel", "crisp"):
        yield Case(what, name, evidence.theory, evidence.tables)


def _theory(text: str) -> CheckedTheory:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "theory.fot"
        path.write_text(text, "utf-8")
        return check(load_theory(path))


def predicted(case: Case) -> list[Prediction]:
    """Return predictions for all axioms together or, in two-valued logic, for each."""
    theory, meaning = case.theory, SEMANTICS[case.semantics]
    sizes = sizes_of(case.tables, torch.float32)
    formulas = {axiom.name: axiom.formula for axiom in theory.axioms}
    if meaning.boolean:
        static = [name for name, decl in theory.signature.predicates.items() if decl.static]
        true = {
            name: table.detach() > 0.5 if isinstance(table, Tensor) else table
            for name, table in case.tables.predicates.items()
        }
        model = replace(case.tables, predicates=true)

        def evaluated(name: str) -> Callable[[], object]:
            return lambda: crisp_rows.everywhere(
                formulas[name], model, threshold=0.5, budget=BUDGET, what=name
            )

        return [
            Prediction(cost.peak, cost.work, False, evaluated(name))
            for name, formula in formulas.items()
            for cost in (row_cost(formula, sizes, static=static),)
        ]
    prepared = compile_formulas(formulas, theory.signature, meaning).prepare(
        case.tables, dtype=torch.float32, budget=BUDGET
    )
    inputs = [t for t in case.tables.predicates.values() if isinstance(t, Tensor)]
    learned = [t for t in inputs if t.requires_grad]

    def step() -> None:
        total = torch.stack([v.tensor.sum() for v in prepared(case.tables).values()]).sum()
        if total.requires_grad:
            torch.autograd.grad(total, learned, allow_unused=True)

    plan = prepared.plan
    return [Prediction(plan.peak, work(plan), bool(learned), step)]


def compare(case: Case, machine: Machine) -> dict[str, Any]:
    """Return one row: the prediction, the measurement, and their ratios."""
    said = predicted(case)
    peak = max(one.peak for one in said)
    held = max(peak_bytes(one.run) for one in said)
    time = sum(machine.time(one.work, gradients=one.gradients) for one in said)
    taken = sum(seconds(one.run, repeat=3, at_least=0, clock=process_time) for one in said)
    return {
        "what": case.what, "by": case.semantics, "MB, plan": peak / 1e6, "MB": held / 1e6,
        "plan / MB": peak / held, "ms, plan": time * 1e3, "ms": taken * 1e3,
        "plan / ms": time / taken,
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = [compare(case, measured(process_time)) for case in cases(args.scale)]
    report("what a plan says, and what is measured", rows, args.json)


if __name__ == "__main__":
    main()
