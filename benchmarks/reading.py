"""Measure reading facts from CSV and Parquet, and training on them, here and in another checkout.

    python -m benchmarks.reading CHECKOUT [--rows 2000000] [--train] [--rounds 1] [--json FILE]

The facts belong to a project made by `fotltn new`, with 500 steps and as many cars as pedestrians.
With `--train`, `fotltn train --json` runs on it as well, as a whole command: 20 epochs, then an
audit. Each measurement is a separate process with one thread, and the checkouts alternate; the
fastest of all rounds counts.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from benchmarks.common import report

HERE = Path(__file__).resolve().parents[1]
STEPS, EPOCHS = 500, 20
CLOSE = 0.05  # the share of pairs of a car and a pedestrian that are close
READ = """
import sys, time
from fotltn.grounding.facts import read_facts
from fotltn.logic.check import check
from fotltn.syntax.load import load_theory
signature = check(load_theory(sys.argv[1])).signature
before = time.process_time()
read_facts([sys.argv[2]], signature)
print(time.process_time() - before)
"""
AS_PARQUET = """
import sys
import pyarrow.csv as csv, pyarrow.parquet as parquet
parquet.write_table(csv.read_csv(sys.argv[1]), sys.argv[2])
"""


def make(folder: Path, rows: int) -> int:
    """Make a project with about this many facts, as CSV and Parquet; return their number."""
    a, b = 2 * CLOSE * STEPS, 4 * STEPS  # rows for each pair, and for each car or pedestrian
    agents = max(1, min(1000, round((math.sqrt(b * b + 4 * a * rows) - b) / (2 * a))))
    call = ["new", str(folder), "--cars", agents, "--pedestrians", agents, "--steps", STEPS]
    subprocess.run(
        [sys.executable, "-m", "fotltn", *map(str, call)], check=True,
        stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    files = [str(folder / name) for name in ("facts.csv", "facts.parquet")]
    subprocess.run([sys.executable, "-c", AS_PARQUET, *files], check=True)
    return int(parquet.read_metadata(files[1]).num_rows)


def spent(checkout: Path, call: list[str], **environment: str) -> dict[str, float]:
    """Run a Python program in a separate process; return its CPU time and peak memory.

    If the program prints a number, that is its CPU time. A process counts as having at least the
    memory of the process that starts it, so this process must not hold the facts.
    """
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, *call], stdout=printed, cwd=tempfile.gettempdir(),
            stderr=subprocess.DEVNULL if environment else None,
            env={
                **os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", **environment
            },
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{checkout}: {' '.join(call)[-99:]} ended with {process.returncode}")
        printed.seek(0)
        text = printed.read().decode()
    seconds = usage.ru_utime + usage.ru_stime
    with suppress(ValueError):
        seconds = float(text)
    return {"CPU s": seconds, "MB": usage.ru_maxrss / 1e3}


def calls(folder: Path, train: bool) -> dict[str, list[str]]:
    """Return the calls to measure, by name."""
    files = {"read CSV": folder / "facts.csv", "read Parquet": folder / "facts.parquet"}
    theory = str(folder / "theory.fot")
    by_name = {what: ["-c", READ, theory, str(file)] for what, file in files.items()}
    if train:
        by_name["fotltn train"] = [
            "-m", "fotltn", "train", str(folder), "--epochs", str(EPOCHS), "--fresh", "--json",
        ]  # fmt: skip
    return by_name


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    sides = {"before": args.checkout.resolve(), "now": HERE}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        rows = make(folder, args.rows)
        least: dict[tuple[str, str], dict[str, float]] = {}
        for what, call in calls(folder, args.train).items():
            for _ in range(args.rounds):
                for side, checkout in sides.items():
                    numbers = spent(checkout, call)
                    known = least.setdefault((what, side), numbers)
                    least[what, side] = {k: min(known[k], v) for k, v in numbers.items()}
    report(f"{rows:,} facts, now and before", table(least, rows), args.json, facts=rows)


def table(least: dict[tuple[str, str], dict[str, float]], rows: int) -> list[dict[str, Any]]:
    """Return the measurements side by side."""
    lines = []
    for what in dict.fromkeys(what for what, _ in least):
        before, now = least[what, "before"], least[what, "now"]
        line: dict[str, Any] = {"what": what}
        for side, numbers in (("before", before), ("now", now)):
            line |= {f"{kind} {side}": number for kind, number in numbers.items()}
            if what.startswith("read"):
                line[f"rows a second {side}"] = rows / numbers["CPU s"]
        line["times faster"] = before["CPU s"] / now["CPU s"]
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
