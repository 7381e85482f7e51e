"""Learn the paper's scene with LTNtorch, as its users write it: a loop, and time as a variable.

    python -m benchmarks.ltntorch_loop PROJECT [--epochs 100]

PROJECT is a scene made by `fotltn new`. Degrees are free for every agent and time, the axioms are
the paper's, and a tenth of the facts are labels. Operators that LTNtorch lacks (next, eventually)
are computed on the tables before its predicates look them up.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path

import ltn
import torch
from ltn.fuzzy_ops import (
    AggregPMean,
    AggregPMeanError,
    AndProd,
    ImpliesReichenbach,
    NotStandard,
    OrProbSum,
    SatAgg,
)
from torch import Tensor

from benchmarks.by_hand import eventually, weak_next

STATIC = ("Car", "Ped")
LEARNED = (*STATIC, "Run", "Stop", "Crossing", "OnSidewalk")
P, RATE, SHARE = 4, 0.05, 0.1


def read(path: Path) -> tuple[int, int, Tensor, dict[str, list[tuple[int, int, float]]]]:
    """Return entities, steps, which pairs are close, and the labels of learned predicates."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers: dict[str, int] = {}
    for row in rows:
        for name in (row["arg1"], row["arg2"]):
            if name:
                numbers.setdefault(name, len(numbers))
    steps = 1 + max(int(row["time"] or 0) for row in rows)
    close = torch.zeros(len(numbers), len(numbers), steps)
    labels: dict[str, list[tuple[int, int, float]]] = {name: [] for name in LEARNED}
    for row in rows:
        first, at = numbers[row["arg1"]], int(row["time"] or 0)
        if row["predicate"] == "Close":
            close[first, numbers[row["arg2"]], at] = 1
        else:
            labels[row["predicate"]].append((first, at, float(row["truth"])))
    return len(numbers), steps, close, labels


def satisfaction(t: dict[str, Tensor], close: Tensor) -> Tensor:
    """Return the satisfaction of all thirteen axioms, from tables of shape (entity, time)."""
    entities, steps = t["Run"].shape
    agents = torch.arange(entities).float().unsqueeze(-1)
    x, y = ltn.Variable("x", agents), ltn.Variable("y", agents)
    now = ltn.Variable("t", torch.arange(steps).float().unsqueeze(-1))

    def lookup(table: Tensor) -> ltn.Predicate:
        return ltn.Predicate(func=lambda *index: table[tuple(i.long().squeeze(-1) for i in index)])

    car, ped = lookup(t["Car"][:, 0]), lookup(t["Ped"][:, 0])
    run, stop, crossing, walk = (lookup(t[n]) for n in LEARNED[2:])
    first, near = lookup(t["Run"][:, 0]), lookup(close)
    stops_next, runs_next = lookup(weak_next(t["Stop"])), lookup(weak_next(t["Run"]))
    runs_later, walks_later = lookup(eventually(t["Run"])), lookup(eventually(t["OnSidewalk"]))
    no, both = ltn.Connective(NotStandard()), ltn.Connective(AndProd())
    either, implies = ltn.Connective(OrProbSum()), ltn.Connective(ImpliesReichenbach())
    every = ltn.Quantifier(AggregPMeanError(p=P), quantifier="f")
    some = ltn.Quantifier(AggregPMean(p=P), quantifier="e")

    def crosses_near() -> ltn.LTNObject:  # a new object each time, because quantifiers change it
        return both(both(ped(y), crossing(y, now)), near(x, y, now))

    axioms = [
        every([x, y, now], implies(both(car(x), crosses_near()), stops_next(x, now))),
        every(
            [x, y, now],
            implies(both(both(car(x), stop(x, now)), crosses_near()), runs_later(x, now)),
        ),
        every([x, now], implies(both(car(x), no(some(y, crosses_near()))), runs_next(x, now))),
        every(x, implies(car(x), first(x))),
        every([x, y, now], implies(near(x, y, now), near(y, x, now))),
        every([x, now], implies(car(x), either(run(x, now), stop(x, now)))),
        every([x, now], implies(run(x, now), no(stop(x, now)))),
        every([x, now], implies(car(x), both(no(crossing(x, now)), no(walk(x, now))))),
        every(x, implies(ped(x), no(car(x)))),
        every([x, now], implies(crossing(x, now), no(walk(x, now)))),
        every([x, now], implies(ped(x), either(crossing(x, now), walk(x, now)))),
        every([x, now], implies(ped(x), no(run(x, now)))),
        every([x, now], implies(crossing(x, now), walks_later(x, now))),
    ]
    together: Tensor = SatAgg(AggregPMeanError(p=P))(*axioms)
    return together


def main() -> None:
    """Learn, and print how long an epoch takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()
    torch.manual_seed(0)
    entities, steps, close, labels = read(args.project / "facts.csv")
    logits = {
        name: torch.zeros(entities, 1 if name in STATIC else steps, requires_grad=True)
        for name in LEARNED
    }
    draw = random.Random(0)
    chosen = {n: torch.tensor([f for f in ls if draw.random() < SHARE]) for n, ls in labels.items()}
    optimiser = torch.optim.Adam(logits.values(), lr=RATE)
    start = time.perf_counter()
    for _ in range(args.epochs):
        optimiser.zero_grad()
        degrees = {name: table.sigmoid() for name, table in logits.items()}
        loss = 1 - satisfaction(degrees, close)
        for name, facts in chosen.items():
            if len(facts):
                said = logits[name][facts[:, 0].long(), facts[:, 1].long()]
                goal = facts[:, 2]
                loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(said, goal)
        loss.backward()
        optimiser.step()
    print(
        f"{(time.perf_counter() - start) / args.epochs * 1e3:.1f} ms per epoch, {loss.item():.4f}"
    )


if __name__ == "__main__":
    main()
