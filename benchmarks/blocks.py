"""Evaluate more facts than fit into memory: write Parquet blocks, then run A1 block by block.

    python -m benchmarks.blocks --facts 10000000 [--folder FOLDER] [--json FILE]

A block is a trace of 500 entities and 1,000 steps with about a million facts, in the layout of
`fotltn prepare`. Degrees come from features, which are drawn for each block, through weights that
all blocks share. Blocks are read one after another; values are added in float64, and gradients
along the tree of `fotltn.learn.blocks`. The facts are made up, so the cost of reading names from
other files is not included; see `python -m benchmarks.disk` for that.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import (
    STATIC,
    carped_theory,
    close_facts,
    prepare,
    report,
    tables_of_facts,
)
from fotltn.grounding.dense import tables_of_facts as facts_as_tables
from fotltn.grounding.facts import Facts, Rows
from fotltn.grounding.prepared import PreparedData, read_prepared, write_block
from fotltn.learn.blocks import PairwiseSum
from fotltn.logic.signature import Signature
from fotltn.memory import keep_freed_memory
from fotltn.project.scene import LEARNED
from fotltn.semantics.sparse import SparseTable

ENTITIES, HORIZON, WIDTH = 500, 1000, 4
FACTS = 2 * ENTITIES * HORIZON  # facts per block, approximately
NAMES = tuple(f"a{number}" for number in range(ENTITIES))


def write(folder: Path, number: int) -> int:
    """Make up the facts of a block and write them; return their number."""
    torch.manual_seed(number)
    _, *args, time = close_facts(ENTITIES, HORIZON, FACTS).index.numpy()
    rows = Rows(np.zeros_like(time), np.stack(args, -1), time, np.ones(len(time)))
    facts = Facts((f"t{number}",), {}, {"Close": rows}, (HORIZON,), local={"agent": (NAMES,)})
    return write_block(folder, number, facts, {}, carped_theory().signature)


def read(prepared: PreparedData, number: int, signature: Signature) -> SparseTable:
    """Read the facts of a block."""
    facts, _ = prepared.read(number, signature)
    alone = replace(signature, predicates={"Close": signature.predicates["Close"]})
    table = facts_as_tables(facts, alone, dtype=torch.float32, sparse=True).predicates["Close"]
    assert isinstance(table, SparseTable)
    return table


def evaluate(folder: Path, blocks: int) -> Iterator[tuple[int, float, torch.Tensor]]:
    """Yield the number of facts of each block, the error of A1, and its gradient by the weights."""
    theory = carped_theory()
    prepared = read_prepared(folder, theory.signature)
    weights = torch.linspace(-1, 1, WIDTH * len(LEARNED)).reshape(WIDTH, -1).requires_grad_()
    for number in range(blocks):
        facts = read(prepared, number, theory.signature)
        rng = torch.Generator().manual_seed(number)
        degrees = torch.sigmoid(torch.randn(ENTITIES, HORIZON, WIDTH, generator=rng) @ weights)
        learned = {
            name: degrees[:, : 1 if name in STATIC else HORIZON, place].unsqueeze(0)
            for place, name in enumerate(LEARNED)
        }
        model = tables_of_facts(learned, facts, ENTITIES, HORIZON)
        value = prepare(theory, model, {"A1"})(model)["A1"].tensor.reshape(())
        (slope,) = torch.autograd.grad(value, weights)
        yield facts.facts, 1 - float(value.detach()), slope.double()


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Call a function; return its result, the wall time and the CPU time."""
    begin, core = time.perf_counter(), time.process_time()
    outcome = function()
    return outcome, time.perf_counter() - begin, time.process_time() - core


def run(folder: Path, facts: int) -> list[dict[str, Any]]:
    """Prepare this many facts, and evaluate them."""
    blocks = max(1, round(facts / FACTS))

    def written() -> int:
        counts = tuple(write(folder, number) for number in range(blocks))
        PreparedData(folder, (1,) * blocks, counts, {}, {"agent": ENTITIES}, {}, {}).write()
        return sum(counts)

    count, wall, core = timed(written)
    disk = sum(path.stat().st_size for path in folder.rglob("*.*"))
    rows = [row("prepare", count, wall, core) | {"disk, bytes per fact": disk / count}]
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
    rows[-1]["peak MB"] = held[-1] / 1e6
    return rows


def row(what: str, facts: int, wall: float, core: float) -> dict[str, Any]:
    """Return the row of one part."""
    return {
        "what": what, "facts": facts, "s": wall, "CPU s": core,
        "ns per fact": wall / facts * 1e9, "CPU ns per fact": core / facts * 1e9,
    }  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10**7)
    parser.add_argument("--folder", type=Path, help="folder to write to; by default, temporary")
    parser.add_argument("--json")
    args = parser.parse_args()
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(args.folder or Path(folder), args.facts)
    report(f"{args.facts:,} facts in blocks", rows, args.json)


if __name__ == "__main__":
    main()
