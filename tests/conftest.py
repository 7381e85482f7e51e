"""Every test is seeded and in double precision."""

import gc
import os
import signal
from functools import cache

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores; so do the programs they start
    os.environ["OMP_NUM_THREADS"] = "1"

os.environ["FOTLTN_TRACEBACK"] = "1"  # a bug in a program that a test starts shows where it is

import pytest
import torch
import typer.main
import typer.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# A program that is started in the background ignores Ctrl-C, and so would the programs it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", parent=settings.get_profile("dev"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def _reproducible():
    torch.default_generator.manual_seed(0)  # torch.manual_seed writes down the stack, three times
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session", autouse=True)
def _commands_are_built_once():
    """Typer reads the signatures of all commands at each call; a process makes but one."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(typer.main.get_command)
        patch.setattr(typer.main, "get_command", once)
        patch.setattr(typer.testing, "_get_command", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk():
    """What a test writes need not outlive a loss of power; a wrong handle is refused as ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@given(st.none())
def _first_example(_):
    """Hypothesis sets itself up, and asks the collector of garbage who knows its generators."""


def pytest_collection_finish():
    """What there is by now stays: the collector of garbage need not look at it again.

    Formulas, plans and graphs are many small objects; it looks for cycles among them less often.
    """
    _first_example()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
