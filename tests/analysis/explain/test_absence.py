"""Explanations where entities come and go: as written, with the points at which one is absent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import fotltn as fot
from fotltn.analysis.cells import Cell
from fotltn.analysis.changes import change_at, with_changes
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.presence import absent_where_used
from fotltn.analysis.view import View
from fotltn.evaluation import evaluate_core, present
from fotltn.semantics.config import CRISP, STABLE_PRODUCT, Semantics
from tests.helpers import numbered
from tests.semantics.absent import THEORY, grown, random_tables

RULES = """
sort p
predicate Sick(p), Here(p)
axiom Rec: G forall x where Here(x). (Sick(x) -> F[1,2] !Sick(x))
axiom Wait: forall x. G(!Sick(x) U Sick(x))
axiom Some: G exists x. Sick(x)
"""


@pytest.fixture
def diary() -> fot.Tables:
    rows = [("ann", 0), ("ann", 1), ("ann", 3), ("bob", 0), ("bob", 1), ("bob", 2), ("bob", 3)]
    sick = [("ann", 0), ("ann", 1), ("ann", 3), ("bob", 0), ("bob", 2)]
    listed = [("Here", *row) for row in rows] + [("Sick", *row) for row in sick]
    columns = map(list, zip(*listed, strict=True))
    stated = dict(zip(("predicate", "arg1", "time"), columns, strict=True))
    return fot.read(fot.parse(RULES), stated, presence="Here")


def shown(tables: fot.Tables, name: str, **cell: object) -> list[str]:
    tree = fot.cells(fot.parse(RULES)[name], tables).explain(**cell).tree  # type: ignore[arg-type]
    return [f"{node.label}; {node.remark}" if node.remark else node.label
            for node, _ in tree.levels()]  # fmt: skip


def test_a_window_names_the_points_at_which_an_entity_is_absent(diary):
    assert shown(diary, "Rec", time=0, x="ann") == [
        "Sick(x) -> F[1,2] !Sick(x)",
        "if Sick(ann) at 0",
        "then F[1,2] !Sick(x); ann is absent at 2",
        "!Sick(x) at 1",
        "Sick(ann) at 1",
    ]


def test_a_cell_without_a_value_says_so(diary):
    first, *_ = shown(diary, "Rec", time=3, x="ann")
    assert first == "Sick(x) -> F[1,2] !Sick(x); it has no value here: an entity is absent"


def test_quantifiers_show_those_who_are_present(diary):
    assert shown(diary, "Some", time=2) == ["exists x. Sick(x)", "x = bob: Sick(bob) at 2"]


def test_random_values_and_repairs():
    """The tree has the value of the cell; a repair makes it true, and leaves presence alone."""
    r, repaired, told = random.Random(7), 0, 0
    for number in range(200):
        one = fot.check_formula(grown(r, r.randint(1, 3)), THEORY, sorts={"x": "a", "y": "b"})
        plain = random_tables(r)
        tables = replace(plain, names=numbered(dict(plain.sizes)))
        cells = View(tables, STABLE_PRODUCT if number % 2 else CRISP, 0.5).cells(one)
        trace = r.randrange(tables.batch)
        places = tuple(r.randrange(size) for size in cells.sizes)
        cell = Cell(trace, places, r.randrange(tables.length(trace)))

        def value(some: fot.Tables, semantics: Semantics, cells=cells, cell=cell) -> float:
            seen = evaluate_core(cells.body, some, semantics)
            shown = present(seen, cells.axes, some, at="all", batched=True)
            return float(shown[(cell.trace, *cell.numbers, cell.time)])

        absent = absent_where_used(cells.axes, cells.body, tables)
        if absent is not None and bool(absent[(trace, *places, cell.time)]):
            continue
        told += 1
        found = why(cells, cell)
        assert found.tree.value == pytest.approx(value(tables, cells.semantics), abs=1e-6)
        assert found.tree.truth == bool(value(tables, CRISP))
        if found.repair.flips and found.repair.needed:
            changes = [
                change_at(tables, f.predicate, trace, f.place, float(f.becomes))
                for f in found.repair.flips
            ]
            assert bool(value(with_changes(tables, changes), CRISP)), cells.text
            repaired += 1
    assert told > 80
    assert repaired > 15
