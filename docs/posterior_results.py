"""How good posteriors are, as tables of their pages, from the records of the study."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "posterior"
RECORD = FOLDER / "runs.jsonl"

#: Runs that ended early, one of each kind, on two idle cores.
EARLY = FOLDER / "early.jsonl"

#: The worlds, by their names in records.
WORLDS = {
    "deliveries": "deliveries",
    "CarPed35K": "the paper's cars, types unknown",
    "ward": "ward, with a learned relation",
}

#: What methods are called in the table that compares them.
COMPARED = {
    "gradient": "gradient",
    "posterior": "posterior",
    "limit": "Bayes limit",
    "limit, from the truth": "Bayes limit, chains that start at the truth",
}

METHODS = {"posterior": "told", "posterior, rates learned": "learned"}

Row = dict[str, Any]


def posterior_scores() -> str:
    """PR-AUC and ECE by world, rates and share."""
    lines = [
        "| world | rates | labelled | repetitions | PR-AUC | lowest | ECE | largest |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    rows = _rows()
    for world, title in WORLDS.items():
        for method, rates in METHODS.items():
            for share in sorted({row["fraction"] for row in rows}):
                if some := _some(rows, world, method, share):
                    scores, errors = ([row[key] for row in some] for key in ("pr_auc", "ece"))
                    cells = [
                        title, rates, f"{100 * share:.0f} %", f"{len(some)}",
                        f"{statistics.mean(scores):.3f}{_spread(scores)}", f"{min(scores):.3f}",
                        f"{statistics.mean(errors):.3f}", f"{max(errors):.3f}",
                    ]  # fmt: skip
                    lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def posterior_differences() -> str:
    """What learned rates lose, on the same labels as told ones."""
    lines = [
        "| world | labelled | repetitions | told | learned | difference | largest loss |",
        "| --- |" + " ---: |" * 6,
    ]
    rows = _rows()
    for world, title in WORLDS.items():
        for share in sorted({row["fraction"] for row in rows}):
            told, learned = (
                {row["repetition"]: row["pr_auc"] for row in _some(rows, world, method, share)}
                for method in METHODS
            )
            if both := [(told[n], learned[n]) for n in learned if n in told]:
                means = [statistics.mean(column) for column in zip(*both, strict=True)]
                cells = [
                    title, f"{100 * share:.0f} %", f"{len(both)}",
                    *(f"{value:.3f}" for value in means), f"{means[1] - means[0]:+.4f}",
                    f"{max(a - b for a, b in both):+.4f}",
                ]  # fmt: skip
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def posterior_compared() -> str:
    """PR-AUC by world, method and share."""
    rows = _rows()
    shares = sorted({row["fraction"] for row in rows})
    lines = [
        f"| world | method | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |",
        "| --- | --- |" + " ---: |" * len(shares),
    ]
    for world, title in WORLDS.items():
        for method, named in COMPARED.items():
            some = [[row["pr_auc"] for row in _some(rows, world, method, s)] for s in shares]
            if all(some):
                cells = [f"{statistics.mean(scores):.3f}{_spread(scores)}" for scores in some]
                lines.append(f"| {title} | {named} | {' | '.join(cells)} |")
                title = ""
    return "\n".join(lines)


def posterior_few() -> str:
    """PR-AUC with labels of 10 % of the facts, beside gradients and the limit."""
    lines = ["| world | gradient | posterior | Bayes limit |", "| --- | ---: | ---: | ---: |"]
    rows = _rows()
    for world, title in WORLDS.items():
        scores = [
            statistics.mean(row["pr_auc"] for row in _some(rows, world, method, 0.1))
            for method in ("gradient", "posterior", "limit")
        ]
        lines.append(f"| {title} | {' | '.join(f'{value:.3f}' for value in scores)} |")
    return "\n".join(lines)


def posterior_times() -> str:
    """Seconds of one run that ends early, by world and share."""
    rows = _rows(EARLY)
    shares = sorted({row["fraction"] for row in rows})
    lines = [
        f"| world | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |",
        "| --- |" + " ---: |" * len(shares),
    ]
    for world, title in WORLDS.items():
        times = [_some(rows, world, "posterior", share)[0]["seconds"] for share in shares]
        lines.append(f"| {title} | {' | '.join(f'{time:.0f}' for time in times)} |")
    return "\n".join(lines)


def _rows(record: Path = RECORD) -> list[Row]:
    return [json.loads(text) for text in record.read_text("utf-8").splitlines()]


def _some(rows: list[Row], world: str, method: str, share: float) -> list[Row]:
    key = (world, method, share)
    return [row for row in rows if (row["data"], row["method"], row["fraction"]) == key]


def _spread(values: list[float]) -> str:
    return f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""


#: What makes the generated regions of the pages.
REGIONS = {
    "posterior_compared": posterior_compared,
    "posterior_differences": posterior_differences,
    "posterior_few": posterior_few,
    "posterior_scores": posterior_scores,
    "posterior_times": posterior_times,
}
