"""Run a benchmark here and in another checkout, alternating, and report the ratios.

    python -m benchmarks.versions CHECKOUT axioms [--rounds 3] [--json FILE]
    python -m benchmarks.versions CHECKOUT until [--traces 32] [--rounds 3] [--json FILE]

Each round is a separate process, which runs that checkout's package and benchmark; of until, this
checkout's benchmark, without the peer and with fewer traces. The lowest time and memory of all
rounds count, because anything above them comes from other work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import report

HERE = Path(__file__).resolve().parents[1]
COLUMNS = {"ms": ("ms", "fotltn, ms"), "MB": ("MB",)}


def rows(checkout: Path, benchmark: str, traces: int) -> dict[str, dict[str, float]]:
    """Return the time and memory of our rows of a benchmark, by what they measure."""
    call = ["-m", f"benchmarks.{benchmark}"]
    if benchmark == "until":
        script = str(HERE / "benchmarks" / "until.py")
        call = ["-P", script, "--alone", "--traces", str(traces)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        subprocess.run(
            [sys.executable, *call, "--json", str(file)],
            cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        measured = json.loads(file.read_text("utf-8"))["rows"]
    named = {f"{row['what']}, {row.get('by', 'fotltn')}": row for row in measured}
    return {
        what: {kind: next(row[n] for n in names if n in row) for kind, names in COLUMNS.items()}
        for what, row in named.items()
        if "fotltn" in what  # not a peer
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("benchmark", nargs="?", default="axioms", choices=["axioms", "until"])
    parser.add_argument("--traces", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    least: list[dict[str, dict[str, float]]] = [{}, {}]
    for _ in range(args.rounds):
        for side, checkout in enumerate((args.checkout.resolve(), HERE)):
            for what, numbers in rows(checkout, args.benchmark, args.traces).items():
                known = least[side].setdefault(what, numbers)
                least[side][what] = {k: min(known[k], v) for k, v in numbers.items()}
    table: list[dict[str, Any]] = []
    for what, before in least[0].items():
        now = least[1][what]
        table.append({
            "what": what, "ms before": before["ms"], "ms now": now["ms"],
            "time": now["ms"] / before["ms"], "MB before": before["MB"], "MB now": now["MB"],
            "memory": now["MB"] / before["MB"],
        })  # fmt: skip
    report(f"{args.benchmark}: now and before, least of {args.rounds} rounds", table, args.json)


if __name__ == "__main__":
    main()
