"""Measure what users run, end to end: here, in another checkout, and in LTNtorch with a loop.

    python -m benchmarks.users CHECKOUT [--rows 10000000] [--rounds 2] [--json FILE]

Each measurement is a separate process with one thread, and the sides alternate: `fotltn train` and
`score` on a scene of CarPed180K's size, a first answer (`fotltn ask`), `fotltn rules` on made-up
flights, and reading facts. Cold means an empty cache of compiled Python code; warm is the fastest
of the rounds after that. Nothing else is kept between processes. LTNtorch materialises all pairs,
so it learns on a smaller scene (`benchmarks/ltntorch_loop.py`). The others also learn on that
scene, with the same axioms, free degrees and LTNtorch's semantics.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import flights
from benchmarks.common import report
from benchmarks.reading import HERE, READ, make, spent

SCENE = ("--cars", "100", "--pedestrians", "100", "--steps", "150")
SMALL = ("--cars", "30", "--pedestrians", "30", "--steps", "60")
EPOCHS, SMALL_EPOCHS = 300, 100
PLANES, AIRPORTS, HOURS = 300, 30, 300
QUESTION = "forall x. G(Car(x) -> Run(x) | Stop(x))"
PEER = "LTNtorch"
FREE = """[theory]
file = "theory.fot"
semantics = "ltn"
p = 4

[data]
facts = ["facts.csv"]
train = 0.1
seed = 0

[predicates]
Car = "logits"
Ped = "logits"
Run = "logits"
Stop = "logits"
Crossing = "logits"
OnSidewalk = "logits"

[objective]
preset = "paper"

[training]
patience = 0
rate = 0.05
"""


def prepare(folder: Path, rows: int, sides: dict[str, Path]) -> int:
    """Make all data, and copies of projects for each side; return the number of facts to read."""
    made = make(folder / "reading", rows)
    flights.write(flights.made_up(PLANES, AIRPORTS, HOURS), folder / "flights.csv")
    for name, scene in (("scene", SCENE), ("small", SMALL)):
        spent(HERE, ["-m", "fotltn", "new", str(folder / name), *scene])
        if name == "small":
            (folder / name / "project.toml").write_text(FREE, "utf-8")
        for side in (*sides, PEER):
            shutil.copytree(folder / name, folder / side / name)
    return made


def calls(folder: Path, side: str) -> dict[str, list[str]]:
    """Return the commands of one side by name, in order. Their old names work on both sides."""
    scene, small = str(folder / side / "scene"), str(folder / side / "small")
    learn = f"train, {SMALL_EPOCHS} epochs, 60 entities, 60 steps"
    if side == PEER:
        loop = ["-m", "benchmarks.ltntorch_loop", small, "--epochs", str(SMALL_EPOCHS)]
        return {learn: loop}
    fot = ["-m", "fotltn"]
    epochs = ["--fresh", "--epochs"]
    return {
        f"train, {EPOCHS} epochs": [*fot, "train", scene, *epochs, str(EPOCHS)],
        "score": [*fot, "evaluate", scene],
        "first answer": [*fot, "query", scene, QUESTION],
        "rules": [
            *fot, "rules", str(flights.THEORY), "--facts", str(folder / "flights.csv"),
            "--resamples", "0",
        ],
        "read CSV": [
            "-c", READ, str(folder / "reading" / "theory.fot"),
            str(folder / "reading" / "facts.csv"),
        ],
        learn: [*fot, "train", small, *epochs, str(SMALL_EPOCHS)],
    }  # fmt: skip


def measured(folder: Path, sides: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    """Return a row for each task, with the time of each side, cold and warm."""
    times: dict[str, dict[str, list[float]]] = {}
    for number in range(1 + rounds):
        for side, checkout in {**sides, PEER: HERE}.items():
            cache = str(folder / "cache" / side)
            for what, call in calls(folder, side).items():
                code = {"PYTHONPYCACHEPREFIX": f"{cache}/{what}", "PYTHONDONTWRITEBYTECODE": ""}
                taken = spent(checkout, call, **code)["CPU s"]
                times.setdefault(what, {}).setdefault(side, []).append(taken)
                print(f"round {number}: {what}, {side}: {taken:.2f} s", flush=True)
    return [_row(what, by) for what, by in times.items()]


def _row(what: str, by: dict[str, list[float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"what": what}
    for side, (cold, *warm) in by.items():
        row |= {f"{side}, cold s": cold, f"{side}, warm s": min(warm)}
    for side, (_, *warm) in by.items():
        if side != "now":
            row[f"{side} / now"] = min(warm) / min(by["now"][1:])
    return row


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    sides = {"now": HERE, "before": args.checkout.resolve()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = prepare(folder, args.rows, sides)
        rows = measured(folder, sides, args.rounds)
    report(f"end to end, {facts:,} facts read", rows, args.json, facts=facts)


if __name__ == "__main__":
    main()
