"""Which flights leave late? Compare models with scikit-learn on other days and other planes.

    pip install scikit-learn
    python examples/flights/make.py
    python examples/flights/study.py

Every choice is made on the training days; the test days are used once. The results go to
`results.json`. Use `--data FOLDER` if the tables are elsewhere, and `--quick` for one seed. Rows in
`results.json` are not run again: remove the file to start over. After Ctrl-C, finished rows are in
`results.partial.json`.
"""

import argparse
import csv
import json
import random
import signal
import statistics
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = ("departures.csv", "airports.csv")
PARTS = ("test", "unseen")
LAST_FITTED = 16  # for choices, models are fitted on days up to this one and judged on later ones
HISTORY = 2  # hours before that scikit-learn sees, where a model has an encoder
FEW = 300  # labels
INTERRUPTED = 130  # the exit status after Ctrl-C

#: What models see, by name: features of the plane, of its airport as well, and of earlier hours.
SEEN = ("plane", "airport", "history")
Columns = dict[str, list[Any]]

WEIGHTS = (0.3, 3.0)  # weights of the axioms
PRIORS = {None: (1.0,), FEW: (10.0, 30.0)}  # weights of small parameters, by number of labels
PIECES = [{"bins": 32, "prior": 10.0, "epochs": epochs} for epochs in (30, 60)]  # for features
RULES = ("Behind", "Waiting", "Jam", "Weather", "Morning", "Again")  # rules about learned facts
LOGISTIC = [{"C": c} for c in (0.001, 0.01, 0.1, 1.0)]
TREES = [
    {"learning_rate": 0.05, "max_iter": n, "max_leaf_nodes": leaves}
    for n, leaves in product((50, 100, 200), (7, 15))
]


# --- data ---------------------------------------------------------------------------------------


def read(file: Path) -> Columns:
    """Read the columns of a table."""
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {name: [_cell(row[name]) for row in rows] for name in rows[0]}


def _cell(text: str) -> Any:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text or None


def cut(table: Columns, rows: Callable[[int], bool]) -> Columns:
    """Keep the rows whose number fits."""
    numbers = [n for n in range(len(table["day"])) if rows(n)]
    return {name: [cells[n] for n in numbers] for name, cells in table.items()}


@cache
def tables_of(folder: Path, part: str) -> tuple[Columns, ...]:
    """Return the tables of a part; "fit" and "judge" divide the training days."""
    tables = [read(folder / ("train" if part in ("fit", "judge") else part) / f) for f in FILES]
    if part in ("fit", "judge"):
        days = sorted(set(tables[0]["day"]))
        first = {d for d in days if d <= min(LAST_FITTED, days[-2])}
        wanted = first if part == "fit" else set(days) - first
        tables = [cut(t, lambda n, t=t: t["day"][n] in wanted) for t in tables]  # type: ignore[misc]
    return tuple(tables)


def with_labels(tables: tuple[Columns, ...], labels: int | None, seed: int) -> tuple[Columns, ...]:
    """Keep this many labels, drawn at random; the others are unknown."""
    if labels is None:
        return tables
    late = tables[0]["late"]
    known = [n for n, cell in enumerate(late) if cell is not None]
    drawn = set(random.Random(seed).sample(known, min(labels, len(known))))
    return (
        {**tables[0], "late": [c if n in drawn else None for n, c in enumerate(late)]},
        tables[1],
    )


# --- models -------------------------------------------------------------------------------------


def settings(seen: str, project: Path = HERE) -> dict[str, Any]:
    """Return the project's settings as arguments of `fotltn.train`, which adds the tables."""
    name = "encoder.toml" if seen == "history" else "project.toml"
    told = tomllib.loads((project / name).read_text("utf-8"))
    if seen == "plane":
        del told["inputs"]["plane"]["neighbours"]
    return told


def theory_of(file: str, only: str | None) -> str:
    """Return the text of the theory, with all its axioms or with one."""
    lines = (HERE / file).read_text("utf-8").splitlines(keepends=True)
    return "".join(
        line
        for line in lines
        if only is None or not line.startswith("axiom ") or line.startswith(f"axiom {only}:")
    )


def train(job: dict[str, Any], tables: tuple[Columns, ...]) -> Any:
    """Train the model of a job: inputs, number of pieces, weight of axioms, prior and seed.

    A job may name a single axiom or provide a theory, and may override the number of epochs.
    """
    import fotltn

    told = settings(job["seen"])
    told["inputs"]["plane"]["bins"] = job.get("bins", 0)
    training = told["training"] | ({"epochs": job["epochs"]} if "epochs" in job else {})
    wide = [
        fotltn.Wide(
            table,
            **{key: value for key, value in columns.items() if key not in ("file", "measures")},
            measures={n: fotltn.Measure(**m) for n, m in columns["measures"].items()},
        )
        for table, columns in zip(tables, told["data"]["wide"], strict=True)
    ]
    objective = told["objective"] | {"weight": job["weight"], "prior": job["prior"]}
    if not job["weight"]:
        objective = {k: v for k, v in objective.items() if k != "weight"}
        objective["axioms"] = "none"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fotltn.train(
            job.get("theory") or theory_of(told["theory"]["file"], job.get("only")),
            wide=wide,
            preset=told["preset"],
            semantics=told["theory"]["semantics"],
            p=told["theory"]["p"],
            data={"local": told["data"]["local"]},
            inputs=told["inputs"],
            predicates=told["predicates"],
            objective=objective,
            training=training,
            seed=job["seed"],
        )


def by_model(job: dict[str, Any], folder: Path, parts: tuple[str, ...]) -> dict[str, float]:
    """Return the PR-AUC of a model on parts that it was not trained on."""
    tables = with_labels(tables_of(folder, job["part"]), job["labels"], job["seed"])
    model = train(job, tables)
    scores = {}
    for part in parts:
        report = model.apply(list(tables_of(folder, part))).metrics()
        scores[part] = report.predicates["Late"].pr_auc.value
    return scores


# --- scikit-learn -------------------------------------------------------------------------------


def vectors(seen: str, tables: tuple[Columns, ...]) -> tuple[list[list[float]], list[int]]:
    """Return the same features and labels as networks see, one row per labelled departure."""
    told = settings(seen)
    of_planes, of_airports = told["data"]["wide"]
    planes, airports = tables
    place = {
        key: n
        for n, key in enumerate(
            zip(airports["day"], airports["hour"], airports["airport"], strict=True)
        )
    }

    def features(n: int) -> Iterator[float]:
        for name in of_planes["features"]:
            cell = planes[name][n]
            words = of_planes["categories"].get(name)
            yield from [cell] if words is None else (float(cell == word) for word in words)
        hours = {"plane": 0, "airport": 1, "history": 1 + HISTORY}[seen]
        for back in range(hours):
            row = place[planes["day"][n], max(planes["hour"][n] - back, 0), planes["airport"][n]]
            yield from (airports[name][row] for name in of_airports["features"])

    known = [n for n, cell in enumerate(planes["late"]) if cell is not None]
    return [list(features(n)) for n in known], [int(planes["late"][n]) for n in known]


@cache
def vectors_of(seen: str, folder: Path, part: str) -> tuple[list[list[float]], list[int]]:
    """Return the same for a part, with all its labels."""
    return vectors(seen, tables_of(folder, part))


def by_sklearn(job: dict[str, Any], folder: Path, parts: tuple[str, ...]) -> dict[str, float]:
    """Return the PR-AUC of logistic regression or of boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if job["model"] == "logistic regression":
        classifier = make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=5000, **job["options"])
        )
    else:
        classifier = HistGradientBoostingClassifier(
            early_stopping=False, random_state=job["seed"], **job["options"]
        )
    tables = with_labels(tables_of(folder, job["part"]), job["labels"], job["seed"])
    classifier.fit(*vectors(job["seen"], tables))
    scores = {}
    for part in parts:
        rows, truth = vectors_of(job["seen"], folder, part)
        scores[part] = float(average_precision_score(truth, classifier.predict_proba(rows)[:, 1]))
    return scores


# --- the study ----------------------------------------------------------------------------------


def one(arguments: tuple[dict[str, Any], Path, tuple[str, ...]]) -> dict[str, float]:
    """Run a job in its own process; return its scores by part, and the seconds."""
    job, begun = arguments[0], time.process_time()
    scores = (by_model if "weight" in job else by_sklearn)(*arguments)
    return {**scores, "seconds": time.process_time() - begun}


def options(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield everything to compare, each with the settings to choose from."""
    brief = {"epochs": 1} if quick else {}
    for labels, seen in [*((None, seen) for seen in SEEN), (FEW, "airport")]:
        row = {"seen": seen, "labels": labels}
        for model, weights in (("without axioms", (0.0,)), ("with axioms", WEIGHTS)):
            grid = [{"weight": w, "prior": p, **brief} for w, p in product(weights, PRIORS[labels])]
            yield {"model": model, **row, "grid": grid[-1:] if quick else grid}
        for model, weights in (("pieces", (0.0,)), ("pieces, with axioms", WEIGHTS)):
            if labels is None and seen == "airport":
                grid = [{"weight": w, **p, **brief} for w, p in product(weights, PIECES)]
                yield {"model": model, **row, "grid": grid[-1:] if quick else grid}
        for model, grid in (("logistic regression", LOGISTIC), ("boosted trees", TREES)):
            yield {
                "model": model,
                **row,
                "grid": [{"options": o} for o in grid[-1 if quick else 0 :]],
            }
    for name in RULES:
        alone = {"weight": WEIGHTS[-1], "prior": PRIORS[FEW][-1], "only": name, **brief}
        yield {"model": f"only {name}", "seen": "airport", "labels": FEW, "grid": [alone]}


class StoppedError(Exception):
    """Raised on Ctrl-C, with the finished rows and the total number of rows."""

    def __init__(self, done: list[dict[str, Any]], total: int) -> None:
        """Store the rows."""
        super().__init__(f"stopped: {len(done)} of {total} rows are done")
        self.done = done


def _scored(row: dict[str, Any], running: list[Future[dict[str, float]]]) -> dict[str, Any]:
    """Return a row with its scores by part, for each seed."""
    return row | {part: [round(f.result()[part], 4) for f in running] for part in PARTS}


def _quietly() -> None:
    """Let Ctrl-C end a process of the pool silently."""
    with suppress(ValueError):  # raised in a thread, which Ctrl-C does not reach
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["seen"], row["labels"]


def study(
    folder: Path, seeds: int, processes: int, quick: bool, before: dict[str, Any]
) -> dict[str, Any]:
    """Choose settings on the training days, train on all of these, and score.

    Rows of an earlier record are not run again.

    Raises:
        StoppedError: Ctrl-C was pressed.
    """
    order = [_key(row) for row in options(quick)]
    known = [row for row in before.get("results", []) if _key(row) in order]
    ended = {_key(row) for row in known}
    begun, rows = time.monotonic(), [r for r in options(quick) if _key(r) not in ended]
    results: list[tuple[dict[str, Any], list[Future[dict[str, float]]]]] = []
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_quietly) as pool:
        try:
            choices, done = _run(pool, rows, results, (folder, seeds, quick))
        except (KeyboardInterrupt, BrokenProcessPool) as error:
            pool.shutdown(wait=False, cancel_futures=True)
            done = [_scored(row, run) for row, run in results if all(map(_succeeded, run))]
            raise StoppedError(known + done, len(order)) from error
    counts = {}
    for part in ("train", *PARTS):
        planes = tables_of(folder, part)[0]
        labels = [cell for cell in planes["late"] if cell is not None]
        counts[part] = {"departures": len(labels), "late": sum(labels)}
        counts[part]["planes"] = len(set(planes["plane"]))
        counts[part]["days"] = len(set(planes["day"]))
    every = [f for futures in (*choices, *(running for _, running in results)) for f in futures]
    computing = sum(f.result()["seconds"] for f in every)
    seconds = {"minutes": time.monotonic() - begun, "computing": computing}
    return {
        **{n: round(value / 60 + before.get(n, 0), 1) for n, value in seconds.items()},
        "processes": processes,
        "seeds": seeds,
        "counts": counts,
        "results": sorted(known + done, key=lambda row: order.index(_key(row))),
    }


def _succeeded(future: Future[dict[str, float]]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _run(
    pool: Executor,
    rows: list[dict[str, Any]],
    results: list[tuple[dict[str, Any], list[Future[dict[str, float]]]]],
    asked: tuple[Path, int, bool],
) -> tuple[list[list[Future[dict[str, float]]]], list[dict[str, Any]]]:
    """Return the jobs that choose settings, and the scored rows; `results` fills along the way."""
    folder, seeds, quick = asked
    choices: list[list[Future[dict[str, float]]]] = []
    for row in rows:
        base = {key: row[key] for key in ("model", "seen", "labels")} | {"part": "fit"}
        # Use other seeds than those of the results; several, if labels are drawn.
        draws = range(100, 101 if quick or row["labels"] is None else 103)
        jobs = [base | choice | {"seed": s} for choice in row["grid"] for s in draws]
        choices.append(
            [pool.submit(one, (job, folder, ("judge",))) for job in jobs]
            if len(row["grid"]) > 1
            else []
        )
    for row, futures in zip(rows, choices, strict=True):
        drawn = "weight" in row["grid"][0] or row["labels"] is not None
        grid, scores = row.pop("grid"), [f.result()["judge"] for f in futures]
        draws_each = len(scores) // len(grid)
        means = [
            statistics.fmean(scores[i * draws_each : (i + 1) * draws_each]) if scores else 0.0
            for i in range(len(grid))
        ]
        chosen = grid[means.index(max(means))]
        jobs = [row | chosen | {"part": "train", "seed": s} for s in range(seeds if drawn else 1)]
        running = [pool.submit(one, (job, folder, PARTS)) for job in jobs]
        results.append((row | {"chosen": chosen, "judged": round(max(means), 4)}, running))
    return choices, [_scored(*one) for one in results]


def spread(scores: list[float]) -> float:
    """Return the standard deviation over seeds."""
    return statistics.stdev(scores) if len(scores) > 1 else 0.0


def shown(results: dict[str, Any]) -> Iterator[str]:
    """Yield the results as lines of text."""
    for row in results["results"]:
        numbers = "  ".join(
            f"{part} {statistics.fmean(row[part]):.3f} ± {spread(row[part]):.3f}" for part in PARTS
        )
        labels = "all" if row["labels"] is None else row["labels"]
        yield f"{labels!s:>4} labels  {row['seen']:8} {row['model']:20} {numbers}  {row['chosen']}"


def main() -> int:
    """Read the arguments, and run the study; Ctrl-C keeps finished rows."""
    parser = argparse.ArgumentParser(description="Which flights leave late?")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder made by make.py")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one seed, one epoch, no choices")
    asked = parser.parse_args()
    try:
        before = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
        seeds = 1 if asked.quick else 10
        results = study(asked.data, seeds, asked.processes, asked.quick, before)
    except StoppedError as stopped:
        part = asked.out.with_suffix(".partial.json")
        if stopped.done:
            part.write_text(json.dumps({"results": stopped.done}, indent=1) + "\n", "utf-8")
        sys.stderr.write(f"{stopped}{f', in {part}' if stopped.done else ''}\n")
        return INTERRUPTED
    asked.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    sys.stdout.write("\n".join(shown(results)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
