"""Cells by rows of facts: what blocks of all cells give, on random cases."""

import random
from dataclasses import replace

import pytest
import torch

import fotltn as fot
from fotltn.analysis import audit, worst
from fotltn.analysis.cell_rows import cell_rows
from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.view import View
from fotltn.analysis.violations import counterexample
from fotltn.analysis.worst import worst_by_rows
from fotltn.logic import core as c
from fotltn.logic.check import check, check_formula
from fotltn.logic.parts import conjuncts
from fotltn.semantics.config import CRISP
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Tables
from fotltn.syntax.parse import parse_formula
from tests.analysis.test_violations import case
from tests.semantics.test_crisp_rows import as_facts

THEORY = check(
    fot.parse("sort s\npredicate Near(s, s), P(s)\naxiom A: forall x, y. G(Near(x, y) -> P(y))")
)
TOPS = (2, 200)


def random_cells(seed: int) -> Cells:
    """A random axiom on facts and tables, of traces of several lengths, with who is present."""
    rng = random.Random(seed)
    _, checked, model = case(seed)
    predicates = {n: as_facts(t, rng) for n, t in model.predicates.items()}
    present = {}
    for sort, size in model.sizes.items() if rng.random() < 0.5 else ():
        present[sort] = torch.rand(model.batch, size, model.horizon) < 0.8
    tables = replace(model, predicates=predicates, present=present)
    return View(tables, CRISP, end=rng.choice(["final", "undecided"])).cells(checked)


def compare(seeds: range, without: pytest.MonkeyPatch) -> tuple[int, int]:
    """Violations by rows and by blocks; how many cases have some, and how many undecided cells."""
    seen = undecided = 0
    for seed in seeds:
        cells = random_cells(seed)
        rows = [cells.worst(top) for top in TOPS]
        first = counterexample(cells)
        with without.context() as blocks:
            blocks.setattr(worst, "cell_rows", lambda _: None)
            assert [one.as_dict() for one in rows] == [cells.worst(n).as_dict() for n in TOPS]
            assert first == counterexample(cells)
        seen += rows[-1].violated > 3 and cell_rows(cells) is not None
        undecided += rows[-1].undecided > 0
    return seen, undecided


def test_violations_are_those_of_blocks(monkeypatch):
    seen, undecided = compare(range(60), monkeypatch)
    assert seen > 8
    assert undecided > 2


@pytest.mark.slow
def test_violations_of_many_cases_are_those_of_blocks(monkeypatch):
    compare(range(1000, 3000), monkeypatch)


def test_the_mean_of_an_antecedent_is_that_of_blocks(monkeypatch):
    for seed in range(40):
        cells = random_cells(seed)
        if cells.prefix.rule is None:
            continue
        total, number = audit._antecedents(cells)
        with monkeypatch.context() as without:
            without.setattr(audit, "cell_rows", lambda *_, **_part: None)
            again = audit._antecedents(cells)
            assert again == pytest.approx((total, number), abs=1e-9)


def flights(size: int, horizon: int) -> Tables:
    """A relation of few facts among many entities, none of whom is P."""
    draw = torch.Generator().manual_seed(0)
    index = torch.stack([
        torch.randint(0, n, (500,), generator=draw) for n in (1, size, size, horizon)
    ]).unique(dim=1)  # fmt: skip
    near = SparseTable(index, torch.ones(index.shape[1]), (1, size, size, horizon))
    nobody = SparseTable(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0), (1, size, horizon))
    lengths = torch.tensor([horizon])
    return Tables(
        {"s": size}, lengths, horizon, {"Near": near, "P": nobody}, signature=THEORY.signature
    )


def test_violations_follow_the_facts():
    """Pairs of a hundred thousand entities in a hundred hours would be 10^12 cells."""
    size = 100_000
    tables = flights(size, 100)
    worst = View(tables, CRISP, budget=2**30).cells(THEORY.axioms[0]).worst(2)
    near = tables.predicates["Near"]
    assert isinstance(near, SparseTable)
    assert worst.violated == near.facts
    assert worst.count == size * size * 100
    first = min(near.index.T.tolist(), key=lambda fact: (fact[3], fact[1], fact[2]))
    assert (worst[0].time, [*worst[0].binding.values()]) == (
        first[3],
        [tables.names.called("s", 0, n) for n in first[1:3]],
    )
    assert worst[0].share == pytest.approx(1 / near.facts)


def test_what_has_no_room_as_rows_goes_by_blocks():
    tables = flights(40, 20)
    cells = View(tables, CRISP).cells(THEORY.axioms[0])
    few = cells.viewed(budget=9_000)
    assert worst_by_rows(few, 3) is None
    assert worst_by_rows(cells, 3) is not None


def test_variables_that_a_formula_lacks_are_listed_too():
    """Of P(x) -> Q(x) under `forall y, x, z`, each y and z has the cell of x."""
    signature = THEORY.signature
    text = "forall y, x, z. G(P(x) -> Near(x, x))"
    formula = check_formula(parse_formula(text), signature)
    index = torch.tensor([[0, 0], [1, 2], [1, 0]])
    tables = flights(3, 2)
    some = SparseTable(index, torch.ones(2), (1, 3, 2))
    tables = replace(tables, predicates={"P": some, "Near": tables.predicates["Near"]})
    empty = SparseTable(torch.zeros(4, 0, dtype=torch.int64), torch.zeros(0), (1, 3, 3, 2))
    tables = replace(tables, predicates={**tables.predicates, "Near": empty})
    cells = View(tables, CRISP).cells(formula)
    rows = cell_rows(cells)
    assert rows is not None
    assert [a.name for a in rows.axes] == ["y", "x", "z"]
    wrong = rows.where(c.Not(cells.body))
    every = [Cell(0, (y, x, z), t) for t, x in ((0, 2), (1, 1)) for y in range(3) for z in range(3)]
    assert [rows.first(wrong, n) for n in (0, 4, 99)] == [[], every[:4], every]


def test_conjuncts_are_in_order():
    a, b, d = (c.Atom(name, ()) for name in "abd")
    assert conjuncts(c.And(c.And(a, b), d)) == [a, b, d]
    assert conjuncts(None) == []
