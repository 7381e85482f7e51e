"""Rules, cells by name, subjects from tables, satisfactions, and all of an explanation together."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from fotltn.analysis.explain.text import text_of, written

from fotltn import evaluate, parse_theory
from fotltn.analysis.explain import (
    Cell,
    Subject,
    explain,
    find_cell,
    influence,
    repair,
    rule_of,
    satisfaction,
    shared_rule,
    subject_of,
    timelines,
    truth_over_time,
    why,
)
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.check import check, check_formula
from fotltn.semantics.config import CRISP, PMean
from fotltn.semantics.config import STABLE_PRODUCT as STABLE
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder
from tests.random_cases import SIGNATURE, random_case

THEORY = """
sort agent
sort place
static predicate Car(agent)
predicate Stop(agent), At(agent, place)
relation pairs(agent, place)
axiom A1: forall x. G(Car(x) -> F Stop(x))
axiom A2 weight 2: forall (x, y) in pairs. G(At(x, y) -> Stop(x))
axiom A3: forall x. Car(x) -> Stop(x)
"""
TABLES = {
    "Car": [1.0, 0.2],
    "Stop": [[0.1, 0.9, 0.3], [0.4, 0.0, 0.2]],
    "At": torch.arange(12).reshape(2, 2, 3) / 12,
}
NAMES = {"agent": ["ego", "bus"], "place": ["here", "there"]}
PAIRS = {"pairs": torch.tensor([[0, 1], [1, 0]])}


def made(**more) -> Subject:
    return subject_of(parse_theory(THEORY), TABLES, entities=NAMES, relations=PAIRS, **more)


def rule(name: str):
    return rule_of(check(parse_theory(THEORY)).axiom(name))


def test_rules_take_off_what_binds():
    a1, a3 = rule("A1"), rule("A3")
    assert (a1.name, a1.variables, a1.timed) == ("A1", ("x",), True)
    assert text_of(a1.body) == "Car(x) -> F Stop(x)"
    assert a1.text == "forall x. G(Car(x) -> F Stop(x))"
    assert str(a1.formula) == a1.text
    assert (a3.timed, text_of(a3.body)) == (False, "Car(x) -> Stop(x)")
    assert rule("A2").variables == ("x", "y")


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
    subject = made(traces=["day"])
    assert find_cell(rule("A1"), subject, {"x": "bus"}, 2, "day") == Cell(0, (1,), 2)
    assert find_cell(rule("A2"), subject, {"x": "bus", "y": "here"}) == Cell(0, (1,), 0)


@pytest.mark.parametrize(
    ("axiom", "binding", "more", "message"),
    [
        ("A1", {"x": "buss"}, {}, "no entity of sort 'agent' is named 'buss'; did you mean 'bus'"),
        ("A1", {}, {}, "'x' is not bound; its variables are 'x'"),
        ("A1", {"x": "bus", "z": "bus"}, {}, "'z' is no variable of the rule"),
        ("A2", {"x": "bus", "y": "there"}, {}, r"\(bus, there\) is no tuple of the relation"),
        ("A1", {"x": "bus"}, {"time": 3}, "the time point 3 does not exist: there are 0 to 2"),
        ("A1", {"x": "bus"}, {"trace": "dai"}, "no trace is named 'dai'; did you mean 'day'"),
        ("A1", {"x": "bus"}, {"trace": 1}, "there is no trace 1: there are 0 to 0"),
    ],
)
def test_cells_that_there_are_not(axiom, binding, more, message):
    with pytest.raises(DataError, match=message):
        find_cell(rule(axiom), made(traces=["day"]), binding, **more)


def test_an_axiom_that_there_is_not():
    with pytest.raises(DataError, match="no axiom 'A4'; there are 'A1', 'A2', 'A3'"):
        rule("A4")


def test_names_must_fit_the_tables():
    with pytest.raises(DataError, match="the sort 'agent' has 2 entities, but 1 names"):
        subject_of(parse_theory(THEORY), TABLES, entities={"agent": ["ego"]}, relations=PAIRS)
    with pytest.raises(DataError, match="a threshold lies above 0"):
        made(threshold=0.0)


def test_satisfactions_are_what_evaluate_gives():
    subject, theory = made(p=2), check(parse_theory(THEORY))
    found = satisfaction(theory, subject)
    assert [a.name for a in found] == ["A1", "A2", "A3"]
    tables = {n: torch.as_tensor(t) for n, t in TABLES.items()}
    for axiom in theory.axioms:
        value = evaluate(axiom.source, tables, theory=theory, p=2, relations=PAIRS)
        assert found[axiom.name] == pytest.approx(value.item(), rel=1e-6)
    assert json.dumps(found.as_dict())
    with pytest.raises(DataError, match="no axiom 'B'"):
        found["B"]
    assert satisfaction(theory, made(semantics=CRISP))["A1"] in (0.0, 1.0)


def test_an_explanation_is_all_of_its_parts():
    subject, a1 = made(), rule("A1")
    cell = Cell(0, (0,), 2)
    found = why(a1, subject, cell, fixed=["Car"])
    assert found.tree == explain(a1, subject, cell)
    assert found.timelines == timelines(a1, subject, cell)
    assert found.influence == influence(a1, subject, cell, fixed=["Car"])
    assert found.repair == repair(a1, subject, cell, fixed=["Car"])
    assert (found.binding, found.place) == ({"x": "ego"}, "x = ego, time 2")
    shown = json.loads(json.dumps(found.as_dict()))
    assert (shown["rule"], shown["time"], shown["truth"]) == ("A1", 2, False)
    assert shown["repair"]["flips"][0]["fact"] == "Stop(ego)"


def test_rules_with_exact_shares_keep_the_means_that_differ():
    theory = check(parse_theory(THEORY))
    subject = made(semantics=replace(STABLE, always=PMean(2)))
    assert text_of(shared_rule(theory.axiom("A1"), subject).body) == "G(Car(x) -> F Stop(x))"
    assert shared_rule(theory.axiom("A1"), made()).body == rule("A1").body


def test_numbers_stand_for_entities_without_names():
    subject = subject_of(parse_theory(THEORY), TABLES, relations=PAIRS)
    heat = truth_over_time(rule("A1"), subject)
    assert {row.binding["x"] for row in heat.worst(2)} == {"agent#0", "agent#1"}
    assert not math.isnan(heat.worst(1)[0].lowest)
