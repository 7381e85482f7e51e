"""Synthetic records: the published figures, and anything that a test wants changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from reproduction.paper import published
from reproduction.report.records import Record, record

PREDICATES = ("Car", "Ped", "Run", "Stop", "Crossing", "OnSidewalk")
AXIOMS = tuple(f"A{i + 1}" for i in range(13))
TRUTH = {"CarPed35K": 0.932, "CarPed180K": 0.917}
STATISTICS = {
    "CarPed35K": {"Car": (50, 100), "Stop": (1_520, 5_000), "Close": (25_100, 1_000_000)},
    "CarPed180K": {"Car": (100, 200), "Stop": (7_365, 15_000), "Close": (150_020, 6_000_000)},
}


def values(**changes: Any) -> dict[str, Any]:
    """The fields of one right record."""
    return {
        "data": "CarPed35K", "method": "FOT-LTN+BK", "fraction": 0.1, "repetition": 0, "seed": 7,
        "pr_auc": 0.75, "pr_auc_by": {"Car": 1.0, "Ped": 0.5}, "chance": 0.5,
        "kb_sat": 0.94, "axioms": {"A1": 0.9, "A2": 1.0},
        "violations": {"A1": 0.02, "A2": 0.0}, "violation_rate": 0.01,
        "epochs": 200, "best_epoch": 170, "seconds": 0.25, "batch": 40, "parameters": 324_902,
        "setting": {"p": 4, "scale": 0.1}, "device": "cpu", "version": "0.1.0",
    } | changes  # fmt: skip


def nowhere(*_: object) -> float:
    """No shift."""
    return 0.0


@cache
def grid(
    *,
    repetitions: int = 10,
    shift: Callable[[str, str, str, float], float] = nowhere,
    limit: bool = True,
    seed: int = 0,
) -> tuple[Record, ...]:
    """A full grid with the published means and deviations; `shift` moves a metric's cell."""
    generator = np.random.default_rng(seed)
    found = []
    names = (*published.METHODS, *(("Bayes limit",) if limit else ()))
    for data in published.DATA:
        for method in names:
            for fraction in published.FRACTIONS:
                noise = generator.standard_normal((2, repetitions))
                noise -= noise.mean(axis=1, keepdims=True)
                if repetitions > 1:
                    noise /= noise.std(axis=1, keepdims=True)
                for i in range(repetitions):
                    metrics = {}
                    for row, metric in enumerate(published.METRICS):
                        entry = published.RESULTS.get((metric, data, method, fraction))
                        mean, std = entry or (0.93 + 0.08 * fraction, 0.002)
                        moved = mean + shift(metric, data, method, fraction)
                        metrics[metric] = float(np.clip(moved + std * noise[row, i], 0, 1))
                    low = metrics["pr_auc"]
                    by = dict.fromkeys(PREDICATES, low)
                    edge = min(0.2, low, 1 - low)
                    by["Car"], by["Crossing"] = low + edge, low - edge
                    found.append(
                        record(
                            values(
                                data=data, method=method, fraction=fraction, repetition=i, seed=i,
                                **metrics, pr_auc_by=by,
                                axioms=dict.fromkeys(AXIOMS, metrics["kb_sat"]),
                                violations=dict.fromkeys(AXIOMS, (1 - metrics["kb_sat"]) / 9),
                                violation_rate=(1 - metrics["kb_sat"]) / 9,
                                parameters=588_874 if method == "HTGNN" else 324_902,
                                seconds=2.5 if method == "HTGNN" else 0.25,
                                device="NVIDIA H200",
                            )
                        )
                    )  # fmt: skip
    return tuple(found)
