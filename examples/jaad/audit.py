"""Audit the rules of this project on tables of clips: on all clips, and by the official split.

    python examples/jaad/audit.py [TABLES] [--json FILE]

TABLES is a folder with the three tables; by default, the twelve clips next to this file are read.
To audit one part of the clips on the command line, run:

    fotltn rules examples/jaad --theory examples/jaad/audit.fot --data TABLES --part test
"""

from __future__ import annotations

import signal
import sys


def stop(*_: object) -> None:
    """End with one line on Ctrl-C, even while modules load."""
    sys.stderr.write("stopped\n")
    sys.exit(130)


signal.signal(signal.SIGINT, stop)

import argparse
import json
import math
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import fotltn as fot

HERE = Path(__file__).resolve().parent
PARTS = (None, "train", "validation", "test")

console = Console(highlight=False)


def main() -> None:
    """Count, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="?", type=Path, help="folder with the tables")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    args = parser.parse_args()
    try:
        project = fot.load_project(HERE, data=args.tables, theory=HERE / "audit.fot")
    except fot.FotError as error:
        sys.exit(str(error))
    parts = {part or "all": list(project.rules(part=part)) for part in PARTS}
    degrees = project.rules(semantics=fot.SEMANTICS["godel"])
    graded = [rule for rule in degrees if rule.name == "N1"]  # the other rules have no degrees
    for name, rules in parts.items():
        show(f"{name}, crisp", rules)
    show("all, godel", graded)
    if args.json is not None:
        counts = {part: len(project.parts.get(part, ())) for part in parts}
        whole = {
            "traces": {**counts, "all": project.tables.batch},
            "texts": {rule.name: rule.text for rule in parts["all"]},
            "parts": {name: numbers(rules) for name, rules in parts.items()},
            "degrees": numbers(graded),
        }
        args.json.write_text(json.dumps(whole) + "\n", "utf-8")


def show(title: str, rules: list[Any]) -> None:
    """Show how often each rule applies, and holds."""
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False)
    for column in ("rule", "traces", "support", "confidence", "base", "lift"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for rule in rules:
        count = rule.overall
        rates = (count.confidence.value, count.base_rate.value, count.lift.value)
        shown = ["-" if r is None or math.isnan(r) else f"{r:.3f}" for r in rates]
        table.add_row(rule.name, f"{count.traces:,}", f"{count.support:,.0f}", *shown)
    console.print(table)
    console.print()


def numbers(rules: list[Any]) -> dict[str, Any]:
    """Return the numbers of rules, with six significant digits."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(inner) for key, inner in value.items()}
        if isinstance(value, float):
            return float(f"{value:.6g}")
        return value

    left_out = ("rule", "text", "implication")
    return {
        rule.name: short({k: v for k, v in rule.as_dict().items() if k not in left_out})
        for rule in rules
    }


if __name__ == "__main__":
    main()
