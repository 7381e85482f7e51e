"""`fotltn monitor`: lines in, verdicts out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fotltn.cli.main import app
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.verdicts import States, ValueBounds
from fotltn.syntax.load import load_theory
from tests.cli.conftest import EXAMPLE
from tests.patience import PATIENCE

FOLDER = EXAMPLE.parent / "monitor"
THEORY, STEPS = str(FOLDER / "crossing.fot"), FOLDER / "steps.jsonl"
CHANGES = [
    "step 3: Halts satisfied",
    "step 4: Looks violated: y = bo",
    "step 5: Yield violated: x = ego, y = bo",
]
PROGRAM = [sys.executable, "-m", "fotltn"]


def run(*args: str, text: str | None = None):
    return CliRunner().invoke(app, ["monitor", THEORY, *args], input=text)


@pytest.mark.parametrize("from_file", [False, True])
def test_changes_and_a_table(from_file):
    found = run("--input", str(STEPS)) if from_file else run(text=STEPS.read_text())
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert lines[:3] == CHANGES
    assert lines[3] == "6 steps:"
    assert lines[6:] == [
        "Yield violated 5 0.742 x = ego, y = bo",
        "Looks violated 4 0.360 y = bo",
        "Safe violated the end – y = bo",
        "Halts satisfied 3 0.760",
    ]
    assert found.stderr.startswith("note: the value of Safe needs the whole trace, kept with")
    assert found.exit_code == 3


def test_nothing_is_violated():
    found = run("--crisp-only", text='{"facts": [["Stop", "ego"]]}\n')
    assert (found.exit_code, found.stderr) == (0, "")
    assert "1 step:" in found.stdout


def test_every():
    found = run("--every", "3", "--history", text=STEPS.read_text())
    assert [line for line in found.stdout.splitlines() if line.startswith("after")] == [
        "after step 2:", "after step 5:",
    ]  # fmt: skip
    assert "Safe    open      false             0.240    0.000     1.000" in found.stdout
    assert "which is kept" in found.stderr


def test_json_is_an_object_a_line():
    found = run("--json", "--horizon", "6", text=STEPS.read_text())
    *steps, final = [json.loads(line) for line in found.stdout.splitlines()]
    assert [s["step"] for s in steps] == list(range(6))
    yields = [{a["axiom"]: a for a in s["axioms"]}["Yield"] for s in steps]
    assert [a["verdict"] for a in yields] == ["open"] * 5 + ["violated"]
    assert yields[5]["binding"] == {"x": "ego", "y": "bo"}
    lows, highs = [a["low"] for a in yields], [a["high"] for a in yields]
    assert all(low <= high for low, high in zip(lows, highs, strict=True))
    assert final["final"] is True
    assert final["steps"] == 6
    last = {a["axiom"]: a for a in final["axioms"]}
    assert last["Yield"]["value"] == last["Yield"]["low"] == last["Yield"]["high"]
    assert last["Safe"]["value"] is None
    assert found.exit_code == 3
    crisp = run("--json", "--crisp-only", "--every", "4", text=STEPS.read_text())
    shown = [json.loads(line) for line in crisp.stdout.splitlines()]
    assert [s.get("step") for s in shown] == [3, None]
    assert "value" not in shown[0]["axioms"][0]


@pytest.mark.parametrize("every", [1, 3])
def test_json_has_the_values_after_each_step(every):
    """Those of many lines at once are those of a monitor that is asked after each step."""
    lines = STEPS.read_text().splitlines()
    lines += [line.replace("bo", "b\\u00f6") for line in lines[1:]] * 3
    found = run("--json", "--every", str(every), text="\n".join(lines) + "\n")
    *shown, final = [json.loads(line) for line in found.stdout.splitlines()]
    monitor = Monitor(load_theory(Path(THEORY)), header=lines[0])
    wanted: list[tuple[int | None, States, dict[str, ValueBounds]]] = []
    for line in lines[1:]:
        states = monitor.step(line)
        if monitor.count % every == 0:
            wanted.append((states.step, states, monitor.values()))
    wanted.append((None, monitor.finish(), monitor.values()))
    assert [s.get("step") for s in [*shown, final]] == [step for step, _, _ in wanted]
    for printed, (_, states, values) in zip([*shown, final], wanted, strict=True):
        for axiom, state in zip(printed["axioms"], states, strict=True):
            value = values[state.axiom]
            numbers = [axiom.pop(key) for key in ("value", "low", "high")]
            assert axiom == state.as_dict()
            assert numbers == [pytest.approx(n) for n in (value.now, value.low, value.high)]


def test_options_choose_the_meaning():
    text = '{"facts": [["Stop", "ego", 0.4]]}'
    low = run("--threshold", "0.3", "--semantics", "godel", text=text)
    assert low.exit_code == 0
    assert "0.400" in low.stdout
    assert run("--p", "2", text=text).exit_code == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "error: a trace has at least one step, but there was none"),
        ("\n \n", "error: a trace has at least one step"),
        ('{"entities": {}}', "error: a trace has at least one step"),
        ('{"facts": []}\n\n{"facts": [["Stopp", "ego"]]}', "<stdin>:3:13: error: unknown predica"),
        ('{"facts": []}\nnonsense', "<stdin>:2:1: error: this is not JSON: expecting value"),
        ('{"facts": []}\n{"entities": {}}', "<stdin>:2:14: error: 'entities' belongs to the first"),
        ('{"entities": {"cart": []}}', "<stdin>:1:"),
        ("[" * 100_000, "<stdin>:1:1: error: "),
    ],
)
def test_bad_input(call, monkeypatch, text, message):
    monkeypatch.setattr(sys, "stdin", _Stdin(text.encode()))
    status, _, err = call("monitor", THEORY)
    assert status == 1
    assert message in err
    assert "Traceback" not in err


def test_a_step_with_more_entities_than_there_is_room_for(call, monkeypatch, tmp_path):
    """Every pair of them would be followed: 6,000 entities are 36 million pairs."""
    theory = tmp_path / "t.fot"
    theory.write_text("sort s\npredicate Near(s, s)\naxiom A: G forall x, y. !Near(x, y)\n")
    pairs = json.dumps({"facts": [["Near", f"a{i}", f"b{i}"] for i in range(3000)]})
    for text, line in ((pairs, 1), (f'{{"facts": [["Near", "a", "b"]]}}\n{pairs}', 2)):
        monkeypatch.setattr(sys, "stdin", _Stdin(text.encode()))
        status, _, err = call("monitor", str(theory))
        assert status == 1
        assert f"<stdin>:{line}:1: error: with the entities of this step" in err
        assert "more than the 16,777,216 that it has room for" in err
        assert "fotltn watch" in err


def test_text_that_is_none(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", _Stdin(b'{"facts": []}\n\xff\xfe\n'))
    status, _, err = call("monitor", THEORY)
    assert status == 1
    assert "<stdin>:2:1: error: this is not UTF-8 text" in err
    assert "Traceback" not in err


def test_steps_before_an_error_are_shown(call, monkeypatch):
    lines = [*STEPS.read_text().splitlines()[:5], "oops"]
    monkeypatch.setattr(sys, "stdin", _Stdin("\n".join(lines).encode()))
    status, out, err = call("monitor", THEORY)
    assert (status, out) == (1, f"{CHANGES[0]}\n")
    assert "<stdin>:6:1: error: this is not JSON" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--input", "no.jsonl"], "cannot read no.jsonl: No such file"),
        (["--semantics", "gödel"], "unknown semantics"),
        (["--threshold", "2"], "a threshold must be above 0"),
    ],
)
def test_bad_calls(call, monkeypatch, args, message):
    monkeypatch.setattr(sys, "stdin", _Stdin(b'{"facts": []}'))
    status, _, err = call("monitor", THEORY, *args)
    assert status == 1
    assert message in err


def test_a_theory_without_axioms(call, folder):
    (folder / "empty.fot").write_text("sort a\n")
    status, _, err = call("monitor", "empty.fot")
    assert (status, err) == (1, "error: empty.fot has no axioms to monitor\n")


class _Stdin:
    """Standard input with given bytes."""

    def __init__(self, data: bytes) -> None:
        import io

        self.buffer = io.BytesIO(data)


def test_lines_are_answered_as_they_come_and_ctrl_c_ends_the_trace():
    """The program is fed through a pipe that stays open."""
    lines = STEPS.read_text().splitlines()
    process = subprocess.Popen(
        [*PROGRAM, "monitor", THEORY],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(lines[:5]) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{CHANGES[0]}\n"
        process.stdin.write(lines[5] + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{CHANGES[1]}\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out.startswith("5 steps:\n")
    assert "Traceback" not in err
