"""Train from disk: data of three times the budget, and data that fit, from memory and from disk.

    python -m benchmarks.disk [--traces 32] [--times 3] [--epochs 4] [--json FILE]

A project has traces of 100 pumps over 200 hours, each with six features, facts about two predicates
and neighbours, and labels for half of the cells. One project has this many traces, which fit into
the budget, that is, the memory that training on all of them takes. The other has `--times` as many.
Each is prepared by `fotltn prepare` and trained from disk; the smaller one is also trained in
memory, with steps of the same traces. Every run is a separate process, whose operations have one
thread. Times are CPU times per fact and epoch, without reading before the first epoch: of the
thread that trains, which is the time of an epoch if a second core reads, and of all threads.
Memory is the amount that the system reports, and the part of it that is in use.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.common import report
from benchmarks.reading import HERE, spent

_TRAINS, _ALL = "ns a fact and epoch, training thread", "all threads"
PUMPS, HOURS, STEP, NEAR = 100, 200, 8, 20_000
FEATURES = [f"f{number}" for number in range(6)]

THEORY = """\
sort pump
predicate Here(pump), Alarm(pump), Failed(pump)
predicate Near(pump, pump)
axiom Warned: forall x where Here(x). G(Failed(x) -> Alarm(x))
axiom Spreads: forall x, y where Near(x, y). G(Failed(x) -> WX Alarm(y))
"""

TOML = f"""\
[theory]
file = "theory.fot"

[data]
facts = ["near.parquet"]
local = ["pump"]

[[data.wide]]
file = "pumps.parquet"
sort = "pump"
entity = "pump"
time = "hour"
trace = "site"
predicates = {{alarm = "Alarm", failed = "Failed"}}
features = {json.dumps(FEATURES)}
presence = "Here"

[predicates]
Failed = {{kind = "network", hidden = [16, 16]}}

[objective]
preset = "paper"

[training]
patience = 0

[training.batches]
by = "traces"
size = {STEP}
"""

#: Trains a project, and prints the CPU times and the memory after each epoch.
TRAIN = """
import ctypes, json, os, sys, time
from pathlib import Path
from dataclasses import replace
from fotltn.memory import keep_freed_memory
from fotltn.project.config import read_config
from fotltn.project.train import train
from fotltn.project.callbacks import EachEpoch

class Malloc(ctypes.Structure):
    _fields_ = [(str(number), ctypes.c_size_t) for number in range(10)]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Malloc
keep_freed_memory()
config = read_config(Path(sys.argv[1]))
if sys.argv[2] == "memory":
    config = replace(config, data=replace(config.data, prepared=None))
config = replace(config, training=replace(config.training, epochs=int(sys.argv[3])))
stamps = []
def note(epoch):
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    held = mallinfo()
    used = getattr(held, "7") + getattr(held, "4")  # in the heap, and mapped beside it
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    stamps.append((time.thread_time(), time.process_time(), memory, used, epoch.loss))
train(config, callbacks=[EachEpoch(note)])
print(json.dumps(stamps))
"""


def make(folder: Path, traces: int) -> int:
    """Write a project with this many traces, one after another; return the number of facts."""
    folder.mkdir()
    (folder / "theory.fot").write_text(THEORY)
    (folder / "project.toml").write_text(TOML.replace("[data]\n", '[data]\nprepared = "blocks"\n'))
    draw = np.random.default_rng(0)
    names = pa.array([f"p{number}" for number in range(PUMPS)])
    who = np.tile(np.arange(PUMPS, dtype=np.int32), HOURS)
    count, writers = 0, {}
    for trace in range(traces):
        cells = PUMPS * HOURS
        seen = draw.standard_normal((len(FEATURES), cells)).astype(np.float32)
        labelled = draw.random(cells) < 0.5
        pumps = pa.table({
            "pump": pa.DictionaryArray.from_arrays(who, names),
            "site": pa.array([f"s{trace}"] * cells).dictionary_encode(),
            "hour": np.repeat(np.arange(HOURS), PUMPS),
            "alarm": (seen[0] + seen[1] > 0).astype(np.int8),
            "failed": pa.array((seen[0] + seen[1] > 1).astype(np.int8), mask=~labelled),
            **dict(zip(FEATURES, seen, strict=True)),
        })  # fmt: skip
        places = np.unique(draw.integers(0, PUMPS * PUMPS * HOURS, NEAR))
        first, second = (
            pa.DictionaryArray.from_arrays((places // size % PUMPS).astype(np.int32), names)
            for size in (1, PUMPS)
        )
        near = pa.table({
            "predicate": pa.array(["Near"] * len(places)).dictionary_encode(),
            "arg1": first, "arg2": second, "time": places // PUMPS**2,
            "trace": pa.array([f"s{trace}"] * len(places)).dictionary_encode(),
        })  # fmt: skip
        count += 2 * cells + int(labelled.sum()) + len(places)
        for name, table in (("pumps", pumps), ("near", near)):
            if name not in writers:
                path = folder / f"{name}.parquet"
                writers[name] = parquet.ParquetWriter(path, table.schema)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()
    return count


def trained(project: Path, where: str, epochs: int, facts: int) -> dict[str, Any]:
    """Train a project and return the row."""
    call = [sys.executable, "-c", TRAIN, str(project), where, str(epochs)]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(call, stdout=printed, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"training {project} ended with {process.returncode}")
        printed.seek(0)
        stamps = json.loads(printed.read())
    training, every = (
        [after[which] - before[which] for before, after in itertools.pairwise(stamps)]
        for which in (0, 1)
    )
    return {
        _TRAINS: float(np.median(training)) / facts * 1e9,
        _ALL: float(np.median(every)) / facts * 1e9,
        "MB after epochs": " ".join(f"{one[2] / 1e6:.0f}" for one in stamps),
        "in use": " ".join(f"{one[3] / 1e6:.0f}" for one in stamps),
        "MB at most": usage.ru_maxrss / 1e3,
        "loss": stamps[-1][-1],
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=32)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        sizes = {"fits": args.traces, f"{args.times} times": args.times * args.traces}
        counts = {what: make(Path(name) / what, traces) for what, traces in sizes.items()}
        for what, facts in counts.items():
            prepared = spent(HERE, ["-m", "fotltn", "prepare", str(Path(name) / what)])
            rows.append({
                "what": "prepare", "data": what, "facts": facts,
                _ALL: prepared["CPU s"] / facts * 1e9,
                "MB at most": prepared["MB"],
            })  # fmt: skip
        runs = [("memory", "fits"), ("disk", "fits"), ("disk", f"{args.times} times")]
        for where, what in runs:
            facts = counts[what]
            took = trained(Path(name) / what, where, args.epochs, facts)
            rows.append({"what": f"train, {where}", "data": what, "facts": facts, **took})
    for row in rows[2:]:
        row["times that in memory"] = row[_TRAINS] / rows[2][_TRAINS]
        row["of all threads"] = row[_ALL] / rows[2][_ALL]
    report("Training from disk", rows, args.json, arguments=vars(args))


if __name__ == "__main__":
    main()
