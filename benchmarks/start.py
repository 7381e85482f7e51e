"""How long docs/start.md takes: from installing the wheel to a report, in a new environment.

    python -m benchmarks.start [--wheel FILE] [--constraints FILE] [--json FILE]

It makes an empty folder, and does there what the page says, block by block: the commands of its
shell blocks, the files that it shows, and the lines that it adds to them. What the commands print
has to have the words of the page. Without --wheel, the wheel is built from this checkout first,
which does not count. --constraints goes to pip, so that it takes a PyTorch for processors.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import report

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "start.md"
BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command of the page, or a file that it shows or adds to."""

    command: str = ""
    shown: str = ""
    file: str = ""
    text: str = ""


def steps(page: str) -> Iterator[Step]:
    """What the page asks for, in its order."""
    for language, title, text in BLOCK.findall(page):
        if language == "sh":
            yield from (Step(command=line) for line in text.splitlines())
        elif language == "console":
            for call in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = call.partition("\n")
                yield Step(command=command, shown=shown)
        else:
            yield Step(file=title.removeprefix("add to "), text=text)


def built(folder: Path) -> Path:
    """The wheel of this checkout."""
    call = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), "."]
    subprocess.run(call, cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def follow(wheel: Path, folder: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Do what the page says, and time each command."""
    rows: list[dict[str, Any]] = []
    active = ""  # what later commands begin with: the environment that one of them turned on
    for step in steps(PAGE.read_text("utf-8")):
        if step.file:
            with (folder / step.file).open("a", encoding="utf-8") as file:
                file.write(step.text)
            continue
        if step.command.startswith(". "):
            active += f"{step.command} && "
            continue
        command = step.command.replace("../fot-ltn", str(wheel))
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            ["bash", "-c", active + command], cwd=folder, env=environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"$ {step.command}\n{done.stdout}")
        if lacking := set(words(step.shown)) - set(words(done.stdout)):
            raise SystemExit(f"$ {step.command}\ndoes not print: {' '.join(sorted(lacking))}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rows.append({"command": step.command, "seconds": taken, "of processor time": used})
    return rows


def words(text: str) -> list[str]:
    """The words of a text; numbers differ from machine to machine, and so do lines of progress."""
    steady = re.sub(r"^epoch \d+: .*$", "", text, flags=re.MULTILINE)
    return re.findall(r"[A-Za-z]{2,}", steady)


def main() -> None:
    """Follow the page, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--constraints", type=Path)
    parser.add_argument("--json")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}  # nothing of this checkout helps
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    if args.constraints:
        environment["PIP_CONSTRAINT"] = str(args.constraints.resolve())
    with tempfile.TemporaryDirectory() as place:
        wheel = args.wheel.resolve() if args.wheel else built(Path(place) / "wheel")
        folder = Path(place) / "empty"
        folder.mkdir()
        rows = follow(wheel, folder, environment)
    total = {key: sum(row[key] for row in rows) for key in ("seconds", "of processor time")}
    rows.append({"command": "all", **total})
    remarks = {"cores": os.cpu_count(), "load by others at the start": round(load, 1)}
    report("docs/start.md, step by step", rows, args.json, **remarks)


if __name__ == "__main__":
    main()
