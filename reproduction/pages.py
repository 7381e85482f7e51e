"""Write the pages in docs/ about the paper's experiments, and their figures, from the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fotltn.reporting.theme import save
from reproduction.paper.published import METHODS
from reproduction.paper.reproduce import background
from reproduction.recipe import page as recipe
from reproduction.report.page import page, tables_page
from reproduction.report.records import Record, read
from reproduction.report.render import percent
from reproduction.report.sweeps import results_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
REMARKS = ("remarks", "varied")  # texts written by hand for the first page and the second


def texts(docs: Path = DOCS) -> dict[Path, str]:
    """Return the text of every page."""
    records, _ = records_of(docs)
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
    }


def stale(docs: Path = DOCS) -> list[str]:
    """Return the names of pages that do not match the records."""
    return [path.name for path, text in texts(docs).items() if path.read_text("utf-8") != text]


def write(docs: Path = DOCS) -> None:
    """Write all pages and their figures."""
    for path, text in texts(docs).items():
        path.write_text(text, "utf-8")
    for stem, figure in figures(docs).items():
        save(figure, stem)


def figures(docs: Path = DOCS) -> dict[Path, Figure]:
    """Return all figures by their file names without endings."""
    records, more = records_of(docs)
    known = background()
    return {
        docs / "reproduction" / "results": results_figure(
            records, truth=known["truth"], all_false=known["all_false"]
        ),
        docs / "recipe" / "results": recipe.figure(more),
    }


def records_of(docs: Path) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """Return the runs of the reproduction, and the same with those of the recipe."""
    first = docs / "reproduction" / "records.parquet"
    return read(first), read(first, docs / "recipe" / "records.parquet")


def wall(records: Sequence[Record]) -> dict[str, float]:
    """Return the seconds of training, from the records."""
    runs = [r for r in records if r.method in METHODS]
    ours = [r for r in runs if r.method != "HTGNN"]
    return {
        f"training of all {len(runs)} runs on one NVIDIA H200": sum(r.seconds for r in runs),
        "of these, FOT-LTN with and without axioms": sum(r.seconds for r in ours),
    }


def readings(folder: Path) -> str:
    """Return a table of the readings of what the paper leaves open."""
    lines = [
        "| embeddings | type facts | semantics | watched | method | 10 % | 30 % | 50 % | 80 % | "
        "PR-AUC off | KB-SAT off | held out |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in json.loads((folder / "readings.json").read_text("utf-8")):
        types = row["types"] + ("" if row["flip_types"] else ", never flipped")
        watched = f"{percent(row['watch'])} of the facts" if row["watch"] else "training loss"
        cells = " | ".join(row[f] for f in ("10%", "30%", "50%", "80%"))
        lines.append(
            f"| N(0, {row['scale']:g}) | {types} | {row['semantics']} | {watched} | "
            f"{row['method']} | {cells} | {row['PR-AUC off']:.3f} | {row['KB-SAT off']:.3f} | "
            f"{row['held out']:.3f} |"
        )
    return "\n".join(lines)
