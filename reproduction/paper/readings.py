"""Vary what the paper leaves open, and compare each reading with the published figures.

    python -m reproduction.paper.readings FILE [--device cuda]

A reading is judged on a held-out fifth of the noisy training facts, never on test facts. The output
also says how far its test figures are from the paper's. HTGNN, whose graph knows the types, is run
only where all type facts are known.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from reproduction.paper.many import run_many
from reproduction.paper.protocol import Run, Setting
from reproduction.paper.published import METHODS, METRICS, RESULTS

FRACTIONS = (0.1, 0.3, 0.5, 0.8)
VARIED = ("scale", "types", "flip_types", "semantics", "watch")
READINGS = [
    *(
        Setting(scale=scale, types=types, flip_types=flipped)
        for scale in (1.0, 0.1, 0.01)
        for types in ("once", "every step")
        for flipped in (True, False)
    ),
    *(
        Setting(scale=scale, types="all", flip_types=flipped)
        for scale in (1.0, 0.1, 0.01)
        for flipped in (True, False)
    ),
    *(Setting(scale=scale, semantics="ltn") for scale in (1.0, 0.01)),
    *(Setting(scale=scale, watch=0.1) for scale in (1.0, 0.1, 0.01)),
    *(Setting(scale=scale, watch=0.2) for scale in (1.0, 0.01)),
    *(Setting(scale=scale, watch=0.1, types="every step") for scale in (1.0, 0.01)),
]


def measure(setting: Setting, method: str, repetitions: int, device: str) -> list[dict[str, Any]]:
    """Return means over repetitions, by fraction."""
    runs = [Run("CarPed35K", method, f, r) for f in FRACTIONS for r in range(repetitions)]
    results = run_many(runs, setting, device=device)
    rows = []
    for fraction in FRACTIONS:
        chosen = [r for r in results if r["fraction"] == fraction]
        row: dict[str, Any] = {
            key: sum(r[key] for r in chosen) / len(chosen) for key in ("pr_auc", "kb_sat", "epochs")
        }
        names = chosen[0]["pr_auc_by"]
        row["by"] = {n: sum(r["pr_auc_by"][n] for r in chosen) / len(chosen) for n in names}
        rows.append(row)
    return rows


def row(setting: Setting, method: str, repetitions: int, device: str) -> dict[str, Any]:
    """Measure a reading and compare it with the paper."""
    began = time.perf_counter()
    measured = measure(setting, method, repetitions, device)
    held = measure(replace(setting, holdout=0.2), method, repetitions, device)
    shown: dict[str, Any] = {k: v for k, v in asdict(setting).items() if k in VARIED}
    shown["method"] = method
    shown |= {f"{f:.0%}": f"{r['pr_auc']:.3f}/{r['kb_sat']:.3f}"
              for f, r in zip(FRACTIONS, measured, strict=True)}  # fmt: skip
    for metric, title in METRICS.items():
        shown[f"{title} off"] = fmean(
            abs(r[metric] - RESULTS[metric, "CarPed35K", method, f].mean)
            for f, r in zip(FRACTIONS, measured, strict=True)
        )
    shown["held out"] = fmean(r["pr_auc"] for r in held)
    shown["by predicate"] = [r["by"] for r in measured]
    shown["epochs"] = fmean(r["epochs"] for r in measured)
    shown["s"] = time.perf_counter() - began
    return shown


def main() -> None:
    """Measure all readings, writing the results after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="JSON file for the results")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--method", choices=METHODS, help="run only this method")
    parser.add_argument("--first", type=int, default=0, help="number of the first reading")
    args = parser.parse_args()
    rows = []
    for setting in READINGS[args.first :]:
        for method in METHODS if setting.types == "all" else METHODS[:2]:
            if args.method not in (None, method):
                continue
            rows.append(row(setting, method, args.repetitions, args.device))
            args.file.write_text(json.dumps(rows, indent=1), "utf-8")


if __name__ == "__main__":
    main()
