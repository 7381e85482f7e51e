"""More facts than memory holds: written as Parquet by block, then A1 and its gradient by block.

    python -m benchmarks.blocks --facts 10000000 [--folder FOLDER] [--json FILE]

A block is a trace of 500 entities and 1,000 steps with about a million facts, in a file of its own,
`Close/block-000000.parquet`, with whole numbers for names: x, y and time. Degrees come from
features, which are drawn anew by block, through weights that all blocks share. Blocks are read one
after another; values are added in float64, and gradients along the tree of `fotltn.learn.blocks`.
Facts are made up, so that what it takes to read names from other files is no part of this.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.common import (
    STATIC,
    carped_theory,
    close_facts,
    interpretation,
    prepare,
    report,
)
from fotltn.learn.blocks import PairwiseSum
from fotltn.memory import keep_freed_memory
from fotltn.project.scene import LEARNED
from fotltn.semantics.sparse import SparseTable

ENTITIES, HORIZON, WIDTH = 500, 1000, 4
FACTS = 2 * ENTITIES * HORIZON  # of a block, about
COLUMNS = ("x", "y", "time")


def path_of(folder: Path, number: int) -> Path:
    """The file of a block."""
    return folder / "Close" / f"block-{number:06d}.parquet"


def write(folder: Path, number: int) -> int:
    """Make up the facts of a block, and write them; how many there are."""
    torch.manual_seed(number)
    index = close_facts(ENTITIES, HORIZON, FACTS).index[1:].numpy()
    table = pa.table(dict(zip(COLUMNS, index, strict=True)))
    pq.write_table(table, path_of(folder, number), compression="zstd")
    return len(table)


def read(folder: Path, number: int) -> SparseTable:
    """The facts of a block."""
    table = pq.read_table(path_of(folder, number), columns=list(COLUMNS), memory_map=True)
    rows = [table[name].to_numpy() for name in COLUMNS]
    index = torch.from_numpy(np.stack([np.zeros_like(rows[0]), *rows]))
    shape = (1, ENTITIES, ENTITIES, HORIZON)
    return SparseTable(index, torch.ones(index.shape[1]), shape)


def evaluate(folder: Path, blocks: int) -> Iterator[tuple[int, float, torch.Tensor]]:
    """Of each block the number of facts, the error of A1, and its gradient by the weights."""
    theory = carped_theory()
    weights = torch.linspace(-1, 1, WIDTH * len(LEARNED)).reshape(WIDTH, -1).requires_grad_()
    for number in range(blocks):
        facts = read(folder, number)
        rng = torch.Generator().manual_seed(number)
        degrees = torch.sigmoid(torch.randn(ENTITIES, HORIZON, WIDTH, generator=rng) @ weights)
        learned = {
            name: degrees[:, : 1 if name in STATIC else HORIZON, place].unsqueeze(0)
            for place, name in enumerate(LEARNED)
        }
        model = interpretation(learned, facts, ENTITIES, HORIZON)
        value = prepare(theory, model, {"A1"})(model)["A1"].tensor.reshape(())
        (slope,) = torch.autograd.grad(value, weights)
        yield facts.facts, 1 - float(value.detach()), slope.double()


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a function returns, the time on the clock, and that of the processor."""
    begin, core = time.perf_counter(), time.process_time()
    outcome = function()
    return outcome, time.perf_counter() - begin, time.process_time() - core


def run(folder: Path, facts: int) -> list[dict[str, Any]]:
    """Prepare so many facts, and evaluate them."""
    blocks = max(1, round(facts / FACTS))
    (folder / "Close").mkdir(parents=True, exist_ok=True)
    count, wall, core = timed(lambda: sum(write(folder, number) for number in range(blocks)))
    disk = sum(path_of(folder, number).stat().st_size for number in range(blocks))
    rows = [row("prepare", count, wall, core) | {"disk, bytes a fact": disk / count}]
    held: list[int] = []

    def all_blocks() -> tuple[float, torch.Tensor]:
        tree, errors = PairwiseSum(), 0.0
        for number, (_, error, slope) in enumerate(evaluate(folder, blocks)):
            errors += error**4  # the exponent of stable-product
            tree.add(number, 1, slope)
            held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return errors, tree.total()

    (errors, slope), wall, core = timed(all_blocks)
    value = 1 - (errors / blocks) ** 0.25
    rows.append(row("A1 and its gradient", count, wall, core) | {"value": value})
    rows[-1]["norm of the gradient"] = float(slope.norm())
    rows[-1]["MB after two blocks"] = held[min(1, len(held) - 1)] / 1e6
    rows[-1]["MB at most"] = held[-1] / 1e6
    return rows


def row(what: str, facts: int, wall: float, core: float) -> dict[str, Any]:
    """What one part took."""
    return {
        "what": what, "facts": facts, "s": wall, "processor, s": core,
        "ns a fact": wall / facts * 1e9, "processor, ns a fact": core / facts * 1e9,
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10**7)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one, if not said")
    parser.add_argument("--json")
    args = parser.parse_args()
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(args.folder or Path(folder), args.facts)
    report(f"{args.facts:,} facts in blocks", rows, args.json)


if __name__ == "__main__":
    main()
