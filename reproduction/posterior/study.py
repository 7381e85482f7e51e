"""Compare the posterior with the gradient method and the Bayes limit, on the same labels.

`python -m reproduction posterior FILE` runs what is not on record yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fotltn
from fotltn.analysis.metrics import calibration, report
from fotltn.errors import DataError, did_you_mean, listing
from fotltn.grounding.labels import Labels
from fotltn.posterior.sampler import Sampling
from reproduction.paper.published import REPETITIONS
from reproduction.paper.sweep import append, done, each
from reproduction.posterior.cases import WORLDS, Degrees, case
from reproduction.posterior.methods import FROM_TRUTH, METHODS, SAMPLED, sampled_together, solve
from reproduction.report.compare import data_sets, fractions
from reproduction.report.records import Record
from reproduction.report.render import Table, percent, row, spread
from reproduction.report.stats import summary
from reproduction.report.tables import runs

#: The shares of the facts that are labelled.
SHARES = (0.1, 0.3, 0.8)

#: The titles of tables, by metric.
METRICS = {
    "pr_auc": "PR-AUC on facts without a label, by share of the facts that have one",
    "ece": "Error of calibration on these",
    "log_loss": "Log-loss on these",
    "seconds": "Seconds of a run",
}

#: In the log-loss, probabilities are kept this far from 0 and 1, because they are shares of worlds.
NEAREST = 1e-3


@dataclass(frozen=True, slots=True)
class Job:
    """One run: a world, a method, the share of the facts that are labelled, and a repetition."""

    data: str
    method: str
    fraction: float
    repetition: int

    def __post_init__(self) -> None:
        """Raise an error if the run is not valid."""
        methods = (*METHODS, FROM_TRUTH)
        for what, name, names in (("world", self.data, WORLDS), ("method", self.method, methods)):
            if name not in names:
                hint = did_you_mean(name, names) or f"there are {listing(names)}"
                raise DataError(f"unknown {what} '{name}'; {hint}")
        if self.method == FROM_TRUTH and self.data != "ward":
            raise DataError(f"the limit of {self.data} cannot start its chains at the truth; only "
                            "the ward's can")  # fmt: skip
        if not 0 < self.fraction < 1:
            raise DataError(f"a share of the facts must be between 0 and 1, not {self.fraction}")
        if self.repetition < 0:
            raise DataError(f"a repetition must be at least 0, not {self.repetition}")


#: Called after runs, with these, their records, the number of finished runs, and the total.
Told = Callable[[Sequence[Job], Sequence[dict[str, Any]], int, int], None]


def grid(
    worlds: Iterable[str] = WORLDS,
    methods: Iterable[str] = METHODS,
    shares: Iterable[float] = SHARES,
    repetitions: int = REPETITIONS,
) -> Iterator[Job]:
    """Yield all runs, one repetition after another, to cover the whole grid early."""
    worlds, methods, shares = tuple(worlds), tuple(methods), tuple(shares)
    for repetition in range(repetitions):
        for world in worlds:
            for share in shares:
                for method in methods:
                    yield Job(world, method, share, repetition)


def study(
    jobs: Iterable[Job],
    path: Path,
    *,
    sampling: Sampling | None = None,
    device: str = "cpu",
    processes: int = 1,
    together: bool | None = None,
    on_done: Told | None = None,
) -> int:
    """Run what is not on record yet, and add it to the record, run by run.

    Args:
        jobs: the runs.
        path: a JSON Lines file.
        sampling: how much the posterior samples; the seed is that of the run.
        device: the device to compute on.
        processes: the number of runs at a time; if there are several, each has one thread.
        together: whether to compute the repetitions of sampling methods at once, and divide the
            time among their records; by default, on a GPU.
        on_done: a function to call after every run, or after runs that were computed at once.

    Returns:
        The number of runs that were done.

    Raises:
        DataError: the file holds records of other sampling or something else, or cannot be written.
        LimitError: a process was killed, for example because memory ran out.
    """
    chosen = replace(sampling or Sampling(), seed=0)
    if together is None:
        together = device.startswith("cuda")
    wanted = list(dict.fromkeys(jobs))
    recorded = done(path, setting(chosen))
    left = [job for job in wanted if (*asdict(job).values(),) not in recorded]
    count = len(wanted) - len(left)
    batches = list(_batches(left, together=together))
    for batch, records in each(partial(run, sampling=chosen, device=device), batches, processes):
        append(path, records)
        count += len(batch)
        if on_done is not None:
            on_done(batch, records, count, len(wanted))
    return len(left)


def _batches(jobs: Sequence[Job], *, together: bool) -> Iterator[list[Job]]:
    """Yield runs to compute at once: if together, the repetitions of sampling methods."""
    batches: dict[Hashable, list[Job]] = {}
    for job in jobs:
        alike = replace(job, repetition=0) if together and job.method in SAMPLED else job
        batches.setdefault(alike, []).append(job)
    yield from batches.values()


def setting(sampling: Sampling) -> dict[str, Any]:
    """Return the settings of sampling for a record, without the defaults of newer settings."""
    said = asdict(replace(sampling, seed=0))
    if not sampling.enough:
        del said["enough"]
    if sampling.weights == "given":
        del said["weights"]
    return said


def run(jobs: Sequence[Job], *, sampling: Sampling, device: str = "cpu") -> list[dict[str, Any]]:
    """Run one or several runs as one computation, and return their records."""
    works = [case(job.data, job.fraction, job.repetition) for job in jobs]
    chosen, method = replace(sampling, seed=works[0].seed), jobs[0].method
    began, used = time.perf_counter(), time.process_time()
    if len(works) == 1:
        outcomes = [solve(method, works[0], chosen, device)]
    else:
        outcomes = sampled_together(method, works, chosen, device)
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    seconds, used = time.perf_counter() - began, time.process_time() - used
    return [
        {
            **asdict(job),
            "seed": chosen.seed,
            **scored(outcome.degrees, work.test),
            **outcome.more,
            "seconds": seconds / len(jobs),
            "cpu_seconds": used / len(jobs),
            "batch": len(jobs),
            "threads": torch.get_num_threads(),
            "setting": setting(sampling),
            "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
            "version": fotltn.__version__,
        }
        for job, work, outcome in zip(jobs, works, outcomes, strict=True)
    ]


def scored(degrees: Degrees, test: Labels) -> dict[str, Any]:
    """Score probabilities on clean facts that no method has seen.

    PR-AUC and log-loss are means over predicates. The calibration error is computed over all facts
    together, because for a predicate with few facts it would be large by chance.
    """
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, truth in test.truth.items():
        trace, *arguments, point = test.index[name]
        table = degrees[name].double().clamp(0, 1)
        trace = trace if table.shape[0] > 1 else torch.zeros_like(trace)
        point = point if table.shape[-1] > 1 else torch.zeros_like(point)
        pairs[name] = (truth >= 0.5, table[(trace, *arguments, point)])
    scores = report(pairs)
    losses = {name: _log_loss(*pair) for name, pair in pairs.items()}
    truths, shares = (torch.cat(column) for column in zip(*pairs.values(), strict=True))
    by = {n: r.pr_auc for n, r in scores.predicates.items()}
    return {
        "pr_auc": scores.mean["pr_auc"].value,
        "pr_auc_by": {name: metric.value for name, metric in by.items() if metric.defined},
        "chance": scores.mean["chance"].value,
        "ece": calibration(truths.double(), shares).error.value,
        "ece_by": {n: r.calibration.error.value for n, r in scores.predicates.items()},
        "log_loss": float(np.mean([*losses.values()])),
        "log_loss_by": losses,
    }


def _log_loss(truth: torch.Tensor, share: torch.Tensor) -> float:
    right = torch.where(truth, share, 1 - share)
    return float(-right.clamp(NEAREST, 1 - NEAREST).log().mean())


def table(records: Sequence[Record], metric: str) -> Table:
    """Return a metric by world, method and share: mean ± standard deviation over repetitions."""
    shares = fractions(records)
    counts, groups = [], []
    for world in data_sets(records):
        rows = []
        for method in [
            m for m in METHODS if any((r.data, r.method) == (world, m) for r in records)
        ]:
            cells = []
            for share in shares:
                key = (world, method, share)
                values = [
                    _value(r, metric) for r in records if (r.data, r.method, r.fraction) == key
                ]
                counts.append(len(values))
                cells.append(spread(summary(values) if values else None))
            rows.append(row(world, method, *cells))
        groups.append(tuple(rows))
    return Table(
        METRICS[metric], ("world", "method", *map(percent, shares)), tuple(groups), stubs=2,
        notes=(f"Mean ± standard deviation over {runs([n for n in counts if n])}.",),
    )  # fmt: skip


def _value(one: Record, metric: str) -> float:
    value = one.extra[metric] if metric in one.extra else getattr(one, metric)
    return float(value)
