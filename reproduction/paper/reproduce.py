"""The reproduction: runs, the Bayes limit, and statistics of the data sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fotltn.analysis.metrics import kb_sat
from fotltn.errors import DataError
from fotltn.evaluation import axiom_values
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import STABLE_PRODUCT
from reproduction.paper.bayes import BURN_IN, CHAINS, LabelsOf, limits
from reproduction.paper.carped import statistics
from reproduction.paper.protocol import DATA, FLIPS, READING, Run, Setting, facts_of, world
from reproduction.paper.sweep import Key, append, done

#: A small but meaningful version: one data set, two fractions, two repetitions.
QUICK_DATA = ("CarPed35K",)
QUICK_FRACTIONS = (0.1, 0.8)
QUICK_REPETITIONS = 2
QUICK_EPOCHS = 200

#: The method name in records of the Bayes limit.
LIMIT = "Bayes limit"


def check_device(device: str) -> None:
    """Raise an error if a device is not available.

    Raises:
        DataError: there is no such device, or it is neither a CPU nor an NVIDIA GPU.
    """
    try:
        wanted = torch.device(device)
        if wanted.type not in ("cpu", "cuda"):
            raise RuntimeError("expected cpu or cuda")
        torch.zeros(1, device=wanted)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0][:200]
        if first.startswith("Expected one of"):  # a list of all devices that PyTorch knows
            first = "expected cpu or cuda"
        raise DataError(f"the device '{device}' cannot be used: {first}") from None


def truth_values(name: str, *, state: str = "truth") -> dict[str, float]:
    """Return the values of the axioms on the truth of a data set, or on "all-false"."""
    source = world(name)
    learned = {
        n: torch.from_numpy(t.astype("float32")).reshape(1, t.shape[0], -1)
        for n, t in source.scene.tables().items()
        if n in LEARNED
    }
    if state == "all-false":
        learned = {n: torch.zeros_like(t) for n, t in learned.items()}
    model = replace(source.close, predicates={**source.close.predicates, **learned})
    formulas = {a.name: a.formula for a in source.theory.axioms}
    with torch.no_grad():
        values = axiom_values(formulas, model, STABLE_PRODUCT)
    return {n: float(v) for n, v in values.items()}


def background(names: Sequence[str] = tuple(DATA)) -> dict[str, Any]:
    """Return counts of facts, and the KB-SAT of the truth and of all-false, for the tables."""
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
    on_done: Callable[[int, int], None] | None = None,
) -> int:
    """Add missing records of the Bayes limit to a file.

    Args:
        names: the names of data sets.
        fractions: the shares of the facts to learn from.
        repetitions: the number of repetitions.
        path: a JSON Lines file; the records of a fraction are added when they are done.
        setting: the setting, which says which facts to learn from.
        device: the device to compute on.
        on_done: a function to call with the number of finished records and the total.

    Returns:
        The number of records that were added.

    Raises:
        DataError: the file holds records of another setting or something else, or cannot be
            written.
    """
    known = done(path, {"flip_rate": FLIPS, "burn_in": BURN_IN, "chains": CHAINS})
    wanted = [
        (name, fraction, [r for r in range(repetitions) if _limit(name, fraction, r) not in known])
        for name in names
        for fraction in fractions
    ]
    total = len(wanted) * repetitions
    added = sum(len(left) for *_, left in wanted)
    count = total - added
    for name, fraction, left in wanted:
        if not left:
            continue
        append(path, list(limits(
            world(name).scene, name, _labels_of(name, setting), [fraction], left,
            flip_rate=FLIPS, device=device,
        )))  # fmt: skip
        count += len(left)
        if on_done is not None:
            on_done(count, total)
    return added


def _limit(name: str, fraction: float, repetition: int) -> Key:
    return (name, LIMIT, fraction, repetition)


def _labels_of(name: str, setting: Setting) -> LabelsOf:
    return lambda fraction, repetition: facts_of(Run(name, LIMIT, fraction, repetition), setting)
