"""Compare the recipe on the second world with the same logits without axioms and with the paper.

    python -m reproduction.deliveries.study FILE [--repetitions N] [--processes N] [--limit DEVICE]

Appends a JSON line for each run that is not in the file yet; with `--limit`, for the Bayes limit on
the same labels instead. The likelihood assumes that a quarter of the true facts are labelled false,
and no false fact true. The true rates differ by predicate, from 0.15 to 0.30.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import Tensor

from fotltn.analysis.metrics import report
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import split
from fotltn.learn.fit import fit
from fotltn.learn.objective import FACTS_ONLY, PAPER, RECIPE, Objective, predicted
from fotltn.learn.optimizer_state import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.task import Task, Training
from fotltn.logic.check import CheckedTheory, check
from fotltn.networks.encoders import Embeddings
from fotltn.networks.grounding import Grounding
from fotltn.networks.predicates import Defined, Logits, Network, Predicate, mlp
from fotltn.semantics.config import PRODUCT, STABLE_PRODUCT, WITNESS
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from reproduction.deliveries.limit import posteriors
from reproduction.deliveries.world import DEFINITIONS, LEARNED, THEORY, facts, generate, noisy
from reproduction.paper.published import FRACTIONS

METHODS = ("recipe", "logits", "paper", "labels")
MISSED, INVENTED = 0.25, 0.0


def world() -> tuple[CheckedTheory, Tables, Labels]:
    """Return the theory, the given tables, and all facts."""
    theory = check(load_theory(THEORY))
    made = generate(seed=0)
    stated = read_facts([facts(made)], theory.signature, horizon=made.size.steps)
    tables = tables_of_facts(stated, theory.signature, dtype=torch.float32, sparse=True)
    fixed = {n: t for n, t in tables.predicates.items() if n not in LEARNED}
    every = labels(stated, theory.signature, LEARNED, dtype=torch.float32)
    return theory, replace(tables, predicates=fixed), every


def definitions() -> dict[str, Predicate]:
    """Return the definitions in four of the axioms."""
    defined: dict[str, Predicate] = {}
    for head, formula in DEFINITIONS.items():
        match = re.fullmatch(r"(\w+)\((.*)\)", head)
        assert match is not None
        variables = tuple(v.strip() for v in match[2].split(","))
        defined[match[1]] = Defined(variables, formula, PRODUCT)
    return defined


def task(method: str, theory: CheckedTheory, tables: Tables, train: Labels, seed: int) -> Task:
    """Return the task of a method on labels."""
    signature, sizes, horizon = theory.signature, tables.sizes, tables.horizon
    predicates: dict[str, Predicate] = {}
    inputs = {}
    objective: Objective
    with seeded(seed) as generator:
        if method in ("recipe", "logits"):
            for name in LEARNED:
                decl = signature.predicates[name]
                shape = (1, *(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
                predicates[name] = Logits(shape, reach=4.0, generator=generator)
            if method == "recipe":
                predicates |= definitions()
            objective = replace(
                RECIPE,
                axioms="log" if method == "recipe" else "none",
                missed=MISSED,
                invented=INVENTED,
            )
            training = Training(epochs=300, patience=None, rate=0.05, seed=seed)
        else:
            seen = {s for n in LEARNED for s in signature.predicates[n].sorts}
            inputs = {
                s: Embeddings(1, sizes[s], horizon, 32, scale=1.0, generator=generator)
                for s in signature.sorts
                if s in seen
            }
            for name in LEARNED:
                decl = signature.predicates[name]
                network = mlp(32 * len(decl.sorts), generator=generator)
                predicates[name] = Network(network, static=decl.static)
            objective = PAPER if method == "paper" else FACTS_ONLY
            training = Training(seed=seed)
        grounding = Grounding(signature, tables, predicates, inputs=inputs)
    semantics = WITNESS if method == "recipe" else STABLE_PRODUCT
    return Task(grounding, Axioms(theory, semantics), objective, train, training)


def sample(every: Labels, fraction: float, repetition: int) -> tuple[Labels, Labels]:
    """Return the noisy facts that a run learns from, and the clean rest."""
    train, test = split(every, fraction, by="facts", seed=1000 + repetition)
    return noisy(train, 1000 + repetition), test


def run(method: str, fraction: float, repetition: int) -> dict[str, object]:
    """Run a method once and return the record."""
    theory, tables, every = world()
    train, test = sample(every, fraction, repetition)
    work = task(method, theory, tables, train, repetition)
    began = time.perf_counter()
    outcome = fit(work)
    taken = time.perf_counter() - began
    with torch.no_grad():
        row = scored(method, fraction, repetition, predicted(test, work.grounding()), test)
    return {**row, "epochs": len(outcome.history), "seconds": taken}


def limit(fraction: float, repetitions: Sequence[int], device: str) -> list[dict[str, object]]:
    """Compute the Bayes limit on the labels of several repetitions."""
    _, _, every = world()
    parts = [sample(every, fraction, r) for r in repetitions]
    predictions = posteriors(
        generate(seed=0).known, [train for train, _ in parts], seeds=repetitions, device=device
    )
    rows = []
    for repetition, (_, test), tables in zip(repetitions, parts, predictions, strict=True):
        degrees = {}
        for name, (_, entity, step) in test.index.items():
            table = tables[name].cpu()
            degrees[name] = table[entity, step if table.shape[-1] > 1 else torch.zeros_like(step)]
        rows.append(scored("limit", fraction, repetition, degrees, test))
    return rows


def scored(
    method: str, fraction: float, repetition: int, degrees: Mapping[str, Tensor], test: Labels
) -> dict[str, object]:
    """Score degrees and return the record."""
    scores = report({n: (test.truth[n] >= 0.5, d) for n, d in degrees.items()})
    return {
        "method": method, "fraction": fraction, "repetition": repetition,
        "pr_auc": scores.mean["pr_auc"].value, "chance": scores.mean["chance"].value,
        "by": {n: r.pr_auc.value for n, r in scores.predicates.items()},
    }  # fmt: skip


def main() -> None:
    """Run everything that is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", metavar="DEVICE")
    args = parser.parse_args()
    done = set()
    if args.file.exists():
        for text in args.file.read_text("utf-8").splitlines():
            one = json.loads(text)
            done.add((one["method"], one["fraction"], one["repetition"]))
    with args.file.open("a", encoding="utf-8") as file:
        for row in rows(args.repetitions, args.processes, args.limit, done):
            file.write(json.dumps(row) + "\n")
            file.flush()


def rows(
    repetitions: int, processes: int, device: str | None, done: Set[tuple[str, float, int]]
) -> Iterator[dict[str, object]]:
    """Yield the records of missing runs as they finish."""
    if device is not None:
        for fraction in FRACTIONS:
            left = [r for r in range(repetitions) if ("limit", fraction, r) not in done]
            yield from limit(fraction, left, device) if left else ()
        return
    wanted = product(range(repetitions), FRACTIONS, METHODS)
    todo = [(m, f, r) for r, f, m in wanted if (m, f, r) not in done]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, torch.set_num_threads, (1,)) as pool:
        for future in as_completed([pool.submit(run, *one) for one in todo]):
            yield future.result()


if __name__ == "__main__":
    main()
