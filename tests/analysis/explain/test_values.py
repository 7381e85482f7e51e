"""The values of all parts of a body at a cell, against the evaluators on all data."""

from __future__ import annotations

import pytest
import torch

from fotltn.analysis.explain.pattern import needed
from fotltn.analysis.explain.site import Site
from fotltn.analysis.explain.values import values_at
from fotltn.logic import core as c
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import CRISP, LOG_PRODUCT
from tests.analysis.explain.common import Example, example


def expected(one: Example, node: c.Formula, *, truth: bool):
    """The value of a part at all places of its inner axes and at all times of the cell's trace."""
    semantics = one.cells.semantics
    if truth or semantics.boolean:
        axes, found = crisp.evaluate(node, one.tables, threshold=one.cells.view.threshold or 0.5)
    else:
        axes, found = reference.evaluate(node, one.tables, semantics, dtype=torch.float64)
        found = found.exp() if semantics.log_space else found
    outer = dict(zip(one.cells.axes, one.cell.numbers, strict=True))
    index = tuple(outer.get(a, slice(None)) for a in axes)
    found = found.detach()[(one.cell.trace, *index)].double()
    return [a for a in axes if a not in outer], found


def check(one: Example) -> None:
    here = Site(one.cells, one.cell)
    values = values_at(here)
    for node in here.pattern.parts:
        if node not in here.spans:
            continue
        first, last = here.spans[node]
        for truth, found in ((False, values.fuzzy[node]), (True, values.crisp[node])):
            axes, wanted = expected(one, node, truth=truth)
            got = values.along(found, axes, {})
            got = got.expand(*got.shape[:-1], here.last - here.first + 1)
            got = got[..., first - here.first : last - here.first + 1]
            torch.testing.assert_close(
                got.expand(wanted[..., first : last + 1].shape),
                wanted[..., first : last + 1],
                msg=f"{one.cells.text}: {node}",
            )


@pytest.mark.parametrize("seed", range(40))
def test_every_part_has_the_value_that_the_evaluators_give(seed):
    check(example(seed))


@pytest.mark.parametrize("semantics", [CRISP, LOG_PRODUCT], ids=lambda s: s.name)
@pytest.mark.parametrize("seed", range(60, 64))
def test_also_in_two_valued_logic_and_in_log_space(seed, semantics):
    check(example(seed, semantics))


def test_only_points_that_matter_are_read():
    body = c.Implies(c.Atom("p", ()), c.Shift(c.Atom("q", ()), 1, past=False, weak=True))
    assert needed(body, 3, 10)[c.Atom("q", ())] == (4, 4)
    assert c.Atom("q", ()) not in needed(body, 9, 10)
    window = c.Aggregate(True, c.Atom("p", ()), c.Window(2, 5), past=True)
    assert needed(window, 4, 10)[c.Atom("p", ())] == (0, 2)
    always = c.Aggregate(False, c.Atom("p", ()), c.Window(1, None), past=False)
    assert needed(c.And(always, c.Atom("p", ())), 4, 10)[c.Atom("p", ())] == (4, 9)
