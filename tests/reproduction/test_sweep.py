"""The sweep: what is on record is not run again, and nothing that was done is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fotltn import DataError
from fotltn.errors import LimitError
from reproduction.paper import sweep as module
from reproduction.paper.many import run_many
from reproduction.paper.protocol import READING, Run, grid
from reproduction.paper.sweep import append, done, sweep
from reproduction.report.records import read
from tests.patience import PATIENCE
from tests.reproduction.tiny import tiny

__all__ = ["tiny"]

SETTING = replace(READING, epochs=2)
SMALL = tuple(grid(("CarPed35K",), ("FOT-LTN", "HTGNN"), (0.1, 0.8), 2))


def made_up(runs, setting, device="cpu"):
    """Records without any training."""
    return [
        {"data": r.data, "method": r.method, "fraction": r.fraction, "repetition": r.repetition,
         "setting": asdict(setting), "seed": r.seed, "device": device, "batch": len(runs)}
        for r in runs
    ]  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """What was run, instead of running it."""
    found: list[list[Run]] = []

    def pretend(runs, setting, *, device="cpu"):
        found.append(list(runs))
        return made_up(runs, setting, device)

    monkeypatch.setattr(module, "run_many", pretend)
    return found


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def keys(path):
    return [(r["method"], r["fraction"], r["repetition"]) for r in lines(path)]


# --- groups ----------------------------------------------------------------------------------


def test_on_a_cpu_each_run_is_one_and_repetitions_come_in_turn(calls, tmp_path):
    assert sweep(SMALL, SETTING, tmp_path / "deep" / "r.jsonl") == 8
    assert all(len(group) == 1 for group in calls)
    assert [group[0].repetition for group in calls] == [0] * 4 + [1] * 4
    assert {group[0] for group in calls} == set(SMALL)
    assert len(lines(tmp_path / "deep" / "r.jsonl")) == 8


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_on_a_gpu_the_runs_of_a_data_set_and_method_are_one(calls, tmp_path, device):
    sweep(reversed(list(grid())), SETTING, tmp_path / "r.jsonl", device=device, processes=4)
    assert [len(group) for group in calls] == [80] * 6
    assert len({(g[0].data, g[0].method) for g in calls}) == 6
    assert all(len({(r.data, r.method) for r in group}) == 1 for group in calls)
    assert {r["device"] for r in lines(tmp_path / "r.jsonl")} == {device}


@pytest.mark.usefixtures("calls")
def test_batches_are_reported(tmp_path):
    told = []
    path = tmp_path / "r.jsonl"
    sweep(SMALL[:3], SETTING, path)
    sweep(SMALL, SETTING, path, on_batch=lambda *now: told.append(now))
    assert [(count, total) for *_, count, total in told] == [(n, 8) for n in range(4, 9)]
    for group, found, *_ in told:
        assert [r["seed"] for r in found] == [run.seed for run in group]


# --- going on --------------------------------------------------------------------------------


def test_what_is_on_record_is_not_run_again(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    assert sweep(SMALL[:5], SETTING, path) == 5
    assert sweep([*SMALL, *SMALL], SETTING, path) == 3
    assert sweep(SMALL, SETTING, path) == 0
    assert len(calls) == 8
    assert sorted(keys(path)) == sorted((r.method, r.fraction, r.repetition) for r in SMALL)


@pytest.mark.parametrize("cut", [1, 2, 20, 200])
def test_a_line_that_was_cut_off_is_run_again(calls, tmp_path, cut):
    """Also one that lacks only its end of line."""
    path = tmp_path / "r.jsonl"
    sweep(SMALL, SETTING, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert len(done(path, asdict(SETTING))) == 7
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:-1])
    assert sweep(SMALL, SETTING, path) == 1
    assert calls[-1] == calls[-2] == [SMALL[-1]]
    assert path.read_bytes() == whole


def test_a_cut_inside_a_batch_keeps_its_whole_lines(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    sweep(SMALL, SETTING, path, device="cuda")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4 + 10])
    assert sweep(SMALL, SETTING, path, device="cuda") == 2
    assert [len(group) for group in calls] == [4, 4, 2]
    assert path.read_bytes().count(b"\n") == 8


@pytest.mark.usefixtures("calls")
def test_a_cut_off_line_of_another_grid_does_not_stay(tmp_path):
    path = tmp_path / "r.jsonl"
    sweep(SMALL[:1], SETTING, path)
    with path.open("a") as file:
        file.write('{"data": "CarPe')
    assert sweep(SMALL[:1], SETTING, path) == 0
    assert len(lines(path)) == 1


@pytest.mark.parametrize(
    "line",
    ["no record", "[]", "3", "{}", '{"data": "CarPed35K"}', "\xff", '"text"', "null",
     '{"data": "a", "method": "b", "fraction": [], "repetition": 0, "setting": {}}',
     '{"data": "a", "method": "b", "fraction": 0.1, "repetition": 0, "setting": 3}'],
)  # fmt: skip
def test_a_bad_line_in_the_middle_is_an_error_with_its_number(calls, tmp_path, line):
    path = tmp_path / "r.jsonl"
    sweep(SMALL[:2], SETTING, path)
    first, second = path.read_bytes().splitlines(keepends=True)
    bad = first + b"\n" + line.encode("latin-1") + b"\n" + second
    path.write_bytes(bad)
    with pytest.raises(DataError, match=r"r\.jsonl:3: not a record of a run"):
        sweep(SMALL, SETTING, path)
    path.write_bytes(first + line.encode("latin-1") + b"\n")
    with pytest.raises(DataError, match=r"r\.jsonl:2: not a record of a run"):
        sweep(SMALL, SETTING, path)
    assert len(calls) == 2


def test_records_of_another_setting_are_refused(calls, tmp_path):
    path = tmp_path / "r.jsonl"
    sweep(SMALL[:1], SETTING, path)
    before = path.read_bytes()
    with pytest.raises(
        DataError, match=r"r\.jsonl:1: a record of another setting \(epochs: 2 there, 3 here\)"
    ):
        sweep(SMALL, replace(SETTING, epochs=3), path)
    assert len(calls) == 1
    assert path.read_bytes() == before


def test_files_that_cannot_be_read_or_written(calls, tmp_path):
    with pytest.raises(DataError, match="it is a folder, not a file"):
        sweep(SMALL, SETTING, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write the record"):
        sweep(SMALL, SETTING, tmp_path / "file" / "r.jsonl")
    assert len(calls) == 1


def test_what_was_done_before_an_error_is_on_record(monkeypatch, tmp_path):
    def failing(runs, setting, *, device):
        if runs[0].method == "HTGNN":
            raise DataError("no")
        return made_up(runs, setting, device)

    monkeypatch.setattr(module, "run_many", failing)
    with pytest.raises(DataError, match="no"):
        sweep(SMALL, SETTING, tmp_path / "r.jsonl")
    assert keys(tmp_path / "r.jsonl") == [("FOT-LTN", 0.1, 0), ("FOT-LTN", 0.8, 0)]


def test_lines_are_appended_after_the_last_whole_one(tmp_path):
    path = tmp_path / "r.jsonl"
    append(path, [{"a": 1}])
    path.write_bytes(path.read_bytes() + b'{"a": 2')
    append(path, [{"a": 3}, {"a": 4}])
    assert [r["a"] for r in lines(path)] == [1, 3, 4]


# --- real runs -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_sweep_in_two_processes_is_that_of_one(tmp_path):
    runs = [Run("CarPed35K", "FOT-LTN", 0.1, r) for r in range(2)]
    path = tmp_path / "r.jsonl"
    assert sweep(runs, SETTING, path, processes=2) == 2
    found = {one.repetition: one for one in read(path)}
    (alone,) = run_many(runs[1:2], SETTING)
    assert found[1].pr_auc == pytest.approx(alone["pr_auc"], abs=1e-4)
    assert found[1].kb_sat == pytest.approx(alone["kb_sat"], abs=1e-5)
    assert found[1].seed == alone["seed"]
    assert len(found) == 2


@pytest.mark.slow
def test_a_process_that_is_ended_from_outside(tmp_path):
    """By a setting that cannot be unpickled in the other process."""
    with pytest.raises(LimitError, match="continue with fewer processes"):
        sweep(SMALL[:2], Deadly(**asdict(SETTING)), tmp_path / "r.jsonl", processes=2)
    assert not (tmp_path / "r.jsonl").exists()


class Deadly(type(READING)):  # type: ignore[misc]
    """Ends the process that receives it."""

    def __reduce__(self):
        return (os._exit, (3,))


ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from dataclasses import replace
from pathlib import Path
from reproduction.paper.protocol import READING, grid
from reproduction.paper.sweep import sweep
if __name__ == "__main__":
    quick = list(grid(("CarPed35K",), ("FOT-LTN",), (0.1,), 3))
    try:
        sweep(quick, replace(READING, epochs={epochs}), Path({path!r}), processes=2)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
"""


def children(pid):
    """The processes that a process started and that are still there."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until(condition: Callable[[], bool], seconds: float = 100) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.05)


def started(tmp_path, epochs):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(path=str(tmp_path / "r.jsonl"), epochs=epochs))
    return subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize("whole_group", [True, False], ids=["Ctrl-C", "one process"])
def test_an_interrupt_stops_all_processes(tmp_path, whole_group):
    process = started(tmp_path, 1_000_000)
    try:
        until(lambda: len(children(process.pid)) == 3)  # two, and one of multiprocessing
        time.sleep(2 if whole_group else 0.5)  # training, or still loading
        others = children(process.pid)
        if whole_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "Traceback" not in err
        until(lambda: not any(map(alive, others)), 20)
    finally:
        process.kill()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_kill_leaves_no_processes_and_what_was_done(tmp_path):
    process = started(tmp_path, 5)
    path = tmp_path / "r.jsonl"
    try:
        until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1)
        others = children(process.pid)
        process.kill()
        process.communicate()
        until(lambda: not any(map(alive, others)), 20)
    finally:
        process.kill()
    setting = replace(READING, epochs=5)
    known = done(path, asdict(setting))
    assert known
    left = [Run("CarPed35K", "FOT-LTN", 0.1, r) for r in range(3)]
    assert sweep(left, setting, path) == 3 - len(known)
    assert len(read(path)) == 3


def test_tiny_runs_of_all_methods_make_a_record_that_reports_read(tiny, tmp_path):
    runs = list(grid((tiny,), fractions=(0.2, 0.8), repetitions=2))
    path = tmp_path / "r.jsonl"
    assert sweep(runs, SETTING, path) == 12
    assert [one.key for one in read(path)] == [
        (r.data, r.method, r.fraction, r.repetition)
        for r in sorted(runs, key=lambda r: r.repetition)
    ]
