"""Measure the paper's axioms on a scene of CarPed180K's size, forward and backward.

    python -m benchmarks.axioms [--json FILE]

Peers run in the same process: the same axioms written densely by hand, and axiom A1 in LTNtorch
with time as one more variable, as its users write it. "Compiled" means `torch.compile`, which needs
a C++ compiler.
"""

from __future__ import annotations

import argparse

import ltn
import torch
from torch import Tensor

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
from fotltn.engine import compiled


def ltntorch_step(t: dict[str, Tensor], close: Tensor) -> Tensor:
    """Run axiom A1 in LTNtorch: variables x, y and t, and predicates that look up degrees."""
    entities, horizon = t["Stop"].shape[1:]
    numbers = torch.arange(entities).float().unsqueeze(-1)
    x, y = ltn.Variable("x", numbers), ltn.Variable("y", numbers)
    time = ltn.Variable("t", torch.arange(horizon).float().unsqueeze(-1))
    after = by_hand.weak_next(t["Stop"][0])

    def lookup(table: Tensor) -> ltn.Predicate:
        return ltn.Predicate(func=lambda *index: table[tuple(i.long().squeeze(-1) for i in index)])

    car, ped = lookup(t["Car"][0, :, 0]), lookup(t["Ped"][0, :, 0])
    crossing, near, stops = lookup(t["Crossing"][0]), lookup(close), lookup(after)
    both = ltn.Connective(ltn.fuzzy_ops.AndProd())
    implies = ltn.Connective(ltn.fuzzy_ops.ImpliesReichenbach())
    forall = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=4), quantifier="f")
    antecedent = both(both(both(car(x), ped(y)), crossing(y, time)), near(x, y, time))
    value = forall([x, y, time], implies(antecedent, stops(x, time))).value
    torch.autograd.grad(value, list(t.values()), allow_unused=True)
    return value.detach()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=150)
    parser.add_argument(
        "--density", type=float, default=0.025, help="share of pairs that are close"
    )
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.manual_seed(0)
    n, horizon = args.entities, args.horizon
    theory = carped_theory()
    learned = tables(n, horizon)
    facts = close_facts(n, horizon, int(args.density * n * n * horizon))
    dense = facts.dense(torch.float32)[0]
    model = tables_of_facts(learned, facts, n, horizon)
    rows = []
    for name, only in (("all 13 axioms", None), ("A1", {"A1"})):
        prepared = prepare(theory, model, only)
        fused = compiled(prepared, model)
        fused_peer = torch.compile(by_hand.total, dynamic=False)
        runs = {
            "fotltn": lambda prepared=prepared: engine_step(prepared, model, learned),
            "fotltn, compiled": lambda fused=fused: engine_step(fused, model, learned),
            "dense by hand": lambda only=only: by_hand.step(learned, dense, only),
            "dense by hand, compiled": lambda only=only, peer=fused_peer: by_hand.step(
                learned, dense, only, peer
            ),
        }
        if only:
            runs["LTNtorch"] = lambda: ltntorch_step(learned, dense)
        measured = {
            peer: (seconds(run, repeat=7 if peer.startswith("fotltn") else 3), peak_bytes(run))
            for peer, run in runs.items()
        }
        ours, best = measured["fotltn"], measured["fotltn, compiled"]
        for peer, (taken, held) in measured.items():
            rows.append({
                "what": name, "by": peer, "ms": taken * 1e3, "times slower": taken / ours[0],
                "than compiled": taken / best[0], "MB": held / 1e6,
                "times more memory": held / ours[1],
            })  # fmt: skip
    title = f"forward and backward, {n:,} entities, {horizon:,} steps, {facts.facts:,} facts"
    report(title, rows, args.json)


if __name__ == "__main__":
    main()
