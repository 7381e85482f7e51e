"""Long traces: what is kept does not grow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fotltn.logic.check import CheckedTheory, check
from fotltn.monitor.monitor import Keep, Monitor
from fotltn.monitor.steps import Header, TraceStep
from fotltn.project.scene import THEORY
from fotltn.syntax.load import load_theory, parse_theory
from fotltn.syntax.theory import Theory

CARS, PEDS = ("c1", "c2"), ("p1", "p2", "p3")
HEADER = Header(
    [*(("Car", c) for c in CARS), *(("Ped", p) for p in PEDS)],
    entities={"agent": [*CARS, *PEDS]},
)


def theory() -> CheckedTheory:
    """The 13 axioms of the paper, and one that waits for somebody."""
    paper = load_theory(THEORY)
    extra = parse_theory("axiom Wait: forall x. G(Close(x, x) -> F Run(x))").axioms
    return check(Theory(paper.declarations, (*paper.axioms, *extra)))


def steps(count: int, seed: int = 0, variety: int = 400) -> Iterator[TraceStep]:
    """Steps of a scene, drawn from some that are made before."""
    rng = random.Random(seed)
    made = []
    for _ in range(variety):
        near = [(c, p) for c in CARS for p in PEDS if rng.random() < 0.2]
        facts: list[tuple[str, ...]] = []
        facts += [("Close", *pair) for a, b in near for pair in ((a, b), (b, a))]
        facts += [(rng.choice(["Run", "Run", "Stop"]), c) for c in CARS]
        facts += [(rng.choice(["Crossing", "OnSidewalk"]), p) for p in PEDS]
        made.append(TraceStep(facts))
    for _ in range(count):
        yield rng.choice(made)


def size(monitor: Monitor) -> dict[str, int]:
    """The numbers of what is kept."""
    recent = monitor.graded.recent
    return {
        "states": len(monitor.crisp.table.states),
        "table": monitor.crisp.table.used,
        "past": sum(
            a.nbytes for r in monitor.crisp.readers for memory in r.memories.values()
            for a in memory.values()
        ),
        "known": len(monitor.intake.known),
        "points": recent.length,
        "cells": sum(t.numel() for t in recent.tables.values()),
        "history": sum(len(kept) for kept in monitor.history.facts.values()),
        "waiting": monitor._waiting + len(monitor._cells),
    }  # fmt: skip


@pytest.mark.parametrize("values", ["none", "constant"])
def test_what_is_kept_does_not_grow(values: Keep):
    short, more = (1000, 3000) if values == "none" else (300, 600)
    monitor = Monitor(theory(), header=HEADER, values=values)
    assert not monitor.growing
    for _ in monitor.steps(steps(short)):
        pass
    before = size(monitor)
    for _ in monitor.steps(steps(more)):
        pass
    assert monitor.count == short + more
    assert size(monitor) == before
    assert before["history"] == 0
    assert before["states"] < 200


def test_bounded_and_past_operators_keep_what_they_need():
    text = """
    sort s
    predicate a(s), b(s)
    axiom A: forall x. G(a(x) -> F[<=7] b(x))
    axiom B: forall x. G(b(x) -> O a(x) & (a(x) S[2,20] b(x)))
    axiom C: forall x. G(a(x) -> exists y. H[3,9] b(y))
    """
    monitor = Monitor(parse_theory(text), entities={"s": ["x", "y"]}, values="none")
    assert not monitor.growing
    rng = random.Random(1)

    def more(count: int) -> dict[str, int]:
        for _ in range(count):
            monitor.step([(n, e) for n in "ab" for e in "xy" if rng.random() < 0.5])
        return size(monitor)

    assert more(600) == more(600)


def resident() -> int:
    """The memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 2**20


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_million_steps():
    monitor = Monitor(theory(), header=HEADER, values="none")
    for _ in monitor.steps(steps(100_000)):
        pass
    before, memory = size(monitor), resident()
    for _ in monitor.steps(steps(900_000, seed=1)):
        pass
    assert monitor.count == 1_000_000
    assert size(monitor) == before
    assert resident() - memory <= 4
