"""Find wrong labels: the posterior's doubts against the residuals of the gradient method.

    python -m reproduction.posterior.doubts FILE [--repetitions N] [--processes N] [--device cuda]

A tenth of the labels is flipped, true and false alike, and methods know this rate. Labels are
ranked by how doubtful they are: for the posterior, by the probability that they are wrong; for the
gradient method, by the distance between label and degree. Appends a JSON line for each run that is
not in the file yet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fotltn
from fotltn.analysis.metrics import calibration, pr_auc, pr_curve
from fotltn.errors import DataError, listing
from fotltn.grounding.labels import Labels
from fotltn.grounding.split import flip
from fotltn.posterior.doubts import doubts
from fotltn.posterior.evidence import NoiseRates
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampling
from reproduction.paper.protocol import FLIPS
from reproduction.paper.sweep import append, done, each
from reproduction.posterior.cases import Case, case, every
from reproduction.posterior.methods import definitions, gradient

WORLDS = ("deliveries", "CarPed35K")
SHARES = (0.1, 0.3, 0.8)
METHODS = ("posterior", "residual")

#: The recalls at which the precision is recorded.
RECALLS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class DoubtJob:
    """One run: a world, a method, the share of the facts that are labelled, and a repetition."""

    data: str
    method: str
    fraction: float
    repetition: int


def turned(world: str, fraction: float, repetition: int) -> tuple[Case, dict[str, Tensor]]:
    """Return labels of a share of the facts, a tenth of them flipped, and masks of those."""
    work = case(world, fraction, repetition)
    clean = replace(work.train, truth=_truth(every(world), work.train))
    noisy, wrong = flip(clean, FLIPS, 1000 + repetition)
    return replace(work, train=noisy, told=NoiseRates(FLIPS, FLIPS)), wrong


def _truth(facts: Labels, wanted: Labels) -> dict[str, Tensor]:
    """Return the true degrees of the cells of some labels."""
    result = {}
    for name, index in wanted.index.items():
        table: dict[tuple[int, ...], float] = dict(
            zip(map(tuple, facts.index[name].T.tolist()), facts.truth[name].tolist(), strict=True)
        )
        values = [table[cell] for cell in map(tuple, index.T.tolist())]
        result[name] = torch.tensor(values, dtype=facts.truth[name].dtype)
    return result


def doubtful(method: str, work: Case, sampling: Sampling, device: str) -> Mapping[str, Tensor]:
    """Return how doubtful each label is, from 0 to 1, by predicate.

    Raises:
        DataError: there is no such method.
    """
    if method == "posterior":
        problem = Problem(
            work.theory, work.tables.to(torch.device(device)), work.train, work.learned,
            rates=dict.fromkeys(work.learned, work.told), sampling=sampling,
            define=definitions(work),
        )  # fmt: skip
        ranked = doubts(sample(problem), work.train)
        return {name: ranked.of(name) for name, truth in work.train.truth.items() if len(truth)}
    if method != "residual":
        raise DataError(f"unknown method '{method}'; there are {listing(METHODS)}")
    degrees = gradient(work, device)
    result = {}
    for name, truth in work.train.truth.items():
        trace, *arguments, point = work.train.index[name]
        table = degrees[name].double()
        point = point if table.shape[-1] > 1 else torch.zeros_like(point)
        result[name] = (table[(trace, *arguments, point)] - truth).abs().clamp(0, 1)
    return result


def scored(doubt: Mapping[str, Tensor], wrong: Mapping[str, Tensor]) -> dict[str, Any]:
    """Measure how well doubts separate wrong labels from right ones, over all predicates."""
    score = torch.cat([doubt[name] for name in wrong]).double().numpy()
    truth = torch.cat([wrong[name] for name in wrong]).double().numpy()
    curve = pr_curve(truth, score)
    recall, precision = np.array(curve.recall), np.array(curve.precision)
    flagged = score > 0.5
    hits = float((truth * flagged).sum())
    return {
        "labels": len(truth),
        "wrong": int(truth.sum()),
        "expected": float(score.sum()),
        "pr_auc": pr_auc(truth, score).value,
        "flagged": int(flagged.sum()),
        "precision": hits / max(1, int(flagged.sum())),
        "recall": hits / max(1.0, float(truth.sum())),
        "precision_at": {str(r): float(precision[recall >= r].max()) for r in RECALLS},
        "ece": calibration(truth, score).error.value,
    }


def run(job: DoubtJob, *, sampling: Sampling, device: str) -> dict[str, Any]:
    """Run a job once and return the record."""
    work, wrong = turned(job.data, job.fraction, job.repetition)
    began = time.perf_counter()
    doubt = doubtful(job.method, work, replace(sampling, seed=work.seed), device)
    seconds = time.perf_counter() - began
    return {
        **asdict(job), **scored(doubt, wrong), "seconds": seconds,
        "setting": asdict(replace(sampling, seed=0)), "version": fotltn.__version__,
    }  # fmt: skip


def study(
    jobs: Iterable[DoubtJob], path: Path, sampling: Sampling, device: str, processes: int
) -> int:
    """Run what is not on record yet; return the number of runs that were done."""
    recorded = done(path, asdict(replace(sampling, seed=0)))
    left = [job for job in jobs if (*asdict(job).values(),) not in recorded]
    for _, record in each(partial(run, sampling=sampling, device=device), left, processes):
        append(path, [record])
    return len(left)


def main() -> None:
    """Run everything that is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--fraction", action="append", type=float)
    args = parser.parse_args()
    jobs = [
        DoubtJob(world, method, share, repetition)
        for repetition in range(args.repetitions)
        for share in args.fraction or SHARES
        for world in WORLDS
        for method in args.method or METHODS
    ]
    study(jobs, args.file, Sampling(enough=0), args.device, args.processes)


if __name__ == "__main__":
    main()
