"""The reproduction: runs, the Bayes limit, and what is known of the data sets themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fotltn.experiments.bayes import limits
from fotltn.experiments.carped import LEARNED, statistics
from fotltn.experiments.protocol import DATA, READING, Run, Setting, facts_of, world
from fotltn.learn.metrics import kb_sat
from fotltn.learn.sweep import axiom_values
from fotltn.semantics.config import STABLE_PRODUCT

#: A small version that still means something: one data set, three fractions, three repetitions.
QUICK_FRACTIONS = (0.1, 0.4, 0.8)
QUICK_REPETITIONS = 3


def quick(setting: Setting = READING) -> Setting:
    """The setting of the small version."""
    return replace(setting, epochs=200)


def truth_values(name: str, *, state: str = "truth") -> dict[str, float]:
    """The values of the axioms on what is true of a data set, or ("all-false") if nothing is."""
    found = world(name)
    learned = {
        n: torch.from_numpy(t.astype("float32")).reshape(1, t.shape[0], -1)
        for n, t in found.scene.tables().items()
        if n in LEARNED
    }
    if state == "all-false":
        learned = {n: torch.zeros_like(t) for n, t in learned.items()}
    model = replace(found.close, predicates={**found.close.predicates, **learned})
    formulas = {a.name: a.formula for a in found.theory.axioms}
    with torch.no_grad():
        values = axiom_values(
            formulas, found.theory.signature, model, STABLE_PRODUCT, dtype=torch.float32
        )
    return {n: float(v) for n, v in values.items()}


def background(names: Sequence[str] = tuple(DATA)) -> dict[str, Any]:
    """What the tables show beside the runs: counts, and KB-SAT of the truth and of all-false."""
    return {
        "statistics": {n: statistics(world(n).scene) for n in names},
        "truth": {n: kb_sat(list(truth_values(n).values())).value for n in names},
        "all_false": min(
            kb_sat(list(truth_values(n, state="all-false").values())).value for n in names
        ),
    }


def bayes(
    names: Sequence[str],
    fractions: Sequence[float],
    repetitions: int,
    path: Path,
    *,
    setting: Setting = READING,
    device: str = "cpu",
) -> None:
    """Add the records of the Bayes limit that a file lacks."""
    known = set()
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            one = json.loads(line)
            known.add((one["data"], one["fraction"], one["repetition"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for name in names:

            def labels_of(fraction: float, repetition: int, name: str = name) -> Any:
                return facts_of(Run(name, "Bayes limit", fraction, repetition), setting)

            for fraction in fractions:
                left = [r for r in range(repetitions) if (name, fraction, r) not in known]
                for one in limits(
                    world(name).scene, name, labels_of, [fraction], left, device=device
                ):
                    file.write(json.dumps(one) + "\n")
                    file.flush()
