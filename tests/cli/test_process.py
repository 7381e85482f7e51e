"""The program as a process of its own: exit statuses, pipes, signals, limits."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import EXAMPLE
from tests.patience import PATIENCE

THEORY, FACTS = str(EXAMPLE / "theory.fot"), str(EXAMPLE / "facts.csv")
EVAL = ["eval", THEORY, "--facts", FACTS, "--p", "2"]
PROGRAM = [sys.executable, "-m", "fotltn"]
SECONDS = PATIENCE


def environment(**more: str) -> dict[str, str]:
    """As in a user's shell, where output to a pipe is buffered."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONUNBUFFERED", "FORCE_COLOR")}
    return kept | {"PYTHONIOENCODING": "utf-8"} | more


def run(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"capture_output": True, "env": environment()} | options
    return subprocess.run([*PROGRAM, *args], text=True, timeout=SECONDS, **given)


@contextmanager
def limited(gigabytes: int) -> Iterator[None]:
    """So much memory and no more, for this process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    ("args", "status", "out", "err"),
    [
        (["--version"], 0, "fotltn ", ""),
        (["check", THEORY], 0, f"{THEORY}: ok (", ""),
        (["check", "no.fot"], 1, "", "error: cannot read no.fot: No such file"),
        (["check"], 2, "", "Usage: python -m fotltn check"),
        (["check", "no.fot", "--json"], 1, '{\n  "ok": false', ""),
        (["show", THEORY, "--as", "ascii"], 0, "sort agent\n", ""),
    ],
)
def test_statuses_and_streams(args, status, out, err):
    result = run(*args)
    assert result.returncode == status
    assert result.stdout.startswith(out)
    assert result.stderr.startswith(err)
    assert bool(result.stdout) == bool(out)
    assert bool(result.stderr) == bool(err)


def test_eval():
    result = run(*EVAL)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split("\n")[2].split()[:2] == ["A1", "0.973"]


def test_an_error_of_eval_as_json(call):
    result = call(*EVAL, "--json", "--at", "9")
    assert (result.status, result.err) == (1, "")
    (found,) = json.loads(result.out)["diagnostics"]
    assert found["message"] == "the time point 9 does not exist: there are 0 to 4"


# --- pipes --------------------------------------------------------------------------------------


def test_a_pipe_that_reads_one_line():
    line = f'"{sys.executable}" -m fotltn show "{THEORY}" | head -1'
    result = subprocess.run(
        line, shell=True, capture_output=True, text=True, env=environment(), timeout=SECONDS
    )
    assert (result.stdout, result.stderr) == ("sort agent\n", "")


FAILING = ["check", "no.fot", "--json"]


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["check", THEORY], environment()),
        (["show", THEORY], environment(PYTHONUNBUFFERED="1")),
        (["-h"], environment()),
        (FAILING, environment()),
        (FAILING, environment(PYTHONUNBUFFERED="1")),
    ],
    ids=["text", "unbuffered text", "help", "error", "unbuffered error"],
)
def test_a_pipe_that_nobody_reads(args, env):
    assert_quiet_when_unread(args, env)


def test_a_pipe_that_nobody_reads_from_eval():
    assert_quiet_when_unread([*EVAL, "--json"], environment())


def assert_quiet_when_unread(args: list[str], env: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = run(*args, capture_output=False, stdout=writer, stderr=subprocess.PIPE, env=env)
    finally:
        os.close(writer)
    assert result.stderr == ""
    assert result.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk():
    with Path("/dev/full").open("w") as full:
        result = run("check", THEORY, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_a_terminal_without_unicode():
    result = run("show", THEORY, env=environment(PYTHONIOENCODING="ascii"))
    assert "Traceback" not in result.stderr
    assert result.returncode in (0, 1)


# --- Ctrl-C -------------------------------------------------------------------------------------


def test_interrupted_while_it_waits_for_input(tmp_path):
    """Steps come from a pipe that stays empty, so the program waits in the middle of main."""
    pipe = tmp_path / "steps.jsonl"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*PROGRAM, "monitor", str(THEORY), "--input", str(pipe)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        with pipe.open("w"):  # returns when the program has opened the other end
            time.sleep(0.5)  # and is reading
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


INTERRUPT = """
import importlib.metadata, os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if not {swallows}:
                    raise
sys.meta_path.insert(0, Interrupt())
sys.argv = ["fotltn", *{args!r}]
{start}
"""

STARTS = {
    "module": 'runpy.run_module("fotltn", run_name="__main__")',
    "script": """
(script,) = importlib.metadata.entry_points(group="console_scripts", name="fotltn")
script.load()()
""",
}


@pytest.mark.parametrize(
    ("module", "swallows"),
    [("typer", False), ("pyarrow", False), ("pyarrow", True), ("torch", True)],
)
@pytest.mark.parametrize("start", STARTS)
def test_interrupted_while_it_loads(module, swallows, start):
    """Most of a short run is loading, so that is where Ctrl-C strikes; libraries may swallow it."""
    code = INTERRUPT.format(module=module, swallows=swallows, args=EVAL, start=STARTS[start])
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, env=environment(), timeout=SECONDS,
    )  # fmt: skip
    assert result.stderr == "stopped\n"
    assert (result.returncode, result.stdout) == (130, "")


# --- limits -------------------------------------------------------------------------------------


def test_values_larger_than_memory(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.fot").write_text("sort a\nstatic predicate P(a), Q(a)\n")
    rows = "".join(f"P,{i}\n" for i in range(100_000))
    (tmp_path / "f.csv").write_text(f"predicate,arg1\n{rows}")
    formula = "P(x) & !Q(y)"  # 80 GB for its pairs
    with limited(64):
        result = call("eval", "t.fot", "--facts", "f.csv", "--formula", formula)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: ")
    assert "needs 80,000,000,000 bytes" in result.err
