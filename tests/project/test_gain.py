"""What each axiom brings on labels that are held back."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fotltn.cli.main import app
from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.project.config import read_config
from fotltn.project.gain import average, gains

PROJECT = """
[theory]
file = "theory.fot"

[[data.wide]]
file = "pumps.csv"
sort = "pump"
entity = "pump"
trace = "site"
time = "hour"

[data.wide.predicates]
alarm = "Alarm"
failed = "Failed"

[predicates.Failed]

[objective]
axiom_weights = { Right = 2 }

[training]
epochs = 8
rate = 0.1
"""
THEORY = """
sort pump
predicate Alarm(pump), Failed(pump)
axiom Right: forall x. G(Alarm(x) <-> Failed(x))
axiom Wrong: forall x. G(Alarm(x) -> !Failed(x))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(1)
    rows = ["site,pump,hour,alarm,failed"]
    for site in "abc":
        for pump in range(6):
            for hour in range(6):
                alarm = int(rng.random() < 0.4)
                rows.append(f"{site},p{pump},{hour},{alarm},{alarm if rng.random() < 0.6 else ''}")
    (tmp_path / "pumps.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "theory.fot").write_text(THEORY)
    (tmp_path / "project.toml").write_text(PROJECT)
    return tmp_path


def test_right_axioms_gain_and_an_interruption_loses_nothing(folder):
    config, asked = read_config(folder), 0
    told: list[Any] = []

    def later() -> bool:
        nonlocal asked
        asked += 1
        return asked == 12

    with pytest.raises(InterruptedTrainingError):
        gains(config, draws=1, stop=later)
    assert {p.name for p in folder.glob("model.gain/[0-9]*")} == {"0-all", "0-Right"}
    first = gains(config, draws=1, report=told.append, stop=later)
    assert asked <= 8 * 3  # epochs that were trained before are not trained again
    assert [(p.division, p.axiom, p.done, p.of) for p in told] == [
        (1, None, 1, 3), (1, "Right", 2, 3), (1, "Wrong", 3, 3),
    ]  # fmt: skip
    assert not list(folder.glob("model.gain*"))
    every, axioms = first
    assert every.pr_auc is not None
    right, wrong = axioms
    assert (right.axiom, wrong.axiom) == ("Right", "Wrong")
    assert (average(right.pr_auc) or 0) > 0.1
    assert (average(right.log_loss) or 0) > (average(wrong.log_loss) or 0)
    assert gains(config, draws=1) == first


def test_the_command(folder):
    def run(*args: object):
        return CliRunner().invoke(app, ["audit", str(folder), "--gain", *map(str, args)])

    done = run("--draws", 1)
    assert done.exit_code == 0, done.output
    assert re.search(r"Right +\+0\.\d+ +1 of 1", done.stdout)
    told = json.loads(run("--draws", 1, "--json").stdout)
    assert [one["axiom"] for one in told["axioms"]] == ["Right", "Wrong"]
    assert len(told["axioms"][0]["pr_auc"]["draws"]) == 1
    assert "on its own data" in str(run("--data", folder).exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--draws 2", "--draws needs --gain"),
        ("--draws 3 --suggest", "--draws needs --gain"),
        ("--gain --suggest", "--gain cannot be combined with --suggest"),
        ("--gain --threshold 0.4", "--gain cannot be combined with .*--threshold"),
        ("--gain --end final", "--gain cannot be combined with .*--end"),
    ],
)
def test_no_option_is_ignored(folder, options, message):
    done = CliRunner().invoke(app, ["audit", str(folder), *options.split()])
    assert isinstance(done.exception, DataError)
    assert re.search(message, str(done.exception))
    assert not list(folder.glob("model*"))  # nothing was trained


@pytest.mark.parametrize(
    ("theory", "project", "message"),
    [
        ("sort pump\npredicate Alarm(pump), Failed(pump)\n", PROJECT, "no axioms"),
        (THEORY, 'method = "posterior"\n' + PROJECT, "samples worlds"),
    ],
)
def test_what_cannot_be_measured(folder, theory, project, message):
    (folder / "theory.fot").write_text(theory)
    (folder / "project.toml").write_text(project.replace("axiom_weights = { Right = 2 }", ""))
    with pytest.raises(DataError, match=message):
        gains(read_config(folder))
