"""`fotltn watch`: lines in, violations out."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fotltn.cli.main import app
from tests.cli.conftest import EXAMPLE

FOLDER = EXAMPLE.parent / "monitor"
THEORY, STEPS = str(FOLDER / "crossing.fot"), FOLDER / "steps.jsonl"


def run(*args: str, text: str | None = None):
    return CliRunner().invoke(app, ["watch", THEORY, *args], input=text)


def events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_every_violation_as_json():
    result = run("--json", text=STEPS.read_text())
    assert result.exit_code == 3
    *told, last = events(result.stdout)
    assert {event["schema"] for event in [*told, last]} == {1}
    assert [(e["event"], e["axiom"], e["time"], e["step"]) for e in told] == [
        ("violation", "Looks", 4, 4), ("violation", "Yield", 4, 5), ("violation", "Looks", 5, 5),
        ("undecided", "Safe", 4, 5), ("undecided", "Safe", 5, 5),
    ]  # fmt: skip
    assert told[1]["binding"] == {"x": "ego", "y": "bo"}
    assert (last["event"], last["steps"], last["held_back"]) == ("standings", 6, 0)


def test_levels_hold_back_and_count():
    result = run("--json", "--at-most", "1", "--input", str(STEPS))
    told = [e["event"] for e in events(result.stdout)]
    assert told == ["violation", "undecided", "undecided", "standings"]
    assert events(result.stdout)[-1]["held_back"] == 2
    result = run("--hard-only", "--input", str(STEPS))
    assert "3 violations were not reported." in result.stdout


def test_it_goes_on_from_its_state(tmp_path):
    lines = STEPS.read_text().splitlines()
    state = str(tmp_path / "state")
    first = run("--json", "--state", state, text="\n".join(lines[:6]) + "\n")
    second = run("--json", "--state", state, "--end", "undecided", text="\n".join(lines[6:]))
    assert "continues after step 4" in second.stderr
    told = [
        {k: v for k, v in e.items() if k != "number"}
        for e in events((tmp_path / "state" / "events.jsonl").read_text())
    ]
    plain = events(run("--json", text=STEPS.read_text()).stdout)
    assert told == plain[:-1]
    assert events(first.stdout)[:-1] + events(second.stdout)[:-1] == told


def test_every_so_often_it_says_how_axioms_stand():
    result = run("--every", "3", "--input", str(STEPS))
    assert "3 steps, after step 2:" in result.stdout
    assert "6 steps, after step 5:" in result.stdout


@pytest.mark.parametrize(
    ("args", "text", "message"),
    [
        (["--follow"], None, "--follow needs a file to follow"),
        (["--input", "none.jsonl"], None, "cannot read none.jsonl"),
        (["--redis", "redis://localhost/s", "--input", "x"], None, "not from both"),
        ([], '{"facts": [["Crosing", "ann"]]}', "did you mean 'Crossing'?"),
        ([], '{"facts": []}\n{"entities": {}}', "'entities' belongs to the first line"),
        ([], "", "a trace has at least one step"),
        (["--presence", "Close"], '{"facts": []}', "does not say where entities are present"),
    ],
)
def test_errors_say_what_is_wrong(args, text, message):
    result = run(*args, text=text)
    assert result.exit_code == 1
    assert message in str(result.exception)
