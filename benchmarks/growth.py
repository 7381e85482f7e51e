"""Growth: the paper's axioms from 200 to 10,000 entities, two facts for each entity and step.

    python -m benchmarks.growth [--json FILE] [--plot FILE]

The dense peer is run until its tensors would not fit. The C library maps blocks above 32 MB anew
for every operation, which at 10,000 entities costs more than the operations; here it is told to
keep them, for both (`fotltn.memory.keep_freed_memory`), unless --forget is given.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from benchmarks import by_hand
from benchmarks.common import (
    carped_theory,
    close_facts,
    engine_step,
    interpretation,
    peak_bytes,
    prepare,
    report,
    seconds,
    tables,
)
from fotltn.memory import keep_freed_memory

DENSE_LIMIT = 10**9  # bytes of one dense tensor; the peer keeps some twenty of them


def measure(entities: int, horizon: int) -> dict[str, Any]:
    """One size."""
    theory = carped_theory()
    facts = close_facts(entities, horizon, 2 * entities * horizon)
    learned = tables(entities, horizon)
    model = interpretation(learned, facts, entities, horizon)
    prepared = prepare(theory, model)

    def run() -> object:
        return engine_step(prepared, model, learned)

    taken, held = seconds(run, repeat=3), peak_bytes(run)
    units = facts.facts + entities * horizon
    row = {
        "entities": entities, "facts": facts.facts, "ms": taken * 1e3,
        "ns per fact or cell": taken / units * 1e9, "MB": held / 1e6,
        "bytes per fact or cell": held / units,
    }  # fmt: skip
    if entities * entities * horizon * 4 <= DENSE_LIMIT:
        dense = facts.dense(torch.float32)[0]
        row["dense, ms"] = seconds(lambda: by_hand.step(learned, dense), repeat=1) * 1e3
        row["dense, MB"] = peak_bytes(lambda: by_hand.step(learned, dense)) / 1e6
    return row


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Time and memory against size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for axis, unit in zip(axes, ("ms", "MB"), strict=True):
        axis.loglog([r["entities"] for r in rows], [r[unit] for r in rows], "o-", label="fotltn")
        peer = [r for r in rows if f"dense, {unit}" in r]
        axis.loglog(
            [r["entities"] for r in peer],
            [r[f"dense, {unit}"] for r in peer],
            "s--",
            label="dense by hand",
        )
        axis.set_xlabel("entities (1,000 steps, 2 facts an entity and step)")
        axis.set_ylabel({"ms": "forward and backward, ms", "MB": "additional memory, MB"}[unit])
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[200, 500, 1000, 2000, 5000, 10_000]
    )
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--forget", action="store_true", help="leave the allocator as it is")
    args = parser.parse_args()
    if not args.forget:
        keep_freed_memory()
    torch.manual_seed(0)
    rows = [measure(size, args.horizon) for size in args.sizes]
    least = min(r["ns per fact or cell"] for r in rows)
    for row in rows:
        row["times the least"] = row["ns per fact or cell"] / least
    report(f"the thirteen axioms, {args.horizon} steps", rows, args.json)
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
