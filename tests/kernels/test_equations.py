"""The equations in blocks of time: the values and gradients of the obvious way, in less memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import fotltn
from fotltn.kernels import equations
from fotltn.kernels import until as until_module
from fotltn.logic.core import Window
from fotltn.semantics import temporal
from fotltn.semantics.config import LOG_PRODUCT, STABLE_PRODUCT, semantics_of
from fotltn.semantics.operators import operators

SEMANTICS = {
    "log-product": LOG_PRODUCT,
    "log-means": replace(STABLE_PRODUCT, name="log-means", log_space=True),
    "p = 30": semantics_of(STABLE_PRODUCT, 30.0),
}
WINDOWS = [
    Window(0, None),
    Window(2, None),
    Window(0, 3),
    Window(1, 4),
    Window(3, 3),
    Window(9, 20),
]


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("name", SEMANTICS)
@pytest.mark.parametrize("block", [1, 40, 2**18])
def test_blocks_have_the_values_and_gradients_of_the_equations(name, past, block, monkeypatch):
    monkeypatch.setattr(equations, "BLOCK", block)
    monkeypatch.setattr(until_module, "BLOCK", block)
    ops = operators(SEMANTICS[name])
    lengths = torch.tensor([7, 4])
    left, right = (ops.enter(torch.rand(2, 3, 7)).requires_grad_() for _ in range(2))
    inside = torch.arange(7) < lengths[:, None, None]
    for window in WINDOWS:
        for operator, sides in (
            ("until", (left, right)), ("all", (left, True)), ("some", (left, False)),
        ):  # fmt: skip
            which = "until" if operator == "until" else "aggregate"
            found, expected = (
                torch.where(inside, getattr(way, which)(*sides, window, past, lengths, ops), 0)
                for way in (equations, temporal)
            )
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
            mine, theirs = (
                torch.autograd.grad(value.sum(), (left, right), materialize_grads=True)
                for value in (found, expected)
            )
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


LONG = """
import resource, sys, torch, fotltn
theory = fotltn.parse("sort s\\npredicate P(s), Q(s)")
u = torch.rand(1, int(sys.argv[1]), requires_grad=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tables = fotltn.tables(theory, P=u, Q=u)
value = fotltn.evaluate("forall x. G (P(x) -> F[1,5] Q(x))", tables, semantics="log-product",
                        budget=10**8)
value.backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_log_space_keeps_its_budget_with_gradients():
    """A trace of 100,000 points; a square of them would be forty gigabytes."""
    line = [sys.executable, "-c", LONG, "100000"]
    limit = 16 * 2**30
    done = subprocess.run(
        line, capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert int(done.stdout) < 2 * 10**8  # with the modules that it loads


def test_what_the_equations_would_keep_for_gradients_is_refused():
    table = torch.rand(1, 3000, dtype=torch.float32)
    tables = fotltn.tables(fotltn.parse("sort s\npredicate P(s)"), P=table.requires_grad_())
    with pytest.raises(fotltn.LimitError, match="more than the budget of 100,000,000"):
        fotltn.evaluate("forall x. G P(x)", tables, engine=False, budget=10**8)
    with torch.no_grad():
        fotltn.evaluate("forall x. P(x)", tables, engine=False, budget=10**8)
