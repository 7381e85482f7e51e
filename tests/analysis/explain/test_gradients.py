"""Influence against gradients of the reference evaluator on all tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fotltn.analysis.cells import Cell
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, STABLE_PRODUCT
from fotltn.tree import postorder
from tests.analysis.explain.common import Example, example, influence, world
from tests.random_cases import SEMANTICS, smooth

SMOOTH = [s for s in SEMANTICS if smooth(s)]


def value(one: Example, tables) -> torch.Tensor:
    """The body at the cell, by the reference on all tables."""
    model = replace(one.tables, predicates=tables)
    semantics = one.cells.semantics
    axes, found = reference.evaluate(one.cells.body, model, semantics, dtype=torch.float64)
    outer = dict(zip(one.cells.axes, one.cell.numbers, strict=True))
    return found[(one.cell.trace, *(outer[a] for a in axes), one.cell.time)]


@pytest.mark.parametrize("seed", range(40))
def test_gradients_and_what_would_be_then(seed):
    one = example(seed, SMOOTH[seed % len(SMOOTH)])
    tables = {n: one.tables.predicate(n).detach().double() for n in one.tables.predicates}
    guards = {
        atom.predicate
        for node in postorder(one.cells.body)
        if isinstance(node, c.Quantifier) and node.guard is not None
        for atom in postorder(node.guard)
        if isinstance(atom, c.Atom)
    }
    free = {n: t.clone().requires_grad_(n not in guards) for n, t in tables.items()}
    whole = value(one, free)
    if whole.requires_grad:
        whole.backward()
    wanted = {}
    for n, table in free.items():
        if table.grad is None:
            continue
        for place in table.grad.nonzero().tolist():
            wanted[n, tuple(place)] = float(table.grad[tuple(place)])
    found = influence(one.cells, one.cell, top=10**6)
    assert len(found) == len(wanted), one.cells.text
    ranked = sorted((abs(g) for g in wanted.values()), reverse=True)
    assert [abs(f.gradient) for f in found] == pytest.approx(ranked, rel=1e-6, abs=1e-12)
    for fact in found[:3]:
        place = next(
            at
            for (n, at), slope in wanted.items()
            if n == fact.predicate and text(n, at, tables) == (fact.text, fact.time)
        )
        assert fact.gradient == pytest.approx(wanted[fact.predicate, place], rel=1e-6)
        assert fact.value == pytest.approx(float(tables[fact.predicate][place]))
        changed = tables[fact.predicate].clone()
        changed[place] = float(fact.gradient > 0)
        then = value(one, {**tables, fact.predicate: changed})
        assert fact.then == pytest.approx(float(then), abs=1e-9)


def text(predicate: str, place: tuple[int, ...], tables) -> tuple[str, int | None]:
    from tests.random_cases import SIGNATURE

    sorts = SIGNATURE.predicates[predicate].sorts
    names = ", ".join(f"{s}{n}" for s, n in zip(sorts, place[1:-1], strict=True))
    shown = f"{predicate}({names})" if names else predicate
    return shown, place[-1] if tables[predicate].shape[-1] > 1 else None


def test_a_fact_that_is_read_twice_counts_for_both():
    cells = world("A(x) & A(x)", {"A": torch.tensor([[0.5, 0.2]])})
    (fact,) = influence(cells, Cell(0, (0,), 0))
    assert (round(fact.gradient, 6), round(fact.then, 6), fact.time) == (1.0, 1.0, 0)


def test_given_predicates_can_be_left_out():
    tables = {"A": torch.tensor([[0.5]]), "B": torch.tensor([[0.4]])}
    cells = world("A(x) & B(x)", tables)
    assert [f.text for f in influence(cells, Cell(0, (0,), 0))] == [
        "B(agent0)",
        "A(agent0)",
    ]
    (left,) = influence(cells, Cell(0, (0,), 0), fixed=["A"])
    assert left.predicate == "B"
    with pytest.raises(DataError, match="no predicate is named 'C'"):
        influence(cells, Cell(0, (0,), 0), fixed=["C"])


def test_there_is_nothing_without_gradients():
    tables = {"A": torch.tensor([[1.0]])}
    cells = world("A(x) | true", tables, semantics=CRISP)
    assert influence(cells, Cell(0, (0,), 0)) == ()
    cells = world("A(x) -> A(x) | true", tables, semantics=STABLE_PRODUCT)
    assert influence(cells, Cell(0, (0,), 0)) == ()
