"""Groundings that do not fit: one clear error each."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from fotltn import CheckError, DataError, ParseError, SemanticsError
from fotltn.networks.encoders import Embeddings
from fotltn.networks.predicates import DataRule, Defined, Logits, Network, Softmax, mlp
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables
from tests.networks.common import AGENTS, HORIZON, TRACES, gen, grounding, theory, world


def refused(kind, predicates=None, **options):
    with pytest.raises(kind) as error:
        grounding(predicates, **options)()
    message = str(error.value)
    assert " nodes>" not in message
    assert "core." not in message
    return message


@pytest.mark.parametrize(
    ("name", "given", "parts"),
    [
        ("Danger", Defined(("x", "y"), "Stop(x)"), ["takes 1 argument,", "Danger(x, y)"]),
        ("Close", Defined(("x",), "Stop(x)"), ["takes 2 arguments", "Close(x)"]),
        ("Close", Defined(("x", "x"), "Stop(x)"), ["Close(x, x)", "repeats the variable 'x'"]),
        ("Danger", Defined(("x",), "Close(x, y)"), ["free variable 'y'", "Close(x, y)"]),
        ("Danger", Defined(("p",), "exists x. At(x, p)"), ["sort 'place'", "'agent'"]),
        ("Danger", Defined(("x",), "Stopp(x)"), ["Stopp", "did you mean 'Stop'?", "Danger(x)"]),
        ("Danger", Defined(("x",), "Stop(x, x)"), ["Stop", "Danger(x)"]),
        ("Danger", Defined(("x",), "Danger(x)"), ["Danger -> Danger"]),
    ],
)
def test_wrong_definitions(name, given, parts):
    message = refused(CheckError, {name: given})
    for part in parts:
        assert part in message
    assert message.count("error") == 1


def test_a_definition_that_is_not_in_the_language():
    message = refused(ParseError, {"Danger": Defined(("x",), "Stop(x) &")})
    assert "the definition of Danger(x)" in message


def test_cycles_are_named():
    message = refused(
        CheckError,
        {
            "Danger": Defined(("x",), "Rank(x)"),
            "Rank": Defined(("x",), "Stop(x) | Alarm"),
            "Alarm": Defined((), "exists x. Danger(x)"),
            "Run": Defined(("x",), "Rank(x)"),
        },
    )
    ring = message.split("themselves: ")[1].splitlines()[0].split(" -> ")
    assert ring[0] == ring[-1]
    assert set(ring) == {"Danger", "Rank", "Alarm"}
    uses = {"Danger": "Rank", "Rank": "Alarm", "Alarm": "Danger"}
    assert all(uses[a] == b for a, b in pairwise(ring))


def test_a_constant_is_no_variable_of_a_head():
    declared = "sort agent\nconstant ego: agent\npredicate P(agent), Q(agent)"
    given = Tables(
        {"agent": 2}, torch.tensor([2]), 2, {"Q": torch.zeros(1, 2, 2)}, {}, {"agent": {"ego": 0}}
    )
    message = refused(
        CheckError, {"P": Defined(("ego",), "Q(ego)")}, inputs={}, given=given,
        signature=theory(declared=declared).signature,
    )  # fmt: skip
    assert "'ego' is a constant" in message


def test_two_valued_definitions_are_refused():
    assert "two-valued" in refused(SemanticsError, {"Rank": Defined(("x",), "Run(x)", CRISP)})


def without(*names):
    model = world(dtype=torch.float64)
    return replace(model, predicates={n: t for n, t in model.predicates.items() if n not in names})


def net(width=3, **options):
    return Network(mlp(width, generator=gen()), **options)


@pytest.mark.parametrize(
    ("predicates", "options", "parts"),
    [
        ({"Stopp": "net"}, {}, ["unknown predicate 'Stopp'", "did you mean 'Stop'?"]),
        ({}, {"given": "Stop"}, ["'Stop' has no grounding"]),
        ({"Stop": "net"}, {"groups": [("Stop", "Run")]}, ["'Stop' has two groundings"]),
        ({}, {"groups": [("Stop", "Run"), ("Run",)]}, ["'Run' has two groundings"]),
        ({}, {"groups": [("Stop", "Stop")]}, ["'Stop' has two groundings"]),
        ({}, {"groups": [("Stop", "Rum")]}, ["unknown predicate 'Rum'", "'Run'"]),
        ({}, {"groups": [("Stop", "Car")]}, ["share a network", "static"]),
        ({}, {"groups": [("Stop", "Close")]}, ["share a network", "sorts"]),
        ({"At": "net"}, {}, ["'At'", "no inputs for the sort 'place'"]),
        ({"Alarm": "net"}, {}, ["'Alarm'", "use logits"]),
        ({"Stop": "mlp"}, {}, ["'Stop'", "Sequential", "Network(…)"]),
        ({"Stop": "wide"}, {}, ["'Stop'", "vectors of width 3"]),
        ({"Car": "net"}, {}, ["'Car'", f"({TRACES}, {AGENTS}, {HORIZON})", "static"]),
        ({"Stop": "logits"}, {}, ["'Stop'", "(1, 9, 5)", "(2 or 1, 4, 5 or 1)", "(trace, agent,"]),
        ({"Stop": "table"}, {}, ["the rule of 'Stop'", "(4, 5)"]),
        ({"Stop": "degrees"}, {}, ["the rule of 'Stop'", "from 0 to 1"]),
        ({"Stop": "list"}, {}, ["the rule of 'Stop'", "list"]),
        ({"Stop": "rule"}, {}, ["the rule of 'Stop'", "(1, 2)"]),
        ({}, {"functions": {"sped": "net"}}, ["unknown function 'sped'", "'speed'"]),
        ({}, {"functions": {"speed": "mlp"}}, ["'speed'", "Sequential"]),
        ({}, {"inputs": {"agents": "small"}}, ["unknown sort 'agents'", "'agent'"]),
        ({}, {"inputs": {"agent": "small"}}, ["'agent'", "(1, 2, 5, 3)", "(2 or 1, 4, 5 or 1, 3)"]),
    ],
)
def test_groundings_that_do_not_fit(predicates, options, parts):
    made = {
        "net": net,
        "mlp": lambda: mlp(3, generator=gen()),
        "wide": lambda: net(4),
        "logits": lambda: Logits((1, 9, 5)),
        "table": lambda: DataRule(lambda *_: torch.zeros(4, 5)),
        "degrees": lambda: DataRule(lambda *_: torch.full((1, 4, 5), 1.5)),
        "list": lambda: DataRule(lambda *_: [1.0]),  # type: ignore[arg-type]
        "rule": lambda: DataRule(lambda _model, _seen: torch.zeros(1, 2)),
        "small": lambda: Embeddings(1, 2, 5, 3),
    }
    options = dict(options)
    if "given" in options:
        options["given"] = without(options["given"])
    if "groups" in options:
        options["groups"] = [Softmax(n, mlp(3, outputs=len(n))) for n in options["groups"]]
    for key in ("functions", "inputs"):
        if key in options:
            options[key] = {n: made[k]() for n, k in options[key].items()}
    message = refused(DataError, {n: made[k]() for n, k in predicates.items()}, **options)
    for part in parts:
        assert part in message
    assert message.count("error:") == 1


def test_functions_need_a_grounding_and_give_numbers():
    given = replace(world(dtype=torch.float64), functions={})
    assert "function 'speed' has no grounding" in refused(DataError, given=given)
    declared = "sort agent\npredicate P(agent)\ntemporal function next(agent): agent"
    message = refused(
        DataError, signature=theory(declared=declared).signature, functions={"next": net()},
        given=Tables({"agent": 4}, torch.tensor([5]), 5, {"P": torch.zeros(1, 4, 5)}),
    )  # fmt: skip
    assert "returns entities of sort 'agent'" in message
