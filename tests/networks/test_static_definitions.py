"""Static predicates that formulas define: the value at the first point, and what it is good for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.decisions import rounded
from fotltn.logic.check import check_formula
from fotltn.networks.parts import Batches, parts
from fotltn.networks.predicates import Defined, Logits, Network, mlp
from fotltn.semantics import reference
from fotltn.semantics.config import LOG_PRODUCT, PRODUCT, STABLE_PRODUCT
from fotltn.syntax.parse import parse_formula
from tests.networks.common import AGENTS, HORIZON, TRACES, draw, gen, grounding, theory, world

FORMULAS = [
    "F Stop(x)",
    "G (Stop(x) -> X Run(x))",
    "Stop(x)",
    "Ped(x)",
    "Ped(x) & Stop(x) U Run(x)",
    "O Stop(x) & first",
    "last",
    "true",
    "speed(x) > 0.5",
    "exists y. F (Close(x, y) & Crossing(y))",
    "Alarm",
    "!Ped(x) & Car(x)",
]


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, PRODUCT, LOG_PRODUCT])
@pytest.mark.parametrize("formula", FORMULAS)
def test_values_and_slopes_are_those_of_the_formula_at_the_first_point(formula, semantics):
    """Traces differ in length, so that what F and G see does, too."""
    signature = theory().signature
    learned = {"Stop": Logits((TRACES, AGENTS, HORIZON), scale=1.0, generator=gen(1))}
    # The predicate is declared static here, and depends on none that is.
    declared = replace(
        signature,
        predicates={
            **signature.predicates,
            "Danger": replace(signature.predicates["Danger"], static=True),
        },
    )
    ground = grounding(
        {**learned, "Danger": Defined(("x",), formula, semantics)}, signature=declared
    ).double()
    tables = ground()
    table = tables.predicate("Danger")
    assert table.shape[-1] == 1
    stop = tables.predicate("Stop").detach().requires_grad_()
    rest = replace(tables, predicates={**tables.predicates, "Stop": stop})
    checked = check_formula(parse_formula(formula), signature)
    value = reference.evaluate(checked.formula, rest, semantics, dtype=torch.float64)
    tensor = value.tensor.exp() if semantics.log_space else value.tensor
    tensor = tensor if value.axes else tensor.unsqueeze(1)
    expected = tensor[..., :1].expand(TRACES, AGENTS, 1)
    assert torch.allclose(table.expand_as(expected), expected, atol=1e-9)
    if "Stop" in formula:
        weights = draw(TRACES, AGENTS, 1, seed=5)
        (wanted,) = torch.autograd.grad((expected * weights).sum(), stop)
        inputs = tables.predicate("Stop")
        (slope,) = torch.autograd.grad((table * weights).sum(), inputs)
        assert torch.allclose(slope, wanted, atol=1e-9)


def test_others_may_use_it_at_every_point():
    ground = grounding(
        {
            "Stop": Network(mlp(3, generator=gen(1))),
            "Car": Defined(("x",), "F Stop(x)"),
            "Danger": Defined(("x",), "Car(x) & Run(x)"),
            "Ped": Defined(("x",), "G !Danger(x)"),
        }
    )
    tables = ground()
    assert [*ground.definitions] == ["Car", "Danger", "Ped"]
    assert tables.predicate("Car").shape == (TRACES, AGENTS, 1)
    assert tables.predicate("Ped").shape == (TRACES, AGENTS, 1)
    danger = tables.predicate("Car") * world(dtype=torch.float64).predicate("Run")
    assert torch.allclose(tables.predicate("Danger"), danger, atol=1e-9)
    assert ground.open == ("Car", "Ped", "Stop", "Danger")
    decided = rounded(replace(tables, decisions=ground.decisions()))
    stops = decided.predicate("Stop") * decided.inside.unsqueeze(1)
    assert torch.equal(decided.predicate("Car"), stops.amax(-1, keepdim=True))


@pytest.mark.parametrize("batches", [Batches("traces", 1), Batches("entities", 2, "agent")])
def test_parts_of_the_data_have_their_own(batches):
    learned = Logits((TRACES, AGENTS, HORIZON), scale=1.0, generator=gen(1))
    ground = grounding({"Stop": learned, "Car": Defined(("x",), "F Stop(x)")})
    every = ground().predicate("Car")
    for part in parts(batches, ground.fixed, ground.signature, {}, gen()):
        assert part is not None
        table = ground(part).predicate("Car")
        assert torch.allclose(table, part.pick(every, ("agent",)), atol=1e-9)


THEORY = """
sort robot
predicate Faulty(robot)
static predicate Worn(robot)
axiom Rare: forall r. G(Faulty(r) -> WX !Faulty(r))
"""
FACTS = {
    "predicate": ["Faulty"] * 6 + ["Worn", "Worn"],
    "arg1": ["a", "a", "a", "b", "b", "b", "c", "b"],
    "time": [0, 1, 2, 0, 1, 2, None, None],
    "truth": [0, 1, 0, 0, 0, 0, 1, 0],
}


def test_models_learn_from_it_and_keep_it(tmp_path):
    model = fotltn.train(
        THEORY, facts=FACTS, predicates={"Faulty": "logits"}, define={"Worn(r)": "F Faulty(r)"},
        semantics="product", training={"epochs": 200, "rate": 0.1}, objective={"preset": "recipe"},
    )  # fmt: skip
    worn = model.ask("Worn(r)").tensor.flatten()
    assert [*model.facts.entities["robot"]] == ["a", "b", "c"]
    assert (worn > 0.5).tolist() == [True, False, True]  # of c, nothing else is known
    assert torch.allclose(model.ask("F Faulty(r)", semantics="product").tensor.flatten(), worn)
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert torch.equal(again.tables.predicate("Worn"), model.tables.predicate("Worn"))
    assert again.predictions().equals(model.predictions())
    assert torch.equal(again.truth.predicate("Worn"), model.truth.predicate("Worn"))
