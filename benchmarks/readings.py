"""What the paper leaves open, varied: how each reading compares with the published figures.

    python -m benchmarks.readings [--device cuda] [--json FILE]

A reading is judged by a fifth of the noisy training facts that is held back ("held out"), never by
test facts. Beside that stands how far its test figures are from the paper's.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, replace
from typing import Any

from benchmarks.common import report
from fotltn.experiments.many import run_many
from fotltn.experiments.protocol import Run, Setting

#: PR-AUC and KB-SAT that the paper has for CarPed35K at 10, 30, 50 and 80 %.
PAPER = {
    "FOT-LTN+BK": ((0.727, 0.736, 0.772, 0.838), (0.943, 0.903, 0.884, 0.868)),
    "FOT-LTN": ((0.597, 0.629, 0.670, 0.742), (0.572, 0.534, 0.521, 0.507)),
}
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
    """Means over repetitions, by fraction."""
    runs = [Run("CarPed35K", method, f, r) for f in FRACTIONS for r in range(repetitions)]
    found = run_many(runs, setting, device=device)
    rows = []
    for fraction in FRACTIONS:
        own = [r for r in found if r["fraction"] == fraction]
        row: dict[str, Any] = {
            key: sum(r[key] for r in own) / len(own) for key in ("pr_auc", "kb_sat", "epochs")
        }
        names = own[0]["pr_auc_by"]
        row["by"] = {n: sum(r["pr_auc_by"][n] for r in own) / len(own) for n in names}
        rows.append(row)
    return rows


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="begin with this reading")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for setting in READINGS[args.first :]:
        for method, (pr, sat) in PAPER.items():
            began = time.perf_counter()
            found = measure(setting, method, args.repetitions, args.device)
            held = measure(replace(setting, holdout=0.2), method, args.repetitions, args.device)
            row: dict[str, Any] = {k: v for k, v in asdict(setting).items() if k in VARIED}
            row["method"] = method
            row |= {f"{f:.0%}": f"{r['pr_auc']:.3f}/{r['kb_sat']:.3f}"
                    for f, r in zip(FRACTIONS, found, strict=True)}  # fmt: skip
            row["PR-AUC off"] = (
                sum(abs(r["pr_auc"] - x) for r, x in zip(found, pr, strict=True)) / 4
            )
            row["KB-SAT off"] = (
                sum(abs(r["kb_sat"] - x) for r, x in zip(found, sat, strict=True)) / 4
            )
            row["held out"] = sum(r["pr_auc"] for r in held) / 4
            row["by predicate"] = [r["by"] for r in found]
            row["epochs"] = sum(r["epochs"] for r in found) / 4
            row["s"] = time.perf_counter() - began
            rows.append(row)
            print(row, flush=True)
    report("readings of the paper on CarPed35K", rows, args.json)


if __name__ == "__main__":
    main()
