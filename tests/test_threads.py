"""Threads: small work takes one, large work what the process may use, and the host's stay."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from functools import cached_property
from types import FunctionType

import pytest
import torch

import fotltn as fot
from fotltn import threads
from fotltn.api import CompiledTheory
from tests.patience import PATIENCE


def by_itself(**environment: str) -> dict[str, str]:
    """The environment of a program in which PyTorch takes threads by itself."""
    chosen = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {n: v for n, v in os.environ.items() if n not in chosen} | environment


def printed(code: str, **environment: str) -> object:
    """What a new program prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + code], env=by_itself(**environment), capture_output=True,
        text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


#: As on a machine with eight processors, whatever this one has.
BEFORE = """
import json, os, threading
os.cpu_count = lambda: 8
os.sched_getaffinity = lambda _: set(range(8))
import torch
import fotltn as fot
from fotltn import threads
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(8)

seen = []
class Noted(torch.utils._python_dispatch.TorchDispatchMode):
    # Notes the number of threads in which PyTorch multiplies or takes powers.
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(name in str(function) for name in ("mul", "pow")):
            seen.append(torch.get_num_threads())
        return function(*args, **(kwargs or {}))

def threads_of(n, learned=True):
    del seen[:]
    with Noted():
        fot.evaluate("G p", {"p": torch.rand(n).requires_grad_(learned)})
    return sorted(set(seen))
"""


def test_the_size_of_the_work_decides_and_the_host_keeps_its_number():
    code = """
numbers = [threads_of(100), threads_of(2**18), threads_of(2**18, False), threads_of(2**22, False)]
print(json.dumps([*numbers, torch.get_num_threads()]))
"""
    assert printed(code) == [[1], [8], [1], [8], 8]


def test_what_the_host_has_set_stays():
    code = "torch.set_num_threads(3); print(json.dumps([threads_of(100), threads_of(2**18)]))"
    assert printed(code) == [[3], [3]]
    code = "print(json.dumps([threads_of(100), threads_of(2**18)]))"
    assert printed(code, OMP_NUM_THREADS="2") == [[2], [2]]


def test_an_error_leaves_the_number_as_it_was():
    code = """
try:
    fot.evaluate("G p", {"p": [2.0]})
except fot.FotError:
    print(json.dumps(torch.get_num_threads()))
"""
    assert printed(code) == 8


def test_a_thread_of_the_host_that_begins_during_a_call_has_the_hosts_number():
    code = """
threading.Thread(target=threading.Event().wait, daemon=True).start()
numbers = []
with threads.one_thread():
    numbers.append(torch.get_num_threads())
    other = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
    other.start()
    other.join()
    with threads.threads_for(threads.LARGE, step=True):
        numbers.append(torch.get_num_threads())
        with threads.threads_for(1, step=True), threads.one_thread():  # the outermost size decides
            numbers.append(torch.get_num_threads())
    numbers.append(torch.get_num_threads())
print(json.dumps(numbers))
"""
    assert printed(code) == [1, 8, 8, 8, 1]
    assert printed(
        code.replace("one_thread():", "one_thread(long=False):\n    threads.long_work()", 1)
    ) == [1, 8, 8, 8, 1]


def test_a_step_of_training_has_one_number():
    code = """
facts = {"predicate": ["P"] * 4, "arg1": ["a", "a", "b", "b"], "time": [0, 1, 0, 1],
         "truth": [1, 0, 1, 0]}
backward = torch.Tensor.backward
def noted_backward(*args, **kwargs):
    seen.append(torch.get_num_threads())
    return backward(*args, **kwargs)
torch.Tensor.backward = noted_backward
theory = fot.parse("sort who\\npredicate P(who)\\naxiom A: forall x. G P(x)")
counts = []
for threads.LARGE in (2**18, 1):
    del seen[:]
    fot.train(theory, fot.read(theory, facts), learn=["P"], training={"epochs": 2})
    counts.append(sorted(set(seen)))
print(json.dumps([*counts, torch.get_num_threads()]))
"""
    assert printed(code) == [[1], [8], 8]


COMMAND = """
import atexit, json, sys
from fotltn.__main__ import main
def tell():
    print(json.dumps(sys.modules["torch"].get_num_threads()), file=sys.stderr)
atexit.register(tell)
sys.argv = ["fotltn", "rules", "t.fot", "--facts", "t.csv"]
main()
"""


@pytest.mark.skipif(torch.get_num_threads() == 1 and os.cpu_count() == 1, reason="one processor")
def test_the_command_line_takes_one_thread(tmp_path):
    (tmp_path / "t.fot").write_text("predicate p\naxiom A: F p\n", "utf-8")
    (tmp_path / "t.csv").write_text("predicate,time\np,0\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], env=by_itself(), cwd=tmp_path, capture_output=True,
        text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == 1


# --- every entry ----------------------------------------------------------------------------------


def is_entry(function: object) -> bool:
    return getattr(function, "__code__", None) is threads.entry(lambda: None).__code__


#: Public names that compute nothing on tables: the language, errors, plain data, and modules.
PLAIN = {
    "Callback", "Entity", "Fold", "Formula", "Law", "Measure", "PMean", "SEMANTICS", "Semantics",
    "Tables", "Theory", "Wide", "check", "check_formula", "laws", "load", "parse",
    "parse_formula", "plots", "save", "show", "show_theory",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*fot.__all__, "CompiledTheory"} - PLAIN))
def test_every_public_name_goes_through_the_room(name):
    value = CompiledTheory if name == "CompiledTheory" else getattr(fot, name)
    if not isinstance(value, type):
        assert is_entry(value)
    elif not issubclass(value, Exception):
        own = {n: m for n, m in vars(value).items() if not n.startswith("_") or n == "__call__"}
        for member in own.values():
            match member:
                case FunctionType() if not inspect.isgeneratorfunction(member):
                    assert is_entry(member)
                case property(fget=read):
                    assert is_entry(read)
                case cached_property():
                    assert is_entry(member.func)


# --- what the process may use ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
          "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 2),
        # The host's path, of which a container sees only its own part.
        ({"proc/self/cgroup": "0::/docker/1\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/a\n",
          "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "150000\n",
          "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 2),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/a\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({}, 8),
    ],
)  # fmt: skip
def test_the_quota_of_a_control_group_counts(tmp_path, monkeypatch, files, share):
    monkeypatch.setattr(threads, "_allowed", lambda: set(range(8)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert threads.usable(tmp_path) == share


def test_threads_that_share_items_leave_the_number_after_an_error():
    before = torch.get_num_threads()

    def fail(_: int) -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        threads.in_threads(fail, [1, 2], before)
    fresh: list[int] = []
    other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert fresh == [before]
