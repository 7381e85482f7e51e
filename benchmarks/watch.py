"""Measure the watch: steps per second, arriving entities, nested X, memory, and a day with kills.

    python -m benchmarks.watch [--json FILE] [--steps 20000] [--entities 100000] [--speed]
    python -m benchmarks.watch --day 1000000 [--kills 20]
    python -m benchmarks.watch --project examples/flights [--kills 20]
    python -m benchmarks.watch --project examples/jaad --data FOLDER --presence InView

The day runs in a process that kills itself again and again, each time after a number of steps taken
or of events written, which a seed draws. It resumes from its folder each time. All traces of a
project run the same way, one after another. Their violations are compared with those of the
offline evaluator on all steps, and fewer kills than asked for are an error. Times are CPU times.
"""

from __future__ import annotations

import argparse
import json
import marshal
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.common import carped_theory, report
from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.view import View
from fotltn.grounding.dense import tables_of_facts
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.monitor.journal import Journal
from fotltn.monitor.monitor import Keep, Monitor
from fotltn.monitor.steps import Header, StepInput
from fotltn.monitor.trace import steps as trace_steps
from fotltn.monitor.verdicts import StateLines
from fotltn.monitor.watch import Watch
from fotltn.project.config import read_config
from fotltn.project.scene import Scene, generate
from fotltn.project.world import read_world
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Names, Tables
from fotltn.strict_json import read_json
from fotltn.syntax.load import parse_theory

MANY = """
sort s
static predicate Car(s)
predicate a(s), b(s), near(s, s)
axiom A: forall x. G(a(x) -> F b(x))
axiom B: forall x, y. G(near(x, y) & a(x) -> X[2] b(y))
axiom C: forall x. G(Car(x) & a(x) -> F[<=5] b(x))
axiom D: forall x. G(b(x) -> O[<=9] a(x))
"""
CHANGING = ("Run", "Stop", "Crossing", "OnSidewalk")
MOMENTS = ("steps", "events")  # what is counted until a kill

T = TypeVar("T")


def header_of(scene: Scene) -> Header:
    """Return the header of a scene: its entities and static facts."""
    tables = scene.tables()
    static = [
        (predicate, agent)
        for predicate in ("Car", "Ped")
        for agent, true in zip(scene.agents, tables[predicate], strict=True)
        if true
    ]
    return Header(static, entities={"agent": list(scene.agents)})


def steps_of(scene: Scene) -> list[dict[str, Any]]:
    """Return a scene step by step."""
    names, tables = scene.agents, scene.tables()
    steps: list[dict[str, Any]] = [{"facts": []} for _ in range(scene.size.steps)]
    for predicate in (*CHANGING, "Close"):
        for *agents, t in np.argwhere(tables[predicate]).tolist():
            steps[t]["facts"].append([predicate, *(names[n] for n in agents)])
    return steps


def speed(count: int) -> Iterator[dict[str, Any]]:
    """Measure the paper's axioms with twenty agents; lines of JSON in, events out."""
    scene = generate(10, 10, 2000, seed=0)
    lines = [json.dumps(step) for step in steps_of(scene)]
    lines = (lines * (count // len(lines) + 1))[:count]
    for at_once in (True, False):
        watch = Watch(carped_theory(), header=header_of(scene))
        some = lines if at_once else lines[: count // 10]
        began = time.process_time()
        events = watch.steps(some) if at_once else (e for line in some for e in watch.step(line))
        told = sum(len(json.dumps(event.as_dict())) > 0 for event in events)
        spent = time.process_time() - began
        how = "many at once" if at_once else "one by one"
        yield {"what": f"13 axioms, 20 agents, {how}", "seconds": spent, "violations": told,
               "steps/s": len(some) / spent}  # fmt: skip


def values(count: int) -> Iterator[dict[str, Any]]:
    """Measure the same in a monitor: verdicts on whole axioms, with and without degrees."""
    scene, rng = generate(10, 10, 2000, seed=0), random.Random(4)
    steps = steps_of(scene)
    soft = [{"facts": [[*f, round(rng.uniform(0.5, 1), 3)] for f in s["facts"]]} for s in steps]
    kinds: list[tuple[Keep, list[dict[str, Any]], str]] = [
        ("constant", steps, "with values"),
        ("constant", soft, "with values, every fact with a degree"),
        ("none", steps, "verdicts alone"),
    ]
    for keep, some, how in kinds:
        lines = [json.dumps(step) for step in some]
        lines = (lines * (count // len(lines) + 1))[:count]
        monitor = Monitor(carped_theory(), header=header_of(scene), values=keep)
        began = time.process_time()
        done = sum(1 for _ in monitor.steps(lines))
        monitor.values()
        spent = time.process_time() - began
        yield {"what": f"monitor, {how}", "seconds": spent, "steps/s": done / spent}
        if keep == "none":
            continue
        for every, at_once in ((1, True), (10, True), (100, True), (1, False)):
            part = lines if at_once else lines[: count // 100]
            monitor = Monitor(carped_theory(), header=header_of(scene), values_every=every)
            began = time.process_time()
            written = sum(map(len, json_lines(monitor, part, at_once)))
            spent = time.process_time() - began
            which = "each step" if every == 1 else f"every {every} steps"
            one = "" if at_once else ", one by one"
            yield {"what": f"monitor, {how} after {which} as JSON{one}", "seconds": spent,
                   "steps/s": len(part) / spent, "bytes": written}  # fmt: skip


def json_lines(monitor: Monitor, lines: list[str], at_once: bool) -> Iterator[str]:
    """Yield what `fotltn monitor --json --every …` prints, of many lines or of one at a time."""
    texts = StateLines()
    for states in monitor.steps(lines) if at_once else map(monitor.step, lines):
        if states.values is not None:
            yield texts.line({"step": states.step}, states, states.values)


def entities(count: int) -> Iterator[dict[str, Any]]:
    """Add a new entity at every step; yield the time of each quarter."""
    watch, began, last = Watch(parse_theory(MANY)), time.process_time(), 0.0
    for n in range(count):
        name, before = f"e{n}", f"e{max(0, n - 3)}"
        facts = [("Car", name), ("a", name), ("near", name, f"e{max(0, n - 1)}")]
        watch.step([*facts, ("b", before)])
        if (n + 1) % (count // 4) == 0:
            spent = time.process_time() - began
            yield {"what": f"entities one by one, up to {n + 1:,}", "seconds": spent - last,
                   "steps/s": count / 4 / (spent - last)}  # fmt: skip
            last = spent


def nested(depth: int) -> Iterator[dict[str, Any]]:
    """Measure `G(a -> X … X b)`, from its text to the violation."""
    began = time.process_time()
    watch = Watch(parse_theory(f"predicate a, b\naxiom A: G(a -> {'X ' * depth}b)"))
    watch.step([("a",)])
    told = list(watch.steps([[]] * depth))
    assert [(e.time, e.step) for e in told] == [(0, depth)]
    yield {"what": f"{depth:,} nested X", "seconds": time.process_time() - began}


def resident() -> int:
    """Return the memory of this process, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20


def memory(count: int) -> Iterator[dict[str, Any]]:
    """Let entities come and go for many steps; the watch forgets them."""
    watch = Watch(parse_theory(MANY), forget=100)
    for part in range(4):
        for n in range(part * count // 4, (part + 1) * count // 4, 1000):
            names = [(f"e{k // 5}", f"e{k // 5 - 1}") for k in range(n, n + 1000)]
            for _ in watch.steps([("a", x), ("b", y), ("near", x, y)] for x, y in names):
                pass
        yield {"what": f"memory after {watch.count:,} steps, in MiB", "seconds": float(resident())}


# --- a day ---------------------------------------------------------------------------------------


def day(count: int) -> Scene:
    """Generate a scene in which some cars do not stop."""
    return generate(3, 3, count, seed=1, close=0.02)


def day_steps(count: int, folder: Path | None = None) -> list[dict[str, Any]]:
    """Return its steps, some of which are wrong; they are made once for a folder."""
    path = None if folder is None else folder / "steps"
    if path is not None and path.exists():
        return marshal.loads(path.read_bytes())  # type: ignore[no-any-return]
    rng, steps = random.Random(2), steps_of(day(count))
    for number in range(0, count, 97):
        facts = steps[number]["facts"]
        if facts:
            facts.pop(rng.randrange(len(facts)))
    if path is not None:
        path.write_bytes(marshal.dumps(steps))
    return steps


def run_day(folder: Path, count: int, kill: Kill) -> None:
    """Resume from a folder and run to the end."""
    steps = day_steps(count, folder)
    watch = Watch(carped_theory(), header=header_of(day(1)))
    with Journal(folder) as journal:
        journal.resume(watch)
        while watch.count < count:
            first = watch.count
            run_steps(watch, journal, steps[first : first + 2000], kill)
            if watch.count % 10_000 == 0:
                journal.save(watch, None)
        journal.write(kill.count(watch.finish("undecided"), "events"))
    (folder / "done").touch()


def whole_day(count: int, kills: int) -> dict[str, Any]:
    """Kill the day again and again, and compare it with the offline evaluator."""
    expected = offline(count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        day_steps(count, folder)
        killed = killed_runs(folder, {"steps": count, "events": expected.total()}, kills)
        events = written(folder)
    told = Counter((e["axiom"], tuple(e["binding"].values()), e["time"]) for e in events)
    compare(told, expected)
    return {"what": f"a day of {count:,} steps", "killed": killed, "violations": told.total()}


# --- kills ---------------------------------------------------------------------------------------


class Kill:
    """Kills this process after a number of steps, or of events."""

    def __init__(self, moment: str | None) -> None:
        """Read what is counted and how far, such as `events:12`; None for never."""
        self.what, _, number = (moment or ":0").partition(":")
        self.left = int(number)

    def count(self, things: Iterable[T], what: str) -> Iterator[T]:
        """Yield things, and count them."""
        for thing in things:
            if what == self.what:
                self.left -= 1
                if not self.left:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield thing


def run_steps(watch: Watch, journal: Journal, steps: Sequence[StepInput], kill: Kill) -> None:
    """Take steps, and write what comes of them."""
    events = watch.steps(kill.count(steps, "steps"))
    journal.write(kill.count(events, "events"))


def killed_runs(folder: Path, sizes: Mapping[str, int], kills: int) -> int:
    """Run until all is done; return how often the run was killed.

    Args:
        folder: what the runs resume from; the last one leaves a file `done` there.
        sizes: how many steps and events there are in all.
        kills: how many there are to be.
    """
    rng, killed = random.Random(3), 0
    call = [sys.executable, *sys.orig_argv[1:], "--folder", str(folder)]
    while not (folder / "done").exists():
        moment = []
        if killed < kills:
            what = MOMENTS[killed % len(MOMENTS)]
            moment = ["--kill-at", f"{what}:{rng.randint(1, max(1, sizes[what] // kills))}"]
        status = subprocess.run([*call, *moment], check=False).returncode
        assert status in (0, -signal.SIGKILL), f"the watch ended with status {status}"
        killed += status != 0
    assert killed == kills, f"the watch was killed {killed} times, not {kills}"
    return killed


def written(folder: Path) -> list[dict[str, Any]]:
    """Return the violations that a watch wrote to its folder; every event has its number."""
    events = [read_json(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["number"] for event in events] == list(range(len(events)))
    return [event for event in events if event["event"] == "violation"]


def compare(told: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]]) -> None:
    """Check that every violation occurs once, and no other."""
    assert told == expected, ((told - expected).most_common(3), (expected - told).most_common(3))


def offline(count: int) -> Counter[tuple[Any, ...]]:
    """Return the violations of a day, from the evaluator that sees all of it."""
    scene, theory = day(1), carped_theory()
    agents = scene.agents
    number = {name: place for place, name in enumerate(agents)}
    size = len(agents)
    tables = {n: torch.zeros(1, size, count) for n in CHANGING}
    tables["Close"] = torch.zeros(1, size, size, count)
    for n in ("Car", "Ped"):
        tables[n] = torch.tensor(scene.tables()[n]).float().reshape(1, size, 1)
    for t, step in enumerate(day_steps(count)):
        for predicate, *names in step["facts"]:
            tables[predicate][(0, *(number[n] for n in names), t)] = 1
    data = Tables(
        {"agent": size}, torch.tensor([count]), count, dict(tables),
        names=Names(entities={"agent": tuple(agents)}), signature=theory.signature,
    )  # fmt: skip
    told: Counter[tuple[Any, ...]] = Counter()
    for axiom in theory.axioms:
        cells = View(data, CRISP, budget=2**34).cells(axiom)
        rows, rule, cut = cell_rows(cells), cells.prefix.rule, cells.undecided
        assert rows is not None
        fails = c.Not(cells.body) if rule is None else c.And(rule[0], c.Not(rule[1]))
        false = rows.where(fails)
        wrong = false if cut is None else rows.where(c.Not(cut), false)
        for cell in rows.first(wrong, 10**9):
            told[axiom.name, tuple(cells.binding(cell).values()), cell.time] += 1
    return told


# --- all traces of a project ---------------------------------------------------------------------


def project_tables(project: Path, data: Path | None) -> tuple[CheckedTheory, Tables]:
    """Return the theory of a project, and its facts."""
    world = read_world(replace(read_config(project, data=data), dtype="float64"))
    return world.theory, tables_of_facts(world.facts, world.theory.signature, dtype=torch.float64)


def run_traces(
    folder: Path, project: Path, data: Path | None, presence: list[str], kill: Kill
) -> None:
    """Watch the unfinished traces to their ends, each from where it stopped."""
    theory, tables = project_tables(project, data)
    for trace in range(len(tables.lengths)):
        place = folder / str(trace)
        if (place / "done").exists():
            continue
        header, steps = trace_steps(tables, trace)
        watch = Watch(theory, header=header, presence=presence)
        with Journal(place) as journal:
            journal.resume(watch)
            while watch.count < len(steps):
                run_steps(watch, journal, steps[watch.count : watch.count + 7], kill)
                if watch.count % 21 == 0:
                    journal.save(watch, None)
            journal.write(kill.count(watch.finish("final"), "events"))
        (place / "done").touch()
    (folder / "done").touch()


def whole_project(project: Path, data: Path | None, kills: int) -> dict[str, Any]:
    """Kill the watch of a project's traces again and again, and compare it with offline."""
    theory, tables = project_tables(project, data)
    traces, steps = len(tables.lengths), int(tables.lengths.sum())
    expected: Counter[tuple[Any, ...]] = Counter()
    for axiom in theory.axioms:
        for cell in View(tables, CRISP, 0.5, end="final").cells(axiom).worst(10**9):
            if cell.violated:
                binding = tuple(cell.binding.values())
                expected[int(cell.trace), axiom.name, binding, cell.time or 0] += 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed = killed_runs(folder, {"steps": steps, "events": expected.total()}, kills)
        told = Counter(
            (trace, e["axiom"], tuple(e["binding"].values()), e["time"])
            for trace in range(traces)
            for e in written(folder / str(trace))
        )
    compare(told, expected)
    return {
        "what": f"{project.name}: {traces} traces, {steps:,} steps",
        "killed": killed,
        "violations": told.total(),
    }


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--long", type=int, default=1_000_000)
    parser.add_argument("--day", type=int)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--project", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--presence", action="append", default=[])
    parser.add_argument("--folder", type=Path, help="resume from there, and run to the end")
    parser.add_argument("--kill-at", help="with --folder: when to die, as events:12 or steps:7")
    parser.add_argument("--speed", action="store_true", help="measure only steps per second")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.folder is not None and options.project is not None:
        kill = Kill(options.kill_at)
        run_traces(options.folder, options.project, options.data, options.presence, kill)
        return
    if options.folder is not None:
        run_day(options.folder, options.day, Kill(options.kill_at))
        return
    if options.project is not None:
        rows = [whole_project(options.project, options.data, options.kills)]
    elif options.day is not None:
        rows = [whole_day(options.day, options.kills)]
    else:
        rows = [*speed(options.steps), *values(options.steps)]
        if not options.speed:
            rows += [*entities(options.entities), *nested(10_000), *memory(options.long)]
    report("The watch", rows, options.json)


if __name__ == "__main__":
    main()
