"""Write docs/recipe.md and its figure from the records of the runs.

    python docs/recipe/build.py [--check]

With `--check` nothing is written; the exit status is 1 if the page is not that of the records.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fotltn.report.published import RESULTS
from fotltn.report.records import Record, read
from fotltn.report.stats import Summary, summary, welch

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "recipe.md"
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
DATA = ("CarPed35K", "CarPed180K")
ADDITIONAL = "Recipe, additional axioms"
ABLATIONS = (
    "no definitions", "not smooth in time", "no prior", "exists as a p-mean",
    "labels taken as right", "no axioms beside", "axioms as in the paper",
    "axioms five times as heavy", "trust in axioms learned", "reach of 6",
    "mean of three reaches", "types sampled and flipped",
)  # fmt: skip


def cell(records: Sequence[Record], data: str, method: str, fraction: float) -> Summary:
    """Mean and deviation of PR-AUC."""
    own = [r for r in records if (r.data, r.method, r.fraction) == (data, method, fraction)]
    return summary([r.pr_auc for r in own])


def rate(records: Sequence[Record], data: str, method: str, fraction: float) -> float:
    """The mean crisp violation rate."""
    own = [r for r in records if (r.data, r.method, r.fraction) == (data, method, fraction)]
    return sum(r.violation_rate or 0.0 for r in own) / len(own)


def _shown(records: Sequence[Record], data: str, method: str, fraction: float) -> str:
    """A cell of a table, with its count where there are not ten runs."""
    found = cell(records, data, method, fraction)
    few = "" if found.count == 10 else f" ({found.count})"
    return f"{found.mean:.3f} ± {found.std:.3f}{few}"


def line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def head(first: str) -> list[str]:
    """The head of a table by fractions."""
    return [line([first, *(f"{f:.0%}" for f in FRACTIONS)]), line(["---"] * (1 + len(FRACTIONS)))]


def results(records: Sequence[Record]) -> str:
    """All methods, both data sets."""
    lines = []
    for data in DATA:
        lines += [f"{data}, PR-AUC, mean ± standard deviation over 10 repetitions:", "", *head("")]
        paper = [RESULTS["pr_auc", data, "FOT-LTN+BK", f] for f in FRACTIONS]
        lines.append(line(["FOT-LTN+BK, as published", *(f"{p.mean:.3f}" for p in paper)]))
        for method in ("FOT-LTN+BK", "HTGNN", "Recipe", ADDITIONAL, "Bayes limit"):
            shown = [_shown(records, data, method, f) for f in FRACTIONS]
            lines.append(line([f"**{method}**" if method == "Recipe" else method, *shown]))
        worst = max(
            welch(cell(records, data, "Recipe", f), cell(records, data, "HTGNN", f)).p
            for f in FRACTIONS
        )
        lines += ["", f"Against HTGNN, Welch's test gives p ≤ {worst:.1g} at every fraction.", ""]
    return "\n".join(lines)


def ablations(records: Sequence[Record]) -> str:
    """What each part brings."""
    lines = head("CarPed35K, PR-AUC")
    for name in ("Recipe", *(f"Recipe: {a}" for a in ABLATIONS)):
        found = [cell(records, "CarPed35K", name, f).mean for f in FRACTIONS]
        label = "the recipe" if name == "Recipe" else name.removeprefix("Recipe: ")
        count = min(cell(records, "CarPed35K", name, f).count for f in FRACTIONS)
        lines.append(line([f"{label} ({count})", *(f"{v:.3f}" for v in found)]))
    return "\n".join(lines)


def violations(records: Sequence[Record]) -> str:
    """Crisp violations of thresholded predictions."""
    lines = head("violations, in a million")
    for data in DATA:
        for method in ("FOT-LTN+BK", "Recipe"):
            shown = [f"{1e6 * rate(records, data, method, f):,.0f}" for f in FRACTIONS]
            lines.append(line([f"{data}, {method}", *shown]))
    return "\n".join(lines)


def search() -> str:
    """How the numbers were chosen."""
    rows = json.loads((HERE / "search.json").read_text("utf-8"))
    ends = ["10 %", "30 %", "80 %", "mean", "violations, in a million"]
    lines = [line(["reach", "prior", *ends]), line(["---"] * 7)]
    lines += [line([f"{r['reach']:g}", f"{r['prior']:g}", *_held(r)]) for r in rows["numbers"]]
    lines += ["", line(["weight of the axioms", *ends]), line(["---"] * 6)]
    lines += [line([f"{r['weight']:g}", *_held(r)]) for r in rows["weights"]]
    lines += ["", line(["in addition", "weight", *ends]), line(["---"] * 7)]
    for row in rows["axioms"]:
        axioms = "<br>".join(f"`{a.replace('FIFTH', 'T/5')}`" for a in row["axioms"])
        lines.append(line([axioms, f"{row['weight']:g}", *_held(row)]))
    return "\n".join(lines)


def _held(row: Mapping[str, Any]) -> list[str]:
    numbers = [f"{v:.4f}" for v in (*row["held"], row["mean"])]
    return [*numbers, f"{1e6 * row['violations']:,.0f}"]


def deliveries() -> str:
    """The second world."""
    lines = (HERE / "deliveries.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(text) for text in lines]
    names = {
        "recipe": "**the recipe**", "logits": "the same logits, without axioms",
        "paper": "the paper's setting", "labels": "the paper's networks, without axioms",
        "limit": "Bayes limit",
    }  # fmt: skip
    cells = {
        (m, f): summary([r["pr_auc"] for r in rows if (r["method"], r["fraction"]) == (m, f)])
        for m in names
        for f in FRACTIONS
    }
    found = head("deliveries, PR-AUC")
    for method, name in names.items():
        own = [cells[method, f] for f in FRACTIONS]
        found.append(line([name, *(f"{s.mean:.3f} ± {s.std:.3f}" for s in own)]))
    worst = max(
        welch(cells["recipe", f], cells[m, f]).p for m in ("logits", "paper") for f in FRACTIONS
    )
    counts = {s.count for s in cells.values()}
    found += [
        "",
        f"Over {min(counts)} repetitions. Against the logits alone and the paper's setting, "
        f"Welch's test gives p ≤ {worst:.1g} at every fraction.",
    ]
    return "\n".join(found)


def figure(records: Sequence[Record], path: Path) -> None:
    """PR-AUC against the share of facts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    made, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    styles = {
        "Bayes limit": ("black", "D", "-"), "Recipe": ("#cc79a7", "o", "-"),
        "FOT-LTN+BK": ("#0072b2", "s", "-"), "HTGNN": ("#009e73", "^", "-"),
    }  # fmt: skip
    for axis, data in zip(axes, DATA, strict=True):
        for method, (colour, marker, stroke) in styles.items():
            found = [cell(records, data, method, f) for f in FRACTIONS]
            axis.errorbar(
                FRACTIONS, [s.mean for s in found], [s.std for s in found], color=colour,
                marker=marker, linestyle=stroke, capsize=2, label=method,
            )  # fmt: skip
        axis.set_title(data)
        axis.set_xlabel("share of the facts that are trained on")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("PR-AUC on clean test facts")
    axes[0].legend(loc="center right")
    made.tight_layout()
    made.savefig(path, dpi=110)


def build(records: Sequence[Record]) -> str:
    """The page."""
    text = (HERE / "text.md.in").read_text("utf-8")
    for name, part in (
        ("RESULTS", results(records)),
        ("ABLATIONS", ablations(records)),
        ("VIOLATIONS", violations(records)),
        ("SEARCH", search()),
        ("DELIVERIES", deliveries()),
    ):
        text = text.replace(f"<!-- {name} -->", part)
    return text


def main() -> int:
    """Write or check."""
    records = read(HERE.parent / "reproduction" / "records.parquet", HERE / "records.parquet")
    text = build(records)
    if "--check" in sys.argv:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    figure(records, HERE / "results.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
