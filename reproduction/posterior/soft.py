"""Compare ways to treat axioms with exceptions: hard, with a given or learned weight, or left out.

    python -m reproduction.posterior.soft FILE [--repetitions N] [--processes N]

The end of a trace is final here. A2 and A13 of the paper promise something for the future, so the
end of a scene breaks them; all other axioms are hard. Each repetition has its own scene and labels
of a share of its facts, a tenth of them wrong, and methods know this rate; types are not given.
Tests are on clean facts without a label. Appends a JSON line for each run that is not in the file
yet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fotltn
from fotltn.grounding.split import flip, split
from fotltn.logic.check import check
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import SamplingRun
from fotltn.posterior.sampler import Sampling
from fotltn.project import scene
from fotltn.syntax.load import load_theory
from reproduction.paper.protocol import FLIPS
from reproduction.paper.sweep import append, done, each
from reproduction.posterior.cases import read_world
from reproduction.posterior.methods import defined
from reproduction.posterior.study import scored
from reproduction.recipe.recipe import DEFINITIONS

#: The axioms that the end of a scene breaks, and their given weight.
BROKEN, WEIGHT = ("A2", "A13"), 1.0

#: The ways to treat these axioms.
METHODS = ("hard", "given weight", "learned weight", "left out")

SHARES = (0.1, 0.3)

#: The size of scenes, and how often a car and a pedestrian are close.
SIZE, CLOSE = scene.Size(10, 10, 30), 0.2

SAMPLING = Sampling(worlds=16, burn_in=40, sweeps=30, enough=0)


@dataclass(frozen=True, slots=True)
class SoftJob:
    """One run: a method, the share of the facts that are labelled, and a repetition."""

    data: str
    method: str
    fraction: float
    repetition: int


def run(job: SoftJob, *, sampling: Sampling) -> dict[str, Any]:
    """Run a job once and return the record."""
    made = scene.generate(*SIZE, seed=job.repetition, close=CLOSE)
    theory = check(load_theory(scene.THEORY))
    source = read_world(theory, scene.facts(made), scene.LEARNED, SIZE.steps)
    clean, test = split(source.every, job.fraction, seed=1000 + job.repetition)
    train, _ = flip(clean, FLIPS, 2000 + job.repetition)
    weight = 0.0 if job.method == "left out" else WEIGHT
    axioms = tuple(
        replace(a, hard=job.method == "hard" or a.name not in BROKEN, weight=weight)
        for a in theory.axioms
    )
    how = replace(sampling, seed=job.repetition)
    if job.method == "learned weight":
        how = replace(how, weights=BROKEN)
    problem = Problem(
        replace(theory, axioms=axioms), source.tables, train, scene.LEARNED, sampling=how,
        rates=dict.fromkeys(scene.LEARNED, NoiseRates(FLIPS, FLIPS)), end="final",
        define=defined(DEFINITIONS, theory.signature),
    )  # fmt: skip
    began = time.process_time()
    sampled = SamplingRun(problem)
    while not sampled.finished:
        sampled.sweep()
    result = sampled.result()
    degrees = {name: table.cpu() for name, table in result.marginals.items()}
    return {
        **asdict(job), **scored(degrees, test), "weights": sampled.sampler.learned_weights,
        "violations": {name: cells.mean for name, cells in result.violations.items()},
        "r_hat": result.mixing.worst, "cpu_seconds": time.process_time() - began,
        "setting": setting(sampling), "version": fotltn.__version__,
    }  # fmt: skip


def setting(sampling: Sampling) -> dict[str, Any]:
    """Return the settings that all runs share."""
    return {**asdict(replace(sampling, seed=0)), "size": list(SIZE), "close": CLOSE}


def study(
    jobs: Iterable[SoftJob], path: Path, processes: int = 1, sampling: Sampling = SAMPLING
) -> int:
    """Run what is not on record yet; return the number of runs that were done."""
    recorded = done(path, setting(sampling))
    left = [job for job in jobs if (*asdict(job).values(),) not in recorded]
    for _, record in each(partial(run, sampling=sampling), left, processes):
        append(path, [record])
    return len(left)


def main() -> None:
    """Run everything that is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--fraction", action="append", type=float)
    parser.add_argument("--method", action="append", choices=METHODS)
    args = parser.parse_args()
    jobs = [
        SoftJob("car scenes", method, share, repetition)
        for repetition in range(args.repetitions)
        for share in args.fraction or SHARES
        for method in args.method or METHODS
    ]
    study(jobs, args.file, args.processes)


if __name__ == "__main__":
    main()
