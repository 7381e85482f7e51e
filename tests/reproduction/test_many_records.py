"""What is written down of runs: scores, satisfaction, and violations as an audit counts them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score  # type: ignore[import-untyped]

from fotltn.analysis.counts import count
from fotltn.analysis.metrics import kb_sat
from fotltn.analysis.view import View
from fotltn.evaluation import axiom_values
from fotltn.project.scene import LEARNED
from fotltn.semantics.config import STABLE_PRODUCT
from reproduction.paper.many import Trained, records, run_many
from reproduction.paper.protocol import READING, Run, Setting, facts_of, world
from reproduction.paper.published import METHODS
from reproduction.report.records import read, record, write
from tests.reproduction.tiny import CELLS, double, one_trace, some, tiny

__all__ = ["tiny"]


def random_tables(work, seed):
    generator = torch.Generator().manual_seed(seed)
    agents, steps = work.base.sizes["agent"], work.base.horizon
    return {
        name: torch.rand(
            len(work.runs), agents, 1 if name in ("Car", "Ped") else steps, generator=generator
        )
        for name in LEARNED
    }


def made_up(tables, count):
    numbers = torch.ones(count, dtype=torch.long)
    return Trained(tables, numbers, numbers, torch.zeros(1, count), 5)


def test_violations_are_those_that_an_audit_counts(tiny):
    work = double(some(tiny, "FOT-LTN"))
    tables = random_tables(work, 3)
    tables["Car"][0] = 0.0  # no antecedent is true
    tables["Ped"][1] = 0.5  # just true
    written = records(work, made_up(tables, len(CELLS)), 1.0)
    theory = work.world.theory
    for number, found in enumerate(written):
        alone = one_trace(work, tables, number)
        for axiom in theory.axioms:
            counts, _ = count(View(alone, STABLE_PRODUCT, end="final").cells(axiom))  # as the paper
            rate = (counts.support - counts.held).sum() / counts.cells.sum()
            assert found["violations"][axiom.name] == pytest.approx(rate, abs=1e-12), axiom.name
        whole = View(alone, STABLE_PRODUCT, learned=LEARNED, end="final", theory=theory).audit()
        assert [found["violations"][a.name] for a in whole.axioms] == pytest.approx(
            [a.on_model.violated / a.on_model.count for a in whole.axioms], abs=1e-12
        )
        assert found["axioms"] == pytest.approx({a.name: a.value for a in whole.axioms})
        assert found["violation_rate"] == pytest.approx(np.mean(list(found["violations"].values())))
    assert any(0 < rate < 1 for rate in written[2]["violations"].values())


def test_violations_counted_by_hand(tiny):
    work = double(some(tiny, "FOT-LTN", [(0.5, 0)]))
    tables = random_tables(work, 8)
    (found,) = records(work, made_up(tables, 1), 1.0)
    is_true = {n: (t[0] >= 0.5).numpy() for n, t in tables.items()}
    near = world(tiny).scene.tables()["Close"]
    car, ped = is_true["Car"][:, 0], is_true["Ped"][:, 0]
    agents, _, steps = near.shape
    wrong = later = 0
    for x in range(agents):
        for y in range(agents):
            for t in range(steps):
                if car[x] and ped[y] and is_true["Crossing"][y, t] and near[x, y, t]:
                    wrong += t + 1 < steps and not is_true["Stop"][x, t + 1]
                    later += bool(is_true["Stop"][x, t]) and not is_true["Run"][x, t:].any()
    assert found["violations"]["A1"] == pytest.approx(wrong / near.size, abs=1e-12)
    assert found["violations"]["A2"] == pytest.approx(later / near.size, abs=1e-12)
    assert wrong > 0
    starts = (car & ~is_true["Run"][:, 0]).mean()
    assert found["violations"]["A4"] == pytest.approx(starts, abs=1e-12)
    assert found["violations"]["A5"] == 0


def test_satisfaction_and_scores_of_a_record(tiny):
    work = double(some(tiny, "FOT-LTN"))
    tables = random_tables(work, 4)
    formulas = {a.name: a.formula for a in work.world.theory.axioms}
    for number, found in enumerate(records(work, made_up(tables, len(CELLS)), 2.0)):
        model = one_trace(work, tables, number)
        values = axiom_values(formulas, model, STABLE_PRODUCT)
        assert found["axioms"] == pytest.approx({n: float(v) for n, v in values.items()})
        assert found["kb_sat"] == pytest.approx(kb_sat(list(found["axioms"].values())).value)
        test = facts_of(work.runs[number], READING)[1]
        expected = {}
        for name in LEARNED:
            _, agent, time = test.index[name].numpy()
            scores = tables[name][number].numpy()[agent, time]
            expected[name] = average_precision_score(test.truth[name].numpy(), scores)
        assert found["pr_auc_by"] == pytest.approx(expected)
        assert found["pr_auc"] == pytest.approx(np.mean(list(expected.values())))
        assert found["seconds"] == 0.5
        shares = [float(truth.double().mean()) for truth in test.truth.values()]
        assert found["chance"] == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("method", METHODS)
def test_records_are_those_that_reports_read(tiny, method, tmp_path):
    found = run_many(some(tiny, method), replace(READING, epochs=2))
    assert [(r["fraction"], r["repetition"]) for r in found] == list(CELLS)
    kept = [record(values) for values in found]
    assert not any(one.extra for one in kept)
    assert all(one.setting["epochs"] == 2 and one.setting["types"] == "all" for one in kept)
    assert {(one.epochs, one.batch, one.device) for one in kept} == {(2, 4, "cpu")}
    assert all(one.seconds > 0 for one in kept)
    for name in ("r.jsonl", "r.parquet"):
        assert read(write(kept, tmp_path / name)) == tuple(kept)


def test_a_predicate_whose_test_facts_are_all_alike_has_no_score(tiny, tmp_path):
    (found,) = run_many([Run(tiny, "FOT-LTN", 0.9, 0)], Setting(epochs=1))
    test = facts_of(Run(tiny, "FOT-LTN", 0.9, 0), Setting())[1]
    alike = {n for n, t in test.truth.items() if len(t.unique()) < 2}
    assert alike
    assert set(found["pr_auc_by"]) == set(LEARNED) - alike
    assert read(write([record(found)], tmp_path / "r.jsonl"))
