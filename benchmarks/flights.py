"""Rules on a month of flights, as users run them: whole commands, here and in another checkout.

    python -m benchmarks.flights FACTS [CHECKOUT] [--limit 300] [--json FILE]

FACTS are those of January 2013, as a CSV file that `tests/flights/make.py` makes (`january`). Each
command is a process of its own. One that takes longer than the limit is ended, and its row says so.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import report

HERE = Path(__file__).resolve().parents[1]
THEORY = HERE / "benchmarks" / "flights.fot"
COMMANDS = {"rules": ["--resamples", "0"], "eval": ["--semantics", "crisp"]}


def measured(checkout: Path, command: str, facts: Path, limit: int) -> dict[str, Any]:
    """The CPU time and the most memory of a command; none if it does not end in time."""
    call = [command, str(THEORY), "--facts", str(facts), *COMMANDS[command], "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [sys.executable, "-m", "fotltn", *call], stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(checkout)}, cwd=facts.parent,
    )  # fmt: skip
    try:
        status = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        status = None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "CPU s": round(spent, 1),
        "MB": round(after.ru_maxrss / 1e3) if status == 0 else None,  # the most of all so far
        "ended": {0: "yes", None: f"no, after {limit} s"}.get(status, f"status {status}"),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--json")
    args = parser.parse_args()
    sides = {"now": HERE, **({"before": args.checkout.resolve()} if args.checkout else {})}
    rows = [
        {
            "command": command,
            "by": side,
            **measured(path, command, args.facts.resolve(), args.limit),
        }
        for side, path in sides.items()
        for command in ("eval", "rules")  # in the order of memory, since the most counts
    ]
    report("ten rules on a month of flights", rows, args.json)


if __name__ == "__main__":
    main()
