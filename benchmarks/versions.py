"""Run a benchmark, or a program of one's own, here and in another checkout, and compare.

    python -m benchmarks.versions CHECKOUT BENCHMARK [ARGUMENTS]
    python -m benchmarks.versions CHECKOUT -- python PROGRAM [ARGUMENTS]

Each run is a process of its own, by this interpreter: first there, then here, `--rounds` times. A
benchmark is that of the checkout; a program imports its package. The table has the medians: wall
time, processor time and the memory of the largest process, and each number that the benchmark
reports. "Not slower" and "the same memory" mean a ratio of at most 1.05. `--json FILE` keeps the
table, with the ratio of each round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
#: The largest ratio that counts as equal.
EQUAL = 1.05
_WHOLE = "the whole process"

Numbers = dict[tuple[str, str], float]


class Side:
    """A checkout, and how programs run with its package.

    Compiled code is kept apart from both checkouts, one of which may not be writable.
    """

    def __init__(self, checkout: Path, command: Sequence[str], scratch: Path) -> None:
        """Compile the checkout, and see that it is what programs import."""
        self.checkout, self.scratch = checkout.resolve(), scratch
        self.scratch.mkdir()
        own = [str(Path(word).resolve().parent) for word in command[1:2] if Path(word).is_file()]
        others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        self.environment = {
            **os.environ, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(scratch / "code"),
            "PYTHONPATH": os.pathsep.join([str(self.checkout), *own, *others]),
        }  # fmt: skip
        folders = [name for name in ("fotltn", "benchmarks") if (self.checkout / name).is_dir()]
        if "fotltn" not in folders:
            raise SystemExit(f"{checkout} is no checkout: it has no folder fotltn")
        self.run([sys.executable, "-m", "compileall", "-q", *folders], self.checkout)
        see = "import fotltn, pathlib; print(pathlib.Path(fotltn.__file__).resolve().parents[1])"
        _, imported = self.run([sys.executable, "-c", see], Path.cwd())
        if imported.strip() != str(self.checkout):
            raise SystemExit(f"programs import fotltn from {imported.strip()}, not from {checkout}")

    def run(self, command: Sequence[str], folder: Path) -> tuple[Numbers, str]:
        """Run a command to its end; return what the process took, and what it printed."""
        with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
            began = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=errors,
            )  # fmt: skip
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            errors.seek(0)
            if process.returncode:
                said = errors.read().strip() or printed.read().strip()
                words = " ".join(command)
                raise SystemExit(
                    f"in {self.checkout}, {words} ended with {process.returncode}:\n{said}"
                )
            unit = 1 if sys.platform == "darwin" else 1024
            taken = {
                "wall, s": wall, "processor, s": usage.ru_utime + usage.ru_stime,
                "peak, MB": usage.ru_maxrss * unit / 1e6,
            }  # fmt: skip
            return {(_WHOLE, what): number for what, number in taken.items()}, printed.read()

    def benchmark(self, name: str, arguments: Sequence[str]) -> Numbers:
        """Run a benchmark; return what the process took, and the numbers of its rows."""
        file = self.checkout / "benchmarks" / f"{name}.py"
        if not file.is_file():
            raise SystemExit(f"{self.checkout} has no benchmark '{name}'")
        call, rows = [sys.executable, "-m", f"benchmarks.{name}", *arguments], self.scratch / "rows"
        if '"--json"' not in file.read_text("utf-8"):
            return self.run(call, self.checkout)[0]
        taken, _ = self.run([*call, "--json", str(rows)], self.checkout)
        return taken | measured(json.loads(rows.read_text("utf-8"))["rows"])


def measured(rows: Sequence[dict[str, Any]]) -> Numbers:
    """Return the numbers of a benchmark's rows, by the words of the row and of the column."""
    numbers = {}
    for row in rows:
        what = ", ".join(value for value in row.values() if isinstance(value, str))
        for column, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers[what, column] = float(value)
    return numbers


def compared(before: Sequence[Numbers], now: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Return a row for each number that all runs report."""
    rows = []
    for what, column in before[0]:
        if not all((what, column) in run for run in (*before, *now)):
            continue
        old, new = ([run[what, column] for run in runs] for runs in (before, now))
        ratios = [b / a if a else None for a, b in zip(old, new, strict=True)]
        middle, other = statistics.median(new), statistics.median(old)
        rows.append({
            "what": what, "of": column, "before": other, "now": middle,
            "ratio": middle / other if other else None, "ratios": ratios,
        })  # fmt: skip
    return rows


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the table; a ratio above the limit is marked."""
    table = Table("what", "of", title=title, title_justify="left")
    for name in ("before", "now", "ratio", "rounds"):
        table.add_column(name, justify="right")
    for row in rows:
        ratio, ratios = row["ratio"], [one for one in row["ratios"] if one is not None]
        cells = ["-", "-"]
        if ratio is not None and ratios:
            mark = " !" if ratio > EQUAL else ""
            cells = [f"{ratio:.3f}{mark}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
        table.add_row(row["what"], row["of"], f"{row['before']:.4g}", f"{row['now']:.4g}", *cells)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"!: a ratio above {EQUAL}")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("benchmark", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args, others = parser.parse_known_intermixed_args(words[:cut])
    arguments = [*others, *words[cut + 1 :]]
    if args.rounds < 1:
        parser.error("there must be at least one round")
    if args.benchmark is None and not words[cut + 1 :]:
        parser.error("name a benchmark, or a program after --")
    if args.benchmark is None and others:
        parser.error(f"unknown: {' '.join(others)}; the arguments of a program stand after --")
    program = [] if args.benchmark else arguments
    if program and program[0] in ("python", "python3"):
        program[0] = sys.executable
    runs: tuple[list[Numbers], list[Numbers]] = ([], [])
    with tempfile.TemporaryDirectory() as name:
        checkouts = {"before": args.checkout, "now": HERE}
        sides = [Side(path, program, Path(name) / side) for side, path in checkouts.items()]
        for _ in range(args.rounds):
            for side, taken in zip(sides, runs, strict=True):
                if args.benchmark:
                    taken.append(side.benchmark(args.benchmark, arguments))
                else:
                    taken.append(side.run(program, Path.cwd())[0])
    title = " ".join([args.benchmark, *arguments] if args.benchmark else words[cut + 1 :])
    rows = compared(*runs)
    show(f"{title}: medians of {args.rounds}", rows)
    if args.json:
        record = {"title": title, "rounds": args.rounds, "rows": rows}
        args.json.write_text(json.dumps(record, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
