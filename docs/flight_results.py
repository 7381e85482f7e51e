"""The tables of the page about flights, from the record of the study."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parent.parent / "examples" / "flights" / "results.json"
PARTS = ("test", "unseen")
SEEN = {
    "plane": "plane",
    "airport": "plane and airport",
    "history": "plane, airport, two hours before",
}
MODELS = {
    "without axioms": "network",
    "with axioms": "network, with axioms",
    "pieces": "network, numbers in pieces",
    "pieces, with axioms": "network, numbers in pieces, with axioms",
    "logistic regression": "logistic regression",
    "boosted trees": "boosted trees",
}


def flight_counts() -> str:
    """How many departures there are in each part."""
    lines = ["| part | days | planes | departures | late | share |", "| --- |" + " ---: |" * 5]
    for part, n in _record()["counts"].items():
        share = n["late"] / n["departures"]
        lines.append(
            f"| `{part}` | {n['days']} | {n['planes']:,} | {n['departures']:,} | {n['late']:,} "
            f"| {share:.3f} |"
        )
    return "\n".join(lines)


def flight_scores() -> str:
    """The PR-AUC of all models that learn from all labels."""
    rows = [r for r in _record()["results"] if r["labels"] is None]
    head = "| features of | model | other days | unseen planes |\n| --- | --- | ---: | ---: |"
    lines = [f"| {SEEN[r['seen']]} | {MODELS[r['model']]} | {_cells(r)} |" for r in rows]
    return "\n".join([head, *lines])


def flight_few() -> str:
    """The same from few labels, and with one axiom at a time, by seed beside no axioms."""
    rows = [r for r in _record()["results"] if r["labels"] is not None]
    (plain,) = [r for r in rows if r["model"] == "without axioms"]
    lines = [
        "| model | other days | better, of ten | unseen planes | better, of ten |",
        "| --- |" + " ---: |" * 4,
    ]
    for row in rows:
        cells = [shown(row[part]) + " | " + _better(row, plain, part) for part in PARTS]
        lines.append(f"| {_name(row['model'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _better(row: dict[str, Any], plain: dict[str, Any], part: str) -> str:
    """With how many seeds, and so with the same labels, a score is above that of no axioms."""
    if row is plain:
        return ""
    return str(sum(a > b for a, b in zip(row[part], plain[part], strict=True)))


def flight_choices() -> str:
    """What was chosen on the days of training."""
    lines = ["| features of | labels | model | chosen |", "| --- | --- | --- | --- |"]
    for row in _record()["results"]:
        if row["model"] in MODELS:
            chosen = row["chosen"].get("options", row["chosen"])
            chosen = {k: v for k, v in chosen.items() if not (k == "weight" and v == 0)}
            told = ", ".join(f"`{name}` {value:g}" for name, value in chosen.items())
            labels = "all" if row["labels"] is None else row["labels"]
            lines.append(f"| {SEEN[row['seen']]} | {labels} | {MODELS[row['model']]} | {told} |")
    return "\n".join(lines)


def flight_time() -> str:
    """How long the study took."""
    record = _record()
    return (
        f"The study took {record['minutes']:g} minutes in {record['processes']} processes, on two "
        f"shared cores: {record['computing']:g} minutes of computing."
    )


def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return record


def _name(model: str) -> str:
    return MODELS.get(model) or f"network, with the axiom {model.removeprefix('only ')} alone"


def _cells(row: dict[str, Any]) -> str:
    return " | ".join(shown(row[part]) for part in PARTS)


def shown(scores: list[float]) -> str:
    """The mean over seeds and the standard deviation, if there are several."""
    mean = f"{statistics.fmean(scores):.3f}"
    return mean if len(scores) == 1 else f"{mean} ± {statistics.stdev(scores):.3f}"
