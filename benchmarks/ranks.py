"""What it costs to share a step among processes: by blocks alone, in a group of one, of two.

    python -m benchmarks.ranks [--device cuda] [--counts 0 1 2] [--repeats 3] [--json FILE]

A count of 0 is one process without a group. All runs have the same blocks, so that on one GPU, or
on one core, all of them do the same work. Runs alternate; times are medians over epochs, then over
repeats. On a GPU, a group of one goes through NCCL, and one of two through gloo, since NCCL has no
two processes on one GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch

from benchmarks.common import close_facts, report
from fotltn.files import MEETING
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch, fit
from fotltn.learn.objective import RECIPE
from fotltn.learn.ranks import meeting
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task, Training
from fotltn.logic.check import check
from fotltn.networks.encoders import FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Network, mlp
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

THEORY = """
sort agent
predicate Stop(agent), Run(agent), Close(agent, agent)
axiom A1: forall x, y. G(Close(x, y) & Run(x) -> WX Stop(y))
axiom A2: forall x. G !(Stop(x) & Run(x))
axiom A3: forall x. G(Stop(x) -> F[0, 5] Run(x))
"""
WARM = 4  # epochs that are not counted


def task(args: argparse.Namespace, device: str) -> Task:
    """Traces of entities with features; pairs of them are close now and then."""
    torch.manual_seed(0)
    traces, entities, horizon = args.traces, args.entities, args.steps
    facts = [close_facts(entities, horizon, 2 * entities * horizon) for _ in range(traces)]
    for number, one in enumerate(facts):
        one.index[0] = number
    shape = (traces, entities, entities, horizon)
    index, value = (torch.cat([getattr(f, n) for f in facts], -1) for n in ("index", "value"))
    theory = check(parse_theory(THEORY))
    fixed = Tables(
        {"agent": entities}, torch.full((traces,), horizon), horizon,
        {"Close": SparseTable(index, value, shape)},
    ).to(torch.device(device))  # fmt: skip
    seen = FeatureInputs(torch.randn(traces, entities, horizon, 8))
    networks = {n: Network(mlp(8, (16, 16))) for n in ("Stop", "Run")}
    grounding = Grounding(theory.signature, fixed, networks, inputs={"agent": seen}).to(device)
    places = torch.rand(traces, entities, horizon) < 0.1
    where = places.nonzero().T.to(device)
    truth = (torch.rand(where.shape[1], device=device) < 0.5).float()
    labels = Labels(dict.fromkeys(networks, where), dict.fromkeys(networks, truth))
    training = Training(epochs=args.epochs + WARM, patience=None, blocks=args.blocks)
    return Task(grounding, Axioms(theory, STABLE_PRODUCT), RECIPE, labels, training)


def work(args: argparse.Namespace) -> None:
    """Train as one of the processes; the first says how long epochs took."""
    with meeting(args.device) as (ranks, device):
        times = [(time.perf_counter(), time.process_time())]

        def note(_: Epoch) -> None:
            times.append((time.perf_counter(), time.process_time()))

        fit(task(args, device), on_epoch=note)
        walls, cores = (
            [late - early for early, late in zip(row[WARM:], row[WARM + 1 :], strict=False)]
            for row in zip(*times, strict=True)
        )
        mine = {"wall": statistics.median(walls), "core": statistics.median(cores)}
        every = ranks.objects(mine)
        if ranks.first:
            print(json.dumps({"wall": mine["wall"], "core": sum(one["core"] for one in every)}))


def run(count: int) -> dict[str, float]:
    """One run in so many processes, each with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        place = (Path(folder) / "meeting").as_uri()
        processes = []
        for number in range(max(1, count)):
            group = {"RANK": str(number), "WORLD_SIZE": str(count), MEETING: place} if count else {}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.ranks", *sys.argv[1:], "--work"],
                    env={"OMP_NUM_THREADS": "1", **os.environ, **group}, stdout=subprocess.PIPE,
                )
            )  # fmt: skip
        outputs = [process.communicate()[0] for process in processes]
    times: dict[str, float] = json.loads(outputs[0].splitlines()[-1])
    return times


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (
        ("traces", 32), ("entities", 100), ("steps", 50), ("epochs", 10), ("blocks", 16),
        ("repeats", 3),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--counts", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.work:
        work(args)
        return
    times: dict[int, list[dict[str, float]]] = defaultdict(list)
    for _ in range(args.repeats):
        for count in args.counts:
            times[count].append(run(count))
            print(count, times[count][-1], file=sys.stderr)
    rows = []
    for count, taken in times.items():
        wall, core = (statistics.median(one[k] for one in taken) for k in ("wall", "core"))
        base = times[args.counts[0]]
        rows.append(
            {
                "processes": "no group" if count == 0 else str(count), "epoch, ms": wall * 1e3,
                "times the first row": wall / statistics.median(one["wall"] for one in base),
                "processor time of all, ms": core * 1e3,
                "times, by processor": core / statistics.median(one["core"] for one in base),
            }
        )  # fmt: skip
    report("an epoch of one step, in blocks of traces", rows, args.json, arguments=vars(args))


if __name__ == "__main__":
    main()
