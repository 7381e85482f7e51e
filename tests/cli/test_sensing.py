"""Commands on posteriors with networks over features, and on other data."""

from __future__ import annotations

import json
from pathlib import Path

from tests.project.robots import TOML, facts, project

WIDE = """
[[data.wide]]
file = "wide.csv"
sort = "robot"
entity = "who"
time = "t"
features = ["speed"]
"""


def seeing(folder: Path) -> Path:
    """A project whose robots have a feature, and that learns little."""
    toml = TOML.replace("[predicates]", f"{WIDE}\n[predicates]") + "epochs = 4\n"
    rows = [f"r{robot},{time},{time * robot}" for robot in range(3) for time in range(6)]
    project(folder, toml)
    (folder / "wide.csv").write_text("\n".join(["who,t,speed", *rows]) + "\n", "utf-8")
    return folder


def test_plan_and_worth_tell_of_networks(tmp_path, call):
    folder = seeing(tmp_path)
    planned = call("plan", folder)
    assert (
        "networks see features of 18 cells: Faulty; 321 parameters, 3 copies, 4 epochs"
        in planned.out
    )
    seen = json.loads(call("plan", folder, "--json").out)["networks"]
    assert (seen["predicates"], seen["copies"], seen["cells"]) == (["Faulty"], 3, 18)
    worth = call("worth", folder, "--axiom", "Signs", "--folds", "2")
    assert "Networks over features are left out" in " ".join(worth.out.split())


def test_commands_sample_worlds_of_new_data(tmp_path, call):
    folder, new = seeing(tmp_path / "p"), tmp_path / "new"
    assert call("train", folder).status == 0
    new.mkdir()
    (new / "facts.csv").write_text(facts(2, 4), "utf-8")
    rows = [f"r{robot},{time},{time}" for robot in range(2) for time in range(4)]
    (new / "wide.csv").write_text("\n".join(["who,t,speed", *rows]) + "\n", "utf-8")
    first, again = (call("predict", folder, "--data", new) for _ in range(2))
    assert first.status == 0
    assert (first.out, first.out.count("Faulty")) == (again.out, 8)
    told = call("predict", folder, "--data", new, "--evidence")
    assert told.status == 0
    assert told.out != first.out
    scored = json.loads(call("score", folder, "--data", new, "--json").out)
    assert scored["metrics"]["predicates"]["Faulty"]["facts"] > 0
    asked = json.loads(call("ask", folder, "Faulty(r)", "--data", new, "--json").out)
    assert (asked["semantics"], len(asked["results"])) == ("worlds", 2)
    assert call("violations", folder, "Signs", "--data", new).status == 0
    written = call("worlds", folder, "--data", new, "--out", tmp_path / "w", "--number", "1")
    assert written.status == 0
    refused = call("predict", folder, "--evidence")
    assert (refused.status, refused.out) == (1, "")
    assert "--evidence needs --data" in refused.err
