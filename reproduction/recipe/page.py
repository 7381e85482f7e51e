"""Write the tables of docs/recipe.md and its figure, from the records of the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.paper.published import DATA, FRACTIONS, RESULTS
from reproduction.report.compare import Key, cells
from reproduction.report.records import Record
from reproduction.report.render import percent
from reproduction.report.stats import Summary, summary, welch
from reproduction.report.sweeps import methods_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADDITIONAL = "Recipe, additional axioms"
ABLATIONS = (
    "no definitions", "not smooth in time", "no prior", "exists as a p-mean",
    "labels taken as right", "no axioms beside", "axioms as in the paper",
    "axioms five times as heavy", "trust in axioms learned", "reach of 6",
    "mean of three reaches", "types sampled and flipped",
)  # fmt: skip
#: What the page calls a change whose name in the records is unclear.
CALLED = {"no axioms beside": "no axioms in the loss"}

#: The methods of the figure.
COMPARED = ("Bayes limit", "Recipe", "FOT-LTN+BK", "HTGNN")

#: Means and standard deviations by data set, method and fraction.
Cells = Mapping[Key, Summary]


def _shown(one: Summary) -> str:
    """Return a cell of a table, with its count unless there are ten runs."""
    few = "" if one.count == 10 else f" ({one.count})"
    return f"{one.mean:.3f} ± {one.std:.3f}{few}"


def line(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(cells) + " |"


def head(first: str) -> list[str]:
    """Return the head of a table by fraction."""
    return [line([first, *(percent(f) for f in FRACTIONS)]), line(["---"] * (1 + len(FRACTIONS)))]


def results(means: Cells) -> str:
    """Return the tables of all methods on both data sets."""
    lines = []
    for data in DATA:
        lines += [f"{data}, PR-AUC, mean ± standard deviation over 10 repetitions:", "", *head("")]
        paper = [RESULTS["pr_auc", data, "FOT-LTN+BK", f] for f in FRACTIONS]
        lines.append(line(["FOT-LTN+BK, as published", *(f"{p.mean:.3f}" for p in paper)]))
        for method in ("FOT-LTN+BK", "HTGNN", "Recipe", ADDITIONAL, "Bayes limit"):
            shown = [_shown(means[data, method, f]) for f in FRACTIONS]
            lines.append(line([f"**{method}**" if method == "Recipe" else method, *shown]))
        worst = max(welch(means[data, "Recipe", f], means[data, "HTGNN", f]).p for f in FRACTIONS)
        lines += ["", f"Against HTGNN, Welch's test gives p ≤ {worst:.1g} at every fraction.", ""]
    return "\n".join(lines)


def ablations(means: Cells) -> str:
    """Return the table of ablations: what each part contributes."""
    lines = head("CarPed35K, PR-AUC")
    for name in ("Recipe", *(f"Recipe: {a}" for a in ABLATIONS)):
        row = [means["CarPed35K", name, f] for f in FRACTIONS]
        short = name.removeprefix("Recipe: ")
        label = "the recipe" if name == "Recipe" else CALLED.get(short, short)
        count = min(one.count for one in row)
        lines.append(line([f"{label} ({count})", *(f"{one.mean:.3f}" for one in row)]))
    return "\n".join(lines)


def violations(rates: Cells) -> str:
    """Return the table of crisp violations of thresholded predictions."""
    lines = head("violations, in a million")
    for data in DATA:
        for method in ("FOT-LTN+BK", "Recipe"):
            shown = [f"{1e6 * rates[data, method, f].mean:,.0f}" for f in FRACTIONS]
            lines.append(line([f"{data}, {method}", *shown]))
    return "\n".join(lines)


def search(folder: Path) -> str:
    """Return the tables of the search for the recipe's numbers."""
    rows = json.loads((folder / "search.json").read_text("utf-8"))
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


def deliveries(folder: Path) -> str:
    """Return the table of the second world."""
    lines = (folder / "deliveries.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(text) for text in lines]
    names = {
        "recipe": "**the recipe**", "logits": "the same logits, without axioms",
        "paper": "the paper's setting", "labels": "the paper's networks, without axioms",
        "limit": "Bayes limit",
    }  # fmt: skip
    means = {
        (m, f): summary([r["pr_auc"] for r in rows if (r["method"], r["fraction"]) == (m, f)])
        for m in names
        for f in FRACTIONS
    }
    written = head("deliveries, PR-AUC")
    for method, name in names.items():
        summaries = [means[method, f] for f in FRACTIONS]
        written.append(line([name, *(f"{s.mean:.3f} ± {s.std:.3f}" for s in summaries)]))
    worst = max(
        welch(means["recipe", f], means[m, f]).p for m in ("logits", "paper") for f in FRACTIONS
    )
    counts = {s.count for s in means.values()}
    written += [
        "",
        f"Over {min(counts)} repetitions. Against the logits alone and the paper's setting, "
        f"Welch's test gives p ≤ {worst:.1g} at every fraction.",
    ]
    return "\n".join(written)


def figure(records: Sequence[Record]) -> Figure:
    """Draw PR-AUC of the recipe and other methods against the share of facts."""
    return methods_figure(records, COMPARED, "PR-AUC on clean test facts")


def tables(records: Sequence[Record], folder: Path) -> dict[str, str]:
    """Return the tables of the page by name, from the records and other files of the folder."""
    means = cells(records, "pr_auc")
    return {
        "results": results(means).rstrip(),
        "ablations": ablations(means),
        "violations": violations(cells(records, "violation_rate")),
        "search": search(folder),
        "deliveries": deliveries(folder),
    }
