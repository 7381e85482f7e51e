"""Measure epochs of `fotltn train` on a scene of CarPed180K's size, here and in another checkout.

    python -m benchmarks.epochs [CHECKOUT] [--compile] [--device cuda] [--epochs 3 300 3000]
                                [--json FILE]

Each run is a separate process: the command as users run it, with everything around the epochs. The
time of an epoch is the difference between runs with more and fewer epochs, so it includes nothing
else. The checkouts alternate. The first run of each is cold: no compiled Python code is cached. All
others are warm, and the fastest of several `--rounds` counts. With `--compile`, the current
version also runs with `compile = true`; the first run fills the compiler's cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common import report

HERE = Path(__file__).resolve().parent.parent
COMPILED = "compiled"
SCENE = ("--cars", "100", "--pedestrians", "100", "--steps", "150")


def ran(checkout: Path, cache: Path, *words: str) -> tuple[float, float]:
    """Run a command; return its wall time and CPU time in seconds."""
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    path = os.pathsep.join(str(Path(p).resolve()) for p in (checkout, *paths))
    code = {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fotltn", *words], cwd=tempfile.gettempdir(),
        stdout=subprocess.DEVNULL, env={**os.environ, **code},
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{checkout}: fotltn {' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def measured(
    folder: Path, sides: dict[str, Path], epochs: list[int], rounds: int, device: str
) -> list[dict[str, Any]]:
    """Return a row for each checkout and number of epochs, cold runs first."""
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for side, checkout in sides.items():
        ran(checkout, folder / f"{side}.code", "new", str(folder / side), *SCENE)
        project = folder / side / "project.toml"
        text = project.read_text("utf-8")
        machine = f'\n[machine]\ndevice = "{device}"\ncompile = {str(side == COMPILED).lower()}\n'
        project.write_text(text + machine, "utf-8")
    runs = [("cold", epochs[0]), *((f"{n:,} epochs", n) for n in epochs * rounds)]
    for what, count in runs:
        for side, checkout in sides.items():
            code = folder / f"{side}.train"
            words = ("train", str(folder / side), "--fresh", "--epochs", str(count))
            taken = ran(checkout, code, *words)
            times.setdefault((side, what), []).append(taken)
            print(f"{side}, {what}: {taken[0]:.2f} s, CPU {taken[1]:.2f} s", flush=True)
    best = {key: tuple(map(min, zip(*taken, strict=True))) for key, taken in times.items()}
    rows = [
        {"what": f"{side}, {what}" + (f", {epochs[0]} epochs" if what == "cold" else ""),
         "s": wall, "CPU s": cpu}
        for (side, what), (wall, cpu) in best.items()
    ]  # fmt: skip
    for side in sides:
        for few, many in pairwise(epochs):
            pair = [best[side, f"{n:,} epochs"] for n in (few, many)]
            wall, cpu = ((b - a) / (many - few) * 1e3 for a, b in zip(*pair, strict=True))
            what = f"{side}, per epoch, from {few:,} to {many:,}"
            rows.append({"what": what, "ms": wall, "CPU ms": cpu})
    return rows


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--epochs", type=int, nargs="+", default=[3, 300, 3000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    sides = {"now": HERE}
    if args.checkout is not None:
        sides["before"] = args.checkout.resolve()
    if args.compile:
        sides[COMPILED] = HERE
    with tempfile.TemporaryDirectory() as name:
        rows = measured(Path(name), sides, args.epochs, args.rounds, args.device)
    report("fotltn train, 200 entities, 150 steps", rows, args.json)


if __name__ == "__main__":
    main()
