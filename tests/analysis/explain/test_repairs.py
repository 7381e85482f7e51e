"""Repairs against brute force over all sets of flips."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
import torch

from fotltn.analysis.cells import Cell, Cells
from fotltn.analysis.explain import circuit as circuits
from fotltn.analysis.explain.repairs import Repair
from fotltn.analysis.explain.site import Site
from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.check import check_formula
from fotltn.semantics import crisp
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from fotltn.syntax.parse import parse_formula
from tests.analysis.explain.common import example, repair, world
from tests.random_cases import SIGNATURE

Places = list[tuple[str, tuple[int, ...]]]


def truths(cells: Cells) -> dict[str, torch.Tensor]:
    """All tables as Booleans."""
    tables = cells.tables
    return {
        n: tables.predicate(n).detach() >= (cells.view.threshold or 0.5) for n in tables.predicates
    }


def is_true(cells: Cells, cell: Cell, tables) -> bool:
    """Whether the body is true at the cell, by the two-valued evaluator on all tables."""
    axes, found = crisp.evaluate(cells.body, replace(cells.tables, predicates=tables))
    outer = dict(zip(cells.axes, cell.numbers, strict=True))
    return bool(found[(cell.trace, *(outer[a] for a in axes), cell.time)])


def flipped(tables, places: Places):
    changed = {n: t.clone() for n, t in tables.items()}
    for predicate, place in places:
        changed[predicate][place] ^= True
    return changed


def brute(cells: Cells, cell: Cell, places: Places, most: int) -> int | None:
    """The size of the smallest repair, by trying all."""
    tables = truths(cells)
    for count in range(most + 1):
        for chosen in itertools.combinations(places, count):
            if is_true(cells, cell, flipped(tables, list(chosen))):
                return count
    return None


def places_of(found: Repair, cells: Cells, trace: int) -> Places:
    """The flips of a repair as places in tables, from their names."""
    assert found.flips is not None
    every = []
    for flip in found.flips:
        table = cells.tables.predicate(flip.predicate)
        inside = flip.text.removeprefix(flip.predicate).strip("()")
        numbers = [int(n.strip().lstrip("agentsu")) for n in inside.split(",") if n.strip()]
        time = 0 if flip.time is None else flip.time
        place = (trace if table.shape[0] > 1 else 0, *numbers, time)
        assert flip.becomes != bool(table[place] >= (cells.view.threshold or 0.5))
        every.append((flip.predicate, place))
    return every


def check(cells: Cells, cell: Cell, places: Places, fixed: list[str]) -> None:
    found = repair(cells, cell, fixed=fixed)
    size = brute(cells, cell, places, len(places))
    assert found.exact, cells.text
    assert size == (None if found.flips is None else len(found.flips)), cells.text
    assert found.needed == (size != 0)
    if found.flips is not None:
        assert found.least == size
        flips = places_of(found, cells, cell.trace)
        assert is_true(cells, cell, flipped(truths(cells), flips))


@pytest.mark.parametrize("seed", range(40))
def test_repairs_are_smallest_on_random_formulas(seed):
    one = example(seed)
    read: dict[str, set[int]] = {n: set() for n in SIGNATURE.predicates}
    for leaf, table in Site(one.cells, one.cell).leaves.items():
        if table.places is not None and isinstance(leaf.node, c.Atom):
            read[leaf.node.predicate].update(table.places.reshape(-1).tolist())
    places: Places = []
    fixed = []
    for predicate in one.rng.sample(sorted(read), len(read)):
        if len(places) + len(read[predicate]) > 9:  # more than brute force can try
            fixed.append(predicate)
            continue
        shape = one.tables.predicate(predicate).shape
        trace = one.cell.trace if shape[0] > 1 else 0
        for place in read[predicate]:
            at = torch.unravel_index(torch.tensor(place), shape[1:])
            places.append((predicate, (trace, *map(int, at))))
    check(one.cells, one.cell, places, fixed)


OPERATORS = ("G", "F", "X", "WX", "Y", "WY", "O", "H", "!", "F[1,2]", "G[<=1]", "H[1,2]")
JOINS = ("&", "|", "->", "<->", "U", "R", "S", "T", "W", "M", "U[<=1]", "R[1,2]")


def tangle(rng: random.Random, size: int) -> str:
    """A formula in which few atoms occur often."""
    if size == 0:
        return rng.choice(["p", "q", "r", "last", "first"])
    if rng.random() < 0.4:
        return f"{rng.choice(OPERATORS)} ({tangle(rng, size - 1)})"
    left = rng.randint(0, size - 1)
    return f"({tangle(rng, left)}) {rng.choice(JOINS)} ({tangle(rng, size - 1 - left)})"


@pytest.mark.parametrize("seed", range(40))
def test_repairs_are_smallest_where_facts_are_read_often(seed):
    rng = random.Random(seed)
    text = tangle(rng, rng.randint(3, 8))
    generator = torch.Generator().manual_seed(seed)
    tables = {n: torch.randint(0, 2, (1, 3), generator=generator).double() for n in "pqr"}
    checked = check_formula(parse_formula(text))
    signature = checked.signature
    model = Tables({}, torch.tensor([3]), 3, tables, signature=signature)
    cells = View(model, STABLE_PRODUCT).cells(checked)
    fixed = ["r"] if "r" in signature.predicates and rng.random() < 0.5 else []
    read = [n for n in "pqr" if n in signature.predicates and n not in fixed]
    places: Places = [(n, (0, t)) for n in read for t in range(3)]
    check(cells, Cell(0, (), rng.randrange(3)), places, fixed)


# --- by example --------------------------------------------------------------------------------


def test_of_equally_small_repairs_the_one_in_doubt_is_chosen():
    tables = {n: torch.full((1, 2), u) for n, u in (("A", 0.9), ("B", 0.45), ("C", 0.1))}
    cells = world("A(x) -> C(x) | B(x)", tables)
    found = repair(cells, Cell(0, (0,), 0))
    assert found.flips is not None
    assert [(f.text, f.becomes, f.time) for f in found.flips] == [("B(agent0)", True, 0)]
    assert str(found) == (
        "B(agent0) at 0 becomes true (it is 0.450); no smaller set of facts will do"
    )
    assert found.as_dict()["exact"] is True


def test_shared_facts_are_counted_once():
    # Costs that add up would say 3, or that it cannot be done.
    tables = {"A": torch.tensor([[0.0]]), "B": torch.tensor([[1.0]])}
    cells = world("(A(x) | !B(x)) & (A(x) & A(x)) & (A(x) | B(x))", tables)
    found = repair(cells, Cell(0, (0,), 0))
    assert (found.exact, found.least) == (True, 1)
    assert [f.text for f in found.flips or ()] == ["A(agent0)"]


def test_what_cannot_be_repaired_is_said():
    tables = {"A": torch.tensor([[0.0]])}
    cells = world("A(x) & !A(x)", tables)
    found = repair(cells, Cell(0, (0,), 0))
    assert (found.flips, found.exact, found.needed) == (None, True, True)
    assert found.note == "no change of the facts that may change makes it true"
    cells = world("A(x)", tables)
    assert repair(cells, Cell(0, (0,), 0), fixed=["A"]).flips is None


def test_without_effort_a_first_repair_is_given_as_such():
    tables = {n: torch.zeros(1, 1) for n in "ABC"}
    text = "(A(x) <-> B(x)) & (B(x) <-> !C(x)) & (A(x) | B(x))"
    cells = world(text, tables)
    found = repair(cells, Cell(0, (0,), 0), effort=1)
    assert not found.exact
    assert "cut short" in found.note
    best = repair(cells, Cell(0, (0,), 0))
    assert (best.exact, best.least) == (True, 2)


def test_large_bodies_are_left_alone(monkeypatch):
    monkeypatch.setattr(circuits, "MAX_GATES", 20)
    tables = {"A": torch.zeros(5, 9)}
    cells = world("forall x. G(exists y. F(A(x) & A(y)))", tables)
    found = repair(cells, Cell(0, (0,), 0))
    assert (found.flips, found.exact) == (None, False)
    assert found.note == ("no repair was looked for: the body has more than 20 parts at this cell")


def test_unknown_predicates_are_refused():
    cells = world("A(x)", {"A": torch.zeros(1, 1)})
    with pytest.raises(DataError, match="no predicate is named 'B'"):
        repair(cells, Cell(0, (0,), 0), fixed=["B"])
