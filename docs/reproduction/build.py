"""Write docs/reproduction.md and its figures from the record of all runs.

    python docs/reproduction/build.py [--check]

With `--check` nothing is written; the exit status is 1 if the page is not that of the record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fotltn.experiments.protocol import METHODS
from fotltn.experiments.reproduce import background
from fotltn.report.page import page
from fotltn.report.plots import results_figure, save
from fotltn.report.records import Record, read

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "reproduction.md"


def wall(records: Sequence[Record]) -> dict[str, float]:
    """The seconds of training, by the record."""
    runs = [r for r in records if r.method in METHODS]
    ours = [r for r in runs if r.method != "HTGNN"]
    return {
        f"training of all {len(runs)} runs on one NVIDIA H200": sum(r.seconds for r in runs),
        "of these, FOT-LTN with and without axioms": sum(r.seconds for r in ours),
    }


def readings() -> str:
    """The search over what the paper leaves open, as a table."""
    found = json.loads((HERE / "readings.json").read_text("utf-8"))
    rows = found["rows"] if isinstance(found, dict) else found
    lines = [
        "| embeddings | type facts | semantics | watched | method | 10 % | 30 % | 50 % | 80 % | "
        "PR-AUC off | KB-SAT off | held out |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        types = row["types"] + ("" if row["flip_types"] else ", never flipped")
        watched = f"{row['watch']:.0%} of the facts" if row["watch"] else "training loss"
        cells = " | ".join(row[f] for f in ("10%", "30%", "50%", "80%"))
        lines.append(
            f"| N(0, {row['scale']:g}) | {types} | {row['semantics']} | {watched} | "
            f"{row['method']} | {cells} | {row['PR-AUC off']:.3f} | {row['KB-SAT off']:.3f} | "
            f"{row['held out']:.3f} |"
        )
    return "\n".join(lines)


def build(records: Sequence[Record], known: Mapping[str, Any]) -> str:
    """The page."""
    remarks = (HERE / "remarks.md.in").read_text("utf-8").replace("READINGS", readings())
    return page(
        records,
        source="docs/reproduction/records.parquet",
        wall=wall(records),
        figures={"PR-AUC and KB-SAT, ours and the paper's": "reproduction/results.png"},
        remarks=remarks,
        **known,
    )


def main(arguments: Sequence[str]) -> int:
    """Write or check."""
    if unknown := [a for a in arguments if a != "--check"]:
        sys.stderr.write(f"unknown option {unknown[0]}; there is --check\n")
        return 2
    records = read(HERE / "records.parquet")
    known = background()
    text = build(records, known)
    if arguments:
        stale = PAGE.read_text("utf-8") != text
        if stale:
            sys.stderr.write(f"stale: {PAGE.name}; run: python docs/reproduction/build.py\n")
        return int(stale)
    PAGE.write_text(text, "utf-8")
    figure = results_figure(records, truth=known["truth"], all_false=known["all_false"])
    save(figure, HERE / "results")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
