"""Rows of heat maps: their numbers and names, where traces have entities of their own."""

import pytest
import torch

from fotltn.analysis.cells import Cells, cells_of
from fotltn.errors import LimitError
from fotltn.grounding.dense import interpretation
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.logic.check import check, check_formula
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from fotltn.web import rows
from fotltn.web.rows import chosen, predictions

THEORY = check(parse_theory("sort agent\npredicate Sees(agent, agent), Stop(agent)\n"))
FACTS = {
    "predicate": ["Stop", "Stop", "Stop", "Sees"],
    "arg1": ["ann", "bob", "cid", "cid"],
    "arg2": [None, None, None, "dan"],
    "time": [0, 2, 1, 1],
    "truth": [1.0, 0.25, 0.0, 1.0],
    "trace": ["t1", "t1", "t2", "t2"],
}


def shown(text: str, *, local: tuple[str, ...] = ("agent",)) -> tuple[Cells, Labels]:
    facts = read_facts([FACTS], THEORY.signature, local=local)
    tables = interpretation(facts, THEORY.signature)
    checked = check_formula(parse_formula(text), THEORY.signature)
    cells = cells_of(checked, tables, STABLE_PRODUCT)
    return cells, labels(facts, THEORY.signature, ["Stop"])


def test_rows_are_numbered_by_trace_and_binding():
    found, _ = shown("Sees(x, y)")
    assert found.rows == 2 * 2 * 2
    for row in range(found.rows):
        cell = found.cell(row, 1)
        assert row == (cell.trace * 2 + cell.numbers[0]) * 2 + cell.numbers[1]
    assert found.label(1) == "t1: ann, bob"
    assert found.binding(found.cell(6, 0)) == {"x": "dan", "y": "cid"}


def test_rows_are_found_by_name_in_the_traces_that_have_it():
    found, _ = shown("Sees(x, y)")
    every = torch.arange(found.rows)
    assert chosen(every, found, None, "bob").tolist() == [1, 2, 3]
    assert chosen(every, found, 1, "bob").tolist() == []
    assert chosen(every, found, 1, None).tolist() == [4, 5, 6, 7]
    assert chosen(every, found, None, "C").tolist() == [4, 5, 6]
    with_all, _ = shown("Stop(x)", local=())
    assert chosen(torch.arange(8), with_all, None, "ann").tolist() == [0, 4]


def test_labels_stand_at_their_rows():
    found, stated = shown("Stop(x)")
    table = predictions(found, "Stop", None, stated)
    assert table.values[0].tolist() == [1.0, 0.0, 0.0]
    assert table.labels.tolist() == [[254, 255, 255], [255, 255, 64], [255, 0, 255], [255] * 3]
    assert (table.labelled, table.held_back) == (3, 3)
    assert table.values[2].isnan().tolist() == [False, False, True]  # that trace has two points
    assert list(table.prediction_bytes(torch.tensor([2]))) == [0, 0, 255]
    assert sorted(table.order.tolist()) == [0, 1, 2, 3]


def test_too_many_cells_are_refused(monkeypatch):
    monkeypatch.setattr(rows, "MAX_CELLS", 10)
    found, _ = shown("Stop(x)")
    with pytest.raises(LimitError, match="12 degrees; at most 10 are shown"):
        predictions(found, "Stop", None, None)
