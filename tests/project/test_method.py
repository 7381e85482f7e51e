"""Which method a project has that leaves it open: by what worlds can say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fotltn
from fotltn.cli.main import app
from fotltn.errors import DataError
from fotltn.learn.objective import PAPER
from fotltn.project import train as training
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.written import show_config
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


@pytest.mark.filterwarnings("ignore::fotltn.errors.DataWarning")
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


@pytest.mark.parametrize("place", ["", "[objective]\n"])
def test_the_preset_paper_means_what_no_preset_meant(tmp_path: Path, place: str):
    """Where version 0.2.0 had it, or above all sections."""
    text = robots.TOML.replace('method = "posterior"\n', "")
    named = f'preset = "paper"\n{text}' if not place else f'{text}\n[objective]\npreset = "paper"\n'
    folder = robots.project(tmp_path, named)
    assert read_config(folder).method == "gradient"
    built = build(read_config(folder))
    assert (built.config.method, built.chosen) == ("gradient", "")
    assert (built.task.objective, built.task.training.epochs) == (PAPER, 500)


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


def test_a_file_without_a_preset_is_told_what_it_means_now(tmp_path: Path):
    """Only if version 0.2.0 would have read it otherwise; the line that keeps its meaning works."""
    folder = robots.project(tmp_path, robots.TOML)
    file, run = folder / "project.toml", CliRunner().invoke
    said = run(app, ["train", str(folder)]).output
    assert "the project names no preset, so it learns by 'standard'" in said
    before = file.read_text("utf-8")
    for name in ("paper", "standard"):
        file.write_text(f'preset = "{name}"\n{before}', "utf-8")
        assert "names no preset" not in run(app, ["train", str(folder)]).output
    every = show_config(fotltn.load_model(folder / "model").config)
    file.write_text(every, "utf-8")
    assert not read_config(folder).unnamed


def test_python_and_new_files_have_the_same_defaults(tmp_path: Path):
    rows: dict[str, list[Any]] = {
        "who": ["a", "b"] * 30,
        "hour": [h for h in range(30) for _ in "ab"],
    }
    rows["hot"], rows["bad"] = [[h % n == 0 for h in rows["hour"]] for n in (3, 4)]
    (tmp_path / "rows.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in [[*rows], *zip(*rows.values(), strict=True)])
    )
    made = CliRunner().invoke(
        app, ["new", str(tmp_path / "p"), "--from", str(tmp_path / "rows.csv"), "--learn", "bad"]
    )
    assert made.exit_code == 0, made.output
    config = read_config(tmp_path / "p")
    model = fotltn.train(THEORY.format(hard=""), facts=FACTS, learn=["Failed"])
    assert not config.unnamed
    assert config.method == "auto"
    assert model.chosen
    assert (config.objective, config.training) == (model.config.objective, model.config.training)


def test_two_presets_are_refused(tmp_path: Path):
    text = f'preset = "paper"\n{robots.TOML}\n[objective]\npreset = "recipe"\n'
    with pytest.raises(DataError, match="two presets, 'paper' and 'recipe'"):
        read_config(robots.project(tmp_path, text))
    with pytest.raises(DataError, match="unknown value 'papr'"):
        trained(preset="papr")
