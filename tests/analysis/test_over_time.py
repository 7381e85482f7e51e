"""Truth over bindings and time, against the evaluators and the shares of violations."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
import torch

from fotltn.analysis import evaluate_cells as sweeping
from fotltn.analysis import over_time
from fotltn.analysis.over_time import shades, truth_over_time
from fotltn.analysis.truncation import if_longer
from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.logic.check import CheckedAxiom, check_formula
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import CRISP, LOG_PRODUCT, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.config import GODEL as MINIMUM
from fotltn.semantics.tables import spread
from fotltn.syntax.parse import parse_formula
from tests.analysis.explain.common import explain, world
from tests.analysis.scenes import cell_weights, violations
from tests.analysis.test_violations import BODIES, PREFIXES
from tests.random_cases import SIGNATURE, random_model


def case(seed: int, semantics):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model, _ = random_model(rng)
    model = replace(model, relations={"pairs": model.relations["pairs"].unique(dim=0)})
    parsed = parse_formula(rng.choice(PREFIXES).format(rng.choice(BODIES)))
    axiom = CheckedAxiom("R", check_formula(parsed, SIGNATURE).formula, 1.0, parsed)
    return axiom, View(model, semantics).cells(axiom)


@pytest.mark.parametrize("small", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_of_the_evaluators(seed, small, monkeypatch):
    if small:
        monkeypatch.setattr(sweeping, "MAX_CELLS", 7)
    semantics = (STABLE_PRODUCT, MINIMUM, PRODUCT, LOG_PRODUCT, CRISP)[seed % 5]
    _, cells = case(seed, semantics)
    model = cells.tables
    heat = truth_over_time(cells)
    columns = model.horizon if cells.timed else 1
    assert heat.times == tuple(range(columns))
    shape = (model.batch, *(model.size(a) for a in cells.axes), model.horizon)
    true = crisp.evaluate(cells.body, model, threshold=0.5)
    if semantics.boolean:
        degrees = true._replace(tensor=true.tensor.double())
    else:
        degrees = reference.evaluate(cells.body, model, semantics, dtype=torch.float64)
        if semantics.log_space:
            degrees = degrees._replace(tensor=degrees.tensor.exp())
    wanted = spread(degrees, cells.axes).detach().expand(shape)[..., :columns]
    truth = spread(true, cells.axes).expand(shape)[..., :columns]
    counted = torch.zeros(shape, dtype=torch.bool)
    for (trace, time, *place), weight in cell_weights(cells.prefix.layers, model).items():
        counted[(trace, *place, time)] = weight > 0
    counted = counted[..., :columns]
    found = heat.values.reshape(wanted.shape).double()
    torch.testing.assert_close(found.isnan(), ~counted)
    torch.testing.assert_close(found[counted], wanted[counted], rtol=1e-5, atol=1e-6)
    later = crisp.evaluate(if_longer(cells.body), model, threshold=0.5)
    cut = spread(later, cells.axes).expand(shape)[..., :columns] & ~truth
    marks = torch.where(counted, torch.where(cut, 3, truth.long()), 2)
    assert torch.equal(heat.truth.reshape(wanted.shape).long(), marks)
    assert heat.count == int(counted.sum())
    assert heat.violated == int((counted & ~truth & ~cut).sum())
    assert heat.undecided == int((counted & cut).sum())
    final = truth_over_time(cells.viewed(end="final"))
    assert (final.violated, final.undecided) == (int((counted & ~truth).sum()), 0)
    shown = {row for row in range(len(heat.errors)) if (heat.truth[row] != 2).any()}
    assert set(heat.order.tolist()) == shown


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_ranked_by_their_share_of_the_error(seed):
    axiom, cells = case(seed, STABLE_PRODUCT)
    heat = truth_over_time(cells)
    every = violations(axiom, cells.tables, STABLE_PRODUCT, top=10**6)
    shares: dict[tuple[object, ...], float] = {}
    for v in every:
        key = (v.trace, *sorted(v.binding.items()))
        shares[key] = shares.get(key, 0.0) + v.share
    rows = heat.worst(10**6)
    for violated in (True, False):
        errors = [row.error for row in rows if bool(row.violated) is violated]
        assert errors == sorted(errors, reverse=True)
    false = [row.violated > 0 for row in rows]
    assert false == sorted(false, reverse=True)  # rows with violations come first
    for row in rows:
        key = (row.trace, *sorted(row.binding.items()))
        assert row.error == pytest.approx(shares.get(key, 0.0), abs=1e-6)
        assert row.lowest == pytest.approx(float(heat.values[row.row].nan_to_num(2).min()))


@pytest.mark.parametrize("seed", range(12))
def test_a_cell_of_the_table_is_explained_with_its_value(seed):
    _, cells = case(seed, STABLE_PRODUCT)
    heat = truth_over_time(cells)
    for row in heat.worst(3):
        cell = cells.cell(row.row, heat.times.index(row.at))
        tree = explain(cells, cell)
        assert tree.value == pytest.approx(row.lowest, abs=1e-6)
        assert (cell.trace, cell.time) == (row.trace, row.at)


def test_free_variables_are_rows_and_are_read_at_all_times():
    stop = torch.rand(3, 4)
    cells = world("Stop(x)", {"Stop": stop})
    heat = truth_over_time(cells)
    torch.testing.assert_close(heat.values, stop.float())
    cells = world("forall x. Stop(x)", {"Stop": stop})
    heat = truth_over_time(cells)
    assert heat.times == (0,)
    torch.testing.assert_close(heat.values, stop[:, :1].float())


def test_traces_are_rows_of_their_own():
    cells = world("G Stop(x)", {"Stop": torch.rand(2, 3, 4)}, lengths=[4, 2])
    heat = truth_over_time(cells)
    assert [row.trace for row in heat.worst(6)].count(1) == 3
    assert {row.row for row in heat.worst(6) if row.trace == 1} == {3, 4, 5}
    assert heat.values[3:, 2:].isnan().all()
    assert not heat.values[3:, :2].isnan().any()
    assert heat.lengths == (4, 2)


def test_bytes_and_plain_data():
    stop = torch.tensor([[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]])
    cells = world("forall x where A(x). G Stop(x)", {"Stop": stop, "A": torch.ones(2)})
    heat = truth_over_time(cells)
    assert heat.bytes(heat.order) == bytes([0, 127, 254, 254, 254, 254])
    shown = json.loads(json.dumps(heat.as_dict(top=1)))
    assert shown["worst"][0]["binding"] == {"x": "agent0"}
    assert shown["worst"][0]["values"] == [0.0, 0.5, 1.0]
    assert shown["worst"][0]["truth"] == [False, True, True]
    assert (shown["rows"], shown["count"], shown["violated"]) == (2, 6, 1)
    cells = world("forall x where A(x). G Stop(x)", {"Stop": stop, "A": [1.0, 0.0]})
    heat = truth_over_time(cells)
    assert (heat.order.tolist(), heat.bytes([1])) == ([0], bytes([255] * 3))


def test_infinite_errors_share_all():
    stop = torch.tensor([[0.0, 0.5], [0.5, 0.5]])
    cells = world("forall x. G Stop(x)", {"Stop": stop}, semantics=PRODUCT)
    heat = truth_over_time(cells)
    assert [row.error for row in heat.worst(2)] == [1.0, 0.0]
    assert not any(math.isnan(row.error) for row in heat.worst(2))


def test_what_does_not_exist_or_is_too_large_is_refused(monkeypatch):
    cells = world("forall x. G Stop(x)", {"Stop": torch.rand(3, 4)})
    heat = truth_over_time(cells)
    with pytest.raises(DataError, match="there is no row 3"):
        heat.row(3)
    with pytest.raises(DataError, match="there is no column 4"):
        cells.cell(0, 4)
    monkeypatch.setattr(over_time, "MAX_CELLS", 11)
    with pytest.raises(DataError, match="has 12 cells of bindings and times; at most 11"):
        truth_over_time(cells)


def test_only_a_full_1_has_the_last_shade():
    """And only 0 the first; axioms and predicates are shaded alike."""
    one = torch.tensor(1.0, dtype=torch.float32)
    nearly = [0.0, 1e-6, 0.5, 0.9999, float(one.nextafter(torch.zeros_like(one)))]
    for dtype in (torch.float32, torch.float64):
        found = shades(torch.tensor([*nearly, 1.0, math.nan], dtype=dtype))
        assert found.tolist() == [0, 1, 127, 253, 253, 254, 255]
