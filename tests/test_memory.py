"""Freed memory is kept when that is asked for."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

CODE = """
import resource, sys, torch
from fotltn.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(3):
    torch.ones(2**25)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**25)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", CODE, how],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library is meant")
def test_memory_that_is_kept_is_not_asked_for_again():
    assert faults("keep") * 2 < faults("default")  # the heap may have to grow once or twice
