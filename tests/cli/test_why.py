"""`fotltn violations --why`: explanations of the worst violations."""

import json
import re

import pytest

import fotltn
from fotltn.format import degree
from fotltn.project.model import load_model

THEORY = """\
sort agent
predicate Near(agent), Stop(agent)
axiom Obey: forall x. G(Near(x) -> WX Stop(x))
axiom Never: forall x. G(!Stop(x))
"""
FACTS = {
    "predicate": ["Near", "Near", "Stop", "Stop"],
    "arg1": ["ego", "bus", "ego", "bus"],
    "time": [0, 1, 1, 3],
    "truth": [1, 1, 0, 1],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that breaks a rule."""
    folder = tmp_path_factory.mktemp("home") / "model"
    objective = {"preset": "facts-only"}
    made = fotltn.train(
        THEORY, facts=FACTS, learn=["Stop"], training={"epochs": 60}, objective=objective
    )
    made.save(folder)
    return folder


def test_the_worst_are_explained(call, model):
    status, out, err = call("violations", model, "Obey", "--top", 3, "--why", 2)
    assert (status, err) == (0, "")
    found = load_model(model).violations("Obey", top=3)
    assert out.count("Smallest repair:") == 2
    assert out.count("Near(x) -> WX Stop(x)\n") == 2
    worst = found[0]
    place = f"Obey at x = {worst.binding['x']}, time {worst.time}"
    assert place in out
    tree = out[out.index(place) :].splitlines()[1:]
    assert tree[0].startswith(f"{degree(worst.value)} ")
    assert re.match(r"├── 1\.000 true  if Near\(ego\) at 0", tree[1])
    assert "then WX Stop(x)" in tree[2]
    assert "Stop(ego) at 1" in tree[3]
    assert "Stop(ego) at 1 becomes true" in out
    assert "Near(ego)      " not in out.split("gradient", 1)[1].split("Smallest", 1)[0]


def test_given_facts_may_be_flipped_if_that_is_asked_for(call, model):
    out = call("violations", model, "Obey", "--top", 1, "--why", 1, "--flip-given").out
    facts = out.split("gradient", 1)[1].split("Smallest", 1)[0]
    assert "Near(ego)" in facts


def test_explanations_for_machines(call, model):
    found = json.loads(call("violations", model, "--top", 3, "--why", 1, "--json").out)
    first, *others = found["violations"]
    assert all("why" not in row for row in others)
    reason = first["why"]
    assert reason["rule"] == first["axiom"]
    assert reason["value"] == pytest.approx(first["value"], abs=1e-6)
    assert reason["tree"]["children"]
    assert {"flips", "exact", "least", "needed", "note"} == set(reason["repair"])


def test_without_why_nothing_changes(call, model):
    out = call("violations", model, "Obey").out
    assert "repair" not in out
    assert "why" not in call("violations", model, "Obey", "--json").out


def test_wrong_calls(call, model):
    assert call("violations", model, "--why", -1).status == 2
