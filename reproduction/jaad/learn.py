"""Do temporal rules help to learn from real clips? Train the same networks with and without them.

    python -m reproduction.jaad.learn FOLDER --tables TABLES [--processes 2] [--repetitions 10]
    python -m reproduction.jaad.learn FOLDER

The first command adds missing entries to FOLDER/choice.json and FOLDER/runs.jsonl; the second
prints the tables of the runs in FOLDER.

Networks predict from features whether a pedestrian crosses and whether the car stands. A share of
the training clips of the official split is labelled. Rules apply to all training clips, and to the
validation clips, whose labels decide when to stop. Scores are measured on the test clips, which
training does not see.
"""

from __future__ import annotations

import fotltn.cli.quiet  # noqa: F401 from here on, Ctrl-C ends it with a line

# isort: split
import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fotltn.analysis.metrics import report
from fotltn.grounding.dense import present
from fotltn.grounding.groups import of_traces
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import fit
from fotltn.learn.objective import Objective, predicted
from fotltn.learn.optimizer_state import seeded
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule
from fotltn.learn.task import Task, Training
from fotltn.networks.encoders import FeatureInputs, with_changes
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import part
from fotltn.networks.predicates import Defined, Network, Predicate, mlp
from fotltn.project.config import read_config
from fotltn.project.world import World, read_world
from fotltn.semantics.config import WITNESS
from fotltn.strict_json import read_json
from reproduction.paper.sweep import uninterrupted, workers
from reproduction.report.render import percent
from reproduction.report.stats import Summary, benjamini_hochberg, summary, welch

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "jaad"
LEARNED = ("Crossing", "Stop")
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
#: The paper's rules about learned predicates that do not hold by construction.
PAPER = ("A1", "A2", "A3", "A13")
#: Two of the paper's rules, and three weaker rules or rules about the past.
OWN = ("A1", "A13", "B3", "W1", "P2")
METHODS: dict[str, tuple[tuple[str, ...], float | None]] = {
    "networks": ((), None),
    "paper's rules": (PAPER, None),
    "paper's rules, trust learned": (PAPER, 0.1),
    "own rules": (OWN, None),
    "own rules, trust learned": (OWN, 0.1),
}
#: What the network for Stop sees: only the scene, or also the pedestrians in view.
VIEWS = ("scene", "pedestrians")


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings chosen on the validation clips: the weight of the rules, and p of ∀ and G."""

    weight: float = 0.3
    p: float = 4.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    view: str
    method: str
    share: float
    repetition: int
    choice: Choice = Choice()
    validate: bool = False


@cache
def read(tables: Path) -> tuple[World, dict[str, Tensor], dict[str, Tensor]]:
    """Read all clips, the features of cars and pedestrians, and where pedestrians are present."""
    world = read_world(replace(read_config(PROJECT, data=tables), dtype="float32"))
    there = {sort: present(world.facts, sort) for sort in ("car", "ped")}
    boxes = world.fixed.inputs["ped"].values
    features = {
        "ped": with_changes(boxes, there["ped"], (5, 10)),
        "scene": world.fixed.inputs["car"].values,
    }
    near = with_changes(nearest(boxes, there["ped"]), there["car"], (5, 10))
    features["pedestrians"] = torch.cat([features["scene"], near], dim=-1)
    return world, features, there


def nearest(boxes: Tensor, there: Tensor) -> Tensor:
    """Return what the car sees of pedestrians: their number, and the features of the nearest."""
    height = boxes[..., 0].masked_fill(~there, -1.0)
    which = height.argmax(1, keepdim=True)
    one = boxes.gather(1, which.unsqueeze(-1).expand(-1, -1, -1, boxes.shape[-1]))
    some = there.any(1, keepdim=True).unsqueeze(-1)
    count = there.sum(1, keepdim=True).unsqueeze(-1).to(boxes.dtype)
    return torch.cat([one * some, count], dim=-1)


def ground(tables: Path, view: str, clips: Tensor, seed: int) -> Grounding:
    """Build networks over some clips."""
    world, features, there = read(tables)
    signature = world.theory.signature
    fixed = {n: t for n, t in world.fixed.predicates.items() if n not in (*LEARNED, "Run")}
    fixed_tables = part(replace(world.fixed, predicates=fixed), signature, traces=clips).fixed
    seen = {"car": features[view], "ped": features["ped"]}
    with seeded(seed) as generator:
        inputs = {
            sort: FeatureInputs(values[clips], present=there[sort][clips])
            for sort, values in seen.items()
        }
        predicates: dict[str, Predicate] = {
            "Crossing": Network(mlp(inputs["ped"].width, (32, 32), generator=generator)),
            "Stop": Network(mlp(inputs["car"].width, (32, 32), generator=generator)),
            "Run": Defined(("x",), "!Stop(x)"),
            "OnSidewalk": Defined(("y",), "InView(y) & !Crossing(y)"),
        }
    return Grounding(
        signature, fixed_tables, predicates, inputs=inputs,
        present={sort: mask[clips] for sort, mask in there.items()},
    ).float()  # fmt: skip


def run(tables: Path, one: Run) -> dict[str, Any]:
    """Train and score."""
    world, _, _ = read(tables)
    rules, trust = METHODS[one.method]
    train, held, test = (world.parts[n] for n in ("train", "validation", "test"))
    draw = torch.Generator().manual_seed(one.repetition)
    order = torch.randperm(len(train), generator=draw)[: max(1, round(one.share * len(train)))]
    labelled = [train[i] for i in order.tolist()]
    clips = torch.tensor(sorted((*train, *held)))
    grounding = ground(tables, one.view, clips, one.repetition)
    chosen = part(world.fixed, world.theory.signature, traces=clips)
    facts = {n: of_traces(only(world.stated), group) for n, group in
             (("learn", labelled), ("watch", held), ("test", test))}  # fmt: skip
    theory = replace(world.theory, axioms=tuple(a for a in world.theory.axioms if a.name in rules))
    objective = Objective(
        facts="cross-entropy", axioms="log" if rules else "none", together="sum",
        weight=Schedule(((0.0, one.choice.weight),)), trust=trust,
    )  # fmt: skip
    task = Task(
        grounding, Axioms(theory, WITNESS.with_p(one.choice.p)), objective,
        chosen.labels(facts["learn"]),
        Training(epochs=300, patience=20, rate=0.003, seed=one.repetition),
        chosen.labels(facts["watch"]),
    )  # fmt: skip
    began = time.perf_counter()
    outcome = fit(task)
    taken = time.perf_counter() - began
    judged = held if one.validate else test
    judge = ground(tables, one.view, torch.tensor(judged), one.repetition)
    judge.load_state_dict(grounding.state_dict())
    judge.eval()
    truth = part(world.fixed, world.theory.signature, traces=torch.tensor(judged)).labels(
        facts["watch" if one.validate else "test"]
    )
    with torch.no_grad():
        degrees = predicted(truth, judge())
    scores = report({n: (truth.truth[n] >= 0.5, d) for n, d in degrees.items()})
    return {
        "view": one.view, "method": one.method, "share": one.share, "repetition": one.repetition,
        "validate": one.validate, "weight": one.choice.weight, "p": one.choice.p,
        "clips": len(labelled), "trust": outcome.trust and dict(outcome.trust),
        "pr_auc": {n: r.pr_auc.value for n, r in scores.predicates.items()},
        "chance": {n: r.chance.value for n, r in scores.predicates.items()},
        "epochs": len(outcome.history), "seconds": taken,
    }  # fmt: skip


def only(labels: Labels) -> Labels:
    """Return labels of learned predicates; Run and OnSidewalk would only repeat them."""
    return replace(
        labels,
        index={n: labels.index[n] for n in LEARNED},
        truth={n: labels.truth[n] for n in LEARNED},
    )


# --- many runs --------------------------------------------------------------------------------


def choose(tables: Path, pool: ProcessPoolExecutor) -> dict[str, dict[str, float]]:
    """Choose weight and p for each set of rules: the best of three runs on the validation clips."""
    methods = [m for m, (rules, trust) in METHODS.items() if rules and trust is None]
    grid = [Choice(weight, p) for weight in (0.1, 0.3, 1.0, 3.0) for p in (1.0, 4.0)]
    runs = [
        Run("pedestrians", m, 0.1, r, choice, validate=True)
        for m, choice, r in product(methods, grid, range(3))
    ]
    with uninterrupted():
        results = pool.map(run, [tables] * len(runs), runs)
    listed = list(results)
    chosen = {}
    for method in methods:
        scores = {
            choice: sum(
                sum(one["pr_auc"].values())
                for asked, one in zip(runs, listed, strict=True)
                if (asked.method, asked.choice) == (method, choice)
            )
            for choice in grid
        }
        chosen[METHODS[method][0]] = max(scores, key=lambda choice: scores[choice])
    return {
        m: {"weight": chosen[rules].weight, "p": chosen[rules].p}
        for m, (rules, _) in METHODS.items()
        if rules
    }


def learn(folder: Path, tables: Path, processes: int, repetitions: int) -> None:
    """Run what is not in the folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen, path = folder / "choice.json", folder / "runs.jsonl"
    done = {(r["view"], r["method"], r["share"], r["repetition"]) for r in rows(folder)}
    with workers(processes) as pool:
        if not chosen.exists():
            chosen.write_text(json.dumps(choose(tables, pool), indent=1) + "\n", "utf-8")
        choices = read_json(chosen.read_text("utf-8"))
        runs = [
            Run(view, method, share, repetition, Choice(**choices.get(method, {})))
            for repetition, view, share, method in product(
                range(repetitions), VIEWS, SHARES, METHODS
            )
            if (view, method, share, repetition) not in done
        ]
        with uninterrupted():
            futures = [pool.submit(run, tables, one) for one in runs]
        for count, future in enumerate(as_completed(futures), 1):
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(future.result()) + "\n")
            sys.stderr.write(f"\r{count} of {len(runs)} runs")
    sys.stderr.write("\n")


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the runs on record."""
    path = folder / "runs.jsonl"
    if not path.exists():
        return []
    return [read_json(text) for text in path.read_text("utf-8").splitlines()]


# --- tables -----------------------------------------------------------------------------------


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return PR-AUC by view, predicate and share; bold if it differs significantly."""
    cells = {
        (view, name, method, share): summary(
            [r["pr_auc"][name] for r in results
             if (r["view"], r["method"], r["share"]) == (view, method, share)]
        )
        for view, name, method, share in product(VIEWS, LEARNED, METHODS, SHARES)
    }  # fmt: skip
    tested = [key for key in cells if key[2] != "networks"]
    ps = benjamini_hochberg([paired(results, *key) for key in tested])
    significant = {key for key, p in zip(tested, ps, strict=True) if p < 0.05}
    lines = [
        "| Stop sees | predicted | learned by | " + " | ".join(percent(s) for s in SHARES) + " |"
    ]
    lines.append("| :-- | :-- | :-- | " + " | ".join("--:" for _ in SHARES) + " |")
    for view, name, method in product(VIEWS, LEARNED, METHODS):
        shown = []
        for share in SHARES:
            key = (view, name, method, share)
            text = f"{cells[key].mean:.3f} ± {cells[key].std:.3f}"
            shown.append(f"**{text}**" if key in significant else text)
        lines.append(f"| {view} | {name} | {method} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def paired(
    results: Sequence[dict[str, Any]], view: str, name: str, method: str, share: float
) -> float:
    """Return p of the paired t-test against networks; pairs share clips and initial weights."""
    scores = {
        (r["method"], r["repetition"]): r["pr_auc"][name]
        for r in results
        if (r["view"], r["share"]) == (view, share)
    }
    changes = summary([v - scores["networks", r] for (m, r), v in scores.items() if m == method])
    return welch(changes, Summary(changes.count, 0.0, 0.0)).p


def trust(results: Sequence[dict[str, Any]]) -> str:
    """Return how far each rule is trusted, on average."""
    lines = ["| rules | " + " | ".join(percent(s) for s in SHARES) + " |"]
    lines.append("| :-- | " + " | ".join("--:" for _ in SHARES) + " |")
    for method, (rules, learned) in METHODS.items():
        for rule in rules if learned else ():
            shown = []
            for share in SHARES:
                values = [
                    r["trust"][rule]
                    for r in results
                    if (r["method"], r["share"]) == (method, share)
                ]
                shown.append(f"{sum(values) / len(values):.2f}")
            lines.append(f"| {rule}, of {method.split(',')[0]} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> int:
    """Train, or show the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=10)
    args = parser.parse_args()
    if args.tables is not None:
        learn(args.folder, args.tables.resolve(), args.processes, args.repetitions)
    results = [r for r in rows(args.folder) if not r["validate"]]
    if not results:
        sys.stderr.write(f"there are no runs in '{args.folder}'; run with --tables\n")
        return 1
    sys.stdout.write(f"{table(results)}\n\n{trust(results)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
