"""Compare the cost of a call of `fotltn.AxiomLoss` with the prepared plan that it runs.

    python -m benchmarks.own_loop examples/appendix_b/theory.fot

Reports the lowest CPU time of short alternating rounds, on one thread.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import torch

import fotltn
from fotltn.engine import compile_for
from fotltn.semantics.config import STABLE_PRODUCT

ENTITIES, STEPS, ROUNDS, CALLS = 4, 12, 300, 4


def main(path: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    theory = fotltn.load(path)
    checked = fotltn.check(theory)
    tables = {}
    for name, decl in checked.signature.predicates.items():
        shape = [1, *[ENTITIES] * len(decl.sorts), *([] if decl.static else [STEPS])]
        tables[name] = torch.rand(shape, requires_grad=True)
    data = fotltn.tables(checked, tables, lengths=[STEPS])
    program = compile_for({a.name: a.formula for a in checked.axioms}, data, STABLE_PRODUCT, 0)
    prepared = program.ready(data, dtype=data.dtype)
    loss = fotltn.AxiomLoss(theory)

    def one_by_one() -> None:
        made = fotltn.tables(checked, tables, lengths=[STEPS])
        for axiom in theory.axioms:
            fotltn.evaluate(axiom, made)

    def summed() -> torch.Tensor:
        return torch.stack([v.tensor.sum() for v in prepared(data).values()]).sum()

    ways: dict[str, Callable[[], object]] = {
        "prepared plan": lambda: prepared(data),
        "AxiomLoss": lambda: loss(tables),
        "prepared plan, with gradients": lambda: summed().backward(),
        "AxiomLoss, with gradients": lambda: loss(tables).loss.backward(),
        "tables and evaluate": one_by_one,
    }
    least = dict.fromkeys(ways, float("inf"))
    gc.disable()
    for number in range(ROUNDS):
        for name, way in ways.items():
            start = time.process_time_ns()
            for _ in range(CALLS):
                way()
            taken = (time.process_time_ns() - start) / CALLS / 1e6
            least[name] = min(least[name], taken) if number > 4 else least[name]
    for name, taken in least.items():
        print(f"{name:32}{taken:8.3f} ms")
    print(f"a call: {least['AxiomLoss'] / least['prepared plan']:.2f} times the plan")
    with_gradients = [taken for name, taken in least.items() if "gradients" in name]
    print(f"a step: {with_gradients[1] / with_gradients[0]:.2f} times the plan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("theory")
    main(parser.parse_args().theory)
