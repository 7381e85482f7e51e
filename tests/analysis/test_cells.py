"""Cells of axioms, by number and by name; satisfactions; all of an explanation together."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.error_shares import shared_cells
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.check import check, check_formula
from fotltn.logic.text import text_of, written
from fotltn.semantics.config import CRISP, PMean, Semantics
from fotltn.semantics.config import STABLE_PRODUCT as STABLE
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder
from tests.analysis.explain.common import explain, influence, repair, timelines
from tests.analysis.scenes import counterexample, violations
from tests.helpers import value_of as evaluate
from tests.random_cases import SIGNATURE, random_case

THEORY = check(
    parse_theory("""
sort agent
sort place
static predicate Car(agent)
predicate Stop(agent), At(agent, place)
relation pairs(agent, place)
axiom A1: forall x. G(Car(x) -> F Stop(x))
axiom A2 weight 2: forall (x, y) in pairs. G(At(x, y) -> Stop(x))
axiom A3: forall x. Car(x) -> Stop(x)
""")
)
TABLES = {
    "Car": [1.0, 0.2],
    "Stop": [[0.1, 0.9, 0.3], [0.4, 0.0, 0.2]],
    "At": torch.arange(12).reshape(2, 2, 3) / 12,
}
NAMES = Names(("day",), {"agent": ("ego", "bus"), "place": ("here", "there")})
PAIRS = {"pairs": torch.tensor([[0, 1], [1, 0]])}


def made(names: Names = NAMES) -> Tables:
    return replace(tables_of_tensors(THEORY.signature, TABLES, relations=PAIRS), names=names)


def cells(name: str, semantics: Semantics = STABLE, names: Names = NAMES) -> Cells:
    return View(made(names), semantics).cells(THEORY.axiom(name))


def test_cells_are_those_of_the_forall_and_g_that_a_formula_begins_with():
    a1, a2, a3 = cells("A1"), cells("A2"), cells("A3")
    assert (a1.name, a1.variables, a1.timed) == ("A1", ("x",), True)
    assert text_of(a1.body) == "Car(x) -> F Stop(x)"
    assert a1.text == "forall x. G(Car(x) -> F Stop(x))"
    assert str(a1.source) == a1.text
    assert (a1.sizes, a1.rows, a1.columns) == ((2,), 2, 3)
    assert (a3.timed, text_of(a3.body), a3.columns) == (False, "Car(x) -> Stop(x)", 1)
    assert (a2.variables, a2.sizes) == (("x", "y"), (2,))


@pytest.mark.parametrize("seed", range(60))
def test_a_checked_formula_can_be_written_again(seed):
    formula = random_case(seed).checked.formula
    windows = [n.window for n in postorder(formula) if isinstance(n, c.Aggregate | c.Until)]
    if any(w.high is not None and w.high < w.low for w in windows):
        assert "+[" in random_case(seed).text  # a strict form of no points has no other spelling
        return
    again = check_formula(parse_formula(str(written(formula))), SIGNATURE)
    assert again.formula == formula


def test_cells_are_found_by_names():
    assert cells("A1").find({"x": "bus"}, 2, "day") == Cell(0, (1,), 2)
    assert cells("A2").find({"x": "bus", "y": "here"}) == Cell(0, (1,), 0)


def test_cells_are_rows_and_columns_and_have_names():
    a1, a2 = cells("A1"), cells("A2")
    assert a1.cell(1, 2) == Cell(0, (1,), 2)
    assert a1.binding(a1.cell(1, 2)) == {"x": "bus"}
    assert a2.binding(Cell(0, (1,), 0)) == {"x": "bus", "y": "here"}
    with pytest.raises(DataError, match="there is no row 2: there are 0 to 1"):
        a1.cell(2, 0)
    with pytest.raises(DataError, match="there is no column 3: there are 0 to 2"):
        a1.cell(0, 3)


@pytest.mark.parametrize(
    ("axiom", "binding", "more", "message"),
    [
        ("A1", {"x": "buss"}, {}, "no entity of sort 'agent' is named 'buss'; did you mean 'bus'"),
        ("A1", {}, {}, "'x' is not bound; its variables are 'x'"),
        ("A1", {"x": "bus", "z": "bus"}, {}, "'z' is not a variable of the rule"),
        ("A2", {"x": "bus", "y": "there"}, {}, r"\(bus, there\) is not a tuple of the relation"),
        ("A1", {"x": "bus"}, {"time": 3}, "the time point 3 does not exist: there are 0 to 2"),
        ("A1", {"x": "bus"}, {"trace": "dai"}, "no trace is named 'dai'; did you mean 'day'"),
        ("A1", {"x": "bus"}, {"trace": 1}, "there is no trace 1: there are 0 to 0"),
    ],
)
def test_cells_that_there_are_not(axiom, binding, more, message):
    with pytest.raises(DataError, match=message):
        cells(axiom).find(binding, **more)


def test_an_axiom_that_there_is_not():
    with pytest.raises(DataError, match="no axiom 'A4'; available: 'A1', 'A2', 'A3'"):
        cells("A4")


def test_names_must_fit_the_tables():
    with pytest.raises(DataError, match="the sort 'agent' has 2 entities, but 1 names"):
        fotltn.tables(THEORY, TABLES, entities={"agent": ["ego"]})
    with pytest.raises(DataError, match="there are 1 traces, but 2 names"):
        fotltn.tables(THEORY, TABLES, traces=["day", "night"])
    names = {"agent": ["ego", "bus"], "place": ["here", "there"]}
    tables = fotltn.tables(THEORY, {**TABLES, **PAIRS}, entities=names, traces=["day"])
    assert tables.names == NAMES


A1 = THEORY.axiom("A1")
WITH_THRESHOLD = {
    "cells": lambda tables, t: View(tables, STABLE, t).cells(A1),
    "violations": lambda tables, t: violations(A1, tables, STABLE, threshold=t),
    "counterexample": lambda tables, t: counterexample(A1, tables, threshold=t),
    "rules": lambda tables, t: View(tables, threshold=t, theory=THEORY).rules(resamples=0),
    "audit": lambda tables, t: View(
        tables, STABLE, learned=["Stop"], threshold=t, theory=THEORY
    ).audit(),
    "satisfaction": lambda tables, t: View(tables, CRISP, t, theory=THEORY).satisfaction(),
    "ask": lambda tables, t: View(tables, CRISP, threshold=t).ask("Stop(x)"),
}


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5, math.nan])
@pytest.mark.parametrize("call", WITH_THRESHOLD.values(), ids=WITH_THRESHOLD)
def test_a_threshold_is_one_that_some_degrees_are_above_and_others_not(call, threshold):
    with pytest.raises(DataError, match="a threshold must be above 0 and at most 1"):
        call(made(), threshold)


def test_satisfactions_are_what_evaluate_gives():
    found = View(made(), STABLE.with_p(2), theory=THEORY).satisfaction()
    assert [a.name for a in found] == ["A1", "A2", "A3"]
    tables = {n: torch.as_tensor(t) for n, t in TABLES.items()}
    for axiom in THEORY.axioms:
        value = evaluate(axiom.source, tables, theory=THEORY, p=2, relations=PAIRS)
        assert found[axiom.name] == pytest.approx(value.item(), rel=1e-6)
    assert json.dumps(found.as_dict())
    with pytest.raises(DataError, match="no axiom 'B'"):
        found["B"]
    assert View(made(), CRISP, theory=THEORY).satisfaction()["A1"] in (0.0, 1.0)


def test_an_explanation_is_all_of_its_parts():
    a1, cell = cells("A1"), Cell(0, (0,), 2)
    found = why(a1, cell, fixed=["Car"])
    assert found.tree == explain(a1, cell)
    assert found.timelines == timelines(a1, cell)
    assert found.influence == influence(a1, cell, fixed=["Car"])
    assert found.repair == repair(a1, cell, fixed=["Car"])
    assert (found.binding, found.place) == ({"x": "ego"}, "x = ego, time 2")
    shown = json.loads(json.dumps(found.as_dict()))
    assert (shown["rule"], shown["time"], shown["truth"]) == ("A1", 2, False)
    assert shown["repair"]["flips"][0]["fact"] == "Stop(ego)"


def test_cells_with_exact_shares_keep_the_means_that_differ():
    mixed, errors = shared_cells(cells("A1", replace(STABLE, always=PMean(2))))
    assert (text_of(mixed.body), errors.p) == ("G(Car(x) -> F Stop(x))", 4)
    assert shared_cells(cells("A1"))[0].body == cells("A1").body


def test_numbers_stand_for_entities_without_names():
    heat = truth_over_time(cells("A1", names=Names()))
    assert {row.binding["x"] for row in heat.worst(2)} == {"agent#0", "agent#1"}
    assert not math.isnan(heat.worst(1)[0].lowest)
