"""The table of the page about doubtful labels, from the record of the study."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent / "posterior" / "doubts.jsonl"
WORLDS = ("deliveries", "CarPed35K")
METHODS = {"posterior": "probability that it is wrong", "residual": "distance of label and degree"}


def doubt_scores() -> str:
    """How well wrong labels are told from right ones, by world, share and method."""
    rows = [json.loads(text) for text in RECORD.read_text("utf-8").splitlines()]
    lines = [
        "| world | labelled | ranked by | PR-AUC | precision | recall | at 80 % | at 95 % | ECE |",
        "| --- | ---: | --- |" + " ---: |" * 6,
    ]
    for world in WORLDS:
        for share in sorted({row["fraction"] for row in rows}):
            for method, name in METHODS.items():
                key = (world, share, method)
                some = [r for r in rows if (r["data"], r["fraction"], r["method"]) == key]
                if some:
                    cells = [f"{100 * share:.0f} %", name, *_cells(some)]
                    lines.append(f"| {world} | {' | '.join(cells)} |")
    counts = sorted({sum(_key(r) == _key(one) for r in rows) for one in rows})
    runs = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    lines += ["", f"Means over {runs} repetitions."]
    return "\n".join(lines)


def _key(row: dict[str, Any]) -> tuple[object, ...]:
    return row["data"], row["fraction"], row["method"]


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    columns = [[row[name] for row in rows] for name in ("pr_auc", "precision", "recall")]
    columns += [[row["precision_at"][at] for row in rows] for at in ("0.8", "0.95")]
    columns.append([row["ece"] for row in rows])
    return [f"{statistics.mean(values):.3f}" for values in columns]
