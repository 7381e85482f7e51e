"""Compare rules, trees, networks and posteriors on the same ten folds of CAVIAR, by clip.

    python -m reproduction.caviar.tables FOLDER TABLES
    python -m reproduction.caviar.study TABLES [--out docs/caviar] [--processes N]

Adds the missing runs to OUT/runs.jsonl: one line for each method, number of labels and fold.
OUT/time.json holds the time that a complete study took. All choices are made on the training clips
with all their labels, by three inner folds, one key after the other: the value with the lowest
log-loss or, for rules, with the best F1.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fotltn.cli.quiet  # noqa: F401 from here on, Ctrl-C ends it with a line

# isort: split
import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fotltn.errors import DataError
from fotltn.strict_json import read_json
from reproduction.caviar import methods, scores
from reproduction.caviar.methods import FLIPPED, LEARNED, Choice, Tables
from reproduction.caviar.scores import CLASSES, Predictions
from reproduction.caviar.tables import FOLDS
from reproduction.caviar.tables import folds as by_clip

INNER = 3
#: How many labels there are: all training clips; all, with a fifth of the labels wrong; or this
#: many clips in which somebody moves together or meets, and as many others.
LABELS = ("all", "noisy", "10", "5", "2")
_FEW_DRAWS = {"worlds": 16, "burn_in": 8, "sweeps": 8}
#: No pair drifts this fast, so axioms about drifting never apply.
NEVER = 100.0
#: The settings to choose, one key after the other, starting with the first value. An encoder that
#: sees 13 steps states each observation 13 times, hence exponents of about a tenth.
GRIDS: dict[str, Mapping[str, Sequence[Any]]] = {
    "rules": {"close": (1.0, 0.75, 1.25, 1.5), "drift": (NEVER, 0.5, 1.0)},
    "rules in pixels": {"pixels": (34.0, 24.0, 50.0)},
    "trees": {"max_iter": (50, 25, 100), "max_leaf_nodes": (7,)},
    "network": {"prior": (30.0, 10.0, 100.0, 300.0), "epochs": (40,)},
    "posterior": {
        "close": (1.0, 0.75, 1.25), "drift": (NEVER, 0.5, 1.0), "weight": (0.4, 0.2, 0.8),
    },
    "network and axioms": {"weight": (30.0, 300.0), "epochs": (20,)},
    "posterior and network": {"exponent": (0.1, 0.2), "epochs": (40,)},
    "network and inertia": {"exponent": (0.2, 0.5), "epochs": (40,), "weight": (0.0,)},
    "exponents learned": {"epochs": (40,)},
    "posterior, no third": {"third": (False,)},
    "posterior, no lasting": {"without": (("LastTogether",),)},
    "posterior, as first written": {"drift": (NEVER,), "weight": (0.4, 0.2, 0.8)},
    "both, as first written": {
        "drift": (NEVER,), "exponent": (0.1, 0.2), "epochs": (40,), "unseen": (("drift",),),
    },
}  # fmt: skip
METHODS = tuple(GRIDS)
_POSTERIOR = dict.fromkeys(("close", "drift", "weight"), "posterior")
_FIRST = "posterior, as first written"
#: The choices that a method takes over from other methods.
TAKES: dict[str, Mapping[str, str]] = {
    "network and axioms": {"close": "posterior", "drift": "posterior", "prior": "network"},
    "posterior and network": {**_POSTERIOR, "prior": "network"},
    "network and inertia": {"prior": "network"},
    "exponents learned": {**_POSTERIOR, "prior": "network"},
    "posterior, no third": _POSTERIOR,
    "posterior, no lasting": _POSTERIOR,
    # The posterior chooses what is close before it sees axioms about drifting.
    _FIRST: {"close": "posterior"},
    "both, as first written": {"close": "posterior", "weight": _FIRST, "prior": "network"},
}
#: The numbers of labels for methods that are not run with all of them.
ONLY = {
    "exponents learned": ("all", "5"),
    **dict.fromkeys(
        (
            "rules in pixels",
            "network and inertia",
            "posterior, no third",
            "posterior, no lasting",
            _FIRST,
            "both, as first written",
        ),
        ("all",),
    ),
}


def folds(tables: Tables) -> dict[str, int]:
    """Assign a fold to each clip."""
    pairs = tables.pairs
    return by_clip(zip(pairs["video"], zip(*(pairs[n] for n in LEARNED), strict=True), strict=True))


def labelled(tables: Tables, train: Sequence[str], labels: str, fold: int) -> list[str]:
    """Return the training clips that have labels."""
    if labels in ("all", "noisy"):
        return list(train)
    pairs = tables.pairs
    true = {v for n, v in enumerate(pairs["video"]) if any(pairs[name][n] for name in CLASSES)}
    draw = np.random.default_rng(1000 + fold)
    chosen = []
    for group in ([v for v in train if v in true], [v for v in train if v not in true]):
        chosen += [group[i] for i in draw.permutation(len(group))[: int(labels)]]
    return chosen


def _by(method: str) -> Callable[[Tables, Choice, int, bool], Predictions]:
    """Return the function that predicts by a method."""
    if method.startswith("rules"):
        return methods.by_rules
    if method == "trees":
        return methods.by_trees
    return (
        methods.by_network if method in ("network", "network and axioms") else methods.by_posterior
    )


def predicted(
    method: str, tables: Tables, known: Collection[str], choice: Choice, labels: str, fold: int
) -> Predictions:
    """Predict all clips by a method from the labels of some."""
    noisy = labels == "noisy"
    some = methods.with_labels(tables, known, FLIPPED if noisy else 0.0, fold)
    return _by(method)(some, choice, fold, noisy)


class Study:
    """Runs on a folder of tables."""

    def __init__(self, folder: Path) -> None:
        """Read the tables."""
        for name in ("pairs.csv", "triples.csv", "frames.csv"):
            if not (folder / name).is_file():
                raise DataError(
                    f"there is no '{name}' in '{folder}'; make it with reproduction.caviar.tables"
                )
        self.tables, self.frames = methods.read(folder), scores.frames(folder)
        self.fold_of = folds(self.tables)
        self.videos = list(self.fold_of)

    def run(
        self, method: str, labels: str, fold: int, chosen: Mapping[str, Choice]
    ) -> dict[str, Any]:
        """Run a method and return the record.

        Args:
            method: the method.
            labels: how many labels there are.
            fold: the fold to test on.
            chosen: the choices of methods in that fold.
        """
        began = time.process_time()
        train = [v for v in self.videos if self.fold_of[v] != fold]
        choice = chosen.get(method)
        if choice is None:
            choice = self.choose(method, train, fold, chosen)
        known = labelled(self.tables, train, labels, fold)
        said = predicted(method, self.tables, known, choice, labels, fold)
        judged = {v: self.frames[v] for v in self.videos if self.fold_of[v] == fold}
        return {
            "method": method, "labels": labels, "fold": fold, "chosen": dict(choice),
            "seconds": round(time.process_time() - began, 1),
            "clips": len(known), "counts": scores.counted(said, judged),
        }  # fmt: skip

    def choose(
        self, method: str, train: Sequence[str], fold: int, chosen: Mapping[str, Choice]
    ) -> Choice:
        """Choose the best setting on the training clips."""
        takes = TAKES.get(method, {})
        for other in dict.fromkeys(takes.values()):
            if other not in chosen:
                chosen = {**chosen, other: self.choose(other, train, fold, chosen)}
        taken = {key: chosen[other][key] for key, other in takes.items()}
        grid = GRIDS[method]
        choice = {key: values[0] for key, values in grid.items()} | taken
        tried = [(key, value) for key, values in grid.items() for value in values[1:]]
        best = self._judged(method, train, fold, choice) if tried else 0.0
        for key, value in tried:
            trial = {**choice, key: value}
            judged = self._judged(method, train, fold, trial)
            if judged < best:
                choice, best = trial, judged
        return choice

    def _judged(self, method: str, train: Sequence[str], fold: int, choice: Choice) -> float:
        """Return the mean log-loss on clips that were left out; for rules, minus F1."""
        few = {**choice, "draws": _FEW_DRAWS} if _by(method) is methods.by_posterior else choice
        counts: dict[str, dict[str, Any]] = {name: {} for name in CLASSES}
        for inner in range(INNER):
            out = [v for n, v in enumerate(train) if n % INNER == inner]
            known = [v for v in train if v not in out]
            said = predicted(method, self.tables, known, few, "all", fold)
            for name, by_video in scores.counted(said, {v: self.frames[v] for v in out}).items():
                counts[name] |= by_video
        once = np.ones((1, len(train)))
        metrics = [scores.Scores(counts[n], train).metrics(once) for n in CLASSES]
        if method.startswith("rules"):
            return -sum(float(one["f1"][0]) for one in metrics)
        return sum(float(one["loss"][0]) for one in metrics)


Run = tuple[str, str, int]


@cache
def _made(folder: Path) -> Study:
    return Study(folder)


def _record(folder: Path, run: Run, chosen: Mapping[str, Choice]) -> dict[str, Any]:
    return _made(folder).run(*run, chosen)


def _depth(method: str) -> int:
    """Return how many methods must choose before this one, one after the other."""
    return 1 + max((_depth(other) for other in TAKES.get(method, {}).values()), default=-1)


def _stages(
    wanted: Sequence[str], only: Sequence[int], amounts: Sequence[str]
) -> Iterator[list[Run]]:
    """Yield runs by method, labels and fold, first those whose choices others take over."""
    runs = [(method, labels, fold) for labels, fold, method in product(amounts, only, wanted)
            if labels in ONLY.get(method, LABELS)]  # fmt: skip
    for depth in range(1 + max(map(_depth, METHODS))):
        yield [run for run in runs if run[1] == "all" and _depth(run[0]) == depth]
    yield [run for run in runs if run[1] != "all"]


def study(
    folder: Path,
    out: Path,
    wanted: Sequence[str],
    only: Sequence[int],
    amounts: Sequence[str],
    processes: int = 1,
) -> Iterator[str]:
    """Run what is not on record yet, yielding a line for each run."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    done = {(r["method"], r["labels"], r["fold"]): r for r in records(out)}
    _made(folder)
    with ExitStack() as stack:
        order: Any = map
        if processes > 1:
            pool = ProcessPoolExecutor(processes, get_context("spawn"))
            order = stack.enter_context(pool).map
        for stage in _stages(wanted, only, amounts):
            todo = [run for run in stage if run not in done]
            chosen = [{m: done[m, "all", run[2]]["chosen"] for m in METHODS
                       if (m, "all", run[2]) in done} for run in todo]  # fmt: skip
            for record in order(_record, [folder] * len(todo), todo, chosen):
                done[record["method"], record["labels"], record["fold"]] = record
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                told = f"{record['labels']:5} fold {record['fold']} {record['method']:22}"
                yield f"{told} {record['seconds']:6.1f} s  {record['chosen']}"


def records(out: Path) -> list[dict[str, Any]]:
    """Return the runs on record."""
    path = out / "runs.jsonl"
    if not path.exists():
        return []
    return [read_json(line) for line in path.read_text("utf-8").splitlines()]


def main() -> int:
    """Run the study or a part of it."""
    parser = argparse.ArgumentParser(description="Compare rules and learning on CAVIAR.")
    parser.add_argument("tables", type=Path, help="folder made by reproduction.caviar.tables")
    parser.add_argument("--out", type=Path, default=Path("docs/caviar"))
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--fold", action="append", type=int, choices=range(FOLDS))
    parser.add_argument("--labels", action="append", choices=LABELS)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    began, before = time.monotonic(), len(records(asked.out))
    try:
        for line in study(
            asked.tables, asked.out, asked.method or METHODS, asked.fold or range(FOLDS),
            asked.labels or LABELS, asked.processes,
        ):  # fmt: skip
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except DataError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    took = {
        "runs": len(records(asked.out)) - before, "processes": asked.processes,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }  # fmt: skip
    sys.stdout.write("{runs} runs in {minutes} minutes, {processes} at a time\n".format(**took))
    if not before:
        (asked.out / "time.json").write_text(json.dumps(took) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
