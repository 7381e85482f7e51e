"""Deliveries with sensors: compare features in a posterior, in a network, and in both.

    python -m reproduction.posterior.features FOLDER [--repetitions N] [--processes N]

Sensors observe robots and parcels badly: their noise persists for some steps. Methods see columns
of numbers, labels of a share of the facts, and the rates of wrong labels that `deliveries.study`
assumes. Each repetition has its own world, and a second one that the model is applied to without
labels.

First, `chosen` selects the strength of the noise, and how the network alone sees and stops, on
worlds that are not reported. These trials are recorded in `feature_trials.jsonl` in the folder, and
the study in `features.jsonl`: one JSON line for each run that is not there yet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fotltn
from fotltn.analysis.metrics import calibration, report
from fotltn.errors import DataError, listing
from fotltn.files import read_file
from fotltn.project.other_labels import read_labels
from fotltn.strict_json import read_json
from reproduction import MAX_RECORDS
from reproduction.deliveries import world as deliveries
from reproduction.deliveries.study import INVENTED, MISSED
from reproduction.paper.sweep import append, done, each

#: The numbers of robots, parcels, stations and steps of each world.
SIZE = deliveries.Size(12, 24, 6, 60)

SHARES = (0.1, 0.3)

#: The methods. All have the same axioms, in which definitions are found.
METHODS = ("labels and axioms", "network", "network, axioms as loss", "labels, axioms and network")

#: Variants of the last method with other settings.
ABLATIONS: dict[str, dict[str, Any]] = {
    "the same, exponents of 1": {"exponent": 1.0},
    "the same, one fold": {"folds": 1},
}

#: What sensors see, by sort: the predicate that raises a number or widens its spread.
SENSORS = {
    "robot": (("heat", "Faulty", "higher"), ("shake", "Faulty", "wider")),
    "parcel": (("scale", "Waits", "higher"), ("speed", "Moves", "higher")),
}

#: The share of the noise that persists to the next step.
STAYS = 0.7

#: How networks learn: for this long; or without worlds, until held-back labels say stop.
TRAINING = {"epochs": 300, "rate": 0.01}
STOPPED = {"epochs": 500, "rate": 0.01, "validation": 0.25, "patience": 40}

#: Variants of the network alone: whether it sees both ways over time, and whether it stops early.
NETWORKS = {
    "one point": (False, False), "one point, stops": (False, True),
    "gru": (True, False), "gru, stops": (True, True),
}  # fmt: skip

#: Possible strengths of the noise, relative to a signal of 1.
NOISES = (0.3, 0.4, 0.5, 0.7, 1.0)

#: The worlds for choosing settings, and the share of their facts that are labelled.
TRIED, TRIED_SHARE = range(100, 104), 0.1

#: The settings of sampling.
SAMPLING = {"worlds": 16, "burn_in": 60, "sweeps": 60}


@dataclass(frozen=True, slots=True)
class SensorJob:
    """One run: a method, the share of the facts that are labelled, and a repetition."""

    data: str
    method: str
    fraction: float
    repetition: int


@dataclass(frozen=True, slots=True)
class SensorSetting:
    """The strength of the noise, and how the network alone sees and stops: one of `NETWORKS`."""

    noise: float
    network: str


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A world as tables: given facts, true facts of learned predicates, and features by sort."""

    stated: pa.Table
    facts: pa.Table
    seen: dict[str, pa.Table]


def watched(seed: int, strength: float) -> Watched:
    """Generate a world of deliveries, and what sensors saw of it."""
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
            value = signal + strength * noise if how == "higher" else (1 + signal) * noise
            columns[column] = value.ravel()
        seen[sort] = pa.table(columns)
    learned = pc.is_in(table["predicate"], pa.array(deliveries.LEARNED))
    return Watched(table.filter(pc.invert(learned)), table.filter(learned), seen)


def labelled(facts: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return noisy labels of a share of the facts, and the clean rest."""
    draw = np.random.default_rng(20_000 + seed)
    chosen = draw.random(facts.num_rows) < share
    part, rest = facts.filter(pa.array(chosen)), facts.filter(pa.array(~chosen))
    truth = part["truth"].to_numpy()
    missed = np.array([deliveries.RATES[name].missed for name in part["predicate"].to_pylist()])
    wrong = (draw.random(len(truth)) < missed) & (truth == 1)
    at = part.schema.get_field_index("truth")
    return part.set_column(at, "truth", pa.array(np.where(wrong, 0, truth), pa.int8())), rest


def learned(method: str, world: Watched, labels: pa.Table, seed: int, network: str) -> fotltn.Model:
    """Train a model by a method.

    Raises:
        DataError: there is no such method.
    """
    if method not in (*METHODS, *ABLATIONS):
        raise DataError(f"unknown method '{method}'; there are {listing(METHODS, 9)}")
    sampled = method.startswith("labels") or method in ABLATIONS
    columns = {sort: [name for name, *_ in sensors] for sort, sensors in SENSORS.items()}
    if method == "labels and axioms":
        columns = {}
    wide = [fotltn.Wide(world.seen[s], s, s, "time", features=c) for s, c in columns.items()]
    over_time, stops = (False, False) if sampled else NETWORKS[network]
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
        inputs={sort: {"encoder": encoder} for sort in SENSORS} if over_time else {},
        objective=objective,
        training=STOPPED if stops else TRAINING,
        posterior={**SAMPLING, "enough": 0, **ABLATIONS.get(method, {})} if sampled else {},
        data={"horizon": SIZE.steps},
        seed=seed,
    )


def run(job: SensorJob, how: SensorSetting) -> dict[str, Any]:
    """Run a job once and return the record."""
    here, there = (watched(seed + job.repetition, how.noise) for seed in (0, 1000))
    labels, rest = labelled(here.facts, job.fraction, job.repetition)
    began = time.process_time()
    model = learned(job.method, here, labels, job.repetition, how.network)
    seconds = time.process_time() - began
    seen = [there.seen[sort] for sort in SENSORS] if job.method != METHODS[0] else []
    other = model.apply([there.stated, there.facts.slice(0, 0), *seen])
    more = {}
    if model.posterior is not None and model.posterior.carried is not None:
        more["exponents"] = dict(model.posterior.carried.exponents)
    return {
        **asdict(job), **more, "here": scores(model, rest), "there": scores(other, there.facts),
        "cpu_seconds": seconds, "setting": setting(how), "version": fotltn.__version__,
    }  # fmt: skip


# --- choosing settings -----------------------------------------------------------------------


def trials() -> list[SensorJob]:
    """Return the trials for choosing settings: the network alone, and labels and axioms alone."""
    named = [(f"noise {noise}", name) for noise in NOISES for name in NETWORKS]
    return [
        SensorJob(data, name, TRIED_SHARE, repetition)
        for repetition in TRIED
        for data, name in (("no features", METHODS[0]), *named)
    ]


def tried(job: SensorJob) -> dict[str, Any]:
    """Run one trial and return its record: PR-AUC on facts of its world without labels."""
    alone = job.method == METHODS[0]
    noise = NOISES[0] if alone else float(job.data.removeprefix("noise "))
    here = watched(job.repetition, noise)
    labels, rest = labelled(here.facts, job.fraction, job.repetition)
    method, network = (METHODS[0], "one point") if alone else (METHODS[1], job.method)
    model = learned(method, here, labels, job.repetition, network)
    return {
        **asdict(job), "pr_auc": scores(model, rest)["pr_auc"], "setting": setting(None),
        "version": fotltn.__version__,
    }  # fmt: skip


def chosen(records: Sequence[Mapping[str, Any]]) -> SensorSetting:
    """Choose the setting from the mean scores of trials.

    For each strength of noise, the best network alone counts. The chosen noise is the one at which
    its score is closest to that of labels and axioms without features, so that features are about
    as informative as axioms.

    Raises:
        DataError: a trial is missing.
    """
    by: dict[tuple[str, str], list[float]] = {}
    for one in records:
        by.setdefault((one["data"], one["method"]), []).append(one["pr_auc"])
    wanted = {(job.data, job.method) for job in trials()}
    if {*by} != wanted or {len(scores) for scores in by.values()} != {len(TRIED)}:
        raise DataError("trials are missing or differ; run all trials first")
    means = {key: float(np.mean(scores)) for key, scores in by.items()}
    without = means["no features", METHODS[0]]
    best = {
        noise: max(NETWORKS, key=lambda name: means[f"noise {noise}", name]) for noise in NOISES
    }
    noise = min(NOISES, key=lambda n: abs(means[f"noise {n}", best[n]] - without))
    return SensorSetting(noise, best[noise])


def scores(model: fotltn.Model, facts: pa.Table) -> dict[str, Any]:
    """Score probabilities: PR-AUC and log-loss by predicate, and calibration over all."""
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


def setting(how: SensorSetting | None) -> dict[str, Any]:
    """Return the settings that all runs share or, for trials, the settings that do not vary."""
    return {"size": list(SIZE), "stays": STAYS, "sampling": SAMPLING, "training": TRAINING,
            "stopped": STOPPED, **({} if how is None else asdict(how))}  # fmt: skip


def study(jobs: Iterable[SensorJob], folder: Path, processes: int = 1) -> int:
    """Run what is not on record yet, trials first; return the number of runs that were done."""
    path = folder / "feature_trials.jsonl"
    first = _missing(trials(), path, setting(None))
    for _, record in each(tried, first, processes):
        append(path, [record])
    how = chosen([read_json(line) for line in read_file(path, limit=MAX_RECORDS).splitlines()])
    path = folder / "features.jsonl"
    left = _missing(jobs, path, setting(how))
    for _, record in each(partial(run, how=how), left, processes):
        append(path, [record])
    return len(first) + len(left)


def _missing(jobs: Iterable[SensorJob], path: Path, how: dict[str, Any]) -> list[SensorJob]:
    recorded = done(path, how)
    return [job for job in jobs if (*asdict(job).values(),) not in recorded]


def main() -> None:
    """Run everything that is not in the folder yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
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
    study(jobs, args.folder, args.processes)


if __name__ == "__main__":
    main()
