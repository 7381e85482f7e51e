"""Measure sampling of worlds with many entities and many steps, and of the usual world.

    python -m benchmarks.posterior [--copies 100] [--steps 1000] [--labels 2000000] [--worlds 32]
        [--burn-in 20] [--sweeps 20] [--device cpu] [--json FILE]

The large world consists of this many deliveries worlds of the usual size, with more steps, in one
trace: 100 copies are 3,000 robots, 6,000 parcels and 1,000 stations. The time of a sweep is divided
by worlds, tracks and steps; a constant figure means that time grows in proportion to what is drawn.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks.common import report
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampling
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from reproduction.deliveries.study import INVENTED, MISSED
from reproduction.deliveries.world import (
    DELIVERIES,
    GIVEN,
    LEARNED,
    SORTS,
    THEORY,
    generate,
    noisy,
)


@dataclass(frozen=True, slots=True, eq=False)
class Deliveries:
    """The given tables, and noisy labels."""

    tables: Tables
    labels: Labels


def deliveries(copies: int, steps: int, count: int, device: str) -> Deliveries:
    """Put worlds of deliveries into one trace, with labels of some of their facts."""
    theory = check(load_theory(THEORY))
    robots, parcels, stations, _ = DELIVERIES
    sizes = {"robot": robots, "parcel": parcels, "station": stations}
    worlds = [
        generate(robots, parcels, stations, steps, seed=seed).tables() for seed in range(copies)
    ]
    given_tables: dict[str, SparseTable] = {}
    index, truth = {}, {}
    cells = sum(copies * worlds[0][name].size for name in LEARNED)
    chosen = np.random.default_rng(0)
    for name in (*GIVEN, *LEARNED):
        static = theory.signature.predicates[name].static
        parts = []
        for number, world in enumerate(worlds):
            table = world[name][..., None] if static else world[name]
            if name in LEARNED:
                some = chosen.random(table.shape) < count / cells
                where = np.stack(some.nonzero())
            else:
                where = np.stack(table.nonzero())
            value = table[tuple(where)]
            for place, sort in enumerate(SORTS[name]):
                where[place] += number * sizes[sort]
            parts.append((where, value))
        joined = np.concatenate([np.pad(where, ((1, 0), (0, 0))) for where, _ in parts], 1)
        values = torch.from_numpy(np.concatenate([value for _, value in parts]))
        if name in LEARNED:
            index[name], truth[name] = torch.from_numpy(joined), values.to(torch.float32)
        else:
            shape = (1, *(copies * sizes[s] for s in SORTS[name]), 1 if static else steps)
            given_tables[name] = SparseTable(
                torch.from_numpy(joined).to(device), values.double().to(device), shape
            )
    clean = Labels(
        index, truth, {n: SORTS[n] for n in LEARNED},
        static=frozenset(n for n in LEARNED if theory.signature.predicates[n].static),
    )  # fmt: skip
    tables = Tables(
        {sort: copies * size for sort, size in sizes.items()},
        torch.tensor([steps], device=device), steps, given_tables, signature=theory.signature,
    )  # fmt: skip
    return Deliveries(tables, noisy(clean, 0))


def measure(
    name: str, world: Deliveries, sampling: Sampling, sweeps: int | None = None
) -> dict[str, Any]:
    """Measure a whole run, or its first sweeps."""
    cuda = world.tables.lengths.device.type == "cuda"
    begin = time.perf_counter()
    rates = dict.fromkeys(LEARNED, NoiseRates(MISSED, INVENTED))
    problem = Problem(
        check(load_theory(THEORY)), world.tables, world.labels, LEARNED, rates=rates,
        sampling=sampling,
    )  # fmt: skip
    run = SamplingRun(problem)
    compiled = time.perf_counter() - begin
    total = run.total if sweeps is None else sweeps + 1
    seconds = []
    for _ in range(total):
        begin = time.perf_counter()
        run.sweep()
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    tracks = sum(mover.tracks for mover in run.sampler.movers)
    middle = float(np.median(seconds[1:]))
    cells = sampling.worlds * tracks * world.tables.horizon
    row = {
        "world": name,
        "tracks": tracks,
        "steps": world.tables.horizon,
        "labels": world.labels.total,
        "worlds": sampling.worlds,
        "groups": sum(len(mover.colours) for mover in run.sampler.movers),
        "compile s": round(compiled, 2),
        "sweep s": round(middle, 3),
        "ns a world, track, step": round(middle / cells * 1e9, 1),
        "run s": round(compiled + sum(seconds), 1) if sweeps is None else None,
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1) if cuda else None,
    }
    if sweeps is None:
        posterior = run.result()
        row["R-hat"] = round(max(posterior.mixing.r_hat.values()), 3)
    return row


def main() -> None:
    """Measure the usual world and a large one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--labels", type=int, default=2_000_000)
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--burn-in", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", action="store_true", help="run some sweeps, not the whole run")
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()
    sampling = Sampling(
        worlds=args.worlds, burn_in=args.burn_in, sweeps=args.sweeps, enough=0, stored=1
    )
    part = 2 if args.part else None
    usual = deliveries(1, DELIVERIES.steps, 13_000, args.device)
    measure("warm-up", usual, sampling, 1)
    rows = [measure("usual", usual, replace(sampling, worlds=32), 8)]
    large = deliveries(args.copies, args.steps, args.labels, args.device)
    rows.append(measure("large", large, sampling, part))
    name = "ns a world, track, step"
    rows.append({"world": "ratio", name: round(rows[1][name] / rows[0][name], 2)})
    report("worlds sampled", rows, args.json)


if __name__ == "__main__":
    main()
