"""A detector's probabilities as evidence, and thresholds that are chosen on watched facts."""

import json
import random

import numpy as np
import pytest
import torch

import fotltn
from fotltn.analysis.metrics import best_threshold
from fotltn.errors import DataWarning, FotError
from fotltn.grounding.labels import Labels
from fotltn.learn.objective import Objective, fact_loss
from fotltn.semantics.tables import Tables

THEORY = """
sort pump
predicate Failed(pump), Worn(pump)
axiom Cause: forall x. G(Failed(x) -> Worn(x))
"""


@pytest.mark.parametrize("kind", ["cross-entropy", "noise-aware"])
def test_the_loss_of_evidence_is_its_likelihood(kind):
    degrees = torch.tensor([[[0.2, 0.7, 0.6, 0.9]]], requires_grad=True)
    tables = Tables({"s": 1}, torch.tensor([4]), 4, {"P": degrees}, {}, {})
    index = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 3]])
    truth = torch.tensor([0.3, 0.5, 1.0, 0.0])
    labels = Labels({"P": index}, {"P": truth}, {"P": ("s",)})
    objective = Objective(facts=kind, together="sum", axioms="none", evidence=("P",), flips=0.1)
    loss = fact_loss(objective, labels, tables, 0, 0.1)
    g = degrees.detach().flatten()
    seen = g if kind == "cross-entropy" else 0.9 * g + 0.1 * (1 - g)
    each = [0.3 * g[0] + 0.7 * (1 - g[0]), torch.tensor(0.5), seen[2], 1 - seen[3]]
    torch.testing.assert_close(loss.detach(), -torch.stack(each).log().mean())
    loss.backward()
    assert degrees.grad is not None
    assert degrees.grad[0, 0, 1] == 0  # a detector that does not know has no say
    assert degrees.grad[0, 0, 0] > 0  # less than one half speaks against it


def table(rows: int = 40) -> dict[str, list[object]]:
    draw = random.Random(2)
    heat = [draw.gauss(0, 1) for _ in range(rows)]
    return {
        "pump": [f"p{i % 8}" for i in range(rows)],
        "hour": [i // 8 for i in range(rows)],
        "heat": [*heat],
        "failed": [int(h > 1) if i % 3 else None for i, h in enumerate(heat)],
        "camera": [0.9 if h > 0.5 else 0.2 for h in heat],
    }


def train(**settings) -> fotltn.Model:
    wide = fotltn.Wide(
        table(), "pump", "pump", "hour", predicates={"failed": "Failed", "camera": "Worn"},
        features=["heat"],
    )  # fmt: skip
    objective = {"facts": "cross-entropy", "axioms": "log", "together": "sum"}
    objective |= settings.pop("objective", {})
    training = {"epochs": 60, "rate": 0.05} | settings.pop("training", {})
    return fotltn.train(
        THEORY, wide=wide, learn=["Failed", "Worn"], objective=objective, training=training,
        **settings,
    )  # fmt: skip


def test_evidence_is_no_label():
    model = train(objective={"evidence": ["Worn"]}, data={"train": 0.5})
    assert len(model.world.stated.truth["Worn"]) == 0
    assert model.world.test is not None
    assert len(model.world.test.truth["Worn"]) == 0
    assert len(model.world.labels.truth["Worn"]) == 40
    as_labels = train(data={"train": 0.5})
    assert len(as_labels.world.labels.truth["Worn"]) == 20
    cold = [m.ask("Worn(x)", at="all").tensor.flatten().median() for m in (model, as_labels)]
    assert cold[0] < 0.1 < cold[1] < 0.3  # the camera says 0.2


def test_evidence_of_an_unknown_predicate():
    with pytest.raises(FotError, match="the unknown predicate 'Wron'"):
        train(objective={"evidence": ["Wron"]})


# --- thresholds -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["f1", "accuracy"])
def test_the_best_threshold_is_the_best_of_all(by):
    draw = np.random.default_rng(3)
    for _ in range(60):
        truth = draw.random(12) < 0.4
        scores = np.round(draw.random(12), draw.integers(1, 4))

        def worth(limit, truth=truth, scores=scores):
            said = scores >= limit
            if by == "accuracy":
                return (said == truth).mean()
            return 2 * (said & truth).sum() / max(said.sum() + truth.sum(), 1)

        chosen = best_threshold(truth, scores, by)
        if truth.all() or not truth.any():
            assert chosen == 0.5
            continue
        every = [0.5, *np.linspace(0, 1, 2001)]
        assert worth(chosen) == pytest.approx(max(map(worth, every)))
        if worth(0.5) == worth(chosen):
            assert chosen == 0.5


def test_thresholds_are_chosen_on_watched_facts_and_stay_with_the_model(tmp_path, monkeypatch):
    seen: list[int] = []
    from fotltn.analysis import metrics

    def counted(truth, score, by):
        seen.append(len(truth))
        return best_threshold(truth, score, by)

    monkeypatch.setattr(metrics, "best_threshold", counted)
    model = train(training={"thresholds": "f1", "validation": 0.4, "epochs": 5})
    assert sum(seen) == round(0.4 * model.world.labels.total)
    assert set(model.thresholds) == {"Failed", "Worn"}
    model.save(tmp_path / "model")
    loaded = fotltn.load_model(tmp_path / "model")
    assert loaded.thresholds == model.thresholds
    degrees = loaded.tables.predicate("Failed")
    decided = loaded.decided().predicate("Failed")
    assert torch.equal(decided == 1, degrees >= model.thresholds["Failed"])
    truths = loaded.predictions(["Failed"], decide=True).column("truth").to_pylist()
    assert set(truths) <= {0.0, 1.0}
    assert sum(truths) == decided.sum()
    report = loaded.score(loaded.world.labels)
    (truth, score) = loaded.scores(loaded.world.labels)["Failed"]
    expected = ((np.asarray(score) >= model.thresholds["Failed"]) == np.asarray(truth)).mean()
    assert report.predicates["Failed"].accuracy.value == pytest.approx(expected)
    past = json.loads((tmp_path / "model" / "training.json").read_text())
    assert past["thresholds"] == dict(model.thresholds)


def test_without_watched_facts_thresholds_stay_and_a_warning_says_so():
    with pytest.warns(DataWarning, match="there are no facts to choose thresholds on"):
        model = train(training={"thresholds": "f1", "epochs": 2, "validation": 0})
    assert model.thresholds == {}
    assert any("there are no facts to choose thresholds on" in w for w in model.warnings)
