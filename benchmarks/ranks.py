"""Measure the cost of sharing a step among processes: blocks only, a group of one, a group of two.

    python -m benchmarks.ranks [--device cuda] [--counts 0 1 2] [--repeats 3] [--limit 60]
        [--worlds 32] [--ask rules] [--json FILE]

A count of 0 is one process without a group. All runs have the same blocks, so on one GPU or one
core they all do the same work. Runs alternate; times are medians over epochs, then over repeats. On
a GPU, a group of one uses NCCL, and a group of two uses gloo, because NCCL does not allow two
processes on one GPU. Each process prints when it is ready and when it has met the others. A run
that takes longer than the limit is killed, and listed at the end. With --worlds, sweeps over
so many worlds of deliveries are timed instead of epochs. The smallest possible run is

    python -m benchmarks.ranks --traces 8 --blocks 4 --epochs 2 --repeats 1

With fewer traces than blocks, processes share bindings instead of traces. One large trace, also
without blocks (-1), with facts about entities whose numbers differ by at most 20:

    python -m benchmarks.ranks --traces 1 --entities 2000 --steps 100 --reach 20 --counts -1 1 2 4

With --ask, what commands ask of a model is timed instead of epochs: its tables (predict), the
values of its axioms (eval, score), the counts of their cells (rules), or all of an audit:

    python -m benchmarks.ranks --traces 1 --entities 4000 --steps 100 --counts 0 1 2 4 --ask rules
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.common import close_facts, report
from benchmarks.posterior import deliveries
from fotltn.analysis.view import View
from fotltn.files import MEETING
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch, fit
from fotltn.learn.objective import RECIPE
from fotltn.learn.ranks import Ranks, meeting
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task, Training
from fotltn.logic.check import check
from fotltn.networks.encoders import FeatureInputs
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Network, mlp
from fotltn.networks.rows import everywhere
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampling
from fotltn.posterior.shared_worlds import WorldShare
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.sharing import Sharing, shared_by
from fotltn.syntax.load import load_theory, parse_theory
from reproduction.deliveries.study import INVENTED, MISSED
from reproduction.deliveries.world import LEARNED
from reproduction.deliveries.world import THEORY as DELIVERY_THEORY

THEORY = """
sort agent
predicate Stop(agent), Run(agent), Close(agent, agent)
axiom A1: forall x, y. G(Close(x, y) & Run(x) -> WX Stop(y))
axiom A2: forall x. G !(Stop(x) & Run(x))
axiom A3: forall x. G(Stop(x) -> F[0, 5] Run(x))
"""
NAMES = {-1: "no blocks", 0: "no group"}
WARM = 4  # epochs that do not count
ASKED = ("tables", "values", "rules", "audit")
NEARBY = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}  # avoids looking up host names


def task(args: argparse.Namespace, device: str) -> Task:
    """Build traces of entities with features; pairs of them are close at some times."""
    torch.manual_seed(0)
    traces, entities, horizon = args.traces, args.entities, args.steps
    facts = [close_facts(entities, horizon, 2 * entities * horizon) for _ in range(traces)]
    for number, one in enumerate(facts):
        one.index[0] = number
        if args.reach:  # of each pair, the second is near the first
            one.index[2] = (one.index[1] + one.index[2] % (args.reach + 1)) % entities
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
    training = Training(epochs=args.epochs + WARM, patience=None, blocks=args.blocks or None)
    return Task(grounding, Axioms(theory, STABLE_PRODUCT), RECIPE, labels, training)


def question(args: argparse.Namespace, device: str, ranks: Ranks) -> Callable[[], None]:
    """Ask something of a model; nothing is kept from one time to the next."""
    made = task(args, device)
    ground, theory = made.grounding.eval(), made.axioms.theory
    with torch.no_grad():
        tables = replace(ground(), signature=theory.signature)

    @torch.no_grad()
    def answered() -> None:
        facts = {
            n: replace(t, index=t.index.clone()) if isinstance(t, SparseTable) else t
            for n, t in tables.predicates.items()
        }
        view = View(replace(tables, predicates=facts), theory=theory, learned=ground.learned)
        match args.ask:
            case "tables":
                everywhere(ground)
            case "values":
                view.satisfaction()
            case "rules":
                list(view.rules(resamples=0))
            case "audit":
                view.audit()

    def shared() -> None:
        with shared_by(Sharing(ranks.number, ranks.count, ranks.objects)):
            answered()

    return shared if "RANK" in os.environ else answered


def sampling(args: argparse.Namespace, device: str, ranks: Ranks) -> SamplingRun:
    """Worlds of deliveries over so many steps, which processes move together."""
    world = deliveries(1, args.steps, 60 * args.steps, device)
    rates = dict.fromkeys(LEARNED, NoiseRates(MISSED, INVENTED))
    how = Sampling(worlds=args.worlds, burn_in=WARM, sweeps=args.epochs, enough=0)
    theory = check(load_theory(DELIVERY_THEORY))
    problem = Problem(theory, world.tables, world.labels, LEARNED, rates=rates, sampling=how)
    share = None
    if ranks.count > 1:
        share = WorldShare(ranks.number, ranks.count, ranks.gathered)
    return SamplingRun(problem, share)


def work(args: argparse.Namespace) -> None:
    """Train as one of the processes; the first prints how long epochs took."""
    began = time.perf_counter()

    def say(what: str) -> None:
        taken = time.perf_counter() - began
        print(f"  process {os.environ.get('RANK', '-')}: {what}, {taken:.1f} s", file=sys.stderr)

    if args.device == "cuda":
        torch.zeros(1, device="cuda")
    say("ready")
    step = 0.0
    with meeting(args.device) as (ranks, device):
        times = [(time.perf_counter(), time.process_time())]

        def note(_: Epoch | None = None) -> None:
            times.append((time.perf_counter(), time.process_time()))

        if args.ask:
            ask = question(args, device, ranks)
            say("met the others, data are made")
            note()
            for _ in range(args.epochs + WARM):
                ask()
                note()
        elif args.worlds:
            run = sampling(args, device, ranks)
            say("met the others, data are made")
            note()
            for _ in range(args.epochs + WARM):
                run.sweep()
                note()
        else:
            made = task(args, device)
            say("met the others, data are made")
            gc.collect()
            held = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak begins anew
            note()
            fit(made, on_epoch=note)
            step = memory("VmHWM") - held
        del times[0]
        say("done")
        walls, cores = (
            [late - early for early, late in zip(row[WARM:], row[WARM + 1 :], strict=False)]
            for row in zip(*times, strict=True)
        )
        mine = {"wall": statistics.median(walls), "core": statistics.median(cores), "step": step}
        every = ranks.objects(mine)
        if ranks.first:
            cores = [one["core"] for one in every]
            most = {"most": max(cores), "step": max(one["step"] for one in every)}
            print(json.dumps({"wall": mine["wall"], "core": sum(cores), **most}))


def memory(what: str) -> float:
    """Return the memory of this process: VmRSS now, or VmHWM at its peak, in MB."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if what in line) / 1024


def run(count: int, limit: float) -> dict[str, float] | None:
    """Run once in this many processes, with one thread each; None if it exceeds the limit."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = (Path(folder) / "meeting").as_uri()
        processes = []
        for number in range(max(1, count)):
            group, more = {}, ["--blocks", "0"] if count < 0 else []
            if count > 0:
                group = {"RANK": str(number), "WORLD_SIZE": str(count), MEETING: place}
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.ranks", *sys.argv[1:], "--work", *more],
                env={"OMP_NUM_THREADS": "1", **NEARBY, **os.environ, **group},
                stdout=subprocess.PIPE,
            )  # fmt: skip
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        until = time.monotonic() + limit
        try:
            outputs = [p.communicate(timeout=until - time.monotonic())[0] for p in processes]
        except subprocess.TimeoutExpired:
            return None
    if failed := [str(n) for n, process in enumerate(processes) if process.returncode]:
        raise SystemExit(f"process {', '.join(failed)} of {count} ended with an error, see above")
    times: dict[str, float] = json.loads(outputs[0].splitlines()[-1])
    return times


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (
        ("traces", 32), ("entities", 100), ("steps", 50), ("epochs", 10), ("blocks", 16),
        ("repeats", 3), ("worlds", 0), ("reach", 0),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=120.0, help="limit on a run, in seconds")
    parser.add_argument("--counts", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--ask", choices=ASKED, help="what is asked of a model")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.work:
        work(args)
        return
    times: dict[int, list[dict[str, float]]] = defaultdict(list)
    ended: list[int] = []
    for _ in range(args.repeats):
        for count in args.counts:
            print(f"{NAMES.get(count, count)}:", file=sys.stderr)
            if (taken := run(count, args.limit)) is None:
                ended.append(count)
                print(f"  killed after {args.limit:g} s", file=sys.stderr)
                continue
            times[count].append(taken)
            print(f"  {taken}", file=sys.stderr)
    if ended:
        print(f"runs that were killed after {args.limit:g} s, by processes: {ended}")
    rows, base = [], times[args.counts[0]]
    if not base:
        raise SystemExit("the first of --counts, which is the baseline, never finished")
    for count, every in times.items():
        wall, core, most, step = (
            statistics.median(one[k] for one in every) for k in ("wall", "core", "most", "step")
        )
        rows.append(
            {
                "processes": NAMES.get(count, str(count)),
                "epoch, sweep or answer, ms": wall * 1e3,
                "times the first row": wall / statistics.median(one["wall"] for one in base),
                "CPU ms, all processes": core * 1e3,
                "times, by CPU": core / statistics.median(one["core"] for one in base),
                "CPU ms, the busiest": most * 1e3,
                "MB of a step, the largest": step,
            }
        )  # fmt: skip
    title = "a sweep over worlds" if args.worlds else "an epoch of one step, in blocks"
    title = f"{args.ask} of a model" if args.ask else title
    report(title, rows, args.json, arguments=vars(args))


if __name__ == "__main__":
    main()
