"""Deliveries: the process, its theory, its labels, and the facts on disk."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
import torch

from fotltn import DataError, LimitError
from fotltn.grounding.dense import tables_of_facts
from fotltn.logic.check import check_formula
from fotltn.logic.defined import definitions_in
from fotltn.networks.definitions import definitions
from fotltn.networks.predicates import Defined
from fotltn.semantics.crisp import evaluate as crisp_value
from fotltn.syntax.parse import parse_formula
from reproduction.deliveries.world import (
    DEFINITIONS,
    DELIVERIES,
    GIVEN,
    LEARNED,
    RATES,
    SORTS,
    Rates,
    generate,
    noisy,
    statistics,
    write,
)
from tests.reproduction.delivery_worlds import THEORY, all_labels, model_of, read


def runs(row):
    """Where the runs of true in a row begin and end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


# --- the process -----------------------------------------------------------------------------


def test_robots_go_round_their_stations():
    at = generate(20, 1, 6, 200, seed=1).known.at
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
    given = world.known
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
    assert (first.known.at == again.known.at).all()
    assert (first.known.at != other.known.at).any()
    assert first.names["robot"] == ("r1", "r2", "r3", "r4", "r5")
    assert first.names["station"] == ("s1", "s2", "s3")
    assert first.size == (5, 6, 3, 30)
    with pytest.raises(ValueError, match="read-only"):
        first.faulty[0, 0] = True
    with pytest.raises(ValueError, match="read-only"):
        first.known.origin[0] = 1


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
        ({"seed": -1}, "a seed must be a whole number of at least 0, not -1"),
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
    made = definitions(given, THEORY.signature)
    assert set(made) == {"Alarm", "Busy", "Due", "Delayed"}
    read_in_axioms = definitions_in(THEORY, LEARNED)
    assert read_in_axioms.axioms == ("D1", "D2", "D3", "D4", "A1")
    worn = read_in_axioms.by_name["Worn"]
    assert (worn.axioms, worn.formula) == (
        ("A1",),
        check_formula(parse_formula("F Faulty(r)"), THEORY.signature).formula,
    )
    for name, definition in made.items():
        assert read_in_axioms.by_name[name].formula == definition.formula


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
    with pytest.raises(DataError, match="there are no rates of wrong labels for 'Alarm'; there"):
        noisy(given, 0, rates={"Busy": Rates(0.0, 0.0)})
    with pytest.raises(DataError, match=r"rates of 'Busy' must be numbers from 0 to 1, not 1\.5"):
        noisy(given, 0, rates={"Busy": Rates(0.0, 1.5)})
    with pytest.raises(DataError, match="a seed must be a whole number from 0"):
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
    model = tables_of_facts(found, THEORY.signature)
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
