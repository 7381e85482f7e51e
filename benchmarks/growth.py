"""Measure growth: the paper's axioms from 200 to 10,000 entities, two facts per entity and step.

    python -m benchmarks.growth [--json FILE]
    python -m benchmarks.growth --draw docs/performance/growth.json

The dense peer runs until its tensors no longer fit. For every operation, the C library maps new
blocks above 32 MB, which at 10,000 entities costs more than the operations. Both sides therefore
keep freed blocks (`fotltn.memory.keep_freed_memory`), unless --forget is given.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import by_hand
from benchmarks.common import (
    carped_theory,
    close_facts,
    engine_step,
    peak_bytes,
    prepare,
    report,
    seconds,
    tables,
    tables_of_facts,
)
from fotltn.memory import keep_freed_memory
from fotltn.reporting import plots, theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSE_LIMIT = 4 * 10**8  # bytes of one dense tensor; the peer holds over twenty of them


def measure(entities: int, horizon: int) -> dict[str, Any]:
    """Measure one size."""
    theory = carped_theory()
    facts = close_facts(entities, horizon, 2 * entities * horizon)
    learned = tables(entities, horizon)
    model = tables_of_facts(learned, facts, entities, horizon)
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


def drawn(record: dict[str, Any]) -> Figure:
    """Draw time and memory against size, from a file that this program has written."""
    rows = record["rows"]
    figure, axes = plots.subplots(1, 2, width=7.6, height=3.3)
    labels = {"ms": "forward and backward, ms", "MB": "additional memory, MB"}
    dense = [row for row in rows if "dense, ms" in row]
    last = dense[-1]
    for axis, (unit, label) in zip(axes, labels.items(), strict=True):
        for name, key, colour, mark, some in (
            ("fotltn", unit, theme.BLUE, "o", rows),
            ("dense by hand", f"dense, {unit}", theme.ORANGE, "s", dense),
        ):
            axis.loglog(
                [row["entities"] for row in some], [row[key] for row in some], label=name,
                color=colour, marker=mark, lw=1.6, markersize=5.4,
            )  # fmt: skip
        if len(dense) < len(rows):
            more = rows[len(dense)]["entities"]
            words = f"does not fit\nwith {more:,} entities"
            theme.end_of_line(axis, last["entities"], last[f"dense, {unit}"], words)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.margins(y=0.12)
        axis.set_xlabel("entities")
        axis.set_ylabel(label)
        axis.grid(visible=True, which="major")
    theme.legend_over_all(figure, axes[0].get_legend_handles_labels()[0])
    facts = rows[0]["facts"] / rows[0]["entities"]
    made = f"{record['threads']} threads, {record['processor']}, torch {record['torch']}"
    text = f"{record['title']}, about {facts:,.0f} facts an entity; {made}"
    plots.footer(figure, f"{text}, fotltn {record['fotltn']}")
    return figure


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[200, 300, 1000, 2000, 5000, 10_000]
    )
    parser.add_argument("--json")
    parser.add_argument(
        "--draw", type=Path, help="file of an earlier run; draw a figure next to it"
    )
    parser.add_argument("--forget", action="store_true", help="do not keep freed memory")
    args = parser.parse_args()
    if args.draw:
        record = json.loads(args.draw.read_text("utf-8"))
        plots.save(drawn(record), args.draw.with_suffix(""))
        return
    if not args.forget:
        keep_freed_memory()
    torch.manual_seed(0)
    rows = [measure(size, args.horizon) for size in args.sizes]
    least = min(r["ns per fact or cell"] for r in rows)
    for row in rows:
        row["times the least"] = row["ns per fact or cell"] / least
    report(f"the thirteen axioms, {args.horizon:,} steps", rows, args.json)


if __name__ == "__main__":
    main()
