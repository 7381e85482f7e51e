"""Formulas after changes of facts: as if all cells had been evaluated anew."""

from dataclasses import replace

import pytest

from fotltn.analysis import after_changes as after
from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, with_changes
from fotltn.analysis.tally import Standing
from fotltn.analysis.view import View
from fotltn.logic.check import check
from fotltn.semantics.config import CRISP, LTN, STABLE_PRODUCT, PMean
from fotltn.syntax.load import parse_theory
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
    then = after.after_changes(now, tables, changes, after.outcome(now))
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
        outcomes[text] = after.after_changes(one, changed, [change], after.outcome(one)), wanted
    (outside, wanted), (inside, _) = outcomes.values()
    assert outside == pytest.approx(wanted, abs=1e-6)
    assert inside is None


def test_all_is_evaluated_where_parts_do_not_tell(cells, monkeypatch):
    (change,) = CHANGES[0]
    rain = Change("rain", (), 1, "one", 1.0)

    def asked(one: Cells, *changes: Change) -> Standing | None:
        changed = with_changes(one.tables, changes)
        return after.after_changes(one, changed, changes, after.outcome(one))

    brake = cells["Brake"]
    assert asked(brake, change) is not None
    assert asked(brake, rain) == after.outcome(brake)  # it does not speak of rain
    assert asked(cells["Guarded"], change) is None  # as many count as the guard lets through
    assert asked(cells["Ever"], rain) is None  # it has no bindings
    assert asked(brake.viewed(semantics=CRISP), change) is None
    assert asked(brake.viewed(semantics=LTN), change) is None
    monkeypatch.setattr(after, "REACHED", 2)
    assert asked(brake, change) is None
