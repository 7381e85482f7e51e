"""`fotltn report`: pages of models, the same as data, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import succeed
from tests.project.common import project
from tests.report.pages import checked
from tests.report.test_html import small

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a trained project, `runs`, and a model of two axioms, `small`."""
    folder: Path = tmp_path_factory.mktemp("home")
    project(folder / "runs")
    succeed("train", folder / "runs")
    small().save(folder / "small")
    return folder


@pytest.fixture(autouse=True)
def _inside(home, monkeypatch):
    monkeypatch.chdir(home)


def test_a_page_with_the_numbers_of_evaluate(call):
    status, out, err = call("report", "runs", "-o", "new/page.html", "--threshold", "0.4")
    assert (status, err) == (0, "")
    assert out.startswith("new/page.html: 4 axioms, ")
    page = checked(Path("new/page.html").read_text("utf-8"))
    assert page.all("h1")[0].text == "Report of runs"
    found = json.loads(call("score", "runs", "--threshold", "0.4", "--json").out)
    shown = {row[0]: row for row in page.cells("Table: Metrics by predicate")}
    for name, one in found["metrics"]["predicates"].items():
        numbers = [one[m]["value"] for m in ("pr_auc", "chance", "roc_auc", "accuracy", "brier")]
        assert shown[name][3:8] == ["–" if n is None else f"{n:.3f}" for n in numbers]
    axioms = {row[0]: row for row in page.cells("Table: All axioms")}
    for one in found["axioms"]["axioms"]:
        row = axioms[one["axiom"]]
        assert row[1] == f"{one['value']:.3f}"
        counts = one["on_model"]
        decided = counts["cells"] - counts["undecided"]
        assert row[5] == f"{counts['violations']:,} of {decided:,}"
    assert found["axioms"]["knowledge_base"]["meaning"] in page.by_id("summary").text


def test_the_content_as_data(call, home):
    status, out, err = call("report", "runs/model", "--json", "--top", "2")
    found = json.loads(out)
    assert (status, err, found["ok"], found["file"]) == (0, "", True, None)
    assert found["model"] == "runs/model"
    assert not (home / "report.html").exists()
    evaluated = json.loads(call("score", "runs", "--json").out)
    assert found["metrics"] == evaluated["metrics"]
    assert found["knowledge_base"] == evaluated["axioms"]["knowledge_base"]
    worst = json.loads(call("violations", "runs", "A1", "--top", "2", "--json").out)
    own = found["axioms"][0]["worst"]["violations"]
    assert [v["value"] for v in own] == [v["value"] for v in worst["violations"]]


def test_a_pdf_is_named(call, home, monkeypatch):
    monkeypatch.setattr("fotltn.reporting.pdf.browser", lambda: "a browser")
    monkeypatch.setattr("fotltn.reporting.pdf.printed", lambda _: b"%PDF" + bytes(1020))
    out = call("report", "small", "--brief", "-o", "brief.html", "--pdf").out
    page, pdf = out.splitlines()
    assert page.startswith("brief.html: 2 axioms, ")
    assert pdf == "brief.pdf: 1.02 KiB"
    assert (home / "brief.pdf").exists()
    told = json.loads(call("report", "small", "-o", "brief.html", "--pdf", "--json").out)
    assert (told["file"], told["pdf"]) == ("brief.html", "brief.pdf")
    assert json.loads(call("report", "small", "--json").out)["pdf"] is None


def test_the_usual_name(call, home):
    assert call("report", "small").out.startswith("report.html: 2 axioms, ")
    (home / "report.html").unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "cannot read"),
        (["empty.jsonl"], "it is a file, not a folder"),
        (["runs", "-o", "."], "it is a folder"),
        (["runs", "-o", "notes.txt"], "notes.txt already exists and is not a fotltn report"),
        (["runs", "-o", "notes.txt/x.html"], "cannot write notes.txt/x.html"),
        (["runs", "-o", "/dev/full", "--force"], "it is not a plain file"),
        (["runs", "--threshold", "0"], "a threshold must be above 0"),
        (["notes.txt"], "it is a file, not a folder"),
    ],
)
def test_errors(call, home, arguments, message):
    (home / "notes.txt").write_text("mine")
    (home / "empty.jsonl").write_text("")
    status, out, err = call("report", *arguments)
    assert (status, out) == (1, "")
    assert message in err
    assert (home / "notes.txt").read_text() == "mine"
    told = json.loads(call("report", *arguments, "--json", *_place(arguments)).out)
    assert message in told["diagnostics"][0]["message"]


def _place(arguments: list[str]) -> list[str]:
    return [] if "-o" in arguments else ["-o", "never.html"]


def test_a_file_of_others_is_replaced_if_that_is_asked_for(call, home):
    (home / "own.html").write_text("<html>mine</html>")
    assert call("report", "small", "-o", "own.html").status == 1
    assert call("report", "small", "-o", "own.html", "--force").status == 0
    checked((home / "own.html").read_text("utf-8"))


def test_what_is_missing_is_named(home):
    code = (
        "import sys; sys.modules['jinja2'] = None; sys.argv = ['fotltn', 'report', 'runs']\n"
        "from fotltn.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=home)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: reports need the package jinja2",
        "      = pip install jinja2, or install fotltn with its extra 'report'",
    ]
