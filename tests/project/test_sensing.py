"""Posteriors with networks over features: what they learn, runs that go on, and other data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fotltn
from fotltn.errors import DataError, InterruptedTrainingError
from fotltn.learn.sensors import Sensors
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.model import Model, load_model
from fotltn.project.sensing import folded, present_cells
from fotltn.project.train import train
from tests.project.robots import project

THEORY = """
sort pump
predicate Failed(pump), Leaks(pump)
hard axiom Apart: forall x. G !(Failed(x) & Leaks(x))
"""
LITTLE = {"worlds": 8, "burn_in": 20, "sweeps": 20, "stored": 5}


def tables(seed: int, pumps: int, steps: int, *, repeat: int = 1, noise: float = 0.7) -> Any:
    """Facts, and a wide table with two features, whose noise stays for some steps."""
    draw = np.random.default_rng(seed)
    facts: dict[str, list[Any]] = {"predicate": [], "arg1": [], "time": [], "truth": []}
    wide: dict[str, list[Any]] = {"pump": [], "hour": [], "heat": [], "flow": []}
    for number in range(pumps):
        state, error, name = 0, np.zeros(2), f"p{seed}-{number}"
        for time in range(steps):
            state = int(draw.integers(0, 3)) if draw.random() < 0.15 else state
            error = draw.normal(size=2) * noise if time % repeat == 0 else error
            row = (name, time, float((state == 1) + error[0]), float((state == 2) + error[1]))
            for column, value in zip(wide.values(), row, strict=True):
                column.append(value)
            for predicate, value in (("Failed", 1), ("Leaks", 2)):
                fact = (predicate, name, time, int(state == value))
                for column, one in zip(facts.values(), fact, strict=True):
                    column.append(one)
    return facts, wide


def some(facts: Any, share: float, seed: int = 0) -> Any:
    """A share of the facts."""
    draw = np.random.default_rng(seed)
    rows = draw.random(len(facts["time"])) < share
    return {k: [v for v, stays in zip(c, rows, strict=True) if stays] for k, c in facts.items()}


def learned(facts: Any, wide: Any, **settings: Any) -> Model:
    how: dict[str, Any] = {
        "learn": ["Failed", "Leaks"], "method": "posterior",
        "training": {"epochs": 80, "rate": 0.03},
        "objective": {"missed": 0.01, "invented": 0.01}, "posterior": LITTLE,
    }  # fmt: skip
    seen = fotltn.Wide(wide, "pump", "pump", "hour", features=["heat", "flow"])
    return fotltn.train(THEORY, facts=facts, wide=seen, **{**how, **settings})


@pytest.fixture(scope="module")
def model() -> Model:
    facts, wide = tables(1, 12, 16)
    return learned(some(facts, 0.15), wide)


def worst(model: Model) -> float:
    metrics = model.metrics()
    assert metrics is not None
    return min(row.pr_auc.value for row in metrics.predicates.values())


def exponents(model: Model) -> Mapping[str, float]:
    assert model.posterior is not None
    assert model.posterior.carried is not None
    return model.posterior.carried.exponents


# --- other data ---------------------------------------------------------------------------------


def test_a_model_travels_and_comes_back_from_its_folder(model, tmp_path):
    facts, wide = tables(6, 8, 25)
    new = model.apply([facts, wide])
    assert worst(new) > 0.7
    assert new.posterior is not None
    assert new.world.labels.total == 0
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert exponents(again) == exponents(model)
    other = again.apply([facts, wide])
    assert other.tables.predicate("Failed").equal(new.tables.predicate("Failed"))
    other.save(tmp_path / "other")
    third = load_model(tmp_path / "other")
    assert third.tables.predicate("Failed").equal(new.tables.predicate("Failed"))


def test_labels_of_other_data_are_evidence_if_asked(model):
    facts, wide = tables(3, 4, 12, noise=3.0)
    blind, told = (model.apply([facts, wide], evidence=asked) for asked in (False, True))
    assert told.metrics() is None
    labels = blind.world.test
    scores = [one.score(labels).predicates["Failed"].log_loss.value for one in (blind, told)]
    assert scores[1] < 0.1 < scores[0]


def test_what_does_not_travel_is_named(model):
    """The prior of tracks is learned anew where it tells other things apart than before."""
    posterior = model.posterior
    assert posterior is not None
    assert posterior.carried is not None
    strange = replace(posterior.carried, conditions={("Failed", "Leaks"): ("Off(x)",)})
    other = replace(model, posterior=replace(posterior, carried=strange))
    new = other.apply([*tables(6, 4, 6)])
    assert [w.message for w in new.facts.warnings][:1] == [
        "the prior of 'Failed', 'Leaks' is learned again from the new data, because it depends on "
        "other things there"
    ]


def test_a_card_tells_of_networks(model, tmp_path):
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "with a network with hidden layers of 16, 16 units beside" in text
    assert "- Of each `pump`, networks see 2 features (`heat`, `flow`)." in text
    assert "- trust in networks, as exponents: `Failed` " in text
    assert "It samples worlds of the new data" in text


def test_worlds_without_networks_travel(tmp_path):
    robots = train(read_config(project(tmp_path)))
    rows = {"predicate": ["Near", "Near"], "arg1": ["r9", "r7"], "time": [0, 3]}
    new = robots.apply(rows)
    posterior = new.posterior
    assert posterior is not None
    assert robots.posterior is not None
    assert posterior.rates == robots.posterior.rates
    assert new.facts.entities["robot"] == ("r9", "r7")
    for number in range(posterior.count):
        for axiom in new.theory.axioms:
            if axiom.hard:
                world = posterior.world(number)
                assert bool(fotltn.evaluate(axiom.source, world, semantics="crisp")), axiom.name


def test_gradients_have_no_evidence():
    facts, wide = tables(1, 4, 6)
    gradient = learned(facts, wide, method="gradient", posterior=None, training={"epochs": 1},
                       objective=None)  # fmt: skip
    with pytest.raises(DataError) as caught:
        gradient.apply([facts, wide], evidence=True)
    assert "evidence is for sampled worlds, and this model has none" in str(caught.value)


# --- learning -----------------------------------------------------------------------------------


def test_features_help_beyond_labels(model):
    facts, wide = tables(1, 12, 16)
    alone = learned(some(facts, 0.15), wide, posterior={**LITTLE, "exponent": 0.0})
    losses = []
    for one in (model, alone):
        report = one.metrics([facts])
        assert report is not None
        losses.append(sum(r.log_loss.value for r in report.predicates.values()))
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.slow
def test_repeated_features_are_trusted_less():
    trusted = []
    for repeat in (1, 5):
        facts, wide = tables(4, 15, 20, repeat=repeat)
        trusted.append(sum(exponents(learned(some(facts, 0.5), wide)).values()) / 2)
    assert trusted[1] < 0.6 * trusted[0]


@pytest.mark.slow
def test_noise_is_not_trusted():
    """Networks that learn noise by heart are believed if they hear of their own cells again."""
    facts, wide = tables(1, 20, 25, noise=2.0)
    draw = np.random.default_rng(0)
    wide |= {f"n{i}": draw.normal(size=len(wide["pump"])).tolist() for i in range(12)}
    names = [n for n in wide if n not in ("pump", "hour")]
    losses = []
    for chosen in ({"folds": 1}, {"folds": 3}, {"exponent": 0.0}):
        made = fotltn.train(
            THEORY, facts=some(facts, 0.2), method="posterior",
            wide=fotltn.Wide(wide, "pump", "pump", "hour", features=names),
            predicates={n: {"kind": "network", "hidden": [64, 64]} for n in ("Failed", "Leaks")},
            training={"epochs": 500, "rate": 0.01}, posterior={"worlds": 16, **chosen},
            objective={"missed": 0.01, "invented": 0.01},
        )  # fmt: skip
        report = made.metrics([facts])
        assert report is not None
        losses.append(sum(row.log_loss.value for row in report.predicates.values()))
    assert losses[0] > 3 * losses[2]
    assert losses[1] < 1.1 * losses[2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_networks_learn_beside_worlds_on_a_gpu(tmp_path):
    facts, wide = tables(1, 12, 16)
    on_gpu = learned(some(facts, 0.15), wide, machine={"device": "cuda"})
    assert on_gpu.tables.predicate("Failed").device.type == "cuda"
    assert all(value > 0 for value in exponents(on_gpu).values())
    report = on_gpu.metrics([facts])
    assert report is not None
    assert min(row.pr_auc.value for row in report.predicates.values()) > 0.6
    on_gpu.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    new = tables(6, 8, 25)
    here, there = (one.apply([*new]).tables.predicate("Failed") for one in (again, on_gpu))
    torch.testing.assert_close(here.cpu(), there.cpu(), atol=0.25, rtol=0)


KINDS = ["heads", "encoder", "own encoder", "changes", "not all"]


@pytest.mark.parametrize("kind", KINDS)
def test_networks_of_all_kinds(kind, tmp_path):
    facts, wide = tables(1, 6, 8)
    how: dict[str, Any] = {"training": {"epochs": 4}, "posterior": {**LITTLE, "burn_in": 4}}
    modules: dict[Any, Any] = {}
    match kind:
        case "heads":
            modules = {("Failed", "Leaks"): nn.Linear(2, 2)}
            how |= {"learn": [], "predicates": modules}
        case "encoder":
            how["inputs"] = {"pump": {"encoder": "gru"}}
        case "changes":
            how["inputs"] = {"pump": {"changes": [1]}}
        case "own encoder":
            how["inputs"] = {"pump": {"encoder": nn.Identity()}}
            modules = {"pump": nn.Identity()}
        case _:
            how["predicates"] = {"Leaks": "logits"}
    made = learned(facts, wide, **how)
    made.save(tmp_path / "model")
    again = load_model(tmp_path / "model", modules=modules)
    seen = again.apply([facts, wide])
    assert seen.tables.predicate("Failed").equal(
        made.apply([facts, wide]).tables.predicate("Failed")
    )
    seeing = ("Failed",) if kind == "not all" else ("Failed", "Leaks")
    assert again.grounding.sensors is not None
    assert tuple(again.grounding.sensors.signature.predicates) == seeing


def of_traces(facts: Any, wide: Any) -> tuple[Any, Any]:
    """Each pump in a trace of its own, of which one is shorter."""
    for table, key in ((facts, "arg1"), (wide, "pump")):
        table["trace"] = list(table[key])
        table[key] = ["p"] * len(table[key])
    rows = [
        name != "p1-1" or hour < 5 for name, hour in zip(wide["trace"], wide["hour"], strict=True)
    ]
    wide = {k: [v for v, stays in zip(c, rows, strict=True) if stays] for k, c in wide.items()}
    rows = [
        name != "p1-1" or hour < 5 for name, hour in zip(facts["trace"], facts["time"], strict=True)
    ]
    return {
        k: [v for v, stays in zip(c, rows, strict=True) if stays] for k, c in facts.items()
    }, wide


def test_networks_learn_from_parts_of_the_traces():
    """With neighbours and traces of different lengths; nothing is said where a trace has ended."""
    theory = THEORY + "predicate Feeds(pump, pump)\naxiom Feeds: forall x. G !Feeds(x, x)\n"
    facts, wide = of_traces(*tables(1, 6, 8))
    seen = fotltn.Wide(wide, "pump", "pump", "hour", trace="trace", features=["heat", "flow"])
    made = fotltn.train(
        theory, facts=facts, wide=seen, learn=["Failed", "Leaks"], method="posterior",
        inputs={"pump": {"neighbours": ["Feeds"]}}, posterior={**LITTLE, "burn_in": 4},
        training={"epochs": 4, "batches": {"by": "traces", "size": 2}},
    )  # fmt: skip
    grounding = made.grounding.sensors
    assert grounding is not None
    there = present_cells(made.world, grounding)["Failed"]
    assert there.sum() == 5 * 8 + 5
    folds = folded(grounding, made.world.labels, 3)["Failed"]
    assert folds.flatten(1).float().std(1).max() == 0
    assert made.posterior is not None
    table = made.posterior.marginals["Failed"]
    short = made.facts.traces.index("p1-1")
    assert not bool(table[short, :, 5:].any())


def test_an_interrupted_run_ends_as_if_it_was_not(tmp_path):
    facts, wide = tables(1, 6, 8)
    how = {"training": {"epochs": 8}, "posterior": {**LITTLE, "burn_in": 12, "sweeps": 4}}
    one = learned(facts, wide, **how)
    for number in (7, 6):
        count = 0

        class Stop(fotltn.Callback):
            def sweep(self, progress):  # noqa: ARG002
                nonlocal count
                count += 1
                if count == number:  # noqa: B023
                    raise KeyboardInterrupt

        with pytest.raises((KeyboardInterrupt, InterruptedTrainingError)):
            learned(facts, wide, checkpoints=tmp_path / "c", callbacks=[Stop()], **how)
    two = learned(facts, wide, checkpoints=tmp_path / "c", **how)
    assert two.tables.predicate("Failed").equal(one.tables.predicate("Failed"))
    assert exponents(two) == exponents(one)
    for name, weight in one.grounding.state_dict().items():
        assert two.grounding.state_dict()[name].equal(weight), name


# --- folds --------------------------------------------------------------------------------------


def sensors(model: Model) -> tuple[Sensors, dict[str, Tensor], dict[str, Tensor]]:
    grounding = model.grounding.sensors
    assert grounding is not None
    there = present_cells(model.world, grounding)
    folds = folded(grounding, model.world.labels, 3)
    config = model.config
    training = replace(config.training, epochs=5)
    return Sensors(grounding, folds, there, training, config.objective), folds, there


def test_no_cell_is_told_its_own_share_again():
    """What is said of a fold does not change with the shares of that fold."""
    said = []
    for share in (0.1, 0.9):
        made, folds, there = sensors(learned(*tables(1, 6, 8), training={"epochs": 2},
                                             posterior={**LITTLE, "burn_in": 3}))  # fmt: skip
        targets = {n: torch.where(folds[n] == 1, share, 0.3) for n in made.names}
        weights = {n: t.double() for n, t in there.items()}
        made.learn(targets, weights, 20)
        said.append((made.scores(), folds))
    (first, folds), (second, _) = said
    for name in first:
        mine = folds[name] == 1
        assert first[name][mine].equal(second[name][mine])
        assert not first[name][~mine].equal(second[name][~mine])


def test_what_is_said_is_beside_the_share_of_true_cells():
    """Of features that tell nothing, networks that have learned say nothing."""
    facts, wide = tables(1, 6, 8)
    wide["heat"] = wide["flow"] = [float(n % 2) for n in range(len(wide["heat"]))]
    made, _, there = sensors(learned(facts, wide, training={"epochs": 2, "rate": 0.05},
                                     posterior={**LITTLE, "burn_in": 3}))  # fmt: skip
    targets = {n: torch.full(t.shape, 0.2) for n, t in there.items()}
    made.learn(targets, {n: t.double() for n, t in there.items()}, 100)
    for name, score in made.scores().items():
        assert float(score.abs().max()) < 0.02, name
        assert made.bases()[name] == pytest.approx(np.log(0.25), abs=0.05)


def test_pairs_are_of_one_fold_both_ways():
    theory = "sort p\npredicate Near(p, p)\n"
    names = [f"a{n}" for n in range(5)]
    wide = {"p": names * 2, "t": [0] * 5 + [1] * 5, "x": list(range(10))}
    facts = {"predicate": ["Near"], "arg1": ["a0"], "arg2": ["a1"], "time": [0], "truth": [1]}
    made = fotltn.train(
        theory, facts=facts, wide=fotltn.Wide(wide, "p", "p", "t", features=["x"]),
        learn=["Near"], method="posterior", training={"epochs": 1},
        posterior={**LITTLE, "burn_in": 2, "sweeps": 2},
    )  # fmt: skip
    grounding = made.grounding.sensors
    assert grounding is not None
    (fold,) = folded(grounding, made.world.labels, 3).values()
    assert fold.equal(fold.transpose(1, 2))
    assert set(fold.unique().tolist()) == {0, 1, 2}
    assert not bool(folded(grounding, made.world.labels, 1)["Near"].any())
    assert set(folded(grounding, made.world.labels, 6)["Near"].unique().tolist()) == {0, 3}


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["embedding = 3", 'learnable = ["r0"]'])
def test_vectors_of_single_entities_are_refused(tmp_path, key):
    folder = project(tmp_path)
    text = (folder / "project.toml").read_text("utf-8")
    (folder / "project.toml").write_text(f"{text}\n[inputs.robot]\n{key}\n", "utf-8")
    with pytest.raises(DataError) as caught:
        build(read_config(folder))
    first = caught.value.diagnostics[0]
    assert first.message.startswith("with a posterior, networks see only features of each 'robot'")
    assert first.hint == f'leave out {key.split()[0]}, or method = "gradient"'
