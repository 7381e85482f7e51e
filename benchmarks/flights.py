"""Measure rules on a month of flights: whole commands as users run them, in two checkouts.

    python -m benchmarks.flights FACTS [CHECKOUT] [--limit 300] [--json FILE]

FACTS is a CSV file with the facts of January 2013, made by `tests/flights/make.py` (`january`).
With `--make`, that file is first written with a month of made-up flights. Each command is a
separate process. A command that takes longer than the limit is killed, and its row says so.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import report

HERE = Path(__file__).resolve().parents[1]
THEORY = HERE / "benchmarks" / "flights.fot"
COMMANDS = {"rules": ["--resamples", "0"], "eval": ["--semantics", "crisp"]}
VIOLATIONS = """
import sys, fotltn
theory = fotltn.load(sys.argv[1])
data = fotltn.read(theory, sys.argv[2])
for axiom in theory.axioms:
    fotltn.cells(axiom, data, semantics="crisp").worst(10)
"""


class Fact(NamedTuple):
    """A row of a file of facts."""

    predicate: str
    arg1: str
    arg2: str | None = None
    time: int | None = None


def made_up(
    planes: int = 3_000, airports: int = 97, hours: int = 744, *, seed: int = 0
) -> list[Fact]:
    """Make up flights similar to those that leave New York.

    A plane lands at least an hour after it has left. It then leaves from there, or again from a
    hub.
    """
    draw = random.Random(seed)
    hubs, places = [f"H{i}" for i in range(3)], [f"A{i}" for i in range(airports - 3)]
    facts = {Fact("Hub", hub) for hub in hubs}
    late = Counter[tuple[str, int]]()
    for number in range(planes):
        plane, pause = f"p{number}", draw.choice([12, 40, 160])
        if draw.random() < 0.4:
            facts.add(Fact("Large", plane))
        start, origin = draw.randrange(hours), draw.choice(hubs)
        while start < hours:
            place, length = draw.choice(places if origin in hubs else hubs), draw.randint(1, 6)
            is_late = draw.random() < 0.2
            facts.update(_flight(plane, origin, place, start, start + length, hours))
            if is_late:
                facts.add(Fact("Late", plane, None, start))
                late[origin, start] += 1
            if start + length < hours and draw.random() < (0.7 if is_late else 0.1):
                facts.add(Fact("LateIn", plane, None, start + length))
            origin = place if draw.random() < 0.5 else draw.choice(hubs)
            start += length + draw.randrange(3) + int(draw.expovariate(1 / pause))
    jams = [place for place, many in late.items() if many > 1]
    facts |= {Fact("Jammed", airport, None, hour) for airport, hour in jams}
    return sorted(facts, key=lambda fact: (fact.predicate, fact.time or 0, *map(str, fact)))


def _flight(
    plane: str, origin: str, place: str, start: int, end: int, hours: int
) -> Iterator[Fact]:
    yield Fact("served", plane, origin)
    yield Fact("Departed", plane, origin, start)
    yield Fact("Open", origin, None, start)
    if end < hours:
        yield Fact("served", plane, place)
        yield Fact("Landed", plane, place, end)
        yield Fact("Open", place, None, end)
    for hour in range(max(0, start - 2), min(hours, end + 3)):
        yield Fact("Active", plane, None, hour)
        if start <= hour <= end:
            yield Fact("Flying", plane, None, hour)


def write(facts: list[Fact], path: Path) -> None:
    """Write facts as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([Fact._fields, *facts])


def measured(checkout: Path, command: str, facts: Path, limit: int) -> dict[str, Any]:
    """Return the CPU time and peak memory of a command; None if it does not end in time."""
    if command == "violations":
        call = ["-c", VIOLATIONS, str(THEORY), str(facts)]
    else:
        call = ["-m", "fotltn", command, str(THEORY), "--facts", str(facts), *COMMANDS[command]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [sys.executable, *call], stdout=subprocess.DEVNULL,
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
        "MB": round(after.ru_maxrss / 1e3) if status == 0 else None,  # the maximum over all so far
        "ended": {0: "yes", None: f"no, after {limit} s"}.get(status, f"status {status}"),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.make:
        write(made_up(), args.facts)
    sides = {"now": HERE, **({"before": args.checkout.resolve()} if args.checkout else {})}
    rows = [
        {
            "command": command,
            "by": side,
            **measured(path, command, args.facts.resolve(), args.limit),
        }
        for side, path in sides.items()
        for command in (
            "eval",
            "violations",
            "rules",
        )  # in order of memory: the maximum is measured
        if side == "now" or command != "violations"  # 0.1.0 lists violations of models only
    ]
    report("ten rules on a month of flights", rows, args.json)


if __name__ == "__main__":
    main()
