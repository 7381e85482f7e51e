"""The commands: from nothing to tables and figures, small; reports of records; the door to them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fotltn.learn.locks import reserved
from reproduction.cli import app
from reproduction.paper import sweep
from reproduction.report.records import read, record, write
from tests.cli.conftest import Call, Result, caller
from tests.patience import PATIENCE
from tests.reproduction.synthetic import values
from tests.reproduction.test_sweep import made_up

ROOT = Path(__file__).resolve().parents[2]

SMALLEST = [
    "--data", "CarPed35K", "--fraction", "0.1", "--epochs", "1", "--processes", "1", "--no-limit",
]  # fmt: skip
SMALL = [*SMALLEST, "--fraction", "0.8", "--repetitions", "2"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `python -m reproduction` as if from a shell."""
    return caller(app, monkeypatch, capsys)


def test_all_of_it_small_and_taken_up_again(call, tmp_path):
    first = call("run", tmp_path / "out", *SMALL, "--method", "FOT-LTN+BK", "--json")
    assert first.status == 0
    assert first.err == ""
    said = json.loads(first.out)
    assert (said["ok"], said["runs"], said["new"]) == (True, 4, 4)

    again = call("run", tmp_path / "out", *SMALL, "--method", "FOT-LTN+BK",
                 "--method", "HTGNN", "--json")  # fmt: skip
    said = json.loads(again.out)
    assert (said["runs"], said["new"]) == (8, 4)
    files = [os.path.basename(name) for name in said["files"]]
    assert len(files) == len(set(files))
    assert all(os.path.getsize(name) > 0 for name in said["files"])
    for expected in ("table1_statistics.tex", "table3_pr_auc.txt", "table4_tests.md",
                     "results.png", "results.svg", "records.parquet"):  # fmt: skip
        assert expected in files
    kept = read(tmp_path / "out" / "runs.jsonl")
    assert {one.setting["epochs"] for one in kept} == {1}
    assert read(tmp_path / "out" / "records.parquet") == kept

    text = call("run", tmp_path / "out", *SMALL, "--method", "HTGNN")
    assert text.status == 0
    assert "PR-AUC by share of facts" in text.out
    assert "the truth" in text.out
    assert "0 of 8 runs done now" in text.out
    other = call("run", tmp_path / "out", *SMALL, "--epochs", "3")
    assert other.status == 1
    assert "runs.jsonl:1: a record of another setting (epochs: 1 there, 3 here)" in other.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--data", "CarPed18K"], "unknown data set 'CarPed18K'; did you mean 'CarPed180K'?"),
        (["--method", "FOTLTN"], "unknown method 'FOTLTN'; did you mean 'FOT-LTN'?"),
        (["--fraction", "0.125"], "in whole percents from 0.01 to 0.99, not 0.125"),
        (["--device", "gpu"], "the device 'gpu' cannot be used: expected cpu or cuda"),
    ],
)
def test_bad_names(call, tmp_path, args, message):
    found = call("run", tmp_path / "out", *args)
    assert (found.status, found.out) == (1, "")
    assert message in found.err
    assert "Traceback" not in found.err
    assert not (tmp_path / "out").exists()
    as_json = json.loads(call("run", tmp_path / "out", *args, "--json").out)
    assert as_json["ok"] is False


@pytest.mark.parametrize("option", ["--epochs", "--repetitions", "--processes"])
def test_numbers_from_1(call, tmp_path, option):
    found = call("run", tmp_path / "out", option, "0")
    assert found.status == 2
    assert option in found.err


def test_without_matplotlib_nothing_is_run(call, tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.cli.find_spec", lambda _: None)
    found = call("run", tmp_path / "out", *SMALL)
    assert (found.status, found.out) == (1, "")
    assert "figures need matplotlib" in found.err
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_to(call, tmp_path):
    (tmp_path / "file").write_text("")
    found = call("run", tmp_path / "file", *SMALL, "--method", "FOT-LTN")
    assert (found.status, found.out) == (1, "")
    assert f"cannot write {tmp_path / 'file'}" in found.err


# --- reports ---------------------------------------------------------------------------------


def test_records_and_the_usual_name(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [record(values(data="mine", repetition=i)) for i in range(2)]
    write(runs, tmp_path / "sweep" / "runs.jsonl")
    assert call("report", "sweep/runs.jsonl").out.startswith("report.html: 2 runs, ")
    first = Path("report.html").read_text("utf-8")
    assert "Report of sweep/runs.jsonl" in first
    both = call("report", "sweep", "--json", "-o", "report.html").out
    assert json.loads(both)["runs"] == 2
    assert json.loads(both)["file"] == "report.html"
    assert "Report of sweep<" in Path("report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "the name of a record file must end in one of"),
        (["nowhere.parquet"], "cannot read nowhere.parquet: No such file"),
        (["empty.jsonl"], "there are no runs in empty.jsonl"),
        (["."], "there are no runs in ."),
        (["runs.jsonl", "-o", "notes.txt"], "notes.txt already exists and is not a fotltn report"),
    ],
)
def test_reports_that_cannot_be_written(call, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty.jsonl").write_text("")
    said = call("report", *arguments)
    assert (said.status, said.out) == (1, "")
    assert message in said.err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    told = json.loads(call("report", *arguments, "--json").out)
    assert message in told["diagnostics"][0]["message"]


def test_pages_are_checked(call, monkeypatch):
    monkeypatch.setattr("reproduction.pages.stale", lambda: ["recipe.md"])
    said = call("pages", "--check")
    assert (said.status, said.out) == (1, "")
    assert "out of date: recipe.md; run: python -m reproduction pages" in said.err
    monkeypatch.setattr("reproduction.pages.stale", list)
    assert call("pages", "--check") == (0, "", "")


# --- the door --------------------------------------------------------------------------------


CALLS = """
import contextlib, io, json, sys
from fotltn.cli.main import main
results = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["fotltn", "reproduce", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try: main()
        except SystemExit as end: results.append((end.code, out.getvalue(), err.getvalue()))
print(json.dumps(results))
"""


def door(*calls: list[str], cwd: Path, python: Path) -> list[Result]:
    """What `fotltn reproduce` of the package in a folder says, one call after another."""
    done = subprocess.run(
        [sys.executable, "-c", CALLS, json.dumps(calls)],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(python)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [Result(*said) for said in json.loads(done.stdout)]


def test_in_a_checkout_the_door_leads_to_the_experiments(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "fotltn").symlink_to(ROOT / "fotltn")  # only the package is on the path
    right = ["out", *SMALLEST, "--repetitions", "1", "--method", "FOT-LTN", "--json"]
    done, wrong = door(right, ["out", "--epochs", "0"], cwd=tmp_path, python=tmp_path / "lib")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["runs"] == 1
    assert len(read(tmp_path / "out" / "records.parquet")) == 1
    assert wrong.status == 2
    assert "--epochs" in wrong.err


def test_elsewhere_the_door_says_where_they_are(tmp_path):
    """As installed: the package alone, even with a folder of that name beside it."""
    shutil.copytree(ROOT / "fotltn", tmp_path / "fotltn")
    (tmp_path / "reproduction").mkdir()
    (done,) = door(["--quick"], cwd=tmp_path, python=tmp_path)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "error: the paper's experiments are not installed: they are in the repository\n"
        "      = in a checkout, run: python -m reproduction run\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_version(tmp_path):
    """As a user runs it: 12 runs and 4 of the limit, in some minutes."""
    result = subprocess.run(
        [sys.executable, "-m", "reproduction", "run", tmp_path / "out", "--quick", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert (said["runs"], said["new"]) == (16, 16)
    found = read(tmp_path / "out" / "records.parquet")

    def mean(method: str, fraction: float, field: str = "pr_auc") -> float:
        cell = [r for r in found if (r.method, r.fraction) == (method, fraction)]
        assert len(cell) == 2
        return sum(float(getattr(r, field)) for r in cell) / len(cell)

    for fraction in (0.1, 0.8):
        assert mean("Bayes limit", fraction) > 0.95
        assert mean("FOT-LTN+BK", fraction) > mean("FOT-LTN", fraction)
        assert mean("FOT-LTN+BK", fraction, "kb_sat") > 0.85
        for other in ("FOT-LTN", "HTGNN"):
            assert mean("FOT-LTN+BK", fraction, "kb_sat") > mean(other, fraction, "kb_sat") + 0.1
    assert mean("FOT-LTN+BK", 0.1) > mean("HTGNN", 0.1)  # what the paper claims
    assert mean("FOT-LTN+BK", 0.1) == pytest.approx(0.727, abs=0.03)  # what it prints
    assert mean("FOT-LTN+BK", 0.8) > mean("FOT-LTN+BK", 0.1) + 0.05


@pytest.fixture
def quick(monkeypatch):
    """Runs without any training."""
    monkeypatch.setattr(sweep, "run_many", made_up)


@pytest.mark.reliability
def test_a_full_disk_leaves_no_empty_record(call, tmp_path, monkeypatch, quick):  # noqa: ARG001
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    found = call("run", tmp_path / "out", *SMALL)
    assert found.status == 1
    assert "runs.jsonl': No space left on device" in found.err
    assert os.listdir(tmp_path) == []


@pytest.mark.reliability
def test_two_at_once_are_refused(call, tmp_path, quick):  # noqa: ARG001
    with reserved(tmp_path / "out", "reproduction"):
        found = call("run", tmp_path / "out", *SMALL)
    assert found.status == 1
    assert f"is in use by another reproduction: process {os.getpid()} on " in found.err
    assert os.listdir(tmp_path) == []
