"""The tables of the page about CAVIAR, from the records of the study."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))  # `docs/reproduction` is no package

from reproduction.caviar.scores import CLASSES, Scores, compared, interval, resampled  # noqa: E402

RECORDS = DOCS / "caviar"
#: The runs of the study, and how long they took.
STUDY, TIME = "runs.jsonl", "time.json"
#: The methods of the main tables, and what the page calls them.
METHODS = {
    "rules in pixels": "two crisp rules, in pixels",
    "rules": "crisp rules",
    "trees": "boosted trees",
    "network": "network",
    "network and axioms": "network, axioms as loss",
    "posterior": "posterior, no network",
    "posterior and network": "posterior and network",
    "posterior, as first written": "posterior, no network, as first written",
    "both, as first written": "posterior and network, as first written",
}
PARTS = {
    "posterior and network": "posterior and network",
    "posterior": "posterior, no network",
    "posterior, no third": "the same, without third persons",
    "posterior, no lasting": "the same, without `LastTogether`",
    "network and inertia": "posterior and network, no soft axioms",
    "exponents learned": "posterior and network, exponents learned",
}
METRICS = {"f1": "F1", "macro": "F1 by clip", "ap": "AP", "loss": "log-loss", "ece": "ECE"}
MAIN = ("f1", "ap", "loss")
AMOUNTS = {
    "all": "all",
    "10": "20 clips",
    "5": "10 clips",
    "2": "4 clips",
    "noisy": "a fifth wrong",
}
OURS, NO_RULES = "posterior and network", "network and inertia"
#: The same with the theory as it was before anybody had looked at errors.
WRITTEN_FIRST = "both, as first written"


@cache
def _rows() -> list[dict[str, Any]]:
    return [json.loads(text) for text in (RECORDS / STUDY).read_text("utf-8").splitlines()]


def _counts(method: str, labels: str, name: str) -> dict[str, Any]:
    """Counts of a class by clip."""
    rows = [r for r in _rows() if (r["method"], r["labels"]) == (method, labels)]
    return {
        v: c for r in sorted(rows, key=lambda r: r["fold"]) for v, c in r["counts"][name].items()
    }


@cache
def _metrics(method: str, labels: str, name: str) -> dict[str, Any] | None:
    """All metrics of a class, on all clips and on clips drawn anew; None unless all are judged."""
    by_video = _counts(method, labels, name)
    videos = sorted({video for row in _rows() for video in row["counts"][name]})
    if by_video.keys() != set(videos):
        return None
    return Scores(by_video, videos).metrics(resampled(len(videos)))


def _run(methods: Mapping[str, str], labels: str, name: str) -> dict[str, dict[str, Any]]:
    """The metrics of those methods that are on record, by what the page calls them."""
    results = {text: _metrics(method, labels, name) for method, text in methods.items()}
    return {text: metrics for text, metrics in results.items() if metrics is not None}


def caviar_clips() -> str:
    """In which clips how many frames are true, by class."""
    lines = ["| | frames of pairs | clips | clips with the most |", "| --- | ---: | ---: | --- |"]
    total = 0
    for name in CLASSES:
        counts = _counts("rules", "all", name)
        true = {v: c["tp"] + c["fn"] for v, c in counts.items() if c["tp"] + c["fn"]}
        total = sum(sum(pair) for c in counts.values() for pair in c["bins"].values())
        most = sorted(true, key=lambda v: -true[v])[:3]
        told = ", ".join(f"`{v}` {true[v]:,}" for v in most)
        lines.append(f"| {name} | {sum(true.values()):,} | {len(true)} | {told} |")
    lines.append(f"| all | {total:,} | {len(counts)} | |")
    return "\n".join(lines)


def caviar_scores() -> str:
    """All methods with all labels, with intervals over clips."""
    lines = []
    for name in CLASSES:
        lines += [f"| {name} | " + " | ".join(METRICS.values()) + " |"]
        lines += ["| --- |" + " ---: |" * len(METRICS)]
        results = _run(METHODS, "all", name)
        best = {k: _best(k, [*results.values()]) for k in METRICS}
        for text, metrics in results.items():
            cells = [_shown(*interval(metrics[k]), bold=metrics[k][0] == best[k]) for k in METRICS]
            lines.append(f"| {text} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def _best(key: str, results: list[dict[str, Any]]) -> float:
    values = [float(one[key][0]) for one in results]
    return min(values) if key in ("loss", "ece") else max(values)


def caviar_differences() -> str:
    """By how much the posterior with networks differs from others, on the same clips."""
    later = {key: METHODS[key] for key in METHODS if not key.endswith("as first written")}
    return _differences(OURS, later | {NO_RULES: PARTS[NO_RULES]})


def caviar_first() -> str:
    """The same with the theory as it was first written."""
    alone = ("rules in pixels", "rules", "trees", "network", "network and axioms")
    return _differences(WRITTEN_FIRST, {key: METHODS[key] for key in alone})


def _differences(ours: str, others: Mapping[str, str]) -> str:
    """How far a method is ahead of others: by metric, in how many draws, and in how many clips."""
    lines = []
    for name in CLASSES:
        lines += [f"| {name}: {METHODS[ours]} minus | " + " | ".join(METRICS[k] for k in MAIN)]
        lines[-1] += " | clips |"
        lines += ["| --- |" + " ---: |" * (len(MAIN) + 1)]
        metrics = _run({ours: METHODS[ours]}, "all", name)[METHODS[ours]]
        for method, theirs in _run({m: m for m in others if m != ours}, "all", name).items():
            cells = []
            for key in MAIN:
                gain = (metrics[key] - theirs[key])[1:] * (-1 if key == "loss" else 1)
                share = round(100 * float(np.mean(gain > 0)))
                cells.append(f"{_shown(*compared(metrics, theirs, key), sign='+')}, {share} %")
            cells.append(_won(ours, method, name))
            lines.append(f"| {others[method]} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def _won(ours: str, theirs: str, name: str) -> str:
    """In how many of the clips that have the class a method has the lower log-loss."""
    first, second = (_counts(method, "all", name) for method in (ours, theirs))
    clips = [v for v, c in first.items() if c["tp"] + c["fn"]]
    return f"{sum(first[v]['loss'] < second[v]['loss'] for v in clips)} of {len(clips)}"


def caviar_labels() -> str:
    """Metrics by the number of labels; F1 and log-loss with intervals over clips."""
    lines = []
    for key in ("f1", "ap", "loss", "ece"):
        for name in CLASSES:
            results = {text: _run(METHODS, amount, name) for amount, text in AMOUNTS.items()}
            shown = {text: run for text, run in results.items() if METHODS[OURS] in run}
            lines += [f"| {METRICS[key]} of {name} | " + " | ".join(shown) + " |"]
            lines += ["| --- |" + " ---: |" * len(shown)]
            for text in METHODS.values():
                if all(text in run for run in shown.values()):
                    values = [interval(run[text][key]) for run in shown.values()]
                    wide = key in ("f1", "loss")
                    cells = [_shown(*v) if wide else f"{v[0]:.3f}" for v in values]
                    lines.append(f"| {text} | {' | '.join(cells)} |")
            lines.append("")
    return "\n".join(lines[:-1])


def caviar_noise() -> str:
    """What a fifth of wrong labels costs, with intervals over clips."""
    lines = []
    for name in CLASSES:
        lines += [f"| {name}: lost by | " + " | ".join(METRICS.values()) + " |"]
        lines += ["| --- |" + " ---: |" * len(METRICS)]
        results = _run(METHODS, "all", name)
        for text, noisy in _run(METHODS, "noisy", name).items():
            lost = {
                k: (noisy[k] - results[text][k]) * (1 if k in ("loss", "ece") else -1)
                for k in METRICS
            }
            cells = " | ".join(_shown(*interval(lost[k]), sign="+") for k in METRICS)
            lines.append(f"| {text} | {cells} |")
        lines.append("")
    return "\n".join(lines[:-1])


def caviar_parts() -> str:
    """What parts of the theory and of the method are worth."""
    head = " | ".join(f"{METRICS[k]}, {name}" for name in CLASSES for k in MAIN)
    lines = [f"| | {head} |", "| --- |" + " ---: |" * (len(MAIN) * len(CLASSES))]
    results = {name: _run(PARTS, "all", name) for name in CLASSES}
    for text in results[CLASSES[0]]:
        values = [results[name][text][k][0] for name in CLASSES for k in MAIN]
        lines.append(f"| {text} | {' | '.join(f'{float(v):.3f}' for v in values)} |")
    return "\n".join(lines)


def caviar_choices() -> str:
    """What was chosen, and in how many folds."""
    lines = ["| | chosen, and in how many of ten folds |", "| --- | --- |"]
    keys = {
        "rules in pixels": ["pixels"], "rules": ["close", "drift"], "trees": ["max_iter"],
        "network": ["prior"], "network and axioms": ["weight"],
        "posterior": ["close", "drift", "weight"], "posterior and network": ["exponent"],
    }  # fmt: skip
    for method, names in keys.items():
        rows = [r for r in _rows() if (r["method"], r["labels"]) == (method, "all")]
        parts = []
        for key in names:
            values = [row["chosen"][key] for row in rows if key in row["chosen"]]
            told = ", ".join(f"{_value(key, v)} in {values.count(v)}" for v in sorted(set(values)))
            parts += [f"`{key}` {told}"] if told else []
        if parts:
            lines.append(f"| {METHODS[method]} | {'; '.join(parts)} |")
    return "\n".join(lines)


def _value(key: str, value: float) -> str:
    return "never" if key == "drift" and value >= 100 else f"{value:g}"


def caviar_time() -> str:
    """How long it took: computing, and beside a clock where somebody looked at one."""
    total = sum(row["seconds"] for row in _rows()) / 60
    told = f"The {len(_rows())} runs, with all choices, took {total:.0f} minutes of computing."
    if (RECORDS / TIME).exists():
        took = json.loads((RECORDS / TIME).read_text("utf-8"))
        told += (
            f" The methods of the first table, but for those as first written, were run again with "
            f"version 0.2.0, as one piece: "
            f"{took['processes']} processes on two shared cores took {took['minutes']:.0f} minutes "
            f"for {took['runs']} runs ([records](caviar/again.jsonl))."
        )
    return told


def caviar_worst() -> str:
    """The clips with the most wrong frames by the posterior with networks."""
    lines = ["| | clip | true frames | right | missed | invented | share of log-loss |"]
    lines += ["| --- | --- |" + " ---: |" * 5]
    for name in CLASSES:
        counts = _counts(OURS, "all", name)
        total = sum(c["loss"] for c in counts.values())
        for video in sorted(counts, key=lambda v: -(counts[v]["fp"] + counts[v]["fn"]))[:5]:
            c = counts[video]
            lines.append(
                f"| {name} | `{video}` | {c['tp'] + c['fn']:,} | {c['tp']:,} | {c['fn']:,} "
                f"| {c['fp']:,} | {100 * c['loss'] / total:.0f} % |"
            )
    return "\n".join(lines)


def _shown(value: float, low: float, high: float, sign: str = "", bold: bool = False) -> str:
    mark = "**" if bold else ""
    number, *ends = (round(x, 3) + 0.0 for x in (value, low, high))  # no minus before a zero
    return f"{mark}{number:{sign}.3f}{mark} [{ends[0]:{sign}.3f}, {ends[1]:{sign}.3f}]"
