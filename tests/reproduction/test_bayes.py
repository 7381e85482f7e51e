"""The Bayes limit against sums over all that may have happened, and its records."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fotltn import DataError, check
from fotltn.analysis.metrics import pr_auc
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import flip, split
from fotltn.project.scene import LEARNED, THEORY, Size, generate
from fotltn.syntax.load import load_theory
from reproduction.paper.bayes import SMALLEST_RATE, limits, posterior, posteriors, scores
from tests.project.common import write
from tests.reproduction.crossing_sets import every_set

SHORT: dict[str, Any] = {"sweeps": 20, "burn_in": 4, "chains": 2}


def all_labels(scene):
    """Every fact of the learned predicates, true."""
    tables, stated = scene.tables(), scene.stated()
    index, truth = {}, {}
    for name in LEARNED:
        agent, *time = np.nonzero(stated[name])
        cells = [np.zeros_like(agent), agent, *(time or [np.zeros_like(agent)])]
        index[name] = torch.from_numpy(np.stack(cells))
        truth[name] = torch.from_numpy(tables[name][agent, *time].astype(np.float64))
    return Labels(index, truth, dict.fromkeys(LEARNED, ("agent",)))


def noisy(scene, share, *, rate=0.1, seed=0):
    train, test = split(all_labels(scene), share, seed=seed)
    return flip(train, rate, seed)[0], test


def no_labels():
    index = {name: torch.zeros(3, 0, dtype=torch.int64) for name in LEARNED}
    return Labels(index, {name: torch.zeros(0, dtype=torch.float64) for name in LEARNED})


def by_trying_all(scene, given, rate):
    """The posterior means of two pedestrians, from every pair of sets of points."""
    cars, pedestrians, steps = scene.size
    assert pedestrians == 2
    sets, prior = every_set(steps)
    crossing = np.zeros((2, steps))
    stop = np.zeros((cars, steps))
    whole = 0.0
    for points, probability in zip(sets, prior, strict=True):
        pair = np.stack([np.broadcast_to(points, sets.shape), sets], axis=1)
        seen = np.einsum("cpt,npt->nct", scene.close, pair) > 0
        stops = np.zeros((len(sets), cars, steps))
        stops[..., 1:] = seen[..., :-1]
        worlds = {"Crossing": pair, "OnSidewalk": 1 - pair, "Stop": stops, "Run": 1 - stops}
        weight = probability * prior
        for name, world in worlds.items():
            _, agent, time = given.index[name].numpy()
            first = cars if name in ("Crossing", "OnSidewalk") else 0
            right = world[:, agent - first, time] == given.truth[name].numpy()
            weight = weight * np.where(right, 1 - rate, rate).prod(1)
        whole += weight.sum()
        crossing += np.einsum("n,npt->pt", weight, pair)
        stop += np.einsum("n,nct->ct", weight, stops)
    return crossing / whole, stop / whole


# --- the posterior ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "share", "rate", "seed"),
    [(10, 0.3, 0.1, 1), (12, 0.1, 0.1, 2), (15, 0.2, 0.2, 3), (15, 0.3, 0.0, 4), (16, 0.0, 0.1, 5)],
)
def test_means_are_those_over_all_that_may_have_happened(steps, share, rate, seed):
    scene = generate(3, 2, steps, seed=seed, close=0.5)
    given, _ = noisy(scene, share, rate=rate, seed=seed)
    crossing, stop = by_trying_all(scene, given, rate or SMALLEST_RATE)
    found = posterior(
        scene.close, scene.size, given, rate, seed=seed, sweeps=100, burn_in=20, chains=200
    )
    assert found["Crossing"][3:].numpy() == pytest.approx(crossing, abs=0.015)
    assert found["Stop"][:3].numpy() == pytest.approx(stop, abs=0.015)
    assert torch.equal(found["Run"][:3], 1 - found["Stop"][:3])
    assert torch.equal(found["OnSidewalk"][3:], 1 - found["Crossing"][3:])


def test_tables_are_of_all_agents_and_types_are_known():
    scene = generate(4, 3, 20, seed=0)
    found = posterior(scene.close, scene.size, noisy(scene, 0.5)[0], 0.1, seed=0, **SHORT)
    assert tuple(found) == LEARNED
    for name in ("Car", "Ped"):
        assert found[name].shape == (7, 1)
        assert found[name][:, 0].tolist() == scene.tables()[name].tolist()
    for name in LEARNED[2:]:
        assert found[name].shape == (7, 20)
        assert found[name].dtype == torch.float64
        assert (found[name][~torch.from_numpy(scene.stated()[name])] == 0).all()
    assert (found["Stop"][:, 0] == 0).all()


def test_without_noise_all_labels_give_the_truth():
    scene = generate(10, 8, 40, seed=3, close=0.1)
    found = posterior(scene.close, scene.size, all_labels(scene), 0.0, seed=0, **SHORT)
    for name in LEARNED[2:]:
        assert torch.equal(found[name], torch.from_numpy(scene.tables()[name]).double())


def test_one_sweep_knows_what_the_cars_of_a_single_pedestrian_tell():
    scene = generate(3, 1, 40, seed=1, close=1.0)
    assert scene.crossing.any()
    given = all_labels(scene).only(["Stop"])
    found = posterior(scene.close, scene.size, given, 0.0, seed=0, sweeps=1, burn_in=0, chains=5)
    known = slice(0, -1)  # nobody sees the last point
    assert found["Crossing"][3, known].tolist() == scene.crossing[0, known].tolist()


def test_labels_that_are_always_wrong_say_as_much():
    scene = generate(10, 8, 40, seed=3, close=0.1)
    wrong = flip(all_labels(scene), 1.0, 0)[0]
    found = posterior(scene.close, scene.size, wrong, 1.0, seed=0, **SHORT)
    assert torch.equal(found["Stop"], torch.from_numpy(scene.tables()["Stop"]).double())


@pytest.mark.parametrize("given", [Labels({}, {}), no_labels()])
def test_without_labels_the_means_are_those_of_the_process(given):
    scene = generate(3, 2, 20, seed=0, close=0.3)
    found = posterior(scene.close, scene.size, given, 0.1, seed=0, sweeps=50, burn_in=0, chains=200)
    sets, prior = every_set(20)
    assert found["Crossing"][3].numpy() == pytest.approx(prior @ sets, abs=0.02)


def test_labels_of_even_odds_say_nothing():
    scene = generate(3, 2, 20, seed=0, close=0.3)
    with_labels, without = (
        posterior(scene.close, scene.size, given, 0.5, seed=0, **SHORT)
        for given in (all_labels(scene), no_labels())
    )
    assert torch.equal(with_labels["Crossing"], without["Crossing"])


def test_types_and_agents_of_the_other_kind_are_not_looked_at():
    scene = generate(3, 2, 20, seed=0, close=0.3)
    given, _ = noisy(scene, 0.5)
    more = torch.tensor([[0, 0], [0, 4], [3, 7]])
    changed = replace(
        given.only(LEARNED[2:]),
        index={n: given.index[n] for n in LEARNED[2:]} | {"Car": more},
        truth={n: given.truth[n] for n in LEARNED[2:]} | {"Car": torch.zeros(2)},
    )
    changed.index["Crossing"] = torch.cat([given.index["Crossing"], more[:, :1]], dim=1)
    changed.truth["Crossing"] = torch.cat([given.truth["Crossing"], torch.ones(1)])
    one, other = (
        posterior(scene.close, scene.size, g, 0.1, seed=0, **SHORT) for g in (given, changed)
    )
    assert torch.equal(one["Crossing"], other["Crossing"])
    assert torch.equal(one["Car"], other["Car"])


def test_runs_computed_together_are_those_computed_alone():
    scene = generate(8, 6, 30, seed=1, close=0.1)
    given = [noisy(scene, share, seed=i)[0] for i, share in enumerate((0.1, 0.0, 0.7))]
    together = posteriors(scene.close, scene.size, given, 0.1, seeds=[5, 6, 7], **SHORT)
    everyone = torch.from_numpy(scene.tables()["Close"])
    for i, found in enumerate(together):
        alone = posterior(everyone, scene.size, given[i], 0.1, seed=5 + i, **SHORT)
        for name in LEARNED:
            assert torch.equal(found[name], alone[name])
    assert posteriors(scene.close, scene.size, [], 0.1, seeds=[]) == []
    other = posterior(scene.close, scene.size, given[0], 0.1, seed=9, **SHORT)
    assert not torch.equal(other["Crossing"], together[0]["Crossing"])


def test_labels_read_from_disk_are_of_the_same_agents(tmp_path):
    scene = generate(12, 11, 10, seed=2)
    theory = check(load_theory(THEORY))
    read = read_facts([write(scene, tmp_path)], theory.signature)
    assert tuple(read.entities["agent"]) == scene.agents
    ours, theirs = all_labels(scene), labels(read, theory.signature, LEARNED)
    for name in LEARNED:
        one, other = (
            set(zip(*x.index[name].tolist(), x.truth[name].tolist(), strict=True))
            for x in (ours, theirs)
        )
        assert one == other


# --- how good it is --------------------------------------------------------------------------


def test_the_sweeps_of_a_run_suffice_for_its_figures():
    """Over several scenes, since in a small one few facts decide on the figure."""
    truth, exact, sampled = [], [], []
    for seed in range(8):
        scene = generate(5, 2, 13, seed=seed, close=0.4)
        given, _ = noisy(scene, 0.15, seed=seed)
        crossing, stop = by_trying_all(scene, given, 0.1)
        found = posterior(scene.close, scene.size, given, 0.1, seed=seed)
        truth += [scene.crossing, scene.stop]
        exact += [crossing, stop]
        sampled += [found["Crossing"][5:].numpy(), found["Stop"][:5].numpy()]
    for which in (slice(0, None, 2), slice(1, None, 2)):
        right, limit, ours = (
            np.concatenate([table.ravel() for table in tables[which]])
            for tables in (truth, exact, sampled)
        )
        figure = pr_auc(right, limit).value
        assert figure < 0.95
        assert pr_auc(right, ours).value == pytest.approx(figure, abs=0.01)


def test_more_labels_and_the_labels_of_cars_help():
    scene = generate(15, 15, 50, seed=0, close=0.1)
    train, test = noisy(scene, 0.15)
    found = {}
    for name, given in {
        "few": train,
        "pedestrians": train.only(("Crossing", "OnSidewalk")),
        "many": noisy(scene, 0.6)[0],
    }.items():
        tables = posterior(scene.close, scene.size, given, 0.1, seed=0, sweeps=15, burn_in=5)
        found[name] = scores(tables, test)["Crossing"].value
    assert found["pedestrians"] + 0.05 < found["few"] < found["many"]
    assert found["many"] > 0.95


def test_records_of_the_limit():
    scene = generate(8, 6, 30, seed=1, close=0.1)
    asked = []

    def labels_of(fraction, repetition):
        asked.append((fraction, repetition))
        return noisy(scene, fraction, seed=repetition)

    def judge(tables):
        return {"kb_sat": float(tables["Car"].mean())}

    found = list(
        limits(scene, "Small", labels_of, (0.2, 0.8), range(2), together=3, judge=judge, **SHORT)
    )
    assert asked == [(0.2, 0), (0.2, 1), (0.8, 0), (0.8, 1)]
    assert [(r["fraction"], r["repetition"]) for r in found] == asked
    assert [r["batch"] for r in found] == [3, 3, 3, 1]
    assert len({r["seed"] for r in found}) == 4
    for record in found:
        assert json.loads(json.dumps(record)) == record
        train, test = noisy(scene, record["fraction"], seed=record["repetition"])
        tables = posterior(scene.close, scene.size, train, 0.1, seed=record["seed"], **SHORT)
        by = {name: metric.value for name, metric in scores(tables, test).items()}
        assert record["pr_auc_by"] == pytest.approx(by)
        assert record["pr_auc"] == pytest.approx(sum(by.values()) / 6)
        shares = [truth.mean().item() for truth in test.truth.values()]
        assert record["chance"] == pytest.approx(np.mean(shares))
        assert record["kb_sat"] == pytest.approx(8 / 14)
        assert (record["data"], record["method"]) == ("Small", "Bayes limit")
        assert record["epochs"] == 20
        assert record["seconds"] > 0
        assert record["device"] == "cpu"
    (again,) = limits(scene, "Small", labels_of, (0.8,), [1], **SHORT)
    assert again["seed"] == found[-1]["seed"]
    assert again["pr_auc"] == found[-1]["pr_auc"]


def test_a_predicate_without_test_labels_has_no_figure():
    scene = generate(4, 3, 20, seed=1, close=0.2)
    train, test = noisy(scene, 0.5)
    test = test.take({n: t == t for n, t in test.truth.items() if n != "Car"})
    (record,) = limits(scene, "Small", lambda _f, _r: (train, test), [0.5], [0], **SHORT)
    assert record["pr_auc_by"]["Car"] is None
    rest = [value for name, value in record["pr_auc_by"].items() if name != "Car"]
    assert record["pr_auc"] == pytest.approx(np.mean(rest))


# --- errors ----------------------------------------------------------------------------------


def one_label(name, cell, degree):
    return Labels({name: torch.tensor(cell)[:, None]}, {name: torch.tensor([degree])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flip_rate": 1.5}, "the flip rate must be a number from 0 to 1, not 1.5"),
        ({"seed": -1}, "a seed must be a whole number from 0"),
        ({"sweeps": 0}, "'sweeps' must be at least 1, not 0"),
        ({"burn_in": -1}, "'burn_in' must be at least 0, not -1"),
        ({"chains": 0}, "'chains' must be at least 1, not 0"),
        ({"size": Size(3, 4, 10)}, "close has the shape (4, 3, 10)"),
        ({"labels": one_label("Crosing", [0, 5, 1], 1.0)}, "did you mean 'Crossing'"),
        ({"labels": one_label("Run", [0, 7, 1], 1.0)}, "one trace of 7 agents and 10 time points"),
        ({"labels": one_label("Run", [1, 0, 1], 1.0)}, "labels of 'Run' do not fit the scene"),
        ({"labels": one_label("Stop", [0, 0, 0, 1], 1.0)}, "labels of 'Stop' do not fit"),
        ({"labels": one_label("Stop", [0, 0, 1], 0.5)}, "'Stop' must be 0 or 1"),
    ],
)
def test_what_does_not_fit_is_an_error(change, message):
    scene = generate(4, 3, 10, seed=0)
    given = {"close": scene.close, "size": scene.size, "labels": no_labels(), "flip_rate": 0.1}
    with pytest.raises(DataError) as error:
        posterior(**{**given, "seed": 0, **change})
    assert message in str(error.value)


def test_every_set_of_labels_needs_a_seed_and_a_batch_a_size():
    scene = generate(4, 3, 10, seed=0)
    with pytest.raises(DataError, match="there are 1 sets of labels, but 2 seeds"):
        posteriors(scene.close, scene.size, [no_labels()], 0.1, seeds=[1, 2])
    with pytest.raises(DataError, match="together must be at least 1, not 0"):
        next(limits(scene, "Small", lambda _f, _r: noisy(scene, 0.5), [0.5], [0], together=0))
