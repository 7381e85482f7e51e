"""Wards: the process, its theory, and the facts on disk."""

import hashlib
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from fotltn import DataError, LimitError
from fotltn.grounding.dense import tables_of_facts
from fotltn.logic.defined import definitions_in
from fotltn.semantics.crisp import evaluate as crisp_value
from reproduction.deliveries.world import noisy
from reproduction.ward.world import (
    GIVEN,
    LEARNED,
    RATES,
    SORTS,
    WARD,
    generate,
    statistics,
    write,
)
from tests.reproduction.test_deliveries import runs
from tests.reproduction.wards import THEORY, all_labels, every_course, model_of, read

# --- the process -----------------------------------------------------------------------------


def test_the_rota_gives_every_nurse_another_patient():
    rota = generate(3, 5, 21, 4, seed=1).rota
    assert (rota.sum(2) == 1).all()
    assert rota.sum(1).max() == 1
    assert (rota[..., 0:-1:2] == rota[..., 1::2]).all()
    assert (rota[..., :-2] != rota[..., 2:]).any()


def test_spells_and_rests_have_their_lengths():
    ward = generate(6, 20, 100, 10, seed=2)
    rests = [runs(row) for row in ward.rests.reshape(-1, 100)]
    lengths = {end - start for row in rests for start, end in row if end < 100}
    pauses = {b[0] - a[1] for row in rests for a, b in pairwise(row)}
    assert lengths == {3, 4, 5, 6}
    assert min(pauses) == 6
    care = [runs(row) for row in ward.tends.reshape(-1, 100)]
    assert {end - start for row in care for start, end in row if end < 100} == {2, 3, 4, 5}
    ill = [runs(row) for row in ward.ill.reshape(-1, 100)]
    assert min(b[0] - a[1] for row in ill for a, b in pairwise(row)) == 3
    assert ward.ill[..., 0].mean() == pytest.approx(0.2, abs=0.1)


def test_nurses_come_by_the_rota_to_who_was_ill_and_alone():
    ward = generate(4, 10, 60, 10, seed=3)
    tends, cared = ward.tends, ward.tables()["Cared"]
    begins = tends[..., 1:] & ~tends[..., :-1]
    assert not tends[..., 0].any()
    assert not (begins & ~ward.rota[..., 1:]).any()
    alone = (ward.ill & ~cared)[:, None, :, :-1]
    assert not (begins & ~alone).any()
    free = ~(ward.tables()["Busy"][..., :-1] | ward.rests[..., 1:])[:, :, None]
    chances = ward.rota[..., 1:] & alone & free
    assert begins[chances].mean() == pytest.approx(0.7, abs=0.05)
    ends = ward.ill[..., :-1] & ~ward.ill[..., 1:]
    assert ends.sum() > 100
    assert (cared[..., :-1] | ~ends).all()


def test_seeds_and_names():
    first, again, other = (generate(2, 6, 30, 2, seed=s) for s in (7, 7, 8))
    for name in ("rota", "ill", "rests", "tends"):
        assert (getattr(first, name) == getattr(again, name)).all()
    assert (first.rota != other.rota).any()
    assert first.names == {"nurse": ("n1", "n2"), "patient": ("p1", "p2", "p3", "p4", "p5", "p6")}
    assert first.size == (2, 6, 30, 2)
    with pytest.raises(ValueError, match="read-only"):
        first.tends[0, 0, 0, 0] = True


def test_a_seed_means_the_same_ward_everywhere():
    ward = generate(seed=0)
    assert ward.size == WARD
    packed = b"".join(np.packbits(table).tobytes() for table in ward.tables().values())
    assert hashlib.sha256(packed).hexdigest()[:16] == "bb3f606a927b0536"


def test_the_process_is_the_one_of_the_enumeration():
    """How often each course of a tiny ward is generated, against how probable it is."""
    rota = np.zeros((1, 1, 5), dtype=bool)
    rota[..., :] = True
    expected = every_course(rota)
    assert sum(expected.values()) == pytest.approx(1)
    drawn = generate(1, 1, 5, 6_000, seed=4)
    assert drawn.rota.all()
    counts: dict[object, int] = {}
    columns = zip(drawn.ill[:, 0], drawn.tends[:, 0, 0], drawn.rests[:, 0], strict=True)
    for ill, tends, rests in columns:
        now = zip(ill.tolist(), tends.tolist(), rests.tolist(), strict=True)
        course = tuple(((i, 0 if t else None), r) for i, t, r in now)
        counts[course] = counts.get(course, 0) + 1
    assert set(counts) <= set(expected)
    for course, share in expected.items():
        error = abs(counts.get(course, 0) / 6_000 - share)
        assert error <= 5 * np.sqrt(share * (1 - share) / 6_000) + 3e-4, course


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nurses": 0}, "a ward needs at least 1 of 'nurses', not 0"),
        ({"patients": 1}, "a ward needs at least 2 of 'patients', not 1"),
        ({"steps": 0}, "a ward needs at least 1 of 'steps', not 0"),
        ({"traces": 0}, "a ward needs at least 1 of 'traces', not 0"),
        ({"seed": -1}, "a seed must be a whole number of at least 0, not -1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(DataError) as error:
        generate(**{"nurses": 2, "patients": 2, "steps": 5, "traces": 1, "seed": 0, **arguments})
    assert message in str(error.value)


def test_too_large_a_ward_is_refused():
    with pytest.raises(LimitError, match="need 1,000,000,000 cells"):
        generate(100, 1000, 1000, 10, seed=0)


# --- the theory ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "seed"),
    [(WARD, 0), ((2, 5, 30, 3), 2), ((1, 1, 9, 2), 3), ((2, 2, 2, 1), 4), ((1, 1, 1, 1), 5)],
)
def test_every_axiom_holds_crisply(size, seed):
    model = model_of(generate(*size, seed=seed))
    value = {
        a.name: bool(crisp_value(a.formula, model).tensor[..., 0].all()) for a in THEORY.axioms
    }
    assert len(value) == 16
    assert all(axiom.hard for axiom in THEORY.axioms)
    assert all(value.values()), value


def test_every_axiom_can_fail():
    """No axiom holds of any table: facts turned round break each of them."""
    model = model_of(generate(3, 6, 40, 2, seed=1))
    random = torch.Generator().manual_seed(0)
    for name in LEARNED:
        table = model.predicates[name]
        model.predicates[name] = (torch.rand(table.shape, generator=random) < 0.5).double()
    for axiom in THEORY.axioms:
        assert not bool(crisp_value(axiom.formula, model).tensor[..., 0].all()), axiom.name


def test_definitions_give_the_tables():
    defined = definitions_in(THEORY, LEARNED)
    assert set(defined.by_name) == {"Cared", "Busy", "Unseen", "Soon", "Recovers"}
    assert defined.axioms == ("D1", "D2", "D3", "D4", "D5")
    ward = generate(3, 8, 50, 3, seed=2)
    model, tables = model_of(ward), ward.tables()
    for name, definition in defined.by_name.items():
        values = crisp_value(definition.formula, model).tensor
        values = values[..., 0] if name == "Recovers" else values
        assert values.any()
        assert torch.equal(values, torch.from_numpy(tables[name].copy())), name


def test_symbols_are_those_of_the_theory():
    declared = THEORY.signature.predicates
    assert set(declared) == {*LEARNED, *GIVEN}
    assert {name: decl.sorts for name, decl in declared.items()} == dict(SORTS)
    assert set(RATES) == set(LEARNED)


# --- labels and facts ------------------------------------------------------------------------


def test_labels_are_wrong_both_ways():
    clean = all_labels(generate(4, 10, 80, 10, seed=5))
    stated = noisy(clean, 3, rates=RATES)
    for name, kind in product(LEARNED, (0, 1)):
        true = clean.truth[name] == kind
        wrong = float((stated.truth[name] != clean.truth[name])[true].double().mean())
        rate, count = (RATES[name].invented, RATES[name].missed)[kind], int(true.sum())
        assert abs(wrong - rate) < 4 * np.sqrt(rate * (1 - rate) / count), name


@pytest.mark.parametrize("name", ["facts.csv", "facts.parquet"])
def test_facts_are_read_back_like_any_users(tmp_path, name):
    ward = generate(2, 5, 20, 3, seed=6)
    path = write(ward, tmp_path / "new" / "folder", name=name)
    assert [file.name for file in path.parent.iterdir()] == [name]
    stated = read(path)
    assert stated.warnings == ()
    assert stated.lengths == (20, 20, 20)
    for sort, names in ward.names.items():
        assert sorted(stated.entities[sort]) == sorted(names)
    model = tables_of_facts(stated, THEORY.signature)
    order = [stated.entities["nurse"].index(n) for n in ward.names["nurse"]]
    assert order == [0, 1]
    for predicate, table in ward.tables().items():
        ours = torch.from_numpy(table.copy()).double()
        theirs = model.predicate(predicate)
        assert torch.equal(theirs.squeeze(-1) if theirs.ndim > ours.ndim else theirs, ours)
    for predicate, count in statistics(ward).items():
        expected = count.positive if predicate in GIVEN else count.total
        assert len(stated.rows[predicate].value) == expected


def test_the_csv_is_plain(tmp_path):
    lines = write(generate(1, 1, 2, 1, seed=0), tmp_path).read_text().splitlines()
    assert lines[0] == "predicate,trace,arg1,arg2,time,truth"
    assert lines[1].startswith("Ill,t1,p1,,0,")
    assert lines[-1] == "Rota,t1,n1,p1,1,1"


def test_statistics_of_the_usual_size():
    """Enough of everything to learn from, and no predicate that is nearly always true."""
    shares = [statistics(generate(seed=seed)) for seed in range(5)]
    for name in LEARNED:
        assert 0.02 < np.mean([one[name].share for one in shares]) < 0.8, name
    assert shares[0]["Tends"].total == 4 * 10 * 40 * 4
