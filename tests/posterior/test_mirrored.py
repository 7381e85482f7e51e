"""Symmetric relations mix, and their probabilities are those of enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import fotltn
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.plan import explain, plan_of
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sampler_of
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import STAYS

MISSED, INVENTED = 0.2, 0.1
STEPS, PEOPLE = 3, 5

#: Ways to say it, each with what else is said: whom one meets at first, one meets always or never.
WAYS = {
    "implies": "forall x, y. G(Meets(x, y) -> Meets(y, x))",
    "equals": "forall x, y. G(Meets(x, y) <-> Meets(y, x))",
    "contraposed": "forall x, y. G(!Meets(x, y) -> !Meets(y, x))",
}

#: (first, second, time, truth)
LABELS = [(0, 1, 0, 1), (1, 0, 2, 0), (1, 0, 0, 1), (3, 2, 1, 1), (4, 4, 2, 1), (4, 3, 0, 0)]


def problem(axiom: str, how: Sampling, more: str = "") -> Problem:
    theory = check(
        parse_theory(f"sort p\npredicate Meets(p, p), Talks(p)\nhard axiom Sym: {axiom}\n{more}")
    )
    tables = Tables({"p": PEOPLE}, torch.tensor([STEPS]), STEPS, {}, signature=theory.signature)
    index = torch.tensor([(0, a, b, t) for a, b, t, _ in LABELS]).T
    truth = torch.tensor([float(v) for *_, v in LABELS]).double()
    rates = dict.fromkeys(("Meets", "Talks"), NoiseRates(MISSED, INVENTED))
    labels = Labels({"Meets": index}, {"Meets": truth}, {"Meets": ("p", "p")})
    return Problem(theory, tables, labels, ["Meets", "Talks"], rates, how)


def exact(first: int, second: int) -> Tensor:
    """How probably two meet, by all that they may do; labels count both ways."""
    total = torch.zeros(STEPS, dtype=torch.float64)
    everything = 0.0
    for values in itertools.product((0, 1), repeat=STEPS):
        log = sum(math.log(STAYS if a == b else 1 - STAYS) for a, b in itertools.pairwise(values))
        for a, b, t, said in LABELS:
            if {a, b} == {first, second}:
                wrong = MISSED if values[t] else INVENTED
                log += math.log(wrong if said != values[t] else 1 - wrong)
        total += math.exp(log) * torch.tensor(values)
        everything += math.exp(log)
    return total / everything


@pytest.mark.parametrize("way", WAYS)
def test_symmetric_relations_mix(way):
    how = Sampling(worlds=64, burn_in=5, sweeps=30, enough=0, learn=False)
    posterior = sample(problem(WAYS[way], how))
    assert set(posterior.learned) == {"Meets", "Talks"}
    assert posterior.warnings == ()
    assert posterior.mixing.worst < 1.1
    meets = posterior.marginals["Meets"][0]
    assert meets.equal(meets.transpose(0, 1))
    for first, second in itertools.combinations_with_replacement(range(PEOPLE), 2):
        wanted = exact(first, second)
        error = (wanted * (1 - wanted) / (64 * 30)).sqrt()
        assert bool(((meets[first, second] - wanted).abs() < 4.5 * error).all())


def test_other_axioms_speak_of_both_ways():
    more = "hard axiom Silent: forall x, y. G(Meets(x, y) -> !Talks(x))\n"
    how = Sampling(worlds=16, burn_in=20, sweeps=20, enough=0, learn=False)
    posterior = sample(problem(WAYS["implies"], how, more))
    meets, talks = posterior.worlds["Meets"], posterior.worlds["Talks"]
    assert bool(meets.any())
    assert bool(talks.any())
    assert meets.equal(meets.transpose(2, 3))
    assert not bool((meets & talks.unsqueeze(3)).any())


def test_a_plan_says_which_axioms_chains_may_get_stuck_in():
    """One of twenty at each point: none can give way before another comes."""
    theory = check(
        parse_theory("""
sort p
predicate Lead(p)
hard axiom Some: G(exists x. Lead(x))
hard axiom Only: forall x, y. G(Lead(x) & Lead(y) -> x = y)
""")
    )
    tables = Tables({"p": 20}, torch.tensor([4]), 4, {}, signature=theory.signature)
    asked = Problem(theory, tables, Labels({}, {}), ["Lead"])
    text = "\n".join(explain(plan_of(sampler_of(asked))))
    assert "or test their draws, so that chains may get stuck: Some, Only" in text


def test_a_project_has_the_relation_alone(tmp_path):
    """What is drawn in its place is in no table, but in what travels."""
    facts = {
        "predicate": ["Meets"] * 4, "arg1": ["a", "b", "c", "d"], "arg2": ["b", "c", "d", "a"],
        "time": [0, 1, 2, 3], "truth": [1, 0, 1, 0],
    }  # fmt: skip
    model = fotltn.train(
        f"sort p\npredicate Meets(p, p)\nhard axiom Sym: {WAYS['implies']}", facts=facts,
        learn=["Meets"], method="posterior",
        posterior={"worlds": 8, "burn_in": 10, "sweeps": 8, "stored": 2},
    )  # fmt: skip
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert again.posterior is not None
    assert again.posterior.learned == ("Meets",)
    assert float(again.ask('Meets("b", "a") <-> Meets("a", "b")', at="all").tensor.min()) == 1.0
    assert len(again.doubts()) == 4
    assert all(again.doubts().all_against(list(again.doubts())))
    rows = {"predicate": ["Meets"], "arg1": ["u"], "arg2": ["v"], "time": [3], "truth": [1]}
    moved = again.apply(rows, evidence=True)
    assert float(moved.ask('Meets("v", "u")', at=3).tensor) > 0.5
