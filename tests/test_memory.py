"""Freed memory is kept when that is asked for."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

CODE = """
import os, resource, torch
from fotltn.memory import keep_freed_memory
child = os.fork()  # a process that keeps memory, and then one that does not
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    assert keep_freed_memory()
for _ in range(3):  # beyond 32 MB, memory goes back to the system at once
    torch.ones(2**23)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    torch.ones(2**23)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library is meant")
def test_memory_that_is_kept_is_not_asked_for_again():
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=PATIENCE)
    keeping, default = map(int, done.stdout.split())
    assert keeping * 2 < default  # the heap may have to grow once or twice
