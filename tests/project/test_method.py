"""Which method a project has that leaves it open: by what worlds can say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.errors import DataError
from fotltn.project import train as training
from fotltn.project.build import build
from fotltn.project.config import read_config
from tests.project import robots

QUICK = {"worlds": 4, "burn_in": 2, "sweeps": 2, "stored": 1}
THEORY = """
sort pump
predicate Failed(pump), Repair(pump)
{hard}axiom Stays: forall x. G(Failed(x) & !Repair(x) -> WX Failed(x))
"""
FACTS = {
    "predicate": ["Failed", "Failed", "Repair"], "arg1": ["a", "b", "a"], "time": [0, 1, 2],
    "truth": [1, 0, 1],
}  # fmt: skip
HEAT = {"pump": ["a"] * 3 + ["b"] * 3, "hour": [0, 1, 2] * 2, "heat": [1, 2, 3, 1, 1, 1]}


def trained(theory: str = THEORY.format(hard="hard "), **more) -> fotltn.Model:
    more = {"learn": ["Failed"], "training": {"epochs": 1}, "posterior": QUICK, **more}
    return fotltn.train(theory, facts=FACTS, method="auto", **more)


def test_hard_axioms_are_obeyed_by_worlds():
    model = trained()
    assert (model.config.method, model.chosen) == (
        "posterior", "because of hard axioms: 'Stays'",
    )  # fmt: skip
    assert model.posterior is not None
    seen = trained(wide=fotltn.Wide(HEAT, "pump", "pump", "hour", features=["heat"]))
    assert seen.config.method == "posterior"
    assert seen.config.predicates["Failed"].kind == "network"


HARD, SOFT = THEORY.format(hard="hard "), THEORY.format(hard="")
GIVEN = """
sort pump
predicate Failed(pump), Repair(pump)
hard axiom Ends: forall x. G(Repair(x) -> WX !Repair(x))
"""
LEVEL = "temporal function level(pump): real\naxiom Low: forall x. G(level(x) > 0)"
CASES: dict[str, tuple[str, dict[str, object], str]] = {
    "soft": (SOFT, {}, "no hard axiom mentions what is learned"),
    "hard of what is given": (GIVEN, {}, "no hard axiom mentions what is learned"),
    "facts alone": (
        HARD, {"objective": {"axioms": "none"}}, "axioms are left out",
    ),
    "vectors": (
        HARD, {"inputs": {"pump": {"embedding": 4}}}, "networks have weights for each 'pump'",
    ),
    "no features": (
        HARD, {"predicates": {"Failed": "network"}, "learn": []},
        "the network of 'Failed' sees no features of 'pump'",
    ),
    "one of several": (
        HARD.replace("Repair(pump)", "Repair(pump), Fine(pump)", 1),
        {"exclusive": [["Failed", "Fine"]], "learn": []},
        "a network chooses one of 'Failed', 'Fine'",
    ),
    "functions": (HARD + LEVEL, {"functions": {"level": {}}}, "the function 'level' is learned"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_worlds_lack_is_learned_by_gradients(case):
    theory, more, why = CASES[case]
    model = trained(theory, **more)
    assert (model.config.method, model.chosen) == ("gradient", f"because {why}")
    assert model.history


def test_rates_that_are_learned_need_worlds():
    model = trained(THEORY.format(hard=""), objective={"missed": "learned"})
    assert (model.config.method, model.chosen) == (
        "posterior", "because rates of wrong labels are learned",
    )  # fmt: skip


def test_what_would_take_too_long_or_too_much_is_learned_by_gradients(monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 10)
    model = trained()
    assert model.config.method == "gradient"
    assert "sampling worlds would take" in model.chosen
    assert "steps of automata" in model.chosen
    monkeypatch.undo()
    wide = " & ".join(f"F[{n},{n + 9}] Failed(x)" for n in range(1, 40))
    model = trained(HARD + f"hard axiom Wide: forall x. G({wide})\n")
    assert model.config.method == "gradient"
    assert "sampling worlds is not possible: " in model.chosen


def test_hard_axioms_that_facts_contradict_are_still_told():
    facts = {"predicate": ["Failed", "Failed"], "arg1": ["a", "a"], "time": [0, 1], "truth": [1, 0]}
    sure = {"missed": 0.0, "invented": 0.0}
    with pytest.raises(DataError, match="Stays"):
        fotltn.train(
            THEORY.format(hard="hard "), facts=facts, learn=["Failed"], method="auto",
            objective=sure, posterior=QUICK,
        )  # fmt: skip


def test_a_file_without_a_method_is_as_before(tmp_path: Path):
    """Projects of 0.1.0 name none."""
    folder = robots.project(tmp_path, robots.TOML.replace('method = "posterior"\n', ""))
    assert read_config(folder).method == "gradient"
    built = build(read_config(folder))
    assert (built.config.method, built.chosen) == ("gradient", "")


def test_training_says_which_and_why_and_a_model_has_the_choice(tmp_path: Path):
    folder = robots.project(tmp_path, robots.TOML.replace('"posterior"', '"auto"'))
    run = CliRunner().invoke
    said = run(app, ["train", str(folder)])
    assert "method: posterior, because of hard axioms: 'Loud', 'Wear', 'Stays'" in said.output
    assert fotltn.load_model(folder / "model").config.method == "posterior"
    told = json.loads(run(app, ["train", str(folder), "--json", "--method", "auto"]).stdout)
    assert (told["method"], told["chosen"]) == (
        "posterior", "because of hard axioms: 'Loud', 'Wear', 'Stays'",
    )  # fmt: skip
    plain = run(app, ["train", str(folder), "--no-axioms", "--epochs", "1"])
    assert "method: gradient, because axioms are left out" in plain.output
    asked = run(app, ["plan", str(folder)])
    assert "worlds at once" in asked.output
