"""Generated scenes: the process, the axioms on what is true, and the facts on disk."""

import hashlib

import numpy as np
import pytest
import torch

from fotltn import DataError, LimitError, check
from fotltn.analysis.metrics import kb_sat
from fotltn.engine import compile_formulas
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.logic.defined import Definitions, definitions_in
from fotltn.project.scene import THEORY as FILE
from fotltn.project.scene import facts, generate
from fotltn.semantics.config import STABLE_PRODUCT
from fotltn.semantics.crisp import evaluate as crisp_value
from fotltn.syntax.load import load_theory
from tests.project.common import write

#: As the smaller data set of the paper.
SIZE = (50, 50, 100)
THEORY = check(load_theory(FILE))


def read(path, **options):
    return read_facts([path], THEORY.signature, **options)


# --- the process -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 2, 4), (4, 7, 30), (7, 4, 30)])
def test_stop_and_the_other_states_follow_from_crossing_and_close(size):
    scene = generate(*size, seed=5, close=0.3)
    tables = scene.tables()
    cars, pedestrians, steps = size
    assert scene.size == size
    for i in range(cars):
        for t in range(steps):
            expected = t > 0 and any(
                scene.crossing[j, t - 1] and scene.close[i, j, t - 1] for j in range(pedestrians)
            )
            assert scene.stop[i, t] == expected
            assert tables["Stop"][i, t] == expected
            assert tables["Run"][i, t] == (not expected)
            assert not tables["Crossing"][i, t]
            assert not tables["OnSidewalk"][i, t]
    for j in range(pedestrians):
        agent = cars + j
        assert tables["Ped"][agent]
        assert not tables["Car"][agent]
        assert not tables["Run"][agent].any()
        assert not tables["Stop"][agent].any()
        assert (tables["Crossing"][agent] == scene.crossing[j]).all()
        assert (tables["OnSidewalk"][agent] == ~scene.crossing[j]).all()


def test_close_is_mirrored_and_between_cars_and_pedestrians_only():
    scene = generate(6, 9, 20, seed=1, close=0.4)
    close = scene.tables()["Close"]
    assert (close == close.transpose(1, 0, 2)).all()
    assert not close[:6, :6].any()
    assert not close[6:, 6:].any()
    assert (close[:6, 6:] == scene.close).all()
    assert 0.3 < scene.close.mean() < 0.5


def runs(row):
    """The lengths of the runs of true in a row, and whether the last one touches the end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return (edges[1::2] - edges[::2]).tolist(), bool(row[-1])


def test_crossings_are_one_or_two_of_the_allowed_lengths():
    steps = 50
    scene = generate(1, 4000, steps, seed=2)
    found = [runs(row) for row in scene.crossing]
    assert {len(lengths) for lengths, _ in found} == {1, 2}
    alone = [lengths[0] for lengths, clipped in found if len(lengths) == 1 and not clipped]
    assert set(range(1, 10)) <= set(alone)
    assert max(alone) <= 18  # two crossings that touch
    in_two = [n for lengths, _ in found if len(lengths) == 2 for n in lengths]
    assert min(in_two) == 1
    assert max(in_two) == 9  # ⌊50/5⌋ - 1
    assert scene.crossing.any(axis=0).all()


def test_the_share_of_crossing_is_that_of_the_process():
    """P(crossing at t) by summing over all starts and durations, against many pedestrians."""
    steps, longest = 50, 9
    once = np.zeros(steps)
    for start in range(steps):
        for duration in range(1, longest + 1):
            once[start : start + duration] += 1 / (steps * longest)
    expected = (once + 1 - (1 - once) ** 2) / 2
    found = generate(1, 40_000, steps, seed=3).crossing.mean(axis=0)
    assert np.abs(found - expected).max() < 0.01


def test_a_short_trace_has_crossings_of_one_point():
    scene = generate(1, 200, 7, seed=0)
    assert scene.crossing.any(axis=1).all()
    assert scene.crossing.sum(axis=1).max() == 2


def test_seeds():
    first, again, other = (generate(5, 6, 30, seed=s) for s in (7, 7, 8))
    for name in ("crossing", "stop", "close"):
        assert (getattr(first, name) == getattr(again, name)).all()
    assert (first.close != other.close).any()
    assert (first.crossing != other.crossing).any()


def test_the_global_generators_play_no_part():
    before = np.random.get_state(legacy=False)["state"]["key"].copy(), torch.get_rng_state()
    generate(5, 5, 20, seed=1)
    assert (np.random.get_state(legacy=False)["state"]["key"] == before[0]).all()
    assert torch.equal(torch.get_rng_state(), before[1])


def test_a_seed_means_the_same_scene_everywhere():
    scene = generate(*SIZE, seed=0)
    packed = b"".join(
        np.packbits(array).tobytes() for array in (scene.crossing, scene.stop, scene.close)
    )
    assert hashlib.sha256(packed).hexdigest()[:16] == "3d0f8d1bc5cc2cb1"


def test_arrays_cannot_be_written_to():
    scene = generate(2, 2, 5, seed=0)
    with pytest.raises(ValueError, match="read-only"):
        scene.crossing[0, 0] = True


def test_names():
    scene = generate(2, 3, 5, seed=0)
    assert scene.agents == ("c1", "c2", "p1", "p2", "p3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cars": 0}, "a scene needs at least 1 of 'cars', not 0"),
        ({"pedestrians": -3}, "a scene needs at least 1 of 'pedestrians', not -3"),
        ({"steps": 0}, "a scene needs at least 1 of 'steps', not 0"),
        ({"seed": -1}, "a seed must be a whole number of at least 0, not -1"),
        ({"close": 1.5}, "the probability of being close must be in [0, 1], not 1.5"),
        ({"close": float("nan")}, "the probability of being close must be in [0, 1]"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(DataError) as error:
        generate(**{"cars": 2, "pedestrians": 2, "steps": 5, "seed": 0, **arguments})
    assert message in str(error.value)


def test_too_large_a_scene_is_refused_before_anything_is_made():
    with pytest.raises(LimitError, match="need 1,000,000,000,000,000 draws of Close"):
        generate(10**6, 10**6, 1000, seed=0)


# --- the axioms on the truth -----------------------------------------------------------------


def test_what_must_hold_holds_crisply(tmp_path):
    """All but A2 and A13, which the end of the trace may cut off."""
    scene = generate(4, 4, 25, seed=11, close=0.3)
    model = tables_of_facts(read(write(scene, tmp_path)), THEORY.signature)
    value = {a.name: bool(crisp_value(a.formula, model).tensor[..., 0]) for a in THEORY.axioms}
    assert value.pop("A13") == (not scene.crossing[:, -1].any())
    value.pop("A2")
    assert all(value.values()), value


def test_the_axioms_are_soft_and_define_nothing():
    assert not any(a.hard for a in THEORY.axioms)
    assert definitions_in(THEORY, [*THEORY.signature.predicates]) == Definitions({}, ())


def test_the_truth_has_the_known_satisfaction(tmp_path):
    model = tables_of_facts(
        read(write(generate(*SIZE, seed=0), tmp_path, name="f.parquet")), THEORY.signature
    )
    formulas = {a.name: a.formula for a in THEORY.axioms}
    prepared = compile_formulas(formulas, THEORY.signature, STABLE_PRODUCT).prepare(
        model, dtype=torch.float64
    )
    values = {name: value.tensor.item() for name, value in prepared(model).items()}
    assert values["A3"] == pytest.approx(0.58, abs=0.02)
    assert values["A13"] == pytest.approx(0.73, abs=0.06)
    assert kb_sat(values).value == pytest.approx(0.93, abs=0.01)


# --- on disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["facts.csv", "facts.parquet"])
def test_facts_are_read_back_like_any_users(tmp_path, name):
    scene = generate(3, 4, 15, seed=6, close=0.3)
    path = write(scene, tmp_path / "new" / "folder", name=name)
    assert path == tmp_path / "new" / "folder" / name
    assert [f.name for f in path.parent.iterdir()] == [name]
    found = read(path)
    assert found.warnings == ()
    assert found.lengths == (15,)
    assert found.entities["agent"] == scene.agents
    model = tables_of_facts(found, THEORY.signature)
    for predicate, table in scene.tables().items():
        assert torch.equal(
            model.predicate(predicate)[0].squeeze(-1) if table.ndim == 1
            else model.predicate(predicate)[0],
            torch.from_numpy(table).double(),
        )  # fmt: skip
    for predicate, stated in scene.stated().items():
        cells = scene.close.sum() * 2 if predicate == "Close" else stated.sum()
        assert len(found.rows[predicate].value) == cells


def test_the_csv_is_plain(tmp_path):
    lines = write(generate(1, 1, 2, seed=0, close=1.0), tmp_path).read_text().splitlines()
    assert lines[0] == "predicate,arg1,arg2,time,truth"
    assert lines[1:5] == ["Car,c1,,,1", "Car,p1,,,0", "Ped,c1,,,0", "Ped,p1,,,1"]
    assert "Run,c1,,0,1" in lines
    assert "Stop,c1,,0,0" in lines
    assert lines[-1] == "Close,p1,c1,1,1"
    assert len(lines) == 1 + 4 + 4 * 2 + 2 * 2


def test_the_table_in_memory_is_that_on_disk(tmp_path):
    scene = generate(2, 2, 4, seed=0)
    import pyarrow.parquet as parquet

    assert parquet.read_table(write(scene, tmp_path, name="a.parquet")).equals(facts(scene))


def test_writing_again_replaces_the_file(tmp_path):
    write(generate(3, 3, 9, seed=0), tmp_path)
    path = write(generate(2, 2, 4, seed=0), tmp_path)
    assert read(path).entities["agent"] == ("c1", "c2", "p1", "p2")


@pytest.mark.parametrize("name", ["facts.txt", "facts", "../facts.csv", "a/b.csv"])
def test_bad_names(tmp_path, name):
    with pytest.raises(DataError, match=r"named like 'facts.csv' or 'facts.parquet'"):
        write(generate(1, 1, 2, seed=0), tmp_path, name=name)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    scene = generate(1, 1, 2, seed=0)
    path = write(scene, tmp_path)
    old = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fotltn.project.scene.csv.write_csv", full)
    with pytest.raises(DataError, match=r"cannot write .*facts\.csv: No space left on device"):
        write(scene, tmp_path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "folder").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write(generate(1, 1, 2, seed=0), tmp_path / "folder")
