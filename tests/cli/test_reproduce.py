"""`fotltn reproduce`: from nothing to tables and figures, small; and the quick version, slow."""

import json
import os
import subprocess
import sys

import pytest

from fotltn.report.records import read

SMALL = [
    "--data", "CarPed35K", "--fraction", "0.1", "--fraction", "0.8", "--epochs", "2",
    "--repetitions", "2", "--processes", "1", "--no-limit",
]  # fmt: skip


def test_all_of_it_small_and_taken_up_again(call, tmp_path):
    first = call("reproduce", tmp_path / "out", *SMALL, "--method", "FOT-LTN+BK", "--json")
    assert first.status == 0
    assert first.err == ""
    said = json.loads(first.out)
    assert (said["ok"], said["runs"], said["new"]) == (True, 4, 4)

    again = call("reproduce", tmp_path / "out", *SMALL, "--method", "FOT-LTN+BK",
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
    assert {one.setting["epochs"] for one in kept} == {2}
    assert read(tmp_path / "out" / "records.parquet") == kept

    text = call("reproduce", tmp_path / "out", *SMALL, "--method", "HTGNN")
    assert text.status == 0
    assert "PR-AUC by share of the facts" in text.out
    assert "the truth" in text.out
    assert "0 of 8 runs done now" in text.out
    other = call("reproduce", tmp_path / "out", *SMALL[:-1], "--epochs", "3", "--no-limit")
    assert other.status == 1
    assert "runs.jsonl:1: a record of another setting (epochs: 2 there, 3 here)" in other.err


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
    found = call("reproduce", tmp_path / "out", *args)
    assert (found.status, found.out) == (1, "")
    assert message in found.err
    assert "Traceback" not in found.err
    assert not (tmp_path / "out").exists()
    as_json = json.loads(call("reproduce", tmp_path / "out", *args, "--json").out)
    assert as_json["ok"] is False


@pytest.mark.parametrize("option", ["--epochs", "--repetitions", "--processes"])
def test_numbers_from_1(call, tmp_path, option):
    found = call("reproduce", tmp_path / "out", option, "0")
    assert found.status == 2
    assert option in found.err


def test_without_matplotlib_nothing_is_run(call, tmp_path, monkeypatch):
    monkeypatch.setattr("fotltn.cli.reproduce.find_spec", lambda _: None)
    found = call("reproduce", tmp_path / "out", *SMALL)
    assert (found.status, found.out) == (1, "")
    assert "figures need matplotlib" in found.err
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_to(call, tmp_path):
    (tmp_path / "file").write_text("")
    found = call("reproduce", tmp_path / "file", *SMALL, "--method", "FOT-LTN", "--epochs", "1")
    assert (found.status, found.out) == (1, "")
    assert "cannot write the record" in found.err


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_version(tmp_path):
    """As a user runs it: 12 runs and 4 of the limit, in some minutes."""
    result = subprocess.run(
        [sys.executable, "-m", "fotltn", "reproduce", "out", "--quick", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=1200,
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
