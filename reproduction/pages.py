"""The pages in docs/ about the experiments, from the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fotltn.reporting.theme import save
from reproduction.paper.published import METHODS
from reproduction.paper.reproduce import background
from reproduction.recipe import page as recipe
from reproduction.report.page import page, tables_page
from reproduction.report.records import Record, read
from reproduction.report.sweeps import results_figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
REMARKS = ("remarks", "varied")  # what people wrote for the first page, and for the second


def texts(docs: Path = DOCS) -> dict[Path, str]:
    """All pages, as they should be."""
    records, more = _records(docs)
    folder = docs / "reproduction"
    remarks, varied = ((folder / f"{name}.md.in").read_text("utf-8") for name in REMARKS)
    return {
        docs / "reproduction.md": page(
            records,
            source="docs/reproduction/records.parquet",
            wall=wall(records),
            figures={"PR-AUC and KB-SAT, ours and the paper's": "reproduction/results.png"},
            remarks=remarks,
            more="reproduction-tables.md",
            **background(),
        ),
        docs / "reproduction-tables.md": tables_page(
            records,
            back="reproduction.md",
            remarks=varied.replace("READINGS", readings(folder)),
        ),
        docs / "recipe.md": recipe.build(more, docs / "recipe"),
    }


def stale(docs: Path = DOCS) -> list[str]:
    """The names of pages that are not those of the records."""
    return [path.name for path, text in texts(docs).items() if path.read_text("utf-8") != text]


def write(docs: Path = DOCS) -> None:
    """Write all pages and their figures."""
    for path, text in texts(docs).items():
        path.write_text(text, "utf-8")
    records, more = _records(docs)
    known = background()
    drawn = results_figure(records, truth=known["truth"], all_false=known["all_false"])
    save(drawn, docs / "reproduction" / "results")
    recipe.figure(more, docs / "recipe" / "results.png")


def _records(docs: Path) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """The runs of the reproduction; and these with those of the recipe."""
    first = docs / "reproduction" / "records.parquet"
    return read(first), read(first, docs / "recipe" / "records.parquet")


def wall(records: Sequence[Record]) -> dict[str, float]:
    """The seconds of training, by the record."""
    runs = [r for r in records if r.method in METHODS]
    ours = [r for r in runs if r.method != "HTGNN"]
    return {
        f"training of all {len(runs)} runs on one NVIDIA H200": sum(r.seconds for r in runs),
        "of these, FOT-LTN with and without axioms": sum(r.seconds for r in ours),
    }


def readings(folder: Path) -> str:
    """The search over what the paper leaves open, as a table."""
    lines = [
        "| embeddings | type facts | semantics | watched | method | 10 % | 30 % | 50 % | 80 % | "
        "PR-AUC off | KB-SAT off | held out |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in json.loads((folder / "readings.json").read_text("utf-8")):
        types = row["types"] + ("" if row["flip_types"] else ", never flipped")
        watched = f"{row['watch']:.0%} of the facts" if row["watch"] else "training loss"
        cells = " | ".join(row[f] for f in ("10%", "30%", "50%", "80%"))
        lines.append(
            f"| N(0, {row['scale']:g}) | {types} | {row['semantics']} | {watched} | "
            f"{row['method']} | {cells} | {row['PR-AUC off']:.3f} | {row['KB-SAT off']:.3f} | "
            f"{row['held out']:.3f} |"
        )
    return "\n".join(lines)
