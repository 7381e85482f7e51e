"""What commands there are, what they were called, and what `fotltn plan` says."""

import json
import re
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import fotltn
from fotltn import SEMANTICS
from fotltn.cli.main import _RENAMED, app
from fotltn.logic.check import check
from fotltn.plan.rows import row_cost
from fotltn.plan.sizes import Sizes
from fotltn.syntax.load import load_theory
from tests.cli.test_cli import invoke

in_folder = pytest.mark.usefixtures("folder")

OPTIONS = {
    "check": ["--strict", "--json"],
    "show": ["--as", "--json"],
    "eval": ["--facts", "--formula", "--semantics", "--p", "--at", "--horizon", "--step",
             "--origin", "--timezone", "--clock", "--threshold", "--budget", "--digits",
             "--shards", "--json"],
    "plan": ["--posterior", "--size", "--horizon", "--traces", "--facts", "--semantics", "--p",
             "--at", "--budget", "--double", "--time", "--json"],
    "new": ["--from", "--learn", "--entity", "--trace", "--time", "--example", "--cars",
            "--pedestrians", "--steps", "--seed", "--paper", "--json"],
    "prepare": ["--data", "--traces", "--budget", "--json"],
    "train": ["--data", "--model", "-o", "--no-axioms", "--method", "--seed", "--epochs", "--fresh",
              "--finish", "--log", "--tensorboard", "--shards", "--json"],
    "tune": ["--search", "--metric", "--trials", "--seed", "--jobs", "--cluster", "--fresh",
             "--json"],
    "score": ["--data", "--evidence", "--facts", "--threshold", "--shards", "--json"],
    "ask": ["--data", "--evidence", "--horizon", "--at", "--semantics", "--p", "--threshold",
            "--given", "--sort", "--top", "--digits", "--json"],
    "doubt": ["--top", "--predicate", "--above", "--output", "-o", "--json"],
    "worth": ["--axiom", "--folds", "--json"],
    "worlds": ["--out", "-o", "--data", "--evidence", "--number", "--most-probable",
               "--parquet", "--json"],
    "violations": ["--data", "--evidence", "--top", "--crisp", "--threshold", "--end", "--why",
                   "--flip-given", "--json"],
    "audit": ["--data", "--suggest", "--gain", "--draws", "--threshold", "--end", "--shards",
              "--json"],
    "rules": ["--facts", "--presence", "--horizon", "--step", "--origin", "--timezone", "--clock",
              "--data",
              "--theory", "--part", "--formula", "--semantics", "--threshold", "--end",
              "--resamples", "--seed", "--budget", "--shards", "--json"],
    "inspect": ["--data", "--port", "--host", "--open", "--token", "--no-token", "--semantics",
                "--p", "--threshold", "--end", "--horizon", "--step", "--origin", "--timezone",
                "--clock", "--budget", "--json"],
    "predict": ["--data", "--evidence", "--horizon", "--output", "-o", "--predicate", "--decide",
                "--wide", "--shards", "--json"],
    "watch": ["--input", "--follow", "--redis", "--state", "--save-every", "--model",
              "--skip-errors", "--hard-only",
              "--at-most", "--quiet", "--resolved", "--every", "--window", "--forget",
              "--presence", "--threshold", "--horizon", "--end", "--json"],
    "monitor": ["--input", "--every", "--horizon", "--semantics", "--p", "--threshold",
                "--crisp-only", "--history", "--json"],
    "report": ["--data", "--output", "-o", "--top", "--threshold", "--force", "--brief", "--pdf",
               "--json"],
    "reproduce": [],
}  # fmt: skip


def test_help_names_every_command_and_option():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert set(commands) == set(OPTIONS)
    for flag in ("--help", "-h"):
        whole = invoke(flag).stdout
        assert all(re.search(rf"^  {name}  ", whole, re.MULTILINE) for name in OPTIONS)
        assert "--version" in whole
        for name, options in OPTIONS.items():
            text = invoke(name, flag).stdout
            declared = [o for p in commands[name].params for o in p.opts if o.startswith("-")]
            assert sorted(declared) == sorted(options)
            for option in [*options, "--help"]:
                assert re.search(rf"(^|\s){option},?\s", text), (name, option)
    flat = re.sub(r"(?<=-)\s+", "", re.sub(r"\s+", " ", invoke("eval", "--help").stdout))
    assert f"One of {', '.join(SEMANTICS)}." in flat


def test_help_lists_commands_by_task_with_whole_summaries():
    """At the width of a narrow terminal, too, each has one line."""
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    tasks = shown.split("\n\n")[3:]
    assert [task.splitlines()[0] for task in tasks] == [
        "Theories and facts:", "Learning:", "Models:", "The paper:",
    ]  # fmt: skip
    lines = [line for task in tasks for line in task.splitlines()[1:]]
    summaries = dict(line.split(None, 1) for line in lines)
    assert summaries.keys() == OPTIONS.keys()
    assert all(summary.endswith(".") and "..." not in summary for summary in summaries.values())


@pytest.mark.parametrize(("old", "new"), [*_RENAMED.items()])
def test_old_words_of_commands_work_and_say_so(call, old, new):
    name = f"fotltn {old} is now called fotltn {new}"
    said = f"{name}; a later version will not accept the old name\n"
    assert call(old, "--help") == (0, call(new, "--help").out, said)
    assert not re.search(rf"^  {old} ", invoke("--help").stdout, re.MULTILINE)


@in_folder
def test_an_old_word_leaves_json_alone(call):
    old, new = (
        call(w, "t.fot", "--size", "agent=3", "--size", "place=2", "--json")
        for w in ("explain", "plan")
    )
    assert json.loads(old.out) == json.loads(new.out)
    assert (old.err != "", new.err) == (True, "")


# --- plan -------------------------------------------------------------------------------------

SIZES = ["--size", "agent=10", "--size", "place=2", "--horizon", "7"]


@in_folder
def test_plan_of_two_valued_logic_says_what_it_takes(call):
    checked = check(load_theory(Path("t.fot")))
    sizes = Sizes({"agent": 10, "place": 2}, 7)
    peaks = {a.name: row_cost(a.formula, sizes).peak for a in checked.axioms}
    status, out, _ = call("plan", "t.fot", *SIZES, "--semantics", "crisp")
    assert status == 0
    assert out.splitlines()[0] == f"A: by rows of facts, about {peaks['A']} B"
    assert f"it needs about {peaks['A']} B of intermediate results (budget 4 GiB)" in out
    found = json.loads(call("plan", "t.fot", *SIZES, "--semantics", "crisp", "--json").out)
    assert {root["name"]: root["peak_bytes"] for root in found["roots"]} == peaks
    assert (found["steps"], found["peak_bytes"]) == ([], max(peaks.values()))


@in_folder
def test_plan_of_two_valued_logic_refuses_nothing_that_facts_may_make_small(call):
    status, out, _ = call("plan", "t.fot", *SIZES, "--semantics", "crisp", "--budget", "200")
    assert status == 0
    assert re.search(r"it needs about [\d,]+ B .*\(budget 200 B\)", out)


@in_folder
@pytest.mark.parametrize("semantics", ["stable-product", "crisp"])
def test_plan_says_how_long_it_takes_where_asked(call, semantics):
    """Two-valued logic has no gradients."""
    asked = ("plan", "t.fot", *SIZES, "--semantics", semantics)
    last = call(*asked, "--time").out.splitlines()[-1]
    gradients = r", [\d.]+ \w+ with gradients" if semantics != "crisp" else ""
    assert re.fullmatch(rf"About [\d.]+ \w+{gradients}, on the processor of this machine", last)
    assert call(*asked).out.splitlines()[-1] != last
    seconds = json.loads(call(*asked, "--time", "--json").out)["seconds"]
    assert all(0 < number < 1 for number in seconds.values())
    assert list(seconds) == ["values", "with_gradients"][: 1 + (semantics != "crisp")]
    assert json.loads(call(*asked, "--json").out)["seconds"] is None


def test_version():
    assert invoke("--version").stdout == f"fotltn {fotltn.__version__}\n"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("fotltn vio", ["violations"]),
        ("fotltn violations . A1", ["A1", "A10", "A11", "A12", "A13"]),
        ("fotltn violations nowhere A1", []),
    ],
)
def test_a_shell_completes_names(words, names, tmp_path, monkeypatch):
    assert CliRunner().invoke(app, ["new", str(tmp_path / "scene"), "--cars", "2"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "scene")
    count = str(len(words.split()) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": count, "_FOTLTN_COMPLETE": "complete_bash"}
    shown = CliRunner().invoke(app, prog_name="fotltn", env=asked).stdout
    assert shown.split() == names
