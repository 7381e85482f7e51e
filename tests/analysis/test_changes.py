"""What if: facts with other degrees, over a cell and in whole tables, dense or of facts."""

from dataclasses import replace

import pytest
import torch

from fotltn.analysis.cells import Cells
from fotltn.analysis.changes import Change, change_at, overlay, placed, with_changes
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.predictions import as_csv, stated_facts
from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.logic.check import check, check_formula
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.tables import Decisions
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula

THEORY = """\
sort agent
static predicate Car(agent)
predicate Near(agent, agent), Stop(agent), rain, Wet(agent)
relation pairs(agent, agent)
function speed(agent): real
axiom Brake: forall x, y. G(Car(x) & Near(x, y) -> WX Stop(x))
axiom Slow: forall x. G(rain -> F[0,2] Stop(x))
axiom Pair: forall (x, y) in pairs. G(Stop(x) -> Stop(y))
axiom Damp: forall x. G(Wet(x) -> Stop(x))
"""

FACTS = """\
predicate,arg1,arg2,time,truth,value,trace
Car,"a, b",,,1,,
Near,"a, b",c,0,0.8,,one
Near,c,"a, b",1,0.9,,two
Stop,"a, b",,1,0.3,,one
Stop,c,,2,1,,two
Stop,c,,0,0,,one
rain,,,1,1,,two
Wet,c,,1,1,,two
pairs,c,"a, b",,,,
speed,c,,,,3.5,
speed,"a, b",,,,2,
"""


@pytest.fixture(params=[True, False], ids=["facts", "dense"])
def cells(request, tmp_path) -> dict[str, Cells]:
    checked = check(parse_theory(THEORY))
    (tmp_path / "stated.csv").write_text(FACTS)
    facts = read_facts([tmp_path / "stated.csv"], checked.signature, horizon=3)
    tables = tables_of_facts(facts, checked.signature, sparse=request.param)
    return {a.name: View(tables, STABLE_PRODUCT).cells(a) for a in checked.axioms}


CHANGES = (
    Change("Stop", ("a, b",), 1, "one", 0.9),
    Change("Near", ("a, b", "c"), 0, "one", 0.25),
    Change("Stop", ("c",), 1, "two", 1.0),  # which nothing states
    Change("rain", (), 2, "two", 0.5),
)


@pytest.mark.parametrize("name", ["Brake", "Slow", "Pair"])
def test_a_changed_cell_is_that_of_changed_tables(cells, name):
    one = cells[name]
    other = one.viewed(tables=with_changes(one.tables, CHANGES))
    heat = other.over_time()
    for row in range(one.rows):
        for time in range(3):
            cell = one.cell(row, time)
            here, there = why(one, cell, changes=CHANGES), why(other, cell)
            assert here.tree == there.tree
            assert here.timelines == there.timelines
            assert here.influence == there.influence
            assert here.tree.value == pytest.approx(float(heat.values[row, time]), abs=1e-6)


def test_only_what_is_changed_differs(cells):
    tables = cells["Brake"].tables
    changed = with_changes(tables, CHANGES)
    assert tables.predicate("Stop")[0, 0, 1] == pytest.approx(0.3)  # the old stay as they were
    for name in tables.predicates:
        before, after = tables.predicate(name), changed.predicate(name)
        different = (before != after).nonzero()
        assert len(different) == sum(one.predicate == name for one in CHANGES)
    for one in CHANGES:
        trace, place = placed(tables, one)
        assert float(changed.predicate(one.predicate)[trace].reshape(-1)[place]) == one.degree
        assert change_at(tables, one.predicate, trace, place, one.degree) == one
    assert overlay(tables, CHANGES, 1).keys() == {"Stop", "rain"}


def test_a_repair_leaves_what_is_supposed(cells):
    one = cells["Pair"]
    cell = one.find({"x": "c", "y": "a, b"}, 2, "two")  # c stops, and the other does not
    plain = why(one, cell)
    assert [flip.text for flip in plain.repair.flips or ()] in (["Stop(c)"], ["Stop(a, b)"])
    for held in ("c", "a, b"):
        kept = Change("Stop", (held,), 2, "two", 1.0 if held == "c" else 0.0)
        (flip,) = why(one, cell, changes=[kept]).repair.flips or ()
        assert flip.text != f"Stop({held})"


def test_what_is_defined_follows_unless_it_is_changed_itself(cells):
    one = cells["Damp"]
    wet = check_formula(parse_formula("rain & Stop(x)"), one.tables.signature)
    tables = replace(one.tables, decisions=Decisions(definitions={"Wet": wet}))
    defined = one.viewed(tables=tables)
    cell = defined.find({"x": "c"}, 2, "two")
    change = Change("rain", (), 2, "two", 1.0)
    leaf = {n.ground: n.truth for n, _ in why(defined, cell, changes=[change]).tree.levels()}
    assert leaf["Wet(c)"] is True  # since it rains now, and c stops
    assert {n.ground: n.truth for n, _ in why(defined, cell).tree.levels()}["Wet(c)"] is False
    wet_now = why(defined, cell, changes=[Change("Wet", ("c",), 2, "two", 1.0)]).tree
    assert {n.ground: n.truth for n, _ in wet_now.levels()}["Wet(c)"] is True
    dry = why(defined, cell, changes=[change, Change("Wet", ("c",), 2, "two", 0.0)]).tree
    assert {n.ground: n.truth for n, _ in dry.levels()}["Wet(c)"] is False


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            Change("Stopp", ("c",), 1, "two", 1.0),
            "no predicate is named 'Stopp'; did you mean 'Stop'",
        ),
        (Change("Stop", ("d",), 1, "two", 1.0), "no entity of sort 'agent' is named 'd'"),
        (Change("Stop", (), 1, "two", 1.0), "'Stop' has 1 arguments, not 0"),
        (Change("Stop", ("c",), 1, "three", 1.0), "no trace is named 'three'"),
        (Change("Stop", ("c",), 1, None, 1.0), r"in which trace is Stop\(c\)\? There are 2 traces"),
        (Change("Stop", ("c",), None, "two", 1.0), r"at which time is Stop\(c\)\?"),
        (
            Change("Stop", ("c",), 3, "two", 1.0),
            "the time point 3 does not exist: there are 0 to 2",
        ),
        (Change("Car", ("c",), 1, "two", 1.0), r"Car\(c\) is the same at all times"),
    ],
)
def test_what_is_no_fact_is_told(cells, change, told):
    with pytest.raises(DataError, match=told):
        with_changes(cells["Brake"].tables, [change])
    with pytest.raises(DataError, match="a degree must be from 0 to 1, not 2"):
        replace(change, degree=2.0)


def test_changed_facts_are_a_file_that_reads_the_same(cells, tmp_path):
    tables = with_changes(cells["Brake"].tables, CHANGES)
    (tmp_path / "facts.csv").write_bytes(as_csv(stated_facts(tables)))
    signature = tables.signature
    again = tables_of_facts(read_facts([tmp_path / "facts.csv"], signature), signature, sparse=True)
    for name in signature.predicates:
        assert torch.allclose(again.predicate(name), tables.predicate(name)), name
    assert torch.equal(again.relation("pairs"), tables.relation("pairs"))
    read, stated = again.function("speed"), tables.function("speed")
    assert torch.equal(read.nan_to_num(-1), stated.nan_to_num(-1))
