"""What features add to posteriors, as a table of their page, from the record of the study."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))  # `docs/reproduction` is no package

from reproduction.posterior.features import ABLATIONS, METHODS  # noqa: E402

RECORD = DOCS / "posterior" / "features.jsonl"


def feature_scores() -> str:
    """PR-AUC, log-loss and ECE by share and method, in the world of the labels and in another."""
    rows = [json.loads(text) for text in RECORD.read_text("utf-8").splitlines()]
    lines = [
        "| labelled | learned from | PR-AUC | log-loss | ECE | another world | log-loss | ECE |",
        "| ---: | --- |" + " ---: |" * 6,
    ]
    counts = []
    for share in sorted({row["fraction"] for row in rows}):
        for method in (*METHODS, *ABLATIONS):
            some = [r for r in rows if (r["fraction"], r["method"]) == (share, method)]
            if some:
                counts.append(len(some))
                cells = [c for place in ("here", "there") for c in _cells([r[place] for r in some])]
                lines.append(f"| {100 * share:.0f} % | {method} | {' | '.join(cells)} |")
    runs = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
    lines += ["", f"Means of {runs} repetitions, of PR-AUC with the standard deviation."]
    return "\n".join(lines)


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    scores = [row["pr_auc"] for row in rows]
    spread = f" ± {statistics.stdev(scores):.3f}" if len(scores) > 1 else ""
    rest = (statistics.mean(row[name] for row in rows) for name in ("log_loss", "ece"))
    return [f"{statistics.mean(scores):.3f}{spread}", *(f"{value:.3f}" for value in rest)]
