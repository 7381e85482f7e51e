"""Shared parts of the benchmarks: data, timing, memory, tables."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

import fotltn
from fotltn.engine import Compiled, Prepared, compile_formulas
from fotltn.logic.check import CheckedTheory, check
from fotltn.project.scene import LEARNED, THEORY
from fotltn.semantics.config import STABLE_PRODUCT, Semantics
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory

STATIC = ("Car", "Ped")


def carped_theory() -> CheckedTheory:
    """Return the paper's theory of thirteen axioms."""
    return check(load_theory(THEORY))


def tables(entities: int, horizon: int, device: str = "cpu") -> dict[str, Tensor]:
    """Draw random degrees of the learned predicates, with gradients."""
    return {
        name: torch.rand(
            1, entities, 1 if name in STATIC else horizon, device=device
        ).requires_grad_()
        for name in LEARNED
    }


def close_facts(entities: int, horizon: int, count: int, device: str = "cpu") -> SparseTable:
    """Draw about `count` random facts, symmetric and distinct."""
    half = torch.empty(count // 2, 3, dtype=torch.int64, device=device)
    half[:, 0].random_(entities)
    half[:, 1].random_(entities)
    half[:, 2].random_(horizon)
    both = torch.cat([half, half[:, [1, 0, 2]]])
    key = ((both[:, 2] * entities + both[:, 0]) * entities + both[:, 1]).unique()
    del both, half
    index = torch.empty(4, key.numel(), dtype=torch.int32, device=device)
    index[0] = 0
    index[1] = key // entities % entities
    index[2] = key % entities
    index[3] = key // entities**2
    value = torch.ones(key.numel(), device=device)
    return SparseTable(index, value, (1, entities, entities, horizon))


def tables_of_facts(
    learned: dict[str, Tensor], close: SparseTable | Tensor, entities: int, horizon: int
) -> Tables:
    """Return the tables of a scene."""
    device = learned["Car"].device
    return Tables(
        {"agent": entities},
        torch.tensor([horizon], device=device),
        horizon,
        {**learned, "Close": close},
    )


def prepare(
    theory: CheckedTheory,
    model: Tables,
    names: set[str] | None = None,
    semantics: Semantics = STABLE_PRODUCT,
    budget: int = 8 * 2**30,
) -> Prepared:
    """Prepare the engine for some of the axioms, at the first time point."""
    axioms = {a.name: a.formula for a in theory.axioms if names is None or a.name in names}
    program = compile_formulas(axioms, theory.signature, semantics)
    return program.prepare(model, dtype=torch.float32, budget=budget)


def engine_step(prepared: Prepared | Compiled, model: Tables, learned: dict[str, Tensor]) -> Tensor:
    """Run forward and backward through all prepared axioms."""
    total = sum(v.tensor.sum() for v in prepared(model).values())
    assert isinstance(total, Tensor)
    torch.autograd.grad(total, list(learned.values()), allow_unused=True)
    return total.detach()


def seconds(
    function: Callable[[], Any],
    *,
    repeat: int = 7,
    at_least: float = 0.2,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of a call, after one call to warm up."""
    function()
    times: list[float] = []
    started = clock()
    while len(times) < repeat or (clock() - started < at_least and len(times) < 200):
        begin = clock()
        function()
        times.append(clock() - begin)
    return statistics.median(times)


def peak_bytes(function: Callable[[], Any]) -> int:
    """Return the most memory that a call allocates at once, as the allocator records it."""
    function()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        function()
    results = profile.profiler.kineto_results
    events = [(ev.start_ns(), ev.nbytes()) for ev in results.events() if ev.name() == "[memory]"]
    held = most = 0
    for _, change in sorted(events, key=lambda e: e[0]):
        held += change
        most = max(most, held)
    return most


def report(title: str, rows: list[dict[str, Any]], path: str | None, **remarks: Any) -> None:
    """Print a table and, with a path, write JSON."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name != names[0] else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    Console(width=140).print(table)
    if path:
        facts = {
            "title": title, "rows": rows, **remarks, "fotltn": fotltn.__version__,
            "torch": torch.__version__, "threads": torch.get_num_threads(),
            "processor": platform.machine(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        }  # fmt: skip
        Path(path).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
