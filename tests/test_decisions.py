"""From degrees to truth in one way: what is defined follows from the rest, on every screen."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial

import pytest
import torch
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.decisions import decision_rule, rounded, rule_of, threshold_of, two_valued
from fotltn.logic.check import CheckedFormula, check
from fotltn.logic.defined import definitions_in
from fotltn.logic.parts import predicates_in
from fotltn.reporting.model_report import model_content
from fotltn.semantics import crisp
from fotltn.semantics.tables import Decisions
from fotltn.syntax import theory as th
from fotltn.web.sides import side_of
from fotltn.web.state import WebState
from tests.logic.test_defined import random_axioms, with_definitions
from tests.project import robots
from tests.semantics import worlds

# --- tables -----------------------------------------------------------------------------------


def test_definitions_hold_whatever_the_degrees_and_thresholds_are():
    """On random theories and tables; the truth is that of an evaluation step by step."""
    held = apart = 0
    for seed in range(60):
        rng = random.Random(seed)
        batch = worlds.random_batch(rng, rng.random)
        written = [a for _ in range(3) for a in random_axioms(rng, batch[0].sizes)]
        axioms = [th.Axiom(f"A{n}", a, hard=True) for n, a in enumerate(written)]
        theory = check(replace(worlds.THEORY.source, axioms=tuple(axioms)))
        definitions = definitions_in(theory, [*worlds.SOFT])
        formulas = {
            name: CheckedFormula(d.formula, d.axes, theory.signature)
            for name, d in definitions.by_name.items()
        }
        thresholds = {name: rng.uniform(0.1, 0.9) for name in rng.sample([*worlds.SOFT], 2)}
        tables = replace(
            worlds.tables_of(written[0], batch), decisions=Decisions(thresholds, formulas)
        )
        threshold = rng.choice([None, 0.3, 0.5])
        truth = rounded(tables, threshold)
        assert truth.decisions is None
        each = {
            n: (tables.predicate(n) >= (threshold or thresholds.get(n, 0.5))).double()
            for n in tables.predicates
        }
        expected = with_definitions(definitions, replace(tables, predicates=each, decisions=None))
        inside = tables.inside
        for name in tables.predicates:
            mine, theirs = truth.predicate(name), expected.predicate(name)
            mask = inside if mine.shape[-1] > 1 else inside[:, :1]
            mask = mask.reshape(mask.shape[0], *[1] * (mine.dim() - 2), mask.shape[-1])
            assert torch.equal(mine.double() * mask, theirs.double() * mask), (seed, name)
        for name in definitions.axioms:
            formula = theory.axiom(name).formula
            used = two_valued(tables, threshold, predicates_in(formula))
            assert bool(crisp.evaluate(formula, used).tensor[..., 0].all()), seed
            alone = crisp.evaluate(formula, replace(tables, predicates=each))
            apart += not bool(alone.tensor[..., 0].all())
            held += 1
    assert held > 30
    assert apart > 10  # decided each by itself, they would be violated


def test_words_and_numbers_say_how():
    rule = decision_rule({"A": 0.5, "B": 0.25, "C": None, "D": None})
    assert str(rule) == (
        "degrees of at least 0.5 are true, for B at least 0.25; C, D follow by definition"
    )
    assert rule.as_dict() == {"threshold": 0.5, "thresholds": {"B": 0.25}, "defined": ["C", "D"]}
    assert not rule.plain
    assert decision_rule({}).plain
    assert str(decision_rule({"A": 0.3, "B": 0.3})) == "degrees of at least 0.3 are true"


# --- screens ----------------------------------------------------------------------------------

THEORY = """
sort robot
predicate Faulty(robot), Near(robot, robot), Slow(robot), Alarmed(robot)
static predicate Worn(robot)
axiom Is: forall r. G(Alarmed(r) <-> exists q. Near(r, q) & Faulty(q))
axiom Wear: forall r. Worn(r) <-> F Faulty(r)
axiom Signs: forall r. G(Alarmed(r) -> Slow(r))
"""
DEFINED = ("Is", "Wear")
ROBOTS, TIMES = 6, 12
COLUMNS = ("predicate", "arg1", "arg2", "time", "truth")


@pytest.fixture(scope="module", params=[{}, {"Faulty": 0.45, "Slow": 0.6}])
def model(request):
    """Definitions by means, under which one witness of many is hardly true; random degrees."""
    rng = random.Random(1)
    names, times = [f"r{i}" for i in range(ROBOTS)], range(TIMES)
    rows: list[tuple[object, ...]] = [
        ("Near", one, other, time, 1)
        for one in names for other in names for time in times if rng.random() < 0.5
    ]  # fmt: skip
    rows += [
        (predicate, one, None, time, int(rng.random() < 0.4))
        for predicate in ("Faulty", "Slow", "Alarmed") for one in names for time in times
    ]  # fmt: skip
    columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    model = fotltn.train(
        THEORY, facts=columns, predicates={"Faulty": "logits", "Slow": "logits"},
        define={"Alarmed(r)": "exists q. Near(r, q) & Faulty(q)", "Worn(r)": "F Faulty(r)"},
        data={"train": 0.5}, training={"epochs": 1},
    )  # fmt: skip
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.grounding.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) - 0.5)
    model._tables, model.thresholds = None, request.param
    return model


def test_each_by_itself_a_definition_would_be_violated(model):
    alone = replace(model.tables, decisions=None)
    for name in DEFINED:
        assert fotltn.cells(model.theory.axiom(name).source, alone).worst().violated


@pytest.mark.parametrize("threshold", [None, 0.4])
def test_no_screen_shows_a_violation_of_a_definition(model, threshold):
    audit = model.audit(threshold=threshold)
    rules = {r.name: r.overall for r in model.view().under(threshold=threshold).rules(resamples=0)}
    content = {a.audit.name: a for a in model_content(model, "m", threshold=threshold).axioms}
    state = WebState([side_of(model).under(threshold=threshold)], budget=2**28)
    for name in DEFINED:
        cells = model.cells(name, threshold=threshold)
        assert cells.worst().violated == 0
        assert cells.over_time().violated == 0
        assert model.counterexample(name, threshold=threshold) is None
        assert audit.axiom(name).on_model.violated == 0
        assert rules[name].confidence.value == 1
        assert content[name].audit.on_model.violated == content[name].worst.violated == 0
        assert state._see(0, name).standing.violated == 0
        text = str(model.theory.axiom(name).source)
        assert bool(model.ask(text, semantics="crisp", threshold=threshold).tensor.all())
        value = fotltn.evaluate(text, model.tables, semantics="crisp", threshold=threshold)
        assert bool(value.all())
        ranked = model.worst(threshold=threshold)
        assert all(one.axiom != name for one in ranked if one.cell.violated)
    assert audit.axiom("Signs").on_model.violated > 0  # others may well be


def test_explanations_and_repairs_go_by_the_same_truth(model):
    decided = model.decided()
    worst = model.cells("Signs").worst(5)
    assert worst.violated
    for one in worst[: min(5, worst.violated)]:
        explained = model.why("Signs", one.binding, time=one.time)
        robot = model.facts.entities["robot"].index(one.binding["r"])
        assert decided.predicate("Alarmed")[0, robot, one.time] == 1
        assert decided.predicate("Slow")[0, robot, one.time] == 0
        for flip in explained.repair.flips:
            assert flip.becomes == (flip.predicate == "Slow")


def test_accuracy_is_that_of_decisions_and_says_which(model):
    report, labels, decided = model.metrics(), model.world.test, model.decided()
    for name in ("Faulty", "Slow", "Alarmed"):
        index, truth = labels.index[name], labels.truth[name]
        right = (decided.predicate(name)[tuple(index)] == truth).double().mean()
        assert report.predicates[name].accuracy.value == pytest.approx(float(right))
    limits = {name: one.threshold for name, one in report.predicates.items()}
    assert limits == {"Faulty": model.thresholds.get("Faulty", 0.5), "Alarmed": None,
                      "Slow": model.thresholds.get("Slow", 0.5)}  # fmt: skip
    assert threshold_of(model.tables, "Faulty", 0.4) == 0.4
    # The degree of what is defined ranks as it did.
    degrees = model.tables.predicate("Alarmed")[tuple(labels.index["Alarmed"])]
    assert model.scores()["Alarmed"][1].tolist() == degrees.tolist()


def test_new_thresholds_of_a_model_count_at_once(model):
    before, model.thresholds = model.thresholds, {"Faulty": 0.99}
    assert threshold_of(model.tables, "Faulty") == 0.99
    assert rule_of(model.tables).defined == ("Alarmed", "Worn")
    assert int(model.decided().predicate("Faulty").sum()) == int(
        (model.tables.predicate("Faulty") >= 0.99).sum()
    )
    model.thresholds = before


def test_facts_that_state_nothing_of_what_is_defined_agree_with_it(model):
    """Where no fact states it, a definition speaks of the facts."""
    truth = model.truth
    assert [*truth.decisions.definitions] == ["Worn"]
    assert model.audit().axiom("Wear").on_labels.violated == 0
    assert model.audit().axiom("Is").on_labels.violated > 0  # facts state Alarmed otherwise


def test_a_posterior_decides_alike(tmp_path):
    """Shares of worlds are decided, and what is defined follows from these, not from its share."""
    folder = robots.project(tmp_path)
    run = partial(CliRunner().invoke, app)
    assert run(["train", str(folder)]).exit_code == 0
    scored = json.loads(run(["score", str(folder), "--json"]).stdout)
    assert scored["defined"] == ["Alarm", "Worn", "Idle"]
    axioms = {a["axiom"]: a for a in scored["axioms"]["axioms"]}
    assert axioms["Loud"]["on_model"]["violations"] == 0
    assert axioms["Wear"]["on_model"]["violations"] == 0
    text = run(["score", str(folder)]).stdout
    assert "degrees of at least 0.5 are true; Alarm, Worn, Idle follow by definition" in text
    shown = run(["violations", str(folder), "Loud", "--crisp"]).stdout
    assert shown.startswith("Loud: true, where degrees of at least 0.5 are true; Alarm, Worn, Idle")
