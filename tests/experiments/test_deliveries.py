"""Deliveries: the process, its theory, its labels, and its Bayes limit against all that may be."""

import hashlib
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fotltn.experiments
from fotltn import DataError, LimitError, check, load_theory
from fotltn.experiments.bayes import SMALLEST_RATE, scores
from fotltn.experiments.deliveries import (
    DEFINITIONS,
    DELIVERIES,
    GIVEN,
    LEARNED,
    RATES,
    SORTS,
    Rates,
    World,
    facts,
    generate,
    noisy,
    statistics,
    write,
)
from fotltn.experiments.deliveries_chains import draw_paths
from fotltn.experiments.deliveries_limit import posterior, posteriors
from fotltn.grounding.dense import interpretation
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import Labels, labels
from fotltn.grounding.split import split
from fotltn.learn.metrics import chance, mean
from fotltn.logic.check import check_formula
from fotltn.networks.definitions import definitions
from fotltn.networks.predicates import Defined
from fotltn.semantics.crisp import evaluate as crisp_value
from fotltn.syntax.parse import parse_formula

THEORY = check(load_theory(Path(fotltn.experiments.__file__).parent / "deliveries.fot"))
SHORT: dict[str, Any] = {"sweeps": 10, "burn_in": 4, "chains": 2}


def read(source, **options):
    return read_facts([source], THEORY.signature, **options)


def model_of(world):
    return interpretation(read(facts(world)), THEORY.signature)


def all_labels(world):
    """Every fact of the learned predicates, true."""
    return labels(read(facts(world)), THEORY.signature, LEARNED)


def observed(world, share, *, seed=0, rates=RATES):
    train, test = split(all_labels(world), share, seed=seed)
    return noisy(train, seed, rates=rates), test


def no_labels():
    index = {name: torch.zeros(3, 0, dtype=torch.int64) for name in LEARNED}
    return Labels(index, {name: torch.zeros(0, dtype=torch.float64) for name in LEARNED})


def runs(row):
    """Where the runs of true in a row begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


# --- the process -----------------------------------------------------------------------------


def test_robots_go_round_their_stations():
    at = generate(20, 1, 6, 200, seed=1).given.at
    assert at.sum(1).max() == 1
    for own in at:
        visits = sorted((*run, s) for s in range(6) for run in runs(own[s]))
        assert {end - start for start, end, _ in visits[1:-1]} <= set(range(2, 7))
        gaps = {b[0] - a[1] for a, b in pairwise(visits)}
        assert gaps <= set(range(1, 5))
        way = [s for *_, s in visits]
        assert len(set(way)) == 3
        assert all(way[i] == way[i % 3] for i in range(len(way)))


def test_faults_have_their_lengths_and_pauses():
    faulty = generate(400, 1, 2, 100, seed=2).faulty
    found = [runs(row) for row in faulty]
    inner = {end - start for row in found for start, end in row if end < 100}
    pauses = {b[0] - a[1] for row in found for a, b in pairwise(row)}
    assert inner == set(range(3, 10))
    assert min(pauses) == 4
    assert 0.4 < faulty.any(1).mean() < 0.6
    assert any(start == 0 for row in found for start, _ in row)
    starts = sum(faulty[:, 0] == 1)
    assert starts / faulty.any(1).sum() == pytest.approx(0.08, abs=0.04)


def test_parcels_are_loaded_and_unloaded_where_their_robot_is():
    world = generate(10, 400, 5, 80, seed=3)
    given = world.given
    loaded, gone, begun = 0, 0, set()
    assert (given.origin != given.target).all()
    for p in range(400):
        there = given.at[given.carrier[p]]
        ((start, end),) = runs(world.waits[p])
        begun.add(start)
        moving = runs(world.moves[p])
        assert bool(moving) == (end < 80)
        for first, last in moving:
            loaded += 1
            assert first == end
            assert there[given.origin[p], first]
            if last < 80:
                gone += 1
                assert there[given.target[p], last]
    assert loaded > gone > 150
    assert len(begun) == 80


def test_seeds_and_names():
    first, again, other = (generate(5, 6, 3, 30, seed=s) for s in (7, 7, 8))
    for name in ("faulty", "waits", "moves"):
        assert (getattr(first, name) == getattr(again, name)).all()
    assert (first.given.at == again.given.at).all()
    assert (first.given.at != other.given.at).any()
    assert first.names["robot"] == ("r1", "r2", "r3", "r4", "r5")
    assert first.names["station"] == ("s1", "s2", "s3")
    assert first.size == (5, 6, 3, 30)
    with pytest.raises(ValueError, match="read-only"):
        first.faulty[0, 0] = True
    with pytest.raises(ValueError, match="read-only"):
        first.given.origin[0] = 1


def test_a_seed_means_the_same_world_everywhere():
    world = generate(seed=0)
    assert world.size == DELIVERIES
    packed = b"".join(np.packbits(table).tobytes() for table in world.tables().values())
    assert hashlib.sha256(packed).hexdigest()[:16] == "286c82d6c4b715e0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"robots": 0}, "a world needs at least 1 of 'robots', not 0"),
        ({"parcels": -1}, "a world needs at least 1 of 'parcels', not -1"),
        ({"stations": 1}, "a world needs at least 2 of 'stations', not 1"),
        ({"steps": 0}, "a world needs at least 1 of 'steps', not 0"),
        ({"seed": -1}, "a seed is a whole number from 0, not -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(DataError) as error:
        generate(**{"robots": 2, "parcels": 2, "stations": 2, "steps": 5, "seed": 0, **arguments})
    assert message in str(error.value)


def test_too_large_a_world_is_refused():
    with pytest.raises(LimitError, match="need 1,000,000,000,000 cells"):
        generate(10**6, 10, 1000, 1000, seed=0)


# --- the theory ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "seed"),
    [(DELIVERIES, 0), ((6, 9, 3, 40), 1), ((3, 4, 2, 12), 2), ((2, 2, 2, 3), 3), ((1, 1, 2, 1), 4)],
)
def test_every_axiom_holds_crisply(size, seed):
    model = model_of(generate(*size, seed=seed))
    value = {a.name: bool(crisp_value(a.formula, model).tensor[..., 0]) for a in THEORY.axioms}
    assert len(value) == 12
    assert all(value.values()), value


def test_every_axiom_can_fail():
    """No axiom holds of any table: facts turned round break each of them."""
    model = model_of(generate(6, 9, 3, 40, seed=1))
    random = torch.Generator().manual_seed(0)
    for name in LEARNED:
        table = model.predicates[name]
        model.predicates[name] = (torch.rand(table.shape, generator=random) < 0.5).double()
    for axiom in THEORY.axioms:
        assert not bool(crisp_value(axiom.formula, model).tensor[..., 0]), axiom.name


@pytest.mark.parametrize("seed", range(3))
def test_definitions_give_the_tables(seed):
    world = generate(8, 12, 4, 50, seed=seed)
    model, tables = model_of(world), world.tables()
    for head, text in DEFINITIONS.items():
        name = head.split("(")[0]
        checked = check_formula(parse_formula(text), THEORY.signature)
        found = crisp_value(checked.formula, model).tensor[0]
        assert found.any()
        assert torch.equal(found, torch.from_numpy(tables[name]))


def test_axioms_say_what_the_definitions_say():
    axioms = [a.source for a in THEORY.axioms]
    for head, text in DEFINITIONS.items():
        variable = head[-2]
        assert parse_formula(f"forall {variable}. G({head} <-> {text})") in axioms
    given = {head.split("(")[0]: Defined((head[-2],), text) for head, text in DEFINITIONS.items()}
    assert set(definitions(given, THEORY.signature)) == {"Alarm", "Busy", "Due", "Delayed"}


def test_symbols_are_those_of_the_theory():
    declared = THEORY.signature.predicates
    assert set(declared) == {*LEARNED, *GIVEN}
    assert {name: decl.sorts for name, decl in declared.items()} == dict(SORTS)
    assert set(RATES) == set(LEARNED)


# --- labels and facts ------------------------------------------------------------------------


def test_labels_miss_what_is_true_and_invent_nothing():
    given = all_labels(generate(40, 80, 10, 80, seed=5))
    found = noisy(given, 3)
    for name in LEARNED:
        true, now = given.truth[name] == 1, found.truth[name] == 1
        assert not (now & ~true).any()
        assert torch.equal(found.index[name], given.index[name])
        if name != "Worn":
            count = int(true.sum())
            missed = RATES[name].missed
            error = abs(float((true & ~now).sum()) / count - missed)
            assert error < 4 * np.sqrt(missed * (1 - missed) / count), name
    again, other = noisy(given, 3), noisy(given, 4)
    assert all(torch.equal(found.truth[n], again.truth[n]) for n in LEARNED)
    assert not torch.equal(found.truth["Faulty"], other.truth["Faulty"])


def test_other_rates_of_labels():
    given = all_labels(generate(4, 4, 3, 30, seed=5)).only(["Busy", "Alarm"])
    found = noisy(given, 0, rates={"Busy": Rates(0.0, 1.0), "Alarm": Rates(1.0, 0.0)})
    assert (found.truth["Busy"] == 1).all()
    assert (found.truth["Alarm"] == 0).all()
    with pytest.raises(DataError, match="no rates of wrong labels are known for 'Alarm'; there"):
        noisy(given, 0, rates={"Busy": Rates(0.0, 0.0)})
    with pytest.raises(DataError, match=r"rates of 'Busy' must be numbers from 0 to 1, not 1\.5"):
        noisy(given, 0, rates={"Busy": Rates(0.0, 1.5)})
    with pytest.raises(DataError, match="a seed is a whole number from 0"):
        noisy(given, -1)


@pytest.mark.parametrize("name", ["facts.csv", "facts.parquet"])
def test_facts_are_read_back_like_any_users(tmp_path, name):
    world = generate(11, 12, 3, 20, seed=6)
    path = write(world, tmp_path / "new" / "folder", name=name)
    assert [file.name for file in path.parent.iterdir()] == [name]
    found = read(path)
    assert found.warnings == ()
    assert found.lengths == (20,)
    assert {sort: tuple(own) for sort, own in found.entities.items()} == world.names
    model = interpretation(found, THEORY.signature)
    for predicate, table in world.tables().items():
        ours = torch.from_numpy(table.copy()).double()
        theirs = model.predicate(predicate)[0]
        assert torch.equal(theirs.squeeze(-1) if theirs.ndim > ours.ndim else theirs, ours)
    for predicate, count in statistics(world).items():
        expected = count.positive if predicate in GIVEN else count.total
        assert len(found.rows[predicate].value) == expected


def test_the_csv_is_plain(tmp_path):
    lines = write(generate(1, 1, 2, 2, seed=0), tmp_path).read_text().splitlines()
    assert lines[0] == "predicate,arg1,arg2,time,truth"
    assert lines[1].startswith("Worn,r1,,,")
    assert lines[2].startswith("Faulty,r1,,0,")
    assert lines[-1] == "Carrier,r1,p1,,1"


@pytest.mark.parametrize("name", ["facts.txt", "../facts.csv"])
def test_bad_names(tmp_path, name):
    with pytest.raises(DataError, match=r"named like 'facts.csv' or 'facts.parquet'"):
        write(generate(1, 1, 2, 2, seed=0), tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "folder").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write(generate(1, 1, 2, 2, seed=0), tmp_path / "folder")


def test_statistics_of_the_usual_size():
    """Enough of everything to learn from, and no predicate that is nearly always true."""
    shares: dict[str, list[float]] = {name: [] for name in LEARNED}
    for seed in range(5):
        for name, own in shares.items():
            own.append(statistics(generate(seed=seed))[name].share)
    for name, own in shares.items():
        assert 0.02 < np.mean(own) < 0.6, name
    assert statistics(generate(seed=0))["Waits"].total == 60 * 80


# --- the limit -------------------------------------------------------------------------------


def every_fault(steps):
    """All sets of faulty points of a robot, and how probable each is."""
    found: dict[tuple[int, ...], float] = {}

    def go(points, ready, probability):
        wait = 1.0
        for start in range(ready, steps):
            for length in range(3, 10):
                end = min(start + length, steps)
                more = points + tuple(range(start, end))
                go(more, end + 4, probability * wait * 0.08 / 7)
            wait *= 0.92
        found[points] = found.get(points, 0.0) + probability * wait

    go((), 0, 1.0)
    quiet = found.pop(())
    sets = [(), *found]
    prior = [0.5, *(0.5 * p / (1 - quiet) for p in found.values())]
    rows = np.array([[t in points for t in range(steps)] for points in sets])
    assert sum(prior) == pytest.approx(1)
    return rows, np.array(prior)


def every_track(given, parcel):
    """All tracks of a parcel: when it waits, when it moves, and how probable that is."""
    steps = given.size.steps
    there = given.at[given.carrier[parcel]]
    loads, unloads = 0.4 * there[given.origin[parcel]], 0.5 * there[given.target[parcel]]
    time, found = np.arange(steps), []
    for begun in range(steps):
        stays = 1.0
        for loaded in range(begun + 1, steps + 1):
            now = 1.0 if loaded == steps else loads[loaded]
            moving = 1.0
            for gone in range(loaded + 1, max(steps, loaded) + 1) if loaded < steps else [steps]:
                ends = 1.0 if gone == steps else unloads[gone]
                probability = stays * now * moving * ends / steps
                if probability:
                    waits, moves = (time >= begun) & (time < loaded), (time >= loaded)
                    found.append((waits, moves & (time < gone), probability))
                moving *= 1 - ends
            stays *= 1 - now
    waits, moves, prior = (np.array(column) for column in zip(*found, strict=True))
    assert prior.sum() == pytest.approx(1)
    return waits, moves, prior


def log_likelihood(tables, given, rates, names):
    """Of the labels of some predicates."""
    total = 0.0
    for name in names:
        _, entity, time = given.index[name].numpy()
        true = tables[name][entity] if name == "Worn" else tables[name][entity, time]
        stated = given.truth[name].numpy() == 1
        missed, invented = (max(rate, SMALLEST_RATE) for rate in rates[name])
        right = np.where(true, np.where(stated, 1 - missed, missed), np.nan)
        right = np.where(true, right, np.where(stated, invented, 1 - invented))
        total += np.log(right).sum()
    return total


def by_trying_all(world, labels, rates):
    """The posterior means of two robots and two parcels, from all that they may do."""
    given, steps = world.given, world.size.steps
    faults, fault_prior = every_fault(steps)
    tracks = [every_track(given, p) for p in range(2)]
    none = np.zeros((2, steps), dtype=bool)
    robots, parcels, both = (
        ("Worn", "Faulty", "Alarm"),
        ("Waits", "Moves", "Busy", "Due"),
        "Delayed",
    )
    count, (first, second) = len(faults), (len(track[2]) for track in tracks)
    log = np.zeros((count, count, first, second))
    of_robots, of_parcels = {}, {}
    for i, j in product(range(count), repeat=2):
        tables = World(given, faults[[i, j]], none, none).tables()
        log[i, j] += np.log(fault_prior[[i, j]]).sum()
        log[i, j] += log_likelihood(tables, labels, rates, robots)
        of_robots[i, j] = {name: tables[name] for name in robots}
    for a, b in product(range(first), range(second)):
        waits, moves = (np.stack([tracks[0][k][a], tracks[1][k][b]]) for k in range(2))
        tables = World(given, none, waits, moves).tables()
        log[:, :, a, b] += np.log(tracks[0][2][a]) + np.log(tracks[1][2][b])
        log[:, :, a, b] += log_likelihood(tables, labels, rates, parcels)
        of_parcels[a, b] = {name: tables[name] for name in parcels}
    delayed = []
    for p, (waits, moves, _) in enumerate(tracks):
        on = np.stack([faults[:, t - 3 if t > 3 else 0 : t + 1].any(1) for t in range(steps)], 1)
        cells = on[:, None] & (waits | moves)[None]
        mine = labels.index[both][1] == p
        part = Labels({both: labels.index[both][:, mine] * torch.tensor([[1], [0], [1]])},
                      {both: labels.truth[both][mine]})  # fmt: skip
        own = np.array(
            [[log_likelihood({both: c[None]}, part, rates, [both]) for c in row] for row in cells]
        )
        shape = [1, 1, 1, 1]
        shape[given.carrier[p]], shape[2 + p] = own.shape
        log = log + own.reshape(shape)
        delayed.append(cells)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    means: dict[str, Any] = dict.fromkeys(LEARNED, 0.0)
    for (i, j), share in np.ndenumerate(weight.sum((2, 3))):
        for name in robots:
            means[name] = means[name] + share * of_robots[i, j][name]
    for (a, b), share in np.ndenumerate(weight.sum((0, 1))):
        for name in parcels:
            means[name] = means[name] + share * of_parcels[a, b][name]
    letters = "ijab"
    means[both] = np.stack([
        np.einsum(f"ijab,{letters[given.carrier[p]]}{letters[2 + p]}t->t", weight, cells)
        for p, cells in enumerate(delayed)
    ])  # fmt: skip
    means["Worn"] = np.asarray(means["Worn"])[:, None]
    return means


TWO_SIDED = {name: Rates(0.25, 0.1) for name in LEARNED}


@pytest.mark.parametrize(
    ("steps", "share", "rates", "seed"),
    [(7, 0.15, RATES, 1), (9, 0.1, RATES, 2), (9, 0.3, TWO_SIDED, 3), (8, 0.0, RATES, 4),
     (9, 0.5, RATES, 5), (10, 0.1, TWO_SIDED, 6)],
)  # fmt: skip
def test_means_are_those_over_all_that_may_have_happened(steps, share, rates, seed):
    world = generate(2, 2, 2, steps, seed=seed)
    given, _ = observed(world, share, seed=seed, rates=rates)
    expected = by_trying_all(world, given, rates)
    found = posterior(
        world.given, given, rates=rates, seed=seed, sweeps=100, burn_in=20, chains=200
    )
    assert tuple(found) == LEARNED
    for name in LEARNED:
        assert found[name].numpy() == pytest.approx(expected[name], abs=0.02), name


def test_paths_are_drawn_as_often_as_they_are_probable():
    """Three states that change over time, against the sum over all 81 paths."""
    random = torch.Generator().manual_seed(0)
    gain = torch.randn(2, 4, 1, 3, generator=random, dtype=torch.float64)
    table = torch.rand(2, 4, 3, 3, generator=random, dtype=torch.float64)
    table[:, :, 0, 2] = 0
    table /= table.sum(-1, keepdim=True)
    first = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64)
    rows = 40_000
    draws = torch.rand(2, 4, rows, generator=random, dtype=torch.float64)
    found = draw_paths(gain.expand(-1, -1, rows, -1), first, table, draws)
    for unit in range(2):
        weights = {}
        for path in product(range(3), repeat=4):
            likely = gain[unit, range(4), 0, path].sum().exp()
            steps = table[unit, range(1, 4), path[:-1], path[1:]].prod()
            weights[path] = float(first[path[0]] * steps * likely)
        whole = sum(weights.values())
        paths, counts = np.unique(found[unit].T.numpy(), axis=0, return_counts=True)
        often = {tuple(p): c / rows for p, c in zip(paths.tolist(), counts, strict=True)}
        for path, weight in weights.items():
            share = weight / whole
            error = abs(often.get(path, 0.0) - share)
            assert error <= 5 * np.sqrt(share * (1 - share) / rows), path


def test_overwhelming_evidence_decides():
    """Also where the likelihoods are far outside the range of floating point numbers."""
    world = generate(6, 9, 3, 40, seed=1)
    found = posterior(
        world.given, all_labels(world), seed=0, rates={n: Rates(0.0, 0.0) for n in LEARNED}, **SHORT
    )
    for name, table in world.tables().items():
        if name in LEARNED:
            assert torch.equal(found[name].squeeze(-1), torch.from_numpy(table.copy()).double())


def test_without_labels_the_means_are_those_of_the_process():
    world = generate(3, 3, 2, 15, seed=0)
    found = posterior(world.given, Labels({}, {}), seed=0, sweeps=20, burn_in=0, chains=200)
    faults, prior = every_fault(15)
    assert found["Faulty"][1].numpy() == pytest.approx(prior @ faults, abs=0.03)
    assert found["Worn"].numpy() == pytest.approx(0.5, abs=0.03)
    waits, moves, prior = every_track(world.given, 2)
    assert found["Waits"][2].numpy() == pytest.approx(prior @ waits, abs=0.03)
    assert found["Moves"][2].numpy() == pytest.approx(prior @ moves, abs=0.03)


def test_runs_computed_together_are_those_computed_alone():
    world = generate(5, 6, 3, 20, seed=1)
    given = [observed(world, share, seed=i)[0] for i, share in enumerate((0.1, 0.0, 0.7))]
    together = posteriors(world.given, given, seeds=[5, 6, 7], **SHORT)
    for i, found in enumerate(together):
        alone = posterior(world.given, given[i], seed=5 + i, **SHORT)
        for name in LEARNED:
            assert torch.equal(found[name], alone[name])
            assert found[name].shape[1] == (1 if name == "Worn" else 20)
    assert posteriors(world.given, [], seeds=[]) == []
    other = posterior(world.given, given[0], seed=9, **SHORT)
    assert not torch.equal(other["Faulty"], together[0]["Faulty"])


def test_more_labels_and_the_labels_of_what_follows_help():
    world = generate(12, 24, 5, 50, seed=0)
    few, test = observed(world, 0.15)
    sets = [few, few.only(("Worn", "Faulty", "Waits", "Moves")), observed(world, 0.6)[0]]
    found = posteriors(world.given, sets, seeds=[1, 2, 3], sweeps=20, burn_in=10, chains=8)
    every, own, many = (mean(scores(tables, test)).value for tables in found)
    base = mean({name: chance(truth) for name, truth in test.truth.items()}).value
    assert base + 0.2 < own + 0.05 < every < many
    assert every < 0.97


def one_label(name, cell, degree):
    return Labels({name: torch.tensor(cell)[:, None]}, {name: torch.tensor([degree])})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "a seed is a whole number from 0"),
        ({"sweeps": 0}, "'sweeps' must be at least 1, not 0"),
        ({"burn_in": -1}, "'burn_in' must be at least 0, not -1"),
        ({"chains": 0}, "'chains' must be at least 1, not 0"),
        ({"rates": {"Busy": Rates(0.0, 0.0)}}, "no rates of wrong labels are known for"),
        ({"labels": one_label("Alram", [0, 1, 1], 1.0)}, "did you mean 'Alarm'"),
        ({"labels": one_label("Alarm", [0, 2, 1], 1.0)}, "one trace of 2 stations"),
        ({"labels": one_label("Worn", [0, 1, 1], 1.0)}, "and 'Worn' has 1 points"),
        ({"labels": one_label("Busy", [1, 0, 1], 1.0)}, "labels of 'Busy' do not fit the world"),
        ({"labels": one_label("Due", [0, 0, 1], 0.5)}, "'Due' must be true or false"),
    ],
)
def test_what_does_not_fit_is_an_error(change, message):
    world = generate(3, 4, 2, 10, seed=0)
    with pytest.raises(DataError) as error:
        posterior(**{"given": world.given, "labels": no_labels(), "seed": 0, **change})
    assert message in str(error.value)


def test_every_set_of_labels_needs_a_seed():
    world = generate(3, 4, 2, 10, seed=0)
    with pytest.raises(DataError, match="there are 1 sets of labels, but 2 seeds"):
        posteriors(world.given, [no_labels()], seeds=[1, 2])
