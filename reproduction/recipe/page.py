"""The page of the recipe, docs/recipe.md, and its figure, from the records of the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.paper.published import DATA, FRACTIONS, RESULTS
from reproduction.report.compare import Key, cells
from reproduction.report.records import Record
from reproduction.report.stats import Summary, summary, welch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADDITIONAL = "Recipe, additional axioms"
ABLATIONS = (
    "no definitions", "not smooth in time", "no prior", "exists as a p-mean",
    "labels taken as right", "no axioms beside", "axioms as in the paper",
    "axioms five times as heavy", "trust in axioms learned", "reach of 6",
    "mean of three reaches", "types sampled and flipped",
)  # fmt: skip


#: Means and deviations by data set, method and fraction.
Cells = Mapping[Key, Summary]


def _shown(one: Summary) -> str:
    """A cell of a table, with its count where there are not ten runs."""
    few = "" if one.count == 10 else f" ({one.count})"
    return f"{one.mean:.3f} ± {one.std:.3f}{few}"


def line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def head(first: str) -> list[str]:
    """The head of a table by fractions."""
    return [line([first, *(f"{f:.0%}" for f in FRACTIONS)]), line(["---"] * (1 + len(FRACTIONS)))]


def results(means: Cells) -> str:
    """All methods, both data sets."""
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
    """What each part brings."""
    lines = head("CarPed35K, PR-AUC")
    for name in ("Recipe", *(f"Recipe: {a}" for a in ABLATIONS)):
        row = [means["CarPed35K", name, f] for f in FRACTIONS]
        label = "the recipe" if name == "Recipe" else name.removeprefix("Recipe: ")
        count = min(one.count for one in row)
        lines.append(line([f"{label} ({count})", *(f"{one.mean:.3f}" for one in row)]))
    return "\n".join(lines)


def violations(rates: Cells) -> str:
    """Crisp violations of thresholded predictions."""
    lines = head("violations, in a million")
    for data in DATA:
        for method in ("FOT-LTN+BK", "Recipe"):
            shown = [f"{1e6 * rates[data, method, f].mean:,.0f}" for f in FRACTIONS]
            lines.append(line([f"{data}, {method}", *shown]))
    return "\n".join(lines)


def search(folder: Path) -> str:
    """How the numbers were chosen."""
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
    """The second world."""
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


def figure(records: Sequence[Record], path: Path) -> None:
    """PR-AUC against the share of facts, as a file."""
    drawn(records).savefig(path, dpi=110)


def drawn(records: Sequence[Record]) -> Figure:
    """PR-AUC against the share of facts, with the legend above, where no data are."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(10, 4.2), layout="constrained")
    axes = made.subplots(1, 2, sharey=True)
    means = cells(records, "pr_auc")
    styles = {
        "Bayes limit": ("black", "D", "-"), "Recipe": ("#cc79a7", "o", "-"),
        "FOT-LTN+BK": ("#0072b2", "s", "-"), "HTGNN": ("#009e73", "^", "-"),
    }  # fmt: skip
    for axis, data in zip(axes, DATA, strict=True):
        for method, (colour, marker, stroke) in styles.items():
            summaries = [means[data, method, f] for f in FRACTIONS]
            axis.errorbar(
                FRACTIONS, [s.mean for s in summaries], [s.std for s in summaries], color=colour,
                marker=marker, linestyle=stroke, capsize=2, label=method,
            )  # fmt: skip
        axis.set_title(data)
        axis.set_xlabel("share of the facts that are trained on")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("PR-AUC on clean test facts")
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(styles))
    return made


def build(records: Sequence[Record], folder: Path) -> str:
    """The page, with what the folder has beside the records."""
    text = (folder / "text.md.in").read_text("utf-8")
    means = cells(records, "pr_auc")
    for name, part in (
        ("RESULTS", results(means)),
        ("ABLATIONS", ablations(means)),
        ("VIOLATIONS", violations(cells(records, "violation_rate"))),
        ("SEARCH", search(folder)),
        ("DELIVERIES", deliveries(folder)),
    ):
        text = text.replace(f"<!-- {name} -->", part)
    return text
