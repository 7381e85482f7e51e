"""Predictions beside labels, by row, where traces have entities of their own."""

from dataclasses import replace

import pytest
import torch

from fotltn.analysis import prediction_rows
from fotltn.analysis.cells import Cells
from fotltn.analysis.prediction_rows import predictions
from fotltn.analysis.view import View
from fotltn.errors import LimitError
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.logic.check import check, check_formula
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula

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
    tables = tables_of_facts(facts, THEORY.signature)
    checked = check_formula(parse_formula(text), THEORY.signature)
    cells = View(tables, STABLE_PRODUCT).cells(checked)
    return cells, labels(facts, THEORY.signature, ["Stop"])


def test_rows_are_numbered_by_trace_and_binding():
    found, _ = shown("Sees(x, y)")
    assert found.rows == 2 * 2 * 2
    for row in range(found.rows):
        cell = found.cell(row, 1)
        assert row == (cell.trace * 2 + cell.numbers[0]) * 2 + cell.numbers[1]
        assert found.row(cell) == row
    assert found.label(1) == "t1: ann, bob"
    assert found.binding(found.cell(6, 0)) == {"x": "dan", "y": "cid"}


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
    monkeypatch.setattr(prediction_rows, "MAX_CELLS", 10)
    found, _ = shown("Stop(x)")
    with pytest.raises(LimitError, match="12 degrees; at most 10 are shown"):
        predictions(found, "Stop", None, None)


def test_predictions_are_compared_where_both_are():
    found, _ = shown("Stop(x)")
    table = predictions(found, "Stop", None, None)
    values = table.values.clone()
    values[0] = torch.tensor([0.0, 1.0, torch.nan])
    other = replace(table, values=values, truths=values > 0.5)
    shared = 4 * 3 - 2 - 1  # a trace of two points, and what is not there
    assert table.apart(other) == pytest.approx((2 / shared, 2 / shared))
    assert table.apart(table) == (0.0, 0.0)
    assert table.apart(replace(table, values=values[:1])) == (None, None)
