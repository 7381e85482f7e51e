"""Commands on projects with method = "posterior", and on their models."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fotltn.posterior.mixing import MixingReport
from fotltn.project.model import load_model
from tests.cli.conftest import succeed
from tests.patience import PATIENCE
from tests.project.robots import THEORY, TOML, project

#: A sampling that waits, after its first checkpoint, until a line is sent to it.
WAITS = """
import sys
from fotltn.cli.main import main
from fotltn.project import sampled

def write_and_wait(*args, write=sampled.write_checkpoint):
    write(*args)
    sampled.write_checkpoint = write
    sys.stdin.readline()

sampled.write_checkpoint = write_and_wait
main()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a project and its model."""
    home: Path = tmp_path_factory.mktemp("home")
    succeed("train", project(home / "robots"))
    return home


@pytest.fixture(autouse=True)
def _inside(home, monkeypatch):
    monkeypatch.chdir(home)


# --- train --------------------------------------------------------------------------------------


def test_training_says_how_far_chains_agree(call, tmp_path):
    trained = call("train", project(tmp_path / "p"))
    assert trained.status == 0
    first, head, *_ = trained.out.splitlines()
    assert first.startswith(f"{tmp_path / 'p' / 'model'}: all 15 sweeps are done, R-hat ")
    assert first.endswith(" effective draws")
    assert head.split()[-2:] == ["log-loss", "ECE"]
    assert "6 worlds at once, 32 labelled facts, 4 axioms" in trained.err
    assert "sweep 1 of 15" in trained.err
    assert "note: Worn(r) is computed as F Faulty(r), as 'Wear' says" in trained.err


def test_training_for_machines(call, tmp_path):
    trained = call("train", project(tmp_path / "p"), "--json")
    told = json.loads(trained.out)
    assert (told["method"], told["epochs"], told["reason"]) == (
        "posterior", 0, "all 15 sweeps are done",
    )  # fmt: skip
    assert told["posterior"]["worlds"] == 18
    assert set(told["posterior"]["r_hat"]) == {"Faulty", "Slow", "Alarm", "Worn", "Idle"}
    assert set(told["posterior"]["violations"]) == {"Signs"}
    assert "ece" in told["metrics"]["mean"]


def test_the_method_can_be_another_than_the_projects(call, tmp_path):
    gradient = TOML.replace('"posterior"', '"gradient"')
    folder = project(tmp_path / "p", gradient)
    assert call("train", folder, "--method", "posterior").status == 0
    assert load_model(folder / "model").config.method == "posterior"
    assert call("train", folder, "--epochs", "1").status == 0
    assert load_model(folder / "model").config.method == "gradient"


def test_control_c_loses_nothing(call, tmp_path, home):
    folder = project(tmp_path / "p")
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, "train", str(folder)], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for _ in range(PATIENCE * 100):
        if any((folder / "model.checkpoints").glob("step-*")) or process.poll() is not None:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate("go on\n", timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "error: training was stopped after sweep 11 of 15\n" in err
    assert "= run the same command to continue" in err
    assert not (folder / "model").exists()
    assert call("train", folder).status == 0
    straight = home / "robots" / "model"
    for file in sorted((folder / "model").iterdir()):
        assert file.read_bytes() == (straight / file.name).read_bytes(), file.name
    assert not (folder / "model.checkpoints").exists()


def test_what_a_posterior_cannot_do_is_refused_in_place(call, tmp_path):
    toml = TOML.replace('Slow = "logits"', 'Slow = "network"')
    folder = project(tmp_path / "p", toml)
    refused = call("train", folder)
    assert (refused.status, refused.out) == (1, "")
    assert "project.toml:12:1: error: 'Slow' is computed by a network" in refused.err
    assert (
        '= kind = "auto", which samples it without a network, or method = "gradient"' in refused.err
    )


def test_axioms_that_no_world_obeys_are_named(call, tmp_path):
    theory = THEORY + "hard axiom Never: forall r. G(!Slow(r) & X Slow(r))\n"
    refused = call("train", project(tmp_path / "p", theory=theory))
    assert refused.status == 1
    assert "Never" in refused.err
    assert "Traceback" not in refused.err


# --- ask ----------------------------------------------------------------------------------------


def test_answers_come_with_intervals(call):
    asked = call("ask", "robots", "Slow(r)", "--at", "2")
    head, _, *rows = asked.out.splitlines()
    assert head.split() == ["formula", "r", "t=2", "95", "%"]
    assert len(rows) == 3
    values = [row.split() for row in rows]
    for row in values:
        assert float(row[3]) <= float(row[2]) <= float(row[5])
    every = call("ask", "robots", "Slow(r)", "--at", "all")
    assert "95 %" not in every.out
    ranked = call("ask", "robots", "Slow(r)", "--at", "all", "--top", "2")
    assert ranked.out.splitlines()[0].split() == ["formula", "r", "time", "value", "95", "%"]


def test_answers_for_machines(call):
    one = json.loads(call("ask", "robots", "Slow(r)", "--at", "2", "--json").out)
    assert (one["semantics"], one["worlds"], one["given"]) == ("worlds", [18], None)
    assert set(one["results"][0]) == {"binding", "value", "low", "high"}
    every = json.loads(call("ask", "robots", "Slow(r)", "--at", "all", "--json").out)
    assert [len(every["results"][0][k]) for k in ("values", "low", "high")] == [6, 6, 6]
    degrees = json.loads(call("ask", "robots", "Slow(r)", "--p", "2", "--json").out)
    assert (degrees["semantics"], degrees["worlds"]) == ("stable-product", None)
    assert set(degrees["results"][0]) == {"binding", "value"}


SOME = "exists r. F Faulty(r)"  # is true in some worlds


def test_conditions_choose_worlds(call):
    asked = call("ask", "robots", SOME, "--given", SOME, "--json")
    told = json.loads(asked.out)
    assert told["results"][0]["value"] == 1.0
    assert told["given"] == SOME
    few = call("ask", "robots", SOME, "--given", SOME)
    count = told["worlds"][0]
    assert few.err == (
        f"warning: only {count} of 18 sampled worlds obey the condition\n"
        "      = for narrower intervals, state the condition as a fact, and train again\n"
    )
    none = call("ask", "robots", "F Alarm", "--given", "exists r. Worn(r) & G !Faulty(r)")
    assert (none.status, none.out) == (1, "")
    assert none.err == (
        "error: none of the 18 sampled worlds obeys the condition; state it as a fact, and sample "
        "again\n"
    )
    wrong = call("ask", "robots", "F Alarm", "--given", "F Alrm")
    assert wrong.status == 1
    assert "condition:1:3: error:" in wrong.err


# --- worlds -------------------------------------------------------------------------------------


def test_worlds_are_tables_of_facts(call, home):
    written = call("worlds", "robots", "--out", "some", "--number", "3", "--json")
    told = json.loads(written.out)
    assert [w["number"] for w in told["worlds"]] == [17, 16, 15]
    assert sorted(p.name for p in (home / "some").iterdir()) == [
        "world-0015.csv", "world-0016.csv", "world-0017.csv",
    ]  # fmt: skip
    posterior = load_model(home / "robots" / "model").posterior
    assert posterior is not None
    with (home / "some" / "world-0016.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["rows"] == 63
    slow = [int(row["truth"]) for row in rows if row["predicate"] == "Slow"]
    assert slow == posterior.worlds["Slow"][16].flatten().int().tolist()


def test_a_world_obeys_when_it_is_read_again(call, home):
    call("worlds", "robots", "--out", "best", "--most-probable")
    (file,) = (home / "best").iterdir()
    near = [line for line in (home / "robots" / "facts.csv").read_text().splitlines()
            if line.startswith(("predicate", "Near"))]  # fmt: skip
    (home / "near.csv").write_text("\n".join(near) + "\n")
    theory = home / "robots" / "theory.fot"
    asked = call("rules", theory, "--facts", file, "--facts", "near.csv", "--json")
    assert asked.status == 0, asked.err
    told = {rule["rule"]: rule for rule in json.loads(asked.out)["rules"]}
    for name in ("Loud", "Wear", "Stays"):
        assert told[name]["confidence"]["value"] in (1.0, None), told[name]


def test_worlds_as_parquet(call):
    written = call("worlds", "robots", "--out", "pq", "--number", "1", "--parquet")
    assert written.out == "pq/world-0017.parquet: 63 rows\n"


def test_what_cannot_be_written_is_refused(call, tmp_path):
    assert call("worlds", "robots", "--out", "w", "--number", "19").err == (
        "error: there are 18 worlds, not 19\n"
    )
    (tmp_path / "file").write_text("mine")
    refused = call("worlds", "robots", "--out", tmp_path / "file")
    assert refused.status == 1
    assert "Traceback" not in refused.err
    gradient = project(tmp_path / "g", TOML.replace('"posterior"', '"gradient"'))
    call("train", gradient, "--epochs", "1")
    refused = call("worlds", gradient, "--out", tmp_path / "w")
    assert refused.err == (
        "error: this command writes sampled worlds, and this model has none\n"
        '      = train the project with method = "posterior"\n'
    )


# --- what other commands say --------------------------------------------------------------------


def test_other_commands_take_shares_for_degrees(call, tmp_path):
    scored = call("score", "robots")
    assert "ECE" in scored.out
    assert re.search(
        r"violates on average, and in 95 of 100 worlds: Signs [\d.]+ \(\d+ to \d+\);",
        " ".join(scored.out.split()),
    )
    for command in (
        ("audit", "robots/model"), ("violations", "robots", "--top", "2"),
        ("rules", "robots/model"), ("predict", "robots"),
        ("report", "robots", "-o", tmp_path / "page.html"),
    ):  # fmt: skip
        done = call(*command)
        assert done.status == 0, done.err
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "18 worlds of 6 chains." in page
    assert "Effective draws" in page
    content = json.loads(call("report", "robots", "--json").out)
    assert content["training"]["posterior"]["chains"] == 6


# --- plan ---------------------------------------------------------------------------------------

PLAN = """\
6 worlds at once, 15 sweeps
drawn: Faulty, Slow
follow by definition: Alarm, Worn, Idle

3 tracks, one of each robot, 6 points long: Faulty, Slow
  automaton: 10 states, 4 letters, at most 4 successors of a state, Worn, Idle along
  obeys: Stays, Signs
  labels of Alarm: window of 1 point, 4 places
  2 groups, one after the other

a sweep: 4,320 steps of automata
all: 64,800 steps
worlds: 1,512 bytes, with those that are stored
the largest move: about 40,608 bytes more
"""


def test_the_plan_of_a_project(call):
    assert call("plan", "robots").out == PLAN
    told = json.loads(call("plan", "robots/project.toml", "--json").out)
    assert (told["steps"], told["tied"], told["watched"]) == (4320, [], [])
    assert told["seconds"] is None
    timed = call("plan", "robots", "--time")
    assert timed.out.startswith(PLAN + "About ")
    assert timed.out.endswith("s, on this machine\n")
    (track,) = told["tracks"]
    assert track["factors"] == [
        {
            "name": "Alarm",
            "labels": True,
            "hard": False,
            "route": "window",
            "points": 1,
            "places": 4,
        }
    ]


def test_the_plan_as_if_the_method_was_another(call, tmp_path):
    folder = project(tmp_path / "p", TOML.replace('"posterior"', '"gradient"'))
    told = call("plan", folder)
    assert told.status == 0
    assert told.out.startswith("learns by gradients")
    assert call("plan", folder, "--posterior").out == PLAN


def test_a_plan_says_what_is_tested(call, tmp_path):
    one, two = "exists s. Slow(s) & !Near(s)", "exists s, q. Slow(s) & Faulty(q)"
    remembered = f"axiom Far weight 0.5: forall r. G(Faulty(r) -> O ({one}))\n"
    told = call("plan", project(tmp_path / "q", theory=THEORY + remembered))
    assert "  Far: window of 1 point, 54 places\n" in told.out, told.out
    more = f"axiom Far weight 0.5: forall r. G(Faulty(r) -> O ({two}))\n"
    told = call("plan", project(tmp_path / "p", theory=THEORY + more))
    assert "  Far: draws are tested, 9 places\n" in told.out, told.out


def test_sizes_are_those_of_the_data(call):
    refused = call("plan", "robots", "--size", "robot=3")
    assert refused.err == (
        "error: a project's data say how much there is: leave out --size and --facts\n"
    )
    assert "there is no project at 'nowhere.fot'" in call("plan", "nowhere.fot", "--posterior").err


# --- doubtful labels, and what axioms are worth ---------------------------------------------------


def test_doubtful_labels_come_first_with_what_speaks_against(call, home):
    doubts = json.loads(call("doubt", "robots", "--top", "40", "--json").out)
    assert doubts["labels"] == len(doubts["doubts"]) == 32
    wrong = [one["wrong"] for one in doubts["doubts"]]
    assert wrong == sorted(wrong, reverse=True)
    assert doubts["expected_wrong"] == pytest.approx(sum(wrong))
    model = load_model(home / "robots" / "model")
    first = doubts["doubts"][0]
    table = model.tables.predicate(first["predicate"])
    robot = int(first["fact"].split("(r")[1].rstrip(")"))
    share = float(table[0, robot, first["time"] or 0])
    assert first["wrong"] == pytest.approx(1 - share if first["says"] else share, abs=1e-6)
    shown = call("doubt", "robots", "--top", "2").out.splitlines()
    assert shown[0].split() == ["wrong", "by", "others", "label", "against"]
    assert len(shown) == 5
    assert shown[-1].startswith("32 labels, of which ")


def test_doubtful_labels_as_a_table(call, home):
    asked = ("doubt", "robots", "--above", "0.2", "--predicate", "Slow")
    written = call(*asked, "-o", "doubts.csv", "--top", "1")
    with (home / "doubts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert written.out.splitlines()[-1] == f"doubts.csv: {len(rows)} rows"
    assert set(rows[0]) == {"predicate", "arg1", "time", "truth", "wrong", "wrong_by_others"}
    assert {row["predicate"] for row in rows} == {"Slow"}
    assert all(float(row["wrong"]) >= 0.2 for row in rows)


def test_doubts_that_cannot_be(call, tmp_path):
    assert call("doubt", "robots", "--predicate", "Near").err.startswith(
        "error: 'Near' has no labels; "
    )
    gradient = project(tmp_path / "g", TOML.replace('"posterior"', '"gradient"'))
    call("train", gradient, "--epochs", "1")
    assert call("doubt", gradient).err == (
        "error: doubts about labels come from sampled worlds, and this model has none\n"
        '      = train the project with method = "posterior"\n'
    )


def test_what_an_axiom_is_worth(call):
    asked = ("worth", "robots", "--folds", "2", "--axiom", "Signs")
    told = json.loads(call(*asked, "--json").out)
    assert told["labels"] == 32
    (signs,) = told["axioms"]
    assert signs["axiom"] == "Signs"
    assert signs["low"] <= signs["gain"] <= signs["high"]
    shown = call(*asked).out.splitlines()
    assert shown[0].split() == ["axiom", "worth", "95", "%", "a", "label"]
    assert shown[2].split()[0] == "Signs"
    wrong = call("worth", "robots", "--axiom", "Sign")
    assert wrong.status == 1
    assert "the theory has no axiom 'Sign'" in wrong.err


# --- chains that do not agree ---------------------------------------------------------------------


def test_worth_says_for_which_axioms_chains_do_not_agree(call, monkeypatch):
    monkeypatch.setattr(MixingReport, "worst", 9.0)
    asked = ("worth", "robots", "--folds", "2", "--axiom", "Signs")
    told = call(*asked)
    assert "chains do not agree in what was sampled for Signs (R-hat 9.000)" in told.err
    assert json.loads(call(*asked, "--json").out)["axioms"][0]["r_hat"] == 9.0


def test_every_answer_says_that_chains_do_not_agree(call, monkeypatch):
    monkeypatch.setattr(MixingReport, "apart", {"Slow": 9.0})
    for command in (
        ["ask", "robots", "Slow(r)", "--at", "2"],
        ["ask", "robots", "Slow(r)", "--data", "robots"],
        ["doubt", "robots"],
        ["worlds", "robots", "--out", "w"],
        ["score", "robots"],
        ["predict", "robots", "-o", "p.csv"],
    ):
        told = call(*command)
        assert told.status == 0, told.err
        assert told.err.count("warning: chains do not agree on Slow (R-hat 9.000)") == 1, command
    for command in (["ask", "robots", "Slow(r)"], ["doubt", "robots"]):
        (text,) = json.loads(call(*command, "--json").out)["warnings"]
        assert text.startswith("chains do not agree on Slow")
