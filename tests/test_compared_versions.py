"""`benchmarks.versions` runs a benchmark or a program in two checkouts, and compares medians."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent

BENCHMARK = """
import json, sys
from fotltn import MS
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open("rounds", "a") as file:
    file.write(".")
with open("rounds") as file:
    odd = len(file.read()) == 2  # one round of three is slow for another reason
rows = [{"what": "until", "ms": MS + 1000 * odd, "traces": int(arguments["--traces"])}]
with open(arguments["--json"], "w") as file:
    json.dump({"rows": rows}, file)
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    """Two small checkouts, `there` and `here`; the latter has our command."""
    for name, ms, bytes_ in (("there", 10, 10**7), ("here", 11, 2 * 10**8)):
        for folder in ("fotltn", "benchmarks"):
            (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / folder / "__init__.py").touch()
        package = tmp_path / name / "fotltn" / "__init__.py"
        package.write_text(f"MS = {ms}\nheld = b'x' * {bytes_}\n", "utf-8")
        (tmp_path / name / "benchmarks" / "small.py").write_text(BENCHMARK, "utf-8")
    shutil.copy(ROOT / "benchmarks" / "versions.py", tmp_path / "here" / "benchmarks")
    return tmp_path


def ran(checkouts: Path, *words: str, there: str = "there") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.versions", str(checkouts / there), *words]
    return subprocess.run(
        command, cwd=checkouts / "here", capture_output=True, text=True, timeout=PATIENCE
    )


def rows_of(checkouts: Path, *words: str) -> tuple[dict[str, Any], str]:
    """The rows by column, and what was printed."""
    done = ran(checkouts, "--rounds", "3", "--json", str(checkouts / "kept"), *words)
    assert done.returncode == 0, done.stderr
    kept = json.loads((checkouts / "kept").read_text("utf-8"))
    return {row["of"]: row for row in kept["rows"]}, done.stdout


def test_a_benchmark_of_each_checkout_is_compared_by_medians(checkouts):
    rows, printed = rows_of(checkouts, "small", "--traces", "7")
    assert (rows["ms"]["before"], rows["ms"]["now"], rows["ms"]["ratio"]) == (10, 11, 1.1)
    assert len(rows["ms"]["ratios"]) == 3
    assert rows["traces"]["ratio"] == 1
    assert "1.100 !" in printed
    assert (checkouts / "there" / "rounds").read_text("utf-8") == "..."


def test_a_program_imports_the_package_of_each_checkout(checkouts):
    program = checkouts / "programs" / "mine.py"
    program.parent.mkdir()
    (program.parent / "beside.py").write_text("NAME = 'seen'\n", "utf-8")
    code = "import sys, fotltn, beside\nopen(sys.argv[1], 'a').write(f'{fotltn.MS} ')\n"
    program.write_text(code, "utf-8")
    rows, printed = rows_of(checkouts, "--", "python", str(program), str(checkouts / "log"))
    assert (checkouts / "log").read_text("utf-8") == "10 11 " * 3
    assert [*rows] == ["wall, s", "processor, s", "peak, MB"]
    assert rows["peak, MB"]["now"] - rows["peak, MB"]["before"] > 100
    assert "!" in printed


@pytest.mark.parametrize(
    ("there", "words", "why"),
    [
        ("there", ["large"], "has no benchmark 'large'"),
        ("there", [], "name a benchmark, or a program after --"),
        ("there", ["--traces", "7", "--", "python", "x.py"], "unknown: --traces 7"),
        ("there", ["small", "--rounds", "0"], "at least one round"),
        ("there", ["--", "python", "-c", "raise SystemExit('gone')"], "gone"),
        ("nowhere", ["small"], "is no checkout"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(checkouts, there, words, why):
    done = ran(checkouts, *words, there=there)
    assert done.returncode
    assert why in done.stderr
    assert "Traceback" not in done.stderr
