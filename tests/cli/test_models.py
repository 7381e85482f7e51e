"""The commands on a trained model: score, ask, violations, audit, predict."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import fotltn
from fotltn.project.model import load_model
from fotltn.web.sides import side_of
from tests.cli.conftest import succeed
from tests.project.common import project

COMMANDS = ("score", "ask", "violations", "audit", "predict")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a scene of one trace, `scene`, and a project of two, `runs`, both trained."""
    folder: Path = tmp_path_factory.mktemp("home")
    project(folder / "runs")
    calls = [
        [
            "new",
            folder / "scene",
            "--cars",
            4,
            "--pedestrians",
            4,
            "--steps",
            12,
            "--seed",
            3,
            "--paper",
        ],
        ["train", folder / "scene", "--epochs", 8],
        ["train", folder / "runs"],
    ]
    for arguments in calls:
        succeed(*arguments)
    return folder


@pytest.fixture(autouse=True)
def _inside(home, monkeypatch):
    monkeypatch.chdir(home)


def rows(text: str) -> list[list[str]]:
    """The cells of the first table in a text."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("───"))
    body = []
    for line in lines[rule + 1 :]:
        if not line.strip():
            break
        body.append(line.replace(" %", "%").split())
    return [lines[rule - 1].split(), *body]


# --- a write that was interrupted -------------------------------------------------------------


@pytest.mark.reliability
@pytest.mark.parametrize("path", ["runs", "runs/model"])
def test_a_model_whose_replacement_was_cut_off_is_read_by_all(call, home, tmp_path, path):
    """Killed between the two renames: there is no `model`, but a whole one beside its place."""
    shutil.copytree(home / "runs", tmp_path / "runs")
    commands = [
        ("score", tmp_path / path), ("ask", tmp_path / path, "forall x. F Stop(x)"),
        ("violations", tmp_path / path), ("audit", tmp_path / path), ("predict", tmp_path / path),
        ("report", tmp_path / path, "--json"),
    ]  # fmt: skip
    before = [call(*command) for command in commands]
    assert [(result.status, result.err) for result in before if result.status] == []
    old, new = (tmp_path / "runs" / f".model.0123456789abcdef.{state}" for state in ("old", "tmp"))
    (tmp_path / "runs" / "model").rename(new)
    old.mkdir()
    assert [call(*command) for command in commands] == before
    assert side_of(tmp_path / path).model is not None
    assert load_model(tmp_path / "runs" / "model").reason == "all epochs are done"
    assert new.exists()
    assert call("train", tmp_path / "runs").status == 0  # which finishes it
    assert sorted(p.name for p in (tmp_path / "runs").iterdir() if "model" in p.name) == ["model"]


# --- score ------------------------------------------------------------------------------------


def test_score_tells_metrics_and_axioms(call):
    status, out, err = call("score", "scene/model")
    assert (status, err) == (0, "")
    model = load_model("scene/model")
    found = model.metrics()
    assert found is not None
    table = {row[0]: row[1:] for row in rows(out)[1:]}
    for name, one in found.predicates.items():
        assert table[name][0] == f"{one.facts:,}"
        wanted = one.pr_auc.value
        assert table[name][2] == ("-" if math.isnan(wanted) else f"{wanted:.3f}")
    axioms = {r[0]: r[1:] for r in rows(out.split("\n\n", 1)[1])[1:]}
    audit = model.audit()
    assert [float(axioms["A3"][i]) for i in range(4)] == [
        round(v, 3)
        for v in (
            audit.axiom("A3").value, audit.axiom("A3").labels, audit.axiom("A3").all_false,
            audit.axiom("A3").all_half,
        )
        if v is not None
    ]  # fmt: skip
    assert out.rstrip().endswith(audit.knowledge_base.line)


def test_a_project_stands_for_its_model(call):
    assert call("score", "scene") == call("score", "scene/model")


def test_score_for_machines(call):
    status, out, err = call("score", "scene", "--json", "--threshold", "0.3")
    found = json.loads(out)
    assert (status, err, found["ok"], found["threshold"]) == (0, "", True, 0.3)
    assert set(found["metrics"]["predicates"]) == {
        "Car", "Ped", "Run", "Stop", "Crossing", "OnSidewalk",
    }  # fmt: skip
    knowledge = found["axioms"]["knowledge_base"]
    assert knowledge["kb_sat"]["all_false"] == 1.0
    assert "Predicting false for everything scores 1.000" in knowledge["meaning"]
    report = load_model("scene/model").metrics(threshold=0.3)
    assert report is not None
    accuracy = report.mean["accuracy"].value
    assert found["metrics"]["mean"]["accuracy"]["value"] == pytest.approx(accuracy)


def test_score_on_facts_of_a_file(call, tmp_path):
    file = tmp_path / "some.csv"
    file.write_text("predicate,arg1,arg2,time,truth\nStop,c1,,3,1\nStop,c2,,3,0\nClose,c1,p1,0,1\n")
    status, out, err = call("score", "scene", "--facts", file)
    assert status == 0
    assert err == "warning: facts of 'Close' are left out, because the model does not learn them\n"
    assert rows(out)[0][:2] == ["predicate", "facts"]
    assert rows(out)[1][:3] == ["Stop", "2", "1"]


def test_no_facts_for_testing(call, tmp_path):
    shutil.copytree("scene", tmp_path / "p", ignore=shutil.ignore_patterns("model"))
    file = tmp_path / "p" / "project.toml"
    file.write_text(file.read_text().replace("train = 0.1", "train = 1.0"))
    assert call("train", tmp_path / "p", "--epochs", 1).status == 0
    status, out, _ = call("score", tmp_path / "p")
    assert status == 0
    assert out.startswith("No facts are held back for testing; give some with --facts.")
    assert json.loads(call("score", tmp_path / "p", "--json").out)["metrics"] is None


# --- query ------------------------------------------------------------------------------------


def test_query_at_a_time(call):
    status, out, err = call("ask", "scene", "Stop(x)", "--at", "3", "--digits", "5")
    assert (status, err) == (0, "")
    degrees = load_model("scene/model").ask("Stop(x)", at=3).tensor.reshape(-1).tolist()
    names = ["c1", "c2", "c3", "c4", "p1", "p2", "p3", "p4"]
    assert rows(out) == [
        ["formula", "x", "t=3"],
        *(["Stop(x)", n, f"{d:.5f}"] for n, d in zip(names, degrees, strict=True)),
    ]


def test_query_over_all_times(call):
    _, out, _ = call("ask", "scene", "exists x. Stop(x)", "--at", "all")
    head, row = rows(out)
    assert head == ["formula", *(f"t={t}" for t in range(12))]
    assert len(row) == 3 + 12


def test_query_sorted_by_value(call):
    model = load_model("scene/model")
    cells: list[dict[str, Any]] = list(model.ask("Crossing(x)", at="all").rows())
    best = sorted(cells, key=lambda c: -c["value"])[:4]
    found = json.loads(call("ask", "scene", "Crossing(x)", "--at", "all", "--top", 4, "--json").out)
    assert found["results"] == [
        {"binding": {"x": c["x"]}, "time": c["time"], "value": c["value"]} for c in best
    ]
    shown = rows(call("ask", "scene", "Crossing(x)", "--at", "all", "--top", 4).out)
    assert shown[0] == ["formula", "x", "time", "value"]
    assert shown[1][1:] == [best[0]["x"], str(best[0]["time"]), f"{best[0]['value']:.3f}"]
    lowest = json.loads(call("ask", "scene", "Crossing(x)", "--sort", "lowest", "--json").out)
    values = [r["value"] for r in lowest["results"]]
    assert values == sorted(values)


def test_query_with_other_semantics(call):
    formula = "Stop(x) & Crossing(x)"
    first = json.loads(call("ask", "scene", formula, "--json").out)
    godel = json.loads(call("ask", "scene", formula, "--semantics", "godel", "--json").out)
    crisp = ["--semantics", "crisp", "--threshold", "0.1"]
    sharp = json.loads(call("ask", "scene", formula, *crisp, "--json").out)
    assert (first["semantics"], godel["semantics"]) == ("stable-product", "godel")
    model = load_model("scene/model")
    stop, crossing = (model.ask(f"{n}(x)").tensor.reshape(-1) for n in ("Stop", "Crossing"))
    for i, (a, b) in enumerate(zip(stop.tolist(), crossing.tolist(), strict=True)):
        assert godel["results"][i]["value"] == min(a, b)
        assert sharp["results"][i]["value"] is (a >= 0.1 and b >= 0.1)
        assert first["results"][i]["value"] == pytest.approx(a * b, abs=1e-3)
    assert "true" in call("ask", "scene", "Car(x) | !Car(x)", *crisp).out
    exponents = {
        p: json.loads(call("ask", "scene", "exists x. Stop(x)", "--p", p, "--json").out)
        for p in ("1", "9")
    }
    assert exponents["1"]["results"][0]["value"] < exponents["9"]["results"][0]["value"]


def test_query_in_several_traces(call):
    found = json.loads(call("ask", "runs", "Stop(x)", "--at", 2, "--json").out)
    assert [(r["trace"], r["binding"]["x"]) for r in found["results"]] == [
        (run, who) for run in ("r1", "r2") for who in ("a1", "a2", "a3")
    ]
    assert rows(call("ask", "runs", "Stop(x)").out)[0] == ["formula", "trace", "x", "t=0"]


def test_a_variable_called_like_an_entity_is_pointed_out(call):
    status, out, err = call("ask", "scene", "Stop(c1)")
    assert status == 0
    assert len(rows(out)) > 2  # a row for each car
    assert err.splitlines() == [
        "warning: 'c1' is a variable here, and also the name of an entity",
        '      = for the entity, write "c1" with double quotes',
    ]
    assert call("ask", "scene", 'Stop("c1")').err == ""


def test_projects_and_theories_in_place_of_models_are_recognised(call, tmp_path):
    with pytest.raises(
        fotltn.DataError, match=r"no manifest.json.*\n.*did you mean .*scene.model\?"
    ):
        load_model("scene")
    (tmp_path / "rules.fot").touch()
    told = call("violations", tmp_path / "rules.fot").err
    assert told.endswith("= read a theory with fotltn eval or fotltn rules, and --facts\n")


# --- violations -------------------------------------------------------------------------------


def test_violations_of_an_axiom(call):
    status, out, err = call("violations", "scene", "A6", "--top", 3)
    assert (status, err) == (0, "")
    found = load_model("scene/model").violations("A6", top=3)
    verb = "is" if found.violated == 1 else "are"
    lines = out.splitlines()
    assert lines[0].startswith("A6: forall x. G(Car(x) -> Run(x) | Stop(x))")
    assert lines[1] == (
        f"Value {found.value:.3f}; {found.violated:,} of {found.decided:,} cells {verb} violated, "
        f"{found.weak:,} not fully true."
    )
    assert lines[2].startswith(("Its antecedent is true", "Violated: "))
    assert lines[-1].startswith(
        "One row per binding of x and time; share is the row's part of the sum of (1 - value)^4"
    )
    head, *body = rows(out)
    assert head == ["violated", "share", "value", "if", "then", "time", "binding", "atoms"]
    assert len(body) == 3
    for cells, worst in zip(body, found, strict=True):
        assert cells[0] == ("yes" if worst.violated else "no")
        assert cells[2] == f"{worst.value:.3f}"
        assert cells[6] == f"x={worst.binding['x']}"
        assert cells[7].startswith(f"Car({worst.binding['x']})=")


def test_without_axioms_none_is_called_true(call, tmp_path):
    facts = {"predicate": ["P", "P"], "arg1": ["a", "a"], "time": [0, 1], "truth": [1, 0]}
    model = fotltn.train("sort s\npredicate P(s)", facts=facts, learn=["P"], training={"epochs": 1})
    model.save(tmp_path / "model")
    assert call("violations", tmp_path / "model").out.splitlines() == ["There are no axioms."]


def test_violations_for_machines(call):
    found = json.loads(call("violations", "runs", "A3", "--top", 10**6, "--json").out)
    listed = found["worst"]
    assert found["violations"] == listed  # the key of version 0.1.0
    assert found["axiom"] == "A3"
    assert {v["trace"] for v in listed} == {"r1", "r2"}
    order = [(not v["violated"], -v["share"]) for v in listed]
    assert order == sorted(order)  # violations first, each kind by its share
    assert sum(v["violated"] for v in listed) == found["violated"] > 0
    assert (found["weak"], found["absent"]) == (len(listed), 0)
    assert found["weak"] <= found["count"]
    two = json.loads(call("violations", "runs", "A3", "--top", 2, "--json").out)
    assert two == {**found, "worst": listed[:2], "violations": listed[:2]}


def test_the_worst_of_all_axioms(call):
    status, out, err = call("violations", "scene", "--top", 4)
    assert (status, err) == (0, "")
    assert "\n\nViolations first, then weak cells. Each kind is ranked by its share" in out
    wanted = load_model("scene/model").worst(4)
    assert [r[0] for r in rows(out)[1:]] == [w.axiom for w in wanted]
    found = json.loads(call("violations", "runs", "--json").out)
    ranks = [(v["violated"], v["share_of_all"]) for v in found["violations"]]
    assert len(ranks) == 10
    assert ranks == sorted(ranks, reverse=True)
    assert "share of the error of all axioms" in found["ranking"]


def test_counterexamples(call):
    # At this threshold almost everything is true, so that things exclude each other no more.
    found = json.loads(
        call("violations", "scene", "A7", "--crisp", "--threshold", "0.01", "--json").out
    )["counterexamples"]["A7"]
    assert found["binding"] == {"x": "c1"}
    assert [a["value"] for a in found["atoms"]] == [1.0, 1.0]
    text = call("violations", "scene", "A7", "--crisp", "--threshold", "0.01").out
    assert text == "A7: false at x = c1, time 0: Run(c1)@0 is true, Stop(c1)@0 is true.\n"
    every = call("violations", "scene", "--crisp", "--threshold", "1").out.splitlines()
    assert len(every) == 13
    assert every[4] == "A5: true, where degrees of at least 1 are true."


# --- audit ------------------------------------------------------------------------------------


def test_the_audit_of_a_model(call):
    status, out, err = call("audit", "scene/model")
    assert (status, err) == (0, "")
    found = load_model("scene/model").audit()
    head, *body = rows(out)
    assert head == [
        "axiom", "value", "labels", "all-false", "all-0.5", "support", "active", "conf.", "base",
        "lift", "∇", "if", "∇", "then",
    ]  # fmt: skip
    assert [r[0] for r in body] == [a.name for a in found.axioms]
    first = found.axiom("A1")
    assert body[0][1] == f"{first.value:.3f}"
    assert body[0][3] == "1.000"
    assert first.on_labels is not None
    assert body[0][5] == f"{first.on_labels.support:,}"
    assert "warning: " in out
    last = out.rstrip().splitlines()[-1]
    assert last == found.knowledge_base.line
    assert "all-false 1.000" in last


def test_the_audit_of_a_project(call):
    status, out, _ = call("audit", "scene")
    assert status == 0
    assert rows(out)[0][1:3] == ["labels", "all-false"]
    last = out.rstrip().splitlines()[-1]
    assert last.startswith("KB-SAT: labels ")
    assert last.endswith("KB-SAT does not measure how good predictions are.")
    before = json.loads(call("audit", "scene", "--json").out)
    after = json.loads(call("audit", "scene/model", "--json").out)
    assert (before["trained"], after["trained"]) == (False, True)
    for a, b in zip(before["axioms"], after["axioms"], strict=True):
        assert a["labels"] == b["labels"]
        assert a["labels"] in (None, a["value"])  # no label may decide a cell of an axiom
        assert a["all_false"] == b["all_false"]
    assert json.loads(call("audit", "scene/project.toml", "--json").out) == before


def test_one_sentence_for_what_several_axioms_share(call):
    out = call("audit", "scene/model").out
    sentences = [s for s in out.splitlines() if "fully satisfied if every learned" in s]
    assert len(sentences) == 1
    assert "A1, A2" in sentences[0]


# --- predict ----------------------------------------------------------------------------------


def test_predictions_are_facts(call, tmp_path):
    status, out, err = call("predict", "scene", "--predicate", "Stop", "--predicate", "Car")
    assert (status, err) == (0, "")
    found = list(csv.DictReader(io.StringIO(out)))
    assert len(found) == 8 * 12 + 8
    degrees = load_model("scene/model").ask("Stop(x)", at="all").tensor
    assert float(found[13]["truth"]) == pytest.approx(float(degrees[0, 1, 1]), rel=1e-6)
    for name in ("p.csv", "p.parquet"):
        assert call("predict", "scene", "-o", tmp_path / name).out == (
            f"{tmp_path / name}: {4 * 96 + 16} rows\n"
        )
        asked = ["--formula", "Stop(x)", "--at", "4", "--json"]
        answer = call("eval", "scene/theory.fot", "--facts", tmp_path / name, *asked)
        values = [r["value"] for r in json.loads(answer.out)["results"]]
        assert values == pytest.approx(degrees[0, :, 4].tolist(), rel=1e-6)
    assert parquet.read_table(tmp_path / "p.parquet").num_rows == 400


def test_predictions_for_machines(call, tmp_path):
    found = json.loads(call("predict", "runs", "--predicate", "Crowded", "--json").out)
    assert found["ok"]
    assert [(r["arg1"], r["trace"]) for r in found["predictions"]] == [
        ("l1", "r1"), ("l2", "r1"), ("l1", "r2"), ("l2", "r2"),
    ]  # fmt: skip
    done = json.loads(call("predict", "runs", "-o", tmp_path / "x.tsv", "--json").out)
    assert done == {"ok": True, "file": str(tmp_path / "x.tsv"), "rows": 30 * 4 + 60 + 4}


# --- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["new", "train", *COMMANDS])
def test_help(call, command):
    status, out, _ = call(command, "--help")
    assert status == 0
    assert "--json" in out
    assert f"fotltn {command}" in out


def test_tables_fit_into_a_hundred_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    for command in ("score", "violations", "audit"):
        out = call(command, "scene/model").out
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
        assert max(len(line) for line in plain) <= 100
        assert not any("…" in line for line in plain)


def test_help_and_check_load_neither_torch_nor_pyarrow():
    code = (
        "import sys; sys.argv = ['fotltn', '--help']\n"
        "from fotltn.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'pyarrow', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
