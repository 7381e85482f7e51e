"""The study of pairs of people, on a folder of made-up clips in the format of the real tables."""

import csv
import gzip
import math
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss  # type: ignore[import-untyped]

from fotltn.errors import DataError
from reproduction.caviar import methods, scores, study, tables

PERSONS = (
    "video", "frame", "person", "x", "y", "width", "height", "orientation", "appearance",
    "movement", "role", "context", "situation",
)  # fmt: skip
GROUPS = ("video", "frame", "group", "members", "situation")


def clip(name, seed):
    """Two who walk together and then meet, a third who passes, and a bag that is left."""
    draw = random.Random(seed)
    persons, groups = [], []
    far = 100 + draw.randrange(40)
    for frame in range(80):
        walks = frame < 40
        x = 20 + 2 * min(frame, 40)
        rows = [
            (1, x, 50, "walking" if walks else "inactive", 10),
            (2, x + 12, 52, "walking" if walks else "active", 14),
            (3, 200 - 2 * frame, far, "walking", 190),
        ]
        if frame >= 30:
            rows.append((4, x + 5, 60, "inactive", 0))
        for number, at, down, movement, angle in rows:
            persons.append((name, frame, number, at, down, 30, 30, angle, "visible", movement,
                            "walker", "walking", "moving"))  # fmt: skip
        groups.append((name, frame, 0, "1;2", "moving" if walks else "interacting"))
    return persons, groups


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("caviar")
    names = [f"v{n:02}" for n in range(11)]
    made = [clip(name, n) for n, name in enumerate(names)]
    for file, head, rows in (
        ("persons.csv.gz", PERSONS, [r for p, _ in made for r in p]),
        ("groups.csv.gz", GROUPS, [r for _, g in made for r in g]),
        ("videos.csv", ("video",), [(n,) for n in [*names, "fomd1"]]),
    ):
        text = "\n".join(",".join(map(str, row)) for row in (head, *rows)) + "\n"
        data = text.encode()
        (place / file).write_bytes(gzip.compress(data) if file.endswith("gz") else data)
    return place


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("tables")
    tables.write(tables.read(folder), out)
    return out


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_row_has_what_is_measured_of_a_pair(made):
    rows = rows_of(made / "pairs.csv")
    assert {r["pair"] for r in rows} == {"1-2", "1-3", "1-4", "2-3", "2-4", "3-4"}
    (first,) = [r for r in rows if (r["video"], r["pair"], r["step"]) == ("v00", "1-2", "1")]
    assert float(first["distance"]) == pytest.approx(math.hypot(12, 2), abs=1e-4)
    assert float(first["distance_by_size"]) == pytest.approx(math.hypot(12, 2) / 30, abs=1e-4)
    assert float(first["turned"]) == 4
    assert float(first["drift"]) == 0
    (apart,) = [r for r in rows if (r["video"], r["pair"], r["step"]) == ("v00", "1-3", "1")]
    assert float(apart["drift"]) == pytest.approx(25 * abs(float(apart["closing"])), abs=1e-3)
    assert float(apart["drift"]) > 1
    assert float(first["slower"]) == pytest.approx(2 / 30, abs=1e-4)
    assert (first["walking"], first["still"], first["thing"]) == ("1.0", "0.0", "0.0")
    assert (first["Moving"], first["Meeting"], first["Fighting"]) == ("1", "0", "0")
    (later,) = [r for r in rows if (r["video"], r["pair"], r["step"]) == ("v00", "1-2", "6")]
    assert (later["walking"], later["still"], later["Meeting"]) == ("0.0", "1.0", "1")
    bag = [r for r in rows if (r["video"], r["pair"]) == ("v00", "2-4")]
    assert {r["thing"] for r in bag} == {"1.0"}
    assert min(int(r["step"]) for r in bag) == 3


def test_every_frame_is_judged_and_three_people_make_three_triples(made):
    frames = rows_of(made / "frames.csv")
    both = [r for r in frames if (r["video"], r["pair"]) == ("v03", "1-2")]
    assert len(both) == 80
    assert [int(r["step"]) for r in both] == [n // 10 for n in range(80)]
    triples = rows_of(made / "triples.csv")
    some = [r for r in triples if r["trace"] == "v03"]
    assert len(some) == 3 * 4  # four people
    assert {"1-2", "1-3", "2-3"} in [{r["arg1"], r["arg2"], r["arg3"]} for r in some]


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("videos.csv", None, "there is no 'videos.csv'"),
        ("groups.csv.gz", "video,frame\nv00,1\n", "has no column 'members'"),
        (
            "persons.csv.gz",
            ",".join(PERSONS) + "\nv00,1,1,left,2,3,4,5,a,walking,b,c,d\n",
            "persons.csv.gz:2: could not convert",
        ),
    ],
)
def test_tables_that_do_not_fit_are_told(folder, tmp_path, file, text, told):
    for one in folder.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=told):
        tables.read(tmp_path)


def test_crisp_rules_hold_until_something_ends_them(made):
    said = methods.by_rules(methods.read(made), {"close": 1.0}, 0, False)
    both = [said["Moving"]["v00", "1-2", step] for step in range(8)]
    assert [v >= 0.5 for v in both] == [True] * 4 + [False] * 4
    meeting = [said["Meeting"]["v00", "1-2", step] for step in range(8)]
    assert [v >= 0.5 for v in meeting] == [False] * 4 + [True] * 4
    assert said["Meeting"]["v00", "2-4", 6] < 0.5  # nobody meets a bag


def test_two_rules_know_distances_in_pixels_and_not_things(made):
    said = methods.by_rules(methods.read(made), {"pixels": 24.0}, 0, False)
    both = [said["Moving"]["v00", "1-2", step] for step in range(8)]
    assert [v >= 0.5 for v in both] == [True] * 4 + [False] * 4
    assert said["Meeting"]["v00", "2-4", 6] >= 0.5  # a bag


def test_settings_are_chosen_one_after_the_other(made, monkeypatch):
    worth = {(1, "a"): 3, (2, "a"): 2, (3, "a"): 4, (2, "b"): 1, (1, "b"): 0}
    tried = []

    def judged(_self, _method, _train, _fold, choice):
        tried.append((choice["x"], choice["y"]))
        return worth[tried[-1]]

    monkeypatch.setattr(study.Study, "_judged", judged)
    monkeypatch.setitem(study.GRIDS, "rules", {"x": (1, 2, 3), "y": ("a", "b")})
    assert study.Study(made).choose("rules", [], 0, {}) == {"x": 2, "y": "b"}
    assert tried == [(1, "a"), (2, "a"), (3, "a"), (2, "b")]


def test_metrics_are_those_of_the_frames(made):
    draw = np.random.default_rng(0)
    true = scores.frames(made)
    cells = {cell for rows in true.values() for cell, _ in rows}
    # Logits in the middle of bins, so that nothing is lost by counting.
    said = {
        name: {cell: 1 / (1 + math.exp(-0.25 * draw.integers(-20, 20))) for cell in sorted(cells)}
        for name in scores.CLASSES
    }
    counts = scores.counted(said, true)
    videos = sorted(true)
    times = scores.resampled(len(videos), seed=1)
    for place, name in enumerate(scores.CLASSES):
        metrics = scores.Scores(counts[name], videos).metrics(times[:2])
        for row in (0, 1):
            drawn = [v for v, n in zip(videos, times[row], strict=True) for _ in range(int(n))]
            p = np.array([said[name][cell] for v in drawn for cell, _ in true[v]])
            y = np.array([truth[place] for v in drawn for _, truth in true[v]])
            yes = p >= 0.5
            f1 = 2 * (yes & (y == 1)).sum() / (yes.sum() + y.sum())
            assert metrics["f1"][row] == pytest.approx(f1)
            assert metrics["ap"][row] == pytest.approx(average_precision_score(y, p))
            assert metrics["loss"][row] == pytest.approx(log_loss(y, p), abs=1e-4)
            ece = sum(abs(y[p == v].sum() - p[p == v].sum()) for v in np.unique(p)) / len(p)
            assert metrics["ece"][row] == pytest.approx(ece)


def test_differences_are_of_the_same_clips():
    first = {"f1": np.array([0.5, *np.linspace(0.4, 0.6, 101)])}
    second = {"f1": first["f1"] - 0.1}
    assert scores.compared(first, second, "f1") == pytest.approx((0.1, 0.1, 0.1))


def test_folds_spread_what_is_rare(made):
    whole = methods.read(made)
    assert sorted(study.folds(whole).values()) == sorted([*range(10), 0])
    train = [v for v, n in study.folds(whole).items() if n != 3]
    assert study.labelled(whole, train, "all", 3) == train
    few = study.labelled(whole, train, "2", 3)
    assert len(few) == 2
    assert set(few) <= set(train)


@pytest.fixture
def brief(monkeypatch):
    """Settings that take moments."""
    told = methods.project()
    short = {**told, "posterior": {"worlds": 4, "burn_in": 3, "sweeps": 3, "stored": 1}}
    monkeypatch.setattr(methods, "project", lambda: short)
    grids = {m: {k: (2,) if k == "epochs" else v[:1] for k, v in grid.items()}
             for m, grid in study.GRIDS.items()}  # fmt: skip
    monkeypatch.setattr(study, "GRIDS", grids)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("rules", ("close", "drift")),
        ("posterior", ("close", "drift", "weight")),
        pytest.param("network", ("prior", "epochs"), marks=pytest.mark.slow),
        pytest.param(
            "posterior and network",
            ("close", "drift", "weight", "exponent", "prior", "epochs"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_labels_of_the_clips_that_are_judged_are_never_seen(made, method, keys):
    whole = methods.read(made)
    turned = methods.Tables(dict(whole.pairs), whole.triples)
    for name in methods.LEARNED:
        turned.pairs[name] = [
            1 - cell if video == "v04" else cell
            for video, cell in zip(whole.pairs["video"], whole.pairs[name], strict=True)
        ]
    train = [v for v in study.folds(whole) if v != "v04"]
    chosen = {"close": 1.0, "drift": 0.5, "weight": 0.4, "prior": 3.0, "epochs": 2,
              "exponent": 0.1}  # fmt: skip
    choice = {key: chosen[key] for key in keys}
    first, second = (study.predicted(method, t, train, choice, "noisy", 1) for t in (whole, turned))
    assert first == second


@pytest.mark.usefixtures("brief")
def test_a_study_writes_a_record_for_each_method_once(made, tmp_path):
    wanted = ("rules", "trees", "network")
    lines = list(study.study(made, tmp_path, wanted, [2], ["all", "5"]))
    assert len(lines) == 6
    rows = study.records(tmp_path)
    fold = [v for v, n in study.folds(methods.read(made)).items() if n == 2]
    for row in rows:
        assert set(row["counts"]["Moving"]) == set(fold)
        for one in row["counts"]["Moving"].values():
            frames = sum(false + true for false, true in one["bins"].values())
            assert frames == 80 * 3 + 50 * 3
    assert not list(study.study(made, tmp_path, wanted, [2], ["all", "5"]))


def test_what_others_take_over_is_chosen_first():
    *choosing, last = study._stages(study.METHODS, range(10), study.LABELS)
    assert {run[1] for stage in choosing for run in stage} == {"all"}
    before: set[str] = set()
    for stage in choosing:
        for method, _, _ in stage:
            assert {*study.TAKES.get(method, {}).values()} <= before
        before |= {run[0] for run in stage}
    assert before == set(study.METHODS)
    assert ("posterior", "noisy", 9) in last
    assert ("network and inertia", "5", 9) not in last


def test_as_first_written_nothing_is_said_or_seen_of_drifting(made):
    pairs = methods.read(made)
    choice = {key: values[0] for key, values in study.GRIDS["both, as first written"].items()}
    wide = methods.wide(pairs, choice)
    assert "drift" in methods.wide(pairs, {}).features
    assert "drift" not in wide.features
    assert wide.measures["Drifts"].at_least > max(pairs.pairs["drift"])


@pytest.mark.slow
def test_processes_write_the_same_records(made, tmp_path):
    for processes in (1, 2):
        out = tmp_path / str(processes)
        list(study.study(made, out, ("rules",), [2, 3], ["all", "5"], processes))
    one, two = ([{**r, "seconds": 0} for r in study.records(tmp_path / str(n))] for n in (1, 2))
    assert one == two
    assert len(one) == 4


def test_a_folder_without_tables_is_told(tmp_path):
    with pytest.raises(DataError, match=r"there is no 'pairs.csv'.*reproduction.caviar.tables"):
        study.Study(Path(tmp_path))
