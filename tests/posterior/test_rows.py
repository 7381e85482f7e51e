"""Formulas over rows of bindings, in many worlds, equal the crisp evaluator."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fotltn.errors import CheckError, LimitError
from fotltn.logic.check import CheckedFormula, check, check_formula
from fotltn.logic.nnf import nnf
from fotltn.posterior import rows as module
from fotltn.posterior.rows import RowTruth, all_rows, some_beneath
from fotltn.semantics import crisp
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.posterior.oracle import SIGNATURE, random_text

THEORY = check(parse_theory(SIGNATURE))
GIVEN = {"Near": "a", "Has": "ab", "K": "ab"}
LEARNED = {"P": "a", "Q": "a", "Tie": "ab", "V": "b", "Fix": "a"}
WORLDS = 3


def drawn(choose: random.Random) -> tuple[CheckedFormula, Tables, dict[str, Tensor]]:
    """A formula, what is given, and worlds; traces have different lengths."""
    formula = None
    while formula is None:
        free = choose.choice([[], ["x"], ["y"], ["x", "y"]])
        text = random_text(choose, {**GIVEN, **LEARNED}, free, choose.randint(1, 4))
        with suppress(CheckError):  # a variable that occurs nowhere has no sort
            formula = check_formula(parse_formula(text), THEORY.signature)
    sizes = {"a": choose.randint(1, 3), "b": choose.randint(1, 3)}
    lengths = [choose.randint(1, 6) for _ in range(choose.randint(1, 3))]
    horizon = max(lengths)
    generator = torch.Generator().manual_seed(choose.randrange(10**9))
    tables, worlds = {}, {}
    for name in (*GIVEN, *LEARNED):
        decl = THEORY.signature.predicates[name]
        shape = (*(sizes[s] for s in decl.sorts), 1 if decl.static else horizon)
        if name in GIVEN:
            tables[name] = (torch.rand(len(lengths), *shape, generator=generator) < 0.5).double()
        else:
            worlds[name] = torch.rand(WORLDS, len(lengths), *shape, generator=generator) < 0.5
    given_tables: dict[str, object] = dict(tables)
    for name, table in tables.items():
        if choose.random() < 0.5:
            given_tables[name] = sparse_table(table.nonzero().T, None, table.shape)
    known = Tables(sizes, torch.tensor(lengths), horizon, given_tables, signature=THEORY.signature)  # type: ignore[arg-type]
    return formula, known, worlds


def expected(formula: CheckedFormula, tables: Tables, worlds: Mapping[str, Tensor]) -> Tensor:
    """What the crisp evaluator says, world by world; false outside of traces."""
    results = []
    for number in range(WORLDS):
        some = {n: t[number].double() for n, t in worlds.items()}
        full = replace(tables, predicates={**tables.predicates, **some})
        axes, value = crisp.evaluate(formula.formula, full)
        order = [0, *(1 + axes.index(a) for a in formula.free), value.dim() - 1]
        results.append(value.permute(order).flatten(0, -2))
    return torch.stack(results)


def compare(seeds: range) -> None:
    for seed in seeds:
        formula, tables, worlds = drawn(random.Random(seed))
        rows = all_rows(tables, formula.free)
        row_truth = RowTruth(tables, list(worlds))
        for _ in range(2):  # the second time from what was cached
            truth = row_truth.truth(nnf(formula.formula), rows, worlds)
            truth = truth.expand(WORLDS, len(rows), tables.horizon)
            inside = tables.inside[rows.trace]
            same = (truth == expected(formula, tables, worlds)) | ~inside
            assert bool(same.all()), (seed, formula)


def test_rows_equal_the_crisp_evaluator():
    compare(range(400))


@pytest.mark.slow
def test_rows_equal_the_crisp_evaluator_on_ten_thousand_formulas():
    compare(range(400, 10_400))


def test_rows_in_pieces_are_the_same(monkeypatch):
    monkeypatch.setattr(module, "_CELLS_AT_ONCE", 1)
    compare(range(400, 440))


def test_instances_leave_out_only_what_is_true_anyway():
    hits = 0
    for seed in range(300):
        formula, tables, worlds = drawn(random.Random(seed))
        if not formula.free:
            continue
        row_truth = RowTruth(tables, list(worlds))
        body = nnf(formula.formula)
        some, every = row_truth.instances(formula.free, body), all_rows(tables, formula.free)
        places = [every.trace, *(every.places[a] for a in formula.free)]
        chosen = [some.trace, *(some.places[a] for a in formula.free)]
        missing = set(zip(*(p.tolist() for p in places), strict=True)) - set(
            zip(*(p.tolist() for p in chosen), strict=True)
        )
        truth = row_truth.truth(body, every, worlds)
        truth = truth.expand(WORLDS, len(every), tables.horizon) | ~tables.inside[every.trace]
        for row, place in enumerate(zip(*(p.tolist() for p in places), strict=True)):
            if place in missing:
                assert bool(truth[:, row].all())
                hits += 1
    assert hits > 50


def test_instances_by_facts_are_those_of_full_tables_in_the_same_order():
    hits = 0
    for seed in range(300):
        formula, tables, worlds = drawn(random.Random(seed))
        full = replace(tables, predicates={n: tables.predicate(n) for n in tables.predicates})
        if seed % 3 == 0:  # several facts that share variables
            text = "Near(x) & K(x, y) & Has(x, y) -> Tie(x, y) | (exists z. K(z, y) & P(z))"
            formula = check_formula(parse_formula(text), THEORY.signature)
        body = nnf(formula.formula)
        by_facts = RowTruth(tables, list(worlds)).instances(formula.free, body)
        by_tables = RowTruth(full, list(worlds)).instances(formula.free, body)
        assert torch.equal(by_facts.trace, by_tables.trace), seed
        for axis in formula.free:
            assert torch.equal(by_facts.places[axis], by_tables.places[axis]), seed
        hits += 0 < len(by_facts) < len(all_rows(tables, formula.free))
    assert hits > 5


def test_facts_of_many_entities_are_not_laid_out():
    size = 6000
    near = sparse_table(
        [[0, 0, 0], [1, 5, size - 1], [2, 2, 7], [0, 3, 3]], None, (1, size, size, 4)
    )
    formula = "exists x, y. Has(x, y) & Tie(x, y)"
    checked = check_formula(parse_formula(formula), THEORY.signature)
    sizes = {"a": size, "b": size}
    tables = Tables(sizes, torch.tensor([4]), 4, {"Has": near}, signature=THEORY.signature)
    row_truth = RowTruth(tables, ["Tie"])
    worlds = {"Tie": torch.zeros(1, 1, 1, 1, 4, dtype=torch.bool).expand(1, 1, size, size, 4)}
    rows = all_rows(tables, ())
    assert row_truth.truth(nnf(checked.formula), rows, worlds).any().item() is False
    (inner,) = rows.below.values()
    assert len(inner) == 3


def test_too_many_bindings_are_refused():
    tables = Tables({"a": 5000, "b": 5000}, torch.tensor([1]), 1, {}, signature=THEORY.signature)
    formula = check_formula(parse_formula("Tie(x, y)"), THEORY.signature)
    with pytest.raises(LimitError) as error:
        all_rows(tables, formula.free)
    assert str(error.value) == "error: 25,000,000 bindings are more than 16,777,216"


@pytest.mark.parametrize("most", [1, 3])
def test_many_rows_beneath_are_looked_at_as_few_are(monkeypatch, most):
    draw = torch.Generator().manual_seed(most)
    number = torch.randint(most + 1, (9,), generator=draw)
    number[4] = 0  # nothing is beneath it
    parent = torch.arange(9).repeat_interleave(number)
    value = torch.rand(2, len(parent), 5, generator=draw) < 0.3
    few = some_beneath(value, parent, 9)
    monkeypatch.setattr(module, "_MANY_VALUES", 1)
    assert torch.equal(some_beneath(value, parent, 9), few)
    for row in range(9):
        assert torch.equal(few[:, row], value[:, parent == row].any(1))
