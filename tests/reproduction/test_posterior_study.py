"""The study of the posterior: its cases, its methods on small worlds, its records."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.grounding.facts import read_facts
from fotltn.grounding.labels import labels
from fotltn.posterior.sampler import Sampling
from reproduction.cli import app
from reproduction.posterior import cases, methods, study
from reproduction.posterior.cases import WORLDS, case
from reproduction.posterior.methods import (
    FROM_TRUTH,
    METHODS,
    Outcome,
    as_table,
    gradient,
    sampled,
    solve,
)
from reproduction.posterior.study import METRICS, Job, grid, scored, table
from reproduction.report.records import read
from reproduction.ward import world
from tests.cli.conftest import Call, caller
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FEW = Sampling(worlds=4, burn_in=4, sweeps=4)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(app, monkeypatch, capsys)


@pytest.fixture
def small(monkeypatch):
    """A ward that is small enough to learn in a moment."""
    generate = world.generate
    monkeypatch.setattr(world, "generate", lambda seed: generate(2, 5, 10, 2, seed=seed))
    monkeypatch.setattr(methods, "EPOCHS", 40)
    cases._ward_source.cache_clear()
    yield
    cases._ward_source.cache_clear()


# --- cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name_of_world", WORLDS)
def test_labels_are_noisy_and_the_rest_is_clean(name_of_world):
    one, again, other = (case(name_of_world, 0.3, repetition) for repetition in (1, 1, 2))
    stated = labels(one.facts, one.theory.signature, one.learned, dtype=torch.float32)
    assert one.train.total + one.test.total == stated.total
    assert abs(one.train.total / stated.total - 0.3) < 0.01
    for name in one.learned:
        clean = torch.full(table_shape(one, name), -1, dtype=torch.float32)
        clean[tuple(stated.index[name])] = stated.truth[name]
        assert torch.equal(clean[tuple(one.test.index[name])], one.test.truth[name])
        wrong = clean[tuple(one.train.index[name])] != one.train.truth[name]
        assert wrong.float().mean() < 0.35
        assert torch.equal(one.train.truth[name], again.train.truth[name])
    assert any(not torch.equal(one.train.index[n], other.train.index[n]) for n in one.learned)
    assert set(one.tables.predicates).isdisjoint(one.learned)
    assert set(one.stated["predicate"].to_pylist()) == set(one.tables.predicates)
    assert all(axiom.hard for axiom in one.theory.axioms)


def table_shape(one, name):
    decl = one.theory.signature.predicates[name]
    sizes = (one.tables.sizes[sort] for sort in decl.sorts)
    return (one.tables.batch, *sizes, 1 if decl.static else one.tables.horizon)


def test_no_type_is_told():
    one = case("CarPed35K", 0.1, 0)
    assert one.train.truth["Car"].shape[0] == 10
    assert set(one.define) == {"Stop", "Run", "OnSidewalk"}


def test_a_table_of_labels_gives_the_labels():
    one = case("ward", 0.2, 0)
    read_back = read_facts(
        [one.stated, as_table(one.train, one)], one.theory.signature, horizon=world.WARD.steps
    )
    again = labels(read_back, one.theory.signature, one.learned, dtype=torch.float32)
    for name in one.learned:
        ours = {(*cell, t) for *cell, t in zip(*one.train.index[name].tolist(),
                one.train.truth[name].tolist(), strict=True)}  # fmt: skip
        lists = [one.facts.traces, *(one.facts.entities[s] for s in one.train.sorts[name])]
        named = [read_back.traces, *(read_back.entities[s] for s in one.train.sorts[name])]
        theirs = set()
        for *cell, time_, truth in zip(*again.index[name].tolist(), again.truth[name].tolist(),
                                       strict=True):  # fmt: skip
            place = [
                here.index(there[n]) for here, there, n in zip(lists, named, cell, strict=True)
            ]
            theirs.add((*place, time_, truth))
        assert ours == theirs, name


def test_an_unknown_world():
    with pytest.raises(DataError, match="unknown world 'wrad'; did you mean 'ward'"):
        case("wrad", 0.1, 0)


# --- methods ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=[pytest.mark.slow] if "learned" in method else [])
        for method in (*METHODS, FROM_TRUTH)
    ],
)
def test_methods_give_probabilities_of_all_cells(method):
    one = case("ward", 0.5, 0)
    if method == "posterior":  # the automata of all axioms take seconds; slow cases have them
        few = [axiom for axiom in one.theory.axioms if axiom.name.startswith("D")]
        one = replace(one, theory=replace(one.theory, axioms=tuple(few)))
    outcome = solve(method, one, FEW, "cpu")
    for name in one.learned:
        degrees = outcome.degrees[name]
        assert tuple(degrees.shape) == table_shape(one, name)
        assert ((degrees >= -1e-6) & (degrees <= 1 + 1e-6)).all()
    better = scored(outcome.degrees, one.test)
    assert better["pr_auc"] > better["chance"]
    if method.startswith("posterior"):
        assert set(outcome.more["rates"]) == set(one.learned)
        told = outcome.more["rates"]["Ill"] == pytest.approx([0.2, 0.02])
        assert told is (method == "posterior")


@pytest.mark.usefixtures("small")
def test_tables_of_models_are_in_the_order_of_the_case():
    """All labels, all true: what is learned is what they say, cell by cell."""
    one = case("ward", 0.5, 0)
    every = labels(one.facts, one.theory.signature, one.learned, dtype=torch.float32)
    order = torch.randperm(every.truth["Ill"].shape[0], generator=torch.Generator().manual_seed(0))
    index = {n: i.flip(1) if n != "Ill" else i[:, order] for n, i in every.index.items()}
    truth = {n: t.flip(0) if n != "Ill" else t[order] for n, t in every.truth.items()}
    shuffled = replace(every, index=index, truth=truth)
    learned = gradient(replace(one, train=shuffled))
    assert scored(learned, every)["pr_auc"] > 0.9


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_what_a_case_defines_is_defined():
    one = case("ward", 0.5, 0)
    theory = replace(one.theory, axioms=tuple(a for a in one.theory.axioms if a.name != "D2"))
    said = replace(one, theory=theory, define={"Busy": "exists p. Tends(x, p)"})
    outcome = sampled(said, FEW, "cpu", told=True)
    nurses = outcome.degrees["Tends"].sum(2)
    assert torch.allclose(outcome.degrees["Busy"], nurses)
    both = gradient(said)
    assert both["Busy"].shape == outcome.degrees["Busy"].shape


def test_records_of_the_study_are_read():
    """Also what they alone have, as the rates of noise."""
    records = read(ROOT / "docs" / "posterior" / "runs.jsonl")
    assert records
    assert all("rates" in one.extra for one in records if one.method.startswith("posterior"))


def test_unknown_names():
    with pytest.raises(DataError, match="unknown method 'postrior'; did you mean 'posterior'"):
        Job("ward", "postrior", 0.1, 0)
    with pytest.raises(DataError, match="unknown world 'word'; did you mean 'ward'"):
        Job("word", "posterior", 0.1, 0)
    with pytest.raises(DataError, match="a share of the facts must be between 0 and 1, not 1"):
        Job("ward", "posterior", 1, 0)
    with pytest.raises(DataError, match="a repetition must be at least 0, not -1"):
        Job("ward", "posterior", 0.1, -1)
    with pytest.raises(DataError, match="the limit of deliveries cannot start its chains at the"):
        Job("deliveries", FROM_TRUTH, 0.1, 0)
    with pytest.raises(DataError, match="unknown method 'all'; there are"):
        solve("all", case("ward", 0.1, 0), FEW, "cpu")


def test_scores_by_hand():
    test = case("ward", 0.5, 0).test.only(["Ill", "Recovers"])
    shapes = {n: table_shape(case("ward", 0.5, 0), n) for n in test.truth}
    truth = {n: torch.zeros(shape, dtype=torch.float32) for n, shape in shapes.items()}
    for name, one in truth.items():
        one[tuple(test.index[name])] = test.truth[name]
    perfect = scored(truth, test)
    assert (perfect["pr_auc"], perfect["ece"]) == (1.0, 0.0)
    assert perfect["log_loss"] == pytest.approx(-np.log(0.999))
    half = scored({n: torch.full_like(one, 0.5) for n, one in truth.items()}, test)
    assert half["log_loss"] == pytest.approx(np.log(2))
    shares = [float(t.mean()) for t in test.truth.values()]
    assert half["pr_auc"] == half["chance"] == pytest.approx(np.mean(shares))
    everything = float(torch.cat([*test.truth.values()]).mean())
    assert half["ece"] == pytest.approx(abs(everything - 0.5))


# --- records ---------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Methods that only say what they were asked."""
    asked = []

    def pretend(method, one, sampling, device):
        asked.append((method, sampling.seed, device))
        tables = {n: torch.full(table_shape(one, n), 0.5) for n in one.learned}
        return Outcome(tables, {"note": method})

    monkeypatch.setattr(study, "solve", pretend)
    return asked


def test_what_is_on_record_is_not_run_again(quick, tmp_path):
    path, told = tmp_path / "deep" / "runs.jsonl", []
    first = list(grid(["ward"], ["gradient", "limit"], [0.1], 2))
    assert study.study(first[:3], path) == 3
    assert study.study([*first, *first], path, on_done=lambda *now: told.append(now)) == 1
    assert len(quick) == 4
    assert [(count, total) for *_, count, total in told] == [(4, 4)]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {tuple(one[k] for k in asdict(first[0])) for one in rows} == {
        tuple(asdict(job).values()) for job in first
    }
    assert {one["note"] for one in rows} == {"gradient", "limit"}
    assert all(one["seconds"] >= 0 and one["setting"]["worlds"] == 32 for one in rows)
    path.write_bytes(path.read_bytes()[:-20])
    assert study.study(first, path) == 1
    with pytest.raises(DataError, match=r"another setting \(sweeps: 80 there, 9 here\)"):
        study.study(first, path, sampling=Sampling(sweeps=9))


@pytest.mark.usefixtures("quick")
def test_records_are_records_like_others(tmp_path):
    path = tmp_path / "runs.jsonl"
    study.study(grid(["ward", "deliveries"], ["limit", "posterior"], [0.8, 0.3], 2), path)
    records = read(path)
    assert len(records) == 16
    for metric, title in METRICS.items():
        shown = table(records, metric)
        assert shown.title == title
        assert shown.head == ("world", "method", "30 %", "80 %")
        names = [[cell.text for cell in line[:2]] for group in shown.groups for line in group]
        assert names == [["ward", "posterior"], ["ward", "limit"],
                         ["deliveries", "posterior"], ["deliveries", "limit"]]  # fmt: skip


def test_the_grid_has_all_of_a_repetition_first():
    jobs = list(grid(repetitions=2))
    assert len(jobs) == len(set(jobs)) == 2 * len(WORLDS) * len(METHODS) * 3
    assert {job.repetition for job in jobs[: len(jobs) // 2]} == {0}


@pytest.mark.usefixtures("quick")
def test_the_command(call, tmp_path):
    args = ["--world", "ward", "--method", "limit", "--fraction", "0.3", "--repetitions", "2"]
    first = call("posterior", tmp_path / "out", *args, "--json")
    assert (first.status, first.err) == (0, "")
    said = json.loads(first.out)
    assert (said["ok"], said["runs"], said["new"]) == (True, 2, 2)
    again = call("posterior", tmp_path / "out", *args, "--repetitions", "1")
    assert again.status == 0
    assert "PR-AUC on facts without a label" in again.out
    assert "0 of 2 runs done now" in again.out
    other = call("posterior", tmp_path / "out", *args, "--sweeps", "3")
    assert other.status == 1
    assert "a record of another setting (sweeps: 80 there, 3 here)" in other.err
    other = call("posterior", tmp_path / "out", *args, "--enough", "0")
    assert other.status == 1
    assert "a record of another setting (enough: 400 there, None here)" in other.err
    report = call("report", tmp_path / "out", "-o", tmp_path / "page.html")
    assert report.status == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--world", "wrad"], "unknown world 'wrad'; did you mean 'ward'?"),
        (["--method", "posteriors"], "unknown method 'posteriors'; did you mean 'posterior'?"),
        (["--fraction", "1.5"], "a share of the facts must be between 0 and 1, not 1.5"),
        (["--device", "gpu"], "the device 'gpu' cannot be used: expected cpu or cuda"),
    ],
)
def test_bad_names(call, tmp_path, args, message):
    answer = call("posterior", tmp_path / "out", *args)
    assert (answer.status, answer.out) == (1, "")
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ctrl_c_loses_nothing_that_is_done(tmp_path):
    """Runs in two processes, interrupted after the first record; the rest is run afterwards."""
    args = ["posterior", str(tmp_path), "--world", "CarPed35K", "--method", "limit",
            "--fraction", "0.1", "--repetitions", "6"]  # fmt: skip
    command = [sys.executable, "-m", "reproduction", *args, "--processes", "2"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    path = tmp_path / "runs.jsonl"
    limit = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    count = len(read(path))
    assert 1 <= count < 6
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert f"{6 - count} of 6 runs done now" in done.stdout


def test_repetitions_of_what_is_sampled_are_one_computation(quick, monkeypatch, tmp_path):
    one_by_one = vars(study)["solve"]

    def pretend(method, works, sampling, device):
        return [one_by_one(method, one, sampling, device) for one in works]

    monkeypatch.setattr(study, "sampled_together", pretend)
    told = []
    jobs = list(grid(["ward"], ["posterior", "limit"], [0.1, 0.3], 2))
    study.study(jobs, tmp_path / "runs.jsonl", together=True, on_done=lambda *now: told.append(now))
    assert sorted(len(batch) for batch, *_ in told) == [1, 1, 1, 1, 2, 2]
    assert all({job.repetition for job in batch} == {0, 1} for batch, *_ in told if len(batch) > 1)
    assert len(quick) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_repetitions_are_sampled_at_once(tmp_path):
    path, told = tmp_path / "runs.jsonl", []
    jobs = list(grid(["ward"], ["posterior"], [0.5], 2))
    new = study.study(
        jobs, path, sampling=FEW, together=True, on_done=lambda *now: told.append(now)
    )
    records = read(path)
    assert (new, len(told), [one.batch for one in records]) == (2, 1, [2, 2])
    assert [one.repetition for one in records] == [0, 1]
    first, second = (one.extra["rates"] for one in records)
    assert first == second
    assert records[0].pr_auc != records[1].pr_auc
    assert all(one.pr_auc > one.chance for one in records)
    assert study.study(jobs, path, sampling=FEW) == 0
