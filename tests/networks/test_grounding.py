"""Groundings: every symbol by its own means, and definitions against the reference evaluator."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fotltn.decisions import rounded
from fotltn.grounding.features import Features
from fotltn.logic.check import check_formula
from fotltn.logic.signature import build_signature
from fotltn.networks.encoders import Embeddings, FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import DataRule, Defined, Logits, Network, Softmax, mlp
from fotltn.semantics import reference
from fotltn.semantics.config import GODEL, LOG_PRODUCT, LUKASIEWICZ, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable, sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.networks.common import (
    AGENTS,
    HORIZON,
    LENGTHS,
    PLACES,
    TRACES,
    draw,
    embeddings,
    gen,
    grounding,
    theory,
    world,
)

NEAR = "Y (exists y. Ped(y) & Crossing(y) & Close(x, y))"


def stated(table):
    """A predicate whose table is known."""
    return DataRule(lambda _model, _features: table)


def defined(name, formula, *variables, **options):
    """A grounding that defines one predicate, and its table."""
    ground = grounding({name: Defined(variables, formula, **options)})
    return ground().predicates[name]


def by_equations(formula, variables, model, semantics=STABLE_PRODUCT):
    """A table of a formula by the reference evaluator."""
    checked = check_formula(parse_formula(formula), theory().signature)
    value = reference.evaluate(checked.formula, model, semantics, dtype=torch.float64)
    tensor = value.tensor
    names = [axis.name for axis in value.axes]
    order = [0, *(1 + names.index(v) for v in variables if v in names), tensor.dim() - 1]
    tensor = tensor.permute(order)
    for place, variable in enumerate(variables):
        if variable not in names:
            tensor = tensor.unsqueeze(1 + place)
    return tensor.exp() if semantics.log_space else tensor


def same_inside(found, expected):
    """Equal at all points inside of the traces, after broadcasting."""
    found, expected = torch.broadcast_tensors(found, expected)
    for trace, length in enumerate(LENGTHS):
        own = min(length, found.shape[-1])
        at = min(trace, found.shape[0] - 1)
        assert torch.allclose(found[at, ..., :own], expected[at, ..., :own], atol=1e-9)
    assert found.isfinite().all()


# --- all kinds together ----------------------------------------------------------------------


def test_every_kind_of_grounding_together():
    close = (draw(TRACES, AGENTS, AGENTS, HORIZON, seed=5) < 0.3).double()
    facts = sparse_table(close.nonzero().T, None, close.shape)
    static = torch.tensor([1.0, 0, 1, 0]).reshape(1, AGENTS, 1)
    features = {"agent": draw(TRACES, AGENTS, HORIZON, 2, seed=6)}
    inputs = {"agent": Features(("size", "speed"), features["agent"])}
    given = replace(world(dtype=torch.float64), functions={}, inputs=inputs)
    network = Network(mlp(3, generator=gen(1)))
    ped = Network(mlp(3, generator=gen(2)), static=True)
    at = Network(mlp(3 + 2, generator=gen(3)))
    group = Softmax(("Stop", "Run"), mlp(3, outputs=3, generator=gen(4)), other=True)
    speed = Network(mlp(3, generator=gen(5)))
    places = Embeddings(1, PLACES, 1, 2, time="static", scale=1.0, generator=gen(6))
    ground = grounding(
        {
            "Car": stated(static),
            "Ped": ped,
            "Crossing": network,
            "Close": stated(facts),
            "At": at,
            "Alarm": Logits((TRACES, HORIZON), scale=1.0, generator=gen(7)),
            "Danger": Defined(("x",), NEAR),
            "Rank": DataRule(lambda model, seen: seen["agent"][..., 0] * model.predicate("Car")),
        },
        given=given,
        inputs={"agent": embeddings(), "place": places},
        groups=[group],
        functions={"speed": speed},
    )
    model = ground()
    seen = embeddings()()
    tables = model.predicates
    assert torch.equal(tables["Car"], static)
    assert torch.equal(tables["Ped"], ped([seen]))
    assert tables["Ped"].shape == (TRACES, AGENTS, 1)
    assert torch.equal(tables["Crossing"], network([seen]))
    assert tables["Close"] is facts
    assert torch.equal(tables["At"], at([seen, places()]))
    assert tables["At"].shape == (TRACES, AGENTS, PLACES, HORIZON)
    assert torch.equal(tables["Rank"], features["agent"][..., 0] * static)
    assert torch.equal(tables["Stop"], group([seen])["Stop"])
    assert torch.equal(model.functions["speed"], speed.module(seen).squeeze(-1))
    dense = replace(model, predicates={**tables, "Close": close})
    same_inside(tables["Danger"], by_equations(NEAR, ["x"], dense))
    assert set(tables) == set(theory().signature.predicates)
    assert ground.learned == ("Ped", "Stop", "Run", "Crossing", "At", "Alarm")
    assert ground.open == ("Ped", "Stop", "Run", "Crossing", "At", "Alarm", "Danger")
    assert set(ground.fixed.predicates) == {"Car", "Close", "Rank"}


def test_gradients_reach_every_parameter_through_definitions():
    ground = grounding(
        {
            "Ped": Network(mlp(3, generator=gen(1)), static=True),
            "Crossing": Network(mlp(3, generator=gen(2))),
            "Danger": Defined(("x",), NEAR),
        }
    )
    ground().predicates["Danger"][0].sum().backward()
    for name, parameter in ground.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_networks_take_the_place_of_given_tables():
    given = world(dtype=torch.float64)
    ground = grounding({"Stop": Network(mlp(3, generator=gen()))}, given=given)
    assert not torch.equal(ground().predicates["Stop"], given.predicates["Stop"])
    assert torch.equal(ground().predicates["Run"], given.predicates["Run"])


def test_computed_tables_say_how_precise_definitions_are():
    network = Network(mlp(3, generator=gen()).float())
    ground = grounding(
        {"Stop": network, "Danger": Defined(("x",), "Stop(x) & Run(x)")},
        inputs={"agent": embeddings().float()},
    )
    assert ground().predicates["Danger"].dtype == torch.float32
    ground = ground.double()
    assert ground().predicates["Danger"].dtype == torch.float64


def test_names_that_pytorch_uses_are_names_like_others():
    declared = "sort train, type\npredicate values(train), parameters(type), to(train)"
    declared += "\ntemporal function half(train): real"
    signature = theory(declared=declared).signature
    given = Tables({"train": 2, "type": 3}, torch.tensor([4]), 4, {})
    ground = Grounding(
        signature,
        given,
        {
            "values": Network(mlp(2, generator=gen())),
            "parameters": Logits((1, 3, 4)),
            "to": Defined(("x",), "values(x) & half(x) = 1"),
        },
        inputs={"train": Embeddings(1, 2, 4, 2, generator=gen())},
        functions={"half": Network(mlp(2, generator=gen()))},
    )
    assert ground().predicates["to"].shape == (1, 2, 4)
    assert ground.learned == ("values", "parameters")
    other = {n: torch.zeros_like(t) for n, t in ground.state_dict().items()}
    ground.load_state_dict(other)
    assert torch.equal(ground().predicates["values"], torch.full((1, 2, 4), 0.5))


def test_one_network_may_serve_two_predicates():
    shared = Network(mlp(3, generator=gen()))
    ground = grounding({"Stop": shared, "Run": shared})
    model = ground()
    assert torch.equal(model.predicates["Stop"], model.predicates["Run"])
    assert len(list(ground.parameters())) == 1 + 6


# --- definitions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variables", "formula"),
    [
        ("Danger", "x", NEAR),
        ("Danger", "x", "O[0, 2] (Crossing(x) S Stop(x))"),
        ("Danger", "x", "H (Stop(x) -> WY Run(x))"),
        ("Danger", "x", "F[1, 2] Stop(x) & !last"),
        ("Danger", "x", "exists x. Stop(x)"),
        ("Danger", "y", "forall x. Close(x, y) -> Stop(x)"),
        ("Danger", "x", "speed(x) <= 0.5"),
        ("Danger", "x", "first"),
        ("Rank", "x", "Car(x) & Ped(x)"),
        ("Close", "xy", "Stop(x) & Run(y)"),
        ("Close", "yx", "Stop(x) & !Run(y)"),
        ("Close", "xy", "Stop(y)"),
        ("At", "xp", "Crossing(x)"),
        ("Alarm", "", "exists x. Stop(x) U Run(x)"),
        ("Car", "x", "Ped(x)"),
        ("Car", "x", "exists y. Ped(y)"),
    ],
)
@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, GODEL, LUKASIEWICZ, LOG_PRODUCT])
def test_definitions_are_what_the_equations_say(name, variables, formula, semantics):
    found = defined(name, formula, *variables, semantics=semantics)
    expected = by_equations(formula, variables, world(dtype=torch.float64), semantics)
    sizes = [{"p": PLACES}.get(v, AGENTS) for v in variables]
    assert list(found.shape[1:-1]) == sizes
    same_inside(found, expected)


def test_definitions_use_definitions_in_any_order():
    chain = {
        "Danger": Defined(("x",), "Rank(x) & !Stop(x)"),
        "Alarm": Defined((), "exists x. Danger(x)"),
        "Rank": Defined(("y",), "O Run(y)"),
    }
    for names in (("Danger", "Alarm", "Rank"), ("Rank", "Danger", "Alarm"), ("Alarm", "Rank")):
        ground = grounding({n: chain[n] for n in names})
        order = list(ground.definitions)
        assert set(order) == set(names)
        if len(names) == 3:
            assert order == ["Rank", "Danger", "Alarm"]
    model = grounding(chain)()
    base = world(dtype=torch.float64)
    rank = by_equations("O Run(y)", "y", base)
    base = replace(base, predicates={**base.predicates, "Rank": rank})
    danger = by_equations("Rank(x) & !Stop(x)", "x", base)
    base = replace(base, predicates={**base.predicates, "Danger": danger})
    same_inside(model.predicates["Danger"], danger)
    same_inside(model.predicates["Alarm"], by_equations("exists x. Danger(x)", "", base))


def test_a_definition_has_the_semantics_of_the_grounding_unless_it_names_one():
    both = {"Danger": Defined(("x",), "Stop(x) & Run(x)")}
    both["Rank"] = Defined(("x",), "Stop(x) & Run(x)", LUKASIEWICZ)
    model = grounding(both, semantics=GODEL)()
    stop, run = (world(dtype=torch.float64).predicates[n] for n in ("Stop", "Run"))
    same_inside(model.predicates["Danger"], torch.minimum(stop, run))
    same_inside(model.predicates["Rank"], (stop + run - 1).clamp(min=0))


def test_what_is_defined_by_learned_functions_is_open():
    ground = grounding(
        {"Danger": Defined(("x",), "speed(x) = 1"), "Rank": Defined(("x",), "Run(x)")},
        functions={"speed": Network(mlp(3, generator=gen()))},
    )
    assert ground.learned == ()
    assert ground.open == ("Danger",)
    ground().predicates["Danger"].sum().backward()
    assert any(p.grad.abs().max() > 0 for p in ground.parameters())


def test_a_plan_is_not_used_for_other_facts():
    """Facts are made ready once; a grounding over other data must not meet them."""
    ground = grounding({"Danger": Defined(("x",), "exists y. Close(x, y) & Run(y)")})
    for seed in range(3):
        close = (draw(TRACES, AGENTS, AGENTS, HORIZON, seed=seed) < 0.4).double()
        facts = sparse_table(close.nonzero().T, None, close.shape)
        ground.fixed = replace(ground.fixed, predicates={**ground.fixed.predicates, "Close": facts})
        dense = replace(ground.fixed, predicates={**ground.fixed.predicates, "Close": close})
        expected = by_equations("exists y. Close(x, y) & Run(y)", "x", dense)
        same_inside(ground().predicates["Danger"], expected)


def test_nan_is_left_for_training_to_name():
    class Broken(nn.Module):
        def forward(self, x):
            return x[..., 0] * torch.nan

    table = grounding({"Stop": Network(Broken(), probability=True)})().predicates["Stop"]
    assert isinstance(table, torch.Tensor)
    assert table.isnan().all()


def test_rules_see_tables_and_earlier_rules_and_features():
    called = []

    def double(model, features):
        called.append(features)
        stop = model.predicates["Stop"]
        return (2 * stop).clamp(max=1)

    table = draw(TRACES, AGENTS, HORIZON, seed=3)
    features = {"agent": Features(("size",), table.unsqueeze(-1))}
    ground = grounding(
        {
            "Stop": stated(table),
            "Run": DataRule(double),
            "Rank": DataRule(lambda model, _: 1 - model.predicate("Run")),
        },
        given=replace(world(dtype=torch.float64), inputs=features),
        inputs={"agent": FeatureInputs(draw(TRACES, AGENTS, HORIZON, 2))},
    )
    for _ in range(3):
        model = ground()
    assert torch.equal(model.predicates["Rank"], 1 - (2 * table).clamp(max=1))
    assert len(called) == 1
    assert torch.equal(called[0]["agent"], table.unsqueeze(-1))


def test_sparse_tables_may_be_rules():
    facts = sparse_table(torch.tensor([[0], [1], [2]]), None, (TRACES, AGENTS, HORIZON))
    ground = grounding({"Rank": DataRule(lambda _model, _seen: facts), "Run": stated(facts)})
    assert isinstance(ground().predicates["Rank"], SparseTable)


def test_decisions_agree_with_definitions():
    signature = build_signature(
        parse_theory(
            "sort a\npredicate Calm(a), Loud(a), Near(a, a), Heard(a)", source="t"
        ).declarations
    )[0]
    near = torch.ones(1, 2, 2, 3)
    given = Tables({"a": 2}, torch.tensor([3]), 3, {"Near": near})
    loud = Logits((1, 2, 3), scale=0.0)
    grounding = Grounding(
        signature,
        given,
        {
            "Loud": loud,
            "Calm": Defined(("x",), "!Loud(x)"),
            "Heard": Defined(("x",), "exists y. Near(x, y) & Loud(y)"),
        },
        semantics=PRODUCT,
    )
    with torch.no_grad():
        loud.values[0] = torch.tensor([[-0.1, 2.0, -0.1], [-0.1, -3.0, -3]])
        model = grounding()
        apart = {n: model.predicate(n) >= 0.5 for n in ("Loud", "Heard", "Calm")}
        decided = rounded(replace(model, decisions=grounding.decisions()))
    # Two agents that are each rather calm: thresholded apart, noise is heard that nobody makes.
    assert apart["Heard"][0, 0].tolist() == [True, True, False]
    assert decided.predicate("Loud")[0, 0].tolist() == [0, 1, 0]
    assert decided.predicate("Heard")[0, 0].tolist() == [0, 1, 0]
    assert decided.predicate("Calm")[0].tolist() == [[1, 0, 1], [1, 1, 1]]
    assert torch.equal(decided.predicate("Near"), near)
