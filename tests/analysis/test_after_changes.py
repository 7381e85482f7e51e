"""Formulas after changes of facts: as if all cells had been evaluated anew."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from fotltn.analysis import after_changes as after
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, change_at, with_changes
from fotltn.analysis.tally import Standing
from fotltn.analysis.view import View
from fotltn.logic.check import check
from fotltn.logic.parts import predicates_in
from fotltn.semantics.config import CRISP, LTN, STABLE_PRODUCT, PMean
from fotltn.semantics.tables import Decisions, Tables
from fotltn.syntax.load import parse_theory
from tests.analysis.test_cell_rows import random_cells
from tests.analysis.test_some_cells import THEORY, cells

__all__ = ["cells"]

CHANGES = (
    (Change("Stop", ("a",), 1, "one", 1.0),),
    (Change("Near", ("c", "q"), 2, "two", 0.0), Change("Near", ("a", "q"), 0, "one", 0.9)),
    (Change("Car", ("b",), None, "one", 1.0), Change("Stop", ("b",), 0, "two", 0.1)),
)


@pytest.mark.parametrize("changes", CHANGES, ids=["one", "pairs", "static"])
@pytest.mark.parametrize("name", ["Brake", "Pair", "Inner", "Now"])
def test_values_and_violations_follow(cells, name, changes):
    now = cells[name]
    tables = with_changes(now.tables, changes)
    then = after.after_changes(now, changes, after.outcome(now))
    wanted = after.outcome(now.viewed(tables=tables))
    assert then is not None
    assert then.value == pytest.approx(wanted.value, abs=1e-6)
    assert then.violated == wanted.violated


def test_where_p_differs_the_order_counts(cells):
    """`forall` of `G` is a mean of bindings, `G` of `forall` is none."""
    strict = replace(STABLE_PRODUCT, name="strict", always=PMean(8))
    tables = cells["Brake"].tables
    (change,) = CHANGES[0]
    changed = with_changes(tables, [change])
    outcomes = {}
    for text in ("forall x. G(Stop(x) -> Car(x))", "G(forall x. Stop(x) -> Car(x))"):
        theory = check(parse_theory(THEORY + f"axiom New: {text}\n"))
        one = View(tables, strict).cells(theory.axiom("New"))
        wanted = after.outcome(one.viewed(tables=changed))
        outcomes[text] = after.after_changes(one, [change], after.outcome(one)), wanted
    (outside, wanted), (inside, _) = outcomes.values()
    assert outside == pytest.approx(wanted, abs=1e-6)
    assert inside is None


def test_all_is_evaluated_where_parts_do_not_tell(cells):
    (change,) = CHANGES[0]
    rain = Change("rain", (), 1, "one", 1.0)

    def asked(one: Cells, *changes: Change) -> Standing | None:
        return after.after_changes(one, changes, after.outcome(one))

    brake = cells["Brake"]
    assert asked(brake, change) is not None
    assert asked(brake, rain) == after.outcome(brake)  # it does not speak of rain
    assert asked(cells["Guarded"], change) is None  # as many count as the guard lets through
    assert asked(cells["Ever"], rain) is None  # it has no bindings
    assert asked(brake.viewed(semantics=CRISP), change) is None
    assert asked(brake.viewed(semantics=LTN), change) is None


def compare(seeds: range) -> int:
    """Random axioms after random changes, from parts and from all cells; how many had parts."""
    parts = 0
    for seed in seeds:
        rng = random.Random(seed)
        cells = random_cells(seed)
        limits = {name: rng.uniform(0.1, 0.9) for name in cells.tables.predicates}
        tables = replace(cells.tables, decisions=rng.choice([None, Decisions(limits)]))
        cells = cells.viewed(tables=tables, semantics=STABLE_PRODUCT)
        if not cells.bindings or after._exponent(cells) is None:
            continue
        read = [n for n in sorted(predicates_in(cells.formula)) if math.prod(tables.table(n).shape)]
        changes = [random_change(rng, tables, rng.choice(read)) for _ in range(rng.randint(1, 3))]
        now = after.outcome(cells)
        then = after.after_changes(cells, changes, now)
        if then is not None:
            wanted = after.outcome(cells.viewed(tables=with_changes(tables, changes)))
            assert then.numbers == wanted.numbers, seed
            value, expected = (one.value or 0.0 for one in (then, wanted))
            error, of_all = (1 - value) ** 4, (1 - expected) ** 4  # whose means are taken
            assert error == pytest.approx(of_all, abs=1e-7), seed
            assert value == 1 or expected < 1, seed
            parts += then != now
    return parts


def random_change(rng: random.Random, tables: Tables, name: str) -> Change:
    """Another degree for any fact of a predicate, inside its trace."""
    traces, *sizes, times = tables.table(name).shape
    trace = rng.randrange(traces)
    time = rng.randrange(1 if times == 1 else tables.length(trace))
    place = np.ravel_multi_index([*map(rng.randrange, sizes), time], (*sizes, times))
    return change_at(tables, name, trace, int(place), rng.choice([0.0, 1.0, rng.random()]))


def test_random_axioms_follow():
    assert compare(range(300)) > 20


@pytest.mark.slow
def test_many_random_axioms_follow():
    compare(range(1000, 3000))
