"""Truth by rows of facts: that of the textbook recursion, for every operator, and in its memory."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import fotltn as fot
from fotltn.errors import DataError, LimitError
from fotltn.logic import core as c
from fotltn.logic.check import check_formula
from fotltn.semantics import crisp, crisp_rows
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables, Value, align
from fotltn.semantics.truth_rows import Truths
from fotltn.syntax.parse import parse_formula
from fotltn.tree import postorder
from tests.helpers import seeds
from tests.random_cases import random_case

PLENTY = 10**9


def laid_out(value: Value, axes: tuple[c.Axis, ...], tables: Tables) -> Tensor:
    """A value with all of some axes, at the points inside traces; elsewhere false."""
    shape = (tables.batch, *(tables.size(a) for a in axes), tables.horizon)
    _, (_, tensor) = align([Value(axes, torch.empty(shape, device="meta")), value])
    inside = tables.inside.reshape(tables.batch, *[1] * len(axes), tables.horizon)
    return tensor.expand(shape) & inside


def as_facts(table: Tensor | SparseTable, rng: random.Random) -> Tensor | SparseTable:
    """A dense table as facts, most of the time, with either default."""
    if isinstance(table, SparseTable) or rng.random() < 0.3:
        return table
    default = rng.choice([0.0, 0.0, 1.0])
    index = (table >= 0.7).nonzero().T if default == 0 else (table < 0.7).nonzero().T
    return SparseTable(index.contiguous(), table[tuple(index)], tuple(table.shape), default)


def compare(seed: int) -> set[str]:
    """A random case by rows and by the recursion; the kinds of nodes that it has."""
    rng = random.Random(seed)
    case = random_case(seed)
    predicates = {n: as_facts(t, rng) for n, t in case.model.predicates.items()}
    tables = replace(case.model, predicates=predicates)
    formula = case.checked.formula
    try:
        wanted = crisp.evaluate(formula, tables, threshold=0.6)
    except DataError:
        with pytest.raises(DataError):
            crisp_rows.everywhere(formula, tables, threshold=0.6, budget=PLENTY, what="it")
        return set()
    found = crisp_rows.everywhere(formula, tables, threshold=0.6, budget=PLENTY, what="it")
    axes = tuple(dict.fromkeys((*wanted.axes, *found.axes)))
    expected = laid_out(wanted, axes, tables)
    assert torch.equal(laid_out(found, axes, tables), expected), case.text
    truths = Truths(tables, PLENTY)
    count = truths.count(crisp_rows.truth(formula, truths, threshold=0.6), axes)
    everyone = expected.reshape(tables.batch, -1, tables.horizon).sum(1)
    assert torch.equal(count * tables.inside, everyone), case.text
    return {type(node).__name__ for node in postorder(formula)}


@pytest.mark.parametrize("block", seeds(4, 8))
def test_random_cases(block):
    kinds = set().union(*(compare(seed) for seed in range(100 * block, 100 * block + 100)))
    assert {"Quantifier", "Until", "Aggregate", "Shift", "Equal", "Implies", "Apply"} <= kinds


@pytest.mark.slow
def test_many_random_cases():
    for seed in range(1000, 11000):
        compare(seed)


THEORY = fot.parse("sort s\npredicate Near(s, s), Sees(s, s), P(s)\n")
PATTERNS = [
    "forall x, y. G(Near(x, y) -> F[1,2] Sees(x, y))",
    "forall x, y, z. G(Near(x, y) & Sees(y, z) -> X Near(x, z))",
    "exists x. forall y. !Near(x, y) & P(y)",
    "forall x, y. P(x) & P(y) -> !Near(x, y) U Sees(y, x)",
    "forall x, y where Near(x, y). O[<=2] Sees(x, y)",
    "exists x, y. P(x) S[1,3] (Near(x, y) | !Sees(y, x))",
    "forall x. Near(x, x) | exists y where y != x. H Near(x, y)",
    "exists x, y. (Near(x, y) R Sees(x, y)) & !(Near(x, y) <-> Sees(y, x))",
    "forall x. (exists y. Near(x, y)) -> WX (exists z. Sees(z, x) & P(z))",
]


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("density", [0.0, 0.1, 0.6])
def test_relations_under_every_operator(text, density):
    """With few facts, many, and none; traces of several lengths; parts of an axis."""
    formula = check_formula(parse_formula(text), fot.check(THEORY).signature).formula
    for seed in range(6):
        draw = torch.Generator().manual_seed(seed)
        predicates: dict[str, Tensor | SparseTable] = {}
        for name, rank in (("Near", 2), ("Sees", 2), ("P", 1)):
            dense = torch.rand(2, *[5] * rank, 6, generator=draw) < density
            index = dense.nonzero().T.contiguous()
            predicates[name] = SparseTable(index, torch.ones(index.shape[1]), tuple(dense.shape))
        tables = Tables({"s": 5}, torch.tensor([6, 4]), 6, predicates)
        wanted = crisp.evaluate(formula, tables)
        found = crisp_rows.everywhere(formula, tables, threshold=None, budget=PLENTY, what="it")
        assert found.axes == wanted.axes == ()
        assert torch.equal(laid_out(found, (), tables), laid_out(wanted, (), tables))


def test_a_part_of_an_axis():
    body = check_formula(parse_formula("Near(x, y) & !Sees(y, x)"), fot.check(THEORY).signature)
    draw = torch.Generator().manual_seed(0)
    dense = {n: torch.rand(1, 6, 6, 4, generator=draw) < 0.3 for n in ("Near", "Sees")}
    facts = {
        n: SparseTable(t.nonzero().T.contiguous(), torch.ones(int(t.sum())), tuple(t.shape))
        for n, t in dense.items()
    }
    tables = Tables({"s": 6}, torch.tensor([4]), 4, facts)
    x = next(a for a in body.free if a.name == "x")
    whole = laid_out(crisp.evaluate(body.formula, tables), body.free, tables)
    part = replace(tables, cuts={x: (2, 5)})
    found = crisp_rows.everywhere(body.formula, part, threshold=None, budget=PLENTY, what="it")
    assert torch.equal(laid_out(found, body.free, part), whole[:, 2:5])


def test_memory_follows_the_facts():
    """Ten thousand entities for a hundred hours: a table of pairs would take ten billion bytes."""
    size, horizon = 10_000, 100
    draw = torch.Generator().manual_seed(0)
    index = torch.stack([
        torch.zeros(3000, dtype=torch.int64),
        torch.randint(0, size, (3000,), generator=draw),
        torch.randint(0, size, (3000,), generator=draw),
        torch.randint(0, horizon, (3000,), generator=draw),
    ]).unique(dim=1)  # fmt: skip
    near = SparseTable(index, torch.ones(index.shape[1]), (1, size, size, horizon))
    tables = Tables({"s": size}, torch.tensor([horizon]), horizon, {"Near": near})
    signature = fot.check(THEORY).signature
    for text, true in (
        ("forall x, y. G(Near(x, y) -> F[<=20] Near(x, y))", True),
        ("forall x, y. G(Near(x, y) -> X (!Near(x, y) U Near(x, y)))", False),
        ("exists x, y, z. F(Near(x, y) & O Near(y, z))", True),
    ):
        formula = check_formula(parse_formula(text), signature).formula
        found = crisp_rows.everywhere(formula, tables, threshold=None, budget=2**27, what="it")
        assert bool(found.tensor[0, 0]) is true, text


def test_what_is_about_all_pairs_is_refused_where_it_does_not_fit():
    tables = Tables({"s": 1000}, torch.tensor([50]), 50, {"P": torch.rand(1, 1000, 50) < 0.5})
    formula = check_formula(
        parse_formula("forall x, y. G(P(x) | F P(y))"), fot.check(THEORY).signature
    ).formula
    with pytest.raises(
        LimitError, match=r"it needs [\d,]+ bytes, more than the budget of 1,000,000"
    ):
        crisp_rows.everywhere(formula, tables, threshold=None, budget=1_000_000, what="it")
    found = crisp_rows.everywhere(formula, tables, threshold=None, budget=PLENTY, what="it")
    assert not found.tensor[0, 0]
