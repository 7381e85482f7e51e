"""Audit the rules of this project on tables of clips: on all of them, and by the official split.

    python examples/jaad/audit.py [TABLES] [--json FILE]

TABLES is a folder with the three tables; without it, the twelve clips beside this file are read.
The same for one part of the clips, on the command line:

    fotltn rules examples/jaad --theory examples/jaad/audit.fot --data TABLES --part test
"""

from __future__ import annotations

import fotltn.cli.quiet  # noqa: F401 from here on, Ctrl-C ends it with a line

# isort: split
import argparse
import json
from pathlib import Path
from typing import Any

from fotltn.analysis.rules import Rule
from fotltn.cli.tables import add, grid, number, say, show
from fotltn.project.rules import of_project
from fotltn.semantics.config import CRISP, GODEL

HERE = Path(__file__).resolve().parent
PARTS = (None, "train", "validation", "test")


def main() -> None:
    """Count, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="?", type=Path, help="a folder with tables")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    args = parser.parse_args()
    found = of_project(HERE, data=args.tables, theory=HERE / "audit.fot")
    parts = {part or "all": list(found.rules(part=part)) for part in PARTS}
    graded = [r for r in found.rules(semantics=GODEL) if r.name == "N1"]  # others have no degrees
    for name, rules in parts.items():
        _print(f"{name}, {CRISP.name}", rules)
    _print(f"all, {GODEL.name}", graded)
    if args.json is not None:
        whole = {
            "traces": {
                p or "all": len(found.parts.get(p or "", range(found.tables.batch))) for p in PARTS
            },
            "texts": {rule.name: rule.text for rule in parts["all"]},
            "parts": {name: _numbers(rules) for name, rules in parts.items()},
            "degrees": _numbers(graded),
        }
        args.json.write_text(json.dumps(whole) + "\n", "utf-8")


def _print(title: str, rules: list[Rule]) -> None:
    table = grid("rule", "traces", "support", "confidence", "base", "lift", left=["rule"])
    table.title = title
    for rule in rules:
        found = rule.whole
        add(
            table, rule.name, f"{found.traces:,}", f"{found.support:,.0f}",
            number(found.confidence.value), number(found.base_rate.value),
            number(found.lift.value, 2),
        )  # fmt: skip
    show(table)
    say("")


def _numbers(rules: list[Rule]) -> dict[str, Any]:
    """The numbers of rules, with six digits that count."""

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
