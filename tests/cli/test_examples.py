"""Ctrl-C ends the examples with a line and the status 130, whenever it comes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
SECONDS = PATIENCE

#: The call, what it prints when it is at work, and a module that it loads before that.
CASES = {
    "crossing": (["crossing/demo.py"], "Training from the labels", "lark"),
    "appendix_b": (["appendix_b/demo.py"], "The axiom", "torch"),
    "audit": (["jaad/audit.py"], "confidence", "torch"),
    "learn": (["../reproduction/jaad/learn.py", "{folder}", "--tables", "."], "", "torch"),
}

#: Interrupts itself when a module is about to load.
INTERRUPT = """
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = {args!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""

#: Interrupts itself when it prints something.
INTERRUPT_AT_WORK = """
import os, runpy, signal, sys
write = sys.stdout.write
def interrupted(text):
    if {text!r} in text:
        os.kill(os.getpid(), signal.SIGINT)
    return write(text)
sys.stdout.write = interrupted
sys.argv = {args!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def arguments(name: str, folder: Path) -> list[str]:
    script, *rest = CASES[name][0]
    return [str(EXAMPLES / script), *(text.format(folder=folder) for text in rest)]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT,
        timeout=SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.reliability
@pytest.mark.parametrize("name", CASES)
def test_an_example_that_is_interrupted_while_it_loads(tmp_path, name):
    code = INTERRUPT.format(module=CASES[name][2], args=arguments(name, tmp_path))
    done = run(code)
    assert (done.returncode, done.stderr) == (130, "stopped\n")


@pytest.mark.reliability
@pytest.mark.parametrize("name", ["appendix_b", "audit"])
def test_a_short_example_that_is_interrupted_at_work(tmp_path, name):
    """From outside, the signal might come when it has ended."""
    code = INTERRUPT_AT_WORK.format(text=CASES[name][1], args=arguments(name, tmp_path))
    done = run(code)
    assert "Traceback" not in done.stderr
    assert done.returncode == 130
    assert "stopped" in done.stderr


@pytest.mark.reliability
def test_an_example_that_is_interrupted_at_work(tmp_path):
    process = subprocess.Popen(
        [sys.executable, *arguments("crossing", tmp_path)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if CASES["crossing"][1] in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert "Traceback" not in err
    assert process.returncode == 130
    assert "stopped" in err


def test_other_errors_are_as_before(tmp_path):
    code = "import fotltn.cli.quiet\nraise KeyError('ours')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "KeyError: 'ours'" in done.stderr
    code = "import fotltn.cli.quiet, fotltn\nfotltn.load('none.fot')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (
        1, "error: cannot read none.fot: No such file or directory\n"
    )  # fmt: skip
