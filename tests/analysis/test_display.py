"""What notebooks show of theories, answers, violations, heat maps, explanations and models."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.analysis.cells import Cell
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.metrics import report
from fotltn.analysis.over_time import truth_over_time
from fotltn.analysis.view import View
from fotltn.logic.check import check
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.from_tensors import tables_of_tensors
from fotltn.semantics.tables import Names
from fotltn.syntax.load import parse_theory
from fotltn.syntax.notebook import MOST, table
from fotltn.syntax.show import show
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
    tables = tables_of_tensors(theory.signature, TABLES)
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
    assert html.escape(show(theory.axioms[0].source, "unicode")) in found
    assert found == parse_theory(THEORY)._repr_html_()


def test_satisfactions_are_a_table(theory, tables):
    found = View(tables, STABLE_PRODUCT, theory=theory).satisfaction()
    assert f"{found['A1']:.3f}" in shown(found)
    assert "no axioms" in shown(
        View(tables, STABLE_PRODUCT, theory=check(parse_theory("sort s"))).satisfaction()
    )


def test_an_answer_is_a_row_for_each_binding(tables):
    found = shown(View(tables, STABLE_PRODUCT).ask("Near(x)", at="all"))
    assert found.count("<img") == 2
    assert [p[3] for p in pixels(found)] == [255, 51, 0]
    assert "&lt;script&gt;" in found
    unnamed = replace(tables, names=Names())
    now = shown(View(unnamed, STABLE_PRODUCT).ask("F Near(x)"))
    assert "agent#0" in now
    assert "<img" not in now
    whole = shown(View(tables, STABLE_PRODUCT).ask("forall x. Near(x)"))
    assert whole.count("<tr") == 2


def test_long_answers_are_cut(theory):
    big = tables_of_tensors(
        theory.signature, {"Near": torch.rand(80, 2), "Stop": torch.rand(80, 2)}
    )
    found = shown(View(big, STABLE_PRODUCT).ask("Near(x)", at="all"))
    assert found.count("<img") == 50
    assert "30 more rows" in found


def test_answers_of_several_traces_say_which(theory):
    predicates = {"Near": torch.rand(2, 1, 3), "Stop": torch.rand(2, 1, 3)}
    two = tables_of_tensors(theory.signature, predicates, lengths=[3, 1])
    two = replace(two, names=Names(traces=("a", "b")))
    found = shown(View(two, STABLE_PRODUCT).ask("Near(x)", at="all"))
    assert "<th" in found
    assert len(pixels(found[found.index(">b<") :])) == 1


def test_violations_are_a_table(theory, tables):
    found = violations(theory.axiom("A1"), tables, STABLE_PRODUCT)
    table = shown(found)
    assert table.count("<tr") == 1 + len(found)
    assert "A1: value" in table
    assert "&lt;script&gt;" in table


def test_a_heat_map_has_a_strip_for_each_of_the_worst_rows(theory, tables):
    heat = truth_over_time(View(tables, STABLE_PRODUCT).cells(theory.axioms[0]))
    found = shown(heat)
    assert found.count("<img") == 2
    worst = heat.values[int(heat.order[0])]
    assert [p[3] for p in pixels(found)] == [round(255 * (1 - float(u))) for u in worst]
    assert html.escape(show(theory.axioms[0].source, "unicode")) in found
    assert f"{heat.violated} of 6 cells are violated" in found


def test_an_explanation_has_tree_strips_facts_and_repair(theory, tables):
    found = why(View(tables, STABLE_PRODUCT).cells(theory.axioms[0]), Cell(0, (0,), 0))
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
    assert "$" not in found  # formulas need no renderer
    assert repr(model.history).startswith("<2 epochs: loss ")
    assert repr(model.history[:1]).startswith("(Epoch(number=1,")
    assert model.fixed == ("Near",)
    answer = model.ask("Stop(x)", at="all")
    assert shown(answer).count("ego") >= 1
    assert re.fullmatch(r"<Stop\(x\): 2 values from 0\.\d{3} to 0\.\d{3}>", repr(answer))
    listed = repr(model.violations("A1", top=1))
    assert re.fullmatch(
        r"<A1: value 0\.\d{3}; \d of 2 cells (is|are) violated, .*; 1 listed>", listed
    )
    reason = model.why("A1", {"x": "ego"}, time=0)
    heat = model.truth_over_time("A1")
    assert reason.tree.value == pytest.approx(float(heat.values[0, 0]), abs=1e-6)
    assert {fact.predicate for fact in reason.influence} == {"Stop"}
    assert {f.predicate for f in model.why("A1", {"x": "ego"}, fixed=()).influence} == {
        "Near",
        "Stop",
    }


def test_metrics_are_a_line_and_a_table():
    scores = {"Stop": ([1, 0, 1], [0.9, 0.2, 0.7]), "Run": ([0, 1], [0.1, 0.6])}
    measured = report(scores)
    assert repr(measured) == "<metrics of 2 predicates, 5 facts: mean PR-AUC 1.000, chance 0.583>"
    assert repr(report({"Stop": ([1], [0.9])})).startswith("<metrics of 1 predicate, 1 fact: ")
    page = shown(measured)
    assert page.count("<tr") == 4
    assert "0.583" in page


def test_long_tables_are_cut_with_a_count():
    page = table(["number"], ([n] for n in range(MOST + 7)))
    assert page.count("<tr") == 1 + MOST
    assert "7 more rows" in page
