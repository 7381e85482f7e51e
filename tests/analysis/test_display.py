"""What notebooks show of theories, answers, violations, heat maps, explanations and models."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.analysis.ask import ask
from fotltn.analysis.cells import Cell, cells_of
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.satisfaction import satisfaction
from fotltn.logic.check import check
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.from_tensors import interpret
from fotltn.semantics.tables import Names
from fotltn.syntax.load import parse_theory
from tests.analysis.scenes import violations
from tests.syntax.test_notebook import pixels, words

THEORY = """
sort agent
predicate Near(agent), Stop(agent)
axiom A1 weight 2: forall x. G(Near(x) -> WX Stop(x))
"""
TABLES = {"Near": torch.tensor([[1.0, 0.2, 0.0], [0.6, 0.5, 0.4]]), "Stop": torch.zeros(2, 3)}
ODD = "<script>alert('&')</script>"


@pytest.fixture
def theory():
    return check(parse_theory(THEORY))


@pytest.fixture
def tables(theory):
    tables = interpret(theory.signature, TABLES)
    return replace(tables, names=Names(entities={"agent": (ODD, "bus")}))


def shown(value) -> str:
    """The HTML of a value, which is well-formed and has nothing of a hostile name in it."""
    found: str = value._repr_html_()
    assert "<script" not in found
    words(found)
    return found


def test_a_checked_theory_is_its_declarations_and_axioms(theory):
    found = shown(theory)
    assert "sort agent\npredicate Near(agent)\npredicate Stop(agent)" in found
    assert html.escape(theory.axioms[0].source._repr_latex_()) in found
    assert found == parse_theory(THEORY)._repr_html_()


def test_satisfactions_are_a_table(theory, tables):
    found = satisfaction(theory, tables, STABLE_PRODUCT)
    assert f"{found['A1']:.3f}" in shown(found)
    assert "no axioms" in shown(satisfaction(check(parse_theory("sort s")), tables, STABLE_PRODUCT))


def test_an_answer_is_a_row_for_each_binding(tables):
    found = shown(ask("Near(x)", tables, STABLE_PRODUCT, at="all"))
    assert found.count("<img") == 2
    assert [p[3] for p in pixels(found)] == [255, 51, 0]
    assert "&lt;script&gt;" in found
    unnamed = replace(tables, names=Names())
    now = shown(ask("F Near(x)", unnamed, STABLE_PRODUCT))
    assert "agent#0" in now
    assert "<img" not in now
    whole = shown(ask("forall x. Near(x)", tables, STABLE_PRODUCT))
    assert whole.count("<tr") == 2


def test_long_answers_are_cut(theory):
    big = interpret(theory.signature, {"Near": torch.rand(80, 2), "Stop": torch.rand(80, 2)})
    found = shown(ask("Near(x)", big, STABLE_PRODUCT, at="all"))
    assert found.count("<img") == 50
    assert "30 more rows" in found


def test_answers_of_several_traces_say_which(theory):
    predicates = {"Near": torch.rand(2, 1, 3), "Stop": torch.rand(2, 1, 3)}
    two = interpret(theory.signature, predicates, lengths=[3, 1])
    two = replace(two, names=Names(traces=("a", "b")))
    found = shown(ask("Near(x)", two, STABLE_PRODUCT, at="all"))
    assert "<th" in found
    assert len(pixels(found[found.index(">b<") :])) == 1


def test_violations_are_a_table(theory, tables):
    found = violations(theory.axiom("A1"), tables, STABLE_PRODUCT)
    table = shown(found)
    assert table.count("<tr") == 1 + len(found)
    assert "A1: value" in table
    assert "&lt;script&gt;" in table


def test_a_heat_map_has_a_strip_for_each_of_the_worst_rows(theory, tables):
    heat = truth_over_time(cells_of(theory.axioms[0], tables, STABLE_PRODUCT))
    found = shown(heat)
    assert found.count("<img") == 2
    worst = heat.values[int(heat.order[0])]
    assert [p[3] for p in pixels(found)] == [round(255 * (1 - float(u))) for u in worst]
    assert html.escape(theory.axioms[0].source._repr_latex_()) in found
    assert f"{heat.violated} of 6 cells are false" in found


def test_an_explanation_has_tree_strips_facts_and_repair(theory, tables):
    found = why(cells_of(theory.axioms[0], tables, STABLE_PRODUCT), Cell(0, (0,), 0))
    page = shown(found)
    assert "Smallest repair:" in page
    assert "no smaller set of facts will do" in page
    assert page.count("<li>") == sum(1 for _ in found.tree.levels())
    assert page.count("<img") == sum(not line.static for line in found.timelines)


def test_a_model_shows_how_far_its_axioms_hold():
    facts = {
        "predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 1], "truth": [1, 0],
    }  # fmt: skip
    model = fotltn.train(THEORY, facts=facts, learn=["Stop"], training={"epochs": 2})
    found = shown(model)
    assert "Model of Stop:" in found
    assert "2 epochs" in found
    assert f"{model.satisfaction()['A1']:.3f}" in found
    assert model.fixed == ("Near",)
    assert shown(model.ask("Stop(x)", at="all")).count("ego") >= 1
    reason = model.why("A1", {"x": "ego"}, time=0)
    heat = model.truth_over_time("A1")
    assert reason.tree.value == pytest.approx(float(heat.values[0, 0]), abs=1e-6)
    assert {fact.predicate for fact in reason.influence} == {"Stop"}
    assert {f.predicate for f in model.why("A1", {"x": "ego"}, fixed=()).influence} == {
        "Near",
        "Stop",
    }
