"""Deliveries that are watched: features beside labels, in a posterior, in a network, or in both.

    python -m reproduction.posterior.features FILE [--repetitions N] [--processes N]

Sensors watch robots and parcels, badly: their noise stays for some steps. Methods see columns of
numbers, labels of a share of the facts, and the rates of wrong labels that `deliveries.study`
tells. Each repetition has a world of its own, and another one that the model is applied to, without
labels. Appends a JSON line for each run that is not there yet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fotltn
from fotltn.analysis.metrics import calibration, report
from fotltn.errors import DataError, listing
from fotltn.project.world import read_labels
from reproduction.deliveries import world as deliveries
from reproduction.deliveries.study import INVENTED, MISSED
from reproduction.paper.sweep import append, done, each

#: Robots, parcels, stations and steps of each world.
SIZE = deliveries.Size(12, 24, 6, 60)

SHARES = (0.1, 0.3)

#: What is compared. All have the same axioms; the definitions among these are found.
METHODS = ("labels and axioms", "network", "network, axioms as loss", "labels, axioms and network")

#: The last, as it would be with other settings.
ABLATIONS: dict[str, dict[str, Any]] = {
    "the same, exponents of 1": {"exponent": 1.0},
    "the same, one fold": {"folds": 1},
}

#: What sensors see, by sort: a predicate that makes a number higher, or spread further.
SENSORS = {
    "robot": (("heat", "Faulty", "higher"), ("shake", "Faulty", "wider")),
    "parcel": (("scale", "Waits", "higher"), ("speed", "Moves", "higher")),
}

#: How strong the noise is, beside a signal of 1, and how much of it stays for the next step.
NOISE, STAYS = 0.5, 0.7

#: How networks learn: beside worlds; and without, until labels that are held back say stop.
TRAINING = {"epochs": 300, "rate": 0.01}
WATCHED = {"epochs": 500, "rate": 0.01, "validation": 0.25, "patience": 40}

#: How much is sampled.
SAMPLING = {"worlds": 16, "burn_in": 60, "sweeps": 60}


@dataclass(frozen=True, slots=True)
class SensorJob:
    """One run: a method, the share of the facts that is labelled, and a repetition."""

    data: str
    method: str
    fraction: float
    repetition: int


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A world as tables: what is given, what is true of the rest, and what sensors saw by sort."""

    stated: pa.Table
    facts: pa.Table
    seen: dict[str, pa.Table]


def watched(seed: int) -> Watched:
    """A world of deliveries, and what sensors saw of it."""
    made = deliveries.generate(*SIZE, seed=seed)
    draw = np.random.default_rng(10_000 + seed)
    table, truth, seen = deliveries.facts(made), made.tables(), {}
    for sort, sensors in SENSORS.items():
        names, steps = made.names[sort], SIZE.steps
        columns: dict[str, Any] = {
            sort: np.repeat(names, steps), "time": np.tile(np.arange(steps), len(names))
        }  # fmt: skip
        for column, predicate, how in sensors:
            signal: np.ndarray[Any, Any] = truth[predicate]
            noise: np.ndarray[Any, Any] = draw.normal(size=signal.shape)
            for step in range(1, steps):
                noise[:, step] = STAYS * noise[:, step - 1] + np.sqrt(1 - STAYS**2) * noise[:, step]
            value = signal + NOISE * noise if how == "higher" else (1 + signal) * noise
            columns[column] = value.ravel()
        seen[sort] = pa.table(columns)
    learned = pc.is_in(table["predicate"], pa.array(deliveries.LEARNED))
    return Watched(table.filter(pc.invert(learned)), table.filter(learned), seen)


def labelled(facts: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Noisy labels of a share of the facts; and the rest, as it is."""
    draw = np.random.default_rng(20_000 + seed)
    chosen = draw.random(facts.num_rows) < share
    part, rest = facts.filter(pa.array(chosen)), facts.filter(pa.array(~chosen))
    truth = part["truth"].to_numpy()
    missed = np.array([deliveries.RATES[name].missed for name in part["predicate"].to_pylist()])
    wrong = (draw.random(len(truth)) < missed) & (truth == 1)
    at = part.schema.get_field_index("truth")
    return part.set_column(at, "truth", pa.array(np.where(wrong, 0, truth), pa.int8())), rest


def learned(method: str, world: Watched, labels: pa.Table, seed: int) -> fotltn.Model:
    """A model that a method learns.

    Raises:
        DataError: there is no such method.
    """
    if method not in (*METHODS, *ABLATIONS):
        raise DataError(f"features are used by {listing(METHODS, 9)}, not by '{method}'")
    sampled = method.startswith("labels") or method in ABLATIONS
    columns = {sort: [name for name, *_ in sensors] for sort, sensors in SENSORS.items()}
    if method == "labels and axioms":
        columns = {}
    wide = [fotltn.Wide(world.seen[s], s, s, "time", features=c) for s, c in columns.items()]
    encoder = {"kind": "gru", "width": 8, "causal": False}
    objective: dict[str, Any] = {"preset": "recipe", "missed": MISSED, "invented": INVENTED}
    if method == "network":
        objective["axioms"] = "none"
    return fotltn.train(
        deliveries.THEORY,
        facts=[world.stated, labels],
        wide=wide,
        learn=deliveries.LEARNED,
        method="posterior" if sampled else "gradient",
        semantics="witness",
        inputs={} if sampled else {sort: {"encoder": encoder} for sort in SENSORS},
        objective=objective,
        training=TRAINING if sampled else WATCHED,
        posterior={**SAMPLING, "enough": 0, **ABLATIONS.get(method, {})} if sampled else {},
        data={"horizon": SIZE.steps},
        seed=seed,
    )


def run(job: SensorJob) -> dict[str, Any]:
    """One run, and its record."""
    here, there = watched(job.repetition), watched(1000 + job.repetition)
    labels, rest = labelled(here.facts, job.fraction, job.repetition)
    began = time.process_time()
    model = learned(job.method, here, labels, job.repetition)
    seconds = time.process_time() - began
    seen = [there.seen[sort] for sort in SENSORS] if job.method != METHODS[0] else []
    other = model.apply([there.stated, there.facts.slice(0, 0), *seen])
    more = {}
    if model.posterior is not None and model.posterior.carried is not None:
        more["exponents"] = dict(model.posterior.carried.exponents)
    return {
        **asdict(job), **more, "here": scores(model, rest), "there": scores(other, there.facts),
        "cpu_seconds": seconds, "setting": setting(), "version": fotltn.__version__,
    }  # fmt: skip


def scores(model: fotltn.Model, facts: pa.Table) -> dict[str, Any]:
    """How good probabilities are: PR-AUC and log-loss by predicate, and calibration of all."""
    labels, _ = read_labels(model.world, model.grounding.open, [facts])
    pairs = model.scores(labels)
    rows = {n: r for n, r in report(pairs).predicates.items() if r.pr_auc.defined}
    truth, share = (np.concatenate(column) for column in zip(*pairs.values(), strict=True))
    by = {n: {"pr_auc": r.pr_auc.value, "log_loss": r.log_loss.value} for n, r in rows.items()}
    return {
        **{k: float(np.mean([one[k] for one in by.values()])) for k in ("pr_auc", "log_loss")},
        "ece": calibration(truth, share).error.value,
        "by": by,
    }


def setting() -> dict[str, Any]:
    """With what all runs are made."""
    return {"size": list(SIZE), "noise": NOISE, "stays": STAYS, "sampling": SAMPLING,
            "training": TRAINING, "watched": WATCHED}  # fmt: skip


def study(jobs: Iterable[SensorJob], path: Path, processes: int = 1) -> int:
    """Run what is not on record yet; the number of runs that were done now."""
    recorded = done(path, setting())
    left = [job for job in jobs if (*asdict(job).values(),) not in recorded]
    for _, record in each(run, left, processes):
        append(path, [record])
    return len(left)


def main() -> None:
    """Run all that is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--fraction", action="append", type=float)
    parser.add_argument("--method", action="append", choices=(*METHODS, *ABLATIONS))
    args = parser.parse_args()
    jobs = [
        SensorJob("watched deliveries", method, share, repetition)
        for repetition in range(args.repetitions)
        for share in args.fraction or SHARES
        for method in args.method or METHODS
    ]
    study(jobs, args.file, args.processes)


if __name__ == "__main__":
    main()
