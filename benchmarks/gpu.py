"""Measure one GPU: a large scene against the copy bandwidth, and a captured training step.

    python -m benchmarks.gpu [--json FILE]

The large scenes are axiom A1 with 100,000 entities, 1,000 steps and 2·10⁸ facts, and all 13 axioms
with 30,000 entities and 6·10⁷ facts, forward and backward. "Reading" is the time for reading the
facts (three 4-byte numbers and a degree) and tables once forward and once backward at the copy
bandwidth measured here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from benchmarks import by_hand
from benchmarks.common import (
    carped_theory,
    close_facts,
    engine_step,
    prepare,
    report,
    tables,
    tables_of_facts,
)
from fotltn.engine import compiled


def milliseconds(function: Callable[[], object], repeat: int = 10) -> float:
    """Return the median time of a call on the device."""
    for _ in range(3):
        function()
    times = []
    for _ in range(repeat):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def bandwidth() -> float:
    """Return the bytes per second of a copy, counting reads and writes."""
    a = torch.empty(2**30, dtype=torch.float32, device="cuda")
    b = torch.empty_like(a)
    taken = milliseconds(lambda: b.copy_(a)) / 1e3
    return 2 * a.numel() * 4 / taken


def large(
    only: set[str] | None, entities: int, horizon: int, count: int, speed: float
) -> list[dict[str, object]]:
    """Measure some or all axioms on a large scene: eager, compiled, and captured as well."""
    theory = carped_theory()
    facts = close_facts(entities, horizon, count, "cuda")
    learned = tables(entities, horizon, "cuda")
    if only == {"A1"}:
        learned = {n: learned[n] for n in ("Car", "Ped", "Crossing", "Stop")}
    model = tables_of_facts(learned, facts, entities, horizon)
    prepared = prepare(theory, model, only, budget=64 * 2**30)
    data = facts.facts * 16 + sum(t.numel() * 4 for t in learned.values())
    reading = 2 * data / speed * 1e3
    what = "all 13 axioms" if only is None else ", ".join(sorted(only))
    rows: list[dict[str, object]] = []
    fused = compiled(prepared, model)
    for how, run in (("eager", prepared), ("compiled", fused), ("compiled and captured", fused)):
        step: Callable[[], object] = partial(engine_step, run, model, learned)
        step()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        if "captured" in how:
            step = capture(partial(engine_step, run, model, learned)).replay
        taken = milliseconds(step)
        rows.append({
            "what": f"{what}, N={entities:,}, T={horizon:,}, {facts.facts:,} facts, {how}",
            "ms": taken, "reading, ms": reading, "times reading": taken / reading,
            "peak GB": torch.cuda.max_memory_allocated() / 1e9,
        })  # fmt: skip
    return rows


def capture(step: Callable[[], torch.Tensor]) -> torch.cuda.CUDAGraph:
    """Capture a step as a graph, and check its result."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            expected = step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(found, expected)
    return graph


def captured(entities: int, horizon: int, count: int) -> list[dict[str, object]]:
    """Measure all axioms on a scene of CarPed180K's size: eager, captured, and by hand."""
    theory = carped_theory()
    facts = close_facts(entities, horizon, count, "cuda")
    learned = tables(entities, horizon, "cuda")
    model = tables_of_facts(learned, facts, entities, horizon)
    prepared = prepare(theory, model)
    graph = capture(lambda: engine_step(prepared, model, learned))
    fused = compiled(prepared, model)
    short = capture(lambda: engine_step(fused, model, learned))
    dense = facts.dense(torch.float32)[0]
    what = f"all 13 axioms, N={entities}, T={horizon}, {facts.facts:,} facts"
    return [
        {"what": f"{what}, captured", "ms": milliseconds(graph.replay, 50)},
        {"what": f"{what}, compiled and captured", "ms": milliseconds(short.replay, 50)},
        {"what": f"{what}, eager",
         "ms": milliseconds(lambda: engine_step(prepared, model, learned), 30)},
        {"what": f"{what}, dense by hand",
         "ms": milliseconds(lambda: by_hand.step(learned, dense))},
    ]  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--facts", type=int, default=200_000_000)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.manual_seed(0)
    speed = bandwidth()
    begin = time.perf_counter()
    rows = captured(200, 150, 150_000)
    rows += large({"A1"}, args.entities, args.horizon, args.facts, speed)
    torch.cuda.empty_cache()
    share = 0.3
    rows += large(None, int(share * args.entities), args.horizon, int(share * args.facts), speed)
    spent = time.perf_counter() - begin
    title = f"{torch.cuda.get_device_name()}, copy {speed / 1e12:.2f} TB/s"
    report(title, rows, args.json, bandwidth=speed, seconds=spent)


if __name__ == "__main__":
    main()
