"""Counterexamples: the first cell at which an axiom is false."""

from __future__ import annotations

import pytest

from fotltn.analysis.truncation import if_longer
from fotltn.decisions import two_valued
from fotltn.logic.prefix import Prefix, prefix
from fotltn.semantics import crisp
from tests.analysis.scenes import cell_weights, counterexample
from tests.analysis.test_violations import RULE, case, crisp_values, one


@pytest.mark.parametrize("end", ["final", "undecided"])
@pytest.mark.parametrize("seed", range(80))
def test_counterexamples_are_the_first_by_brute_force(seed, end):
    text, checked, model = case(seed)
    boolean = two_valued(model, 0.4)
    part = prefix(checked.formula)
    truth = crisp_values(part, boolean)
    wrong = [cell for cell in cell_weights(part.layers, boolean) if not truth(cell)]
    found = counterexample(checked, model, threshold=0.4, end=end)
    every = crisp.evaluate(checked.formula, boolean).tensor[:, 0]
    assert bool(every.all()) == (not wrong), text
    if end == "undecided":
        later = crisp_values(Prefix(part.layers, if_longer(part.body)), boolean)
        wrong = [cell for cell in wrong if not later(cell)]
    assert (found is None) == (not wrong), text
    if found is not None:
        trace, time, *place = min(wrong)
        assert found.trace == trace
        assert found.time == (time if part.timed else None)
        if all(a.relation is None for a in part.axes):
            assert list(found.binding.values()) == [f"s{i}" for i in place]


def test_a_counterexample_says_what_is_true_there():
    axiom, model = one(
        RULE,
        {"P": [[[0.2, 0.6, 0.0], [0.0, 0.9, 0.0]]], "Q": [[[0.0, 0.0, 0.4], [0.0, 1.0, 0.6]]]},
        3,
    )
    found = counterexample(axiom, model)
    assert found is not None
    assert found.as_dict() == {
        "axiom": "N1",
        "binding": {"x": "s0"},
        "trace": 0,
        "time": 1,
        "atoms": [
            {"atom": "P(s0)", "time": 1, "value": 1.0},
            {"atom": "Q(s0)", "time": 2, "value": 0.0},
        ],
    }
    assert counterexample(axiom, model, threshold=1.0) is None
