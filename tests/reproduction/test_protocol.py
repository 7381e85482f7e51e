"""The protocol: which facts are learned from, flipped and tested on, and which runs there are."""

import pytest
import torch

from fotltn import DataError
from fotltn.errors import SemanticsError
from fotltn.project.scene import LEARNED
from fotltn.semantics.sparse import SparseTable
from reproduction.paper.carped import statistics
from reproduction.paper.protocol import (
    DATA,
    FLIPS,
    READING,
    TYPES,
    Run,
    Setting,
    facts_of,
    grid,
    theory,
    world,
)
from reproduction.paper.published import FRACTIONS, METHODS, STATISTICS

STATIC = ("Car", "Ped")
OTHERS = tuple(name for name in LEARNED if name not in STATIC)
READINGS = [
    Setting(types=types, flip_types=flipped) for types in TYPES for flipped in (True, False)
]


def cells(labels, name):
    return list(zip(*labels.index[name].tolist(), strict=True))


def truths(labels, name):
    return dict(zip(cells(labels, name), labels.truth[name].tolist(), strict=True))


def run(fraction=0.4, repetition=0, data="CarPed35K", method="FOT-LTN"):
    return Run(data, method, fraction, repetition)


# --- facts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", READINGS, ids=lambda s: f"{s.types}, {s.flip_types}")
@pytest.mark.parametrize("fraction", [0.1, 0.8])
def test_facts_to_learn_from_and_to_test_on(setting, fraction):
    every = world("CarPed35K").every
    train, test = facts_of(run(fraction), setting)
    for name in OTHERS:
        learned, tested = cells(train, name), cells(test, name)
        assert not set(learned) & set(tested)
        assert sorted(learned + tested) == sorted(cells(every, name))
        assert abs(len(learned) - fraction * 5000) <= 1
    for name in LEARNED:  # what is tested on is clean
        whole = truths(every, name)
        assert all(whole[cell] == truth for cell, truth in truths(test, name).items())
    for name in STATIC:
        learned, tested = cells(train, name), cells(test, name)
        match setting.types:
            case "all":
                assert learned == tested == cells(every, name)
            case "once":
                assert not set(learned) & set(tested)
                assert sorted(learned + tested) == sorted(cells(every, name))
            case "every step":
                assert abs(len(learned) / (100 * 100) - fraction) < 0.02
                assert len(tested) == pytest.approx((1 - fraction) * 100, abs=1)


@pytest.mark.parametrize("setting", READINGS, ids=lambda s: f"{s.types}, {s.flip_types}")
def test_a_tenth_is_flipped_in_training_and_true_and_false_alike(setting):
    every = world("CarPed35K").every
    counts = {(name, truth): [0, 0] for name in LEARNED for truth in (0.0, 1.0)}
    for repetition in range(10):
        train, _ = facts_of(run(0.5, repetition), setting)
        for name in LEARNED:
            whole = truths(every, name)
            for cell, truth in zip(cells(train, name), train.truth[name].tolist(), strict=True):
                counts[name, whole[cell]][0] += truth != whole[cell]
                counts[name, whole[cell]][1] += 1
    for (name, _), (flipped, total) in counts.items():
        if name in STATIC and not setting.flip_types:
            assert flipped == 0
        else:
            deviation = (FLIPS * (1 - FLIPS) / total) ** 0.5
            assert abs(flipped / total - FLIPS) < 4 * deviation


def test_true_facts_have_their_share():
    for name, truth in facts_of(run(0.3), Setting())[0].truth.items():
        expected = 0.3 * float(world("CarPed35K").every.truth[name].sum())
        clean = facts_of(run(0.3), Setting())[1].truth[name].sum()
        assert float(clean) == pytest.approx(expected * 7 / 3, abs=2)
        assert len(truth) == pytest.approx(0.3 * len(world("CarPed35K").every.truth[name]), abs=1)


def test_methods_share_facts_and_repetitions_do_not():
    kept = {}
    for method in METHODS:
        train, test = facts_of(run(method=method), READING)
        kept[method] = [truths(part, "Run") for part in (train, test)]
    assert kept["FOT-LTN+BK"] == kept["FOT-LTN"] == kept["HTGNN"]
    other = facts_of(run(repetition=1), READING)[0]
    shared = set(cells(other, "Run")) & set(kept["FOT-LTN"][0])
    assert len(shared) == pytest.approx(0.4 * 2000, rel=0.1)  # as of independent draws


@pytest.mark.parametrize("types", TYPES)
def test_a_holdout_is_a_part_of_the_noisy_training_facts(types):
    setting = Setting(types=types)
    noisy, _ = facts_of(run(0.8), setting)
    train, held = facts_of(run(0.8), Setting(types=types, holdout=0.2))
    for name in OTHERS:
        whole = truths(noisy, name)
        parts = truths(train, name), truths(held, name)
        assert not set(parts[0]) & set(parts[1])
        assert {**parts[0], **parts[1]} == whole
    assert held.total == round(0.2 * noisy.total)


# --- runs ------------------------------------------------------------------------------------


def test_the_grid_of_the_paper():
    runs = list(grid())
    assert len(runs) == len(set(runs)) == 480
    seeds: dict[int, list[Run]] = {}
    for one in runs:
        seeds.setdefault(one.seed, []).append(one)
    assert len(seeds) == 160
    for shared in seeds.values():
        assert tuple(one.method for one in shared) == METHODS
        assert len({(one.data, one.fraction, one.repetition) for one in shared}) == 1


def test_no_percent_and_repetition_has_the_seed_of_another():
    seeds = {run(p / 100, r, d).seed for p in range(1, 100) for r in range(100) for d in DATA}
    assert len(seeds) == 99 * 100 * len(DATA)


def test_a_smaller_grid():
    runs = list(grid(("CarPed180K",), ("HTGNN",), (0.1, 0.8), 2))
    assert [(r.fraction, r.repetition) for r in runs] == [(0.1, 0), (0.1, 1), (0.8, 0), (0.8, 1)]
    assert {r.data for r in runs} == {"CarPed180K"}
    assert tuple(dict.fromkeys(r.fraction for r in grid())) == FRACTIONS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "CarPed35k"}, "unknown data set 'CarPed35k'; did you mean 'CarPed35K'"),
        ({"fraction": 0.105}, "in whole percents from 0.01 to 0.99, not 0.105"),
        ({"fraction": 1.0}, "from 0.01 to 0.99, not 1.0"),
        ({"fraction": 0.0}, "from 0.01 to 0.99"),
        ({"fraction": float("nan")}, "from 0.01 to 0.99"),
        ({"repetition": -1}, "a repetition must be at least 0, not -1"),
    ],
)
def test_runs_that_cannot_be(changes, message):
    with pytest.raises(DataError, match=message):
        run(**changes)


def test_unknown_methods_and_data_sets():
    with pytest.raises(DataError, match="unknown method 'HTGN'; did you mean 'HTGNN'"):
        list(grid(methods=("HTGN",)))
    with pytest.raises(DataError, match="unknown data set 'Cars'"):
        world("Cars")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"types": "evry step"}, "cannot be stated 'evry step'; did you mean 'every step'"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"watch": 1.0}, r"the share to watch must be in \[0, 1\)"),
        ({"holdout": -0.1}, "the share to holdout"),
        ({"scale": -1.0}, "the scale must be at least 0"),
        ({"rate": 0.0}, "the rate above 0"),
    ],
)
def test_settings_that_make_no_sense(changes, message):
    with pytest.raises(DataError, match=message):
        Setting(**changes)


def test_a_semantics_without_p_is_refused():
    with pytest.raises(SemanticsError):
        Setting(semantics="crisp")


# --- data sets -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_statistics_are_near_the_paper_s(name):
    found = statistics(world(name).scene)
    for predicate, (positive, total) in STATISTICS[name].items():
        assert found[predicate].total == total
        assert abs(found[predicate].positive - positive) < 0.025 * total
        if predicate in STATIC:
            assert found[predicate].positive == positive
        if predicate == "Close":
            assert found[predicate].positive == pytest.approx(positive, rel=0.02)


def test_labels_and_close_say_what_the_scene_says():
    found = world("CarPed35K")
    tables, stated = found.scene.tables(), found.scene.stated()
    for name in LEARNED:
        shape = (1, 100, 1 if name in STATIC else 100)
        truth, known = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
        truth[tuple(found.every.index[name])] = found.every.truth[name].double()
        known[tuple(found.every.index[name])] = True
        assert torch.equal(known[0].squeeze(-1), torch.from_numpy(stated[name]).squeeze(-1))
        expected = torch.from_numpy(tables[name] & stated[name])
        assert torch.equal(truth[0].squeeze(-1), expected.double())
    close = found.close.predicates["Close"]
    assert isinstance(close, SparseTable)
    assert close.value.dtype == torch.float32  # whatever PyTorch's default is
    dense = close.dense(torch.float32)[0] > 0
    assert torch.equal(dense, torch.from_numpy(tables["Close"]))
    assert len(theory().axioms) == 13
