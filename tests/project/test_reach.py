"""How far logits are averaged over time, chosen by predicate on labels that are held back."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import fotltn
from fotltn.errors import DataError
from fotltn.project.reach import CANDIDATES

THEORY = """
sort agent
predicate Slow(agent), Quick(agent)
static predicate Tall(agent)
axiom A: forall x. G(Quick(x) -> F Slow(x))
"""
AGENTS, STEPS = 20, 60
SETTINGS = {name: {"kind": "logits", "reach": "auto"} for name in ("Slow", "Quick", "Tall")}
OPTIONS: dict[str, Any] = {
    "objective": {"preset": "recipe"},
    "training": {"epochs": 60, "rate": 0.1, "patience": 0},
}


def facts(share: float, seed: int = 0) -> dict[str, list[Any]]:
    """States that last for thirty steps, which few labels tell of, and some that last for four."""
    rng = random.Random(seed)
    rows: list[tuple[str, str, int, int]] = []
    for agent in range(AGENTS):
        shift = rng.randrange(60)
        for t in range(STEPS):
            for name, lasts, known in (("Slow", 30, share / 4), ("Quick", 4, share)):
                if rng.random() < known:
                    rows.append((name, f"a{agent}", t, (t + shift) // lasts % 2))
    columns = [*zip(*rows, strict=True)]
    names = ("predicate", "arg1", "time", "truth")
    table = {n: [*values] for n, values in zip(names, columns, strict=True)}
    table["predicate"].append("Tall")
    table["arg1"].append("a0")
    table["time"].append(None)
    table["truth"].append(1)
    return table


def reaches(model) -> dict[str, object]:
    return {name: how.reach for name, how in model.config.predicates.items()}


def test_long_states_are_averaged_further_than_short_ones(tmp_path):
    model = fotltn.train(THEORY, facts=facts(0.6), predicates=SETTINGS, **OPTIONS)
    chosen = reaches(model)
    assert chosen["Slow"] in CANDIDATES[2:]
    assert chosen["Quick"] == CANDIDATES[0]
    assert chosen["Tall"] == 0.0
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert reaches(again) == chosen
    assert torch.equal(again.tables.predicate("Slow"), model.tables.predicate("Slow"))


def test_a_seed_gives_the_same_choice_and_the_same_weights_as_if_it_were_written():
    one = fotltn.train(THEORY, facts=facts(0.3), predicates=SETTINGS, seed=3, **OPTIONS)
    again = fotltn.train(THEORY, facts=facts(0.3), predicates=SETTINGS, seed=3, **OPTIONS)
    written = {n: {"kind": "logits", "reach": reach} for n, reach in reaches(one).items()}
    other = fotltn.train(THEORY, facts=facts(0.3), predicates=written, seed=3, **OPTIONS)
    assert reaches(again) == reaches(one) == reaches(other)
    for name, weights in one.grounding.state_dict().items():
        assert torch.equal(weights, again.grounding.state_dict()[name])
        assert torch.equal(weights, other.grounding.state_dict()[name])


def test_without_labels_it_is_the_usual_one():
    few = {n: values[:5] for n, values in facts(0.5).items()}
    model = fotltn.train(
        THEORY, facts=few, predicates={"Slow": SETTINGS["Slow"], "Quick": SETTINGS["Quick"]},
        **OPTIONS,
    )  # fmt: skip
    assert reaches(model) == {"Slow": 4.0, "Quick": 4.0}


@pytest.mark.parametrize("reach", ["far", -1, True])
def test_other_words_are_refused(reach):
    with pytest.raises(DataError, match=r"predicates\.Slow\.reach: expected a number"):
        fotltn.train(
            THEORY, facts=facts(0.1), predicates={"Slow": {"kind": "logits", "reach": reach}}
        )
